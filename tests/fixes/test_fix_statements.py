"""Statements are removed, guarded, preceded and decorated; the rows around them stay as they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from marks import fix_of, fixed, marked

from trainlint.fixes.edits import CannotFix, apply_edits
from trainlint.fixes.realize import realize
from trainlint.fixes.recipe import (
    DecorateFunction,
    GuardBlock,
    GuardStatement,
    InsertAtStartOfLoop,
    InsertBefore,
    Recipe,
    RemoveStatement,
    RemoveText,
    SetArgument,
)
from trainlint.semantics.context import Site

REMOVE = {
    "a row": ("a\n«f()»  # why\nb\n", "a\nb\n"),
    "the last row": ("a\n«f()»", "a\n"),
    "the only row": ("«f()»\n", ""),
    "over rows": ("a\n«f(\n    b,\n)»\nc\n", "a\nc\n"),
    "CRLF": ("a\r\n«f()»\r\nb\r\n", "a\r\nb\r\n"),
    "carriage returns": ("a\r«f()»\rb\r", "a\rb\r"),
    "mixed line ends": ("a\r\n«f()»\nb\r\n", "a\r\nb\r\n"),
    "by an inner expression": ("a\nlog(«f()»)\nb\n", "a\nb\n"),
    "first of a row": ("«f()»; a; b\n", "a; b\n"),
    "middle of a row": ("a; «f()»; b\n", "a; b\n"),
    "last of a row": ("a; b; «f()»\n", "a; b\n"),
    "last of a row with semicolon": ("a; «f()»;  # why\n", "a;  # why\n"),
    "only one in a block": ("for a in b:\n    «f()»  # why\ny\n", "for a in b:\n    pass  # why\ny\n"),
    "only one under a condition": ("if x:\n    «f()»  # why\ny\n", "y\n"),
    "only one under nested conditions": (
        "for a in b:\n    if x.y and not z:\n        if n % 5 == 0:\n            «f()»\n    g()\n",
        "for a in b:\n    g()\n",
    ),
    "only one under a condition in a loop": ("for a in b:\n    if x: «f()»\ny\n", "for a in b:\n    pass\ny\n"),
    "only one under a condition that calls": ("if x():\n    «f()»\ny\n", "if x():\n    pass\ny\n"),
    "only one under a condition that binds": ("if (x := y):\n    «f()»\n", "if (x := y):\n    pass\n"),
    "only one of an elif": ("if x:\n    a\nelif y:\n    «f()»\n", "if x:\n    a\nelif y:\n    pass\n"),
    "only one of a try": ("try:\n    «f()»\nexcept E:\n    a\n", "try:\n    pass\nexcept E:\n    a\n"),
    "only one below a comment": ("for a in b:\n    # why\n    «f()»\n", "for a in b:\n    # why\n    pass\n"),
    "one of two in a block": ("if x:\n    «f()»\n    g()\n", "if x:\n    g()\n"),
    "after a docstring": ('def f():\n    """Doc."""\n    «g()»\n', 'def f():\n    """Doc."""\n'),
    "in a one-row block": ("if x: «f()»\nelse: y\n", "if x: pass\nelse: y\n"),
    "in a one-row block of two": ("if x: «f()»; y\n", "if x: y\n"),
    "an assignment to an attribute": ("«a.b = 1»\nc\n", "c\n"),
    "an assignment named itself": ("«a = 1»\nc\n", "c\n"),
    "a compound statement": ("a\n«for b in c:\n    d»\ne\n", "a\ne\n"),
    "a decorated function": ("a\n@b\n«def c(): d»\ne\n", "a\ne\n"),
    "the only compound statement": ("while a:\n    «if b:\n        c»\nd\n", "while a:\n    pass\nd\n"),
    "the only compound statement under a condition": ("if a:\n    «if b:\n        c»\nd\n", "d\n"),
    "tabs": ("if x:\n\t«f()»\n\tg()\n", "if x:\n\tg()\n"),
    "await": ("async def f():\n    await «g()»\n    h()\n", "async def f():\n    h()\n"),
}


@pytest.mark.parametrize(("before", "after"), REMOVE.values(), ids=REMOVE)
def test_remove_statement(before: str, after: str) -> None:
    assert fixed(before, RemoveStatement) == after


CANNOT_REMOVE = {
    "gives a name its value": "x = «f()»\n",
    "gives one of several names its value": "a.b, (x, y) = «f()»\n",
    "annotated name": "x: int = «f()»\n",
    "returns": "def g():\n    return «f()»\n",
    "in the header of a loop": "for x in «f()»:\n    pass\n",
    "in a test": "if «f()»:\n    pass\n",
    "in an elif": "if a:\n    pass\nelif «f()»:\n    pass\n",
    "is an elif": "if a:\n    pass\n«elif b:\n    c»\n",
    "gone": "«f(» )\n",
}


@pytest.mark.parametrize("source", CANNOT_REMOVE.values(), ids=CANNOT_REMOVE)
def test_remove_statement_refuses(source: str) -> None:
    with pytest.raises(CannotFix):
        fixed(source, RemoveStatement)


GUARD = {
    "a row": ("«print(a)»  # why\nb\n", "if c:\n    print(a)  # why\nb\n"),
    "a row in a block": ("for a in b:\n    «print(a)»\n", "for a in b:\n    if c:\n        print(a)\n"),
    "in the step of the block": ("for a in b:\n  «print(a)»\n", "for a in b:\n  if c:\n    print(a)\n"),
    "tabs": ("for a in b:\n\t«print(a)»\n", "for a in b:\n\tif c:\n\t\tprint(a)\n"),
    "in the step of the file": ("if a:\n  b\n«print(a)»\n", "if a:\n  b\nif c:\n  print(a)\n"),
    "below a comment": ("# why\n«f()»\n", "# why\nif c:\n    f()\n"),
    "over rows": (
        "x = 1\n«print(\n    a,\n\n    # note\n    b,\n)»\n",
        "x = 1\nif c:\n    print(\n        a,\n\n        # note\n        b,\n    )\n",
    ),
    "text in triple quotes": (
        "«print(\"\"\"a\n  b\n\"\"\", f'''c\n{d}\n''', (\n    e))»\n",
        "if c:\n    print(\"\"\"a\n  b\n\"\"\", f'''c\n{d}\n''', (\n        e))\n",
    ),
    "a string continued by a backslash": ("«print('a\\\nb', \\\n  c)»\n", "if c:\n    print('a\\\nb', \\\n      c)\n"),
    "CRLF": ("«print(\r\n  a)»\r\n", "if c:\r\n    print(\r\n      a)\r\n"),
    "one-row block": ("if x: «print(a)»\n", "if x:\n    if c:\n        print(a)\n"),
    "one-row else in a function": (
        "def f():\n  if x: pass\n  else: «print(\n    a)»\n",
        "def f():\n  if x: pass\n  else:\n    if c:\n      print(\n        a)\n",
    ),
    "one-row block with a header of several rows": (
        "if (x and\n    y): «f()»\n",
        "if (x and\n    y):\n    if c:\n        f()\n",
    ),
    "augmented assignment": ("a += «f()»\n", "if c:\n    a += f()\n"),
    "item": ("a[0] = «f()»\n", "if c:\n    a[0] = f()\n"),
    "whole statement": ("«if a:\n    b\nelse:\n    d»\n", "if c:\n    if a:\n        b\n    else:\n        d\n"),
}


@pytest.mark.parametrize(("before", "after"), GUARD.values(), ids=GUARD)
def test_guard_statement(before: str, after: str) -> None:
    assert fixed(before, lambda site: GuardStatement(site, "c")) == after


CANNOT_GUARD = {
    "other statements on the row": "a; «f()»\n",
    "other statements in the one-row block": "if x: a; «f()»\n",
    "gives a name its value": "x = «f()»\n",
    "returns": "def g():\n    return «f()»\n",
    "in a header": "while «f()»:\n    pass\n",
}


@pytest.mark.parametrize("source", CANNOT_GUARD.values(), ids=CANNOT_GUARD)
def test_guard_statement_refuses(source: str) -> None:
    with pytest.raises(CannotFix):
        fixed(source, lambda site: GuardStatement(site, "c"))


BLOCK = {
    "loop": ("a\n«for b in c:\n    d»\ne\n", "a\nwith w():\n    for b in c:\n        d\ne\n"),
    "loop with comments at its end": (
        "def f():\n    «for b in c:\n        d»\n        # e\n\n    # g\n    h\n",
        "def f():\n    with w():\n        for b in c:\n            d\n            # e\n\n    # g\n    h\n",
    ),
    "loop with else": (
        "«for b in c:\n    d\nelse:\n    e»\n",
        "with w():\n    for b in c:\n        d\n    else:\n        e\n",
    ),
    "one-row loop": ("«for b in c: d»\n", "with w():\n    for b in c: d\n"),
    "loop with text in triple quotes": (
        '«for b in c:\n    d = """\n  e\n"""»\n',
        'with w():\n    for b in c:\n        d = """\n  e\n"""\n',
    ),
    "asynchronous": (
        "async def f():\n    «async for b in c:\n        d»\n",
        "async def f():\n    with w():\n        async for b in c:\n            d\n",
    ),
    "only the header is named": ("«for b in c»:\n    d\n", "with w():\n    for b in c:\n        d\n"),
    "tabs, CRLF": ("«for b in c:\r\n\td»\r\n", "with w():\r\n\tfor b in c:\r\n\t\td\r\n"),
}


@pytest.mark.parametrize("header", ["with w()", "with w():", "w()"])
@pytest.mark.parametrize(("before", "after"), BLOCK.values(), ids=BLOCK)
def test_guard_block(before: str, after: str, header: str) -> None:
    assert fixed(before, lambda site: GuardBlock(site, header)) == after


def test_guard_block_refuses_an_elif() -> None:
    with pytest.raises(CannotFix):
        fixed("if a:\n    b\n«elif c:\n    d»\n", lambda site: GuardBlock(site, "with w()"))


INSERT = {
    "before a row": ("if a:\n    «f()»\n", "if a:\n    s()\n    f()\n"),
    "before an assignment": ("x = «f()»\n", "s()\nx = f()\n"),
    "below its comment": ("# why\nx = «f()»\n", "# why\ns()\nx = f()\n"),
    "before the first of a row": ("«f()»; g()\n", "s()\nf(); g()\n"),
    "before another of a row": ("g(); «f()»\n", "g(); s(); f()\n"),
    "in a one-row block": ("if a: «f()»\n", "if a: s(); f()\n"),
    "before a test": ("if «f()»:\n    a\n", "s()\nif f():\n    a\n"),
    "before a loop over it": ("for a in «f()»:\n    b\n", "s()\nfor a in f():\n    b\n"),
    "before a decorated function": ("@a\ndef b(c=«f()»): pass\n", "s()\n@a\ndef b(c=f()): pass\n"),
    "tabs, CRLF": ("if a:\r\n\t«f()»\r\n", "if a:\r\n\ts()\r\n\tf()\r\n"),
    "before a loop": ("a\n«for b in c:\n    d»\n", "a\ns()\nfor b in c:\n    d\n"),
    "without a final line end": ("«f()»", "s()\nf()"),
}


@pytest.mark.parametrize(("before", "after"), INSERT.values(), ids=INSERT)
def test_insert_before(before: str, after: str) -> None:
    assert fixed(before, lambda site: InsertBefore(site, "s()")) == after


CANNOT_INSERT = {
    "elif": "if a:\n    b\nelif «f()»:\n    c\n",
    "while": "while «f()»:\n    a\n",
    "handler": "try:\n    a\nexcept «f()»:\n    b\n",
    "case": "match a:\n    case b if «f()»:\n        c\n",
    "module docstring": "«'Doc.'»\n",
    "function docstring": "def f():\n    «'Doc.'»\n",
    "future import": "«from __future__ import annotations»\n",
}


@pytest.mark.parametrize("source", CANNOT_INSERT.values(), ids=CANNOT_INSERT)
def test_insert_before_refuses(source: str) -> None:
    with pytest.raises(CannotFix):
        fixed(source, lambda site: InsertBefore(site, "s()"))


def test_inserted_block_takes_the_indentation_of_the_file() -> None:
    block = "if s:\n    t()\n\n    u()"
    assert fixed("if a:\n\t«f()»\n", lambda site: InsertBefore(site, block)) == (
        "if a:\n\tif s:\n\t\tt()\n\n\t\tu()\n\tf()\n"
    )
    with pytest.raises(CannotFix, match="rows of its own"):
        fixed("if a: «f()»\n", lambda site: InsertBefore(site, block))


LOOP = {
    "for": ("«for a in b:  # why\n    # c\n    d»\n", "for a in b:  # why\n    s()\n    # c\n    d\n"),
    "while": ("«while a:\n\tb»\n", "while a:\n\ts()\n\tb\n"),
    "one row": ("«for a in b: c»\n", "for a in b: s(); c\n"),
    "only the header is named": ("«for a in b»:\n  c\n", "for a in b:\n  s()\n  c\n"),
    "blank row first": ("«for a in b:\n\n    c»\n", "for a in b:\n    s()\n\n    c\n"),
    "decorated function first": (
        "«for a in b:\n    @c\n    def d(): e»\n",
        "for a in b:\n    s()\n    @c\n    def d(): e\n",
    ),
    "CRLF": ("«for a in b:\r\n  c»\r\n", "for a in b:\r\n  s()\r\n  c\r\n"),
}


@pytest.mark.parametrize(("before", "after"), LOOP.values(), ids=LOOP)
def test_insert_at_start_of_loop(before: str, after: str) -> None:
    assert fixed(before, lambda site: InsertAtStartOfLoop(site, "s()")) == after


def test_insert_at_start_of_loop_refuses_what_is_no_loop() -> None:
    with pytest.raises(CannotFix):
        fixed("«if a:\n    b»\n", lambda site: InsertAtStartOfLoop(site, "s()"))


DECORATE = {
    "function": ("def f():\n    «a»\n", "@d()\ndef f():\n    a\n"),
    "method": ("class C:\n    def f(self):\n        «a»\n", "class C:\n    @d()\n    def f(self):\n        a\n"),
    "inside of other decorators": (
        "class C:\n    @staticmethod\n    # why\n    def f():\n        «a»\n",
        "class C:\n    @staticmethod\n    # why\n    @d()\n    def f():\n        a\n",
    ),
    "innermost": ("def f():\n    def g():\n        «a»\n", "def f():\n    @d()\n    def g():\n        a\n"),
    "the function itself": ("«async def f():\n    a»\n", "@d()\nasync def f():\n    a\n"),
    "decorated so already": ("@d()\ndef f():\n    «a»\n", "@d()\ndef f():\n    a\n"),
    "CRLF": ("def f():\r\n    «a»\r\n", "@d()\r\ndef f():\r\n    a\r\n"),
}


@pytest.mark.parametrize(("before", "after"), DECORATE.values(), ids=DECORATE)
def test_decorate_function(before: str, after: str) -> None:
    assert fixed(before, lambda site: DecorateFunction(site, "@d()")) == after


def test_decorate_function_refuses_module_level_code() -> None:
    with pytest.raises(CannotFix):
        fixed("«a»\n", lambda site: DecorateFunction(site, "d"))


TEXT = {
    "comment at the end of a row": ("a  «# b»\nc\n", "a\nc\n"),
    "comment on its own row": ("a\n    «# b»\nc\n", "a\nc\n"),
    "part of a comment": ("a  # b «c» d\n", "a  # b  d\n"),
    "end of a comment": ("a  # b «# c»\n", "a  # b\n"),
    "comment between statements": ("a\n\n«# b»\n\nc\n", "a\n\n\nc\n"),
    "first row": ("«# a»\nb\n", "b\n"),
    "last row": ("a\n«# b»", "a\n"),
    "comment in a call": ("f(\n    a,  «# b»\n)\n", "f(\n    a,\n)\n"),
    "CRLF": ("a  «# b»\r\nc\r\n", "a\r\nc\r\n"),
    "before another comment on its row": ("a  «# b »# c\n", "a  # c\n"),
    "file of comments": ("# a\n«# b»\n", "# a\n"),
}


@pytest.mark.parametrize(("before", "after"), TEXT.values(), ids=TEXT)
def test_remove_text(before: str, after: str) -> None:
    assert fixed(before, RemoveText) == after


@pytest.mark.parametrize("source", ["«a»\n", "a  «#» b\n", "'# «b»'\n", "«a  # b»\n", '"""\n«# a»\n"""\n'])
def test_remove_text_touches_comments_only(source: str) -> None:
    with pytest.raises(CannotFix):
        fixed(source, RemoveText)


