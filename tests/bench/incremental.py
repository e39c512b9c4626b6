"""Measures what an edit costs in units of parsing: the processor time from a changed text to its facts, divided by that
of `libcst.parse_module` on the same text with the garbage collector off. Ratios hold on any machine; seconds do not.

    python -m tests.bench.incremental [--edits N] [--strict]

Each edit is one that a person makes in an editor: a word gets a letter more, a row is added or goes, a header changes;
and what a text is in between, when it does not parse. Parsing and edits alternate.
"""

from __future__ import annotations

import argparse
import gc
import random
import re
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

import libcst as cst
from tests.bench import bodies, generated

from trainlint.semantics.extract import SourceError
from trainlint.semantics.incremental import LiveModule

MEDIAN_GOAL, P95_GOAL = 0.1, 0.6


def main() -> int:
    arguments = _arguments()
    met = True
    print(f"{'file':<38} {'edit':<18} {'median':>8} {'95 %':>8}")
    for name, text in files():
        ratios: dict[str, list[float]] = {}
        for kind, ratio in _measured(text, arguments.edits, random.Random(name)):
            ratios.setdefault(kind, []).append(ratio)
        for kind, values in ratios.items():
            print(f"{name:<38} {kind:<18} {statistics.median(values):>8.3f} {p95(values):>8.3f}")
        valid = [ratio for kind, values in ratios.items() if kind != broken.__name__ for ratio in values]
        median, high = statistics.median(valid), p95(valid)
        print(f"{name:<38} {'all that parse':<18} {median:>8.3f} {high:>8.3f}")
        met &= median <= MEDIAN_GOAL and high <= P95_GOAL
    return 0 if met or not arguments.strict else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.incremental", description=__doc__)
    parser.add_argument("--edits", type=int, default=40, help="edits of each kind and file")
    parser.add_argument("--strict", action="store_true", help="fail where a goal is not met")
    return parser.parse_args()


def p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))]


# ------------------------------------------------------------------------------------------------------------- files


def files() -> Iterator[tuple[str, str]]:
    """Files of the shapes that matter, each with what it is like."""
    for lines in (300, 1_000, 3_000):
        yield f"{lines:,} lines", _module(lines)
    yield "1,000 lines, a class of 900", f"{_module(100)}\n\n{_class(900)}"
    yield "1,000 lines, a function of 500", f"{_module(500)}\n\n{_function(500)}"


def _module(lines: int) -> str:
    choose = random.Random(lines)
    return generated.module(choose, bodies.MAIN["models"], bodies.MORE["models"], [], lines)


def _class(lines: int) -> str:
    """One class with the functions of a module as its methods."""
    rows = ["class Everything:"]
    for row in _module(2 * lines).splitlines():
        if row.startswith(("class ", "import ", "from ")):
            continue
        if len(rows) >= lines and row.startswith("    def "):
            break
        if row.startswith(("    def ", "    @", "        ", "     ")) or not row.strip():
            rows.append(row)
    return "\n".join(rows) + "\n    last = 1\n"


def _function(lines: int) -> str:
    """One function of the loops, conditions and calls that a training script is made of."""
    rows = ["def main(args):"]
    for number in count():
        if len(rows) >= lines:
            break
        rows += [row.replace("7", str(number)) for row in _STAGE.splitlines()]
    return "\n".join(rows) + "\n"


_STAGE = """
    stage_7 = make_stage(args, "stage_7", width=args.width * 7)
    # The first of these steps warm up.
    for step, (images, labels) in enumerate(stage_7.loader):
        images = images.to(args.device, non_blocking=True)
        labels = labels.to(args.device, non_blocking=True)
        with torch.autocast("cuda", enabled=args.amp):
            logits = model(images)
            loss_7 = criterion(logits, labels) / args.accumulation
        scaler.scale(loss_7).backward()
        if (step + 1) % args.accumulation == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
        if step % args.log_every == 0:
            print(f"stage 7: {step}/{len(stage_7.loader)} loss {loss_7.item():.4f}")
        total_7 += loss_7.detach()
    scheduler.step()
    history.append({"stage": 7, "loss": total_7 / len(stage_7.loader), "rate": scheduler.get_last_lr()[0]})"""


# ------------------------------------------------------------------------------------------------------------- edits


def _letter(text: str, choose: random.Random) -> str:
    """A name of a statement gets a letter more."""
    word = choose.choice(list(re.finditer(r"\b(?!(?:in|is|or|and|not|if|for|as|else)\b)[a-z]\w+(?=[ .,)]|$)", text)))
    return text[: word.end()] + "x" + text[word.end() :]


def _row_added(text: str, choose: random.Random) -> str:
    row = _statement(text, choose)
    return text[: row.start()] + f"{row[1]}value = compute(value, 3)\n" + text[row.start() :]


def _row_gone(text: str, choose: random.Random) -> str:
    row = _statement(text, choose)
    return text[: row.start()] + text[row.end() :]


def _header(text: str, choose: random.Random) -> str:
    """A function gets a parameter more."""
    header = choose.choice(list(re.finditer(r"def \w+\((?:self, )?", text)))
    return text[: header.end()] + "more, " + text[header.end() :]


def broken(text: str, choose: random.Random) -> str:
    """A statement is being typed, and does not parse yet."""
    row = _statement(text, choose)
    return (
        text[: row.start()]
        + row[1]
        + choose.choice(("if value", "value = compute(", "value =", "x."))
        + "\n"
        + text[row.start() :]
    )


def _statement(text: str, choose: random.Random) -> re.Match[str]:
    return choose.choice(list(re.finditer(r"^( +)[a-z_.]+(?:\(| = ).*\)\n", text, re.MULTILINE)))


EDITS: tuple[Callable[[str, random.Random], str], ...] = (_letter, _row_added, _row_gone, _header, broken)


def _measured(text: str, edits: int, choose: random.Random) -> Iterator[tuple[str, float]]:
    """Kinds of edits, and how long they took, in units of parsing; each edit is taken back before the next one."""
    live = LiveModule()
    live.update(text)
    for _ in range(edits):
        parsing = parsing_s(text)
        for edit in EDITS:
            changed = edit(text, choose)
            if edit is not broken and not is_valid(changed):
                continue
            started = time.process_time()
            with suppress(SourceError):
                live.update(changed)
            yield edit.__name__.strip("_").replace("_", " "), (time.process_time() - started) / parsing
            live.update(text)


def is_valid(text: str) -> bool:
    try:
        compile(text, "text", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def parsing_s(text: str, clock: Callable[[], float] = time.process_time) -> float:
    """The seconds that libcst takes to parse a text, with the garbage collector off."""
    gc.disable()
    try:
        started = clock()
        cst.parse_module(text)
        return clock() - started
    finally:
        gc.enable()


if __name__ == "__main__":
    raise SystemExit(main())
