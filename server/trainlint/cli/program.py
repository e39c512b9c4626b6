"""From an argument list to a verb, and from whatever the verb raises to an exit status.

The program starts in an editor and at every commit, so nothing is imported before it is known to be needed: all of
`trainlint version` may cost 50 ms. Parsing uses argparse, which is imported in a quarter of the time of click (the
figures are in docs/architecture.md). Each verb is a module with its own parser, imported on demand.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TextIO

FINDINGS = 1
FAILED = 2
"""Wrong usage, a broken configuration, or a defect of trainlint."""
INTERRUPTED = 130
"""What a shell reports for a process that SIGINT ended."""

STREAM_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""Errors of writing to a stream, which tell no file name: the disk is full, or the stream takes no more."""

VERBS = {
    "check": "Lint files and folders (the default verb)",
    "probe": "Run a job for some steps, and say where the time goes",
    "rules": "List all rules",
    "explain": "Print the page of a rule, or say why a finding is there or not",
    "config": "Print the effective settings, and where each comes from",
    "clean": "Remove caches",
    "server": "Run the language server",
    "doctor": "Say what this environment allows a probe to measure",
    "version": "Print the version",
}
"""The verbs of this version; the module `trainlint.cli.<verb>` holds each one's `main`."""

LATER_VERBS = ("ablate",)
"""Verbs whose names are taken already, so that no folder is linted by mistake once they arrive."""

OTHER_WORDS = {"lint": "check", "scan": "check", "profile": "probe", "measure": "probe"}
"""What other programs call these verbs."""


def run(arguments: Sequence[str]) -> int:
    """Run the program and return its exit status; messages go to standard error, never as a traceback of a mistake."""
    _prepare_streams()
    try:
        try:
            return _dispatch(arguments)
        finally:
            if not sys.stdout.closed:  # as the language server leaves it
                sys.stdout.flush()
    except BrokenPipeError:
        abandon(sys.stdout)
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        return _report_system_error(error)
    except Exception as error:
        return report_failure(error)


def _dispatch(arguments: Sequence[str]) -> int:
    first = arguments[0] if arguments else ""
    if first in ("", "-h", "--help"):
        print(_overview(), file=sys.stdout if first else sys.stderr)
        return 0 if first else FAILED
    if first in ("-V", "--version"):
        return _verb("version")(arguments[1:])
    if first in LATER_VERBS:
        print(f"trainlint: `{first}` is not available in this version (to lint a folder: ./{first})", file=sys.stderr)
        return FAILED
    if first in VERBS:
        return _verb(first)(arguments[1:])
    _hint_at_verb(first)
    return _verb("check")(arguments)


def _hint_at_verb(path: str) -> None:
    """Say so if what is about to be linted is not there and was meant as a verb."""
    if not path.isalpha() or os.path.lexists(path):
        return
    import difflib

    near = [OTHER_WORDS[path]] if path in OTHER_WORDS else difflib.get_close_matches(path, [*VERBS, *LATER_VERBS], n=1)
    for verb in near:
        print(f"trainlint: there is no `{path}` here; did you mean the verb `{verb}`?", file=sys.stderr)


def _verb(name: str) -> Callable[[Sequence[str]], int]:
    if name not in ("version", "rules"):
        _require_working_directory()
    main: Callable[[Sequence[str]], int] = import_module(f"trainlint.cli.{name}").main
    return main


def _require_working_directory() -> None:
    """Refuse to go on in a folder that is gone: paths could not be told from one another.

    Raises:
        Failure: it is.
    """
    try:
        os.getcwd()  # noqa: PTH109 - without pathlib, which a start does not need
    except OSError as error:
        from trainlint.cli.failure import Failure
        from trainlint.source.system_errors import reason_of

        raise Failure(f"the working directory cannot be used: {reason_of(error)}") from error


def _overview() -> str:
    verbs = "\n".join(f"  {verb:<9} {text}" for verb, text in VERBS.items())
    return (
        "Finds the lines of PyTorch training code that starve or stall the GPU.\n\n"
        "Usage: trainlint [check] PATH... [OPTIONS]\n"
        "       trainlint VERB ...\n\n"
        f"Verbs:\n{verbs}\n\n"
        "`trainlint VERB --help` lists the options of a verb.\n"
        "A path that has the name of a verb is written ./NAME."
    )


def report_failure(error: Exception) -> int:
    """Say on standard error what went wrong, and return the exit status for it."""
    from trainlint.cli.failure import Failure
    from trainlint.config.errors import ConfigError

    if isinstance(error, Failure | ConfigError):
        print(f"trainlint: error: {error}", file=sys.stderr)
        return FAILED
    import traceback

    traceback.print_exception(error)
    print(
        "trainlint: internal error: the traceback above is a defect of trainlint; please report it with the code "
        "that causes it",
        file=sys.stderr,
    )
    return FAILED


def _prepare_streams() -> None:
    """Write UTF-8 to files and pipes, as programs that read reports expect, and never fail on a character; write to
    nowhere where a stream is closed."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is None:
            continue
        reconfigure(errors="backslashreplace")
        if not stream.isatty():
            reconfigure(encoding="utf-8", errors="backslashreplace")


def _report_system_error(error: OSError) -> int:
    """Tell a standard stream that takes no more, as on a full disk, from a defect; all files that are written are
    watched where they are written, and an error about a path names it."""
    from trainlint.source.system_errors import reason_of

    try:
        if error.filename is not None or error.errno not in STREAM_ERRORS:
            return report_failure(error)
        abandon(sys.stdout)
        print(f"trainlint: error: standard output cannot be written: {reason_of(error)}", file=sys.stderr)
    except OSError:
        abandon(sys.stderr)
    return FAILED


def abandon(stream: TextIO) -> None:
    """Let nothing more be written: nobody takes it, and the interpreter's last flush would complain about that."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
