"""What a measured run says is shown for as long as the code is the code that ran."""

from __future__ import annotations

from pathlib import Path

import pytest
from language_client import Abilities, Editor, gone, kill
from lsprotocol import types
from programs import QUIET_UTILS, TRAIN
from pygls.exceptions import JsonRpcException
from tests.probed_code import (
    CONFIRMED,
    DATA_BOUND,
    INCONCLUSIVE,
    NOT_EXERCISED,
    REFUTED,
    result_of,
    unpredicted_sync,
    write_result,
)

from trainlint.probe.measured import LineCost
from trainlint.probe.verdict import Verdict
from trainlint.report.probe_result import ProbeResult

FILES = {"train.py": TRAIN, "utils.py": QUIET_UTILS}
LOADER, SYNC = 9, 17
"""Rows that are flagged."""
PUSHED = Abilities(pulls=False)


def cost(file: Path, row: int, ms: float | None = 12.3, **more: object) -> LineCost:
    fields = {"what": "sync", "share": 0.31, "calls_per_step": 1.0, "in_workers": False, "source": "agent"}
    return LineCost.model_validate({"filename": str(file), "row": row, "ms_per_step": ms, **fields, **more})


def evidence(folder: Path, *lines: LineCost, **verdicts: Verdict) -> Path:
    """A result about a project, beside it; verdicts by rule."""
    return write_result(folder / "probe.json", result_of(folder, verdicts or {"TL201": CONFIRMED}, lines=lines))


async def severities(editor: Editor, uri: str) -> dict[str, types.DiagnosticSeverity | None]:
    return {f"{one.range.start.line + 1} {one.code}": one.severity for one in await editor.diagnostics(uri)}


async def opened(editor: Editor, folder: Path) -> str:
    uri = editor.open(folder / "train.py")
    await editor.found(uri)
    return uri


ERROR, WARNING, HINT = (
    types.DiagnosticSeverity.Error,
    types.DiagnosticSeverity.Warning,
    types.DiagnosticSeverity.Hint,
)
VERDICTS = {
    "confirmed": (CONFIRMED, ERROR, "confirmed: measured 12.3 ms per step, 31 %"),
    "refuted": (REFUTED, HINT, "refuted: measured 0.1 ms per step, 0.2 %"),
    "not exercised": (NOT_EXERCISED, WARNING, "not exercised: the line did not run in the measured steps"),
    "inconclusive": (INCONCLUSIVE, WARNING, "inconclusive: probe on a GPU"),
}


@pytest.mark.parametrize(("verdict", "severity", "says"), VERDICTS.values(), ids=VERDICTS)
async def test_a_verdict_shows_in_its_diagnostic(edit, project, verdict, severity, says):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = await opened(editor, folder)
    await editor.command("trainlint.loadEvidence", {"path": str(evidence(folder, TL201=verdict))})
    loader, sync = await editor.diagnostics(uri)
    assert (loader.severity, loader.data.get("verdict")) == (WARNING, None)
    assert (sync.severity, sync.message.splitlines()[-1]) == (severity, says)
    assert sync.data["verdict"]["status"] == verdict.status.value
    hover = await editor.hover(uri, "float(")
    assert hover is not None
    assert hover.contents.value.startswith(f"**{says[0].upper()}{says[1:]}** (TL201)")
    assert "Why it is slow" in hover.contents.value
    await editor.command("trainlint.clearEvidence")
    assert await severities(editor, uri) == {"9 TL104": WARNING, "17 TL201": WARNING}


SUMMARIES = {
    "verdicts that decide": (
        {"TL201": CONFIRMED, "TL104": REFUTED},
        {},
        "39.7 ms per step, bottleneck: data (61 %); findings: 1 confirmed, 1 refuted",
    ),
    "verdicts that do not": ({"TL201": INCONCLUSIVE}, {}, "39.7 ms per step, bottleneck: data (61 %)"),
    "long steps": ({}, {"median_s": 1.2}, "1200 ms per step, bottleneck: data (61 %)"),
    "no steps": ({}, {"median_s": None}, "no step was timed, bottleneck: data (61 %)"),
}


