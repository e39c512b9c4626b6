"""`trainlint version`."""

from __future__ import annotations

from collections.abc import Sequence

from trainlint import __version__
from trainlint.cli.arguments import VerbParser, add_text_or_json


def parser() -> VerbParser:
    verb = VerbParser("version", "[--output-format text|json]", "Print the version.")
    add_text_or_json(verb)
    return verb


def main(arguments: Sequence[str]) -> int:
    if parser().parse(arguments).output_format == "json":
        import json

        print(json.dumps({"version": __version__}))
    else:
        print(f"trainlint {__version__}")
    return 0
