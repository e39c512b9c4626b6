"""The base of what a probe writes to disk and reads back."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Never changed once made; a field that is not known is an error rather than lost."""

    model_config = ConfigDict(frozen=True, extra="forbid")
