"""Measures the language server as an editor meets it, over standard input and output.

    python -m tests.bench.lsp [--edits N] [--strict]

From an edit to the diagnostics for it, by the clock, divided by the time of `libcst.parse_module` on the same text in
the same run; the server waits for nothing before it checks, so there is no delay to leave out. Edits are those of
`tests.bench.incremental`, each followed by its opposite; another project of 300 files is open meanwhile. Besides: code
actions and hovers, the start, and the memory of the server and its analysis process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from tests.bench.generated import write_training_project
from tests.bench.incremental import EDITS, broken, files, is_valid, p95, parsing_s

GOALS = {"median": 0.3, "p95": 1.0}
"""Of an edit, in units of parsing, for 1,000 lines and more."""
MOST_MS_AT_1000 = 150.0
MOST_REQUEST_MS = 20.0
MOST_START_S = 1.5
MOST_GROWTH = 0.05
WARM_UP = 20
"""Edits of each file before anything is measured."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.lsp", description=__doc__)
    parser.add_argument("--edits", type=int, default=200, help="edits of each file (default: 200)")
    parser.add_argument("--files", type=int, default=300, help="files of the other project (default: 300)")
    parser.add_argument("--strict", action="store_true", help="fail where a goal is not met")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        met = asyncio.run(_measured(Path(folder).resolve(), arguments.edits, arguments.files))
    return 0 if met or not arguments.strict else 1


@dataclass
class _Series:
    """What was measured of one file."""

    edits_s: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    actions_s: list[float] = field(default_factory=list)
    hovers_s: list[float] = field(default_factory=list)


