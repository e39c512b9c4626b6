"""Facts of a text that is edited: the same as those of the whole text, for the price of what changed."""

from __future__ import annotations

import random
import sysconfig
from pathlib import Path

import pytest
from tests.semantics.random_edits import edited

import trainlint
from trainlint.semantics.extract import SourceError, extract
from trainlint.semantics.incremental import LiveModule

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.py"))
OWN = sorted(Path(trainlint.__file__).parent.rglob("*.py"))
STANDARD = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
LARGEST = 6_000
"""Bytes of a file that random edits are tried on: each text is extracted as a whole, too."""
EDITS = 30


def outcome(facts: object, text: str) -> object:
    """What comes of a text, an error as its parts."""
    try:
        return facts(text).dump()  # type: ignore[operator]
    except SourceError as error:
        return type(error), error.message, error.row, error.column


def small(paths: list[Path]) -> list[Path]:
    return [path for path in paths if 500 < path.stat().st_size < LARGEST]


RANDOM = [*small(EXAMPLES)[::4], *small(OWN)[::14], *small(STANDARD)[::14]]


@pytest.mark.parametrize("path", RANDOM, ids=lambda path: path.name)
def test_facts_after_random_edits_are_those_of_the_whole_text(path: Path) -> None:
    choose = random.Random(path.name)
    text = valid = path.read_text("utf-8")
    live = LiveModule()
    texts = [text]
    for _ in range(EDITS):
        expected = outcome(extract, text)
        assert outcome(live.update, text) == expected, texts
        if isinstance(expected, str):
            valid = text
        elif choose.random() < 0.5:
            text = valid
        text = edited(text, choose)
        texts.append(text)


PROGRAM = '''"""A program."""

import torch


def helper(x):
    return x


# The model.
@register("net")
class Net(torch.nn.Module):
    """A model."""

    size = 3

    def __init__(self):
        self.layer = torch.nn.Linear(3, 3)

    # Runs at each step.
    def forward(self, x):
        x = self.layer(x)
        if x.isnan().any():
            raise ValueError("nan")
        elif x.sum() > 0:
            x = x + 1

        return x

    def last(self):
        def inner():
            yield self.size
        return inner


def main(loader, model):
    for epoch in range(3):
        for x, y in loader:
            loss = model(x)
            loss.backward()
        else:
            print("done")
        try:
            save(model)
        except OSError:
            print("failed")
        finally:
            close()
    text = """
    a
    """
    return text


if __name__ == "__main__":
    main(1, 2)
'''

EDITS_OF_PROGRAM = {
    "a name in a statement": ("x = self.layer(x)", "x = self.layers(x)", 0.1),
    "a row more in a nested block": (
        "            loss.backward()\n",
        "            loss.backward()\n            step()\n",
        0.1,
    ),
    "a row less in a nested block": ("            loss.backward()\n", "", 0.1),
    "a new first statement of a block": ("    for epoch", "    import os\n    for epoch", 0.1),
    "a new last statement of a function": ("    return x\n\n\n#", "    return x\n    print(x)\n\n\n#", 0.1),
    "a blank row": ("    text = ", "\n    text = ", 0.0),
    "a comment": ("# The model.", "# The only model.", 0.0),
    "a comment becomes code": ("    # Runs at each step.", "    runs = 1", 0.1),
    "a statement becomes a comment": ("    size = 3", "    # size = 3", 0.0),
    "a parameter more": ("def forward(self, x)", "def forward(self, x, y=1)", 0.2),
    "a header of two rows": ("def main(loader, model)", "def main(\n    loader, model)", 0.3),
    "another name of a class": ("class Net(", "class Network(", 0.6),
    "another base": ("class Net(torch.nn.Module)", "class Net(torch.nn.Module, Base)", 0.4),
    "a decorator more": ("    def last(", "    @torch.no_grad()\n    def last(", 0.2),
    "a decorator less": ('@register("net")\n', "", 0.4),
    "a function becomes a generator": ("    text = ", "    yield 1\n    text = ", 0.1),
    "a function that is a generator no more": ("            yield self.size\n", "            pass\n", 0.1),
    "a new function before others": ("def helper", "def first():\n    def second(): return 1\n\ndef helper", 0.1),
    "a new method before others": ("    # Runs", "    def first(self):\n        self.cuda()\n\n    # Runs", 0.1),
    "a function less": ("def helper(x):\n    return x\n", "", 0.1),
    "a method becomes a function": ("    def last(self):", "def last(self):", None),
    "an else to an if": ("            x = x + 1\n", "            x = x + 1\n        else:\n            x = 2\n", 0.3),
    "an elif less": ("        elif x.sum() > 0:\n            x = x + 1\n", "", 0.3),
    "a block around statements": (
        "        try:\n            save",
        "        if a:\n          try:\n            save",
        None,
    ),
    "an import more": ("import torch\n", "import torch\nfrom os import path\n", 0.1),
    "several rows of a string": ('    text = """\n', '    text = """\n\n', 0.1),
    "a quote is opened": ("size = 3", 'size = """3', None),
    "a bracket is opened": ("self.layer(x)", "self.layer((x)", None),
    "carriage returns": ("    size = 3\n", "    size = 3\r\n", 0.1),
    "a new last row": ("    main(1, 2)\n", "    main(1, 2)\nx", 0.1),
    "no last row end": ("    main(1, 2)\n", "    main(1, 2)", 0.1),
    "the question whether this is the main module less": ('if __name__ == "__main__":\n', "if 1:\n", 0.1),
    "letters of several bytes": ('print("done")', 'print("döne", é)', 0.1),
    "a name that Python writes in other letters": ("x = self.layer(x)", "x = \ufb01(x)", None),
    "an empty block": ("        def inner():\n            yield self.size\n", "        def inner():\n", None),
    "a null byte": ("size = 3", "size = \0", None),
    "a lone surrogate in a comment": ("# The model.", "# \ud800", None),
}


