"""Small programs with marks: comments that say when a line runs and where the values that it reads live.

A mark ends a line and makes one or more claims, separated by commas:

- `# runs: per-step training`: how often, and in which region, every record of the line runs; several contexts are
  separated by `|`; `never` where nothing may be recorded.
- `# reads: device`, `host` or `unknown`: where the values live whose reading waits for the device; `host` and `unknown`
  also hold where no sync is recorded at all.
- `# under: rank+interval`: kinds of guard that each context of the line stands under; `none` for no guard at all.
- `# syncs: read`: the kinds of sync points on the line; `none` for none.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping

import pytest

from trainlint.lint.analyze import ROOT, analyze
from trainlint.semantics.link import LinkOptions
from trainlint.semantics.project import Context, Entry, Project, Site
from trainlint.semantics.vocabulary import GuardKind, Place

_MARK = re.compile(r"#(?=.*\b(?:runs|reads|under|syncs):)\s*(.*)$")

PLAIN = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

device = torch.device("cuda")
train_loader = DataLoader(datasets.CIFAR10("data", transform=transforms.ToTensor()), batch_size=64, shuffle=True)
val_loader = DataLoader(datasets.CIFAR10("data", train=False, transform=transforms.ToTensor()), batch_size=64)
model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
"""Head of a plain script on one GPU: model, optimizer, loaders."""


def plain(body: str) -> str:
    """A script with the usual head."""
    return PLAIN.lstrip() + inspect.cleandoc(body) + "\n"


def program(files: Mapping[str, str]) -> dict[str, str]:
    """A program of several files, by path; indented texts are aligned."""
    return {path: inspect.cleandoc(text) + "\n" for path, text in files.items()}


def contexts(project: Project) -> Iterator[tuple[Site, Context]]:
    """Where every record of the project stands, and in which context."""
    lists = (
        project.calls,
        project.syncs,
        project.reports,
        project.transfers,
        project.tokenizations,
        project.kept_graphs,
        project.wrappings,
        project.placements,
        project.evaluations,
        project.checkpoints,
        project.loaders,
        project.samplers,
    )
    for records in lists:
        yield from ((record.site, record.context) for record in records)


def _at(site: Site, path: str, row: int) -> bool:
    return site.path == ROOT / path and site.row == row


def _runs(project: Project, path: str, row: int) -> str:
    found = {
        f"{context.frequency.label} {context.region.value}"
        for site, context in contexts(project)
        if _at(site, path, row)
    }
    return " | ".join(sorted(found)) or "never"


def _reads(project: Project, path: str, row: int, claimed: str) -> str:
    places = {sync.value.place for sync in project.syncs if _at(sync.site, path, row)}
    if not places and claimed != "device":
        return claimed
    return " | ".join(sorted(place.value for place in places)) or "nothing"


def _under(project: Project, path: str, row: int, claimed: str) -> str:
    kinds = [{guard.kind for guard in context.guards} for site, context in contexts(project) if _at(site, path, row)]
    if claimed == "none":
        return "+".join(sorted({kind.value for found in kinds for kind in found})) or "none"
    wanted = {GuardKind(word) for word in claimed.split("+")}
    if kinds and all(wanted <= found for found in kinds):
        return claimed
    return " | ".join(sorted("+".join(sorted(kind.value for kind in found)) for found in kinds)) or "no record"


def _syncs(project: Project, path: str, row: int) -> str:
    kinds = {
        sync.kind.value for sync in project.syncs if _at(sync.site, path, row) and sync.value.place is Place.DEVICE
    }
    return " | ".join(sorted(kinds)) or "none"


def marks(text: str) -> Iterator[tuple[int, str, str]]:
    """Row, aspect and claim of every mark in a file."""
    for row, line in enumerate(text.splitlines(), 1):
        match = _MARK.search(line)
        if match is None:
            continue
        for claim in match[1].split(","):
            aspect, _, words = claim.partition(":")
            yield row, aspect.strip(), " | ".join(sorted(word.strip() for word in words.split("|")))


_ANSWERS: Mapping[str, Callable[[Project, str, int, str], str]] = {
    "runs": lambda project, path, row, claimed: _runs(project, path, row),
    "reads": _reads,
    "under": _under,
    "syncs": lambda project, path, row, claimed: _syncs(project, path, row),
}


def check(files: Mapping[str, str] | str, options: LinkOptions | None = None) -> Project:
    """Analyze a program and compare what was understood with its marks; the program must have some."""
    files = {"train.py": files} if isinstance(files, str) else files
    project = analyze(files, options)
    claims, wrong = 0, []
    for path, text in files.items():
        lines = text.splitlines()
        for row, aspect, claim in marks(text):
            claims += 1
            understood = _ANSWERS[aspect](project, path, row, claim)
            if understood != claim:
                code = lines[row - 1].partition("#")[0].strip()
                wrong.append(f"{path}:{row} {aspect}: {understood}; expected {claim}: {code}")
    assert claims, "the program has no marks"
    assert not wrong, "\n".join(wrong)
    return project


def entry(project: Project, path: str) -> Entry:
    """The entry point that a file is."""
    return next(entry for entry in project.entries if entry.path == ROOT / path)


def table(cases: Mapping[str, str | dict[str, str]]) -> pytest.MarkDecorator:
    """Parametrize a test over programs by name; a text alone is `train.py`."""
    return pytest.mark.parametrize("files", [pytest.param(files, id=name) for name, files in cases.items()])
