"""A job under `trainlint probe --continue --quiet --output-file` does what it does in a plain run: the same standard
output, standard error and status."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

SCRIPTS = {
    "ends well": "print('done')",
    "exits with a status": "import sys; print('a'); sys.exit(3)",
    "exits with a message": "import sys; sys.exit('no data')",
    "raises": "def f(): raise ValueError('é')\nf()",
    "raises in a chain": "try:\n    1 / 0\nexcept Exception as error:\n    raise KeyError('x') from error",
    "ends by os._exit": "import os; print('x', flush=True); os._exit(7)",
    "is ended by SIGTERM": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "is ended by SIGKILL": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "is ended by SIGSEGV": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "aborts": "import os; os.abort()",
    "interrupts itself": "import os, signal; os.kill(os.getpid(), signal.SIGINT); import time; time.sleep(5)",
    "becomes another program": "import os; print('a', flush=True); os.execv('/bin/echo', ['echo', 'b'])",
    "becomes itself again": "import os, sys\nprint(len(sys.argv), flush=True)\n"
    "if len(sys.argv) == 1: os.execv(sys.executable, [sys.executable, sys.argv[0], 'again'])",
    "forks": "import os, sys\npid = os.fork()\nif not pid: os._exit(4)\nprint(os.waitpid(pid, 0)[1])",
    "starts a process by fork": "import multiprocessing as m\nif __name__ == '__main__':\n"
    "    p = m.get_context('fork').Process(target=print, args=('child',)); p.start(); p.join(); print(p.exitcode)",
    "starts a process by spawn": "import multiprocessing as m\nif __name__ == '__main__':\n"
    "    p = m.get_context('spawn').Process(target=print, args=('child',)); p.start(); p.join(); print(p.exitcode)",
    "has its own SIGPROF": "import signal, time\nsignal.signal(signal.SIGPROF, lambda *_: print('tick'))\n"
    "signal.raise_signal(signal.SIGPROF)",
    "has its own profile function": "import sys\ndef f(): pass\n"
    "sys.setprofile(lambda frame, kind, _: frame.f_code.co_name == 'f' and print(kind))\nf()\nsys.setprofile(None)",
    "looks around in the interpreter": "import gc, sys, threading\n"
    "print(sys.flags, sys.meta_path, gc.get_threshold(), threading.enumerate()[1:], sys.argv[1:], __name__)\n"
    "print([one for one in sys.path if 'trainlint-probe' in one], 'sitecustomize' in sys.modules)",
    "looks at its environment": "import os\nprint({key: value for key, value in os.environ.items() "
    "if not key.startswith('TRAINLINT_PROBE') and key not in ('PYTHONPATH', 'KINETO_LOG_LEVEL')})",
    "lists its folder": "import os; print(sorted(os.listdir()))",
    "lists its descriptors": "import os; print(sorted(os.listdir('/proc/self/fd')))",
    "writes bytes": "import sys; sys.stdout.buffer.write(b'\\xff\\xfe\\x00'); sys.stderr.buffer.write(b'\\x80')",
    "warns": "import warnings; warnings.warn('old')",
    "fails at exit": "import atexit\natexit.register(lambda: 1 / 0)",
    "ends in a thread": "import threading\nthreading.Thread(target=lambda: 1 / 0).start()",
    "cannot import": "import nothing_of_this_name",
    "does not parse": "print(",
    "reads its input": "print(input())",
    "counts its process group": "import os; print(os.getpgrp() == os.getpgid(os.getppid()))",
}
"""By what the script does."""
PREPARED: dict[str, Callable[[], None]] = {
    "standard input is closed": lambda: os.close(0),
    "standard output is closed": lambda: os.close(1),
    "the disk is full": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
}
PRINTS = "import sys\nprint('out')\nprint('err', file=sys.stderr)"
FLAGS = (("-I",), ("-E",), ("-S",), ("-u", "-W", "error"), ("-O",))


def runs(
    folder: Path, command: Sequence[str], prepare: Callable[[], None] | None = None, **environment: str
) -> tuple[subprocess.CompletedProcess[bytes], subprocess.CompletedProcess[bytes]]:
    """A plain run, and one under the probe."""

    def run(words: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            words,
            cwd=folder,
            input=b"line\n" if prepare is None else None,
            capture_output=True,
            env={**os.environ, **environment},
            preexec_fn=prepare,
            timeout=120,
            check=False,
        )

    result = folder.parent / "result.json"
    probe = [sys.executable, "-m", "trainlint", "probe", "--continue", "--quiet", "--output-file", str(result), "--"]
    return run(command), run([*probe, *command])


def require_same(
    plain: subprocess.CompletedProcess[bytes], probed: subprocess.CompletedProcess[bytes], own: bytes = b""
) -> None:
    status = plain.returncode
    assert probed.returncode == (128 - status if status < 0 else status)
    assert without_addresses(probed.stdout) == without_addresses(plain.stdout)
    said = [line for line in probed.stderr.splitlines(True) if not (own and line.startswith(own))]
    assert without_addresses(b"".join(said)) == without_addresses(plain.stderr)


def without_addresses(output: bytes) -> bytes:
    """Python shows where objects lie in memory, which no two runs share."""
    return re.sub(rb"0x[0-9a-f]+", b"0x", output)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "job"
    made.mkdir()
    return made


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_job_that(name: str, folder: Path) -> None:
    (folder / "job.py").write_text(SCRIPTS[name], encoding="utf-8")
    require_same(*runs(folder, [sys.executable, "job.py"]))


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_an_interpreter_with(flags: tuple[str, ...], folder: Path) -> None:
    (folder / "job.py").write_text(PRINTS + "\nprint(sys.argv, sys.path[0], __file__)\n1 / 0", encoding="utf-8")
    require_same(*runs(folder, [sys.executable, *flags, "job.py", "-x", "--steps", "1"]))


@pytest.mark.parametrize("name", PREPARED)
def test_a_job_where(name: str, folder: Path) -> None:
    (folder / "job.py").write_text(PRINTS, encoding="utf-8")
    require_same(*runs(folder, [sys.executable, "job.py"], PREPARED[name]), own=b"trainlint: ")


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_code_as_an_argument_of_an_interpreter_with(flag: str, folder: Path) -> None:
    code = "import sys; print(sorted(globals()), __loader__, __spec__, sys.argv)"
    require_same(*runs(folder, [sys.executable, flag, "-c", code, "-x"]))


def test_a_job_with_long_arguments(folder: Path) -> None:
    (folder / "job.py").write_text("import sys; print(len(sys.argv), len(sys.argv[1]))", encoding="utf-8")
    require_same(*runs(folder, [sys.executable, "job.py", "é" * 50_000, *map(str, range(5000))]))


def test_a_job_with_arguments_and_a_folder_that_are_no_text(folder: Path) -> None:
    own = Path(os.fsdecode(os.fsencode(folder) + b"/\xe9"))
    own.mkdir()
    (own / "job.py").write_text("import os, sys; print(list(map(os.fsencode, sys.argv)), ascii(os.getcwd()))")
    require_same(*runs(own, [sys.executable, "job.py", os.fsdecode(b"\xff\x80")]))


def test_a_job_that_clears_the_folder_of_temporary_files(folder: Path) -> None:
    """The recording lies there, and is gone when the job ends, which runs once all the same."""
    (folder / "job.py").write_text(
        "import os, shutil, tempfile\nfor name in os.listdir(tempfile.gettempdir()):\n"
        "    shutil.rmtree(os.path.join(tempfile.gettempdir(), name))\nprint('done')\nraise SystemExit(5)\n",
        encoding="utf-8",
    )
    temporary = folder.parent / "temporary"
    temporary.mkdir()
    require_same(*runs(folder, [sys.executable, "job.py"], TMPDIR=str(temporary)), own=b"trainlint: ")


def test_a_job_with_its_own_sitecustomize(folder: Path) -> None:
    (folder / "sitecustomize.py").write_text(
        "import sys; 'job.py' in sys.argv[:1] + sys.orig_argv[1:2] and print('own')", encoding="utf-8"
    )
    (folder / "job.py").write_text("import sitecustomize; print(sitecustomize.__file__)", encoding="utf-8")
    require_same(*runs(folder, [sys.executable, "job.py"], PYTHONPATH=str(folder)))


def test_a_job_whose_recording_has_no_place(folder: Path) -> None:
    (folder / "job.py").write_text(PRINTS, encoding="utf-8")
    command = [sys.executable, "job.py"]
    require_same(*runs(folder, command, TMPDIR="/proc/nowhere"), own=b"trainlint: ")


def test_a_shell(folder: Path) -> None:
    require_same(*runs(folder, ["bash", "-c", f"{sys.executable} -c 'print(1)'; exit 9"]))
