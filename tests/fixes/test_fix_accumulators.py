"""What is gathered as numbers step by step is gathered on the device, and read as numbers where it is used."""

from __future__ import annotations

import pytest
from marks import fix_of, marked

from trainlint.fixes.edits import CannotFix, apply_edits
from trainlint.fixes.realize import realize, settled
from trainlint.fixes.recipe import AccumulateOnDevice, Applicability, Fix

TOTAL = """\
import json
import torch

def train(loader):
    total = 0.0
    for step, batch in enumerate(loader):
        loss = run(batch)
        total += {read}
        {each_step}
    {afterwards}
"""
LIST = """\
import json
import numpy as np
import matplotlib.pyplot as plt

def train(loader):
    losses = []
    for step, batch in enumerate(loader):
        loss = run(batch)
        losses.append({read})
        {each_step}
    {afterwards}
"""
READ, KEPT, COPIED = "««loss».item()»", "loss.detach()", "loss.detach().clone()"
NUMBERS = "[value.item() for value in losses]"

TOTALS = {
    "printed": ("print(total)", "print(float(total))"),
    "formatted": ("print(f'{total:.3f}')", "print(f'{float(total):.3f}')"),
    "rounded": ("print(round(total, 3))", "print(round(float(total), 3))"),
    "dumped": ("json.dump({'loss': total / 3}, file)", "json.dump({'loss': float(total) / 3}, file)"),
    "returned": ("return total / len(loader)", "return float(total) / len(loader)"),
    "kept on an object": ("self.total = total", "self.total = float(total)"),
    "compared": ("if total > 3: stop()", "if float(total) > 3: stop()"),
    "read already": ("return float(total)", "return float(total)"),
    "divided in place": ("total /= len(loader)", "total = float(total) / len(loader)"),
    "divided into itself": ("total = total / 3", "total = float(total) / 3"),
    "set back": ("total = 0.0", "total = 0.0"),
    "named elsewhere": ("meter.total(total=1)", "meter.total(total=1)"),
}


def fixed_program(template: str, floating: bool, **parts: str) -> str:
    text, sites = marked(template.format(**parts))
    return apply_edits(text, realize(fix_of(AccumulateOnDevice(sites[0], sites[1], floating)), text))


@pytest.mark.parametrize(("before", "after"), TOTALS.values(), ids=TOTALS)
def test_a_total_is_read_where_it_is_used(before: str, after: str) -> None:
    changed = fixed_program(TOTAL, True, read=READ, each_step="pass", afterwards=before)
    assert changed == TOTAL.format(read=KEPT, each_step="pass", afterwards=after)


LISTS = {
    "dumped": ("json.dump({'loss': losses}, file)", f"json.dump({{'loss': {NUMBERS}}}, file)"),
    "averaged": ("print(np.mean(losses))", f"print(np.mean({NUMBERS}))"),
    "plotted": ("plt.plot(losses)", f"plt.plot({NUMBERS})"),
    "summed": ("print(sum(losses) / len(losses))", f"print(sum({NUMBERS}) / len(losses))"),
    "returned": ("return losses", f"return {NUMBERS}"),
    "walked": ("for loss in losses: print(loss)", f"for loss in {NUMBERS}: print(loss)"),
    "the last one": ("print(losses[-1])", "print(losses[-1].item())"),
    "the last few": ("print(max(losses[-3:]))", "print(max([value.item() for value in losses[-3:]]))"),
    "asked for its length": ("return len(losses) if losses else 0", "return len(losses) if losses else 0"),
    "emptied": ("losses.clear()", "losses.clear()"),
}


@pytest.mark.parametrize(("before", "after"), LISTS.values(), ids=LISTS)
def test_a_list_is_read_where_it_is_used(before: str, after: str) -> None:
    changed = fixed_program(LIST, True, read=READ, each_step="pass", afterwards=before)
    assert changed == LIST.format(read=COPIED, each_step="pass", afterwards=after)


