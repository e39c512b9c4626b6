"""Each setting changes what is reported; each mistake names the file, the key and what is right: the real program."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field

import pytest
from program import Program

from trainlint.config.settings import setting_keys

HEAD = """import torch
import wandb
from elsewhere import build, fetch, leads, rows

model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEPS = """for step in range(1000):
    loss = model(torch.randn(8, 4, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SYNC = HEAD + STEPS + "    total = loss.item()\n"
WAITS = HEAD + STEPS + "    torch.cuda.synchronize()\n    torch.cuda.empty_cache()\n"
PRINT = HEAD + STEPS + '    print("step")\n'
DDP_PRINT = (
    HEAD
    + "torch.distributed.init_process_group('nccl')\ntorch.cuda.set_device(local_rank)\n"
    + "model = torch.nn.parallel.DistributedDataParallel(model)\n"
    + STEPS
    + "    if leads():\n        pass\n    if step % 100 == 0 and leads():\n        print(step)\n"
)
FETCH = HEAD + STEPS + "    fetch(loss)\n"
ADVANCE = "import torch\n\ndef advance(state, batch):\n    print('step')\n"
SHARDED = (
    HEAD
    + "loader = torch.utils.data.DataLoader(rows, batch_size=8, shuffle=True, num_workers=2, pin_memory=True,\n"
    + "    persistent_workers=True)\n"
    + "for epoch in range(3):\n    for images in loader:\n        loss = model(images.cuda(non_blocking=True)).mean()\n"
    + "        loss.backward()\n        optimizer.step()\n"
)
UNSURE = FETCH.replace("fetch(loss)", "x = rows(loss).item()")
OLD_AMP = "import torch\n\nwith torch.cuda.amp.autocast():\n    pass\n"
SUPPRESSED = SYNC.replace("loss.item()", "loss.item()  # trainlint: ignore[TL201]")


@dataclass(frozen=True)
class Case:
    files: dict[str, str]
    config: str
    before: set[str]
    """The findings without it, as `path:row CODE`."""
    after: set[str]
    others: dict[str, str] = field(default_factory=dict)


CASES = {
    "extend": Case(
        {"a.py": SYNC}, 'extend = "up/base.toml"', {"a.py:12 TL201"}, set(), {"up/base.toml": 'ignore=["TL2"]'}
    ),
    "select": Case({"a.py": SYNC}, 'select = ["TL1"]', {"a.py:12 TL201"}, set()),
    "extend-select": Case({"a.py": SUPPRESSED}, 'extend-select = ["TL004"]', set(), {"a.py:12 TL004"}),
    "ignore": Case({"a.py": SYNC}, 'ignore = ["sync-in-step"]', {"a.py:12 TL201"}, set()),
    "per-file-ignores": Case(
        {"a.py": SYNC, "bench/a.py": SYNC},
        '[per-file-ignores]\n"bench/" = ["TL201"]',
        {"a.py:12 TL201", "bench/a.py:12 TL201"},
        {"a.py:12 TL201"},
    ),
    "exclude": Case(
        {"a.py": SYNC, "old/a.py": SYNC, "venv/a.py": SYNC},
        'exclude = ["old"]',
        {"a.py:12 TL201", "old/a.py:12 TL201"},
        {"a.py:12 TL201", "venv/a.py:12 TL201"},
    ),
    "extend-exclude": Case(
        {"a.py": SYNC, "old/a.py": SYNC, "venv/a.py": SYNC},
        'extend-exclude = ["old"]',
        {"a.py:12 TL201", "old/a.py:12 TL201"},
        {"a.py:12 TL201"},
    ),
    "min-confidence": Case({"a.py": UNSURE}, 'min-confidence = "high"', {"a.py:12 TL201"}, set()),
    "device": Case(
        {"a.py": SYNC, "b.py": WAITS},
        'device = "cpu"',
        {"a.py:12 TL201", "b.py:12 TL205", "b.py:13 TL206"},
        set(),
    ),
    "distributed": Case({"a.py": SHARDED}, "distributed = true", set(), {"a.py:7 TL302"}),
    "step-functions": Case({"a.py": ADVANCE}, 'step-functions = ["advance"]', set(), {"a.py:4 TL202"}),
    "sync-functions": Case({"a.py": FETCH}, 'sync-functions = ["fetch"]', set(), {"a.py:12 TL201"}),
    "rank-guards": Case({"a.py": DDP_PRINT}, 'rank-guards = ["leads"]', {"a.py:18 TL213"}, set()),
    "torch-version": Case({"a.py": OLD_AMP}, 'torch-version = "1.9"', {"a.py:3 TL405"}, set()),
    "require-suppression-reason": Case(
        {"a.py": SUPPRESSED}, "require-suppression-reason = true", set(), {"a.py:12 TL004"}
    ),
}
"""`plugins` needs an installed pack and `severity` changes no place: both below. What `loader-factories` teaches, no
rule reports by itself; tests/semantics/test_loaders.py shows it."""


def reported(program: Program, *arguments: str) -> set[str]:
    done = program(".", "--output-format", "json", *arguments)
    assert done.returncode in (0, 1), done.stderr
    root = str(program.folder.resolve()) + "/"
    return {
        f"{found['filename'].removeprefix(root)}:{found['location']['row']} {found['code']}"
        for found in json.loads(done.stdout)
    }


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_setting_changes_what_is_reported(program: Program, case: Case) -> None:
    program.write(case.files | case.others | {"trainlint.toml": ""})
    assert reported(program) == case.before
    program.write({"trainlint.toml": case.config})
    assert reported(program) == case.after
    assert reported(program, "--isolated", "--config", "exclude = ['up']") >= case.before


def test_every_setting_has_a_case() -> None:
    assert {*CASES, "severity", "plugins", "loader-factories"} == set(setting_keys())


def test_severity_of_a_rule(program: Program) -> None:
    program.write({"a.py": SYNC, "trainlint.toml": '[severity]\nTL2 = "info"\nsync-in-step = "error"\n'})
    (finding,) = json.loads(program(".", "--output-format", "json").stdout)
    assert finding["severity"] == "error"
    assert program(".", "--min-severity", "error").returncode == 1
    program.write({"trainlint.toml": '[severity]\nTL2 = "info"\n'})
    assert program(".", "--min-severity", "warning").returncode == 0


PACK = '''
from trainlint.lint.finding import Family
from trainlint.lint.rule import SECTIONS, Rule
from pydantic import BaseModel, ConfigDict


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid")
    word: str = "step"


class OwnRule(Rule):
    """{page}"""

    code, name, family, options_model = "XY101", "own-rule", Family.STEP, Options

    def check(self, project):
        for report in project.reports:
            if self.options.values["word"] in report.text:
                yield self.finding(report, "own")
'''


@pytest.fixture
def with_pack(program: Program) -> Program:
    """A program beside which a rule pack is installed that has a rule with an option."""
    from trainlint.lint.rule import SECTIONS

    page = "Something.\n\n" + "\n\n".join(f"## {section}\nText." for section in SECTIONS)
    site = "site"
    program.write(
        {
            f"{site}/extra_rules/__init__.py": PACK.replace("{page}", page),
            f"{site}/extra-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: extra\nVersion: 1.0\n",
            f"{site}/extra-1.0.dist-info/entry_points.txt": "[trainlint.rules]\nextra = extra_rules\n",
            "project/a.py": PRINT,
            "project/trainlint.toml": "",
        }
    )
    program.environment["PYTHONPATH"] = ":".join([str(program.folder / site), *sys.path[1:]])
    program.folder = program.folder / "project"
    return program


def test_plugins_chooses_among_installed_packs(with_pack: Program) -> None:
    assert reported(with_pack) == {"a.py:12 TL202", "a.py:12 XY101"}
    with_pack.write({"trainlint.toml": "plugins = []"})
    assert reported(with_pack) == {"a.py:12 TL202"}
    with_pack.write({"trainlint.toml": 'plugins = ["extra"]'})
    assert reported(with_pack) == {"a.py:12 TL202", "a.py:12 XY101"}


def test_an_option_of_a_rule_changes_what_it_reports(with_pack: Program) -> None:
    for table in ("[own-rule]", "[XY101]"):
        with_pack.write({"trainlint.toml": f'{table}\nword = "epoch"'})
        assert reported(with_pack) == {"a.py:12 TL202"}
    schema = json.loads(with_pack("config", "--schema").stdout)
    assert schema["properties"]["own-rule"]["properties"]["word"]["default"] == "step"


def test_a_wrong_option_is_an_error_whoever_is_asked(with_pack: Program) -> None:
    with_pack.write({"trainlint.toml": 'ignore = ["XY101"]\n[own-rule]\nwrod = "epoch"'})
    for arguments in (["."], ["config"]):
        done = with_pack(*arguments)
        file = with_pack.folder.resolve() / "trainlint.toml"
        assert done.returncode == 2
        assert done.stderr == (f'trainlint: error: {file}: own-rule.wrod: unknown option; did you mean "word"?\n')


MISTAKES = {
    "a misspelt key": (
        {"trainlint.toml": 'step-function = ["x"]'},
        "trainlint.toml: step-function: ",
        '"step-functions"',
    ),
    "a wrong value": ({"trainlint.toml": 'device = "gpu"'}, "trainlint.toml: device: ", '"cuda"'),
    "a rule that is not there": (
        {"trainlint.toml": 'ignore = ["sync-in-stp"]'},
        "trainlint.toml: ignore: ",
        '"sync-in-step"',
    ),
    "a severity": ({"trainlint.toml": '[severity]\nTL201 = "warn"'}, "trainlint.toml: severity.TL201: ", '"warning"'),
    "a pack that is not installed": (
        {"trainlint.toml": 'plugins = ["bultin"]'},
        "trainlint.toml: plugins: ",
        '"builtin"',
    ),
    "in pyproject.toml": (
        {"pyproject.toml": "[tool.trainlint]\nrank-guard = []"},
        "pyproject.toml: rank-guard: ",
        '"rank-guards"',
    ),
    "an option of a rule without any": (
        {"trainlint.toml": "[TL201]\nx = 1"},
        "trainlint.toml: TL201.x: ",
        "the rule has no options",
    ),
    "in the file that is extended": (
        {"trainlint.toml": 'extend = "up/base.toml"', "up/base.toml": 'device = "gpu"'},
        "up/base.toml: device: ",
        '"cuda"',
    ),
    "a file to extend that is not there": (
        {"trainlint.toml": 'extend = "up/gone.toml"'},
        "trainlint.toml: extend: ",
        "up/gone.toml does not exist",
    ),
    "a circle": (
        {"trainlint.toml": 'extend = "up/base.toml"', "up/base.toml": 'extend = "../trainlint.toml"'},
        "up/base.toml: extend: ",
        "in a circle",
    ),
}


@pytest.mark.parametrize(("files", "place", "hint"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_names_file_key_and_what_is_right(
    program: Program, files: dict[str, str], place: str, hint: str
) -> None:
    program.write({"a.py": PRINT} | files)
    for arguments in (["."], ["config"]):
        done = program(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"trainlint: error: {program.folder.resolve()}/{place}")
        assert hint in done.stderr
        assert done.stderr.count("\n") == 1


FROM_A_FILE = """import argparse

import torch
import yaml
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("--config", default="config.yaml")
with open(parser.parse_args().config) as file:
    config = yaml.safe_load(file)
images = datasets.MNIST("data", transform=transforms.ToTensor())
loader = DataLoader(images, batch_size=64, num_workers=config["workers"], pin_memory=config["pin"])
model = torch.nn.Linear(784, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch, labels in loader:
    model(batch.cuda().flatten(1)).mean().backward()
    optimizer.step()
"""


def test_what_a_file_says_that_the_command_line_may_replace_is_of_low_confidence(program: Program) -> None:
    """Pinning as well as workers."""
    program.write({"train.py": FROM_A_FILE, "config.yaml": "workers: 0\npin: false\n", "pyproject.toml": ""})
    low = json.loads(program("train.py", "--min-confidence", "low", "--output-format", "json").stdout)
    assert [(one["code"], one["confidence"]) for one in low] == [("TL103", "low"), ("TL104", "low")]
    assert program("train.py", "--output-format", "json").stdout == "[]\n"
    program.write({"config.yaml": "workers: 4\npin: true\n"})
    assert "TL103" not in program("train.py", "--min-confidence", "low").stdout
    assert "TL104" not in program("train.py", "--min-confidence", "low").stdout
