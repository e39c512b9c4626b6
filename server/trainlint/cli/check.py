"""`trainlint check`: lint, fix, report."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from trainlint.cli.check_arguments import CheckArguments, parse, parser
from trainlint.cli.failure import Failure
from trainlint.cli.outcome import Outcome
from trainlint.cli.program import FAILED, FINDINGS
from trainlint.cli.progress import progress_bar
from trainlint.cli.summary import baseline_lines, changes_line, fix_notes, summary_lines, suppression_lines
from trainlint.cli.terminal import wants_colour
from trainlint.source.system_errors import reason_of

if TYPE_CHECKING:
    from trainlint.cli.baselines import Rewriting, Saved
    from trainlint.cli.changed import ChangedLines
    from trainlint.lint.result import Result
    from trainlint.lint.verdicts import Verdicts
    from trainlint.report.baseline import Baseline, Known

STDIN_NAME = Path("stdin.py")
"""The file name of standard input where `--stdin-filename` gives none."""
SLOWEST_RULES = 5
"""Rules that `--verbose` names with their time."""

__all__ = ["main", "parser"]


def main(arguments: Sequence[str]) -> int:
    parsed = parse(arguments)
    if parsed.watch:
        _watch(parsed)
    with _ended_by_sigterm():
        return _Run(parsed).status()


def _watch(arguments: CheckArguments) -> NoReturn:
    from trainlint.cli.watching import Linted, Watch

    def lint() -> Linted:
        run = _Run(arguments)
        run.status()
        return Linted(run.written, run.inputs)

    paths = [Path(path) for path in arguments.paths]
    inputs = [file for file in (arguments.baseline, arguments.evidence) if file is not None]
    Watch(lint, paths, arguments.options(), inputs, quiet=arguments.quiet).run()


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Have SIGTERM end the run by an exception, so that a file that is being written is cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _read_standard_input() -> bytes:
    try:
        return b"" if sys.stdin is None else sys.stdin.buffer.read()
    except OSError as error:
        raise Failure(f"standard input cannot be read: {reason_of(error)}") from error


class _Run:
    """One run of the verb."""

    def __init__(self, arguments: CheckArguments) -> None:
        self.arguments = arguments
        self.started = time.perf_counter()
        self.folder = Path.cwd()
        self.paths: tuple[Path, ...] = tuple(Path(path) for path in arguments.paths)
        self.standard_input: Mapping[Path, bytes] = {}
        if arguments.reads_standard_input:
            from trainlint.source.discovery import absolute

            name = absolute(arguments.stdin_filename or STDIN_NAME)
            self.paths = (name,)
            self.standard_input = {name: _read_standard_input()}
        self.baseline: Baseline | None = None
        self.rewriting: Rewriting | None = None
        self.saved: Saved | None = None
        """What became of the baseline that was there."""
        self.changed: ChangedLines | None = None
        self.verdicts: Verdicts | None = None
        """What the evidence says."""
        self.stale: Counter[Known] = Counter()
        """What of the baseline was not found when the files were last linted."""
        self.known = 0
        """Number of findings that the baseline left out then."""
        self.written: Mapping[Path, bytes] = {}
        """What was written to files of the project."""
        self.inputs: frozenset[str] = frozenset()
        """Configuration files that the code names, as `Result.inputs` has them."""

    def status(self) -> int:
        """Do it all and return the exit status."""
        arguments = self.arguments
        self._prepare()
        outcome = self._outcome()
        if arguments.diff:
            self._write_report(self._diff(outcome))
        elif arguments.changes_files and self.standard_input:
            self._print_source(outcome)
        elif arguments.changes_files:
            from trainlint.cli.drafts import write

            outcome = write(outcome, self._check)
            self.written = {change.path: change.data for change in outcome.changes}
        self._warn(outcome)
        if self.rewriting is not None:
            self.saved = self.rewriting.save(outcome)
        elif not arguments.fix_only:
            self._report(outcome)
        self._summarize(outcome)
        return self._exit_status(outcome)

    def _prepare(self) -> None:
        """Read what the run needs besides the code, and refuse to write over what is not the run's own."""
        arguments = self.arguments
        if arguments.output_file is not None:
            from trainlint.cli.overwriting import require_own

            inputs = (arguments.config_file, arguments.baseline, arguments.evidence)
            require_own(arguments.output_file, [*self.paths, *(file for file in inputs if file is not None)])
        if arguments.evidence is not None:
            from trainlint.cli.evidence import load_verdicts

            self.verdicts = load_verdicts(arguments.evidence, arguments.path_map)
        if arguments.baseline is not None:
            from trainlint.cli.baselines import load

            self.baseline = load(arguments.baseline)
        if arguments.write_baseline is not None:
            from trainlint.cli.baselines import Rewriting

            self.rewriting = Rewriting(arguments.write_baseline, self.paths)
        if arguments.changed_since is not None:
            from trainlint.cli.changed import ChangedLines

            self.changed = ChangedLines(arguments.changed_since, self.paths)

    def _outcome(self) -> Outcome:
        reason = self.arguments.add_suppressions
        if reason is not None:
            from trainlint.cli.suppressing import suppress_all

            return suppress_all(self._check, self.standard_input, reason)
        if not self.arguments.fix:
            return Outcome(self._check(self.standard_input), self.standard_input)
        from trainlint.cli.fixing import applicable_kinds, fix_until_stable

        return fix_until_stable(self._check, self.standard_input, applicable_kinds(self.arguments.unsafe_fixes))

    def _check(self, texts: Mapping[Path, bytes]) -> Result:
        from trainlint.lint.engine import check

        arguments = self.arguments
        with progress_bar(wanted=not arguments.quiet) as tell:
            found = check(self.paths, arguments.options(texts, tell, self.verdicts))
        self.inputs = found.inputs
        result = self._without_known(found, texts)
        if self.changed is None:
            return result
        # What is withheld is counted by file, so how much of it lies on changed lines is not known.
        return replace(result, findings=tuple(self.changed.among(result.findings, texts)), withheld=0)

    def _without_known(self, result: Result, texts: Mapping[Path, bytes]) -> Result:
        """Leave out what the baseline lists."""
        if self.baseline is None:
            return result
        from trainlint.report.sources import Sources

        sources = Sources(texts)
        new = self.baseline.new(result.findings, sources)
        self.known = len(result.findings) - len(new)
        if not self.arguments.narrowed:
            self.stale = self.baseline.stale(result.findings, sources, result.paths)
        return replace(result, findings=tuple(new))

    def _diff(self, outcome: Outcome) -> Iterator[str]:
        from trainlint.fixes.diff import unified
        from trainlint.report.paths import slashed

        for change in outcome.changes:
            path = slashed(change.path, self.folder)
            stored = change.document.stored
            yield unified(path, stored(change.document.data), stored(change.data))

    def _print_source(self, outcome: Outcome) -> None:
        """Print what standard input became, byte for byte."""
        (path,) = self.standard_input
        sys.stdout.buffer.write(outcome.texts[path])

    def _report(self, outcome: Outcome) -> None:
        arguments, result = self.arguments, outcome.result
        if not result.findings and arguments.format.for_people and arguments.output_file is None:
            return
        if arguments.statistics:
            self._write_report([self._statistics(result)])
            return
        from trainlint.report.sources import Sources
        from trainlint.report.view import View

        view = View(self.folder, Sources(outcome.texts), self._colour())
        self._write_report(arguments.format.load()(result, view))

    def _statistics(self, result: Result) -> str:
        from trainlint.cli.fixing import applicable_kinds
        from trainlint.report.statistics import as_json, as_text, count_by_rule

        unsafe = self.arguments.unsafe_fixes
        counts = count_by_rule(result.findings, applicable_kinds(unsafe))
        if self.arguments.format.name == "json":
            return as_json(counts)
        return as_text(counts, "--fix --unsafe-fixes" if unsafe else "--fix")

    def _write_report(self, pieces: Iterable[str]) -> None:
        file = self.arguments.output_file
        if file is None:
            self._report_stream().writelines(pieces)
            return
        from trainlint.fixes.write import write_output

        data = "".join(pieces).encode("utf-8", "backslashreplace")
        try:
            write_output(file, data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Failure(f"`--output-file {file}` cannot be written: {reason_of(error)}") from error

    def _report_stream(self) -> TextIO:
        """Where findings go: to standard error if standard output has the changed source."""
        takes_source = self.arguments.changes_files and self.standard_input and not self.arguments.diff
        return sys.stderr if takes_source else sys.stdout

    def _colour(self) -> bool:
        arguments = self.arguments
        if not arguments.format.for_people or (arguments.output_file is not None and arguments.colour != "always"):
            return False
        return wants_colour(arguments.colour, self._report_stream())

    def _warn(self, outcome: Outcome) -> None:
        for error in outcome.result.errors:
            print(f"trainlint: {error}", file=sys.stderr)
        for problem in outcome.problems:
            print(f"trainlint: warning: {problem}", file=sys.stderr)
        if not self.arguments.quiet:
            for line in (*self._stale_lines(), *self._probe_only()):
                print(f"trainlint: warning: {line}", file=sys.stderr)
            for warning in outcome.result.warnings:
                print(f"trainlint: warning: {warning}", file=sys.stderr)

    def _stale_lines(self) -> Iterator[str]:
        file = self.arguments.baseline
        if file is not None and self.stale:
            from trainlint.cli.baselines import stale_lines

            yield from stale_lines(self.stale, file, self.paths)

    def _probe_only(self) -> Iterator[str]:
        """Say of rules that options select, and that no code shows, what does show them."""
        arguments = self.arguments
        named = [key for key in ("select", "extend-select") if key in arguments.flags]
        if not named or arguments.evidence is not None:
            return
        from trainlint.cli.probe_only import probe_only

        for key in named:
            for word, rules in probe_only(arguments.overrides[key]):
                yield (
                    f"`--{key} {word}`: only a run shows {rules}: `trainlint probe` reports it, and `--evidence FILE` "
                    "joins what it found"
                )

    def _summarize(self, outcome: Outcome) -> None:
        arguments = self.arguments
        writes_no_report = arguments.fix_only or arguments.write_baseline is not None
        if arguments.quiet or not (arguments.format.for_people or writes_no_report or arguments.verbose):
            return
        lines: Iterable[str]
        if arguments.write_baseline is not None:
            lines = baseline_lines(outcome, arguments.write_baseline, self.saved)
        elif arguments.add_suppressions is not None:
            lines = suppression_lines(outcome, written=not arguments.diff)
        elif arguments.fix_only:
            print(changes_line(outcome.fixed, len(outcome.changes), written=not arguments.diff), file=sys.stderr)
            lines = fix_notes(outcome)
        else:
            lines = summary_lines(outcome, fixing=arguments.fix, unsafe_fixes=arguments.unsafe_fixes)
        for line in lines:
            print(line, file=sys.stderr)
        if self.known:
            print(f"{self.known} more in the baseline.", file=sys.stderr)
        if arguments.verbose:
            print(f"Took {time.perf_counter() - self.started:.2f} s.", file=sys.stderr)
            for code, seconds in outcome.result.rule_seconds[:SLOWEST_RULES]:
                print(f"{code} took {seconds:.3f} s.", file=sys.stderr)

    def _exit_status(self, outcome: Outcome) -> int:
        arguments = self.arguments
        if outcome.result.errors:
            return FAILED
        if arguments.exit_zero or arguments.write_baseline is not None:
            return 0
        if arguments.diff:
            return FINDINGS if outcome.changes else 0
        if arguments.exit_non_zero_on_fix and arguments.fix and outcome.changes:
            return FINDINGS
        remaining = outcome.problems if arguments.fix_only else outcome.result.findings
        return FINDINGS if remaining else 0
