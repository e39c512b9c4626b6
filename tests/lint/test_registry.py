"""Rule packs: which are used, and what is left out with a warning."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from trainlint.lint.registry import load_registry
from trainlint.lint.rule import SECTIONS

PAGE = "Something.\n\n" + "\n\n".join(f"## {section}\nText." for section in SECTIONS)
RULE = f'''
from trainlint.lint.finding import Family
from trainlint.lint.rule import Rule


class Own(Rule):
    """{PAGE}"""

    code, name, family = "XY101", "own-rule", Family.STEP
'''
PROGRAM = """
import json, sys
from trainlint.lint.registry import load_registry
registry = load_registry(json.loads(sys.argv[1]))
print(json.dumps([[code for code in registry.rules if not code.startswith("TL")], list(registry.warnings)]))
"""


def install(folder: Path, modules: dict[str, str]) -> Path:
    """Lay out an installed distribution `extra` with the rule pack `extra_rules`."""
    package = folder / "site-packages"
    for name, text in modules.items():
        file = package / "extra_rules" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
    information = package / "extra-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: extra\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[trainlint.rules]\nextra = extra_rules\n")
    return package


def loaded(package: Path, plugins: str = "null") -> tuple[list[str], list[str]]:
    """Codes of foreign rules and warnings, as a fresh interpreter sees them."""
    import json

    command = [sys.executable, "-c", f"import sys; sys.path.append({str(package)!r}){PROGRAM}", plugins]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    codes, warnings = json.loads(output)
    return codes, warnings


def test_the_built_in_pack_is_complete_and_without_warnings() -> None:
    registry = load_registry()
    assert registry.warnings == ()
    assert {"TL001", "TL002", "TL003", "TL004", "TL405"} <= set(registry.rules)


def test_rules_are_found_by_code_and_by_name() -> None:
    registry = load_registry()
    assert registry.find("TL405") is registry.find("deprecated-amp") is registry.rules["TL405"]
    assert registry.find("no-such-rule") is None
    assert registry.nearest("deprecated_amp") == "deprecated-amp"


def test_an_installed_pack_is_used(tmp_path: Path) -> None:
    package = install(tmp_path, {"__init__.py": "", "step/__init__.py": "", "step/own.py": RULE})
    assert loaded(package) == (["XY101"], [])
    assert loaded(package, '["extra"]') == (["XY101"], [])


def test_a_pack_that_is_not_chosen_is_not_used(tmp_path: Path) -> None:
    package = install(tmp_path, {"__init__.py": RULE})
    assert loaded(package, "[]") == ([], [])


NEAREST = {
    "deprecated_amp": "deprecated-amp",
    "sync-in-stap": "sync-in-step",
    "tl201": "TL201",
    "TL2O1": "TL201",
    "TL20l": "TL201",
    "TL299": None,
    "TL999": None,
    "padding-waist": "padding-waste",
    "bogus": None,
}


@pytest.mark.parametrize(("word", "rule"), NEAREST.items())
def test_only_rules_that_exist_are_suggested(word: str, rule: str | None) -> None:
    assert load_registry().nearest(word) == rule


BROKEN = {
    "it does not import": ("import no_such_module", "No module named 'no_such_module'"),
    "it exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "a taken code": (RULE.replace("XY101", "TL405"), "the code TL405 is taken"),
    "a taken name": (RULE.replace("own-rule", "deprecated-amp"), "the name `deprecated-amp` is taken"),
    "a malformed code": (RULE.replace("XY101", "XY1"), "the code `XY1` is not"),
    "a malformed name": (RULE.replace("own-rule", "Own_Rule"), "the name `Own_Rule` is not"),
    "a missing section": (RULE.replace("## Fix safety", "## Fixes"), "lacks the section `## Fix safety`"),
}


@pytest.mark.parametrize(("text", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_pack_is_left_out_with_one_warning(tmp_path: Path, text: str, reason: str) -> None:
    codes, warnings = loaded(
        install(tmp_path, {"__init__.py": "", "good.py": RULE.replace("101", "102"), "z.py": text})
    )
    assert codes == []
    (warning,) = warnings
    assert warning.startswith("rule pack `extra` (extra_rules) is left out: ")
    assert reason in warning


URLS = """
import json
from trainlint.lint.pages import url_of
from trainlint.lint.registry import load_registry
rules = load_registry().rules
print(json.dumps([url_of(rules["XY101"]), url_of(rules["TL201"])]))
"""
ADDRESSES = {
    "none where it declares none": ("", None),
    "below the one that it declares": (
        'RULE_PAGES = "https://lint.example/rules"\n',
        "https://lint.example/rules/own-rule/",
    ),
}


@pytest.mark.parametrize(("declared", "address"), ADDRESSES.values(), ids=ADDRESSES)
def test_a_pack_has_the_page_address_that_is(tmp_path: Path, declared: str, address: str | None) -> None:
    import json

    package = install(tmp_path, {"__init__.py": declared, "own.py": RULE})
    command = [sys.executable, "-c", f"import sys; sys.path.append({str(package)!r}){URLS}"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(output) == [address, "https://trainlint.readthedocs.io/en/latest/rules/sync-in-step/"]
