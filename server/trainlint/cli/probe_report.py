"""Where the report of a probe goes: to standard error in one of its formats, and to files."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.cli.failure import Failure
from trainlint.cli.probe_arguments import ProbeArguments
from trainlint.cli.program import abandon
from trainlint.source.system_errors import reason_of

if TYPE_CHECKING:
    from trainlint.report.probe_compare import Comparison
    from trainlint.report.probe_result import ProbeResult


def report_text(result: ProbeResult, comparison: Comparison | None, arguments: ProbeArguments, folder: Path) -> str:
    """The report in the format that was asked for; `folder` is the one that files are named below."""
    from trainlint.report.view import View

    view = View(folder)
    if arguments.format == "json":
        from trainlint.report.probe_result import to_json

        return to_json(result)
    if arguments.format == "markdown":
        from trainlint.report.probe_markdown import render_markdown

        return render_markdown(result, view, comparison=comparison)
    from trainlint.cli.terminal import wants_colour
    from trainlint.report.probe_text import render_text

    coloured = replace(view, colour=wants_colour(arguments.colour, sys.stderr))
    width = shutil.get_terminal_size().columns
    return render_text(result, coloured, width=width, encoding=sys.stderr.encoding, comparison=comparison)


def require_writable(file: Path, option: str) -> None:
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


def write(file: Path, text: str, option: str) -> None:
    from trainlint.fixes.write import write_output

    try:
        write_output(file, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise Failure(f"`{option} {file}` cannot be written: {reason_of(error)}") from error


def say(text: str) -> None:
    """Write to standard error; where nobody reads it or it takes no more, the status is still to be told."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        abandon(sys.stderr)
