"""Which settings hold where, where each came from, and how wrong ones are reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trainlint.config.discovery import Overrides, Resolver, resolve
from trainlint.config.errors import ConfigError
from trainlint.config.resolved import DEFAULT
from trainlint.config.rule_names import check_rule_names, matching
from trainlint.config.settings import Settings, setting_keys

NAMES = {"TL201": "sync-in-step", "TL202": "print-in-step", "TL301": "data-parallel"}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


def resolver(root: Path, *config: str, isolated: bool = False) -> Resolver:
    return Resolver(Overrides.parse(config, isolated=isolated), working_directory=root)


def test_every_key_can_be_set(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "trainlint.toml": """
                select = ["TL2", "data-parallel"]
                extend-select = ["TL401"]
                ignore = ["TL202"]
                exclude = ["old"]
                extend-exclude = ["generated"]
                min-confidence = "high"
                device = "cuda"
                distributed = true
                step-functions = ["advance"]
                sync-functions = ["read"]
                rank-guards = ["is_chief"]
                loader-factories = ["make_loader"]
                torch-version = "2.4"
                require-suppression-reason = true
                plugins = ["builtin"]
                per-file-ignores = {"tests/*" = ["TL2"]}
                severity = {TL201 = "error"}
                [sync-in-step]
                every = 10
                [TL201]
                every = 5
                other = "x"
            """
        },
    )
    resolved = resolve(tmp_path / "train.py")
    settings = resolved.settings
    assert settings.select == ("TL2", "data-parallel")
    assert settings.all_excludes == ("old", "generated")
    assert settings.distributed == "true"
    assert settings.per_file_ignores == {"tests/*": ("TL2",)}
    assert settings.options("TL201", "sync-in-step") == {"every": 10, "other": "x"}
    assert settings.options("TL202", "print-in-step") == {}
    assert resolved.filters.exclude == ("old", "generated")
    unset = [key for key, origin in resolved.origins.items() if origin == DEFAULT]
    assert unset == ["extend"]
    assert resolved.origins["severity.TL201"] == str(tmp_path / "trainlint.toml")


def test_defaults_hold_where_nothing_is_configured(tmp_path: Path) -> None:
    resolved = resolver(tmp_path, isolated=True).resolve(tmp_path / "train.py")
    assert resolved.settings == Settings()
    assert resolved.file is None
    assert resolved.root == tmp_path
    assert resolved.origins == dict.fromkeys(setting_keys(), DEFAULT)


CLOSEST = {
    "trainlint.toml above": ({"trainlint.toml": 'device = "cpu"'}, "a/b/x.py", "cpu"),
    "pyproject.toml with the table": ({"pyproject.toml": '[tool.trainlint]\ndevice = "mps"'}, "a/x.py", "mps"),
    "a pyproject.toml without the table is passed over": (
        {"trainlint.toml": 'device = "cpu"', "a/pyproject.toml": '[project]\nname = "a"'}, "a/x.py", "cpu",
    ),
    "one that only mentions trainlint is passed over": (
        {"trainlint.toml": 'device = "cpu"', "a/pyproject.toml": '[project]\nname = "trainlint"'}, "a/x.py", "cpu",
    ),
    "another tool's broken pyproject.toml is passed over": (
        {"trainlint.toml": 'device = "cpu"', "a/pyproject.toml": "[tool.other"}, "a/x.py", "cpu",
    ),
    "the closest of several, which are not joined": (
        {"trainlint.toml": 'device = "cpu"\ndistributed = true', "a/trainlint.toml": 'device = "xpu"'}, "a/x.py", "xpu",
    ),
    "trainlint.toml before pyproject.toml": (
        {"trainlint.toml": 'device = "cpu"', "pyproject.toml": '[tool.trainlint]\ndevice = "mps"'}, "x.py", "cpu",
    ),
    "an empty table counts": (
        {"trainlint.toml": 'device = "cpu"', "a/pyproject.toml": "[tool.trainlint]"}, "a/x.py", "auto",
    ),
    "a byte order mark and windows line ends": ({"trainlint.toml": '# x\r\ndevice = "cpu"\r\n'}, "x.py", "cpu"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "path", "device"), CLOSEST.values(), ids=CLOSEST)
def test_the_closest_configuration_wins(files: dict[str, str], path: str, device: str, tmp_path: Path) -> None:
    resolved = resolver(write(tmp_path, files)).resolve(tmp_path / path)
    assert resolved.settings.device == device
    assert resolved.settings.distributed == "auto"


def test_files_are_read_once_for_all_folders(tmp_path: Path) -> None:
    write(tmp_path, {"trainlint.toml": "", "a/b/x.py": "", "c/x.py": ""})
    of = resolver(tmp_path)
    assert of.resolve(Path("a/b/x.py")) is of.resolve(tmp_path / "c/../c/x.py") is of.resolve(tmp_path)


def test_extend_inherits_from_the_general_to_the_specific(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "shared/base.toml": """
                select = ["TL1"]
                extend-select = ["TL401"]
                device = "cuda"
                severity = {TL201 = "info", TL202 = "info"}
                [sync-in-step]
                every = 10
                start = 3
            """,
            "pyproject.toml": """
                [tool.trainlint]
                extend = "shared/base.toml"
                extend-select = ["TL402"]
                select = ["TL2"]
            """,
            "a/trainlint.toml": 'extend = "../pyproject.toml"\nseverity = {TL201 = "error"}\n[sync-in-step]\nevery = 5',
        },
    )
    resolved = resolver(tmp_path.resolve()).resolve(Path("a/train.py"))
    settings = resolved.settings
    assert settings.select == ("TL2",)
    assert settings.extend_select == ("TL401", "TL402")
    assert settings.device == "cuda"
    assert settings.severity == {"TL201": "error", "TL202": "info"}
    assert settings.rules == {"sync-in-step": {"every": 5, "start": 3}}
    assert resolved.root == tmp_path / "a"
    root = tmp_path.resolve()
    base, middle, own = (str(root / name) for name in ("shared/base.toml", "pyproject.toml", "a/trainlint.toml"))
    expected = {
        "select": middle,
        "device": base,
        "severity.TL201": own,
        "severity.TL202": base,
        "sync-in-step.every": own,
        "sync-in-step.start": base,
        "extend-select": f"{base}, {middle}",
        "min-confidence": DEFAULT,
    }
    assert {key: resolved.origins[key] for key in expected} == expected
    assert [str(file) for file in resolved.files] == [own, middle, base]
    assert resolved.error("extend-select", "x").file == Path(middle)


def test_the_command_line_goes_before_files(tmp_path: Path) -> None:
    write(tmp_path, {"trainlint.toml": 'device = "cpu"\nseverity = {TL201 = "info"}', "other.toml": 'device = "mps"'})
    resolved = resolver(tmp_path, 'device = "cuda"', 'severity.TL202="error"').resolve(Path("x.py"))
    assert resolved.settings.device == "cuda"
    assert resolved.settings.severity == {"TL201": "info", "TL202": "error"}
    assert resolved.origins["device"] == resolved.origins["severity.TL202"] == "--config"
    overrides = Overrides().with_value("select", ["TL1"], "--select")
    assert Resolver(overrides, tmp_path).resolve(Path("x.py")).origins["select"] == "--select"


def test_a_long_value_is_not_taken_for_a_path(tmp_path: Path) -> None:
    names = [f"TL{number}" for number in range(1000)]
    assert resolver(tmp_path, f"select = {names}").resolve(tmp_path).settings.select == tuple(names)


def test_a_named_file_replaces_those_that_would_be_found(tmp_path: Path) -> None:
    write(tmp_path, {"a/trainlint.toml": 'device = "cpu"', "b/other.toml": 'device = "mps"', "a/x.py": ""})
    resolved = resolver(tmp_path, str(tmp_path / "b/other.toml")).resolve(Path("a/x.py"))
    assert resolved.settings.device == "mps"
    assert resolved.root == tmp_path


WRONG = {
    "another word for a value": (
        'device = "gpu"',
        "device",
        'must be "auto", "cuda", "cpu", "mps" or "xpu", not "gpu"; did you mean "cuda"?',
    ),
    "a misspelt key": ('min-confidense = "high"', "min-confidense", 'unknown setting; did you mean "min-confidence"?'),
    "underscores": ('min_confidence = "high"', "min_confidence", 'unknown setting; did you mean "min-confidence"?'),
    "a misspelt table": ('[sevrity]\nTL201 = "error"', "sevrity", 'unknown setting; did you mean "severity"?'),
    "a key like no other": ("zzz = 1", "zzz", "unknown setting"),
    "a scalar for a rule": ("TL201 = 3", "TL201", "the options of a rule must be a table, not 3"),
    "a word not in the list": (
        'min-confidence = "hihg"', "min-confidence",
        'must be "high", "medium" or "low", not "hihg"; did you mean "high"?',
    ),
    "a severity": (
        '[severity]\nTL201 = "eror"', "severity.TL201",
        'must be "error", "warning", "info" or "hint", not "eror"; did you mean "error"?',
    ),
    "a word for a truth value": ('require-suppression-reason = "yes"', "require-suppression-reason",
                                 'must be true or false, not "yes"'),
    "a string for a list": ('select = "TL2"', "select", 'must be a list of strings, not "TL2"'),
    "a number in a list": ("ignore = [201]", "ignore", "must be a string, not 201"),
    "a list for a table": ("per-file-ignores = []", "per-file-ignores", "must be a table, not a list"),
    "a number for a version": ("torch-version = 2.1", "torch-version", "must be a string, not 2.1"),
    "a range for a version": ('torch-version = ">=2.1"', "torch-version",
                              'must be a version such as "2.4", not ">=2.1"'),
    "a date": ("device = 2020-01-01", "device",
               'must be "auto", "cuda", "cpu", "mps" or "xpu", not 2020-01-01'),
    "a file's own table": ('[tool.trainlint]\nselect = ["TL1"]', "tool.trainlint",
                           "in this file the settings stand at the top, without a table"),
    "syntax": ("select = [\n  1,,\n]", "", "is not valid TOML at row 2, column 5: Invalid value"),
    "an end too early": ("select = [", "", "is not valid TOML at the end of the file: Invalid value"),
    "a value without quotes": ("\ndevice = cuda", "", "is not valid TOML at row 2, column 10: Invalid value"),
    "extends itself": ('extend = "trainlint.toml"', "extend",
                       "the files extend each other in a circle: {root}/trainlint.toml -> {root}/trainlint.toml"),
    "extends nothing": ('extend = "gone.toml"', "extend", "{root}/gone.toml does not exist or is not a file"),
    "extends a folder": ('extend = "."', "extend", "{root} does not exist or is not a file"),
    "extends a number": ("extend = 1", "extend", "must be the path of a file, not 1"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "key", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_with_file_and_key(text: str, key: str, message: str, tmp_path: Path) -> None:
    file = write(tmp_path.resolve(), {"trainlint.toml": text}) / "trainlint.toml"
    with pytest.raises(ConfigError) as error:
        resolve(file.parent / "x.py")
    assert (error.value.file, error.value.key) == (file, key)
    assert error.value.message == message.format(root=file.parent)
    assert str(error.value) == (f"{file}: {key}: " if key else f"{file}: ") + error.value.message


def test_a_circle_of_several_files_is_found(tmp_path: Path) -> None:
    write(tmp_path, {"trainlint.toml": 'extend = "a.toml"', "a.toml": 'extend = "b.toml"', "b.toml": 'extend="a.toml"'})
    with pytest.raises(ConfigError, match=r"b\.toml: extend: the files extend each other in a circle"):
        resolve(tmp_path)


def test_an_error_in_an_extended_file_names_that_file(tmp_path: Path) -> None:
    write(tmp_path, {"trainlint.toml": 'extend = "base.toml"', "base.toml": 'device = "gpu"'})
    with pytest.raises(ConfigError, match=r"base\.toml: device: must be"):
        resolve(tmp_path)


def test_a_file_that_is_not_text_is_an_error_not_a_crash(tmp_path: Path) -> None:
    (tmp_path / "trainlint.toml").write_bytes(b'device = "\xff"')
    with pytest.raises(ConfigError, match="is not UTF-8 at byte 10"):
        resolve(tmp_path)
    (tmp_path / "trainlint.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(ConfigError, match="is not valid TOML"):
        resolve(tmp_path)


ARGUMENTS = {
    "a string without quotes": (["device=cuda"], "'device = \"cuda\"'"),
    "no value": (["device="], "neither a file nor KEY=VALUE"),
    "an unknown key": (['devise="cuda"'], 'devise: unknown setting; did you mean "device"?'),
    "a wrong value": (['device="gpu"'], "command line: device: must be"),
    "a missing file": (["gone.toml"], "gone.toml: no such file"),
    "two files": (["a.toml", "b.toml"], "two files are named: a.toml and b.toml"),
    "extend": (['extend="a.toml"'], "extend works in files only"),
}


@pytest.mark.parametrize(("arguments", "message"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_wrong_arguments_of_config_are_explained(arguments: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        resolver(tmp_path, *arguments).resolve(tmp_path)
    assert message in str(error.value)


UNKNOWN_RULES = {
    "select": ('select = ["TL999"]', 'select: no rule has the code or name "TL999"; `trainlint rules` lists all'),
    "ignore": (
        'ignore = ["print-in-stp"]',
        'ignore: no rule has the code or name "print-in-stp"; did you mean "print-in-step"?',
    ),
    "severity": (
        'severity = {TL2O1 = "error"}',
        'severity.TL2O1: no rule has the code or name "TL2O1"; did you mean "TL201"?',
    ),
    "per-file-ignores": ('per-file-ignores = {"a.py" = ["TL9"]}', "per-file-ignores.a.py: no rule has"),
    "a table": ("[sync-in-stap]\nx = 1", 'sync-in-stap: is neither a setting nor a rule; did you mean "sync-in-step"?'),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), UNKNOWN_RULES.values(), ids=UNKNOWN_RULES)
def test_rules_that_do_not_exist_are_named_with_the_nearest(text: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, {"trainlint.toml": text})
    with pytest.raises(ConfigError) as error:
        check_rule_names(resolve(tmp_path), NAMES)
    assert f"{tmp_path / 'trainlint.toml'}: {message}" in str(error.value)


def test_patterns_of_rules_match_codes_prefixes_and_names() -> None:
    expected = {
        "TL201": {"TL201"}, "TL2": {"TL201", "TL202"}, "TL": set(NAMES), "ALL": set(NAMES),
        "data-parallel": {"TL301"}, "data": set(), "TL9": set(), "tl201": set(),
    }  # fmt: skip
    assert {pattern: set(matching(pattern, NAMES)) for pattern in expected} == expected


def test_looking_for_files_and_errors_does_not_import_pydantic() -> None:
    modules = (
        "trainlint.config.discovery, trainlint.config.errors, trainlint.config.versions, trainlint.source.discovery, \
        trainlint.source.documents, trainlint.source.suppressions"
    )
    program = f"import sys, {modules}; print(sorted({{'pydantic', 'libcst'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
