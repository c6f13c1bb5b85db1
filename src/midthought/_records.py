"""Records go out through loguru, silent until ``midthought.journal`` or the host enables them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loguru import logger

__all__ = ["LEVEL", "record"]

logger.disable("midthought")

#: Below loguru's default handler, which would else write every record of a journal to the terminal.
LEVEL = logger.level("RECORD", no=4, icon="·").name


def record(name: str, fields: Mapping[str, Any]) -> None:
    """Log one record: its name is the message, its fields are bound as ``extra['record']``."""
    logger.bind(record={"event": name, **fields}).log(LEVEL, name)
