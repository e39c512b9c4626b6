"""Files that come, change and go beside the editor."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from language_client import Abilities, Editor
from programs import QUIET_UTILS, SYNCING_UTILS, TRAIN

FILES = {"train.py": TRAIN, "utils.py": QUIET_UTILS}
WATCHING = Abilities()
NOT_WATCHING = Abilities(watches=False)
"""The server has to watch by itself."""


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


def change(folder: Path) -> list[Path]:
    (folder / "utils.py").write_text(SYNCING_UTILS)
    return [folder / "utils.py"]


def delete(folder: Path) -> list[Path]:
    (folder / "utils.py").unlink()
    return [folder / "utils.py"]


def rename(folder: Path) -> list[Path]:
    (folder / "other.py").rename(folder / "utils.py")
    return [folder / "other.py", folder / "utils.py"]


def create(folder: Path) -> list[Path]:
    (folder / "trainlint.toml").write_text('ignore = ["TL201"]\n')
    return [folder / "trainlint.toml"]


def checkout(folder: Path) -> list[Path]:
    git(folder, "checkout", "-q", "other")
    return [folder / "utils.py", folder / ".git" / "HEAD"]


CHANGES: dict[str, tuple[Callable[[Path], Sequence[Path]], list[str]]] = {
    "a file is changed": (change, ["9 TL104"]),
    "a file is deleted": (delete, ["9 TL104"]),
    "a file is renamed over another": (rename, ["9 TL104"]),
    "a configuration file is made": (create, ["9 TL104"]),
    "another branch is checked out": (checkout, ["9 TL104"]),
}


@pytest.mark.parametrize("abilities", [WATCHING, NOT_WATCHING], ids=["the editor tells", "the server looks"])
@pytest.mark.parametrize(("act", "expected"), CHANGES.values(), ids=CHANGES.keys())
async def test_findings_follow_the_disk(edit, project, abilities, act, expected):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    folder = project({**FILES, "utils.py": SYNCING_UTILS, "other.py": SYNCING_UTILS})
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "syncing")
    git(folder, "branch", "other")
    (folder / "utils.py").write_text(QUIET_UTILS)
    git(folder, "commit", "-qam", "quiet")
    editor: Editor = await edit(folder, abilities=abilities)
    train = editor.open(folder / "train.py")
    assert await editor.found(train) == ["9 TL104", "17 TL201"]
    paths = act(folder)
    if abilities.watches:
        editor.tell_changed(*paths)
    await editor.becomes(train, expected)


CONFIGURED = """
import torch
import yaml
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

with open("conf/train.yaml") as file:
    config = yaml.safe_load(file)
images = datasets.CIFAR10("data", transform=transforms.ToTensor())
loader = DataLoader(images, batch_size=64, num_workers=config["workers"], pin_memory=True)
model = torch.nn.Linear(3072, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch, labels in loader:
    loss = model(batch.cuda(non_blocking=True).flatten(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("abilities", [WATCHING, NOT_WATCHING], ids=["the editor tells", "the server looks"])
async def test_findings_follow_the_configuration_files_that_code_names(edit, project, abilities):
    folder = project({"train.py": CONFIGURED, "conf/train.yaml": "workers: 4\n"})
    editor: Editor = await edit(folder, abilities=abilities)
    train = editor.open(folder / "train.py")
    assert await editor.found(train) == []
    for text, expected in (("workers: 0\n", ["10 TL103"]), ("workers: 2\n", [])):
        (folder / "conf/train.yaml").write_text(text)
        if abilities.watches:
            editor.tell_changed(folder / "conf/train.yaml")
        await editor.becomes(train, expected)


DEPRECATED = """
import torch

model = torch.nn.Linear(8, 8).cuda()
with torch.cuda.amp.autocast():
    model(torch.ones(8, device="cuda"))
"""


@pytest.mark.parametrize("abilities", [WATCHING, NOT_WATCHING], ids=["the editor tells", "the server looks"])
async def test_findings_follow_the_file_that_says_which_torch_there_is(edit, project, abilities):
    folder = project({"train.py": DEPRECATED})
    editor: Editor = await edit(folder, abilities=abilities)
    train = editor.open(folder / "train.py")
    assert await editor.found(train) == ["5 TL405"]
    environment = folder / "environment.yml"
    for release, expected in (("1.9", []), ("2.1", ["5 TL405"])):
        environment.write_text(f"dependencies:\n  - pytorch={release}\n")
        if abilities.watches:
            editor.tell_changed(environment)
        await editor.becomes(train, expected)


async def test_a_file_that_is_made_is_imported_from_then_on(edit, project):
    folder = project({"train.py": TRAIN})
    editor: Editor = await edit(folder)
    train = editor.open(folder / "train.py")
    assert await editor.found(train) == ["9 TL104"]
    (folder / "utils.py").write_text(QUIET_UTILS)
    editor.tell_changed(folder / "utils.py")
    await editor.becomes(train, ["9 TL104", "17 TL201"])


async def test_an_open_text_wins_over_its_file_that_changed(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    train, utils = editor.open(folder / "train.py"), editor.open(folder / "utils.py")
    editor.replace(utils, "tensor.detach()", "tensor.detach()  # typed")
    assert await editor.found(train) == ["9 TL104", "17 TL201"]
    (folder / "utils.py").write_text(SYNCING_UTILS)
    editor.tell_changed(folder / "utils.py")
    assert await editor.found(train) == ["9 TL104", "17 TL201"]
    editor.close(utils)
    await editor.becomes(train, ["9 TL104"])


async def test_a_server_that_looks_by_itself_notices_new_folders(edit, project):
    folder, other = project({"train.py": TRAIN.replace("from utils", "from parts.utils")}), project(FILES, "other")
    editor: Editor = await edit(folder, abilities=NOT_WATCHING)
    train = editor.open(folder / "train.py")
    assert await editor.found(train) == ["9 TL104"]
    (folder / "parts").mkdir()
    (folder / "parts" / "utils.py").write_text(QUIET_UTILS)
    await editor.becomes(train, ["9 TL104", "17 TL201"])
    (folder / "parts" / "utils.py").write_text(SYNCING_UTILS)
    await editor.becomes(train, ["9 TL104"])
    editor.tell_folders(added=[other])
    in_other = editor.open(other / "train.py")
    assert await editor.found(in_other) == ["9 TL104", "17 TL201"]
    (other / "utils.py").write_text(SYNCING_UTILS)
    await editor.becomes(in_other, ["9 TL104"])
    editor.tell_folders(removed=[other])


@pytest.mark.parametrize("how", ["removed", "renamed"])
async def test_a_client_that_does_not_name_a_file_that_is_gone_is_told_that_nothing_is_found_in_it(edit, project, how):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    gone, now = folder / "train.py", folder / "renamed.py"
    uri = editor.open(gone)
    assert await editor.found(uri) == ["9 TL104", "17 TL201"]
    editor.close(uri)
    if how == "removed":
        gone.unlink()
    else:
        gone.rename(now)
    editor.tell_changed(gone, *([now] if how == "renamed" else []))
    whole = await editor.whole()
    assert [one.code for one in whole[uri].items] == []
    if how == "renamed":
        assert [one.code for one in whole[now.as_uri()].items] == ["TL104", "TL201"]
    assert uri not in await editor.whole()
