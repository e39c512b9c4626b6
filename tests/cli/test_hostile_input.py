"""Bad input, bad places and interruptions: a clear finding or message, and all other files are linted and kept."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from program import PLAIN, Program

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs files and signals of POSIX")

BROKEN = "x = (\n"
UNUSED = "x = 1  # trainlint: ignore[TL201] once\n"
FIXED = "x = 1\n"
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
"""Of linux/prctl.h and linux/capability.h."""
COMMAND = [sys.executable, "-m", "trainlint"]


def notebook(cells: list[object], **others: object) -> bytes:
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5} | others).encode()


def without_privileges() -> None:
    """Have permissions hold for root as well, in the program that this process is about to become."""
    system = ctypes.CDLL(None, use_errno=True)
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        if os.geteuid() == 0 and system.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def as_a_user(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program as one who may not read and write everything."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        preexec_fn=without_privileges,
        env=PLAIN,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def _bound_socket(folder: Path) -> None:
    here = Path.cwd()
    os.chdir(folder)  # paths of sockets are short
    try:
        socket.socket(socket.AF_UNIX).bind("sock.py")
    finally:
        os.chdir(here)


def _special_files(folder: Path) -> None:
    (folder / "dangling.py").symlink_to("gone.py")
    (folder / "loop.py").symlink_to("loop.py")
    os.mkfifo(folder / "fifo.py")
    _bound_socket(folder)
    (folder / "device.py").symlink_to("/dev/zero")
    (folder / "folder.py").mkdir()
    (folder / "folder.py" / "up").symlink_to("..")
    (folder / "folder.py" / "self").symlink_to(".")


CONTENTS: dict[str, tuple[bytes, str]] = {
    "syntax.py": (BROKEN.encode(), "TL001"),
    "declared.py": (b'# coding: ascii\nx = "\xe4"\n', "not valid in its declared encoding"),
    "unknown.py": (b"# coding: klingon\n", "declares the encoding klingon"),
    "undeclared.py": (b'x = "\xe4"\n', "not valid in Python's default encoding"),
    "null.py": (b"x = 1\0\n", "holds a null byte"),
    "binary.py": (bytes(range(256)) * 10, "holds a null byte"),
    "wide.py": ("x = 1\n".encode("utf-16"), "is encoded in UTF-16"),
    "brackets.py": (b"x = " + b"(" * 2000 + b")" * 2000, "too many nested parentheses"),
    "operators.py": (b"x = " + b"a + " * 5000 + b"a", "chains more than 1500 operators"),
    "calls.py": (b"import torch\nx = torch.ones(3).cuda()\n" + b"x.item()\n" * 200_000, "1,800,038 characters"),
    "json.ipynb": (b"{", "TL001"),
    "empty.ipynb": (b"", "it is empty"),
    "old.ipynb": (notebook([], nbformat=3), "notebook of format 3"),
    "number.ipynb": (b'{"cells": [], "nbformat": ' + b"4" * 5000 + b"}", "notebook of format"),
    "cells.ipynb": (b'{"nbformat": 4}', 'it has no list of "cells"'),
    "source.ipynb": (notebook([{"cell_type": "code", "source": 5}]), "the source of cell 1 is neither"),
    "deep.ipynb": (b"[" * 100_000, "its JSON nests too deep"),
    "large.ipynb": (b" " * (20 * 1024 * 1024 + 10), "is too large: 20.0 MB, and the limit is 20 MB"),
}
SILENT: dict[str, bytes] = {
    "nothing.py": b"",
    "mark.py": b"\xef\xbb\xbf",
    "functions.py": "".join(" " * i + f"def f{i}():\n" for i in range(99)).encode() + b" " * 99 + b"pass\n",
    "row.py": b'x = "' + b"a" * 1_000_000 + b'"\n',
    "generated.py": b"x = 1\n" * (20 * 1024 * 1024 // 6),
    "elifs.py": b"if a: pass\n" + b"elif a: pass\n" * 5000,
}
SPECIAL = {
    "dangling.py": "points to gone.py, which does not exist",
    "loop.py": "leads back to itself",
    "fifo.py": "is a named pipe",
    "sock.py": "is a socket",
    "device.py": "is a character device",
}


def test_each_bad_file_is_a_finding_and_the_others_are_linted(program: Program) -> None:
    for name, data in SILENT.items():
        (program.folder / name).write_bytes(data)
    for name, (data, _) in CONTENTS.items():
        (program.folder / name).write_bytes(data)
    _special_files(program.folder)
    (program.folder / "folder.py" / "train.py").write_text(BROKEN)
    done = program(".", "--output-format", "json", "--no-cache")
    assert (done.returncode, done.stderr) == (1, "")
    found: dict[str, str] = {}
    for finding in json.loads(done.stdout):
        name = Path(finding["filename"]).name
        assert name not in found, finding
        found[name] = f"{finding['code']} {finding['message']}"
    expected = {name: text for name, (_, text) in CONTENTS.items()} | SPECIAL | {"train.py": "TL001"}
    assert sorted(found) == sorted(expected)
    assert [name for name, text in expected.items() if text not in found[name]] == []


def test_unreadable_files_and_folders_are_told(program: Program) -> None:
    program.write({"pyproject.toml": "", "open.py": BROKEN, "closed.py": BROKEN, "shut/a.py": BROKEN})
    (program.folder / "closed.py").chmod(0)
    (program.folder / "shut").chmod(0)
    try:
        done = as_a_user(program.folder, ".", "--no-cache", "--output-format", "concise")
    finally:
        (program.folder / "shut").chmod(0o755)
    assert done.returncode == 1
    assert "closed.py:1:1: TL002 unreadable-file The file cannot be read: permission denied" in done.stdout
    assert "open.py:1:" in done.stdout
    assert "shut: permission denied" in done.stderr


NAMES = {
    "spaces": b"a b .py",
    "line end": b"a\nb.py",
    "bytes that are no text": b"a\xff\xfe.py",
    "leading dash": b"-a.py",
    "per cent": b"a%20b.py",
    "long": b"a" * 252 + b".py",
    "letters in both cases": b"A.py",
}


def test_any_name_is_walked_reported_and_fixed(program: Program) -> None:
    paths = [os.path.join(os.fsencode(program.folder), name) for name in NAMES.values()]  # noqa: PTH118
    for path in paths:
        with open(path, "w") as file:  # noqa: PTH123
            file.write(UNUSED)
    for format in ("json", "sarif", "junit", "github", "full"):
        done = program(".", "--output-format", format)
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
    done = program(".", "--fix")
    assert (done.returncode, done.stderr) == (0, f"Found {len(NAMES)} problems ({len(NAMES)} fixed, 0 remaining).\n")
    for path in paths:
        with open(path) as file:  # noqa: PTH123
            assert file.read() == FIXED


CONFIGURATIONS = {
    "not TOML": ("trainlint.toml", b"select = [\n", "not valid TOML"),
    "a number beyond what Python reads": ("trainlint.toml", b"x = " + b"9" * 5000, "not valid TOML"),
    "not UTF-8": ("trainlint.toml", b"x = '\xff'", "is not UTF-8"),
    "a broken pyproject": ("pyproject.toml", b"[tool.trainlint\n", "not valid TOML"),
    "a pyproject whose table is none": ("pyproject.toml", b"[tool]\ntrainlint = 1\n", "must be a table"),
    "unknown rule in select": ("trainlint.toml", b'select = ["TL2O1"]', "TL2O1"),
    "unknown rule in ignore": ("trainlint.toml", b'ignore = ["TL999"]', "TL999"),
    "unknown rule in per-file-ignores": ("trainlint.toml", b'per-file-ignores = {"a.py" = ["TL999"]}', "TL999"),
    "unknown rule in severity": ("trainlint.toml", b'severity = {TL999 = "error"}', "TL999"),
    "unknown pack": ("trainlint.toml", b'plugins = ["acme"]', 'no rule pack "acme"'),
}


@pytest.mark.parametrize(("name", "data", "message"), CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_a_wrong_configuration_is_an_error_that_names_it(
    program: Program, name: str, data: bytes, message: str
) -> None:
    program.write({"train.py": "x = 1\n"})
    (program.folder / name).write_bytes(data)
    done = program(".")
    assert (done.returncode, done.stdout) == (2, "")
    assert name in done.stderr and message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_configuration_that_may_not_be_read_is_an_error(program: Program) -> None:
    program.write({"trainlint.toml": "", "train.py": "x = 1\n"})
    (program.folder / "trainlint.toml").chmod(0)
    done = as_a_user(program.folder, ".", "--no-cache")
    assert done.returncode == 2
    assert "trainlint.toml: cannot be read: permission denied" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_belongs_to_a_project_is_not_read_where_it_is_no_regular_file(program: Program) -> None:
    program.write({"a.py": "import torch\nx = (\n"})
    for name in ("pyproject.toml", ".gitignore", "requirements.txt"):
        os.mkfifo(program.folder / name)
    (program.folder / "setup.cfg").symlink_to("/dev/zero")
    done = program(".", "--no-cache", "--output-format", "concise")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("a.py:2:5: TL001")


def _file_in_place(cache: Path) -> None:
    cache.write_text("")


def _folder_in_place_of_the_database(cache: Path) -> None:
    (cache / "cache.sqlite3").mkdir(parents=True)


def _closed(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0)


def _read_only(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o555)


CACHES: dict[str, Callable[[Path], None]] = {
    "a file": _file_in_place,
    "without a database": _folder_in_place_of_the_database,
    "closed": _closed,
    "read-only": _read_only,
}


@pytest.mark.parametrize("make", CACHES.values(), ids=CACHES)
def test_a_cache_that_cannot_be_used_changes_nothing(program: Program, make: Callable[[Path], None]) -> None:
    program.write({"pyproject.toml": "", "a.py": BROKEN})
    make(program.folder / ".trainlint_cache")
    try:
        done = as_a_user(program.folder, ".", "--output-format", "concise")
    finally:
        (program.folder / ".trainlint_cache").chmod(0o755)
    assert done.returncode == 1
    assert done.stdout.startswith("a.py:1:5: TL001")
    assert "Traceback" not in done.stderr


def test_runs_at_once_and_a_clean_meanwhile_agree(program: Program) -> None:
    program.write({f"train_{number}.py": f"import torch\nx{number} = (\n" for number in range(50)})
    commands = [[*COMMAND, ".", "--quiet"], [*COMMAND, ".", "--quiet"], [*COMMAND, "clean"]] * 2
    runs = [
        subprocess.Popen(
            command, cwd=program.folder, env=PLAIN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
        )
        for command in commands
    ]
    outputs = [run.communicate(timeout=60) for run in runs]
    linted = [output for command, output in zip(commands, outputs, strict=True) if "clean" not in command]
    assert {errors for _, errors in linted} == {""}
    assert len({report for report, _ in linted}) == 1 and linted[0][0].count("TL001") == 50
    assert not [errors for _, errors in outputs if "Traceback" in errors]


# ------------------------------------------------------------------------------------------------------- surroundings


def shell(program: Program, line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", line.replace("trainlint", f"'{sys.executable}' -m trainlint")],
        cwd=program.folder,
        env=PLAIN | environment,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


STREAMS = {
    "a full disk": ("trainlint . >/dev/full", 2, "standard output cannot be written: no space left on device"),
    "a full disk, other verbs": ("trainlint rules >/dev/full", 2, "standard output cannot be written"),
    "messages to a full disk": ("trainlint . 2>/dev/full >/dev/null", 2, ""),
    "closed output": ("trainlint . --quiet >&-", 1, ""),
    "closed messages": ("trainlint . 2>&- >/dev/null", 1, ""),
    "closed input": ("trainlint - <&-", 0, "Found nothing in 1 file."),
    "the working directory is gone": ("mkdir d; cd d; rmdir ../d; trainlint .", 2, "working directory cannot be used"),
    "no home": ("unset HOME; trainlint . --quiet", 1, ""),
}


@pytest.mark.parametrize(("line", "status", "message"), STREAMS.values(), ids=STREAMS)
def test_streams_and_places_that_are_not_there(program: Program, line: str, status: int, message: str) -> None:
    program.write({"a.py": BROKEN})
    done = shell(program, line)
    assert done.returncode == status, done.stderr
    assert done.stderr.strip() == message or (message and message in done.stderr)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "cp437", "cp1252"])
def test_a_console_of_any_encoding_takes_every_report(program: Program, encoding: str) -> None:
    program.write({"größe.py": '"損失" = (\n', "pyproject.toml": ""})
    assert program(".").returncode == 1  # what this run keeps names the file in another encoding
    environment = {"LC_ALL": "C", "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = shell(program, "trainlint .", **environment)
    assert done.returncode == 1, done.stderr
    assert "TL001 syntax-error" in done.stdout


# --------------------------------------------------------------------------------------------------------------- fixing


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".trainlint_cache")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=str)
def test_an_interrupted_fix_leaves_each_file_old_or_new(program: Program, number: signal.Signals) -> None:
    files = {f"f{index}.py": UNUSED for index in range(30)}
    for moment in range(3):
        program.write(files)
        run = subprocess.Popen(
            [*COMMAND, ".", "--fix", "--quiet"],
            cwd=program.folder,
            env=PLAIN,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        # Within the writing: it has begun once a file is another one.
        while run.poll() is None and program.read("f0.py") == UNUSED:
            time.sleep(0.001)
        time.sleep(moment * 0.004)
        run.send_signal(number)
        _, errors = run.communicate(timeout=60)
        assert "Traceback" not in errors
        assert {program.read(name) for name in files} <= {UNUSED, FIXED}
        left = [name for name in names(program.folder) if name not in files]
        if number is signal.SIGKILL:
            assert all(name.startswith(".trainlint-") and name.endswith(".tmp") for name in left)
        else:
            assert run.returncode in (0, 128 + number)
            assert left == []
    assert program(".", "--fix").returncode == 0


def test_no_worker_outlives_a_run_that_is_killed(program: Program) -> None:
    body = "import torch\n" + "x = torch.ones(3).sum().item() + 1\n" * 3000
    program.write({f"train_{number}.py": f"y = {number}\n{body}" for number in range(6)})
    run = subprocess.Popen(
        [*COMMAND, ".", "--jobs", "3", "--no-cache"], cwd=program.folder, env=PLAIN, stdout=subprocess.DEVNULL
    )
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    if not children.exists():
        pytest.skip("the system does not tell what a process started")
    workers: list[str] = []
    while run.poll() is None and len(workers) < 3:
        workers = children.read_text().split()
        time.sleep(0.01)
    run.kill()
    run.wait()
    assert len(workers) == 3
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and any(Path(f"/proc/{worker}").exists() for worker in workers):
        time.sleep(0.05)
    assert [worker for worker in workers if Path(f"/proc/{worker}").exists()] == []


def limited(size: int) -> Callable[[], None]:
    """Have what is written end after so many bytes, as on a full disk."""

    def limit() -> None:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


FULL = {
    "fixes": ["--fix"],
    "suppressions": ["--add-suppressions=later", "--extend-select", "TL004"],
    "a baseline": ["--write-baseline", "out.json"],
    "a report": ["--output-file", "out.json", "--output-format", "json"],
}


NOTHING_KNOWN = '{"format": "trainlint-baseline", "version": 1, "findings": []}'


@pytest.mark.parametrize("before", [None, NOTHING_KNOWN], ids=["new", "old"])
@pytest.mark.parametrize("arguments", FULL.values(), ids=FULL)
def test_a_full_disk_leaves_what_was_there(program: Program, arguments: list[str], before: str | None) -> None:
    source = UNUSED + "x = 2\n" * 40
    program.write({"a.py": source} | ({} if before is None else {"out.json": before}))
    done = subprocess.run(
        [*COMMAND, "a.py", "--no-cache", *arguments],
        cwd=program.folder,
        env=PLAIN,
        preexec_fn=limited(20),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert "file too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == (2 if "out.json" in arguments else 1)
    assert program.read("a.py") == source
    assert names(program.folder) == (["a.py"] if before is None else ["a.py", "out.json"])
    assert before is None or program.read("out.json") == before


def test_what_may_not_be_written_is_told_and_the_others_are_fixed(program: Program) -> None:
    program.write({"pyproject.toml": "", "a.py": UNUSED, "shut/b.py": UNUSED, "open/c.py": UNUSED})
    (program.folder / "a.py").chmod(0o444)
    (program.folder / "shut").chmod(0o555)
    try:
        done = as_a_user(program.folder, ".", "--fix", "--no-cache")
    finally:
        (program.folder / "shut").chmod(0o755)
    assert done.returncode == 1
    assert "a.py is read-only" in done.stderr
    assert "b.py could not be written: permission denied" in done.stderr
    assert (program.read("open/c.py"), program.read("a.py"), program.read("shut/b.py")) == (FIXED, UNUSED, UNUSED)
    assert "1 fixed, 2 remaining" in done.stderr


def test_a_link_out_of_the_project_is_not_followed_by_fixes(program: Program) -> None:
    program.write({"project/pyproject.toml": "", "project/real/b.py": UNUSED, "outside.py": UNUSED})
    (program.folder / "project/link.py").symlink_to("../outside.py")
    (program.folder / "project/inner.py").symlink_to("real/b.py")
    done = program("project", "--fix", "--no-cache")
    assert done.returncode == 1
    assert "link.py is not changed: it is a symbolic link to" in done.stderr
    assert (program.read("outside.py"), program.read("project/real/b.py")) == (UNUSED, FIXED)
    assert program("outside.py", "--fix", "--no-cache").returncode == 0


def test_processes_that_are_spawned_find_the_same(program: Program) -> None:
    body = "import torch\n" + "def f(x):\n    return x.item()\n" * 1000
    program.write({f"train_{number}.py": f"y = {number}\n{body}x = (\n" for number in range(3)})
    program.write({"good.py": "import torch\n" + "def f(x):\n    return x.item()\n" * 1000})
    script = (
        "import multiprocessing, sys\n"
        "from trainlint.lint import entry_workers, workers\n"
        "workers.process_context = entry_workers.process_context = lambda: multiprocessing.get_context('spawn')\n"
        "from trainlint.__main__ import main\n"
        "sys.argv = ['trainlint', '.', '--no-cache', '--jobs', '2']\n"
        "sys.exit(main())\n"
    )
    spawned = subprocess.run(
        [sys.executable, "-c", script],
        cwd=program.folder,
        env=PLAIN,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    alone = program(".", "--no-cache", "--jobs", "1")
    assert (spawned.returncode, spawned.stdout, spawned.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    assert spawned.stdout.count("TL001") == 3
