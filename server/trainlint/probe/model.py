"""The base of what a probe writes to disk and reads back."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticSerializationError

from trainlint.source.encodable import encodable


class Model(BaseModel):
    """Never changed once made; a field that is not known is an error rather than lost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_dump_json(self, **options: Any) -> str:
        """The JSON of the model, with escapes for what of its text is none: a job's arguments and paths may be any
        bytes."""
        try:
            return super().model_dump_json(**options)
        except PydanticSerializationError:
            readable = type(self).model_validate(_encodable(self.model_dump()))
            return super(Model, readable).model_dump_json(**options)


def _encodable(value: Any) -> Any:
    match value:
        case str():
            return encodable(value)
        case dict():
            return {_encodable(key): _encodable(one) for key, one in value.items()}
        case list() | tuple():
            return [_encodable(one) for one in value]
        case _:
            return value
