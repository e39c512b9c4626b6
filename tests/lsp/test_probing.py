"""Probes that the editor asks for: real jobs, real results."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from language_client import Editor, descendants, gone
from lsprotocol import types
from pygls.exceptions import JsonRpcException

pytest.importorskip("torch")
pytest.importorskip("psutil")

JOB = """\
import sys
import time

import torch
from torch import nn

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
print("arguments", sys.argv[1:])
loader = torch.utils.data.DataLoader(torch.randn(100_000, 4), batch_size=4)
for batch in loader:
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.01)
    print("loss", loss.detach())
"""
FOR_LONG = JOB.replace("time.sleep(0.01)", "time.sleep(0.5)")
WAIT_S = 120.0


async def within(awaited):
    """A probe starts a Python that imports torch, which a busy machine takes its time for."""
    return await asyncio.wait_for(awaited, WAIT_S)


async def probe(editor: Editor, **argument: object):
    request = {"python": sys.executable, **argument}
    params = types.ExecuteCommandParams("trainlint.probe", arguments=[request])
    return await within(editor.client.workspace_execute_command_async(params))


async def test_a_script_is_probed_and_what_was_measured_is_shown(start, project):
    folder = project({"train.py": JOB})
    editor: Editor = await start(folder)
    uri = editor.open(folder / "train.py")
    assert await editor.found(uri) != []
    result = await probe(editor, uri=uri, args=["--name", "two words"], steps=20)
    assert result["steps"]["measured"] >= 20
    assert result["command"][-2:] == ["--name", "two words"]
    assert result["job"]["stopped_by_probe"] is True
    assert " ms per step, bottleneck: " in result["summary"]
    assert [kind for kind, _ in editor.progress][:2] == ["create", "begin"]
    assert editor.progress[-1][0] == "end"
    assert {kind for kind, _ in editor.progress} == {"create", "begin", "report", "end"}
    (judged, *_) = [one for one in await editor.diagnostics(uri) if one.code == "TL202"]
    assert judged.data["verdict"]["status"] in ("confirmed", "refuted")
    assert "measured" in judged.message
    (_, title, command, _) = next(lens for lens in await editor.lenses(uri) if lens[2] != "trainlint.probe")
    assert command == "trainlint.openReport"
    assert "ms per step, bottleneck: " in title
    assert await editor.hints(uri) != {}
    report = await editor.command("trainlint.openReport", {})
    assert "<html" in report["html"]


MODULE = """\
import os
import sys
from pathlib import Path

Path(os.environ["REPORT"]).write_text(repr((sys.argv[1:], os.getcwd(), os.environ["SEED"], sys.flags.utf8_mode)))
"""


@pytest.mark.parametrize("kind", ["module", "uri"])
async def test_a_program_is_started_as_the_request_says(start, project, tmp_path, kind):
    folder = project({"jobs/__init__.py": "", "jobs/train.py": MODULE + JOB, "place/empty": ""})
    editor: Editor = await start(folder)
    report = tmp_path / "report"
    result = await probe(
        editor,
        **{kind: "jobs.train" if kind == "module" else (folder / "jobs/train.py").as_uri()},
        args=["--name", "two words"],
        pythonArgs=["-X", "utf8"],
        cwd=str(folder / "place"),
        env={"SEED": "7", "PYTHONPATH": str(folder), "REPORT": str(report)},
        steps=10,
    )
    assert result["steps"]["measured"] >= 10
    assert report.read_text() == repr((["--name", "two words"], str(folder / "place"), "7", 1))


async def ended_by(editor: Editor, folder: Path, cancel) -> JsonRpcException:
    """The error of a probe that is ended once its job runs, and whose processes are all gone then."""
    assert editor.server is not None
    before = descendants(editor.server.pid)
    uri = (folder / "train.py").as_uri()
    running = asyncio.ensure_future(probe(editor, uri=uri))
    await asyncio.wait_for(editor.until(lambda: any(kind == "report" for kind, _ in editor.progress)), WAIT_S)
    started = descendants(editor.server.pid) - before
    assert started
    await cancel(running)
    with pytest.raises((JsonRpcException, asyncio.CancelledError)) as error:
        await within(running)
    await within(gone(started))
    return error.value


async def test_a_probe_is_cancelled_by_command(start, project):
    folder = project({"train.py": FOR_LONG})
    editor: Editor = await start(folder)

    async def cancel(running):
        assert await editor.command("trainlint.cancelProbe") is True

    error = await ended_by(editor, folder, cancel)
    assert error.code == -32800
    assert await editor.command("trainlint.cancelProbe") is False


async def test_a_probe_is_cancelled_where_its_progress_is_shown(start, project):
    folder = project({"train.py": FOR_LONG})
    editor: Editor = await start(folder)

    async def cancel(running):
        token = next(token for kind, token in editor.progress if kind == "begin")
        editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))

    assert (await ended_by(editor, folder, cancel)).code == -32800


async def test_a_probe_ends_with_the_server(start, project):
    folder = project({"train.py": FOR_LONG})
    editor: Editor = await start(folder)
    assert editor.server is not None
    asyncio.ensure_future(probe(editor, uri=(folder / "train.py").as_uri()))  # noqa: RUF006
    await asyncio.wait_for(editor.until(lambda: any(kind == "report" for kind, _ in editor.progress)), WAIT_S)
    started = descendants(editor.server.pid)
    assert await editor.stop() == 0
    await within(gone(started))


async def test_there_is_one_probe_at_a_time_and_the_server_answers_meanwhile(start, project):
    folder = project({"train.py": FOR_LONG})
    editor: Editor = await start(folder)
    uri = editor.open(folder / "train.py")
    running = asyncio.ensure_future(probe(editor, uri=uri))
    await asyncio.wait_for(editor.until(lambda: any(kind == "begin" for kind, _ in editor.progress)), WAIT_S)
    with pytest.raises(JsonRpcException, match="a probe is running"):
        await probe(editor, uri=uri)
    assert await editor.found(uri) != []
    await editor.command("trainlint.cancelProbe")
    with pytest.raises(JsonRpcException):
        await within(running)


WRONG = {
    "no script": ({}, "the argument must have `uri`"),
    "what is no file": ({"uri": "untitled:Untitled-1"}, "save the file first"),
    "no steps": ({"uri": "file:///a.py", "steps": 0}, "`steps`: input should be greater than 0"),
    "another argument": ({"uri": "file:///a.py", "arguments": []}, "`arguments`: extra inputs are not permitted"),
    "no folder": ({"uri": "file:///a.py", "cwd": "/no/such/folder"}, "does not start in /no/such/folder"),
    "no interpreter": ({"uri": "{folder}/train.py", "python": "/no/python"}, "/no/python"),
    "a script that fails": ({"uri": "{folder}/fails.py"}, ""),
}


@pytest.mark.parametrize(("argument", "message"), WRONG.values(), ids=WRONG)
async def test_what_cannot_be_probed_is_an_error_in_one_line(edit, project, argument, message):
    folder = project({"train.py": JOB, "fails.py": "raise SystemExit('no data')\n"})
    editor: Editor = await edit(folder)
    argument = {
        key: value.replace("{folder}", folder.as_uri()) if isinstance(value, str) else value
        for key, value in argument.items()
    }
    with pytest.raises(JsonRpcException) as error:
        await probe(editor, **argument)
    assert message in error.value.message
    assert "\n" not in error.value.message
