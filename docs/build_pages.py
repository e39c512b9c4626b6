"""Write what follows from the program: the pages of all built-in rules, their index, the generated parts of other
pages, and the JSON schemas of the configuration and of a probe's result.

`build_pages.py` writes it; with `--check` it writes nothing and exits with 1 where a page is missing,
out of date, or of no rule.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from symptoms import SYMPTOMS, Symptom

from trainlint.cli.program import VERBS
from trainlint.config import schema
from trainlint.lint.options import option_schema, option_schemas
from trainlint.lint.registry import load_registry
from trainlint.lint.rule import Rule
from trainlint.probe import thresholds
from trainlint.probe.thresholds import Threshold
from trainlint.report import probe_result
from trainlint.report.rule_page import page_of

FOLDER = Path(__file__).parent
REPOSITORY = FOLDER.parent
RULES = "rules"
SETTINGS = "reference/configuration.md"
COMMANDS = "reference/cli.md"
MEASURING = "measuring.md"
RESULT = "reference/probe-result.md"
WHY_IDLE = "why-is-my-gpu-idle.md"
BAR = r"\|"
"""A bar within the cell of a table."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare")
    wanted = files()
    return compare(wanted) if parser.parse_args().check else write(wanted)


def build() -> dict[str, str]:
    """Text of each page by its path below `docs/`."""
    registry = load_registry(plugins=())
    rules = [registry.rules[code] for code in sorted(registry.rules)]
    pages = {f"{RULES}/{rule.name}.md": page_of(rule).rstrip() + "\n" for rule in rules}
    pages |= {
        f"{RULES}/index.md": index_of(rules),
        MEASURING: measuring_page(),
        WHY_IDLE: why_idle_page(registry.rules),
        RESULT: result_page(),
    }
    return pages | {SETTINGS: settings_page(rules), COMMANDS: commands_page()}


def files() -> dict[Path, str]:
    """Text of each file that is generated, or holds a generated part."""
    rules = load_registry(plugins=()).rules.values()
    return {FOLDER / name: text for name, text in build().items()} | {
        schema.SHIPPED: schema.dump(option_schemas(rules)),
        probe_result.SHIPPED: probe_result.schema(),
    }


def index_of(rules: list[type[Rule]]) -> str:
    parts = ["# Rules\n"]
    for family, members in groupby(rules, key=lambda rule: rule.family):
        parts.append(
            f"## {family.value.capitalize()}\n\n| code | name | | default | fix |\n| --- | --- | --- | --- | --- |"
        )
        parts += [
            f"| {rule.code} | [{rule.name}]({rule.name}.md) | {rule.summary()} "
            f"| {'on' if rule.default else 'off'} | {rule.fix_class.label} |"
            for rule in members
        ]
        parts.append("")
    return "\n".join(parts)


def with_part(text: str, name: str, lines: Iterable[str]) -> str:
    """A page with the part anew that stands between the comments `name: begin` and `name: end`."""
    start, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, found, rest = text.partition(start)
    _, _, after = rest.partition(end)
    if not found:
        raise ValueError(f"no place for the part {name}")
    return "".join([before, start, "\n", *lines, end, after])


def settings_page(rules: Iterable[type[Rule]]) -> str:
    """The page of the settings, with what the schema says about them and about the options of rules."""
    text = (FOLDER / SETTINGS).read_text(encoding="utf-8")
    text = with_part(text, "settings", settings_of(schema.schema()["properties"]))
    return with_part(text, "options of rules", options_of(rules))


def options_of(rules: Iterable[type[Rule]]) -> Iterator[str]:
    """A table for each rule that has options."""
    tables = {f"{rule.code} {rule.name}": option_schema(rule).get("properties", {}) for rule in rules}
    if not any(tables.values()):
        yield "None of the built-in rules has options in this version.\n\n"
    for rule, options in tables.items():
        if options:
            yield f"### {rule}\n\n| option | values | default | meaning |\n| --- | --- | --- | --- |\n"
        for key, option in options.items():
            default = default_of(option["default"]) if "default" in option else "none"
            yield f"| `{key}` | {values_of(option)} | {default} | {option.get('description', '')} |\n"
        yield "\n" if options else ""


def measuring_page() -> str:
    """The page about measuring, with a table of the thresholds."""
    return with_part((FOLDER / MEASURING).read_text(encoding="utf-8"), "thresholds", thresholds_table())


def thresholds_table() -> Iterator[str]:
    """A row for each threshold, in the order in which the program declares them."""
    yield "| decides | threshold | source |\n| --- | --- | --- |\n"
    for value in vars(thresholds).values():
        if isinstance(value, Threshold):
            yield f"| {value.decides} | {value.text} | {value.source} |\n"
    yield "\n"


def result_page() -> str:
    """The page of a probe's result, with a row for each field of the JSON."""
    text = (FOLDER / RESULT).read_text(encoding="utf-8")
    return with_part(text, "fields", fields_table(json.loads(probe_result.schema())))


def fields_table(found: Mapping[str, Any]) -> Iterator[str]:
    yield "| field | value | meaning |\n| --- | --- | --- |\n"
    for field in fields_of(found, found["$defs"], ""):
        yield f"| `{field.path}` | {field.value} | {field.meaning} |\n"
    yield "\n"


class Field(NamedTuple):
    """A field of the JSON of a result."""

    path: str
    value: str
    meaning: str


