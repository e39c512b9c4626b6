"""Arguments are set, removed and renamed in the style of the call they stand in."""

from __future__ import annotations

import pytest
from marks import fix_of, fixed, marked

from trainlint.fixes.edits import CannotFix
from trainlint.fixes.realize import realize
from trainlint.fixes.recipe import RemoveArgument, RewriteCall, SetArgument

SET = {
    "into an empty list": ("«f()»\n", "f(k=1)\n"),
    "into an empty list with space": ("«f( )»\n", "f(k=1)\n"),
    "into an empty list over two rows": ("«f(\n)»\n", "f(k=1)\n"),
    "into an empty list with a comment": ("«f(  # none\n)»\n", "f(k=1  # none\n)\n"),
    "after the last": ("«f(a, b=2)»\n", "f(a, b=2, k=1)\n"),
    "after a trailing comma": ("«f(a,)»\n", "f(a, k=1,)\n"),
    "on its own row": ("x = «f(\n    a,\n    b\n)»\n", "x = f(\n    a,\n    b,\n    k=1\n)\n"),
    "on its own row after a comma": ("«f(\n    a,\n    b,\n)»\n", "f(\n    a,\n    b,\n    k=1,\n)\n"),
    "after a comment on the last": (
        "«f(\n    a,  # one\n    b  # two\n)»\n",
        "f(\n    a,  # one\n    b,  # two\n    k=1\n)\n",
    ),
    "after a comma and a comment": (
        "«f(\n    a,  # one\n    b,  # two\n)»\n",
        "f(\n    a,  # one\n    b,  # two\n    k=1,\n)\n",
    ),
    "below a comment of its own": (
        "«f(\n    a,\n    # b is off\n)»\n",
        "f(\n    a,\n    k=1,\n    # b is off\n)\n",
    ),
    "on the row of several": ("«f(\n    a, b\n)»\n", "f(\n    a, b, k=1\n)\n"),
    "aligned with the bracket": ("«f(a,\n  b)»\n", "f(a,\n  b,\n  k=1)\n"),
    "after a value of several rows": ("«f(a, [\n    1,\n])»\n", "f(a, [\n    1,\n], k=1)\n"),
    "after a starred argument": ("«f(*args)»\n", "f(*args, k=1)\n"),
    "before a mapping": ("«f(a, **options)»\n", "f(a, k=1, **options)\n"),
    "before a mapping on its own row": (
        "«f(\n    a,\n    **options,\n)»\n",
        "f(\n    a,\n    k=1,\n    **options,\n)\n",
    ),
    "before the first of two mappings": ("«f(**a, **b)»\n", "f(k=1, **a, **b)\n"),
    "after a generator": ("«f(x for x in y)»\n", "f((x for x in y), k=1)\n"),
    "in place of a keyword's value": ("«f(a, k=0, b=2)»\n", "f(a, k=1, b=2)\n"),
    "in place of a value in parentheses": ("«f(a, k=(0 +\n  1))»\n", "f(a, k=1)\n"),
    "in place of a keyword with spaces": ("«f(a, k = 0 )»\n", "f(a, k = 1 )\n"),
    "no change": ("«f(a, k=1)»\n", "f(a, k=1)\n"),
    "CRLF": ("«f(\r\n    a,\r\n    b\r\n)»\r\n", "f(\r\n    a,\r\n    b,\r\n    k=1\r\n)\r\n"),
    "tabs": ("if x:\n\t«f(\n\t\ta,\n\t)»\n", "if x:\n\tf(\n\t\ta,\n\t\tk=1,\n\t)\n"),
    "in a nested call": ("g(«f(a)», b)\n", "g(f(a, k=1), b)\n"),
    "of a call that is called": ("«f(a)(b)»\n", "f(a)(b, k=1)\n"),
    "behind characters of several bytes": ("é = 'ü😀'; «f(a)»\n", "é = 'ü😀'; f(a, k=1)\n"),
    "in an f-string": ("f'{«f(a)»}'\n", "f'{f(a, k=1)}'\n"),
    "without a final line end": ("«f(a)»", "f(a, k=1)"),
    "in a decorator": ("@«f(a)»\ndef g(): pass\n", "@f(a, k=1)\ndef g(): pass\n"),
    "with a form feed above": ("\x0cimport a\n«f(a)»\n", "\x0cimport a\nf(a, k=1)\n"),
    "in parentheses of its own": ("x = («f(a)»)\n", "x = (f(a, k=1))\n"),
}


