"""The JSON schema of the configuration, which editors complete and check `trainlint.toml` with.

`trainlint config --schema` prints it; `trainlint.schema.json` beside this file is the shipped copy, which
`docs/build_pages.py` writes.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainlint.config.settings import RULE_CODE, Settings
from trainlint.config.validation import properties

SHIPPED = Path(__file__).with_name("trainlint.schema.json")
RULE_NAME = r"^[a-z][a-z0-9]*(-[a-z0-9]+)+$"
"""Names with a hyphen only, so that a misspelt one-word setting is not taken for a rule."""


EXAMPLES = {
    "extend": 'extend = "../shared/trainlint.toml"',
    "select": 'select = ["TL1", "TL2", "data-parallel"]',
    "extend-select": 'extend-select = ["TL004"]',
    "ignore": 'ignore = ["print-in-step"]',
    "per-file-ignores": '[per-file-ignores]\n"benchmarks/" = ["TL205"]\n"*_test.py" = ["ALL"]',
    "exclude": 'exclude = ["third_party/", "*_generated.py"]',
    "extend-exclude": 'extend-exclude = ["third_party/"]',
    "severity": '[severity]\nTL2 = "error"\npad-max-length = "info"',
    "min-confidence": 'min-confidence = "high"',
    "device": 'device = "cuda"',
    "distributed": "distributed = true",
    "step-functions": 'step-functions = ["train_step"]',
    "sync-functions": 'sync-functions = ["reduce_dict"]',
    "rank-guards": 'rank-guards = ["is_chief"]',
    "loader-factories": 'loader-factories = ["build_loader"]',
    "torch-version": 'torch-version = "2.4"',
    "require-suppression-reason": "require-suppression-reason = true",
    "plugins": "plugins = []  # the built-in rules alone",
}
"""How each setting may be written in `trainlint.toml`."""


def schema(options: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, object]:
    """The schema of the table [tool.trainlint], which is also that of the whole of `trainlint.toml`.

    Args:
        options: for each installed rule, by code and by name, the schema of its options; None of them by default.
    """
    rules = options or {}
    keys = {key: _plain(value) | {"examples": [_example(key)]} for key, value in properties().items()}
    keys |= {key: dict(table) for key, table in rules.items() if table.get("properties")}
    without = [key for key, table in rules.items() if not table.get("properties")]
    none = {f"^({'|'.join(without)})$": {"maxProperties": 0}} if without else {}
    any_options = {"type": "object", "description": "Options of one rule."}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://trainlint.readthedocs.io/en/latest/trainlint.schema.json",
        "title": "trainlint",
        "description": Settings.__doc__,
        "type": "object",
        "properties": keys,
        "patternProperties": {
            RULE_CODE: any_options,
            f"^(?!({'|'.join(EXAMPLES)})$){RULE_NAME.removeprefix('^')}": any_options,
        }
        | none,
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


def _example(key: str) -> object:
    return tomllib.loads(EXAMPLES[key])[key]


def dump(options: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of the schema's file."""
    return json.dumps(schema(options), indent=2, ensure_ascii=False) + "\n"
