"""`trainlint doctor`: say what this environment allows a probe to measure, and what to do."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from trainlint.cli.arguments import VerbParser, add_colour, add_text_or_json
from trainlint.cli.terminal import wants_colour
from trainlint.probe.doctor import examine
from trainlint.report.doctor import as_json, as_text
from trainlint.report.style import Style


def parser() -> VerbParser:
    verb = VerbParser(
        "doctor", "[--python PATH] [OPTIONS]", "Say what this environment allows a probe to measure, and what to do."
    )
    verb.add_argument(
        "--python", metavar="PATH", help="interpreter of the training environment (default: the python on the path)"
    )
    add_text_or_json(verb)
    add_colour(verb)
    return verb


def main(arguments: Sequence[str]) -> int:
    found = parser().parse(arguments)
    checks = examine(found.python)
    if found.output_format == "json":
        print(as_json(checks), end="")
    else:
        for line in as_text(checks, Style(wants_colour(found.color, sys.stdout))):
            print(line, end="", flush=True)
    return 0
