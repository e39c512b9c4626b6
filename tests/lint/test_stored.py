"""Findings as text in the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainlint.fixes.recipe import Applicability, EnsureImport, Fix, SetArgument
from trainlint.lint.finding import Finding, RelatedSite, Severity
from trainlint.lint.result import Position, Reported
from trainlint.lint.stored import UnreadableEntryError, dump, load
from trainlint.semantics.context import Context, Entry, Guard, Site
from trainlint.semantics.vocabulary import Confidence, Frequency, GradMode, GuardKind, Known, Region

ROOT = Path("/project")
SITE = Site(ROOT / "lib/ä.py", 3, 4, 5, 6, "Trainer.fit")
ENTRY = Entry(ROOT / "train.py", "train", distributed=Known.YES, trains=True)
CONTEXT = Context(
    Frequency.PER_STEP,
    Region.TRAINING,
    SITE,
    ("train.main", "lib.fit"),
    (Guard(next(iter(GuardKind)), "step % 10 == 0", True),),
    next(iter(GradMode)),
    ENTRY,
    Confidence.MEDIUM,
)
FIX = Fix(Applicability.UNSAFE, "Do it", (SetArgument(SITE, "x", "1", 0), EnsureImport(SITE, "torch", None)))


def reported(context: Context | None, fix: Fix | None) -> Reported:
    related = (RelatedSite(SITE, "the loop"),)
    finding = Finding(
        "TL201", "sync-in-step", "µ 'x'", SITE, Severity.ERROR, Confidence.HIGH, context, "help", related, None, fix
    )
    return Reported(finding, SITE.path, Position(3, 5), Position(5, 7), 5, "https://example.org/")


def fields(context: Context) -> list[object]:
    return [getattr(context.entry, name) for name in Entry.__slots__]


def test_findings_come_back_as_they_were() -> None:
    before = [reported(CONTEXT, FIX), reported(None, None)]
    text = dump(before, ROOT)
    after = load(text, ROOT)
    assert [one.finding.fix for one in after] == [FIX, None]
    assert after[1] == before[1]
    context = after[0].finding.context
    assert context is not None
    assert fields(context) == fields(CONTEXT)
    assert dump(after, ROOT) == text


def test_findings_move_with_their_project() -> None:
    (found,) = load(dump([reported(None, FIX)], ROOT), Path("/elsewhere"))
    assert found.path == Path("/elsewhere/lib/ä.py")
    assert found.finding.site.path == found.path


def test_what_findings_share_is_written_once() -> None:
    text = dump([reported(CONTEXT, None)] * 5, ROOT)
    assert text.count("step % 10") == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "[[],[1]]",
        '[[],[["os.system","ls"]]]',
        '[[],[["Path"]]]',
        '[[],[["=",3]]]',
        '[[],[["Severity","huge"]]]',
        '[[],[["Site",1]]]',
        '[[],[["Path","x"]]]',
        "null",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(UnreadableEntryError):
        load(text, ROOT)
