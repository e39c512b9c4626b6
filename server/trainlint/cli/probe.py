"""`trainlint probe`: run a job, or look at what there is of one, and report what it shows."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.cli.failure import Failure
from trainlint.cli.probe_arguments import ProbeArguments, parse, parser
from trainlint.cli.probe_outcome import NOTHING_MEASURED, outcome_of, shell_status, tells_something
from trainlint.cli.probe_report import report_text, require_writable, say, write
from trainlint.cli.program import FINDINGS, report_failure
from trainlint.source.system_errors import reason_of

if TYPE_CHECKING:
    from trainlint.lint.loaded import JobFindings
    from trainlint.probe.evidence import Evidence
    from trainlint.probe.measured import Measured
    from trainlint.probe.recording import JobEnd
    from trainlint.report.probe_result import ProbeResult
    from trainlint.source.path_map import PathMap

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
            say(f"trainlint: nothing could be measured: {error}\n")
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
        return shell_status(self.end)

    # ---------------------------------------------------------------------------------------------------------- inputs

    def _require_outputs(self) -> None:
        from trainlint.cli.overwriting import require_own

        arguments = self.arguments
        inputs = [*arguments.traces, *(one for one in (arguments.compare,) if one is not None)]
        for option, file in (("--output-file", arguments.output_file), ("--html", arguments.html)):
            if file is not None:
                require_own(file, inputs, option)
                require_writable(file, option)
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
        from trainlint.lint.judging import watched
        from trainlint.lint.loaded import in_script
        from trainlint.probe import launch
        from trainlint.probe.command import UnusableCommandError, script_of

        arguments = self.arguments
        if arguments.passed_on and not arguments.quiet:
            goes = "go" if len(arguments.passed_on) > 1 else "goes"
            say(f"note: {' and '.join(arguments.passed_on)} after the script {goes} to the script\n")
        # Before the run: a wrong configuration is told at once, and the text is the one that runs.
        found = in_script(script_of(arguments.command, self.folder), self.folder)
        try:
            if place is None:
                raise NothingMeasuredError(self._run_plainly("; ".join(self.lines)))
            self.end = launch.run(
                arguments.command, place, arguments.options, flagged=watched(found.findings), python=arguments.python
            ).end
        except UnusableCommandError as error:
            raise Failure(str(error)) from error
        except launch.FaultBesideJobError as fault:
            self.end = fault.end
            if isinstance(fault.__cause__, OSError):
                reason = f"the recording cannot be written to {place}: {reason_of(fault.__cause__)}"
                raise NothingMeasuredError(reason) from fault
            raise
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
        if found is None:
            there = Path(read.manifest.cwd)
            found = in_script(script_of(read.manifest.command, there), there)
        result = self._judged(run, evidence, found.with_loaded(evidence.files or ()))
        self._measured_status, said = outcome_of(result, read)
        self.lines += said
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
        from trainlint.report.view import View

        judged = judge(found.findings, run, evidence, found.selection, found.selection_of)
        self.lines += [failure.text(False) for failure in judged.failures]
        if found.result is not None:
            self.lines += found.result.errors
        return ProbeResult.of(run, judged.findings, judged.runtime, View(self.folder))

    # ---------------------------------------------------------------------------------------------------------- report

    def _reported(self, result: ProbeResult) -> int:
        """Write the report and return the status that the measurement gives."""
        from trainlint.report.probe_compare import compare
        from trainlint.report.probe_conditions import outcome
        from trainlint.report.probe_result import to_json

        arguments = self.arguments
        comparison = None if self.earlier is None else compare(self.earlier, result)
        if not arguments.quiet and (arguments.format != "full" or tells_something(result)):
            say(report_text(result, comparison, arguments, self.folder))
        status = self._measured_status
        if arguments.fail_on is not None and status == 0:
            judged = outcome(arguments.fail_on, result, comparison)
            if judged.met:
                status = FINDINGS
                self.lines.append(judged.reason)
        if not (arguments.quiet and arguments.options.keep_running and arguments.output_file is not None):
            for line in self.lines:
                say(f"trainlint: {line}\n")
        # What cannot be written does not keep the report from being read.
        if arguments.output_file is not None:
            write(arguments.output_file, to_json(result), "--output-file")
        if arguments.html is not None:
            from trainlint.report.probe_html import render_html
            from trainlint.report.view import View

            write(arguments.html, render_html(result, View(self.folder), comparison=comparison), "--html")
        return status


def _holds_something(folder: Path) -> bool:
    return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
