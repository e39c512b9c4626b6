"""Expressions are replaced by templates, with parentheses where precedence asks for them."""

from __future__ import annotations

import pytest
from marks import fix_of, fixed, marked

from trainlint.fixes.edits import CannotFix, TextEdit, apply_edits
from trainlint.fixes.realize import realize
from trainlint.fixes.recipe import ReplaceByPart, ReplaceExpression, SetArgument

REPLACE = {
    "appended to a name": ("x = «loss»\n", "{0}.detach()", "x = loss.detach()\n"),
    "appended to a sum": ("x = «a + b»\n", "{0}.detach()", "x = (a + b).detach()\n"),
    "appended to a sum in parentheses": ("x = («a + b»)\n", "{0}.detach()", "x = (a + b).detach()\n"),
    "appended to a call argument": ("f(«a + b», c)\n", "{0}.detach()", "f((a + b).detach(), c)\n"),
    "as an argument": ("x = «a + b»\n", "float({0})", "x = float(a + b)\n"),
    "of a lambda": ("x = «lambda: y»\n", "{0}()", "x = (lambda: y)()\n"),
    "of a conditional": ("x = «a if b else c»\n", "{0} + 1", "x = (a if b else c) + 1\n"),
    "of a tuple": ("return_ = «(a, b)»\n", "list({0})", "return_ = list((a, b))\n"),
    "of a tuple without parentheses": ("x = «a, b»\n", "list({0})", "x = list((a, b))\n"),
    "left operand of minus": ("x = «a - b»\n", "{0} - c", "x = a - b - c\n"),
    "right operand of minus": ("x = «a - b»\n", "c - {0}", "x = c - (a - b)\n"),
    "power of a negative": ("x = «-a»\n", "{0} ** 2", "x = (-a) ** 2\n"),
    "comparison in a comparison": ("x = «a == b»\n", "{0} == c", "x = (a == b) == c\n"),
    "negation": ("x = «a and b»\n", "not {0}", "x = not (a and b)\n"),
    "the result binds weaker than its place": ("x = y * «f(a)»\n", "{0} + 1", "x = y * (f(a) + 1)\n"),
    "the result is a conditional": ("x = «f(a)».b\n", "{0} if c else d", "x = (f(a) if c else d).b\n"),
    "the result is a tuple in an index": ("x[«i»]\n", "{0}, 0", "x[({0}, 0)]\n".replace("{0}", "i")),
    "a keyword right before it": ("x = a if(«b»)else c\n", "f({0})", "x = a if(f(b))else c\n"),
    "a keyword right before what gets shorter": ("return_ = not(«b + c»)\n", "{0}.d", "return_ = not(b + c).d\n"),
    "receiver of a method": ("x = «loss.mean().item()»\n", "{receiver}.detach()", "x = loss.mean().detach()\n"),
    "receiver in parentheses": ("x = «(a + b).item()»\n", "{receiver}.detach()", "x = (a + b).detach()\n"),
    "receiver of an attribute": ("x = «a.data»\n", "{receiver}.detach()", "x = a.detach()\n"),
    "keyword argument": ("«f(a, dtype=b)»\n", "g({dtype})", "g(b)\n"),
    "positional argument": ("«f(a + 1, b)»\n", "{arg0} * {arg1}", "(a + 1) * b\n"),
    "all arguments": ("«f(a, *b, c=1)»\n", "g(0, {arguments})", "g(0, a, *b, c=1)\n"),
    "no arguments": ("«f()»\n", "g(0, {arguments})", "g(0)\n"),
    "function": ("«a.f(b)»\n", "partial({function}, b)", "partial(a.f, b)\n"),
    "nothing of the old": ("x = «f(a)»\n", "torch.inf", "x = torch.inf\n"),
    "braces": ("x = «a»\n", "{{'k': {0}}}", "x = {'k': a}\n"),
    "several rows": ("x = «f(\n    a,  # why\n)»\n", "{0}.cpu()", "x = f(\n    a,  # why\n).cpu()\n"),
    "several rows in parentheses": ("x = (\n    «a\n    + b»\n)\n", "{0}.cpu()", "x = (\n    (a\n    + b).cpu()\n)\n"),
    "in an f-string": ("f'{«loss.item()»:.3f}'\n", "{receiver}", "f'{loss:.3f}'\n"),
    "a set in an f-string": ("f'{«a»}'\n", "{{{0}}}", "f'{({a})}'\n"),
    "in a decorator": ("@«f»\ndef g(): pass\n", "{0}()", "@f()\ndef g(): pass\n"),
    "target of an assignment": ("«a.b» = 1\n", "{0}.c", "a.b.c = 1\n"),
    "in a default argument": ("def f(a=«b + c»): pass\n", "{0}.d", "def f(a=(b + c).d): pass\n"),
}


