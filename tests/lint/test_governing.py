"""Settings from the cache are those that were validated."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ConfigDict, create_model

from trainlint.lint.cache import Cache
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.governing import Governance
from trainlint.lint.packs import installed_packs
from trainlint.lint.registry import load_registry

CONFIGURATIONS = {
    "nothing is configured": "",
    "every kind of value": """
        select = ["TL2", "data-parallel"]
        exclude = ["old"]
        min-confidence = "high"
        distributed = true
        torch-version = "2.4"
        require-suppression-reason = true
        plugins = []
        per-file-ignores = {"tests/*" = ["TL2"]}
        severity = {TL201 = "error"}
    """,
    "the table of a rule": "[TL201]\nlimits = [1, {a = 2.5}]",
    "a value that JSON has no word for": "[TL201]\nsince = 2024-01-01",
    "another file to start from": 'extend = "shared/base.toml"\nextend-select = ["TL2"]',
}


def governance(root: Path, options: CheckOptions, cache: Cache) -> Governance:
    found = Governance(options, installed_packs(), b"code", lambda _: cache)
    found.working_directory = root
    return found


@pytest.fixture
def with_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that takes any option."""
    rule = load_registry().rules["TL201"]
    monkeypatch.setattr(rule, "options_model", create_model("Any", __config__=ConfigDict(extra="allow")))


@pytest.mark.usefixtures("with_options")
@pytest.mark.parametrize("text", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_stored_settings_are_those_that_were_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/base.toml").write_text('ignore = ["TL204"]\nextend-exclude = ["x"]')
    (tmp_path / "trainlint.toml").write_text(text)
    cache = Cache(None)
    for options in (CheckOptions(), CheckOptions(overrides={"select": ["TL1"], "severity": {"TL2": "info"}})):
        read = governance(tmp_path, options, cache).of_folder(tmp_path)
        digest, filters, resolved = read.digest, read.filters, read.resolved
        stored = governance(tmp_path, options, cache).of_folder(tmp_path)
        assert (stored.digest, stored.filters, stored.resolved) == (digest, filters, resolved)
