"""Write the pages that follow from the program: those of all built-in rules, their index, and that of the settings.

`build_pages.py` writes them below `docs/`; with `--check` it writes nothing and exits with 1 where a page is missing,
out of date, or of no rule.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

from trainlint.config import schema
from trainlint.lint.registry import load_registry
from trainlint.lint.rule import Rule
from trainlint.report.rule_page import page_of

FOLDER = Path(__file__).parent
RULES = "rules"
SETTINGS = "reference/configuration.md"
START, END = "<!-- settings: begin -->\n", "<!-- settings: end -->\n"
"""Between these lines, the page of the settings is generated."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare")
    pages = build()
    return compare(pages) if parser.parse_args().check else write(pages)


def build() -> dict[str, str]:
    """Text of each page by its path below `docs/`."""
    registry = load_registry(plugins=())
    rules = [registry.rules[code] for code in sorted(registry.rules)]
    pages = {f"{RULES}/{rule.name}.md": page_of(rule).rstrip() + "\n" for rule in rules}
    return pages | {f"{RULES}/index.md": index_of(rules), SETTINGS: settings_page()}


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


def settings_page() -> str:
    """The page of the settings, with what the schema says between the marks."""
    before, _, rest = (FOLDER / SETTINGS).read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(END)
    return "".join([before, START, "\n", *settings_of(schema.schema()["properties"]), END, after])


def settings_of(properties: object) -> Iterator[str]:
    """A section for each setting of the schema."""
    assert isinstance(properties, dict)
    for key, setting in properties.items():
        yield f"### {key}\n\n{setting['description']}\n\n"
        yield f"- Values: {values_of(setting)}\n"
        if "default" in setting:
            yield f"- Default: {default_of(setting['default'])}\n"
        yield "\n"


def values_of(setting: Mapping[str, object]) -> str:
    """The values that a setting may have, in words."""
    match setting:
        case {"enum": [*choices]}:
            return ", ".join(f"`{json.dumps(choice)}`" for choice in choices)
        case {"type": "array"}:
            return "a list of strings"
        case {"type": "object"}:
            return "a table"
        case {"type": "boolean"}:
            return "`true`, `false`"
        case {"type": kind}:
            return f"a {kind}"
    raise ValueError(f"no words for {setting}")


def default_of(value: object) -> str:
    if isinstance(value, list) and value:
        return ", ".join(f"`{json.dumps(item)}`" for item in value)
    return f"`{json.dumps(value)}`"


def write(pages: dict[str, str]) -> int:
    """Make the folders hold exactly these pages."""
    for path in (FOLDER / RULES).glob("*.md"):
        if f"{RULES}/{path.name}" not in pages:
            path.unlink()
    for name, text in pages.items():
        (FOLDER / name).parent.mkdir(exist_ok=True)
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


def compare(pages: dict[str, str]) -> int:
    """Say on standard error which pages differ from what is in the folder."""
    paths = [FOLDER / SETTINGS, *(FOLDER / RULES).glob("*.md")]
    present = {path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    stale = sorted(name for name in pages.keys() | present.keys() if pages.get(name) != present.get(name))
    for name in stale:
        print(f"docs/{name} is not what the program says; run: make docs", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
