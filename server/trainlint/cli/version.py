"""`trainlint version`."""

from __future__ import annotations

from collections.abc import Sequence

from trainlint import __version__
from trainlint.cli.arguments import VerbParser


def main(arguments: Sequence[str]) -> int:
    parser = VerbParser("version", "[--output-format text|json]", "Print the version.")
    parser.add_argument("--output-format", choices=("text", "json"), default="text", help="default: text")
    if parser.parse(arguments).output_format == "json":
        import json

        print(json.dumps({"version": __version__}))
    else:
        print(f"trainlint {__version__}")
    return 0