@pytest.mark.parametrize(("before", "after"), SET.values(), ids=SET)
def test_set_argument(before: str, after: str) -> None:
    assert fixed(before, lambda site: SetArgument(site, "k", "1")) == after


SET_AT_POSITION = {
    "positional": ("«f(a, b)»\n", "f(a, 1)\n"),
    "by keyword": ("«f(a, k=2)»\n", "f(a, k=1)\n"),
    "absent": ("«f(a)»\n", "f(a, k=1)\n"),
    "star behind it": ("«f(a, b, *c)»\n", "f(a, 1, *c)\n"),
}


@pytest.mark.parametrize(("before", "after"), SET_AT_POSITION.values(), ids=SET_AT_POSITION)
def test_set_argument_that_may_be_positional(before: str, after: str) -> None:
    assert fixed(before, lambda site: SetArgument(site, "k", "1", position=1)) == after


def test_set_several_arguments_of_an_empty_call() -> None:
    after = fixed("«f()»\n", lambda site: SetArgument(site, "a", "1"), lambda site: SetArgument(site, "b", "(2, 3)"))
    assert after == "f(a=1, b=(2, 3))\n"


@pytest.mark.parametrize(
    ("value", "written"),
    [("1, 2", "(1, 2)"), ("a := 1", "(a := 1)"), ("a if b else c", "a if b else c"), ("(1, 2)", "(1, 2)")],
)
def test_value_gets_parentheses_where_it_would_read_otherwise(value: str, written: str) -> None:
    assert fixed("«f()»\n", lambda site: SetArgument(site, "k", value)) == f"f(k={written})\n"


REMOVE = {
    "the only one": ("«f(k=1)»\n", "f()\n"),
    "the only one over rows": ("«f(\n    k=1,\n)»\n", "f()\n"),
    "the only one with a comment": ("«f(\n    # why\n    k=1,\n)»\n", "f(\n    # why\n)\n"),
    "first": ("«f(k=1, a=2)»\n", "f(a=2)\n"),
    "middle": ("«f(a, k=1, b=2)»\n", "f(a, b=2)\n"),
    "last": ("«f(a, k=1)»\n", "f(a)\n"),
    "last with comma": ("«f(a, k=1,)»\n", "f(a,)\n"),
    "own row": ("«f(\n    a,\n    k=1,  # why\n    b=2,\n)»\n", "f(\n    a,\n    b=2,\n)\n"),
    "last own row": ("«f(\n    a,\n    k=1\n)»\n", "f(\n    a,\n)\n"),
    "below a comment of its neighbour": (
        "«f(a,  # about a\n  k=1,\n  b=2)»\n",
        "f(a,  # about a\n  b=2)\n",
    ),
    "last beside the bracket, below a comment": ("«f(a,  # about a\n  k=1)»\n", "f(a,  # about a\n  )\n"),
    "first of several rows": ("«f(k=1,  # about k\n  a=2)»\n", "f(  # about k\n  a=2)\n"),
    "absent": ("«f(a)»\n", "f(a)\n"),
    "CRLF": ("«f(\r\n    a,\r\n    k=1,\r\n)»\r\n", "f(\r\n    a,\r\n)\r\n"),
}


@pytest.mark.parametrize(("before", "after"), REMOVE.values(), ids=REMOVE)
def test_remove_argument(before: str, after: str) -> None:
    assert fixed(before, lambda site: RemoveArgument(site, "k")) == after


def test_remove_positional_argument_only_if_none_follows() -> None:
    assert fixed("«f(a, b, c=1)»\n", lambda site: RemoveArgument(site, "k", 1)) == "f(a, c=1)\n"
    with pytest.raises(CannotFix, match="positional arguments follow"):
        fixed("«f(a, b, c)»\n", lambda site: RemoveArgument(site, "k", 1))


@pytest.mark.parametrize("source", ["«f(*a, b)»\n", "«f(a, *b)»\n", "«f(*a)»\n"])
def test_position_behind_a_starred_argument_is_unknown(source: str) -> None:
    with pytest.raises(CannotFix, match="starred"):
        fixed(source, lambda site: SetArgument(site, "k", "1", position=1))


