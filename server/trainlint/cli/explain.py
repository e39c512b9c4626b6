"""`trainlint explain CODE|NAME`: print the page of a rule.
`trainlint explain PATH:ROW [CODE|NAME]`: say why a finding is there, or why it is not."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainlint.cli.arguments import VerbParser, add_colour, add_configuration
from trainlint.cli.check_arguments import add_evidence, add_known, add_selection, check_path_map, settings_of
from trainlint.cli.failure import Failure
from trainlint.cli.program import FAILED
from trainlint.cli.terminal import is_terminal, wants_colour
from trainlint.lint.registry import Registry, load_registry
from trainlint.lint.rule import Rule
from trainlint.report.rule_page import page_of

if TYPE_CHECKING:
    from trainlint.lint.check_options import CheckOptions
    from trainlint.lint.explaining import Explanation
    from trainlint.report.sources import Sources

_NOTEBOOK = ".ipynb"
_PLACE = re.compile(r"(?P<path>.+?)(?P<numbers>(?::(?:cell )?\d+){1,3}):?", re.DOTALL)
"""A path before one to three numbers, as reports write places; a drive letter belongs to the path."""

_NO_STANDARD_INPUT = "standard input cannot be explained; save it to a file"


def parser() -> VerbParser:
    verb = VerbParser(
        "explain",
        "CODE|NAME | PATH:ROW [CODE|NAME] [OPTIONS]",
        "Print the page of a rule; or say why a row is reported, or why it is not.",
    )
    verb.add_argument(
        "subject",
        metavar="CODE|NAME|PATH:ROW",
        help="a rule's code or name (TL201, sync-in-step), or a row (train.py:41; of a notebook, "
        "train.ipynb:CELL:ROW; a column behind it is passed over)",
    )
    verb.add_argument(
        "rule", nargs="?", metavar="CODE|NAME", help="the rule that is asked about, at a row (default: all rules)"
    )
    as_in_check = verb.add_argument_group("at a row: what a check would be told")
    add_selection(as_in_check)
    add_known(as_in_check)
    add_evidence(as_in_check)
    add_configuration(as_in_check)
    add_colour(verb)
    return verb


def main(arguments: Sequence[str]) -> int:
    if any(word.startswith("-:") for word in arguments):
        raise Failure(_NO_STANDARD_INPUT)
    found = parser().parse(arguments)
    place = place_of(found.subject)
    if place is not None:
        return _explain(place, found)
    if found.rule is not None or _is_told_more(found):
        raise Failure(f"`{found.subject}` is no row of a file; write PATH:ROW, such as train.py:41")
    page = page_of(_rule(load_registry(), found.subject))
    if is_terminal(sys.stdout) or found.color == "always":
        _print_rendered(page, wants_colour(found.color, sys.stdout))
    else:
        print(page)
    return 0


def _is_told_more(found: argparse.Namespace) -> bool:
    """Whether options are given that change what is reported at a row, and nothing on the page of a rule."""
    others = found.min_severity, found.baseline, found.changed_since, found.evidence
    return bool(settings_of(found)) or any(one is not None for one in others)


class Place(NamedTuple):
    """A row of a file, as users see it."""

    path: Path
    cell: int | None
    """Of a notebook; None in any other file."""
    row: int


def place_of(text: str) -> Place | None:
    """The row of a file that a word names; None where it names none.

    Raises:
        Failure: it names a file without a row, or a notebook without a cell.
    """
    found = _PLACE.fullmatch(text)
    if found is None:
        if text == "-":
            raise Failure(_NO_STANDARD_INPUT)
        if Path(text).is_file():
            raise Failure(f"`{text}` names no row; write PATH:ROW, such as {text}:41")
        return None
    path = Path(found["path"])
    numbers = [int(number) for number in re.findall(r"\d+", found["numbers"])]
    if path.suffix == _NOTEBOOK:
        if len(numbers) == 1:
            raise Failure(f"`{text}` names no cell; in a notebook, write PATH:CELL:ROW, such as {path}:3:12")
        return Place(path, numbers[0], numbers[1])
    if len(numbers) > 2 or "cell" in found["numbers"]:
        raise Failure(f"`{text}` has more numbers than a row and a column; only notebooks have cells")
    return Place(path, None, numbers[0])


def _explain(place: Place, found: argparse.Namespace) -> int:
    """Explain a row.

    Raises:
        Failure: there is no such row, or no such rule.
        ConfigError: a configuration is wrong.
    """
    from trainlint.lint.explaining import Asking, NoSuchPlaceError, explain
    from trainlint.report.explanation import lines
    from trainlint.report.sources import Sources
    from trainlint.report.view import View
    from trainlint.source.discovery import absolute

    path = absolute(place.path)
    if not path.exists():
        raise Failure(f"{place.path}: no such file")
    if path.is_dir():
        raise Failure(f"{place.path} is a folder; name a file and a row: PATH:ROW")
    check_path_map(found)
    code = None if found.rule is None else _rule(load_registry(), found.rule).code
    try:
        explanation = explain(Asking(path, place.cell, place.row, code), _options(found))
    except NoSuchPlaceError as error:
        raise Failure(f"{place.path}: {error}") from error
    sources = Sources()
    _leave_out_known(explanation, found, sources)
    view = View(Path.cwd(), sources, wants_colour(found.color, sys.stdout))
    for line in lines(explanation, view):
        print(line)
    for warning in explanation.warnings:
        print(f"trainlint: warning: {warning}", file=sys.stderr)
    for error_text in explanation.errors:
        print(f"trainlint: {error_text}", file=sys.stderr)
    return FAILED if explanation.errors else 0


def _options(found: argparse.Namespace) -> CheckOptions:
    """What the engine is told, as a check would tell it."""
    from trainlint.cli.check_arguments import configuration
    from trainlint.lint.check_options import CheckOptions

    verdicts = None
    if found.evidence is not None:
        from trainlint.cli.evidence import load_verdicts

        verdicts = load_verdicts(found.evidence, found.path_map)
    config_file, overrides = configuration(found.config, found.isolated)
    settings = settings_of(found)
    return CheckOptions(
        overrides=overrides | settings,
        flags=frozenset(settings),
        config_file=config_file,
        isolated=found.isolated,
        min_severity=found.min_severity,
        verdicts=verdicts,
    )


def _leave_out_known(explanation: Explanation, found: argparse.Namespace, sources: Sources) -> None:
    """Leave out what a baseline lists, and what stands on lines that have not changed."""
    if found.baseline is not None:
        from trainlint.cli.baselines import load

        new = load(found.baseline).new(explanation.all_reported, sources)
        explanation.leave_out([one for one in explanation.reported if one not in new], "the baseline lists it")
    if found.changed_since is not None:
        from trainlint.cli.changed import ChangedLines

        changed = ChangedLines(found.changed_since, [explanation.asking.path])
        touched = changed.among(explanation.reported, {})
        old = [one for one in explanation.reported if one not in touched]
        explanation.leave_out(old, f"no row of it has changed since {found.changed_since} (--changed-since)")


def _rule(registry: Registry, code_or_name: str) -> type[Rule]:
    rule = registry.find(code_or_name) or registry.find(code_or_name.upper())
    if rule is not None:
        return rule
    nearest = registry.nearest(code_or_name)
    hint = f"did you mean `{nearest}`?" if nearest else "`trainlint rules` lists all."
    if ":" in code_or_name:
        hint = "write a place as PATH:ROW, such as train.py:41"
    raise Failure(f"there is no rule `{code_or_name}`; {hint}")


def _print_rendered(page: str, colour: bool) -> None:
    from rich.console import Console
    from rich.markdown import Markdown

    Console(no_color=not colour, force_terminal=colour or None, highlight=False).print(Markdown(page))
