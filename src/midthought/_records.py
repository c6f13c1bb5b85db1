"""Records go out through loguru, silent until ``midthought.journal`` or the host enables them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loguru import logger

__all__ = ["record"]

logger.disable("midthought")


def record(name: str, fields: Mapping[str, Any]) -> None:
    """Log one record: its name is the message, its fields are bound as ``extra['record']``."""
    logger.bind(record={"event": name, **fields}).info(name)
