"""Listening to what rules ask: it changes nothing, and tells of each row the same as a check."""

from __future__ import annotations

import pytest

from trainlint.lint.analyze import analyze
from trainlint.lint.questions import listen, looked_for, records_at
from trainlint.lint.registry import load_registry
from trainlint.lint.rule import FileRule, Rule, RuleOptions, RuntimeRule
from trainlint.report.model_words import GUARDS, KINDS, PLACES, answer_of, question_of
from trainlint.semantics.project import RECORD_LISTS, Context, Project, SyncPoint
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
        for question in (question for one in asked for question in one.questions):
            assert question_of(question) and answer_of(question)
    assert heard


def test_the_last_answer_is_the_one_that_ruled_it_out() -> None:
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
