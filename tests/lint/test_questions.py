"""Listening to what rules ask: it changes nothing, and tells of each row the same as a check."""

from __future__ import annotations

import pytest

from trainlint.lint.analyze import analyze
from trainlint.lint.questions import Reason, listen, looked_for, reasons, records_at, telling
from trainlint.lint.registry import load_registry
from trainlint.lint.rule import FileRule, Rule, RuleOptions, RuntimeRule
from trainlint.report.model_words import FACTS, GUARDS, KINDS, PLACES, fact_of
from trainlint.semantics.project import RECORD_LISTS, Context, Project, Report, SyncPoint
from trainlint.semantics.vocabulary import GuardKind, Place

RULES = [rule for rule in load_registry().rules.values() if not issubclass(rule, FileRule | RuntimeRule)]


def instance(rule: type[Rule]) -> Rule:
    made = rule()
    made.options = RuleOptions(rule.options_model().model_dump() if rule.options_model else {})
    return made


def found(rule: Rule, project: Project) -> list[tuple[object, ...]]:
    return [(one.site, one.message, one.confidence, one.help) for one in rule.check(project)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_comes_to_the_same_while_it_is_listened_to(rule: type[Rule]) -> None:
    heard = 0
    for example in rule.examples:
        project = analyze(example.files)
        before = found(instance(rule), project)
        classes = {id(record): type(record) for _, record in records_at(project, lambda site: True)}
        findings, asked = listen(instance(rule), project, lambda site: True)
        assert [(one.site, one.message, one.confidence, one.help) for one in findings] == before
        assert {id(record): type(record) for _, record in records_at(project, lambda site: True)} == classes
        assert found(instance(rule), project) == before
        heard += len(asked)
        for question in (question for one in asked for question in telling(one.questions)):
            assert f"{question.of.__name__}.{question.name}" in FACTS
            assert "{}" not in fact_of(question) and "{answer}" not in fact_of(question)
    assert heard


REPORTED_EVERY_TENTH_STEP = """\
import torch
model = torch.nn.Linear(1, 1){moved}
optimizer = torch.optim.SGD(model.parameters())
for step, x in enumerate(torch.randn(9, 1)):
    loss = model(x{moved}).mean()
    loss.backward()
    optimizer.step()
    if {test}:
        print(loss.item())
"""


def why(code: str, row: int, **parts: str) -> list[Reason]:
    project = analyze({"train.py": REPORTED_EVERY_TENTH_STEP.format(**parts)})
    rule = instance(load_registry().rules[code])
    _, asked = listen(rule, project, lambda site: site.row == row)
    return reasons(rule, project, asked, lambda site: site.row == row)


def decided_by(found: list[Reason], record: type) -> set[tuple[str, ...]]:
    return {tuple(one.name for one in reason.questions) for reason in found if isinstance(reason.record, record)}


def test_the_reason_is_the_answer_that_the_finding_hangs_on() -> None:
    found = why("TL201", 9, moved=".cuda()", test="step % 10 == 0")
    assert decided_by(found, SyncPoint) == {("hot",)}
    assert all(reason.proved for reason in found if isinstance(reason.record, SyncPoint))


def test_a_yes_may_be_the_reason() -> None:
    start = "import torch.distributed\ntorch.distributed.init_process_group()\n"
    source = start + REPORTED_EVERY_TENTH_STEP.format(moved=".cuda()", test="torch.distributed.get_rank() == 0")
    project = analyze({"train.py": source})
    rule = instance(load_registry().rules["TL213"])
    findings, asked = listen(rule, project, lambda site: site.row == 11)
    (reason,) = reasons(rule, project, asked, lambda site: site.row == 11)
    assert not findings and reason.proved
    (decisive,) = reason.questions
    assert (decisive.name, decisive.answer) == ("under", True)
    assert fact_of(decisive).startswith("it stands under one rank")


def test_what_the_rule_asks_afterwards_is_no_reason() -> None:
    """The rule looks for an interval of the function for its fix, of any output."""
    found = why("TL202", 9, moved=".cuda()", test="step % 10 == 0")
    assert decided_by(found, Report) == {("hot",)}


def test_several_answers_may_have_to_be_others_together() -> None:
    found = why("TL201", 9, moved="", test="step % 10 == 0")
    assert decided_by(found, SyncPoint) == {("hot", "on_device")}


def test_what_a_rule_is_told_is_as_before_once_the_reasons_are_known() -> None:
    project = analyze({"train.py": REPORTED_EVERY_TENTH_STEP.format(moved=".cuda()", test="step % 1 == 0")})
    rule = instance(load_registry().rules["TL201"])
    before = found(rule, project)
    _, asked = listen(rule, project, lambda site: site.row == 7)
    reasons(rule, project, asked, lambda site: site.row == 7)
    assert before and found(rule, project) == before


def test_the_questions_are_heard_in_order() -> None:
    project = analyze(
        {
            "train.py": "import torch\nmodel = torch.nn.Linear(1, 1).cuda()\noptimizer = torch.optim.SGD("
            "model.parameters())\nfor step, x in enumerate(torch.randn(9, 1)):\n    loss = model(x.cuda()).mean()\n"
            "    loss.backward()\n    optimizer.step()\n    if step % 10 == 0:\n        print(loss.item())\n"
        }
    )
    rule = instance(load_registry().rules["TL201"])
    findings, asked = listen(rule, project, lambda site: site.row == 9)
    assert not findings
    (of_sync,) = {one.questions[-1] for one in asked if isinstance(one.record, SyncPoint)}
    assert (of_sync.of, of_sync.name, of_sync.answer) == (Context, "hot", False)


def test_what_a_rule_looks_for_is_known() -> None:
    project = analyze({"train.py": "import torch\n"})
    assert looked_for(instance(load_registry().rules["TL103"]), project) == {("loaders", "")}
    assert ("calls", "torch.cuda.empty_cache") in looked_for(instance(load_registry().rules["TL206"]), project)
    assert all(looked_for(instance(rule), project) for rule in RULES)
    assert type(project) is Project


def test_all_of_the_model_has_words() -> None:
    assert set(KINDS) == set(RECORD_LISTS)
    assert set(GUARDS) == set(GuardKind)
    assert set(PLACES) == set(Place)
