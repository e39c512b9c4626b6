"""Configuration files of the project: what a program reads from them, and where nothing is known."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from scripts_with_a_loader import HEAD, default_of, workers_of

from trainlint.lint.analyze import ROOT, analyze
from trainlint.semantics.configuration_files import MOST_BYTES, NOTHING_KNOWN, ConfigurationFiles
from trainlint.semantics.values import Const, Option

YAML = {"config.yaml": "data:\n  workers: 3\n  pin: true\nname: resnet"}
JSON = {"config.json": '{"data": {"workers": 3}}'}
TOML = {"config.toml": "[data]\nworkers = 3"}
USE = '\nloader = DataLoader(images, num_workers=config["data"]["workers"])'
READ: dict[str, tuple[str, dict[str, str]]] = {
    "yaml.safe_load": ('import yaml\nwith open("config.yaml") as file:\n    config = yaml.safe_load(file)', YAML),
    "yaml.load": ('import yaml\nconfig = yaml.load(open("config.yaml"), Loader=yaml.FullLoader)', YAML),
    "yaml of the text": ('import yaml\nconfig = yaml.safe_load(open("config.yaml").read())', YAML),
    "json.load": ('import json\nwith open("config.json") as file:\n    config = json.load(file)', JSON),
    "json.loads": (
        'import json\nfrom pathlib import Path\nconfig = json.loads(Path("config.json").read_text())',
        JSON,
    ),
    "tomllib": ('import tomllib\nwith open("config.toml", "rb") as file:\n    config = tomllib.load(file)', TOML),
    "toml": ('import toml\nconfig = toml.load("config.toml")', TOML),
    "OmegaConf": ('from omegaconf import OmegaConf\nconfig = OmegaConf.load("config.yaml")', YAML),
    "a path in a folder": (
        'import yaml\nfrom pathlib import Path\nconfig = yaml.safe_load((Path("conf") / "a.yaml").open())',
        {"conf/a.yaml": "data: {workers: 3}"},
    ),
    "a path that is joined": (
        'import os\nimport yaml\nconfig = yaml.safe_load(open(os.path.join("conf", "a.yaml")))',
        {"conf/a.yaml": "data: {workers: 3}"},
    ),
    "a path beside the script": (
        'import yaml\nfrom pathlib import Path\nconfig = yaml.safe_load(open(Path(__file__).parent / "config.yaml"))',
        YAML,
    ),
    "a path beside the script, with os.path": (
        "import os\nimport yaml\nhere = os.path.dirname(os.path.abspath(__file__))\n"
        'config = yaml.safe_load(open(os.path.join(here, "config.yaml")))',
        YAML,
    ),
    "a function that reads": (
        "import yaml\ndef read(path):\n    with open(path) as file:\n        return yaml.safe_load(file)\n"
        'config = read("config.yaml")',
        YAML,
    ),
    "a function of another file": (
        'from reading import read\nconfig = read("config.yaml")',
        YAML
        | {"reading.py": "import yaml\ndef read(path):\n    with open(path) as f:\n        return yaml.safe_load(f)"},
    ),
}


@pytest.mark.parametrize(("reading", "files"), READ.values(), ids=READ)
def test_a_file_that_the_program_names_is_read(reading: str, files: dict[str, str]) -> None:
    value = workers_of(reading + USE, files)
    assert isinstance(value, Option)
    assert (value.default, value.fixed, value.certainty.name) == (3, True, "MEDIUM")
    assert value.file == next(Path(path).name for path in files if not path.endswith(".py"))


ACCESSES: dict[str, tuple[str, object]] = {
    "by get": ('loader = DataLoader(images, num_workers=config["data"].get("workers"))', 3),
    "by get, with another default": ('loader = DataLoader(images, num_workers=config["data"].get("workers", 5))', 3),
    "as keyword arguments": (
        'loader = DataLoader(images, **{"num_workers": 1} | {}, pin_memory=config["data"]["pin"])',
        "unknown",
    ),
    "in a function": (
        'def make(c):\n    return DataLoader(images, num_workers=c["data"]["workers"])\nloader = make(config)',
        3,
    ),
    "of an object": (
        'class T:\n    def __init__(self, c):\n        self.data = c["data"]\n'
        '    def make(self):\n        return DataLoader(images, num_workers=self.data["workers"])\nT(config).make()',
        3,
    ),
    "as a number": ('loader = DataLoader(images, num_workers=int(config["data"]["workers"]))', 3),
    "copied": (
        'import copy\nc = copy.deepcopy(config)\nloader = DataLoader(images, num_workers=c["data"]["workers"])',
        3,
    ),
    "as attributes": (
        "from types import SimpleNamespace\nc = SimpleNamespace(**config['data'])\n"
        "loader = DataLoader(images, num_workers=c.workers)",
        3,
    ),
    "as attributes of a library's": (
        "from easydict import EasyDict\nc = EasyDict(config)\nloader = DataLoader(images, num_workers=c.data.workers)",
        3,
    ),
    "the larger of two": ('loader = DataLoader(images, num_workers=max(config["data"]["workers"], 1))', "unknown"),
    "or something else": (
        'loader = DataLoader(images, num_workers=0 if f() else config["data"]["workers"])',
        "unknown",
    ),
    "a key that is not there": ('loader = DataLoader(images, num_workers=config["data"]["processes"])', "unknown"),
    "a name that differs by run": (
        "import sys\nc = yaml.safe_load(open(sys.argv[1]))\n"
        'loader = DataLoader(images, num_workers=c["data"]["workers"])',
        "unknown",
    ),
    "changed by another function": (
        'def change(c):\n    c["data"]["workers"] = 0\nchange(config)\n'
        'loader = DataLoader(images, num_workers=config["data"]["workers"])',
        "unknown",
    ),
    "something else changed": (
        'config["data"]["size"] = 0\nloader = DataLoader(images, num_workers=config["data"]["workers"])',
        3,
    ),
    "overlaid by the command line": (
        "import argparse\nargs = argparse.ArgumentParser().parse_args()\nc = {**config['data'], **vars(args)}\n"
        'loader = DataLoader(images, num_workers=c["workers"])',
        "unknown",
    ),
    "overlaid by the command line, in a dict()": (
        "import argparse\nargs = argparse.ArgumentParser().parse_args()\nc = dict(config['data'], **vars(args))\n"
        'loader = DataLoader(images, num_workers=c["workers"])',
        "unknown",
    ),
    "overlaid key by key": (
        "for key, value in given():\n    config['data'][key] = value\n"
        'loader = DataLoader(images, num_workers=config["data"]["workers"])',
        "unknown",
    ),
    "on top of what is not known": (
        'c = {**given(), **config["data"]}\nloader = DataLoader(images, num_workers=c["workers"])',
        3,
    ),
    "what the file leaves out": ('loader = DataLoader(images, num_workers=config["data"].get("processes", 5))', 5),
    "what another function may add": (
        'def change(c):\n    c["processes"] = 8\nchange(config["data"])\n'
        'loader = DataLoader(images, num_workers=config["data"].get("processes", 0))',
        "unknown",
    ),
    "updated by what is not known": (
        'config["data"].update(g())\nloader = DataLoader(images, num_workers=config["data"]["workers"])',
        "unknown",
    ),
    "a part by a name that is not known": (
        "import sys\nnode = config\nfor key in sys.argv[1].split('.'):\n    node = node[key]\nnode[sys.argv[2]] = 0\n"
        'loader = DataLoader(images, num_workers=config["data"]["workers"])',
        "unknown",
    ),
    "overlaid by what is not known": (
        'config = {**config, **g()}\nloader = DataLoader(images, num_workers=config["data"]["workers"])',
        "unknown",
    ),
    "an attribute by a name that is not known": (
        "for key, value in g():\n    setattr(config['data'], key, value)\n"
        'loader = DataLoader(images, num_workers=config["data"]["workers"])',
        "unknown",
    ),
    "made something else of": (
        "import json\nconfig = json.load(open('config.yaml'), object_hook=g)\n"
        'loader = DataLoader(images, num_workers=config["data"]["workers"])',
        "unknown",
    ),
    "updated by another function": (
        'def change(c):\n    c.update(g())\nchange(config["data"])\n'
        'loader = DataLoader(images, num_workers=config["data"]["workers"])',
        "unknown",
    ),
}


@pytest.mark.parametrize(("use", "default"), ACCESSES.values(), ids=ACCESSES)
def test_what_stands_in_a_file_goes_where_the_program_takes_it(use: str, default: object) -> None:
    assert default_of(f'import yaml\nconfig = yaml.safe_load(open("config.yaml"))\n{use}', YAML) == default


def test_what_the_program_puts_in_a_configuration_counts() -> None:
    reading = READ["yaml.safe_load"][0]
    assert workers_of(f'{reading}\nconfig["data"]["workers"] = 0{USE}', YAML) == Const(0)
    reading = READ["OmegaConf"][0]
    assert workers_of(f"{reading}\nconfig.data.workers = 0{USE}", YAML) == Const(0)


def test_a_file_that_an_option_names_is_read_by_default() -> None:
    script = (
        "import argparse\nimport yaml\nparser = argparse.ArgumentParser()\n"
        'parser.add_argument("--config", default="config.yaml")\nargs = parser.parse_args()\n'
        "config = yaml.safe_load(open(args.config))"
    )
    value = workers_of(script + USE, YAML)
    assert isinstance(value, Option)
    assert (value.default, value.fixed, value.certainty.name) == (3, False, "LOW")


MERGED: dict[str, tuple[str, object, bool]] = {
    "two files": ('OmegaConf.merge(OmegaConf.load("config.yaml"), OmegaConf.load("other.yaml"))', 5, True),
    "the command line": ('OmegaConf.merge(OmegaConf.load("config.yaml"), OmegaConf.from_cli())', 3, False),
    "a dict": ('OmegaConf.merge(OmegaConf.load("config.yaml"), {"name": "b"})', 3, True),
}


CHANGING = {
    "one value": 'OmegaConf.update(config, "data.workers", 8)',
    "a value by a name that is not known": "OmegaConf.update(config, g(), 8)",
    "the command line": "config.merge_with_cli()",
    "options": "import sys\nconfig.merge_with_dotlist(sys.argv[1:])",
    "a function that could not be resolved": "change = find()\nchange(config)",
    "another configuration": "config.merge_with(OmegaConf.from_cli())",
}


@pytest.mark.parametrize("changing", CHANGING.values(), ids=CHANGING)
def test_what_is_merged_into_a_configuration_may_change_it(changing: str) -> None:
    assert default_of(f"{READ['OmegaConf'][0]}\n{changing}{USE}", YAML) == "unknown"


def test_what_only_looks_at_a_configuration_changes_nothing() -> None:
    looking = "import logging\nprint(config)\nlogging.info('%s', config)\nlen(config)"
    assert default_of(f"{READ['OmegaConf'][0]}\n{looking}{USE}", YAML) == 3


@pytest.mark.parametrize(("merging", "default", "fixed"), MERGED.values(), ids=MERGED)
def test_configurations_are_merged(merging: str, default: object, fixed: bool) -> None:
    files = YAML | {"other.yaml": "data: {workers: 5}"}
    value = workers_of(f"from omegaconf import OmegaConf\nconfig = {merging}{USE}", files)
    assert isinstance(value, Option)
    assert (value.default, value.fixed) == (default, fixed)


def test_interpolations_are_followed_within_a_file() -> None:
    files = {"config.yaml": "cores: 3\ndata: {workers: '${cores}', a: '${data.workers}', b: '${oc.env:N}', c: '???'}"}
    reading = READ["OmegaConf"][0]
    assert default_of(reading + USE, files) == 3
    for key in ("a", "b", "c"):
        assert default_of(reading + USE.replace('workers"]', f'{key}"]'), files) == "unknown"


HYDRA = """
import hydra
@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg):
    DataLoader(images, num_workers={use})
