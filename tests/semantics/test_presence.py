"""Whether a variable that may be left out is there, by the calls that lead to it."""

from __future__ import annotations

import pytest
from marked_programs import plain

from trainlint.lint.analyze import analyze
from trainlint.semantics.vocabulary import Confidence

ASKED = {
    "something that is passed is not found missing": ("if size is None:", "scale(loss, len(images))", False),
    "nor is what another call returned": ("if size is None:", "scale(loss, size=images.size(0))", False),
    "nor one of several": ("if size is None:", "scale(loss, (images.shape[0], 3))", False),
    "nor what passes through another function": ("if size is None:", "further(loss, len(images))", False),
    "nor what a variable keeps": ("if size is None:", "scale(loss, count)", False),
    "what is left out is missing": ("if size is None:", "scale(loss)", True),
    "what is None is missing": ("if size is None:", "scale(loss, None)", True),
    "what is left out of a call further out is missing": ("if size is None:", "further(loss)", True),
    "a setting may be anything": ("if size is None:", "scale(loss, config.size)", True),
    "what comes of a branch may be missing": ("if size is None:", "scale(loss, perhaps)", True),
    "what is spread may be missing": ("if size is None:", "scale(loss, *sizes)", True),
    "what is left out is not found": ("if size is not None:", "scale(loss)", False),
    "what is passed is found": ("if size is not None:", "scale(loss, len(images))", True),
    "a part of a condition decides": ("if size is not None and flag:", "scale(loss)", False),
    "one of two parts does not": ("if size is not None or config.flag:", "scale(loss)", True),
    "both parts do": ("if size is not None or flag:", "scale(loss)", False),
    "a switch that stays on": ("if not keep:", "scale(loss)", False),
    "a switch that is turned off": ("if not keep:", "scale(loss, keep=False)", True),
    "a switch that a setting turns": ("if not keep:", "scale(loss, keep=config.keep)", True),
    "a switch that is asked to be on": ("if flag is True:", "scale(loss)", False),
    "one that is asked not to be on": ("if keep is not True:", "scale(loss)", False),
    "one that is asked to be off": ("if flag is False:", "scale(loss)", True),
    "a switch that stays off": ("if flag:", "scale(loss)", False),
    "what is done otherwise": ("if keep:\n        pass\n    else:", "scale(loss)", False),
    "a negation decides": ("if not (size is None):", "scale(loss)", False),
    "what another branch is for": ("if size is not None:\n        pass\n    else:", "scale(loss, len(images))", False),
    "what an early end leaves": (
        "if size is not None:\n        return\n    if True:",
        "scale(loss, len(images))",
        False,
    ),
}


@pytest.mark.parametrize(("test", "call", "reached"), ASKED.values(), ids=ASKED.keys())
def test_calls_tell_what_is_missing(test: str, call: str, reached: bool) -> None:
    project = analyze(
        {
            "train.py": plain("""
            def scale(loss, size=None, flag=False, keep=True):
                TEST
                    print(loss.item())

            def further(loss, size=None):
                scale(loss, size)

            def main(sizes):
                if config.several:
                    perhaps = 3
                else:
                    perhaps = None
                for images, labels in train_loader:
                    count = len(images)
                    loss = criterion(model(images.to(device)), labels.to(device))
                    loss.backward()
                    optimizer.step()
                    CALL

            main(config.sizes)
            """)
            .replace("TEST", test)
            .replace("CALL", call)
        }
    )
    found = {sync.context.confidence for sync in project.syncs if sync.site.symbol == "scale"}
    assert (found != {Confidence.LOW}) is reached


def test_one_call_of_several_that_leaves_it_out_is_enough() -> None:
    project = analyze(
        {
            "train.py": plain("""
            def scale(loss, size=None):
                if size is None:
                    print(loss.item())

            for images, labels in train_loader:
                loss = criterion(model(images.to(device)), labels.to(device))
                loss.backward()
                optimizer.step()
                scale(loss, 3)
                scale(loss)
            """)
        }
    )
    found = {sync.context.confidence for sync in project.syncs if sync.site.symbol == "scale"}
    assert found - {Confidence.LOW}


def test_what_is_filled_in_by_the_branch_itself_was_missing_before() -> None:
    project = analyze(
        {
            "train.py": plain("""
            def scale(loss, size=None):
                if size is None:
                    size = loss.item()
                return size

            for images, labels in train_loader:
                loss = criterion(model(images.to(device)), labels.to(device))
                loss.backward()
                optimizer.step()
                scale(loss, 3)
            """)
        }
    )
    assert {sync.context.confidence for sync in project.syncs} <= {Confidence.LOW}


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        ("measure(model, images, False)", 0),
        ("measure(model, images, with_graph=False)", 0),
        ("measure(model, images, True)", 1),
        ("measure(model, images)", 1),
    ],
)
def test_a_default_that_is_filled_in_is_forgotten_where_the_call_passes_something(call: str, kept: int) -> None:
    project = analyze(
        {
            "train.py": plain("""
            def measure(model, images, with_graph=None):
                if with_graph is None:
                    with_graph = config.with_graph
                outputs = model(images)
                return outputs if with_graph else outputs.detach()

            collected = []
            for images, labels in train_loader:
                loss = criterion(model(images.cuda()), labels)
                loss.backward()
                optimizer.step()
                collected.append(CALL)
            """).replace("CALL", call)
        }
    )
    assert len(project.kept_graphs) == kept


KEPT = {
    "what no call passes is missing": ("if self.extra is not None:", "Trainer(model)", False),
    "asked for its truth": ("if self.extra:", "Trainer(model)", False),
    "what a call passes is there": ("if self.extra is not None:", "Trainer(model, extra=make())", True),
    "what another method sets may be there": ("if self.later is not None:", "Trainer(model)", True),
    "what is set from outside may be there": (
        "if self.extra is not None:",
        "Trainer(model)\ntrainer.extra = make()",
        True,
    ),
    "where it is missing": ("if self.extra is None:", "Trainer(model)", True),
}


@pytest.mark.parametrize(("test", "call", "reached"), KEPT.values(), ids=KEPT.keys())
def test_constructors_tell_what_an_object_lacks(test: str, call: str, reached: bool) -> None:
    text = plain("""
        class Trainer:
            def __init__(self, model, extra=None):
                self.model = model
                self.extra = extra
                self.later = None

            def prepare(self):
                self.later = make()

            def train(self):
                self.prepare()
                for images, labels in train_loader:
                    loss = criterion(self.model(images.to(device)), labels.to(device))
                    loss.backward()
                    optimizer.step()
                    TEST
                        print(loss.item())

        trainer = CALL
        trainer.train()
        """)
    project = analyze({"train.py": text.replace("TEST", test).replace("CALL", call)})
    found = {sync.context.confidence for sync in project.syncs}
    assert found
    assert (found != {Confidence.LOW}) is reached


def test_a_class_that_nobody_makes_an_object_of_may_be_given_everything() -> None:
    text = plain("""
        class Trainer:
            def __init__(self, model, extra=None):
                self.model = model
                self.extra = extra

            def train(self):
                for images, labels in train_loader:
                    loss = criterion(self.model(images.to(device)), labels.to(device))
                    loss.backward()
                    optimizer.step()
                    if self.extra is not None:
                        print(loss.item())
        """)
    assert {sync.context.confidence for sync in analyze({"train.py": text}).syncs} - {Confidence.LOW}