def fields_of(model: Mapping[str, Any], models: Mapping[str, Any], prefix: str) -> Iterator[Field]:
    """The fields of a model by their paths: `gpu[].util_mean`. Findings have a page of their own."""
    for name, field in model["properties"].items():
        named = next((one.rpartition("/")[2] for one in references(field)), "")
        path = f"{prefix}{name}{'[]' if field.get('type') == 'array' and named else ''}"
        told = [models.get(named, {}).get("description", ""), field.get("description", "")]
        yield Field(path, result_value(field), " ".join(" ".join(told).split()))
        if named and named != "FindingJson":
            yield from fields_of(models[named], models, f"{path}.")


def references(field: Mapping[str, Any]) -> Iterator[str]:
    """The models that the value of a field is made of."""
    for one in (field, field.get("items", {}), *field.get("anyOf", ())):
        if "$ref" in one:
            yield one["$ref"]


def result_value(field: Mapping[str, Any]) -> str:
    """What kind of value a field has."""
    if "anyOf" in field:
        return " or ".join(result_value(one) for one in field["anyOf"])
    if "enum" in field:
        return ", ".join(f"`{one}`" for one in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    if "prefixItems" in field:
        return f"{len(field['prefixItems'])} numbers"
    words = {"string": "text", "boolean": "true or false", "array": "list"}
    return words.get(field.get("type", "object"), field.get("type", "object"))


def why_idle_page(rules: Mapping[str, type[Rule]]) -> str:
    """The page that leads from what a slow run looks like to the rules."""
    text = (FOLDER / WHY_IDLE).read_text(encoding="utf-8")
    return with_part(text, "symptoms", (part for one in SYMPTOMS for part in symptom_section(one, rules)))


def symptom_section(symptom: Symptom, rules: Mapping[str, type[Rule]]) -> Iterator[str]:
    yield f"## {symptom.title}\n\n{symptom.looks}\n\n"
    yield f"The probe: {symptom.prints}\n\n"
    if symptom.bounds:
        yield "| decides | threshold | source |\n| --- | --- | --- |\n"
        yield from (f"| {bound.decides} | {bound.text} | {bound.source} |\n" for bound in symptom.bounds)
        yield "\n"
    yield f"{symptom.means}\n\n| rule | what it reports | |\n| --- | --- | --- |\n"
    for code in symptom.rules:
        rule = rules[code]
        state = "" if rule.default else "opt-in"
        yield f"| [{code} {rule.name}]({RULES}/{rule.name}.md) | {rule.summary()} | {state} |\n"
    articles = ", ".join(f"[{number}](sources.md#article-{number})" for number in symptom.sources)
    yield f"\nSource: article{'s' if len(symptom.sources) > 1 else ''} {articles}.\n\n"


def commands_page() -> str:
    """The page of the command line, with a table of the arguments of each verb, besides `--help`."""
    text = (FOLDER / COMMANDS).read_text(encoding="utf-8")
    return with_part(text, "options of verbs", (line for verb in VERBS for line in verb_options(verb)))


def verb_options(verb: str) -> Iterator[str]:
    """The table of the arguments of a verb, in the order and with the words of its `--help`."""
    parser: argparse.ArgumentParser = import_module(f"trainlint.cli.{verb}").parser()
    yield f"### trainlint {verb}\n\n{parser.description}\n\n| argument | meaning |\n| --- | --- |\n"
    for group in parser._action_groups:
        for action in group._group_actions:
            if isinstance(action, argparse._HelpAction):
                continue
            yield f"| {spelling(action)} | {(action.help or '').replace('|', BAR)} |\n"
    yield "\n"


def spelling(action: argparse.Action) -> str:
    """How an argument is written, with its value: `-o FILE`, `--output-file FILE`."""
    value = str(action.metavar or "|".join(map(str, action.choices or ())))
    value = value.replace("|", BAR)
    if not action.option_strings:
        return f"`{value}`"
    if action.nargs == "?":
        return ", ".join(f"`{option}`, `{option}={value}`" for option in action.option_strings)
    return ", ".join(f"`{option} {value}`".replace(" `", "`") for option in action.option_strings)


def settings_of(properties: object) -> Iterator[str]:
    """A section for each setting of the schema."""
    assert isinstance(properties, dict)
    for key, setting in properties.items():
        yield f"### {key}\n\n{setting['description']}\n\n"
        yield f"- Values: {values_of(setting)}\n"
        yield f"- Default: {default_of(setting['default']) if 'default' in setting else 'not set'}\n"
        yield f"\n```toml\n{schema.EXAMPLES[key]}\n```\n\n"


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


def write(wanted: dict[Path, str]) -> int:
    """Make the files what they should be, and remove the pages of rules that are no more."""
    for path in (FOLDER / RULES).glob("*.md"):
        if path not in wanted:
            path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


def compare(wanted: dict[Path, str]) -> int:
    """Say on standard error which files differ from what they should be."""
    paths = {*wanted, *(FOLDER / RULES).glob("*.md")}
    present = {path: path.read_text(encoding="utf-8") for path in paths if path.exists()}
    stale = sorted(path for path in paths if wanted.get(path) != present.get(path))
    for path in stale:
        print(
            f"{path.relative_to(REPOSITORY).as_posix()} is not what the program says; run: make docs", file=sys.stderr
        )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