if __name__ == "__main__":
    main()
"""
COMPOSED: dict[str, tuple[str, dict[str, str], object]] = {
    "a value": ("cfg.workers", {"config": "workers: 3"}, 3),
    "an item": ('cfg["workers"]', {"config": "workers: 3"}, 3),
    "a group": ("cfg.data.workers", {"config": "defaults: [data: small]", "data/small": "workers: 3"}, 3),
    "a group below a group": (
        "cfg.data.loader.workers",
        {
            "config": "defaults: [data: small]",
            "data/small": "defaults: [loader: fast]",
            "data/loader/fast": "workers: 3",
        },
        3,
    ),
    "a group in another package": (
        "cfg.train.workers",
        {"config": "defaults: [data@train: small]", "data/small": "workers: 3"},
        3,
    ),
    "a group for all": (
        "cfg.workers",
        {"config": "defaults: [exp: a]", "exp/a": "# @package _global_\nworkers: 3"},
        3,
    ),
    "own values last": (
        "cfg.data.workers",
        {"config": "defaults: [data: a]\ndata: {workers: 5}", "data/a": "workers: 3"},
        5,
    ),
    "own values first": (
        "cfg.data.workers",
        {"config": "defaults: [_self_, data: a]\ndata: {workers: 5}", "data/a": "workers: 3"},
        3,
    ),
    "a base": ("cfg.workers", {"config": "defaults: [base]", "base": "workers: 3"}, 3),
    "a choice that is overridden": (
        "cfg.data.workers",
        {"config": "defaults: [data: a, override data: b]", "data/a": "workers: 3", "data/b": "workers: 5"},
        "unknown",
    ),
    "a group that is not there": ("cfg.data.workers", {"config": "defaults: [data: a]"}, "unknown"),
    "a circle": ("cfg.workers", {"config": "defaults: [base]", "base": "defaults: [config]\nworkers: 3"}, 3),
}


@pytest.mark.parametrize(("use", "files", "default"), COMPOSED.values(), ids=COMPOSED)
def test_hydra_puts_its_files_together(use: str, files: dict[str, str], default: object) -> None:
    others = {f"conf/{name}.yaml": text for name, text in files.items()}
    value = workers_of(HYDRA.format(use=use), others)
    assert not isinstance(value, Option) or not value.fixed
    assert default_of(HYDRA.format(use=use), others) == default


def test_what_a_launch_script_overrides_is_not_known() -> None:
    files = {"conf/config.yaml": "data: {workers: 3}", "run.sh": "python train.py data.workers=8"}
    assert default_of(HYDRA.format(use="cfg.data.workers"), files) == "unknown"


def test_a_name_that_several_files_have_is_none_of_them() -> None:
    text = HEAD + inspect.cleandoc(READ["yaml.safe_load"][0] + USE) + "\n"
    files = {"tools/train.py": text, "config.yaml": "data: {workers: 3}", "tools/config.yaml": "data: {workers: 5}"}
    (loader,) = analyze(files).loaders
    value = loader.arguments.value("num_workers")
    assert not isinstance(value, Option) or not value.has_default
    (loader,) = analyze({path: one for path, one in files.items() if path != "config.yaml"}).loaders
    value = loader.arguments.value("num_workers")
    assert isinstance(value, Option)
    assert value.default == 5


BROKEN = {
    "no YAML": ("a.yaml", b"a: [1"),
    "two documents": ("a.yaml", b"a: 1\n---\nb: 2"),
    "no JSON": ("a.json", b"{"),
    "no TOML": ("a.toml", b"a = "),
    "no UTF-8": ("a.yaml", b"a: \xff"),
    "a null character": ("a.yaml", b"a: \0"),
    "an object of Python": ("a.yaml", b"a: !!python/object/apply:os.system ['true']"),
    "an unknown tag": ("a.yaml", b"a: !include other.yaml"),
    "a date that is none": ("a.yaml", b"a: 2024-13-45"),
    "a number that is none": ("a.json", b'{"a": 1' + b"0" * 5000 + b"}"),
    "too large": ("a.json", b'{"a": "' + b"x" * MOST_BYTES + b'"}'),
    "brackets that nest too deep": ("a.yaml", b"[" * 50_000 + b"]" * 50_000),
    "brackets in JSON that nest too deep": ("a.json", b"[" * 50_000),
    "dashes that nest too deep": ("a.yaml", b"- " * 40_000 + b"1"),
    "brackets in TOML that nest too deep": ("a.toml", b"a = " + b"[" * 40_000),
    "aliases that multiply": (
        "a.yaml",
        b"a0: &a0 [1]\n"
        + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 9)),
    ),
    "a number too long to be written out": ("a.yaml", b"a: 0x" + b"f" * 6000),
    "a truth value that is none": ("a.yaml", b"a: !!bool x"),
    "no number at all": ("a.yaml", b"a: !!int ''"),
    "a key of TOML with many dots": ("a.toml", b"a" + b".a" * 45_000 + b" = 1"),
    "merge keys that repeat a mapping": (
        "a.yaml",
        b"a: &a {"
        + b", ".join(b"k%d: 1" % n for n in range(5000))
        + b"}\nb: {<<: ["
        + b", ".join([b"*a"] * 9000)
        + b"]}",
    ),
    "many mappings that merge one": (
        "a.yaml",
        b"a: &a {"
        + b", ".join(b"k%d: 1" % n for n in range(2000))
        + b"}\n"
        + b"".join(b"b%d: {<<: *a}\n" % n for n in range(4000)),
    ),
    "a list that holds itself": ("a.yaml", b"a: &a [*a]"),
    "a key that cannot be one": ("a.yaml", b"? [a, b]\n: 1"),
}


@pytest.mark.parametrize(("name", "data"), BROKEN.values(), ids=BROKEN)
def test_a_file_that_cannot_be_taken_says_nothing(name: str, data: bytes) -> None:
    assert ConfigurationFiles({ROOT / name: data}).read(ROOT / name) is NOTHING_KNOWN


PLAIN = {
    "YAML": ("a.yaml", b"a: {b: [1, x, null, true, 0.5]}", {"a": {"b": [1, "x", None, True, 0.5]}}),
    "YAML with anchors": ("a.yaml", b"a: &a {b: 1}\nc: {<<: *a, d: 2}", {"a": {"b": 1}, "c": {"b": 1, "d": 2}}),
    "YAML with a byte order mark": ("a.yml", b"\xef\xbb\xbfa: 1", {"a": 1}),
    "JSON": ("a.json", b'{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
    "TOML": ("a.toml", b"[a]\nb = [1, 2]", {"a": {"b": [1, 2]}}),
    "nothing": ("a.yaml", b"", None),
}


@pytest.mark.parametrize(("name", "data", "content"), PLAIN.values(), ids=PLAIN)
def test_files_are_read_as_their_formats_say(name: str, data: bytes, content: object) -> None:
    assert ConfigurationFiles({ROOT / name: data}).read(ROOT / name) == content


def test_merge_keys_do_not_multiply() -> None:
    merging = b"".join(b"a%d: &a%d {<<: [%s]}\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 9))
    found = ConfigurationFiles({ROOT / "a.yaml": b"a0: &a0 {b: 1}\n" + merging}).read(ROOT / "a.yaml")
    assert found == {f"a{n}": {"b": 1} for n in range(9)}


def test_a_file_that_the_program_writes_is_not_read() -> None:
    writing = 'import json\nimport yaml\nwith open("config.yaml", "w") as file:\n    yaml.dump(given(), file)\n'
    assert default_of(writing + READ["yaml.safe_load"][0] + USE, YAML) == "unknown"


def test_absence_proves_nothing_once_a_function_has_changed_the_configuration() -> None:
    reading = READ["yaml.safe_load"][0]
    adding = "def change(c):\n    c[name()] = 8\nchange(config['data'])\n"
    for change, sure in (("", True), (adding, False)):
        script = f"{reading}\n{change}loader = DataLoader(images, **config['data'])"
        files = {"config.yaml": "data: {batch_size: 8}"}
        (loader,) = analyze({"train.py": HEAD + script + "\n", **files}).loaders
        assert loader.arguments.absent("num_workers") is sure
