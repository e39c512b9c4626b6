"""Programs of several files: imports resolved inside the project, entry points and their closures."""

from __future__ import annotations

import pytest
from marked_programs import check, contexts, entry, plain, program, table

from trainlint.lint.analyze import ROOT, analyze
from trainlint.semantics.project import Project
from trainlint.semantics.vocabulary import Framework, Known

HELPER = """
def read(value):
    return value.item()  # runs: per-step training, reads: device
"""

LOOP = """
for images, labels in train_loader:
    loss = criterion(model(images.to(device)), labels.to(device))
    loss.backward()
    optimizer.step()
    {call}
"""


def script(imports: str, call: str, path: str = "train.py") -> dict[str, str]:
    """A training script with an import, which calls something in its step loop."""
    return {path: plain(imports) + LOOP.format(call=call)}


IMPORTS: dict[str, str | dict[str, str]] = {
    "a sibling script": script("import reading", "reading.read(loss)") | {"reading.py": HELPER},
    "a sibling script under another name": script("import reading as r", "r.read(loss)") | {"reading.py": HELPER},
    "a name of a sibling script": script("from reading import read", "read(loss)") | {"reading.py": HELPER},
    "a name under another name": script("from reading import read as get", "get(loss)") | {"reading.py": HELPER},
    "a sibling in a folder that is no package": script("from reading import read", "read(loss)", "tools/train.py")
    | {"tools/reading.py": HELPER},
    "a package beside the script": script("from pkg.reading import read", "read(loss)")
    | {"pkg/__init__.py": "", "pkg/reading.py": HELPER},
    "a package without __init__": script("from pkg.reading import read", "read(loss)") | {"pkg/reading.py": HELPER},
    "a dotted import": script("import pkg.reading", "pkg.reading.read(loss)")
    | {"pkg/__init__.py": "", "pkg/reading.py": HELPER},
    "a dotted import under a name": script("import pkg.reading as reading", "reading.read(loss)")
    | {"pkg/__init__.py": "", "pkg/reading.py": HELPER},
    "a module from a package": script("from pkg import reading", "reading.read(loss)")
    | {"pkg/__init__.py": "", "pkg/reading.py": HELPER},
    "a nested package": script("from a.b.c import read", "read(loss)")
    | {"a/__init__.py": "", "a/b/__init__.py": "", "a/b/c.py": HELPER},
    "a script of tools/ that imports from the root": script(
        "from lib.reading import read", "read(loss)", "tools/train.py"
    )
    | {"lib/__init__.py": "", "lib/reading.py": HELPER},
    "a src/ layout": script("from pkg.reading import read", "read(loss)", "scripts/train.py")
    | {"src/pkg/__init__.py": "", "src/pkg/reading.py": HELPER},
    "a package that holds both": script("from pkg.reading import read", "read(loss)", "src/pkg/train.py")
    | {"src/pkg/__init__.py": "", "src/pkg/reading.py": HELPER},
    "a relative import": script("from .reading import read", "read(loss)", "pkg/train.py")
    | {"pkg/__init__.py": "", "pkg/reading.py": HELPER},
    "a relative import of a module": script("from . import reading", "reading.read(loss)", "pkg/train.py")
    | {"pkg/__init__.py": "", "pkg/reading.py": HELPER},
    "a relative import from above": script("from ..lib.reading import read", "read(loss)", "pkg/tools/train.py")
    | {"pkg/__init__.py": "", "pkg/tools/__init__.py": "", "pkg/lib/__init__.py": "", "pkg/lib/reading.py": HELPER},
    "a re-export in __init__": script("from pkg import read", "read(loss)")
    | {"pkg/__init__.py": "from .reading import read\n", "pkg/reading.py": HELPER},
    "a re-export under another name": script("from pkg import get", "get(loss)")
    | {"pkg/__init__.py": "from pkg.reading import read as get\n", "pkg/reading.py": HELPER},
    "a re-export through two packages": script("from pkg import read", "read(loss)")
    | {
        "pkg/__init__.py": "from .inner import read\n",
        "pkg/inner/__init__.py": "from .reading import read\n",
        "pkg/inner/reading.py": HELPER,
    },
    "a star import": script("from reading import *", "read(loss)") | {"reading.py": HELPER},
    "a star import in __init__": script("from pkg import read", "read(loss)")
    | {"pkg/__init__.py": "from .reading import *\n", "pkg/reading.py": HELPER},
    "a star import over two files": script("from first import *", "read(loss)")
    | {"first.py": "from second import *\n", "second.py": HELPER},
    "a star import of a module with __all__": script("from reading import *", "read(loss)")
    | {"reading.py": '__all__ = ["read"]\n' + HELPER},
    "an import inside a function": script(
        """
        def late(value):
            from reading import read
            return read(value)
        """,
        "late(loss)",
    )
    | {"reading.py": HELPER},
    "an import in a try with a fallback": script(
        """
        try:
            from pkg.reading import read
        except ImportError:
            from reading import read
        """,
        "read(loss)",
    )
    | {"reading.py": HELPER},
    "an import under a condition": script(
        """
        import sys
        if sys.version_info >= (3, 8):
            from reading import read
        """,
        "read(loss)",
    )
    | {"reading.py": HELPER},
    "a module whose name a library has too, in the project": script("from utils.reading import read", "read(loss)")
    | {"utils/__init__.py": "", "utils/reading.py": HELPER},
    "a sibling that shadows a name of another folder": script("from reading import read", "read(loss)", "a/train.py")
    | {"a/reading.py": HELPER, "b/reading.py": "def read(value):\n    return value.tolist()  # runs: never\n"},
}

