"""Options of the command line: what they hold by default, where that is known, and where it is not."""

from __future__ import annotations

import pytest
from scripts_with_a_loader import default_of, workers_of

from trainlint.semantics.values import Const, Option

ARGPARSE = """
import argparse
parser = argparse.ArgumentParser()
{declaration}
args = parser.parse_args()
loader = DataLoader(images, num_workers=args.workers)
"""
DECLARATIONS: dict[str, tuple[str, object]] = {
    "a number": ('parser.add_argument("--workers", type=int, default=3)', 3),
    "a text that the type converts": ('parser.add_argument("--workers", type=int, default="3")', 3),
    "a text that a function converts": (
        'parser.add_argument("--workers", type=lambda t: int(t) * 2, default="3")',
        "unknown",
    ),
    "a text that does not convert": ('parser.add_argument("--workers", type=int, default="auto")', "unknown"),
    "no default": ('parser.add_argument("--workers", type=int)', None),
    "dashes become underscores": ('parser.add_argument("-j", "--workers", default=3, type=int)', 3),
    "another destination": ('parser.add_argument("-j", "--num-workers", dest="workers", default=3, type=int)', 3),
    "an option that must be given": ('parser.add_argument("--workers", type=int, default=3, required=True)', "unknown"),
    "a positional argument": ('parser.add_argument("workers", type=int)', "unknown"),
    "a positional argument that may be left out": ('parser.add_argument("workers", nargs="?", type=int, default=3)', 3),
    "a switch": ('parser.add_argument("--workers", action="store_true")', False),
    "a switch that turns off": ('parser.add_argument("--workers", action="store_false")', True),
    "a switch with a default": ('parser.add_argument("--workers", action="store_true", default=True)', True),
    "a default that is computed": (
        'import os\nparser.add_argument("--workers", type=int, default=os.cpu_count())',
        "unknown",
    ),
    "a default that is suppressed": ('parser.add_argument("--workers", default=argparse.SUPPRESS)', "unknown"),
    "arguments from elsewhere": ('parser.add_argument("--workers", default=3, **extra)', "unknown"),
    "set_defaults": ('parser.add_argument("--workers", default=3)\nparser.set_defaults(workers=5)', 5),
    "set_defaults before": ('parser.set_defaults(workers=5)\nparser.add_argument("--lr")', 5),
    "set_defaults from a file": (
        'import json\nparser.add_argument("--workers", default=3)\nparser.set_defaults(**json.load(open("a.json")))',
        "unknown",
    ),
    "set_defaults from a file, before": (
        'import json\nparser.set_defaults(**json.load(open("a.json")))\nparser.add_argument("--workers", default=3)',
        "unknown",
    ),
    "a group": ('group = parser.add_argument_group("data")\ngroup.add_argument("--workers", default=3)', 3),
    "commands that agree": (
        """
commands = parser.add_subparsers()
commands.add_parser("train").add_argument("--workers", default=3)
commands.add_parser("test").add_argument("--workers", default=3)
""",
        3,
    ),
    "commands that do not agree": (
        """
commands = parser.add_subparsers()
commands.add_parser("train").add_argument("--workers", default=3)
commands.add_parser("test").add_argument("--workers", default=0)
""",
        "unknown",
    ),
}


@pytest.mark.parametrize(("declaration", "default"), DECLARATIONS.values(), ids=DECLARATIONS)
def test_the_default_of_an_option_is_what_argparse_says(declaration: str, default: object) -> None:
    found = default_of(ARGPARSE.format(declaration=declaration))
    assert found == default
    assert type(found) is type(default)


USES: dict[str, tuple[str, object]] = {
    "as an item": ('loader = DataLoader(images, num_workers=vars(args)["workers"])', 3),
    "by getattr": ('loader = DataLoader(images, num_workers=getattr(args, "workers"))', 3),
    "as a number": ("loader = DataLoader(images, num_workers=int(args.workers))", 3),
    "in a function": ("def make(a):\n    return DataLoader(images, num_workers=a.workers)\nloader = make(args)", 3),
    "of an object": (
        "class T:\n    def __init__(self, args):\n        self.args = args\n"
        "    def make(self):\n        return DataLoader(images, num_workers=self.args.workers)\nT(args).make()",
        3,
    ),
    "or a number": ("loader = DataLoader(images, num_workers=args.workers or 4)", 3),
    "the larger of two": ("loader = DataLoader(images, num_workers=max(args.workers, 1))", "unknown"),
    "unless something holds": ("loader = DataLoader(images, num_workers=0 if args.debug else args.workers)", "unknown"),
    "the same in any case": ("loader = DataLoader(images, num_workers=3 if args.debug else args.workers)", 3),
    "changed under a condition": (
        "if args.debug:\n    args.workers = 0\nloader = DataLoader(images, num_workers=args.workers)",
        "unknown",
    ),
    "changed by name": (
        "setattr(args, name(), 0)\nloader = DataLoader(images, num_workers=args.workers)",
        "unknown",
    ),
    "updated from a file": (
        'import json\nvars(args).update(json.load(open("a.json")))\n'
        "loader = DataLoader(images, num_workers=args.workers)",
        "unknown",
    ),
    "a field of another configuration": ("loader = DataLoader(images, num_workers=args.data.workers)", "unknown"),
}


