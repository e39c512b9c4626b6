"""`trainlint explain CODE|NAME`: print the page of a rule."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from trainlint.cli.arguments import VerbParser, add_colour
from trainlint.cli.failure import Failure
from trainlint.cli.terminal import is_terminal, wants_colour
from trainlint.lint.registry import Registry, load_registry
from trainlint.lint.rule import Rule
from trainlint.report.rule_page import page_of


def parser() -> VerbParser:
    verb = VerbParser("explain", "CODE|NAME", "Print the page of a rule: what it reports, why, and what to do.")
    verb.add_argument("rule", metavar="CODE|NAME", help="a rule's code or name: TL201, sync-in-step")
    add_colour(verb)
    return verb


def main(arguments: Sequence[str]) -> int:
    found = parser().parse(arguments)
    page = page_of(_rule(load_registry(), found.rule))
    if is_terminal(sys.stdout) or found.color == "always":
        _print_rendered(page, wants_colour(found.color, sys.stdout))
    else:
        print(page)
    return 0


def _rule(registry: Registry, code_or_name: str) -> type[Rule]:
    rule = registry.find(code_or_name) or registry.find(code_or_name.upper())
    if rule is not None:
        return rule
    nearest = registry.nearest(code_or_name)
    hint = f"did you mean `{nearest}`?" if nearest else "`trainlint rules` lists all."
    raise Failure(f"there is no rule `{code_or_name}`; {hint}")


def _print_rendered(page: str, colour: bool) -> None:
    from rich.console import Console
    from rich.markdown import Markdown

    Console(no_color=not colour, force_terminal=colour or None, highlight=False).print(Markdown(page))
