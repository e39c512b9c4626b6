"""From the text of a file to its facts: parse with libcst, lower, drop the tree.

Rows and columns are Python's own: a row ends at "\\n", "\\r\\n" or a lone "\\r" (not at a form feed), columns count
UTF-8 bytes. A byte order mark at the start is not part of the first row.
"""

from __future__ import annotations

import ast
import gc
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import libcst as cst

from trainlint.semantics.facts import ModuleFacts
from trainlint.semantics.lowering import Lowering
from trainlint.semantics.nesting import too_deep

WATCHED: frozenset[str] = frozenset(
    """
    Accelerator DDP DataLoader DataParallel Dataset DistributedDataParallel Fabric FullyShardedDataParallel GradScaler
    IterableDataset LightningModule Module Trainer TrainingArguments __getitem__ __iter__ autocast backward cuda
    deepspeed detect_anomaly device empty_cache encode environ eval fit forward fully_shard inference_mode
    init_process_group initialize item load load_state_dict log no_grad no_sync print save set_detect_anomaly set_epoch
    state_dict step synchronize to tokenizer torch train training_step validation_step wandb zero_grad
    """.split()  # noqa: SIM905
)
"""Names worth knowing of a function without decoding its body."""


_LIBCST_PLACE = re.compile(r"error at (\d+):(\d+)")
"""libcst tells where it stopped in the message only: the row from 1, the column from 0."""

_CHECK_OF_A_NODE = cst.CSTNode.__post_init__


class SourceError(Exception):
    """The text is not a Python program that can be analysed.

    `row` and `column` start at 1 and count characters.
    """

    def __init__(self, message: str, row: int, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.row = row
        self.column = column


def extract(text: str) -> ModuleFacts:
    """Return the facts of one file, given its decoded text.

    Raises:
        SourceError: the text does not parse, or nests too deep.
    """
    text = text.removeprefix("\ufeff")
    _check(text)
    with _collector_off():
        module = _parse(text)
        try:
            return Lowering(module, text.encode("utf-8", "surrogatepass"), WATCHED).lower(_parse_ast(text))
        except SyntaxError as error:
            # libcst leaves the inside of strings alone; Python does not take every escape
            raise _source_error(text, error) from None


def _check(text: str) -> None:
    deep = too_deep(text)
    if deep is not None:
        message, offset = deep
        raise SourceError(message, *_row_and_column(text, offset))
    offset = text.find("\0")
    if offset >= 0:
        raise SourceError("source code cannot contain null bytes", *_row_and_column(text, offset))


def _row_and_column(text: str, offset: int) -> tuple[int, int]:
    rows = re.split(r"\r\n?|\n", text[:offset])
    return len(rows), len(rows[-1]) + 1


def _parse(text: str) -> cst.Module:
    try:
        with _nodes_unchecked():
            return cst.parse_module(text)
    except Exception as error:
        raise _source_error(text, error) from None


def _source_error(text: str, error: Exception) -> SourceError:
    """What is wrong with a text that libcst rejects, in Python's words where Python rejects it too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as other:
        return SourceError(other.msg, max(other.lineno or 1, 1), max(other.offset or 1, 1))
    except (ValueError, RecursionError, MemoryError):
        pass
    if not isinstance(error, cst.ParserSyntaxError):
        return SourceError(f"cannot parse: {error}", 1, 1)
    place = _LIBCST_PLACE.search(error.message)
    if place is None:
        return SourceError(error.message, error.editor_line, error.editor_column)
    return SourceError("invalid syntax", int(place[1]), int(place[2]) + 1)


def _parse_ast(text: str) -> ast.Module | None:
    """Parse with the running Python, which may know an older or newer grammar than libcst: None where it fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


@contextmanager
def _collector_off() -> Iterator[None]:
    """Keep the garbage collector from walking the tree over and over while it grows; it holds no cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def _nodes_unchecked() -> Iterator[None]:
    """Spare the nodes that the parser makes the check that they make up valid code, which is meant for nodes made by
    hand and takes a sixth of the time. What is set back is always libcst's own, so that threads may overlap."""
    cst.CSTNode.__post_init__ = _no_check  # type: ignore[method-assign]
    try:
        yield
    finally:
        cst.CSTNode.__post_init__ = _CHECK_OF_A_NODE  # type: ignore[method-assign]


def _no_check(self: cst.CSTNode) -> None:
    pass
