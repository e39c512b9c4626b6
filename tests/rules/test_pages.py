"""Every rule's docstring is its page, and its metadata says what the catalogue promises."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

import pytest

from trainlint.fixes.recipe import Applicability
from trainlint.lint.finding import Family, Severity
from trainlint.lint.registry import load_registry
from trainlint.lint.rule import SECTIONS, Rule, RuntimeRule

REGISTRY = load_registry()
RULES = tuple(REGISTRY.rules.values())
FAMILY_OF_DIGIT = {
    "0": Family.TOOL,
    "1": Family.DATA,
    "2": Family.STEP,
    "3": Family.DISTRIBUTED,
    "4": Family.COMPUTE,
    "5": Family.MEMORY,
    "6": Family.CHECKPOINT,
    "9": Family.RUNTIME,
}
ERRORS = {"TL001", "TL002", "TL109", "TL116", "TL309", "TL311"}
LEAST_INVALID, LEAST_VALID = 3, 4


def page(rule: type[Rule]) -> str:
    return inspect.cleandoc(rule.__doc__ or "")


def sections(rule: type[Rule]) -> dict[str, str]:
    _, *parts = re.split(r"^## (.+)$", page(rule), flags=re.MULTILINE)
    return {title: text.strip() for title, text in zip(parts[::2], parts[1::2], strict=True)}


def code_of(rule: type[Rule]) -> str:
    return rule.code


every_rule = pytest.mark.parametrize("rule", RULES, ids=code_of)
RULES_ABOUT_CODE = tuple(rule for rule in RULES if not issubclass(rule, RuntimeRule))
every_rule_about_code = pytest.mark.parametrize("rule", RULES_ABOUT_CODE, ids=code_of)
RULES_ABOUT_RUNS = tuple(rule for rule in RULES if issubclass(rule, RuntimeRule))


def test_the_built_in_pack_loads_without_warnings() -> None:
    assert REGISTRY.warnings == ()
    assert RULES


@every_rule
def test_the_page_has_all_sections_in_order_and_none_is_empty(rule: type[Rule]) -> None:
    found = sections(rule)
    assert tuple(found) == SECTIONS
    assert [title for title, text in found.items() if not text] == []


@every_rule
def test_the_summary_is_one_sentence(rule: type[Rule]) -> None:
    summary, following = page(rule).split("\n")[:2]
    assert summary.endswith(".")
    assert following == ""


@every_rule
def test_the_bad_code_stands_in_a_fence_and_the_good_code_is_code(rule: type[Rule]) -> None:
    assert re.search(r"^```\w+\n.+?^```$", sections(rule)["Example"], re.MULTILINE | re.DOTALL)
    assert "`" in sections(rule)["Use instead"]


@every_rule
def test_the_good_code_parses(rule: type[Rule]) -> None:
    for block in re.findall(r"^```python\n(.+?)^```$", sections(rule)["Use instead"], re.MULTILINE | re.DOTALL):
        ast.parse(textwrap.dedent(block))


@every_rule
def test_references_name_a_source(rule: type[Rule]) -> None:
    references = sections(rule)["References"]
    assert references.startswith("- ")
    assert re.search(r"https://|article", references)


@every_rule
def test_the_file_is_named_after_the_rule_and_lies_in_its_family(rule: type[Rule]) -> None:
    package, family, module = rule.__module__.rsplit(".", 2)
    assert package == "trainlint_rules"
    assert module == rule.name.replace("-", "_")
    assert family == rule.family.value
    assert rule.family is FAMILY_OF_DIGIT[rule.code[2]]


@every_rule
def test_a_file_holds_one_rule(rule: type[Rule]) -> None:
    assert [other.code for other in RULES if other.__module__ == rule.__module__] == [rule.code]


@every_rule_about_code
def test_severity_follows_the_default_set(rule: type[Rule]) -> None:
    expected = Severity.ERROR if rule.code in ERRORS else Severity.WARNING if rule.default else Severity.INFO
    assert rule.severity is expected


@every_rule
def test_a_rule_offers_a_fix_exactly_if_it_declares_one(rule: type[Rule]) -> None:
    assert (rule.fix is not Rule.fix) == (rule.fix_class is not Applicability.NONE)


@every_rule_about_code
def test_a_rule_judges_exactly_if_it_says_what_confirms_it(rule: type[Rule]) -> None:
    assert (rule.judge is not Rule.judge) == bool(rule.confirmed_by)


@pytest.mark.parametrize("rule", RULES_ABOUT_RUNS, ids=code_of)
def test_a_rule_about_runs_warns_or_informs_and_says_what_it_measures(rule: type[Rule]) -> None:
    assert rule.severity in (Severity.WARNING, Severity.INFO)
    assert rule.confirmed_by
    assert rule.examples == ()


@every_rule_about_code
def test_there_are_enough_examples_and_each_says_why(rule: type[Rule]) -> None:
    invalid = [example for example in rule.examples if not example.valid]
    valid = [example for example in rule.examples if example.valid]
    enough = f"a rule needs {LEAST_INVALID} invalid and {LEAST_VALID} valid examples or more"
    assert len(invalid) >= LEAST_INVALID, enough
    assert len(valid) >= LEAST_VALID, enough
    assert [example.files for example in rule.examples if not example.because] == []


@every_rule
def test_examples_have_names_of_their_own(rule: type[Rule]) -> None:
    reasons = [example.because for example in rule.examples]
    assert len(reasons) == len(set(reasons))
