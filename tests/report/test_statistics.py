"""`--statistics` marks the rules whose findings can be fixed: all of them, some of them, none."""

from __future__ import annotations

from trainlint.report.statistics import RuleCount, as_text


def test_a_mark_tells_how_many_can_be_fixed_and_is_explained() -> None:
    counts = [
        RuleCount("TL201", "sync-in-step", 12, False, 3),
        RuleCount("TL108", "blocking-transfer", 2, True, 2),
        RuleCount("TL101", "tokenize-in-getitem", 1, False, 0),
    ]
    assert as_text(counts, "--fix").splitlines() == [
        "12  TL201  [-] sync-in-step",
        " 2  TL108  [*] blocking-transfer",
        " 1  TL101  [ ] tokenize-in-getitem",
        "[*] fixable with `--fix`",
        "[-] some of them fixable with `--fix`",
    ]


def test_no_mark_is_explained_that_does_not_occur() -> None:
    assert as_text([RuleCount("TL101", "tokenize-in-getitem", 1, False, 0)], "--fix").count("\n") == 1