@pytest.mark.parametrize(("use", "default"), USES.values(), ids=USES)
def test_the_default_is_known_where_the_option_is_used(use: str, default: object) -> None:
    script = ARGPARSE.partition("loader =")[0].format(declaration='parser.add_argument("--workers", default=3)')
    assert default_of(script + use) == default


def test_what_the_program_sets_is_no_default() -> None:
    script = ARGPARSE.format(declaration='parser.add_argument("--workers", default=3)')
    script = script.replace("loader =", "args.workers = 0\nloader =")
    assert workers_of(script) == Const(0)


def test_a_default_that_is_falsy_gives_way_to_the_alternative() -> None:
    declared = ARGPARSE.format(declaration='parser.add_argument("--workers", type=int)')
    assert default_of(declared.replace("args.workers)", "args.workers or 4)")) == 4


FIELDS = """
from dataclasses import dataclass, field

@dataclass
class Config:
    name: str
    workers: int = {value}
    {more}

{making}
loader = DataLoader(images, num_workers=config.workers)
"""
MADE: dict[str, tuple[str, str, str, object]] = {
    "in the program": ("3", "", 'config = Config("a")', 3),
    "by field()": ('field(default=3, metadata={"help": "processes"})', "", 'config = Config("a")', 3),
    "by a factory": ("field(default_factory=lambda: 3)", "", 'config = Config("a")', 3),
    "by a computed default": ("field(default_factory=os.cpu_count)", "", 'import os\nconfig = Config("a")', "unknown"),
    "by HfArgumentParser": (
        "field(default=3)",
        "",
        "from transformers import HfArgumentParser\n(config,) = HfArgumentParser(Config).parse_args_into_dataclasses()",
        3,
    ),
    "by HfArgumentParser with several classes": (
        "3",
        "",
        "from transformers import HfArgumentParser, TrainingArguments\n"
        "parser = HfArgumentParser((TrainingArguments, Config))\nargs, config = parser.parse_args_into_dataclasses()",
        3,
    ),
    "by tyro": ("3", "", "import tyro\nconfig = tyro.cli(Config)", 3),
    "by simple-parsing": ("3", "", "import simple_parsing\nconfig = simple_parsing.parse(Config)", 3),
    "by simple-parsing, as a part": (
        "3",
        "",
        "from simple_parsing import ArgumentParser\nparser = ArgumentParser()\n"
        'parser.add_arguments(Config, dest="settings")\nconfig = parser.parse_args().settings',
        3,
    ),
    "then changed": ("3", "def __post_init__(self):\n        self.workers = 5", "config = Config()", "unknown"),
}


@pytest.mark.parametrize(("value", "more", "making", "default"), MADE.values(), ids=MADE)
def test_a_field_of_a_dataclass_has_its_default(value: str, more: str, making: str, default: object) -> None:
    assert default_of(FIELDS.format(value=value, more=more, making=making)) == default


def test_what_a_constructor_is_passed_is_no_default() -> None:
    assert workers_of(FIELDS.format(value="3", more="", making='config = Config("a", workers=0)')) == Const(0)
    assert workers_of(FIELDS.format(value="3", more="", making='config = Config("a", 0)')) == Const(0)


def test_fields_come_after_those_of_base_classes() -> None:
    script = FIELDS.format(
        value="3", more="", making='@dataclass\nclass Larger(Config):\n    size: int = 1\n\nconfig = Larger("a", 0, 7)'
    )
    assert workers_of(script) == Const(0)


RUN = {
    "fire": "import fire\nfire.Fire(main)",
    "typer": "import typer\ntyper.run(main)",
    "tyro": "import tyro\ntyro.cli(main)",
}


@pytest.mark.parametrize("start", RUN.values(), ids=RUN)
def test_parameters_of_a_command_are_options(start: str) -> None:
    script = f"def main(workers: int = 3):\n    DataLoader(images, num_workers=workers)\n\n{start}"
    assert default_of(script) == 3


