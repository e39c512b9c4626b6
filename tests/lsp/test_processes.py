"""The server's processes: how they end, and what happens when one of them ends too early."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from language_client import WAIT_S, Editor, descendants, gone, kill
from lsprotocol import types
from programs import QUIET_UTILS, TRAIN
from pygls.exceptions import JsonRpcException

from trainlint.lsp.analysis import Analysis, AnalysisEnded
from trainlint.lsp.messages import RealizeAll

FILES = {"train.py": TRAIN, "utils.py": QUIET_UTILS}


async def test_shutdown_and_exit_leave_nothing_behind(start, project):
    folder = project(FILES)
    editor: Editor = await start(folder)
    await editor.found(editor.open(folder / "train.py"))
    pids = descendants(editor.server.pid)
    assert (await editor.information())["analysis_process"] in pids
    assert await editor.stop() == 0
    await gone(pids)


async def test_requests_after_shutdown_are_refused(start, project):
    folder = project(FILES)
    editor: Editor = await start(folder)
    uri = editor.open(folder / "train.py")
    await editor.within(editor.client.shutdown_async(None))
    with pytest.raises(JsonRpcException) as raised:
        await editor.pull(uri)
    assert raised.value.code == -32600
    editor.client.exit(None)
    assert await editor.ended() == 0


async def test_exit_without_shutdown_is_an_error(start, project):
    folder = project(FILES)
    editor: Editor = await start(folder)
    await editor.found(editor.open(folder / "train.py"))
    pids = descendants(editor.server.pid)
    editor.client.exit(None)
    assert await editor.ended() == 1
    await gone(pids)


async def test_a_client_that_is_killed_leaves_nothing_behind(project):
    folder = project({f"part{number}.py": TRAIN for number in range(40)} | FILES)
    # The client is a process of its own, which starts a server and has it check.
    script = textwrap.dedent(
        f"""
        import asyncio, pathlib, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from language_client import Editor

        async def main():
            folder = pathlib.Path({str(folder)!r})
            editor = await Editor.start(folder)
            editor.open(folder / "train.py")
            asyncio.ensure_future(editor.whole())
            information = await editor.information()
            print(information["server_process"], information["analysis_process"], flush=True)
            await asyncio.sleep(600)

        asyncio.run(main())
        """
    )
    client = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    pids = [int(word) for word in (await asyncio.to_thread(client.stdout.readline)).split()]
    assert len(pids) == 2
    pids += descendants(pids[0])
    client.kill()
    client.wait()
    client.stdout.close()
    await gone(pids)


async def test_a_server_that_is_killed_leaves_nothing_behind(start, project):
    folder = project(FILES)
    editor: Editor = await start(folder)
    await editor.found(editor.open(folder / "train.py"))
    pids = descendants(editor.server.pid)
    await editor.abandon()
    await gone(pids)


async def test_an_analysis_that_is_killed_is_started_again_until_it_happens_too_often(start, project):
    folder = project(FILES)
    editor: Editor = await start(folder)
    uri = editor.open(folder / "train.py")
    assert await editor.found(uri) == ["9 TL104", "17 TL201"]
    for kills in range(1, 4):
        pid = (await editor.information())["analysis_process"]
        kill(pid)
        await gone([pid])
        # What was found stays, goes where the text goes, and is found again.
        editor.splice(uri, (0, 0, "\n"))
        assert [line.split()[0] for line in await editor.found(uri)] == [str(9 + kills), str(17 + kills)]
        async with asyncio.timeout(WAIT_S):
            while (await editor.information())["analysis_process"] in (None, pid):
                await asyncio.sleep(0.05)
        editor.replace(uri, "float(value_of(loss))", "value_of(loss)")
        assert await editor.found(uri) == [f"{9 + kills} TL104"]
        editor.replace(uri, "append(value_of(loss))", "append(float(value_of(loss)))")
        assert await editor.found(uri) == [f"{9 + kills} TL104", f"{17 + kills} TL201"]
        assert editor.messages == []
    pid = (await editor.information())["analysis_process"]
    kill(pid)
    await editor.until(lambda: bool(editor.messages))
    assert "restart the server" in editor.messages[0]
    editor.splice(uri, (0, 0, "\n"))
    assert await editor.found(uri) == ["13 TL104", "21 TL201"]
    assert await editor.hover(uri, "float(") is not None
    assert len(editor.messages) == 1


async def test_what_waits_for_an_analysis_that_is_killed_is_answered(start, project):
    folder = project(FILES)
    editor: Editor = await start(folder)
    pid = (await editor.information())["analysis_process"]
    body = "".join(f"def f{number}(x):\n    return [x, {number}]\n\n\n" for number in range(2000))
    uri = editor.open(folder / "train.py", TRAIN + body)
    waiting = asyncio.ensure_future(editor.found(uri))
    whole = asyncio.ensure_future(editor.whole())
    await editor.information()
    kill(pid)
    await editor.within(waiting)
    await editor.within(whole)
    await editor.becomes(uri, ["9 TL104", "17 TL201"])
    assert editor.messages == []


async def test_over_tcp_it_serves_one_client(project):
    folder = project(FILES)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "trainlint", "server", "--tcp", f"127.0.0.1:{port}", stderr=asyncio.subprocess.PIPE
    )
    assert server.stderr is not None
    said = await asyncio.wait_for(server.stderr.readline(), WAIT_S)
    assert f"127.0.0.1:{port}" in said.decode()
    editor = Editor.of_client()
    async with asyncio.timeout(WAIT_S):
        while not editor.client.protocol.writer:
            with suppress(ConnectionRefusedError):
                await editor.client.start_tcp("127.0.0.1", port)
    await editor.introduce(folder)
    assert await editor.found(editor.open(folder / "train.py")) == ["9 TL104", "17 TL201"]
    pids = descendants(server.pid)
    assert pids
    await editor.within(editor.client.shutdown_async(None))
    editor.client.exit(None)
    assert await asyncio.wait_for(server.wait(), WAIT_S) == 0
    await gone(pids)


NOISY = """
print("a pack that prints")
import os, sys
os.write(1, b"and writes\\n")
RULES = []
rules = []
"""


async def test_what_a_rule_pack_prints_does_not_get_between_messages(start, project, tmp_path):
    packs = tmp_path / "packs"
    (packs / "noisy-1.0.dist-info").mkdir(parents=True)
    (packs / "noisy-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: noisy\nVersion: 1.0\n")
    (packs / "noisy-1.0.dist-info" / "entry_points.txt").write_text("[trainlint.rules]\nnoisy = noisy\n")
    (packs / "noisy.py").write_text(NOISY)
    folder = project(FILES)
    editor: Editor = await start(folder, environment={"PYTHONPATH": os.pathsep.join([str(packs), *sys.path])})
    uri = editor.open(folder / "train.py")
    assert await editor.found(uri) == ["9 TL104", "17 TL201"]
    assert await editor.hover(uri, "float(") is not None
    assert await editor.stop() == 0


async def test_standard_output_holds_messages_only(project):
    folder = project(FILES)
    bodies = [
        '{"jsonrpc":"2.0","id":1,"method":"textDocument/hover","params":{"textDocument":{"uri":"file:///x.py"},'
        '"position":{"line":0,"character":0}}}',
        '{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"processId":null,"rootUri":"FOLDER",'
        '"capabilities":{}}}'.replace("FOLDER", folder.as_uri()),
        '{"jsonrpc":"2.0","method":"initialized","params":{}}',
        '{"jsonrpc":"2.0","id":3,"method":"no/suchMethod","params":{}}',
        "{ this is not JSON",
        '{"jsonrpc":"2.0","id":4,"method":"shutdown"}',
        '{"jsonrpc":"2.0","method":"exit"}',
    ]
    sent = "".join(f"Content-Length: {len(body)}\r\n\r\n{body}" for body in bodies)
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "trainlint", "server", "--stdio"],
        input=sent.encode(),
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    rest, ids = ran.stdout, {}
    while rest:
        header, rest = rest.split(b"\r\n\r\n", 1)
        length = int(header.split(b"Content-Length: ")[1].split(b"\r\n")[0])
        message = json.loads(rest[:length])
        ids[message.get("id")] = message
        rest = rest[length:]
    assert ids[1]["error"]["code"] == -32002
    assert ids[2]["result"]["serverInfo"]["name"] == "trainlint"
    assert ids[3]["error"]["code"] == -32601
    assert ids[4]["result"] is None


async def test_a_client_that_answers_nothing_is_served_all_the_same(start, project):
    folder = project(FILES)
    editor = Editor.of_client()

    async def never(params: object) -> None:
        await asyncio.sleep(600)

    for method in (types.WORKSPACE_CONFIGURATION, types.CLIENT_REGISTER_CAPABILITY):
        editor.client.protocol.fm._features[method] = never
    await editor.client.start_io(sys.executable, "-m", "trainlint", "server")
    await editor.introduce(folder)
    assert await editor.found(editor.open(folder / "train.py")) == ["9 TL104", "17 TL201"]
    assert await editor.stop() == 0


async def test_an_analysis_that_is_closed_ends_quietly_and_takes_no_question(monkeypatch):
    faults: list[object] = []
    monkeypatch.setattr(threading, "excepthook", faults.append)
    before = set(threading.enumerate())
    analysis = Analysis()
    analysis.start()
    analysis.listen()
    threads = set(threading.enumerate()) - before
    question = RealizeAll(Path("train.py"), (), b"x = 1\n")
    await analysis.ask(question)
    await asyncio.to_thread(analysis.close)
    with pytest.raises(AnalysisEnded):
        await analysis.ask(question)
    for thread in threads:
        await asyncio.to_thread(thread.join, WAIT_S)
        assert not thread.is_alive()
    assert faults == []
