"""The arguments of `trainlint check`, and what they mean to the engine."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainlint.cli.arguments import (
    CommaSeparated,
    SomeCommaSeparated,
    VerbParser,
    add_colour,
    add_configuration,
    add_path_map,
    positive,
)
from trainlint.cli.failure import Failure
from trainlint.report.formats import FORMATS, Format

if TYPE_CHECKING:
    from trainlint.cli.progress import Tell
    from trainlint.lint.check_options import CheckOptions
    from trainlint.lint.verdicts import Verdicts

STANDARD_INPUT = "-"
LEVELS = ("hint", "info", "warning", "error")
NARROWING = ("select", "ignore", "per-file-ignores", "min-confidence")
"""Settings that may leave out findings."""
CONFIDENCES = ("high", "medium", "low")


@dataclass(frozen=True, slots=True)
class CheckArguments:
    """What the command line of `check` says, with the implications of its options drawn."""

    paths: tuple[str, ...]
    overrides: Mapping[str, object]
    """Settings that win over the configuration files, by key."""
    flags: frozenset[str]
    """Those of them that have an option of their own."""
    config_file: Path | None
    isolated: bool
    min_severity: str | None
    fix: bool
    unsafe_fixes: bool
    fix_only: bool
    diff: bool
    add_suppressions: str | None
    """The reason that suppressions are given, which may be empty; None where none are to be added."""
    baseline: Path | None
    write_baseline: Path | None
    changed_since: str | None
    """A git revision."""
    evidence: Path | None
    """The result of a probe."""
    path_map: tuple[str, ...]
    """Each `REMOTE=LOCAL`."""
    format: Format
    output_file: Path | None
    statistics: bool
    watch: bool
    cache: bool
    cache_dir: Path | None
    jobs: int | None
    exit_zero: bool
    exit_non_zero_on_fix: bool
    stdin_filename: Path | None
    force_exclude: bool
    quiet: bool
    verbose: bool
    colour: str
    """"auto", "always" or "never"."""

    def options(
        self,
        texts: Mapping[Path, bytes] | None = None,
        tell: Tell | None = None,
        verdicts: Verdicts | None = None,
    ) -> CheckOptions:
        """What they mean to the engine.

        Args:
            texts: what stands in for what is on disk, by path.
            tell: is told how far the run is.
            verdicts: what `evidence` says about the findings.
        """
        from trainlint.lint.check_options import CheckOptions

        return CheckOptions(
            overrides=self.overrides,
            flags=self.flags,
            config_file=self.config_file,
            isolated=self.isolated,
            force_exclude=self.force_exclude,
            cache=self.cache,
            cache_dir=self.cache_dir,
            jobs=self.jobs,
            min_severity=self.min_severity,
            texts=texts or {},
            verdicts=verdicts,
            verbose=self.verbose,
            timings=self.verbose,
            progress=tell,
        )

    @property
    def narrowed(self) -> bool:
        """Whether options leave out findings that the configuration would have reported."""
        return self.min_severity is not None or not self.overrides.keys().isdisjoint(NARROWING)

    @property
    def changes_files(self) -> bool:
        return self.fix or self.add_suppressions is not None

    @property
    def reads_standard_input(self) -> bool:
        return STANDARD_INPUT in self.paths


def parse(words: Sequence[str]) -> CheckArguments:
    """Parse the words after the verb.

    Raises:
        Failure: they contradict each other.
        ConfigError: `--config` is used wrongly.
    """
    found = parser().parse(words)
    paths = tuple(found.paths) or (".",)
    if STANDARD_INPUT in paths and len(paths) > 1:
        raise Failure("`-` (standard input) cannot be linted together with other paths; give it alone")
    if found.stdin_filename is not None and STANDARD_INPUT not in paths:
        raise Failure("`--stdin-filename` names what standard input holds; give `-` as the path")
    if found.add_suppressions is not None:
        _check_suppressions(found)
    if found.write_baseline is not None:
        _check_baseline(found)
    check_path_map(found)
    if found.watch:
        _check_watch(found, paths)
    config_file, overrides = configuration(found.config, found.isolated)
    settings = settings_of(found)
    return CheckArguments(
        paths=paths,
        overrides=overrides | settings,
        flags=frozenset(settings),
        config_file=config_file,
        isolated=found.isolated,
        min_severity=found.min_severity,
        fix=(found.fix or found.fix_only or found.diff) and found.add_suppressions is None,
        unsafe_fixes=found.unsafe_fixes,
        fix_only=found.fix_only or found.diff,
        diff=found.diff,
        add_suppressions=found.add_suppressions,
        baseline=found.baseline,
        write_baseline=found.write_baseline,
        changed_since=found.changed_since,
        evidence=found.evidence,
        path_map=tuple(found.path_map),
        format=FORMATS[found.output_format],
        output_file=found.output_file,
        statistics=found.statistics,
        watch=found.watch,
        cache=not found.no_cache,
        cache_dir=found.cache_dir,
        jobs=found.jobs,
        exit_zero=found.exit_zero,
        exit_non_zero_on_fix=found.exit_non_zero_on_fix,
        stdin_filename=found.stdin_filename,
        force_exclude=found.force_exclude,
        quiet=found.quiet,
        verbose=found.verbose,
        colour=found.color,
    )


def parser() -> VerbParser:
    verb = VerbParser("check", "[PATH ...] [OPTIONS]", "Lint files and folders. The default verb.")
    verb.add_argument(
        "paths", nargs="*", metavar="PATH", help="file, notebook, folder, or `-` for standard input (default: .)"
    )
    add_selection(verb.add_argument_group("which findings"))
    _add_fixing(verb.add_argument_group("fixing"))
    _add_adoption(verb, verb.add_argument_group("adoption"))
    add_evidence(verb.add_argument_group("evidence of a run"))
    _add_output(verb.add_argument_group("output"))
    _add_files(verb.add_argument_group("configuration and files"))
    return verb


def add_selection(group: argparse._ArgumentGroup) -> None:
    """Add the options that decide which findings are reported."""
    rules = "codes, code prefixes, rule names or ALL, separated by commas"
    group.add_argument("--select", action=SomeCommaSeparated, metavar="RULES", help=f"run only these: {rules}")
    group.add_argument("--extend-select", action=CommaSeparated, metavar="RULES", help="run these as well")
    group.add_argument("--ignore", action=CommaSeparated, metavar="RULES", help="do not run these")
    group.add_argument("--min-confidence", choices=CONFIDENCES, help="show this confidence and above (default: medium)")
    group.add_argument("--min-severity", choices=LEVELS, help="show this severity and above")


def _add_fixing(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--fix", action="store_true", help="apply safe fixes; the source of `-` goes to standard output")
    group.add_argument("--unsafe-fixes", action="store_true", help="count unsafe fixes in, and apply them with --fix")
    group.add_argument("--fix-only", action="store_true", help="apply fixes, and report nothing else")
    group.add_argument("--diff", action="store_true", help="print what --fix would change, and write nothing")


def _add_adoption(verb: VerbParser, group: argparse._ArgumentGroup) -> None:
    verb.add_flag_with_value(
        group, "--add-suppressions", "REASON", "silence all that is reported by comments, which give this reason"
    )
    group.add_argument("--write-baseline", type=Path, metavar="FILE", help="list all that is found in this file")
    add_known(group)


def add_known(group: argparse._ArgumentGroup) -> None:
    """Add the options that leave out what was there before."""
    group.add_argument("--baseline", type=Path, metavar="FILE", help="leave out what this file lists")
    group.add_argument("--changed-since", metavar="REV", help="show findings on lines changed since this git revision")


def add_evidence(group: argparse._ArgumentGroup) -> None:
    """Add the options that join what a probe has measured."""
    group.add_argument(
        "--evidence",
        type=Path,
        metavar="FILE",
        help="join the verdicts of this result of a probe: what it confirms weighs one level more, what it "
        "refutes becomes a hint",
    )
    add_path_map(group)


def _add_output(group: argparse._ArgumentGroup) -> None:
    formats = f"how findings are printed: {', '.join(FORMATS)} (default: full)"
    group.add_argument("--output-format", choices=tuple(FORMATS), default="full", metavar="FORMAT", help=formats)
    group.add_argument("-o", "--output-file", type=Path, metavar="FILE", help="write the report to this file")
    group.add_argument("-w", "--watch", action="store_true", help="lint again whenever a file changes, until Ctrl-C")
    group.add_argument("--statistics", action="store_true", help="count the findings of each rule instead")
    group.add_argument("-q", "--quiet", action="store_true", help="print findings, and nothing else but errors")
    group.add_argument("-v", "--verbose", action="store_true", help="say what was done, and how long it took")
    add_colour(group)
    group.add_argument("-e", "--exit-zero", action="store_true", help="end with status 0 though there are findings")
    group.add_argument("--exit-non-zero-on-fix", action="store_true", help="end with status 1 if something was fixed")


def _add_files(group: argparse._ArgumentGroup) -> None:
    add_configuration(group)
    group.add_argument("--stdin-filename", type=Path, metavar="FILE", help="the name of what `-` reads")
    group.add_argument("--force-exclude", action="store_true", help="leave out excluded files though they are named")
    group.add_argument("-n", "--no-cache", action="store_true", help="neither read nor write the cache")
    group.add_argument(
        "--cache-dir",
        type=Path,
        metavar="FOLDER",
        help="where the cache lies (default: .trainlint_cache at the top of each project)",
    )
    group.add_argument(
        "-j", "--jobs", type=positive, metavar="N", help="processes to work with (default: one per core)"
    )


def _check_suppressions(found: argparse.Namespace) -> None:
    """Refuse what cannot go with `--add-suppressions`, and reasons that no comment can carry.

    Raises:
        Failure: with what to do instead.
    """
    from trainlint.fixes.suppress import is_reason

    if found.fix or found.fix_only:
        raise Failure("`--add-suppressions` cannot be given together with `--fix`: fix first, then silence the rest")
    found.add_suppressions = found.add_suppressions.strip()
    if found.add_suppressions and not is_reason(found.add_suppressions):
        raise Failure(
            f"`--add-suppressions={found.add_suppressions}`: this would not be read as the reason of a comment; "
            "give a line of plain text that starts with a letter or a digit"
        )


def _check_baseline(found: argparse.Namespace) -> None:
    """Refuse what cannot go with `--write-baseline`, which writes down all that there is.

    Raises:
        Failure: with what to do instead.
    """
    given = {
        "--baseline": found.baseline is not None,
        "--changed-since": found.changed_since is not None,
        "--diff": found.diff,
        "--add-suppressions": found.add_suppressions is not None,
    }
    for option, is_given in given.items():
        if is_given:
            raise Failure(f"`--write-baseline` cannot be given together with `{option}`: it lists all that is found")


class _Conflict(NamedTuple):
    """A word of the command line that does not go with `--watch`."""

    word: str
    is_given: bool
    reason: str


def check_path_map(found: argparse.Namespace) -> None:
    """Refuse a map of paths that nothing has.

    Raises:
        Failure: with what to do instead.
    """
    if found.path_map and found.evidence is None:
        raise Failure("`--path-map` says what the paths in a probe's result mean; give that with `--evidence FILE`")


def _check_watch(found: argparse.Namespace, paths: Sequence[str]) -> None:
    """Refuse what cannot go with `--watch`, which does it again and again.

    Raises:
        Failure: with the reason.
    """
    suppresses, lists = found.add_suppressions is not None, found.write_baseline is not None
    conflicts = (
        _Conflict(STANDARD_INPUT, STANDARD_INPUT in paths, "standard input does not change"),
        _Conflict("--add-suppressions", suppresses, "it would silence what you are about to mend"),
        _Conflict("--write-baseline", lists, "it would list what you are about to mend"),
    )
    for conflict in conflicts:
        if conflict.is_given:
            raise Failure(f"`--watch` cannot be given together with `{conflict.word}`: {conflict.reason}")


def settings_of(found: argparse.Namespace) -> dict[str, object]:
    """The settings that have an option of their own, as far as they are given."""
    given = {
        "select": found.select,
        "extend-select": found.extend_select,
        "ignore": found.ignore,
        "min-confidence": found.min_confidence,
    }
    return {key: value for key, value in given.items() if value is not None}


def configuration(values: Sequence[str], isolated: bool) -> tuple[Path | None, dict[str, object]]:
    """Split the uses of `--config` into the one file and the settings.

    Raises:
        Failure: the file is not there.
        ConfigError: a value is neither a file nor a setting, or `isolated` contradicts a file.
    """
    if not values:
        return None, {}
    from trainlint.config.discovery import Overrides

    overrides = Overrides.parse(values, isolated=isolated)
    if overrides.file is not None and not overrides.file.is_file():
        raise Failure(f"`--config {overrides.file}`: there is no such file, and a setting is written KEY=VALUE")
    settings: dict[str, object] = {}
    for override in overrides.values:
        _merge(settings, {override.key: override.value})
    return overrides.file, settings


def _merge(settings: dict[str, object], more: Mapping[str, object]) -> None:
    """Add settings; tables are joined, everything else is replaced."""
    for key, value in more.items():
        present = settings.get(key)
        if isinstance(present, dict) and isinstance(value, dict):
            _merge(present, value)
        else:
            settings[key] = value
