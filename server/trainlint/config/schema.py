"""The JSON schema of the configuration, which editors complete and check `trainlint.toml` with.

`python -m trainlint.config.schema` prints it; `trainlint.schema.json` beside this file is the shipped copy.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from trainlint.config.settings import RULE_CODE, Settings
from trainlint.config.validation import properties

SHIPPED = Path(__file__).with_name("trainlint.schema.json")
RULE_NAME = r"^[a-z][a-z0-9]*(-[a-z0-9]+)+$"
"""Names with a hyphen only, so that a misspelt one-word setting is not taken for a rule."""


def schema() -> dict[str, object]:
    """The schema of the table [tool.trainlint], which is also that of the whole of `trainlint.toml`."""
    keys = {key: _plain(value) for key, value in properties().items()}
    options = {"type": "object", "description": "Options of one rule."}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://trainlint.readthedocs.io/en/latest/trainlint.schema.json",
        "title": "trainlint",
        "description": Settings.__doc__,
        "type": "object",
        "properties": keys,
        "patternProperties": {
            RULE_CODE: options,
            f"^(?!({'|'.join(keys)})$){RULE_NAME.removeprefix('^')}": options,
        },
        "additionalProperties": False,
    }


def _plain(prop: dict[str, Any]) -> dict[str, Any]:
    """A property without the generated titles, and without null, which TOML cannot say."""
    alternatives = [choice for choice in prop.get("anyOf", ()) if choice != {"type": "null"}]
    joined = {**prop, **alternatives[0]} if len(alternatives) == 1 else prop
    dropped = {"title", "anyOf"} if len(alternatives) == 1 else {"title"}
    return {
        key: value for key, value in joined.items() if key not in dropped and not (key == "default" and value is None)
    }


def dump() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(dump())