UNDERSTOOD_NOWHERE = {
    "a list that is passed on": (LIST, "pass", "report(losses)"),
    "a list that an object keeps": (LIST, "pass", "self.losses = losses"),
    "a list with another name": (LIST, "pass", "history = losses"),
    "a list that gets other entries": (LIST, "pass", "losses.append(0.0)"),
    "a list whose entries are changed": (LIST, "pass", "losses[0] = 1.0"),
    "a list that a function of its own reads": (LIST, "pass", "return lambda: losses"),
    "a library that is none": (LIST.replace("import json", ""), "pass", "json.dump(losses, file)"),
    "a total that a function of its own reads": (TOTAL, "pass", "return lambda: total"),
    "a total that becomes something else": (TOTAL, "pass", "total = torch.zeros(3)"),
    "a total that is a name of the module": (
        TOTAL.replace("    total = ", "    global total\n    total = "),
        "pass",
        "",
    ),
    "a total that starts elsewhere": (TOTAL.replace("(loader):\n    total = 0.0", "(loader, total):"), "pass", "pass"),
    "a total that is shown at every step": (TOTAL, "bar.set_postfix(loss=total)", "pass"),
}


@pytest.mark.parametrize(("template", "each_step", "afterwards"), UNDERSTOOD_NOWHERE.values(), ids=UNDERSTOOD_NOWHERE)
def test_no_edit_where_a_use_is_not_understood(template: str, each_step: str, afterwards: str) -> None:
    with pytest.raises(CannotFix):
        fixed_program(template, True, read=READ, each_step=each_step, afterwards=afterwards)


def test_advice_takes_the_place_of_a_fix_that_does_not_apply() -> None:
    text, sites = marked(LIST.format(read=READ, each_step="pass", afterwards="report(losses)"))
    fix = Fix(Applicability.UNSAFE, "Gather", (AccumulateOnDevice(sites[0], sites[1]),), otherwise="Do it by hand")
    assert settled(fix, text) == Fix(Applicability.DISPLAY, "Do it by hand")
    assert settled(fix, text.replace("report(losses)", "pass")) is fix


WHAT_IS_READ = {
    "a number cut off": "«int(«loss»)»",
    "several numbers": "««loss».tolist()»",
    "a number that a function gets": "round(««loss».item()», 3)",
    "a number in a tuple": "(step, ««loss».item()»)",
}


@pytest.mark.parametrize("read", WHAT_IS_READ.values(), ids=WHAT_IS_READ)
def test_no_edit_where_more_than_the_number_is_gathered(read: str) -> None:
    with pytest.raises(CannotFix):
        fixed_program(LIST, True, read=read, each_step="pass", afterwards="pass")


def test_what_is_computed_from_the_number_is_computed_on_the_device() -> None:
    changed = fixed_program(TOTAL, True, read=f"{READ} * len(batch)", each_step="pass", afterwards="return total")
    assert changed == TOTAL.format(
        read="loss.detach() * len(batch)", each_step="pass", afterwards="return float(total)"
    )


def test_a_use_every_few_steps_is_a_use() -> None:
    shown = "if step % 50 == 0: print({})"
    changed = fixed_program(TOTAL, True, read=READ, each_step=shown.format("total"), afterwards="pass")
    assert changed == TOTAL.format(read=KEPT, each_step=shown.format("float(total)"), afterwards="pass")


COUNTS = {
    "of hits": ("««(guess == labels).sum()».item()»", "(guess == labels).sum().detach()", "int(total)"),
    "of something": ("««hits».item()»", "hits.detach()", "torch.as_tensor(total).item()"),
}


@pytest.mark.parametrize(("read", "kept", "shown"), COUNTS.values(), ids=COUNTS)
def test_whole_numbers_stay_whole(read: str, kept: str, shown: str) -> None:
    program = TOTAL.replace("0.0", "0")
    changed = fixed_program(program, False, read=read, each_step="pass", afterwards="print(total)")
    assert changed == program.format(read=kept, each_step="pass", afterwards=f"print({shown})")


def test_a_script_reads_in_any_of_its_statements() -> None:
    text, sites = marked(f"total = 0.0\nfor x in xs:\n    total += {READ}\n\nprint(total)\n")
    edits = realize(fix_of(AccumulateOnDevice(sites[0], sites[1], True)), text)
    assert apply_edits(text, edits) == "total = 0.0\nfor x in xs:\n    total += loss.detach()\n\nprint(float(total))\n"


def test_a_function_with_a_variable_of_the_same_name_does_not_matter() -> None:
    own = "def other():\n    total = 1\n    return total\n\n"
    text, sites = marked(f"{own}total = 0.0\nfor x in xs:\n    total += {READ}\n")
    edits = realize(fix_of(AccumulateOnDevice(sites[0], sites[1], True)), text)
    assert apply_edits(text, edits) == f"{own}total = 0.0\nfor x in xs:\n    total += loss.detach()\n"