PAGES = {
    "argument on the row": ("def f():\n\f    «g(a)»\n    b\n", "argument", "def f():\n\f    g(a, k=1)\n    b\n"),
    "argument below": (
        "def f():\n    a\n  \f    b\n    «g(a)»\n",
        "argument",
        "def f():\n    a\n  \f    b\n    g(a, k=1)\n",
    ),
    "row of its own is guarded": (
        "def f():\n    a\n\f    «g(a)»\n    b\n",
        "guard",
        "def f():\n    a\n\f    if c:\n        g(a)\n    b\n",
    ),
    "row within what is guarded": (
        "«for a in b:\n    d\n\f    e»\nf\n",
        "guard",
        "if c:\n    for a in b:\n        d\n\f        e\nf\n",
    ),
    "row of a string within what is guarded": (
        "«for a in b:\n    d = '''\n\f  e'''»\n",
        "guard",
        "if c:\n    for a in b:\n        d = '''\n\f  e'''\n",
    ),
    "top level": ("a\n\f«g(a)»\nb\n", "guard", "a\n\fif c:\n    g(a)\nb\n"),
    "row is removed": ("if a:\n    b\n\f    «g(a)»\n    c\n", "remove", "if a:\n    b\n\f    c\n"),
    "row before which one is inserted": ("\f«g(a)»\nb\n", "insert", "\fs()\ng(a)\nb\n"),
    "blank row": ("def f():\n    a\n\f\n    «g(a)»\n", "argument", "def f():\n    a\n\f\n    g(a, k=1)\n"),
}
ON_PAGES: dict[str, Callable[[Site], Recipe]] = {
    "argument": lambda site: SetArgument(site, "k", "1"),
    "guard": lambda site: GuardStatement(site, "c"),
    "remove": RemoveStatement,
    "insert": lambda site: InsertBefore(site, "s()"),
}