class _Client:
    """Speaks the protocol with one server."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process, self._to, self._from = process, process.stdin, process.stdout
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._published: dict[tuple[str, int], asyncio.Future[Any]] = {}
        self._number = 0
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, folders: Sequence[Path]) -> _Client:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "trainlint", "server"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**26,
        )
        client = cls(process)
        properties = {"properties": ["edit", "command"]}
        capabilities = {"textDocument": {"codeAction": {"resolveSupport": properties}}}
        roots = [{"uri": folder.as_uri(), "name": folder.name} for folder in folders]
        await client.ask("initialize", {"processId": None, "capabilities": capabilities, "workspaceFolders": roots})
        client.tell("initialized", {})
        return client

    def tell(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    async def ask(self, method: str, params: Any) -> Any:
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        self._send({"id": self._number, "method": method, "params": params})
        return await answer

    def diagnostics(self, uri: str, version: int) -> asyncio.Future[Any]:
        """What the server publishes for a version of a text."""
        return self._published.setdefault((uri, version), asyncio.get_running_loop().create_future())

    async def stop(self) -> None:
        await self.ask("shutdown", None)
        self.tell("exit", None)
        await self.process.wait()
        self._reading.cancel()

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._to.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def _read(self) -> None:
        while header := await self._from.readuntil(b"\r\n\r\n"):
            length = int(header.lower().partition(b"content-length:")[2].split()[0])
            message = json.loads(await self._from.readexactly(length))
            if message.get("method") == "textDocument/publishDiagnostics":
                params = message["params"]
                published = self.diagnostics(params["uri"], params.get("version", -1))
                if not published.done():  # else another file changed what is found in this one
                    published.set_result(params["diagnostics"])
            elif "method" not in message:
                self._answers.pop(message["id"]).set_result(message.get("result"))


class _Editor:
    """One text under edit."""

    def __init__(self, client: _Client, path: Path, text: str) -> None:
        self.client, self.uri, self.text, self.version = client, path.as_uri(), text, 1
        self.diagnostics: list[Any] = []

    async def open(self) -> None:
        item = {"uri": self.uri, "languageId": "python", "version": 1, "text": self.text}
        self.client.tell("textDocument/didOpen", {"textDocument": item})
        self.diagnostics = await self.client.diagnostics(self.uri, 1)

    async def become(self, text: str) -> float:
        """Make the text another one by one edit; return the seconds until its diagnostics."""
        start = next((n for n, (a, b) in enumerate(zip(self.text, text, strict=False)) if a != b), 0)
        shared = min(len(self.text), len(text)) - start
        tail = next((n for n in range(shared) if self.text[-1 - n] != text[-1 - n]), shared)
        place = {"start": _place(self.text, start), "end": _place(self.text, len(self.text) - tail)}
        change = {"range": place, "text": text[start : len(text) - tail]}
        self.version += 1
        self.text = text
        published = self.client.diagnostics(self.uri, self.version)
        began = time.perf_counter()
        document = {"uri": self.uri, "version": self.version}
        self.client.tell("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})
        self.diagnostics = await published
        return time.perf_counter() - began

    async def timed(self, method: str, params: dict[str, Any]) -> float:
        """Ask about the text; return the seconds until the answer."""
        began = time.perf_counter()
        await self.client.ask(method, {"textDocument": {"uri": self.uri}, **params})
        return time.perf_counter() - began


def _place(text: str, offset: int) -> dict[str, int]:
    row = text.count("\n", 0, offset)
    return {"line": row, "character": offset - (text.rfind("\n", 0, offset) + 1)}


async def _measured(folder: Path, edits: int, other_files: int) -> bool:
    work, other = folder / "work", folder / "other"
    write_training_project(other, files=other_files)
    texts = list(files())
    for number, (_, text) in enumerate(texts):
        (work / f"part_{number}").mkdir(parents=True)
        (work / f"part_{number}" / "train.py").write_text(text)
    met = await _start_measured(work / "part_0" / "train.py")
    client = await _Client.start([work, other])
    script = sorted(other.glob("scripts/*/*.py"))[0]
    await _Editor(client, script, script.read_text()).open()
    print(f"{'file':<32} {'edit: median':>14} {'p95':>8} {'p95 ms':>8} {'actions p95 ms':>15} {'hover p95 ms':>13}")
    editors = [_Editor(client, work / f"part_{number}" / "train.py", text) for number, (_, text) in enumerate(texts)]
    for editor in editors:
        await editor.open()
        await _edited(editor, WARM_UP)
    before = _memory(client)
    for editor, (name, text) in zip(editors, texts, strict=True):
        met &= _printed(name, text.count("\n"), await _edited(editor, edits))
    growth = _memory(client) / before - 1
    met &= growth <= MOST_GROWTH
    print(
        f"memory {before / 2**20:.0f} MiB; growth by {edits * len(texts)} edits {growth:.1%} (goal {MOST_GROWTH:.0%})"
    )
    await client.stop()
    return met


async def _start_measured(path: Path) -> bool:
    """The time from the start of the process to the first diagnostics, the second time that the folder is opened."""
    seconds = 0.0
    for _ in range(2):
        began = time.perf_counter()
        client = await _Client.start([path.parent])
        await _Editor(client, path, path.read_text()).open()
        seconds = time.perf_counter() - began
        await client.stop()
    print(f"start to first diagnostics {seconds:.2f} s (goal {MOST_START_S} s)")
    return seconds <= MOST_START_S


async def _edited(editor: _Editor, edits: int) -> _Series:
    series, choose, original = _Series(), random.Random(len(editor.text)), editor.text
    parsing = parsing_s(original, time.perf_counter)
    while len(series.edits_s) < edits:
        edit = choose.choice(EDITS)
        text = edit(original, choose)
        if text == original or (edit is not broken and not is_valid(text)):
            continue
        for state in (text, original):
            series.edits_s.append(await editor.become(state))
            series.ratios.append(series.edits_s[-1] / parsing)
        if len(series.edits_s) % 10 == 0:
            parsing = parsing_s(original, time.perf_counter)
            span = editor.diagnostics[0]["range"] if editor.diagnostics else {"start": {"line": 1, "character": 0}}
            place = {"range": {"start": span["start"], "end": span["start"]}, "context": {"diagnostics": []}}
            series.actions_s.append(await editor.timed("textDocument/codeAction", place))
            series.hovers_s.append(await editor.timed("textDocument/hover", {"position": span["start"]}))
    return series


def _printed(name: str, lines: int, series: _Series) -> bool:
    median, high = statistics.median(series.ratios), p95(series.ratios)
    edit_ms, action_ms, hover_ms = (1000 * p95(one) for one in (series.edits_s, series.actions_s, series.hovers_s))
    met = max(action_ms, hover_ms) <= MOST_REQUEST_MS
    if lines >= 900:
        met &= median <= GOALS["median"] and high <= GOALS["p95"]
        met &= lines > 1500 or edit_ms <= MOST_MS_AT_1000
    verdict = "met" if met else "not met"
    print(f"{name:<32} {median:>14.3f} {high:>8.3f} {edit_ms:>8.1f} {action_ms:>15.1f} {hover_ms:>13.1f}  {verdict}")
    return met


def _memory(client: _Client) -> int:
    """Bytes that the server and its analysis process hold."""
    server = psutil.Process(client.process.pid)
    return sum(process.memory_info().rss for process in (server, *server.children(recursive=True)))


if __name__ == "__main__":
    raise SystemExit(main())
