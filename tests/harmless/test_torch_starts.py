"""Training jobs under the probe do what they do in a plain run, however they are started and whatever there is no room
for."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import zipapp
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.harmless.torch_jobs import JOBS, SHORT

pytest.importorskip("torch")

STARTED = JOBS / "started.py"
INPUT = STARTED.read_bytes()
FORMS: dict[str, tuple[str, ...]] = {
    "isolated": ("-I", str(STARTED), "--epochs", "1"),
    "development mode, warnings are errors, as a module": ("-X", "dev", "-W", "error", "-m", "started"),
    "optimised, zipped": ("-O", "job.pyz", "-x"),
    "standard input": ("-",),
    "workers": (str(STARTED), "loaders"),
}


def _run(
    words: Sequence[str], folder: Path, prepare: Callable[[], None] | None = None, **variables: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        words,
        cwd=folder,
        input=INPUT,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(JOBS), **variables},
        preexec_fn=prepare,
        timeout=300,
        check=False,
    )


def _probe(result: Path) -> list[str]:
    words = ["-m", "trainlint", "probe", "--continue", "--quiet", *SHORT, "--output-file", str(result), "--"]
    return [sys.executable, *words]


def _measured(result: Path) -> int:
    return int(json.loads(result.read_text("utf-8"))["steps"]["measured"])


@pytest.mark.parametrize("form", FORMS)
def test_started_as(form: str, tmp_path: Path) -> None:
    job, result = tmp_path / "job", tmp_path / "result.json"
    job.mkdir()
    shutil.copy(STARTED, job / "__main__.py")
    zipapp.create_archive(job, job / "job.pyz")
    command = [sys.executable, *FORMS[form]]
    plain, probed = (
        _run(command, job, LC_ALL="C", PYTHONUTF8="0"),
        _run([*_probe(result), *command], job, LC_ALL="C", PYTHONUTF8="0"),
    )
    assert (probed.returncode, probed.stdout, probed.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert plain.returncode == 0, plain.stderr
    assert _measured(result) == 5


ASKED = """
import builtins, runpy, sys
asked, original = [], builtins.__import__
class Finder:
    find_spec = staticmethod(lambda name, path=None, target=None: asked.append(name))
def asks(name, *rest):
    asked.append(name)
    return original(name, *rest)
sys.meta_path.insert(0, Finder)
builtins.__import__ = asks
runpy.run_path(sys.argv.pop(1), run_name="__main__")
print(*sorted({name for name in asked if name.startswith(("_trainlint", "torch", "resource", "numpy"))}), sep="\\n")
"""
"""Runs a program, and prints what was to be imported, as far as it is torch's, numpy's or the agent's."""


def test_nobody_is_asked_for_the_modules_of_the_agent(tmp_path: Path) -> None:
    (tmp_path / "asks.py").write_text(ASKED, encoding="utf-8")
    command = [sys.executable, "asks.py", str(STARTED), "--epochs", "1"]
    plain, probed = _run(command, tmp_path), _run([*_probe(tmp_path / "result.json"), *command], tmp_path)
    assert (probed.returncode, probed.stdout, probed.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert b"torch.optim" in plain.stdout, plain.stderr
    assert _measured(tmp_path / "result.json") == 5


def test_import_times_are_those_of_the_job_and_of_the_agent(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", str(STARTED)]
    plain, probed = _run(command, tmp_path), _run([*_probe(tmp_path / "result.json"), *command], tmp_path)
    assert (probed.returncode, probed.stdout) == (plain.returncode, plain.stdout)
    said, named = _without_imports(plain.stderr)
    said_probed, named_probed = _without_imports(probed.stderr)
    assert said_probed == said
    assert named <= named_probed


def _without_imports(text: bytes) -> tuple[bytes, set[bytes]]:
    imports = re.compile(rb"import time:.*\|\s*(\S+)\n")
    return imports.sub(b"", text), set(imports.findall(text))


@pytest.mark.parametrize("start", ["torchrun", "spawn"])
def test_ranks_compute_the_same(start: str, tmp_path: Path) -> None:
    ranks = []
    for name, probe in (("plain", []), ("probed", _probe(tmp_path / "result.json"))):
        port, folder = _free_port(), tmp_path / name
        folder.mkdir()
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", port]
        words = [*launcher, str(JOBS / "ranks.py")] if start == "torchrun" else [str(JOBS / "ranks.py"), port]
        done = _run([*probe, sys.executable, *words], folder, OMP_NUM_THREADS="1")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        ranks.append([(folder / f"rank{rank}").read_text("utf-8") for rank in range(2)])
    assert ranks[1] == ranks[0]
    assert _measured(tmp_path / "result.json") == 5


def _free_port() -> str:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return str(opened.getsockname()[1])


def test_a_signal_for_the_probe_is_the_jobs(tmp_path: Path) -> None:
    """Its handler ends it with a status of its own."""
    command = [*_probe(tmp_path / "result.json"), sys.executable, str(STARTED), "wait"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while (line := process.stdout.readline()) and b"waits" not in line:
            pass
        process.terminate()
        assert process.wait(60) == 7
    assert _measured(tmp_path / "result.json") == 5


@pytest.mark.skipif(not shutil.which("mount") or os.geteuid() != 0, reason="only root can mount a small disk")
@pytest.mark.parametrize("size", ["64k", "400k"])
def test_a_full_disk_is_said_in_one_line(size: str, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(small)], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        command = [sys.executable, str(STARTED)]
        plain = _run(command, tmp_path)
        probed = _run([*_probe(tmp_path / "result.json"), *command], tmp_path, TMPDIR=str(small))
    finally:
        subprocess.run(["umount", str(small)], check=True)
    assert (probed.returncode, probed.stdout) == (plain.returncode, plain.stdout)
    said = probed.stderr.replace(plain.stderr, b"").splitlines()
    assert len(said) <= 1
    assert all(line.startswith(b"trainlint: ") for line in said)