CALLS: dict[str, str | dict[str, str]] = {
    "a class of another file": program(
        {
            "train.py": """
                import torch
                from engine import Trainer
                from networks import Net

                def main():
                    trainer = Trainer(Net().cuda(), torch.load("data.pt"))
                    trainer.fit(10)

                if __name__ == "__main__":
                    main()
                """,
            "networks.py": """
                from torch import nn

                class Net(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.body = nn.Linear(8, 1)

                    def forward(self, x):
                        return self.body(x)
                """,
            "engine.py": """
                import torch
                from torch.utils.data import DataLoader
                from meters import Meter

                class Trainer:
                    def __init__(self, model, data):
                        self.model = model
                        self.loader = DataLoader(data, batch_size=8)
                        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                        self.meter = Meter()

                    def fit(self, epochs):
                        for epoch in range(epochs):
                            for batch in self.loader:
                                self.meter.update(self.step(batch.cuda()))
                            self.meter.reset()

                    def step(self, batch):
                        loss = self.model(batch).mean()
                        loss.backward()
                        self.optimizer.step()
                        return loss
                """,
            "meters.py": """
                class Meter:
                    def update(self, value):
                        self.last = value.item()  # runs: per-step training, reads: device

                    def reset(self):
                        print("reset")  # runs: per-epoch setup
                """,
        }
    ),
    "a base class of another file": program(
        {
            "train.py": """
                import torch
                from engine import Base

                class Mine(Base):
                    def loss(self, batch):
                        print("mine")  # runs: per-step training
                        return self.model(batch).mean()

                Mine(torch.nn.Linear(8, 1).cuda(), torch.load("data.pt")).fit()
                """,
            "engine.py": """
                import torch
                from torch.utils.data import DataLoader

                class Base:
                    def __init__(self, model, data):
                        self.model = model
                        self.loader = DataLoader(data, batch_size=8)
                        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

                    def fit(self):
                        for batch in self.loader:
                            loss = self.loss(batch.cuda())
                            loss.backward()
                            self.optimizer.step()
                            print(loss.item())  # runs: per-step training, reads: device
                """,
        }
    ),
    "a callback of another file": {
        **script("from hooks import report\nfrom engine import call", "call(report, loss)"),
        "hooks.py": "def report(loss):\n    print(loss.item())  # runs: per-step training, reads: device\n",
        "engine.py": "def call(function, *arguments):\n    return function(*arguments)\n",
    },
    "a loader of another file": program(
        {
            "train.py": """
                import torch
                from data import loaders

                model = torch.nn.Linear(8, 1).cuda()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                train, test = loaders(32)
                for epoch in range(3):
                    for batch in train:
                        model(batch.cuda()).mean().backward()
                        optimizer.step()
                        print("step")  # runs: per-step training
                    with torch.no_grad():
                        for batch in test:
                            print(model(batch.cuda()).mean().item())  # runs: per-step evaluation
                """,
            "data.py": """
                import torch
                from torch.utils.data import DataLoader

                def loaders(size):
                    print("loaders")  # runs: once setup
                    return DataLoader(torch.load("a.pt"), size), DataLoader(torch.load("b.pt"), size)
                """,
        }
    ),
    "a device and options of another file": program(
        {
            "train.py": """
                import torch
                import config
                from config import args

                model = torch.nn.Linear(8, 1).to(config.DEVICE)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for step, batch in enumerate(torch.utils.data.DataLoader(torch.load("data.pt"))):
                    loss = model(batch.to(config.DEVICE)).mean()
                    loss.backward()
                    optimizer.step()
                    print(loss.item())  # reads: device
                    if step % args.log_interval == 0:
                        print(step)  # runs: per-n-steps training
                """,
            "config.py": """
                import argparse
                import torch
                parser = argparse.ArgumentParser()
                parser.add_argument("--log-interval", type=int, default=10)
                args = parser.parse_args()
                DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
                """,
        }
    ),
    "a name that a local definition shadows": script(
        """
        from reading import read

        def read(value):
            return value.tolist()  # runs: per-step training, reads: device
        """,
        "read(loss)",
    )
    | {"reading.py": "def read(value):\n    return value.item()  # runs: never\n"},
    "a builtin that the project shadows": script(
        """
        def print(*values):
            pass
        """,
        "print(loss)  # syncs: none",
    ),
    "a parameter that shadows a module": script(
        """
        import reading

        def call(reading):
            return reading.read(3)
        """,
        "call(loss)",
    )
    | {"reading.py": "def read(value):\n    return value.item()  # runs: never\n"},
}


