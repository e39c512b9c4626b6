"""Write the pages of all built-in rules, and their index, from the rules themselves.

`build_rule_pages.py` writes them below `docs/rules/`; with `--check` it writes nothing and exits with 1 where a page
is missing, out of date, or of no rule.
"""

from __future__ import annotations

import argparse
import sys
from itertools import groupby
from pathlib import Path

from trainlint.lint.registry import load_registry
from trainlint.lint.rule import Rule
from trainlint.report.rule_page import page_of

FOLDER = Path(__file__).parent / "rules"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare")
    pages = build()
    return compare(pages) if parser.parse_args().check else write(pages)


def build() -> dict[str, str]:
    """Text of each page by file name."""
    registry = load_registry(plugins=())
    rules = [registry.rules[code] for code in sorted(registry.rules)]
    pages = {f"{rule.name}.md": page_of(rule).rstrip() + "\n" for rule in rules}
    return pages | {"index.md": index_of(rules)}


def index_of(rules: list[type[Rule]]) -> str:
    parts = ["# Rules\n"]
    for family, members in groupby(rules, key=lambda rule: rule.family):
        parts.append(
            f"## {family.value.capitalize()}\n\n| code | name | | default | fix |\n| --- | --- | --- | --- | --- |"
        )
        parts += [
            f"| {rule.code} | [{rule.name}]({rule.name}.md) | {rule.summary()} "
            f"| {'on' if rule.default else 'off'} | {rule.fix_class.value} |"
            for rule in members
        ]
        parts.append("")
    return "\n".join(parts)


def write(pages: dict[str, str]) -> int:
    """Make the folder hold exactly these pages."""
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


def compare(pages: dict[str, str]) -> int:
    """Say on standard error which pages differ from what is in the folder."""
    present = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    stale = sorted(name for name in pages.keys() | present.keys() if pages.get(name) != present.get(name))
    for name in stale:
        print(f"docs/rules/{name} is not what its rule says; run: make docs", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