@pytest.mark.parametrize(("verdicts", "steps", "said"), SUMMARIES.values(), ids=SUMMARIES)
async def test_a_result_is_told_in_a_sentence(edit, project, verdicts, steps, said):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    result = result_of(folder, verdicts)
    result = result.model_copy(update={"steps": result.steps.model_copy(update=steps)})
    path = write_result(folder / "probe.json", result)
    answer = await editor.command("trainlint.loadEvidence", {"path": str(path)})
    assert answer["summary"] == said
    await editor.command("trainlint.clearEvidence")


async def test_all_that_is_shown_is_asked_for_again_once_evidence_changes(start, project):
    folder = project(FILES)
    editor: Editor = await start(folder)
    uri = await opened(editor, folder)
    before, figures = editor.refreshed, editor.refreshed_figures.copy()
    await editor.command("trainlint.loadEvidence", {"path": str(evidence(folder))})
    await editor.until(lambda: editor.refreshed > before)
    await editor.until(lambda: all(editor.refreshed_figures[one] > figures[one] for one in ("lenses", "hints")))
    assert (await severities(editor, uri))["17 TL201"] is ERROR


async def test_clients_that_do_not_ask_are_told(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder, abilities=PUSHED)
    uri = editor.open(folder / "train.py")
    await editor.until(lambda: uri in editor.pushed)
    await editor.command("trainlint.loadEvidence", {"path": str(evidence(folder))})
    await editor.until(lambda: [one.severity for one in editor.pushed[uri].diagnostics] == [WARNING, ERROR])
    await editor.command("trainlint.clearEvidence")
    await editor.until(lambda: [one.severity for one in editor.pushed[uri].diagnostics] == [WARNING, WARNING])