@table(IMPORTS)
def test_imports_are_resolved_inside_the_project(files: dict[str, str]) -> None:
    check(files)


@table(CALLS)
def test_what_runs_in_another_file(files: dict[str, str]) -> None:
    check(files)


# ---------------------------------------------------------------------------------------- entry points and closures

SINGLE = plain(LOOP.format(call="print(loss.item())"))
DDP = plain(
    """
    import os
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    model = DistributedDataParallel(model, device_ids=[rank])
    """
) + LOOP.format(call="print(loss.item())")
CPU = """
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(torch.load("data.pt")):
    loss = model(batch).mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


def summary(project: Project, path: str) -> list[str]:
    """Everything that the records of one file say, in a form that can be compared between runs."""
    lines = [
        f"{site.row}:{site.column} {site.symbol} {context.frequency.label} {context.region} "
        f"{[guard.kind.value for guard in context.guards]} {context.confidence.label} {context.path} "
        f"{context.entry.path.name} {context.entry.distributed} {context.entry.cuda} {context.entry.framework}"
        for site, context in contexts(project)
        if site.path == ROOT / path
    ]
    lines += [
        f"{sync.site.row} {sync.kind} {sync.value.place}" for sync in project.syncs if sync.site.path == ROOT / path
    ]
    return sorted(lines)


def test_one_ddp_script_does_not_make_its_neighbour_distributed() -> None:
    project = analyze({"ddp.py": DDP, "single.py": SINGLE})
    assert entry(project, "ddp.py").distributed is Known.YES
    assert entry(project, "single.py").distributed is Known.NO


def test_one_cuda_script_does_not_put_its_neighbour_on_the_gpu() -> None:
    project = analyze({"gpu.py": SINGLE, "cpu.py": CPU})
    assert entry(project, "gpu.py").cuda is Known.YES
    assert entry(project, "cpu.py").cuda is not Known.YES
    assert {sync.site.path.name for sync in project.syncs if sync.on_device} == {"gpu.py"}


def test_one_lightning_script_does_not_make_its_neighbour_lightning() -> None:
    lightning = """
