"""What `trainlint doctor` found, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from trainlint.probe.doctor.check import Check, State
from trainlint.report.style import Ink, Style, printable

INKS = {State.OK: Ink.CYAN, State.LIMITED: Ink.YELLOW, State.MISSING: Ink.RED}
STATE_WIDTH, NAME_WIDTH = 7, 13
SCHEMA_VERSION = 1


def as_text(checks: Iterable[Check], style: Style) -> Iterator[str]:
    """One line a check, and below it what to do."""
    for check in checks:
        state = style.paint(f"{check.state:<{STATE_WIDTH}}", INKS[check.state])
        yield f"{state}  {style.paint(f'{check.name:<{NAME_WIDTH}}', Ink.BOLD)}  {printable(check.found)}\n"
        if check.advice is not None:
            yield f"{'':{STATE_WIDTH + NAME_WIDTH + 4}}{style.paint('to do:', Ink.BOLD)} {printable(check.advice)}\n"


def as_json(checks: Iterable[Check]) -> str:
    """`{schema_version, checks: [{name, state, found, advice}]}`."""
    document = {"schema_version": SCHEMA_VERSION, "checks": [asdict(check) for check in checks]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
