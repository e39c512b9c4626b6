"""From the tables of a configuration to settings, or to what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictBool, TypeAdapter, WithJsonSchema

from trainlint.config.settings import TORCH_VERSION, Distributed, Settings


def _truth_as_word(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


@dataclass(frozen=True)
class _Written(Settings):
    """Settings with what their types do not say about how they are written."""

    distributed: Annotated[
        Distributed,
        BeforeValidator(_truth_as_word),
        WithJsonSchema({"enum": ["auto", "true", "false", True, False]}),
    ] = "auto"
    torch_version: Annotated[str, Field(pattern=TORCH_VERSION)] | None = None
    require_suppression_reason: StrictBool = False


_WRITTEN = TypeAdapter(_Written)


def validated(values: Mapping[str, object]) -> Settings:
    """Make settings of values by key.

    Raises:
        pydantic.ValidationError: some are wrong.
    """
    written = _WRITTEN.validate_python(values)
    return Settings(**{one.name: getattr(written, one.name) for one in fields(Settings)})


def properties() -> dict[str, dict[str, Any]]:
    """The JSON schema of each key, with its description."""
    described = TypeAdapter(Settings).json_schema(by_alias=True)["properties"]
    written: dict[str, dict[str, Any]] = _WRITTEN.json_schema(by_alias=True)["properties"]
    return {
        key: value | {"description": described[key]["description"]} for key, value in written.items() if key != "rules"
    }