@pytest.mark.parametrize("name", EDITS_OF_PROGRAM)
def test_an_edit_and_its_undoing_give_the_facts_of_the_whole_text(name: str) -> None:
    old, new, _ = EDITS_OF_PROGRAM[name]
    assert PROGRAM.count(old) == 1
    live = LiveModule()
    for text in (PROGRAM, PROGRAM.replace(old, new), PROGRAM, PROGRAM.replace(old, new)):
        assert outcome(live.update, text) == outcome(extract, text)


@pytest.mark.parametrize("name", [name for name, (_, _, share) in EDITS_OF_PROGRAM.items() if share is not None])
def test_an_edit_parses_the_statement_around_it_only(name: str) -> None:
    old, new, share = EDITS_OF_PROGRAM[name]
    live = LiveModule()
    live.update(PROGRAM)
    live.update(PROGRAM.replace(old, new))
    assert share is not None
    assert live.parsed <= share * len(PROGRAM)


TYPED = {
    "an open bracket": ("x = self.layer(x)", "x = self.layer(x"),
    "a bracket too many": ("x = self.layer(x)", "x = self.layer(x))"),
    "brackets of two kinds": ("x = self.layer(x)", "x = self.layer(x]"),
    "an open quote": ("x = self.layer(x)", "x = self.layer('x)"),
    "an attribute without a name": ("x = self.layer(x)", "x = self."),
    "an assignment without a value": ("    size = 3", "    size ="),
    "a header without a suite": ("    size = 3", "    size = 3\n    def other(self):"),
    "a header without a colon": ("    for epoch in range(3):", "    for epoch in range(3)"),
    "a statement of the file": ("def helper", "import\n\ndef helper"),
    "a base that is missing": ("class Net(torch.nn.Module):", "class Net(torch.nn.Module, =):"),
}


@pytest.mark.parametrize("name", TYPED)
def test_a_text_that_is_broken_for_a_moment_is_not_parsed_as_a_whole(name: str) -> None:
    old, new = TYPED[name]
    assert PROGRAM.count(old) == 1
    live = LiveModule()
    live.update(PROGRAM)
    broken = PROGRAM.replace(old, new)
    assert outcome(live.update, broken) == outcome(extract, broken)
    assert live.parsed < 0.5 * len(PROGRAM)


def test_an_edit_of_a_text_that_did_not_parse_is_one_of_the_last_text_that_did() -> None:
    live = LiveModule()
    live.update(PROGRAM)
    for broken in ("x = self.", "x = self.layer(", "x = self.layer(x, '"):
        with pytest.raises(SourceError):
            live.update(PROGRAM.replace("x = self.layer(x)", broken))
    changed = PROGRAM.replace("x = self.layer(x)", "x = self.layer(x, 1)")
    assert live.update(changed) == extract(changed)
    assert live.parsed < 0.1 * len(PROGRAM)


def test_a_text_that_nests_too_deep_is_extracted_as_far_as_it_can_be() -> None:
    live = LiveModule()
    live.update(PROGRAM)
    deep = PROGRAM.replace("size = 3", f"size = {'(' * 200}3{')' * 200}")
    assert live.update(deep) == extract(deep)
    assert live.update(PROGRAM) == extract(PROGRAM)


def test_functions_in_a_class_that_cannot_be_parted_keep_their_rows() -> None:
    text = f"def outer():\n    x = 1\n{indented(PROGRAM.replace('size = 3', CONTINUED))}"
    live = LiveModule()
    for changed in (text, text.replace("x = 1", "x = 1\n    y = 2"), text.replace("import torch\n", "")):
        assert live.update(changed) == extract(changed)


CONTINUED = "size = \\\n\\\n3\\\n"
"""A statement whose last row is continued in an empty one."""


def indented(text: str) -> str:
    return "".join(f"    {row}" if row.strip() else row for row in text.splitlines(keepends=True))


def test_a_byte_order_mark_is_not_part_of_the_text() -> None:
    live = LiveModule()
    live.update(PROGRAM)
    assert live.update("\ufeff" + PROGRAM) == extract(PROGRAM)


def test_the_facts_of_an_empty_text_that_is_filled() -> None:
    live = LiveModule()
    for text in ("", "x", "x\n", "x\n\n# a", "# a", "", "\n", "def f(): pass"):
        assert live.update(text) == extract(text)
