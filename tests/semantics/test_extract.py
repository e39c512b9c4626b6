"""Extraction: what is kept of a file, where it says things stand, and what it refuses."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import libcst as cst
import pytest

import trainlint
from trainlint.semantics import code
from trainlint.semantics import extract as extraction
from trainlint.semantics.extract import WATCHED, SourceError, extract
from trainlint.semantics.facts import ImportedModule, ModuleFacts
from trainlint.semantics.lowering import Lowering

REAL_FILES = (
    sorted(Path(trainlint.__file__).parent.rglob("*.py")) + sorted(Path(cst.__file__).parent.rglob("*.py"))[::40]
)

SHAPES = [
    "x = a,\n",
    "x = ((a, b)), (c)\n",
    "f(x for x in y)\n",
    "f( x for x in (y) )\n",
    "f((a for a in b), c)\n",
    "a[b,]\n",
    "a[b, c:d, ::2, (e, f), : ]\n",
    "a[*b]\n",
    "with (a as b, c as d,):\n  pass\n",
    "with (a, b):\n  pass\n",
    "async def f():\n  async with a as b, c: pass\n  async for x in y, z : await w\n",
    "x = 'a' f'{b}' 'c' f'{d!r:>{w}}'\n",
    "x = f'''{\n a +\n b}'''\n",
    'x = f"{a}é{b.c(d)[0]:>{w}.{p}f}" "q" rf"\\d{e!r}{f=}" f"{{{a}}}"\n',
    'f(\n  f"{a, *b} {(c, d)}",\n  f"{f\'{a}\'}{(yield)}{(x for x in y)} { {1: a} }"\n)\n',
    'if a:\n  assert b, (\n    f"é{c}"\n    f"{(d, e)}{g(x for x in y)}"\n  )\n',
    "x = not (a) in b\n",
    "x = (a and b) and c or d and e\n",
    "del a, (b, c)\n",
    "del (a, b)\n",
    "class A(B, *c, metaclass=M, **k): x: int = 1; y = 2\n",
    "@(\n a)\ndef f(a, /, b: int = 1, *args: int, c=2, **kw) -> (x): return\n",
    "def f(\n) : # c:\n  pass\n",
    "lambda *, a=1: (yield)\n",
    "try:\n pass\nexcept (A, B) as e: pass\nelse: x\nfinally: y\n",
    "try:\n pass\nexcept* C: pass\n",
    "match a:\n  case [x, *r] if x: pass\n  case {'k': v, **kw}: pass\n  case A(b=c) | D(): pass\n",
    "from . import (a as b, c)\nfrom ..x.y import *\nimport a.b as c, d\n",
    "x = {**a, 'b': c, **d}; y = [*a, b]; z = {c}\n",
    "x = {i: j for i, j in k if l if m for n in o}\n",
    'é = "ü" + é; b = é.ü(é)\n',
    "x = '''a\r\nb''' + c\r\ny = d\r\n",
    "x\r\ry\n",
    "if a:\n\x0c\n  x = 1\n",
    "if a:\n\tb\nelif c:\n\td\nelse:\n\te\n",
    "x = (\n  yield\n)\n",
    "x = \\\n  a",
    "@d.e(1)\n@f\nclass A(\n B, # :\n ):\n  @g\n  def h(self): pass\n\n  class C:\n    def i(self): pass\n",
]


def statement(text: str) -> Any:
    return extract(text).unit(0)


def expression(text: str) -> Any:
    return statement(f"{text}\n").value


def without_places(node: Any) -> Any:
    """The node as its fields, without places and tags."""
    if not isinstance(node, tuple):
        return node
    names = getattr(node, "_fields", None)
    if names is None:
        return [without_places(item) for item in node]
    shown = [without_places(getattr(node, name)) for name in names if name not in ("at", "tag")]
    return (type(node).__name__, *shown)


def nodes(node: Any) -> Iterator[Any]:
    """Every node of lowered code that has a place; members of classes, which count rows anew, are left out."""
    if isinstance(node, tuple) and not isinstance(node, code.Member):
        if hasattr(node, "at"):
            yield node
        for item in node:
            yield from nodes(item)


def cut(text: str, base: int, at: code.Place) -> str:
    """The text at a place whose rows count from row `base`."""
    row, column, end_row, end_column = code.unpack(at)
    rows = text.replace("\r\n", "\n").replace("\r", "\n").encode().split(b"\n")[base - 1 + row : base + end_row]
    rows[-1] = rows[-1][:end_column]
    rows[0] = rows[0][column:]
    return b"\n".join(rows).decode()


def placed(text: str) -> Iterator[tuple[int, Any]]:
    """Every node of a file outside classes, with the row its place counts from."""
    facts = extract(text)
    for index, row in enumerate(facts.unit_rows):
        yield from ((row, node) for node in nodes(facts.unit(index)))
    for index, function in enumerate(facts.functions):
        yield from ((function.row, node) for node in nodes(facts.body(index)))


# ---------------------------------------------------------------------------------------------------------- places


def both_sources(text: str) -> tuple[ModuleFacts, ModuleFacts]:
    module = cst.parse_module(text)
    mirror = extraction.parse_ast(text)
    assert mirror is not None
    return Lowering(module, text.encode(), WATCHED).lower(mirror), Lowering(module, text.encode(), WATCHED).lower(None)


@pytest.mark.parametrize("text", SHAPES)
def test_printed_places_equal_those_of_ast(text: str) -> None:
    walked, printed = both_sources(text)
    assert walked == printed


@pytest.mark.parametrize("path", REAL_FILES, ids=lambda path: path.name)
def test_printed_places_equal_those_of_ast_on_real_files(path: Path) -> None:
    walked, printed = both_sources(path.read_text("utf-8"))
    assert walked == printed


@pytest.mark.parametrize("path", REAL_FILES[::3], ids=lambda path: path.name)
def test_a_place_cuts_the_node_out_of_the_text(path: Path) -> None:
    text = path.read_text("utf-8")
    for row, node in placed(text):
        source = cut(text, row, node.at)
        if isinstance(node, code.Name):
            assert source == node.id
        elif isinstance(node, code.Attribute):
            assert source.endswith(node.name)
        elif isinstance(node, code.Call):
            assert source.endswith(")")
        elif isinstance(node, code.Define):
            assert source.startswith(("def ", "async def ")) and source.endswith(":")
        elif isinstance(node, code.If | code.For | code.While | code.With):
            assert source.startswith(("if ", "elif ", "for ", "async for ", "while ", "with ", "async with ", "if("))
            assert source.endswith(":")


@pytest.mark.parametrize(
    ("text", "name", "place"),
    [
        ("\ufeffx = y\n", "y", (0, 4, 0, 5)),
        ("é = y\n", "y", (0, 5, 0, 6)),
        ("(a,\r\n y)\r\n", "y", (1, 1, 1, 2)),
        ("x = '''\x0b\x0c\x1c\u2028''', y", "y", (0, 18, 0, 19)),
        ("\x0cx = y", "y", (0, 5, 0, 6)),
        ("if a:\n\ty\n", "y", (1, 1, 1, 2)),
    ],
)
def test_rows_and_columns_are_those_of_python(text: str, name: str, place: tuple[int, int, int, int]) -> None:
    at = next(node.at for _, node in placed(text) if isinstance(node, code.Name) and node.id == name)
    assert code.unpack(at) == place


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("if (a): # b:\n  c\n", "if (a):"),
        ("for x in y : z\n", "for x in y :"),
        ("while a[b:c]:\n  d\n", "while a[b:c]:"),
        ("with a as b, (\n  c\n):\n  d\n", "with a as b, (\n  c\n):"),
        ("try :\n  a\nfinally:\n  b\n", "try :"),
        ("match a:\n  case 1: pass\n", "match a:"),
        ("@a\ndef f(b: int = {c: d}, /) -> e: f\n", "def f(b: int = {c: d}, /) -> e:"),
        ("async def f(): pass\n", "async def f():"),
        ("def f(\n  *, a, # b:\n): pass\n", "def f(\n  *, a, # b:\n):"),
        ("class A(B, c=d): pass\n", "class A(B, c=d):"),
        ("class A: pass\n", "class A:"),
    ],
)
def test_the_place_of_a_compound_statement_is_its_header(text: str, header: str) -> None:
    assert cut(text, extract(text).unit_rows[0], statement(text).at) == header


def test_a_statement_whose_shapes_disagree_is_placed_by_printing() -> None:
    """Python folds compatibility characters in names, libcst keeps them."""
    text = "a = 1\nﬁ = b\nc = d\n"
    assert [cut(text, row, node.at) for row, node in placed(text) if isinstance(node, code.Name)] == list("aﬁbcd")


# ----------------------------------------------------------------------------------------------------------- shape


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("None", ("Constant", None)),
        ("1_000", ("Constant", 1000)),
        ("0x10", ("Constant", 16)),
        (str(2**53), ("Opaque", "int")),
        ("9" * 5000, ("Opaque", "int")),
        ("1e3", ("Constant", 1000.0)),
        ("1j", ("Opaque", "complex")),
        ("b'a' b'b'", ("Opaque", "bytes")),
        ("...", ("Opaque", "ellipsis")),
        (r"'a\n' r'\n'", ("Constant", "a\n\\n")),
        (f"'{'a' * 300}'", ("Constant", "a" * 200)),
        ("f'a{b!r:{c}}{{'", ("Format", [("Name", "b"), ("Name", "c")])),
        ("a and b and c", ("Boolean", "and", [("Name", "a"), ("Name", "b"), ("Name", "c")])),
        ("a - b", ("Binary", "-", ("Name", "a"), ("Name", "b"))),
        ("not a", ("Unary", "not", ("Name", "a"))),
        ("a < b is not c", ("Compare", ("Name", "a"), ["<", "is not"], [("Name", "b"), ("Name", "c")])),
        ("a[b]", ("Subscript", ("Name", "a"), ("Name", "b"))),
        ("a[b:]", ("Subscript", ("Name", "a"), ("Slice", ("Name", "b"), None, None))),
        ("a[b,]", ("Subscript", ("Name", "a"), ("Sequence", "tuple", [("Name", "b")]))),
        (
            "f(a, *b, c=d, **e)",
            (
                "Call",
                ("Name", "f"),
                [
                    ("Argument", None, ("Name", "a"), ""),
                    ("Argument", None, ("Name", "b"), "*"),
                    ("Argument", "c", ("Name", "d"), ""),
                    ("Argument", None, ("Name", "e"), "**"),
                ],
            ),
        ),
        ("{a: b, **c}", ("Mapping", [("Name", "a"), None], [("Name", "b"), ("Name", "c")])),
        ("[*a]", ("Sequence", "list", [("Starred", ("Name", "a"))])),
        (
            "{a: b for a in c if d}",
            (
                "Comprehension",
                "dict",
                ("Name", "a"),
                ("Name", "b"),
                [("Clause", ("Name", "a"), ("Name", "c"), [("Name", "d")])],
            ),
        ),
    ],
)
def test_expressions(text: str, expected: object) -> None:
    assert without_places(expression(text)) == expected


def test_an_elif_is_an_if_alone_in_orelse() -> None:
    lowered = statement("if a: b\nelif c: d\nelse: e\n")
    assert [type(one) for one in lowered.orelse] == [code.If]
    assert without_places(lowered.orelse[0].orelse) == [("Evaluate", ("Name", "e"))]


def test_parameters_keep_their_kinds_and_defaults() -> None:
    define = statement("def f(a, /, b: int = 1, *c, d=2, e, **g): pass\n")
    assert [(one.name, one.kind, one.default is not None) for one in define.parameters] == [
        ("a", "positional", False),
        ("b", "positional", True),
        ("c", "*", False),
        ("d", "keyword", True),
        ("e", "keyword", False),
        ("g", "**", False),
    ]


def test_patterns_bind_names() -> None:
    match = statement(
        "match a:\n  case [x, *r] if x: pass\n  case {'k': v, **kw} | B(c=v, kw=kw): pass\n  case _: pass\n"
    )
    assert [case.names for case in match.cases] == [("x", "r"), ("kw", "v", "v", "kw"), ()]


# ------------------------------------------------------------------------------------------------ units and summaries

MODULE = """import torch, os.path as p