def test_a_default_that_the_command_line_may_change_is_never_sure() -> None:
    value = workers_of(ARGPARSE.format(declaration='parser.add_argument("--workers", default=0)'))
    assert isinstance(value, Option)
    assert value.certainty.name == "LOW"


LAUNCHED: dict[str, tuple[str, object]] = {
    "passed": ("python train.py --workers 8", "unknown"),
    "passed with an equals sign": ("torchrun train.py --workers=8 \\\n  --lr 1", "unknown"),
    "passed by the beginning of its name": ("python train.py --work 8", "unknown"),
    "something else passed": ("python train.py --batch-size 8 --workers-per-node 4", 3),
}


@pytest.mark.parametrize(("script", "default"), LAUNCHED.values(), ids=LAUNCHED)
def test_an_option_that_a_launch_script_passes_has_no_default(script: str, default: object) -> None:
    declared = ARGPARSE.format(declaration='parser.add_argument("--workers", default=3)')
    assert default_of(declared, {"scripts/run.sh": script}) == default
    by_tyro = FIELDS.format(value="3", more="", making="import tyro\nconfig = tyro.cli(Config)")
    assert default_of(by_tyro, {"scripts/run.sh": script}) == default


DECLARED = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("-j", "--workers", type=int, default=3)
args = parser.parse_args({})
loader = DataLoader(images, num_workers=args.workers)
"""


@pytest.mark.parametrize("passed", ["-j 8", "-j8", "--workers=8", "--workers 8"])
def test_an_option_that_a_launch_script_passes_by_any_of_its_names_is_not_known(passed: str) -> None:
    assert default_of(DECLARED.format("")) == 3
    assert default_of(DECLARED.format(""), {"run.sh": "python train.py --lr 0.1 -p 5"}) == 3
    assert default_of(DECLARED.format(""), {"run.sh": f"python train.py {passed}"}) == "unknown"


def test_what_the_program_itself_passes_holds_rather_than_a_default() -> None:
    assert default_of(DECLARED.format('["--workers", "8"]')) == "unknown"
    assert default_of(DECLARED.format('"--lr 0.1 --workers 8".split()')) == "unknown"
    assert default_of("import shlex\n" + DECLARED.format('shlex.split("--workers 8")')) == "unknown"
    assert default_of(DECLARED.format('"train.py".split()')) == 3
    assert default_of(DECLARED.format("namespace=argparse.Namespace(workers=8)")) == "unknown"
    assert default_of(DECLARED.format("None")) == default_of(DECLARED.format("sys.argv[1:]")) == 3


@pytest.mark.parametrize(
    ("statement", "default"),
    [
        ('sys.argv += ["--workers", "8"]', "unknown"),
        ('sys.argv.extend(["--workers", "8"])', "unknown"),
        ('sys.argv.append("--workers=8")', "unknown"),
        ('sys.argv = ["train.py", "--workers", "8"]', "unknown"),
        ('sys.argv[1:] = ["--workers", "8"]', "unknown"),
        ("sys.argv = read()", "unknown"),
        ('sys.argv = [""]', 3),
    ],
)
def test_what_the_program_puts_on_the_command_line_holds_rather_than_a_default(statement: str, default: object) -> None:
    assert default_of(f"import sys\n{statement}\n{DECLARED.format('')}") == default


def test_what_is_put_on_the_command_line_once_it_was_read_is_for_others() -> None:
    parsed, loader = DECLARED.format("").split("loader = ")
    assert default_of(f"{parsed}import sys\nsys.argv += read()\nloader = {loader}") == 3


@pytest.mark.parametrize(
    ("argument", "default"),
    [
        ("argument_default=argparse.SUPPRESS", "unknown"),
        ("argument_default=4", "unknown"),
        ("argument_default=None", 3),
        ("default_config_files=['config.yaml']", "unknown"),
    ],
)
def test_a_parser_that_has_defaults_of_its_own_leaves_those_of_options_unknown(argument: str, default: object) -> None:
    assert default_of(DECLARED.format("").replace("ArgumentParser()", f"ArgumentParser({argument})")) == default


SETTINGS = """
import tyro
from dataclasses import dataclass

@dataclass
class Config:
    workers: int = 3

    def fill(self, values):
        for name, value in values:
            setattr(self, name, value)
        return self

config = {}
loader = DataLoader(images, num_workers=config.workers)
"""


@pytest.mark.parametrize(
    "made", ["Config(**read())", "Config().fill(read())", "tyro.cli(Config, default=Config(workers=8))"]
)
def test_a_field_that_is_filled_from_elsewhere_does_not_hold_its_default(made: str) -> None:
    assert default_of(SETTINGS.format(made)) == "unknown"
