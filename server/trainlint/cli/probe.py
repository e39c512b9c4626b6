"""`trainlint probe`: run a job, or look at what there is of one, and report what it shows."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.cli.failure import Failure
from trainlint.cli.probe_arguments import ProbeArguments, parse, parser
from trainlint.cli.program import FINDINGS, abandon, report_failure
from trainlint.source.system_errors import reason_of

if TYPE_CHECKING:
    from trainlint.lint.loaded import JobFindings
    from trainlint.probe.evidence import Evidence
    from trainlint.probe.measured import Measured
    from trainlint.probe.recording import JobEnd, Recording
    from trainlint.report.probe_compare import Comparison
    from trainlint.report.probe_result import ProbeResult
    from trainlint.report.view import View
    from trainlint.source.path_map import PathMap

JOB_FAILED = 3
"""The job failed before enough steps."""
NOTHING_MEASURED = 4
NO_TORCH = "no process of the job loaded torch in Python 3.9 or newer; name the training environment by --python"

__all__ = ["main", "parser"]


class NothingMeasuredError(Exception):
    """There is no result; the message says why, in one line."""


def main(arguments: Sequence[str]) -> int:
    return _Probe(parse(arguments)).status()


class _Probe:
    """One run of the verb."""

    def __init__(self, arguments: ProbeArguments) -> None:
        self.arguments = arguments
        self.folder = Path.cwd()
        self.end: JobEnd | None = None
        """How the job ended, where one was run."""
        self._measured_status = 0
        self.lines: list[str] = []
        """What is to be said on standard error after the report."""

    def status(self) -> int:
        """Do it all and return the exit status."""
        self._require_outputs()
        _ = self.paths, self.earlier
        try:
            with self._place() as place:
                result = self._result(place)
                status = self._reported(result)
        except NothingMeasuredError as error:
            _say(f"trainlint: nothing could be measured: {error}\n")
            status = NOTHING_MEASURED
        except Exception as error:
            if self._job_status is None:
                raise
            status = report_failure(error)
        own = self._job_status
        return status if own is None or (own == 0 and status == FINDINGS) else own

    @property
    def _job_status(self) -> int | None:
        """The status that is the job's to give: that of one that was to run on and ended by itself."""
        if self.end is None or not self.arguments.options.keep_running or self.end.escalated is not None:
            return None
        return _shell_status(self.end)

    # ---------------------------------------------------------------------------------------------------------- inputs

    def _require_outputs(self) -> None:
        from trainlint.cli.overwriting import require_own

        arguments = self.arguments
        inputs = [*arguments.traces, *(one for one in (arguments.compare,) if one is not None)]
        for option, file in (("--output-file", arguments.output_file), ("--html", arguments.html)):
            if file is not None:
                require_own(file, inputs, option)
                _require_writable(file, option)
        if arguments.recording is not None and _holds_something(arguments.recording):
            raise Failure(f"`--recording {arguments.recording}` is there already; name a new folder")
        for trace in arguments.traces:
            if trace.is_dir():
                raise Failure(f"`--trace {trace}` is a folder; name the trace files in it, one for each rank")
            if not trace.exists():
                raise Failure(f"`--trace {trace}`: there is no such file")
        if arguments.from_recording is not None and not arguments.from_recording.exists():
            raise Failure(f"`--from-recording {arguments.from_recording}`: there is no such folder")

    @cached_property
    def paths(self) -> PathMap:
        from trainlint.cli.evidence import path_map_of

        return path_map_of(self.arguments.path_map)

    @cached_property
    def earlier(self) -> ProbeResult | None:
        """What to compare with."""
        from trainlint.report.probe_result import BrokenResult, read_result

        file = self.arguments.compare
        if file is None:
            return None
        try:
            return read_result(file.read_bytes())
        except OSError as error:
            raise Failure(f"`--compare {file}` cannot be read: {reason_of(error)}") from error
        except BrokenResult as error:
            raise Failure(f"`--compare {file}` {error}") from error

    @contextmanager
    def _place(self) -> Iterator[Path | None]:
        """The folder of the recording, which is removed afterwards unless it is to be kept; None where there is none to
        be had."""
        kept = self.arguments.recording
        if kept is not None:
            yield kept
            return
        try:
            made = Path(tempfile.mkdtemp(prefix="trainlint-probe-"))
        except OSError as error:
            self.lines.append(f"no folder for the recording can be made: {reason_of(error)}")
            yield None
            return
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)

    # --------------------------------------------------------------------------------------------------------- measure

    def _result(self, place: Path | None) -> ProbeResult:
        if self.arguments.traces:
            return self._of_traces()
        if self.arguments.from_recording is not None:
            return self._of_recording(self.arguments.from_recording, None)
        if self.arguments.pid is not None:
            return self._attached(self.arguments.pid, place)
        return self._run(place)

    def _run(self, place: Path | None) -> ProbeResult:
        from trainlint.lint.loaded import in_script
        from trainlint.probe import launch
        from trainlint.probe.command import UnusableCommandError, script_of

        arguments = self.arguments
        # Before the run: a wrong configuration is told at once, and the text is the one that runs.
        found = in_script(script_of(arguments.command, self.folder), self.folder)
        try:
            if place is None:
                raise NothingMeasuredError(self._run_plainly("; ".join(self.lines)))
            self.end = launch.run(arguments.command, place, arguments.options, python=arguments.python).end
        except UnusableCommandError as error:
            raise Failure(str(error)) from error
        except OSError as error:
            reason = f"the recording cannot be written to {place}: {reason_of(error)}"
            raise NothingMeasuredError(self._run_plainly(reason)) from error
        return self._of_recording(place, found)

    def _run_plainly(self, reason: str) -> str:
        """Where the job is to run in any case, run it without measuring."""
        import time

        from trainlint.probe import launch
        from trainlint.probe.recording import JobEnd

        if self.end is None and self.arguments.options.keep_running:
            status = launch.run_plainly(self.arguments.command, python=self.arguments.python)
            self.end = JobEnd(
                exit_code=status if status >= 0 else None,
                signal=-status if status < 0 else None,
                stopped_by_probe=False,
                clock=time.perf_counter(),
            )
        return reason

    def _attached(self, pid: int, place: Path | None) -> ProbeResult:
        from trainlint.probe import attach

        if place is None:
            raise NothingMeasuredError("; ".join(self.lines))
        place.mkdir(parents=True, exist_ok=True)
        try:
            attach.run(pid, place, self.arguments.options)
        except attach.AttachError as error:
            raise NothingMeasuredError(str(error)) from error
        return self._of_recording(place, None)

    def _of_recording(self, folder: Path, found: JobFindings | None) -> ProbeResult:
        """What a recording shows; `found` is what the linter found before."""
        from trainlint.lint.loaded import in_script
        from trainlint.probe import recording
        from trainlint.probe.analysis import analyse
        from trainlint.probe.command import script_of
        from trainlint.probe.mapped import mapped

        try:
            read = mapped(recording.read(folder), self.paths)
        except recording.UnusableRecordingError as error:
            raise NothingMeasuredError(str(error)) from error
        run, evidence = analyse(read)
        run = _with_missing(run, read)
        if found is None:
            there = Path(read.manifest.cwd)
            found = in_script(script_of(read.manifest.command, there), there)
        result = self._judged(run, evidence, found.with_loaded(evidence.files or ()))
        self._say_status(result, read)
        return result

    def _of_traces(self) -> ProbeResult:
        from trainlint.lint.loaded import in_script
        from trainlint.probe.analysis.trace_alone import analyse_traces
        from trainlint.probe.command import script_of
        from trainlint.probe.traces.reading import UnusableTraceError

        arguments = self.arguments
        roots = [self.folder, *(Path(here) for _, here in self.paths.pairs)]
        command = ["trainlint", "probe", "--trace", *map(str, arguments.traces)]
        try:
            run, evidence = analyse_traces(arguments.traces, roots, command)
        except UnusableTraceError as error:
            raise NothingMeasuredError(str(error)) from error
        lines = [*evidence.syncs, *evidence.copies, *evidence.memsets]
        found = in_script(script_of(arguments.command, self.folder), self.folder).with_loaded(
            {line.path for line in lines}
        )
        result = self._judged(run, evidence, found)
        if not result.steps.measured:
            self.lines.append(f"nothing could be measured: {run.environment.missing['steps']}")
            self._measured_status = NOTHING_MEASURED
        return result

    def _judged(self, run: Measured, evidence: Evidence, found: JobFindings) -> ProbeResult:
        from trainlint.lint.judging import judge
        from trainlint.report.probe_result import ProbeResult

        judged = judge(found.findings, run, evidence, found.selection, found.selection_of)
        self.lines += [failure.text(False) for failure in judged.failures]
        if found.result is not None:
            self.lines += found.result.errors
        return ProbeResult.of(run, judged.findings, judged.runtime, self._view())

    def _say_status(self, result: ProbeResult, read: Recording) -> None:
        reason = _why_nothing(result, read)
        if _has_failed(result, read):
            end = read.manifest.end
            how = f"signal {end.signal}" if end is not None and end.signal else f"status {end and end.exit_code}"
            wanted = read.manifest.options.steps
            without = "" if read.processes else f"; {NO_TORCH}"
            self.lines.append(f"the job failed with {how} after {result.steps.measured} of {wanted} steps{without}")
        elif reason is not None:
            self.lines.append(f"nothing could be measured: {reason}")
        self._measured_status = JOB_FAILED if _has_failed(result, read) else 0 if reason is None else NOTHING_MEASURED

    # ---------------------------------------------------------------------------------------------------------- report

    def _reported(self, result: ProbeResult) -> int:
        """Write the report and return the status that the measurement gives."""
        from trainlint.report.probe_compare import compare
        from trainlint.report.probe_conditions import outcome
        from trainlint.report.probe_result import to_json

        arguments = self.arguments
        comparison = None if self.earlier is None else compare(self.earlier, result)
        if not arguments.quiet and (arguments.format != "full" or _tells_something(result)):
            _say(self._report(result, comparison))
        status = self._measured_status
        if arguments.fail_on is not None and status == 0:
            judged = outcome(arguments.fail_on, result, comparison)
            if judged.met:
                status = FINDINGS
                self.lines.append(judged.reason)
        if not (arguments.quiet and arguments.options.keep_running and arguments.output_file is not None):
            for line in self.lines:
                _say(f"trainlint: {line}\n")
        # What cannot be written does not keep the report from being read.
        if arguments.output_file is not None:
            _write(arguments.output_file, to_json(result), "--output-file")
        if arguments.html is not None:
            from trainlint.report.probe_html import render_html

            _write(arguments.html, render_html(result, self._view(), comparison=comparison), "--html")
        return status

    def _report(self, result: ProbeResult, comparison: Comparison | None) -> str:
        from trainlint.report.probe_result import to_json

        if self.arguments.format == "json":
            return to_json(result)
        if self.arguments.format == "markdown":
            from trainlint.report.probe_markdown import render_markdown

            return render_markdown(result, self._view(), comparison=comparison)
        from trainlint.report.probe_text import render_text

        view, width = self._view(coloured=True), shutil.get_terminal_size().columns
        return render_text(result, view, width=width, encoding=sys.stderr.encoding, comparison=comparison)

    def _view(self, *, coloured: bool = False) -> View:
        from trainlint.cli.terminal import wants_colour
        from trainlint.report.view import View

        view = View(self.folder)
        return replace(view, colour=wants_colour(self.arguments.colour, sys.stderr)) if coloured else view