REWRITE = {
    "without arguments": ("«old.f»()\n", "new.g('cuda', last=0)\n"),
    "positional becomes keyword": ("«old.f»(True, x)\n", "new.g('cuda', enabled=True, dtype=x, last=0)\n"),
    "keywords stay": ("«old.f»(dtype=x)\n", "new.g('cuda', dtype=x, last=0)\n"),
    "one per row": (
        "«old.f»(\n    True,  # on\n    cache=no,\n)\n",
        "new.g(\n    'cuda',\n    enabled=True,  # on\n    cache=no,\n    last=0,\n)\n",
    ),
    "generator": ("«f»(x for x in y)\n", "new.g('cuda', enabled=(x for x in y), last=0)\n"),
    "assignment expression": ("«f»(x := 1)\n", "new.g('cuda', enabled=(x := 1), last=0)\n"),
}


@pytest.mark.parametrize(("before", "after"), REWRITE.values(), ids=REWRITE)
def test_rewrite_call(before: str, after: str) -> None:
    parameters = ("enabled", "dtype")
    recipe = fixed(before, lambda site: RewriteCall(site, "new.g", parameters, ("'cuda'",), (("last", "0"),)))
    assert recipe == after


REWRITE_WITHOUT_TRAILING = {
    "mapping": ("«f»(**a)\n", "g('cuda', **a)\n"),
    "mapping after others": ("«f»(1, q=2, **a)\n", "g('cuda', p=1, q=2, **a)\n"),
}


@pytest.mark.parametrize(("before", "after"), REWRITE_WITHOUT_TRAILING.values(), ids=REWRITE_WITHOUT_TRAILING)
def test_rewrite_call_passes_a_mapping_on(before: str, after: str) -> None:
    assert fixed(before, lambda site: RewriteCall(site, "g", ("p",), ("'cuda'",))) == after


CANNOT_REWRITE = {
    "star": "«f»(*a)\n",
    "mapping": "«f»(**a)\n",
    "too many": "«f»(1, 2)\n",
    "passed twice": "«f»(1, p=2)\n",
    "present already": "«f»(last=1)\n",
    "not called": "«f»\n",
}


@pytest.mark.parametrize("source", CANNOT_REWRITE.values(), ids=CANNOT_REWRITE)
def test_rewrite_call_refuses_what_cannot_be_named(source: str) -> None:
    with pytest.raises(CannotFix):
        fixed(source, lambda site: RewriteCall(site, "g", ("p",), (), (("last", "0"),)))


def test_refuses_when_the_call_is_gone() -> None:
    _, [site] = marked("x = «f(a)»\n")
    for text in ("x = g(a, b)\n", "x = (f(a))\n", "\n", "x =\n", ""):
        with pytest.raises(CannotFix):
            realize(fix_of(SetArgument(site, "k", "1")), text)


def test_refuses_quotes_inside_an_f_string() -> None:
    with pytest.raises(CannotFix, match="f-string"):
        fixed("f'{«f(a)»}'\n", lambda site: SetArgument(site, "k", "'v'"))


def test_refuses_a_value_that_does_not_parse() -> None:
    with pytest.raises(CannotFix):
        fixed("«f(a)»\n", lambda site: SetArgument(site, "k", "1)("))


def test_repairs_one_statement_of_a_file_whose_tree_is_needed_whole() -> None:
    source = "if x:\n    pass\n\nelse:\n    «f(a)»\n"
    assert fixed(source, lambda site: SetArgument(site, "k", "1")) == "if x:\n    pass\n\nelse:\n    f(a, k=1)\n"


LONG = "loader = DataLoader(" + "a" * 40 + ", batch_size=" + "b" * 20
WRAPPED = "loader = DataLoader(\n    " + "a" * 40 + ",\n    batch_size=" + "b" * 20
ROWS = {
    "gets rows for its arguments": (f"«{LONG})»\n", f"{WRAPPED},\n    pin_memory=True,\n)\n"),
    "keeps the comma at its end": (f"«{LONG},)»\n", f"{WRAPPED},\n    pin_memory=True,\n)\n"),
    "stays where other rows are longer": (f"«{LONG})»\n#{'-' * 118}\n", f"{LONG}, pin_memory=True)\n#{'-' * 118}\n"),
    "stays within a call": (f"f(«{LONG[9:]})»)\n", f"f({LONG[9:]}, pin_memory=True))\n"),
}


@pytest.mark.parametrize(("before", "after"), ROWS.values(), ids=ROWS)
def test_a_call_that_grows_too_long(before: str, after: str) -> None:
    marks = before.replace("«loader = ", "loader = «")
    assert fixed(marks, lambda site: SetArgument(site, "pin_memory", "True")) == after
