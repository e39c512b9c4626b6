"""The arguments of `trainlint probe`: its own options, and then the command, whose words are its own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.cli.arguments import VerbParser, add_colour, add_path_map, positive
from trainlint.cli.failure import Failure

if TYPE_CHECKING:
    from trainlint.probe.recording import Options
    from trainlint.report.probe_conditions import Confirmed, Regression

FORMATS = ("full", "json", "markdown")
DESCRIPTION = (
    "Run a training job for some steps, and say where the time goes.\nThe job runs for real: it writes what it writes."
)


@dataclass(frozen=True, slots=True)
class ProbeArguments:
    """What the command line of `probe` says."""

    command: tuple[str, ...]
    """What to run; of a job that is not started, what its code is found by."""
    pid: int | None
    traces: tuple[Path, ...]
    from_recording: Path | None
    options: Options
    python: str | None
    output_file: Path | None
    recording: Path | None
    html: Path | None
    format: str
    compare: Path | None
    fail_on: Confirmed | Regression | None
    path_map: tuple[str, ...]
    passed_on: tuple[str, ...]
    """Options that stand after the script and are the probe's own as well."""
    quiet: bool
    colour: str


def parse(words: Sequence[str]) -> ProbeArguments:
    """Parse the words after the verb.

    Raises:
        Failure: they contradict each other, or there is nothing to measure.
    """
    from trainlint.probe.recording import Options

    verb = parser()
    own, command = _split(verb, words)
    found = verb.parse(own)
    _require_one_source(found, command)
    if found.fail_on is not None and found.fail_on.startswith("regression") and found.compare is None:
        raise Failure("`--fail-on regression` needs `--compare FILE`, an earlier result")
    if (found.params is None) != (found.tokens_per_step is None):
        raise Failure("`--params` and `--tokens-per-step` go together: the work of a step is reckoned from both")
    return ProbeArguments(
        command=tuple(command),
        pid=found.pid,
        traces=tuple(found.trace or ()),
        from_recording=found.from_recording,
        options=Options(
            steps=found.steps,
            warmup=found.warmup,
            profile_steps=found.profile_steps,
            profile=not found.no_profile,
            keep_running=found.keep_running,
            timeout_s=found.timeout,
            gpus=found.gpu,
            flops_per_step=found.flops_per_step,
            parameters=found.params,
            tokens_per_step=found.tokens_per_step,
        ),
        python=found.python,
        output_file=found.output_file,
        recording=found.recording,
        html=found.html,
        format=found.output_format,
        compare=found.compare,
        fail_on=None if found.fail_on is None else _condition(verb, found.fail_on),
        path_map=tuple(found.path_map),
        passed_on=() if "--" in words[: len(own) + 1] else tuple(_own_options(verb, command[1:])),
        quiet=found.quiet,
        colour=found.color,
    )


def parser() -> VerbParser:
    usage = "[OPTIONS] SCRIPT.py [ARG ...]\n       trainlint probe [OPTIONS] -- COMMAND ..."
    verb = VerbParser("probe", usage, DESCRIPTION)
    _add_sources(verb.add_argument_group("what to measure"))
    _add_measuring(verb.add_argument_group("how to measure"))
    _add_work(verb.add_argument_group("the work of a step, for the model FLOPs utilization"))
    _add_results(verb.add_argument_group("results"))
    return verb


def _add_sources(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "command",
        nargs="*",
        metavar="SCRIPT.py|COMMAND",
        help="what to run, with its arguments, after all options; `--` before it is needed where it starts with a dash",
    )
    group.add_argument(
        "--python",
        metavar="PATH",
        help="the interpreter of the training environment (default: the one that the command names, else the python "
        "of the active environment)",
    )
    group.add_argument(
        "--pid", type=positive, metavar="PID", help="look at a job that runs already; it is never signalled"
    )
    group.add_argument(
        "--trace",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="judge from Kineto traces (.json, .json.gz), one for each rank",
    )
    group.add_argument(
        "--from-recording", type=Path, metavar="DIR", help="analyse a kept recording again; see --recording"
    )
    add_path_map(group)


