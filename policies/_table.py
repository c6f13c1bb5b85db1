"""The ground of the schema: the frozen table, and the types that many keys share.

Imports pydantic only.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Count", "Json", "Pattern", "Seconds", "Table"]

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Pattern = Annotated[str, Field(min_length=1, max_length=400)]
Json = dict[str, Any]


class Table(BaseModel):
    """A TOML table: frozen, and a key it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
