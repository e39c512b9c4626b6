"""From the text of a file to its facts: parse with libcst, lower, drop the tree.

Rows and columns are Python's own: a row ends at "\\n", "\\r\\n" or a lone "\\r" (not at a form feed), columns count
UTF-8 bytes. A byte order mark at the start is not part of the first row.
"""

from __future__ import annotations

import ast
import gc
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import libcst as cst

from trainlint.semantics.facts import LeftOut, ModuleFacts
from trainlint.semantics.limits import BeyondLimitsError, check_size, leave_out
from trainlint.semantics.lowering import Lowering
from trainlint.semantics.nesting import too_deep
from trainlint.semantics.parsing import parse_module

WATCHED: frozenset[str] = frozenset(
    """
    Accelerator BatchNorm1d BatchNorm2d BatchNorm3d Callback Conv1d Conv2d Conv3d DDP DataLoader DataParallel
    Dataset DistributedDataParallel Fabric FrozenBatchNorm2d FullyShardedDataParallel GradScaler IterableDataset
    LightningDataModule LightningModule Module Popen Process ProcessPoolExecutor Softmax SyncBatchNorm Trainer
    TrainerCallback TrainingArguments __getitem__ __iter__ allow_tf32 amp autocast backward bf16 bfloat16 check_call
    check_output convert_sync_batchnorm convert_syncbn_model cuda deepspeed detect_anomaly device double empty_cache
    encode environ eval execv execve execvp fit float16 float64 forward fp16 fp32_precision from_pretrained
    fully_shard half inference_mode init_process_group initialize item load load_state_dict log mixed_precision
    no_grad no_sync notebook_launcher precision print save scaler set_default_dtype set_detect_anomaly set_device
    set_device_idx set_device_index set_epoch set_float32_matmul_precision softmax spawn start_processes state_dict
    step subprocess synchronize system to tokenizer torch train training_step use_amp validation_step wandb
    zero_grad
    """.split()  # noqa: SIM905
)
"""Names worth knowing of a function without decoding its body."""


_LIBCST_PLACE = re.compile(r"error at (\d+):(\d+)")
"""libcst tells where it stopped in the message only: the row from 1, the column from 0."""


class SourceError(Exception):
    """The text is not a Python program that can be analysed.

    `row` and `column` start at 1 and count characters.
    """

    def __init__(self, message: str, row: int, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.row = row
        self.column = column


class LimitError(SourceError):
    """The text may be a valid program, but it is beyond what can be analysed."""


def lower(module: cst.Module, text: str, mirror: ast.Module | None) -> ModuleFacts:
    """Lower a tree; `mirror` is None where Python cannot parse the text."""
    return Lowering(module, text.encode("utf-8", "surrogatepass"), WATCHED).lower(mirror)


def extract(text: str, lower: Callable[[cst.Module, str, ast.Module | None], ModuleFacts] = lower) -> ModuleFacts:
    """Return the facts of one file, given its decoded text.

    Raises:
        LimitError: the text is too large, or nests too deep.
        SourceError: it does not parse.
    """
    text, left_out = _within_limits(text.removeprefix("\ufeff"))
    with collector_off():
        module = _parse(text)
        try:
            facts = lower(module, text, parse_ast(text))
            return replace(facts, left_out=left_out) if left_out else facts
        except SyntaxError as error:
            # libcst leaves the inside of strings alone; Python does not take every escape
            raise _source_error(text, error) from None


def _within_limits(text: str) -> tuple[str, tuple[LeftOut, ...]]:
    """The text as far as it can be analysed, and what is left out of it."""
    offset = text.find("\0")
    if offset >= 0:
        raise SourceError("source code cannot contain null bytes", *_row_and_column(text, offset))
    try:
        check_size(text)
        if too_deep(text) is None:
            return text, ()
        error = python_error(text)
        if error is not None:
            raise error
        return leave_out(text)
    except BeyondLimitsError as error:
        raise LimitError(error.message, error.row, 1) from None


def _row_and_column(text: str, offset: int) -> tuple[int, int]:
    rows = re.split(r"\r\n?|\n", text[:offset])
    return len(rows), len(rows[-1]) + 1


def _parse(text: str) -> cst.Module:
    try:
        return parse_module(text)
    except Exception as error:
        raise _source_error(text, error) from None


def _source_error(text: str, error: Exception) -> SourceError:
    """What is wrong with a text that libcst rejects, in Python's words where Python rejects it too."""
    other = python_error(text)
    if other is not None:
        return other
    if not isinstance(error, cst.ParserSyntaxError):
        return SourceError(f"cannot parse: {error}", 1, 1)
    place = _LIBCST_PLACE.search(error.message)
    if place is None:
        return SourceError(error.message, error.editor_line, error.editor_column)
    return SourceError("invalid syntax", int(place[1]), int(place[2]) + 1)


def python_error(text: str) -> SourceError | None:
    """What Python says is wrong with a text; None where it takes the text, or gives up for want of memory."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return SourceError(error.msg, max(error.lineno or 1, 1), max(error.offset or 1, 1))
    except (ValueError, RecursionError, MemoryError):
        pass
    return None


def parse_ast(text: str) -> ast.Module | None:
    """Parse with the running Python, which may know an older or newer grammar than libcst: None where it fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


@contextmanager
def collector_off() -> Iterator[None]:
    """Keep the garbage collector from walking the tree over and over while it grows; it holds no cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