def _add_measuring(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--steps", type=positive, default=50, metavar="N", help="clean, timed steps (default: 50)")
    group.add_argument(
        "--warmup", type=_count, default=10, metavar="N", help="steps before these, which are not timed (default: 10)"
    )
    group.add_argument(
        "--profile-steps", type=positive, default=5, metavar="N", help="steps under torch.profiler (default: 5)"
    )
    group.add_argument("--no-profile", action="store_true", help="do not use torch.profiler")
    group.add_argument(
        "--continue",
        dest="keep_running",
        action="store_true",
        help="let the job run on when all is measured, and end with its status (default: stop it after a step)",
    )
    group.add_argument(
        "--timeout",
        type=_number,
        metavar="S",
        help="measure for at most this many seconds; with --pid, that long",
    )
    group.add_argument(
        "--gpu",
        nargs="+",
        action="extend",
        type=_count,
        metavar="INDEX",
        help="GPUs to look at (default: the job's)",
    )


def _add_work(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--flops-per-step", type=_number, metavar="X", help="floating-point operations of a step")
    group.add_argument("--params", type=positive, metavar="N", help="parameters of the model")
    group.add_argument("--tokens-per-step", type=positive, metavar="T", help="tokens of a step, all ranks together")


def _add_results(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-o", "--output-file", type=Path, metavar="FILE", help="write the result, as JSON, to this file")
    group.add_argument("--html", type=Path, metavar="FILE", help="write the report as an HTML page")
    group.add_argument(
        "--output-format",
        choices=FORMATS,
        default="full",
        help="how the report on standard error is written (default: full)",
    )
    group.add_argument("--recording", type=Path, metavar="DIR", help="keep the raw recording in this folder")
    group.add_argument("--compare", type=Path, metavar="FILE", help="compare with this earlier result")
    group.add_argument(
        "--fail-on",
        metavar="CONDITION",
        help="end with status 1 if a finding is `confirmed`, or on a `regression[=PCT]` against --compare",
    )
    group.add_argument("-q", "--quiet", action="store_true", help="print no report")
    add_colour(group)


def _split(verb: VerbParser, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words for the probe, and those of the command."""
    index = 0
    while index < len(words):
        word = words[index]
        if word == "--":
            return list(words[:index]), list(words[index + 1 :])
        if not word.startswith("-") or word == "-":
            break
        index += 1 + _values(verb, word, words[index + 1 :])
    return list(words[:index]), list(words[index:])


def _own_options(verb: VerbParser, words: Sequence[str]) -> list[str]:
    """The words that are options of the probe, each once, without values."""
    names = [word.partition("=")[0] for word in words if word.startswith("--")]
    return [name for name in dict.fromkeys(names) if name in verb._option_string_actions]


def _values(verb: VerbParser, word: str, after: Sequence[str]) -> int:
    """How many of the words after an option are its values."""
    action = verb._option_string_actions.get(word)
    if action is None or action.nargs == 0:
        return 0
    if action.nargs != "+":
        return min(1, len(after))
    takes = str.isdigit if action.dest == "gpu" else _is_no_option
    return next((index for index, one in enumerate(after) if not takes(one)), len(after))


def _is_no_option(word: str) -> bool:
    return not word.startswith("-")


def _require_one_source(found: argparse.Namespace, command: Sequence[str]) -> None:
    """Refuse more than one thing to measure, and none.

    Raises:
        Failure: with what to do.
    """
    given = [
        name
        for name, value in (("--pid", found.pid), ("--trace", found.trace), ("--from-recording", found.from_recording))
        if value is not None
    ]
    if len(given) > 1:
        raise Failure(f"`{given[0]}` cannot be given together with `{given[1]}`")
    if given and command and given[0] != "--trace":
        raise Failure(f"`{given[0]}` starts nothing, so `{command[0]}` cannot be run; leave one of them out")
    if not given and not command:
        raise Failure("nothing to measure: name a script, `-- COMMAND`, `--pid PID`, `--trace FILE` or a recording")
    for option, value in (("--recording", found.recording), ("--python", found.python)):
        if given and value is not None and not (option == "--recording" and found.pid is not None):
            raise Failure(f"`{option}` is about a job that is started, which `{given[0]}` does not")


def _condition(verb: VerbParser, text: str) -> Confirmed | Regression:
    from trainlint.report.probe_conditions import fail_condition

    try:
        return fail_condition(text)
    except ValueError as error:
        verb.error(f"argument --fail-on: {error}")


def _count(text: str) -> int:
    """A whole number from 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number from 0, got `{text}`")
    return int(text)


def _number(text: str) -> float:
    """A number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got `{text}`")
    return number
