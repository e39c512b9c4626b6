"""Recipes in places that are easily got wrong: they give the right text there, or none."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst
import pytest
from marks import fix_of, fixed, marked

from trainlint.fixes.edits import CannotFix, apply_edits
from trainlint.fixes.realize import realize
from trainlint.fixes.recipe import (
    AccumulateOnDevice,
    DecorateFunction,
    EnsureImport,
    GuardBlock,
    GuardStatement,
    InsertAtStartOfLoop,
    InsertBefore,
    Recipe,
    RemoveArgument,
    RemoveStatement,
    ReplaceExpression,
    RewriteCall,
    SetArgument,
)
from trainlint.semantics.context import Site

Make = Callable[[Site], Recipe]
RECIPES: dict[str, Make] = {
    "set": lambda site: SetArgument(site, "k", "1"),
    "set a text": lambda site: SetArgument(site, "k", "'v'"),
    "drop": lambda site: RemoveArgument(site, "k"),
    "replace": lambda site: ReplaceExpression(site, "{receiver}.d()"),
    "rewrite": lambda site: RewriteCall(site, "n.g", ("p",), ("0",)),
    "remove": RemoveStatement,
    "guard": lambda site: GuardStatement(site, "c"),
    "block": lambda site: GuardBlock(site, "w()"),
    "insert": lambda site: InsertBefore(site, "s()"),
    "loop": lambda site: InsertAtStartOfLoop(site, "s()"),
    "decorate": lambda site: DecorateFunction(site, "d()"),
    "import": lambda site: EnsureImport(site, "torch"),
    "import os": lambda site: EnsureImport(site, "os"),
}

GIVEN = [
    # f-strings
    ("set", "f'{«a.b(c)»!r:>{w}}'\n", "f'{a.b(c, k=1)!r:>{w}}'\n"),
    ("set", "f'{f\"{«a.b(c)»}\"}'\n", "f'{f\"{a.b(c, k=1)}\"}'\n"),
    ("set", "f'{f'{«a.b('x')»}'}'\n", "f'{f'{a.b('x', k=1)}'}'\n"),
    ("replace", "f'{x:{«a.b(c)»}}'\n", "f'{x:{a.d()}}'\n"),
    ("replace", "f'''{\n  «a.b(c)»\n}'''\n", "f'''{\n  a.d()\n}'''\n"),
    ("replace", "rf'\\d{«a.b(c)»}' 'x'\n", "rf'\\d{a.d()}' 'x'\n"),
    # decorators, type parameters, match
    ("set", "@x\n@«a.b(c)»\ndef f(): pass\n", "@x\n@a.b(c, k=1)\ndef f(): pass\n"),
    ("replace", "@(lambda f: «a.b(f)»)\nclass C: pass\n", "@(lambda f: a.d())\nclass C: pass\n"),
    ("insert", "@«a.b(c)»\n@x\nclass C: pass\n", "s()\n@a.b(c)\n@x\nclass C: pass\n"),
    ("decorate", "@a\n# why\n\n@b\ndef f[T](): «c»\n", "@a\n# why\n\n@b\n@d()\ndef f[T](): c\n"),
    ("decorate", "if x: pass\nelse:\n\tasync def f(): «c»\n", "if x: pass\nelse:\n\t@d()\n\tasync def f(): c\n"),
    ("decorate", "def f():\n    g = lambda: «a»\n", "@d()\ndef f():\n    g = lambda: a\n"),
    ("set", "def f[T: int](x: T = «a.b(c)»): pass\n", "def f[T: int](x: T = a.b(c, k=1)): pass\n"),
    ("set", "type X[T] = «a.b(c)»\n", "type X[T] = a.b(c, k=1)\n"),
    ("set", "match x:\n    case C(k=1) if «a.b(c)»: pass\n", "match x:\n    case C(k=1) if a.b(c, k=1): pass\n"),
    (
        "guard",
        "match x:\n    case 1: «f()»\n    case _: y\n",
        "match x:\n    case 1:\n        if c:\n            f()\n    case _: y\n",
    ),
    ("remove", "match x:\n    case 1:\n        «f()»\n", "match x:\n    case 1:\n        pass\n"),
    ("block", "«match x:\n    case 1:\n        y»\n", "with w():\n    match x:\n        case 1:\n            y\n"),
    # starred arguments, commas
    ("set", "«f(*a, b=1, **c)»\n", "f(*a, b=1, k=1, **c)\n"),
    ("set", "«f(**a, b=1)»\n", "f(k=1, **a, b=1)\n"),
    ("set", "«f(\n    *a,\n    **b,\n)»\n", "f(\n    *a,\n    k=1,\n    **b,\n)\n"),
    ("set", "«f(k=2, *a)»\n", "f(k=1, *a)\n"),
    ("drop", "«f(*a, k=2, **b)»\n", "f(*a, **b)\n"),
    ("drop", "«f(k=2, *a)»\n", "f(*a)\n"),
    ("set", "«f(a ,)»\n", "f(a , k=1,)\n"),
    ("set", "«f(a, # why\n)»\n", "f(a, k=1, # why\n)\n"),
    ("set", "«f( # why\n  a)»\n", "f( # why\n  a,\n  k=1)\n"),
    ("set", "«f(\n    # why\n)»\n", "f(k=1\n    # why\n)\n"),
    ("set", "«f(\n\ta,\n\tb\n)»\n", "f(\n\ta,\n\tb,\n\tk=1\n)\n"),
    ("set", "«f(k\n=\n2)»\n", "f(k\n=\n1)\n"),
    ("drop", "«f(a\n    , k=1\n    , b=2)»\n", "f(a\n    , b=2)\n"),
    ("drop", "«f(a,\n  k=1  # why\n  )»\n", "f(a,\n  )\n"),
    ("drop", "«f(k=(\n  2  # why\n))»\n", "f()\n"),
    ("set", "«f(a)(b)»\n", "f(a)(b, k=1)\n"),
    ("set", "«f(a := 1)»\n", "f(a := 1, k=1)\n"),
    ("rewrite", "x = «f»(\n    # why\n    True\n)\n", "x = n.g(\n    # why\n    0,\n    p=True\n)\n"),
    ("rewrite", "with («f»(), b): pass\n", "with (n.g(0), b): pass\n"),
    ("rewrite", "x = («f»)(True)\n", "x = n.g(0, p=True)\n"),
    # rows continued by backslashes
    ("set", "«f \\\n  (a)»\n", "f \\\n  (a, k=1)\n"),
    ("set", "«f(a, \\\n  b)»\n", "f(a, \\\n  b,\n  k=1)\n"),
    ("drop", "«f(a, k=1 \\\n)»\n", "f(a \\\n)\n"),
    ("replace", "x = «y \\\n  .b()»\n", "x = y.d()\n"),
    ("guard", "«y \\\n  .b()»\n", "if c:\n    y \\\n      .b()\n"),
    ("guard", "if x: \\\n  «f()»\n", "if x:\n    if c:\n        f()\n"),
    ("insert", "a; \\\n «f()»\n", "a; \\\n s(); f()\n"),
    ("remove", "«f()» \\\n ; z\n", "z\n"),
    # one-row blocks, semicolons
    ("guard", "if x:«f()»  # why\nelif y: pass\n", "if x:\n    if c:\n        f()  # why\nelif y: pass\n"),
    ("guard", "if x: pass\nelif y: «f()»\n", "if x: pass\nelif y:\n    if c:\n        f()\n"),
    ("guard", "try: «f()»\nexcept E: pass\n", "try:\n    if c:\n        f()\nexcept E: pass\n"),
    ("guard", "class C: «f()»\n", "class C:\n    if c:\n        f()\n"),
    ("guard", "«f()»;\n", "if c:\n    f();\n"),
    ("remove", "while x: «f()»\nelse: z\n", "while x: pass\nelse: z\n"),
    ("remove", "def f(): 'Doc.'; «g()»\n", "def f(): 'Doc.'\n"),
    ("remove", "«f()» ; b ; \n", "b ; \n"),
    ("remove", "while x:\n    «f()»;\n", "while x:\n    pass;\n"),
    ("remove", "if x:\n    «f()»;\n", ""),
    ("insert", "with x: «f()»; y\n", "with x: s(); f(); y\n"),
    ("insert", "async def f(): await «g()»\n", "async def f(): s(); await g()\n"),
    ("loop", "«for x in y:z;w»\n", "for x in y:s(); z;w\n"),
    ("loop", "«for x in y: \\\n  z»\n", "for x in y: \\\n  s(); z\n"),
    ("loop", "async def f():\n    «async for x in y: z»\n", "async def f():\n    async for x in y: s(); z\n"),
    ("loop", "«for x in y: # why\r  z»\r", "for x in y: # why\r  s()\r  z\r"),
    ("block", "if q:\n  «for x in y: z»\nelse: w\n", "if q:\n  with w():\n    for x in y: z\nelse: w\n"),
    ("block", "«for x in y:\n# why\n    z»\n", "with w():\n    for x in y:\n    # why\n        z\n"),
    ("block", "«for x in y:\n    z\n\f\n    w»\n", "with w():\n    for x in y:\n        z\n\f\n        w\n"),
    # parenthesized targets and contexts
    ("guard", "(x.y) = «f()»\n", "if c:\n    (x.y) = f()\n"),
    ("insert", "*(x), = «f()»\n", "s()\n*(x), = f()\n"),
    ("set", "with (\n    «f(a)» as x,\n    d,\n):\n    pass\n", "with (\n    f(a, k=1) as x,\n    d,\n):\n    pass\n"),
    # assignment expressions, lambda functions, comprehensions
    ("set", "while (y := «f(a)»): pass\n", "while (y := f(a, k=1)): pass\n"),
    ("set", "f(lambda: «g(a)», 1)\n", "f(lambda: g(a, k=1), 1)\n"),
    ("set", "h(«f(x)» for x in y)\n", "h(f(x, k=1) for x in y)\n"),
    ("guard", "[«f(x)» for x in y]\n", "if c:\n    [f(x) for x in y]\n"),
    ("insert", "(y := «f()»)\n", "s()\n(y := f())\n"),
    # rows that end in CR LF
    ("remove", "a\r\n\r\n«f()»\r\n\r\n\r\nb\r\n", "a\r\n\r\n\r\nb\r\n"),
    ("remove", "a\r\n«f()»\r\n\r\nb\r\n", "a\r\n\r\nb\r\n"),
    ("import", "'''Doc.'''\r\n# why\r\n«a»\r\n", "'''Doc.'''\r\nimport torch\r\n\r\n# why\r\na\r\n"),
    # heads of files
    ("import", "'''Doc.''' \\\n\n«a»\n", "'''Doc.''' \\\n\nimport torch\n\na\n"),
    ("import", "import a; «b»\n", "import torch\n\nimport a; b\n"),
    ("import", "import a; b = 1\n«c»\n", "import a; b = 1\nimport torch\nc\n"),
    ("import", "import a \\\n  as b\n«c»\n", "import a \\\n  as b\nimport torch\nc\n"),
    (
        "import",
        "if c:\n    import torch\nelse:\n    import a\n«b»\n",
        "import torch\n\nif c:\n    import torch\nelse:\n    import a\nb\n",
    ),
    (
        "import",
        "try:\n    import torch\nexcept E:\n    raise\n«b»\n",
        "try:\n    import torch\nexcept E:\n    raise\nb\n",
    ),
    (
        "import",
        "def f():\n    import torch\n    def g():\n        «a»\n",
        "def f():\n    import torch\n    def g():\n        a\n",
    ),
    (
        "import",
        "class C:\n    torch = 1\n    def f(self): «a»\n",
        "import torch\n\nclass C:\n    torch = 1\n    def f(self): a\n",
    ),
    (
        "import os",
        "from __future__ import annotations; import abc\n«a»\n",
        "from __future__ import annotations; import abc\nimport os\na\n",
    ),
]


@pytest.mark.parametrize(("kind", "before", "after"), GIVEN)
def test_the_text_that_a_recipe_gives(kind: str, before: str, after: str) -> None:
    assert fixed(before, RECIPES[kind]) == after
    cst.parse_module(after)


WITHHELD = [
    ("set a text", "f'{«a.b(c)»}'\n", "quotes"),
    ("set a text", "f'''{f\"{«a.b(c)»}\"}'''\n", "quotes"),
    ("replace", "f'{«a.b(c)»=}'\n", "prints the code itself"),
    ("replace", "f'{f\"{«a.b(c)»}\"=}'\n", "prints the code itself"),
    ("set", "«f(**{'a': 1, 'k': 2})»\n", "a mapping passes"),
    ("set", "«f(**dict(k=2))»\n", "a mapping passes"),
    ("rewrite", "@«f»\ndef g(): pass\n", "no longer called"),
    ("remove", "print(y := «f()»)\n", "gives a name its value"),
    ("guard", "«print(y := f())»\n", "gives a name its value"),
    ("guard", "a[i := 0] = «f()»\n", "gives a name its value"),
    ("guard", "type X = «f()»\n", "gives a name its value"),
    ("remove", "del «f()».a\n", "gives a name its value"),
    ("remove", "def g():\n    yield «f()»\n", "where the code goes on"),
    ("guard", "def g():\n    a.b = yield «f()»\n", "where the code goes on"),
    ("guard", "def g():\n    yield from «f()»\n", "where the code goes on"),
    ("remove", "optimizer.step(lambda: «f()»)\n", "lambda"),
    ("guard", "hooks.append(lambda x: «f(x)»)\n", "lambda"),
    ("insert", "hooks.append(lambda x: «f(x)»)\n", "lambda"),
    ("remove", "optimizer.step(), «f()»\n", "calls something else"),
    ("remove", "loss.backward() or «f()»\n", "calls something else"),
    ("guard", "a[g()] = «f()»\n", "calls something else"),
    ("guard", "if x: y; «f()»\n", "other statements"),
    ("guard", "@«f()»\ndef g(): pass\n", "header"),
    ("guard", "with (a, «f()» as b): pass\n", "header"),
    ("guard", "(x, *y.z), = «f()»\n", "gives a name its value"),
    ("remove", "\\\n«f()»\n", "syntax tree"),
    ("import", "'''Doc.'''; «a»\n", "no statement to put an import before"),
    ("import", "from __future__ import annotations; «a»\n", "no statement to put an import before"),
    ("import", "from __future__ import annotations; import a; «b»\n", "no statement to put an import before"),
    ("import", "try:\n    import torch\nexcept E:\n    torch = None\n«a»\n", "stands for something else"),
    ("import", "x = lambda torch: «a»\n", "stands for something else"),
    ("import", "class C:\n    torch = 1\n    x = «a»\n", "stands for something else"),
    ("import", "def f[torch](): «a»\n", "stands for something else"),
    ("import", "type torch = int\n«a»\n", "stands for something else"),
    ("import", "match x:\n    case [*torch]: «a»\n", "stands for something else"),
]


@pytest.mark.parametrize(("kind", "source", "why"), WITHHELD)
def test_what_cannot_be_done_safely_is_withheld(kind: str, source: str, why: str) -> None:
    with pytest.raises(CannotFix, match=why):
        fixed(source, RECIPES[kind])


def _gathered(source: str) -> str:
    text, [whole, part] = marked(source)
    return apply_edits(text, realize(fix_of(AccumulateOnDevice(whole, part, floating=True)), text))


GATHERED = {
    "in a one-row loop": (
        "n = 0.0\nfor x in y: z; n += ««t».item()»; w\nprint(n)\n",
        "n = 0.0\nfor x in y: z; n += t.detach(); w\nprint(float(n))\n",
    ),
    "with parenthesized names": (
        "(n) = 0.0\nfor x in y:\n    (n) += ««t».item()»\nprint((n))\n",
        "(n) = 0.0\nfor x in y:\n    (n) += t.detach()\nprint((float(n)))\n",
    ),
    "over a continued row": (
        "n = 0.0\nfor x in y:\n    n += ««t» \\\n      .item()»\nprint(f'{n!r:>{w}}', n \\\n  / 2)\n",
        "n = 0.0\nfor x in y:\n    n += t.detach()\nprint(f'{float(n)!r:>{w}}', float(n) \\\n  / 2)\n",
    ),
    "in an asynchronous function": (
        "async def f():\n    n = []\n    async for x in y: n.append(««t».item()»)\n    return n\n",
        "async def f():\n    n = []\n    async for x in y: n.append(t.detach().clone())\n"
        "    return [value.item() for value in n]\n",
    ),
    "used by a star": (
        "n = []\r\nfor x in y:\r\n\tn.append(\r\n\t\t««t».item()»,  # why\r\n\t)\r\nprint(*n)\r\n",
        "n = []\r\nfor x in y:\r\n\tn.append(\r\n\t\tt.detach().clone(),  # why\r\n\t)\r\n"
        "print(*[value.item() for value in n])\r\n",
    ),
    "matched": (
        "n = 0.0\nfor x in y:\n    n += ««t».item()»\nmatch n:\n    case 1: pass\n",
        "n = 0.0\nfor x in y:\n    n += t.detach()\nmatch float(n):\n    case 1: pass\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), GATHERED.values(), ids=GATHERED)
def test_a_total_is_kept_on_the_device(before: str, after: str) -> None:
    assert _gathered(before) == after


@pytest.mark.parametrize(
    "use",
    [
        "print(f'{n=}')",
        "print(n := 1)",
        "match q:\n    case n: pass",
        "match q:\n    case {'a': n}: pass",
        "match q:\n    case [*n]: pass",
        "match q:\n    case {**n}: pass",
        "match q:\n    case int(n): pass",
        "type n = int",
        "def f[n](): return n",
        "[n for n in q]",
        "lambda: n",
        "try: pass\nexcept E as n: pass",
        "with q as (n, m): pass",
    ],
)
def test_a_total_that_is_used_in_other_ways_stays_a_number(use: str) -> None:
    with pytest.raises(CannotFix):
        _gathered(f"n = 0.0\nfor x in y:\n    n += ««t».item()»\n{use}\n")