async def test_files_that_are_not_open_are_judged_as_well(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    await editor.command("trainlint.loadEvidence", {"path": str(evidence(folder))})
    report = (await editor.whole())[(folder / "train.py").as_uri()]
    assert [(one.code, one.severity) for one in report.items] == [("TL104", WARNING), ("TL201", ERROR)]
    await editor.command("trainlint.clearEvidence")


async def test_evidence_goes_stale_line_by_line(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = await opened(editor, folder)
    file = folder / "train.py"
    path = evidence(folder, cost(file, LOADER, 3), cost(file, SYNC), TL104=CONFIRMED, TL201=CONFIRMED)
    await editor.command("trainlint.loadEvidence", {"path": str(path)})
    assert await severities(editor, uri) == {"9 TL104": ERROR, "17 TL201": ERROR}
    assert await editor.hints(uri) == {LOADER: "3 ms/step", SYNC: "12.3 ms/step"}
    editor.replace(uri, "import torch\n", "import os\nimport torch\n")
    assert await editor.hints(uri) == {LOADER + 1: "3 ms/step", SYNC + 1: "12.3 ms/step"}
    assert await severities(editor, uri) == {"10 TL104": ERROR, "18 TL201": ERROR}
    editor.replace(uri, "batch_size=8", "batch_size=9")
    assert await editor.hints(uri) == {SYNC + 1: "12.3 ms/step"}
    assert await severities(editor, uri) == {"10 TL104": WARNING, "18 TL201": ERROR}
    editor.replace(uri, "history.append(float", "history += [0]; history.append(float")
    assert await editor.hints(uri) == {}
    assert await severities(editor, uri) == {"10 TL104": WARNING, "18 TL201": WARNING}
    editor.rewrite(uri, TRAIN)
    assert await severities(editor, uri) == {"9 TL104": ERROR, "17 TL201": ERROR}
    await editor.command("trainlint.clearEvidence")


BACKWARD = 15
"""A row that no rule flags."""


def surprise(folder: Path) -> Path:
    """A result that shows what no rule predicted, on a row and of the whole run."""
    runtime = [DATA_BOUND, unpredicted_sync(folder / "train.py", BACKWARD)]
    return write_result(folder / "probe.json", result_of(folder, {}, runtime=runtime))


async def test_what_only_a_run_shows_of_a_row_is_a_diagnostic_until_the_row_is_another(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = await opened(editor, folder)
    await editor.command("trainlint.loadEvidence", {"path": str(surprise(folder))})
    flagged = {"9 TL104", "17 TL201"}
    assert set(await editor.found(uri)) == {*flagged, "15 TL910"}
    (one,) = [each for each in await editor.diagnostics(uri) if each.code == "TL910"]
    assert one.message == "The host waits 4.1 ms per step for the device here, and no rule predicted it"
    assert (one.range.start.character, one.range.end.character) == (4, len("    loss.backward()"))
    hover = await editor.hover(uri, "loss.backward")
    assert hover is not None
    assert "Some waits cannot be seen in the code" in hover.contents.value
    editor.replace(uri, "history = []\n", "history = []\n\n")
    assert "16 TL910" in await editor.found(uri)
    editor.replace(uri, "loss.backward()", "loss.backward( )")
    assert "TL910" not in " ".join(await editor.found(uri))
    editor.replace(uri, "loss.backward( )", "loss.backward()")
    assert "16 TL910" in await editor.found(uri)
    await editor.command("trainlint.clearEvidence")
    assert "TL910" not in " ".join(await editor.found(uri))


async def test_in_a_text_that_does_not_parse_what_a_run_shows_stays_with_its_row_alone(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = await opened(editor, folder)
    await editor.command("trainlint.loadEvidence", {"path": str(surprise(folder))})
    assert "15 TL910" in await editor.found(uri)
    editor.replace(uri, "from torch import nn\n", "from torch import (\n\n")
    found = await editor.found(uri)
    assert "16 TL910" in found
    assert any("TL001" in one for one in found)
    editor.replace(uri, "    loss.backward()", "     loss.backward()")
    assert "TL910" not in " ".join(await editor.found(uri))
    await editor.command("trainlint.clearEvidence")


async def test_a_file_that_is_not_open_has_what_a_run_shows_of_it_in_the_workspace(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    await editor.command("trainlint.loadEvidence", {"path": str(surprise(folder))})
    report = (await editor.whole())[(folder / "train.py").as_uri()]
    assert [one.code for one in report.items] == ["TL104", "TL910", "TL201"]
    await editor.command("trainlint.clearEvidence")


async def test_a_change_of_what_a_line_calls_leaves_what_was_measured_of_the_line(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = await opened(editor, folder)
    other = editor.open(folder / "utils.py")
    path = evidence(folder, cost(folder / "train.py", SYNC), cost(folder / "utils.py", 2, 0.5), TL201=CONFIRMED)
    await editor.command("trainlint.loadEvidence", {"path": str(path)})
    assert await editor.hints(other) == {2: "0.5 ms/step"}
    editor.replace(other, "tensor.detach()", "tensor.detach().clone()")
    assert await editor.hints(other) == {}
    assert await editor.hints(uri) == {SYNC: "12.3 ms/step"}
    assert (await severities(editor, uri))["17 TL201"] is ERROR
    await editor.command("trainlint.clearEvidence")


async def test_what_is_known_of_a_file_is_not_known_of_it_under_another_name(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = await opened(editor, folder)
    path = evidence(folder, cost(folder / "train.py", SYNC), TL201=CONFIRMED)
    await editor.command("trainlint.loadEvidence", {"path": str(path)})
    assert (await severities(editor, uri))["17 TL201"] is ERROR
    editor.close(uri)
    (folder / "train.py").rename(folder / "renamed.py")
    editor.tell_changed(folder / "train.py", folder / "renamed.py")
    renamed = editor.open(folder / "renamed.py")
    assert (await severities(editor, renamed))["17 TL201"] is WARNING
    assert await editor.hints(renamed) == {}
    await editor.command("trainlint.clearEvidence")


def about(result: ProbeResult, file: Path) -> ProbeResult:
    """What a result says of one file."""
    findings = [one for one in result.findings if one.filename == str(file)]
    sources = [one for one in result.sources if one.filename == str(file)]
    return result.model_copy(update={"findings": findings, "sources": sources})


async def test_of_each_file_the_result_counts_that_came_last(edit, project):
    folder = project({**FILES, "other.py": TRAIN})
    editor: Editor = await edit(folder)
    train, other = folder / "train.py", folder / "other.py"
    uri, other_uri = await opened(editor, folder), editor.open(other)
    for file, verdict, ms in ((train, CONFIRMED, 12.3), (other, REFUTED, 0.1), (train, REFUTED, 0.2)):
        command = ["python", str(file)]
        result = result_of(folder, {"TL201": verdict}, command=command, lines=[cost(file, SYNC, ms)])
        path = write_result(folder / "probe.json", about(result, file))
        await editor.command("trainlint.loadEvidence", {"path": str(path)})
        if ms == 0.1:
            assert (await severities(editor, uri))["17 TL201"] is ERROR
            assert (await severities(editor, other_uri))["17 TL201"] is HINT
    assert (await severities(editor, uri))["17 TL201"] is HINT
    assert await editor.hints(uri) == {SYNC: "0.2 ms/step"}
    assert await editor.hints(other_uri) == {SYNC: "0.1 ms/step"}
    await editor.command("trainlint.clearEvidence")


async def test_in_a_text_that_does_not_parse_only_rows_that_are_the_same_keep_their_verdicts(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = await opened(editor, folder)
    path = evidence(folder, TL104=CONFIRMED, TL201=CONFIRMED)
    await editor.command("trainlint.loadEvidence", {"path": str(path)})
    assert await severities(editor, uri) == {"9 TL104": ERROR, "17 TL201": ERROR}
    editor.replace(uri, "import torch\n", "import os\nimport torch\n")
    await editor.found(uri)
    editor.replace(uri, "    history.append", "    history. append")
    editor.replace(uri, "from torch import nn\n", "from torch import (\n")
    found = await severities(editor, uri)
    assert {place: severity for place, severity in found.items() if "TL001" not in place} == {
        "10 TL104": ERROR,
        "18 TL201": WARNING,
    }
    await editor.command("trainlint.clearEvidence")


HINTS = {
    "one figure": ([{}], "12.3 ms/step"),
    "time of workers": ([{"in_workers": True}], "12.3 ms/step in workers"),
    "too few samples for one": ([{"ms": None, "interval_ms": (8.0, 15.2)}], "8 to 15.2 ms/step"),
    "two things on one row": ([{}, {"what": "print", "ms": 0.4}], "sync 12.3, print 0.4 ms/step"),
    "nothing that was measured": ([{"ms": None}], None),
}


@pytest.mark.parametrize(("costs", "label"), HINTS.values(), ids=HINTS)
async def test_what_a_line_costs_is_shown_at_its_end(edit, project, costs, label):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = await opened(editor, folder)
    lines = [cost(folder / "train.py", SYNC, **{"ms": 12.3, **one}) for one in costs]
    await editor.command("trainlint.loadEvidence", {"path": str(evidence(folder, *lines))})
    assert await editor.hints(uri) == ({} if label is None else {SYNC: label})
    assert await editor.hints(uri, (1, SYNC - 1)) == {}
    await editor.command("trainlint.clearEvidence")


async def test_lenses_over_step_loops_offer_a_probe_and_then_tell_what_it_measured(edit, project):
    folder = project({**FILES, "other.py": "for x in range(3):\n    print(x)\n"})
    editor: Editor = await edit(folder)
    uri = await opened(editor, folder)
    offer = (11, "Probe this script", "trainlint.probe", {"uri": uri})
    assert await editor.lenses(uri) == [offer]
    assert await editor.lenses(editor.open(folder / "other.py")) == []
    await editor.command("trainlint.loadEvidence", {"path": str(evidence(folder))})
    measured = (11, "39.7 ms per step, bottleneck: data (61 %)", "trainlint.openReport", {})
    assert await editor.lenses(uri) == [offer, measured]
    editor.replace(uri, "import torch\n", "\nimport torch\n")
    assert [row for row, *_ in await editor.lenses(uri)] == [12, 12]
    editor.replace(uri, "for (batch,) in loader:", "for [batch] in loader:")
    assert [title for _, title, *_ in await editor.lenses(uri)] == ["Probe this script"]
    await editor.command("trainlint.clearEvidence")


async def test_a_loop_in_another_file_offers_the_script_that_runs_it(edit, project):
    head, loop = TRAIN.split("history = []\n")
    engine = "def run(loader, model, optimizer, value_of, history):\n" + "".join(
        f"    {line}\n" for line in loop.splitlines()
    )
    script = head + "from engine import run\n\nrun(loader, model, optimizer, value_of, [])\n"
    folder = project({"train.py": script, "engine.py": engine, "utils.py": QUIET_UTILS})
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "engine.py")
    assert await editor.lenses(uri) == [
        (2, "Probe train.py", "trainlint.probe", {"uri": (folder / "train.py").as_uri()})
    ]


async def test_a_result_of_another_machine_is_about_the_files_that_its_paths_stand_for(start, project):
    one, two = project(FILES, "one"), project(FILES, "two")
    remote = evidence(one).read_text().replace(str(one), "/srv/job")
    (two / "probe.json").write_text(remote)
    editor: Editor = await start(one, two, settings={"pathMap": {"/srv/job": str(two)}})
    in_one, in_two = editor.open(one / "train.py"), editor.open(two / "train.py")
    await editor.command("trainlint.loadEvidence", {"path": str(two / "probe.json")})
    assert (await severities(editor, in_two))["17 TL201"] is ERROR
    assert (await severities(editor, in_one))["17 TL201"] is WARNING
    await editor.command("trainlint.clearEvidence")
    arguments = {"path": str(two / "probe.json"), "pathMap": {"/srv/job": str(one)}}
    await editor.command("trainlint.loadEvidence", arguments)
    assert (await severities(editor, in_two))["17 TL201"] is WARNING
    assert (await severities(editor, in_one))["17 TL201"] is ERROR


async def test_what_is_refuted_can_be_hidden(start, project):
    folder = project(FILES)
    editor: Editor = await start(folder, settings={"hideRefuted": True})
    uri = editor.open(folder / "train.py")
    await editor.command("trainlint.loadEvidence", {"path": str(evidence(folder, TL201=REFUTED))})
    assert await editor.found(uri) == ["9 TL104"]
    assert [one.code for one in (await editor.whole())[uri].items] == ["TL104"]
    editor.settings = {"hideRefuted": False}
    editor.tell_configuration()
    await editor.becomes(uri, ["9 TL104", "17 TL201"])


async def test_evidence_outlives_the_analysis_process(start, project):
    folder = project(FILES)
    editor: Editor = await start(folder)
    uri = await opened(editor, folder)
    await editor.command("trainlint.loadEvidence", {"path": str(evidence(folder))})
    assert (await severities(editor, uri))["17 TL201"] is ERROR
    process = (await editor.information())["analysis_process"]
    kill(process)
    await gone([process])
    editor.replace(uri, "import torch\n", "\nimport torch\n")
    assert (await severities(editor, uri))["18 TL201"] is ERROR


WRONG = {
    "no file": ({"path": "missing.json"}, "cannot be read: no such file or directory"),
    "no result": ({"path": "train.py"}, "is no result of `trainlint probe`"),
    "no path": ({}, "the argument is wrong: `path`: field required"),
    "another argument": ({"path": "a", "file": "b"}, "the argument is wrong: `file`: extra inputs are not permitted"),
    "a wrong map": ({"path": "probe.json", "pathMap": {"here": "/there"}}, "names no absolute path"),
}


@pytest.mark.parametrize(("argument", "message"), WRONG.values(), ids=WRONG)
async def test_what_cannot_be_loaded_is_an_error_in_one_line(edit, project, argument, message):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    evidence(folder)
    with pytest.raises(JsonRpcException) as error:
        await editor.command("trainlint.loadEvidence", argument)
    assert message in error.value.message
    assert "\n" not in error.value.message


async def test_in_a_workspace_that_is_not_trusted_nothing_is_run_or_read(start, project):
    folder = project(FILES)
    editor: Editor = await start(folder, options={"trusted": False})
    uri = await opened(editor, folder)
    assert await editor.lenses(uri) == []
    for command, argument in (
        ("trainlint.probe", {"uri": uri}),
        ("trainlint.loadEvidence", {"path": str(evidence(folder))}),
    ):
        with pytest.raises(JsonRpcException, match="not trusted"):
            await editor.command(command, argument)