def _holds_something(folder: Path) -> bool:
    return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))


def _require_writable(file: Path, option: str) -> None:
    """Find out before the run, which may take hours, that its result would be lost.

    Raises:
        Failure: with the reason.
    """
    folder = file.parent
    if file.is_dir():
        reason = "it is a folder"
    elif not folder.is_dir():
        reason = f"there is no folder {folder}"
    elif not os.access(file if file.exists() else folder, os.W_OK):
        reason = "permission denied"
    else:
        return
    raise Failure(f"`{option} {file}` cannot be written: {reason}")


def _write(file: Path, text: str, option: str) -> None:
    from trainlint.fixes.write import write_output

    try:
        write_output(file, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise Failure(f"`{option} {file}` cannot be written: {reason_of(error)}") from error


def _say(text: str) -> None:
    """Write to standard error; where nobody reads it or it takes no more, the status is still to be told."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        abandon(sys.stderr)


def _shell_status(end: JobEnd) -> int:
    """The status of a job as a shell reports it."""
    return 128 + end.signal if end.signal is not None else end.exit_code or 0


def _tells_something(result: ProbeResult) -> bool:
    """Whether a report for people would say more than that nothing was measured, and why."""
    return bool(result.steps.measured or result.lines or result.gpu)


def _has_failed(result: ProbeResult, read: Recording) -> bool:
    """Whether the job failed before enough steps."""
    end = read.manifest.end
    if end is None or end.stopped_by_probe or _shell_status(end) == 0:
        return False
    return result.steps.measured < read.manifest.options.steps


def _why_nothing(result: ProbeResult, read: Recording) -> str | None:
    """Why there is nothing to report; None where there is something."""
    manifest = read.manifest
    if result.steps.measured or manifest.kind == "attach":
        return None
    why = [manifest.missing.get("steps", "")]
    faults = [note for process in read.processes for note in process.noted("fault")]
    if faults:
        last = str(faults[-1].get("traceback", "")).strip().rsplit("\n", 1)[-1]
        why.append(f"the agent turned itself off: {last}")
    told = [str(note.get("why")) for process in read.processes for note in process.noted("missing")]
    if told and not faults:
        why += dict.fromkeys(told)
    elif not read.processes:
        why.append(NO_TORCH)
    elif not faults:
        why.append("no optimizer stepped, and no backward pass ran")
    return "; ".join(one for one in why if one)


def _with_missing(run: Measured, read: Recording) -> Measured:
    """The same, with what the launch itself knows to be missing."""
    known = read.manifest.missing.get("steps")
    if known is None or ("steps" in run.environment.missing and run.environment.missing["steps"] == known):
        return run
    told = run.environment.missing.get("steps")
    missing = {**run.environment.missing, "steps": known if told is None else f"{known}; {told}"}
    return run.model_copy(update={"environment": run.environment.model_copy(update={"missing": missing})})