@pytest.mark.parametrize(("before", "template", "after"), REPLACE.values(), ids=REPLACE)
def test_replace_expression(before: str, template: str, after: str) -> None:
    assert fixed(before, lambda site: ReplaceExpression(site, template)) == after


CANNOT_REPLACE = {
    "missing argument": ("«f(a)»\n", "{dtype}"),
    "missing position": ("«f(a)»\n", "{arg1}"),
    "position behind a star": ("«f(*a, b)»\n", "{arg1}"),
    "not a call": ("«a»\n", "{function}"),
    "not an expression": ("«a»\n", "x = {0}"),
    "two expressions": ("«a»\n", "1) + (2"),
    "malformed": ("«a»\n", "{0"),
    "quotes in an f-string": ("f'{«a»}'\n", "f({0}, 'b')"),
    "no target": ("«a» = 1\n", "{0} + 1"),
    "part of a name": ("«ab»c\n", "{0}"),
    "hole in a string": ("«a»\n", "'{0}'"),
}


@pytest.mark.parametrize(("before", "template"), CANNOT_REPLACE.values(), ids=CANNOT_REPLACE)
def test_replace_expression_refuses(before: str, template: str) -> None:
    with pytest.raises(CannotFix):
        fixed(before, lambda site: ReplaceExpression(site, template))


def test_text_that_stays_is_not_part_of_an_edit() -> None:
    text, [site] = marked("x = y * «f(a)»\n")
    edits = realize(fix_of(ReplaceExpression(site, "{0} + 1")), text)
    assert edits == (TextEdit(8, 8, "("), TextEdit(12, 12, " + 1)"))


PART = {
    "method dropped": ("x = ««torch.zeros(n)».to(d)»\n", "x = torch.zeros(n)\n"),
    "argument kept": ("x = «float(«a + b»)» * c\n", "x = (a + b) * c\n"),
    "part in parentheses": ("x = «(«a + b»).item()»\n", "x = (a + b)\n"),
    "rows": ("x = (\n    ««f(\n        a\n    )»\n    .cpu()»\n)\n", "x = (\n    f(\n        a\n    )\n)\n"),
}


@pytest.mark.parametrize(("before", "after"), PART.values(), ids=PART)
def test_replace_by_part(before: str, after: str) -> None:
    text, [whole, part] = marked(before)
    assert apply_edits(text, realize(fix_of(ReplaceByPart(whole, part)), text)) == after


@pytest.mark.parametrize("part_first", [True, False])
def test_part_is_kept_as_other_recipes_leave_it(part_first: bool) -> None:
    text, [whole, part] = marked("x = ««torch.zeros(n)».to(d)»\n")
    recipes = [SetArgument(part, "device", "d"), ReplaceByPart(whole, part)]
    edits = realize(fix_of(*(recipes if part_first else reversed(recipes))), text)
    assert apply_edits(text, edits) == "x = torch.zeros(n, device=d)\n"


def test_refuses_recipes_that_rewrite_each_others_code() -> None:
    text, [whole, part] = marked("«f(«a»)»\n")
    with pytest.raises(CannotFix):
        realize(fix_of(ReplaceExpression(whole, "g()"), ReplaceExpression(part, "{0}.b")), text)