import lightning as L
class Net(L.LightningModule):
    def training_step(self, batch, index):
        return self(batch).mean()
L.Trainer().fit(Net())
"""
    project = analyze({"with_lightning.py": lightning, "single.py": SINGLE})
    assert entry(project, "with_lightning.py").framework is Framework.LIGHTNING
    assert entry(project, "single.py").framework is Framework.PYTORCH


def test_a_shared_helper_knows_each_of_its_entry_points() -> None:
    files = {
        "helper.py": "def show(loss):\n    print(loss.item())\n",
        "ddp.py": "from helper import show\n" + DDP.replace("print(loss.item())", "show(loss)"),
        "single.py": "from helper import show\n" + SINGLE.replace("print(loss.item())", "show(loss)"),
    }
    project = analyze(files)
    reports = [report for report in project.reports if report.site.path == ROOT / "helper.py"]
    assert {(report.context.entry.path.name, report.context.entry.distributed) for report in reports} == {
        ("ddp.py", Known.YES),
        ("single.py", Known.NO),
    }


def test_distribution_set_up_in_an_imported_file_belongs_to_the_entry_point() -> None:
    files = {
        "cluster.py": "import torch.distributed as dist\ndef start():\n    dist.init_process_group('nccl')\n",
        "train.py": "from cluster import start\nstart()\n" + SINGLE,
        "single.py": SINGLE,
    }
    project = analyze(files)
    assert entry(project, "train.py").distributed is Known.YES
    assert entry(project, "single.py").distributed is Known.NO


UNRELATED = {
    "a DDP script": {"zz_ddp.py": DDP, "aa_ddp.py": DDP},
    "a script for the CPU": {"aa_cpu.py": CPU},
    "a file of the same name elsewhere": {
        "elsewhere/train.py": CPU,
        "elsewhere/helper.py": "def show(loss):\n    pass\n",
    },
    "a package that trains nothing": {"aa/__init__.py": "", "aa/b.py": "import torch\nx = torch.zeros(3)\n"},
    "a file that trains and that nothing calls": program(
        {
            "aa_library.py": """
                def train(model, loader, optimizer):
                    for x in loader:
                        model(x).backward()
                        optimizer.step()
                        print(x)
                """
        }
    ),
}


@pytest.mark.parametrize("others", UNRELATED.values(), ids=UNRELATED.keys())
def test_unrelated_files_change_nothing(others: dict[str, str]) -> None:
    mine = {
        "train.py": "from helper import show\n" + SINGLE.replace("print(loss.item())", "show(loss)"),
        "helper.py": "def show(loss):\n    print(loss.item())\n",
    }
    alone, together = analyze(mine), analyze({**others, **mine})
    for path in mine:
        assert summary(alone, path)
        assert summary(alone, path) == summary(together, path)


def test_the_order_of_files_changes_nothing() -> None:
    files = {"ddp.py": DDP, "single.py": SINGLE, "cpu.py": CPU}
    forth, back = analyze(files), analyze(dict(reversed(files.items())))
    for path in files:
        assert summary(forth, path) == summary(back, path)


def test_two_runs_give_the_same_records_in_the_same_order() -> None:
    files = {"ddp.py": DDP, "single.py": SINGLE}
    once, again = ([str(site) for site, _ in contexts(analyze(files))] for _ in range(2))
    assert once == again


def test_a_training_function_is_the_same_alone_and_beside_its_caller() -> None:
    engine = program(
        {
            "engine.py": """
                def train_one_epoch(model, loader, optimizer, criterion, device, epoch):
                    model.train()
                    for images, labels in loader:
                        loss = criterion(model(images.to(device)), labels.to(device))
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                        print(loss.item())  # runs: per-step training
                    print("epoch")  # runs: once setup
                """
        }
    )
    check(engine)
    caller = plain("""
        from engine import train_one_epoch
        for epoch in range(3):
            train_one_epoch(model, train_loader, optimizer, criterion, device, epoch)
        """)
    check({"engine.py": engine["engine.py"].replace("once setup", "per-epoch setup"), "train.py": caller})
