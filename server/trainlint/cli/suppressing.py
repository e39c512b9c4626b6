"""Suppressing for `trainlint check`: silence all that is reported by comments, until nothing more is to be silenced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trainlint.cli.drafts import Check, Drafts
from trainlint.cli.failure import Failure
from trainlint.cli.outcome import Outcome
from trainlint.fixes.edits import apply_edits
from trainlint.fixes.suppress import Silenced, give_reasons, suppress
from trainlint.lint.reporting import SYNTAX_ERROR, UNREADABLE, UNUSED_SUPPRESSION, WITHOUT_REASON
from trainlint.lint.result import Reported, Result
from trainlint.source.positions import LineIndex

MOST_ROUNDS = 5
"""A new comment may leave a wider one with nothing to silence, which is then reported; that is over in two rounds."""


def suppress_all(check: Check, texts: Mapping[Path, bytes], reason: str) -> Outcome:
    """Lint and add comments in memory until all is silent that comments can silence; `texts` holds standard input.

    Raises:
        Failure: the configuration asks for reasons, and none is given.
    """
    drafts = Drafts(texts)
    result = check(drafts.texts)
    for _ in range(MOST_ROUNDS):
        # A file is read here after the engine has read it, so it is linted again with the very text that is changed.
        if drafts.open(_by_file(result)):
            result = check(drafts.texts)
        if not reason and any(reported.finding.code == WITHOUT_REASON for reported in result.findings):
            raise Failure(
                "suppressions have to say why here (TL004): give a reason, as in `--add-suppressions='old code'`"
            )
        changed = [
            _silence(drafts, path, findings, reason) for path, findings in _by_file(result).items() if path in drafts
        ]
        if not any(changed):
            break
        result = check(drafts.texts)
    return drafts.outcome(result)


def _silence(drafts: Drafts, path: Path, findings: list[Reported], reason: str) -> bool:
    """Add the comments to one file; return whether that changed it."""
    text = drafts.text(path)
    index = LineIndex(text)
    unexplained = [reported for reported in findings if reported.finding.code == WITHOUT_REASON]
    wanted = [_silenced(reported) for reported in findings if reported.finding.code != WITHOUT_REASON]
    rows = [reported.finding.site.row for reported in unexplained]
    edits = dict.fromkeys([*suppress(index, wanted, reason), *give_reasons(index, rows, reason)])
    changed = apply_edits(text, edits)
    return changed != text and drafts.take(path, changed, len(findings))


def _silenced(reported: Reported) -> Silenced:
    finding = reported.finding
    return Silenced(finding.code, finding.name, finding.site.row, finding.code == UNUSED_SUPPRESSION)


def _by_file(result: Result) -> dict[Path, list[Reported]]:
    """The findings that a comment can silence, by file."""
    found: dict[Path, list[Reported]] = {}
    for reported in result.findings:
        if not _is_about_whole_file(reported):
            found.setdefault(reported.path, []).append(reported)
    return found


def _is_about_whole_file(reported: Reported) -> bool:
    """Whether the file could not be analysed, so that no comment in it is heard."""
    code = reported.finding.code
    return code == SYNTAX_ERROR or (code == UNREADABLE and reported.location == reported.end_location)