@pytest.mark.parametrize(("before", "recipe", "after"), PAGES.values(), ids=PAGES)
def test_a_form_feed_before_code_stays_where_the_row_begins(before: str, recipe: str, after: str) -> None:
    assert fixed(before, ON_PAGES[recipe]) == after


def test_recipes_combine_in_one_fix() -> None:
    text, [call] = marked("for a in b:\n    «print(\n        a\n    )»\n")
    fix = fix_of(
        GuardStatement(call, "c"),
        SetArgument(call, "flush", "False"),
        InsertBefore(call, "s()"),
        GuardStatement(call, "d"),
    )
    assert apply_edits(text, realize(fix, text)) == (
        "for a in b:\n    if c:\n        s()\n        if d:\n            print(\n                a,\n"
        "                flush=False\n            )\n"
    )


BLANK_ROWS = {
    "between two others": ("a\n\n«b()»\n\nc\n", "a\n\nc\n"),
    "before a function": ("a\n\n«b()»\n\n\ndef f(): pass\n", "a\n\n\ndef f(): pass\n"),
    "before only": ("a\n\n«b()»\nc\n", "a\n\nc\n"),
    "after only": ("a\n«b()»\n\nc\n", "a\n\nc\n"),
    "in a function": ("def f():\n    a\n\n    «b()»\n\n    c\n", "def f():\n    a\n\n    c\n"),
    "at the end": ("a\n\n«b()»\n", "a\n\n"),
}


@pytest.mark.parametrize(("before", "after"), BLANK_ROWS.values(), ids=BLANK_ROWS)
def test_a_removed_statement_leaves_no_hole(before: str, after: str) -> None:
    assert fixed(before, RemoveStatement) == after