@decorate
def train(model):
    model.train()
    def closure():
        loss.backward()
        yield loss
    from .data import (make, load as read)
    print(closure)


class Net(Module):
    size = 1; wide = True

    @property
    def forward(self):
        return self.cuda(device=0)

    class Inner:
        def step(self): pass
"""


def test_units_bodies_and_their_rows() -> None:
    facts = extract(MODULE)
    assert facts.unit_rows == (1, 4, 14)
    assert [(one.qualname, one.row) for one in facts.functions] == [
        ("train", 4),
        ("train.closure", 4),
        ("Net.forward", 17),
        ("Net.Inner.step", 22),
    ]
    net = facts.unit(2)
    assert isinstance(net, code.DefineClass)
    assert [member.row for member in net.members] == [1, 1, 3, 7]
    inner = net.members[3].statement
    assert isinstance(inner, code.DefineClass) and [member.row for member in inner.members] == [1]
    called = facts.body(2)[0]
    assert cut(MODULE, 17, called.at) == "return self.cuda(device=0)"


def test_mentions_belong_to_the_innermost_function() -> None:
    facts = extract(MODULE)
    assert [sorted(one.mentions) for one in facts.functions] == [
        ["print", "train"],
        ["backward"],
        ["cuda", "device"],
        [],
    ]
    assert facts.mentions == {"Module"}


def test_imports_are_found_anywhere() -> None:
    assert extract(MODULE).imports == (
        ImportedModule("torch", 0, ()),
        ImportedModule("os.path", 0, ()),
        ImportedModule("data", 1, ("make", "load")),
    )


def test_a_generator_yields_itself() -> None:
    facts = extract("def f():\n  def g(): yield\n  h = lambda: (yield)\ndef k():\n  x = yield from f()\n")
    assert [facts.unit(index).is_generator for index in (0, 1)] == [False, True]  # type: ignore[union-attr]


@pytest.mark.parametrize("text", [MODULE, "", "pass", "# only a comment", "x = '\\n'\n"])
def test_facts_survive_a_round_trip_and_equal_those_of_equal_text(text: str) -> None:
    facts = extract(text)
    assert ModuleFacts.load(facts.dump()) == facts == extract(text)


# ------------------------------------------------------------------------------------------------------- robustness


@pytest.mark.parametrize(
    ("text", "message", "row", "column"),
    [
        ("x = (\n", "'(' was never closed", 1, 5),
        ("é = 1 +\n", "invalid syntax", 1, 8),
        ("if a:\n    b\n  c\n", "unindent does not match", 3, 4),
        ("a\0b", "null bytes", 1, 2),
        ("\nx = " + "(" * 2000 + ")" * 2000, "too many nested parentheses", 2, 205),
        ("if a: b\n" + "elif a: b\n" * 20_000, "elif branches", 6002, 1),
        ("".join(" " * depth + "if a:\n" for depth in range(120)) + " " * 120 + "b", "too many", 101, 1),
    ],
    ids=range(7),
)
def test_a_text_that_cannot_be_analysed_is_refused_with_its_place(
    text: str, message: str, row: int, column: int
) -> None:
    with pytest.raises(SourceError, match=message.replace("(", r"\(")) as caught:
        extract(text)
    assert (caught.value.row, caught.value.column) == (row, column)


@pytest.mark.parametrize(
    "text",
    [
        "x = " + " + ".join(["a"] * 1000),
        "x = " + " and ".join(["a"] * 1000),
        "x = " + "(" * 150 + ")" * 150,
        "x = " + "f(" * 140 + ")" * 140,
        "x = " + "not " * 1000 + "a",
        "x = a" + ".b()" * 400,
        "x = " + " < ".join(["a"] * 5000),
        "x = [" + "1, " * 20_000 + "]",
        "x = {" + "'a': -1, " * 5_000 + "}",
        "if a: b\n" + "elif a: b\n" * 5000,
        "x = '''" + "a\n" * 100_000 + "'''",
        "".join(" " * depth + "if a:\n" for depth in range(95)) + " " * 95 + "b",
        "".join(" " * depth + "def f():\n" for depth in range(95)) + " " * 95 + "b",
    ],
    ids=range(13),
)
def test_long_and_deep_code_is_lowered_and_can_be_read_back(text: str) -> None:
    facts = ModuleFacts.load(extract(text).dump())
    for index in range(len(facts.unit_rows)):
        facts.unit(index)
    for index in range(len(facts.functions)):
        facts.body(index)


def test_tables_of_constants_are_opaque() -> None:
    assert without_places(expression("[" + "1, " * 1001 + "]")) == ("Opaque", "list")
    assert isinstance(expression("[" + "a, " * 1001 + "]"), code.Sequence)


def test_every_branch_of_a_long_elif_chain_is_kept() -> None:
    lowered = statement("if a0: b\n" + "".join(f"elif a{n}: b\n" for n in range(1, 200)))
    names = {node.id for node in nodes(lowered) if isinstance(node, code.Name)}
    assert names == {"b", *(f"a{n}" for n in range(200))}


def test_the_garbage_collector_is_left_as_it_was() -> None:
    extract("x = 1")
    assert gc.isenabled()
    gc.disable()
    try:
        extract("x = 1")
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_nodes_made_by_hand_are_checked_after_a_parse() -> None:
    for text in ("x = 1\n", "x = (\n"):
        with suppress(SourceError):
            extract(text)
        with pytest.raises(cst.CSTValidationError):
            cst.Name("")
