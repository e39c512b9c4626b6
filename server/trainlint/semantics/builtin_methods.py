"""Methods of Python's own objects: lists, tuples, dictionaries, strings, numbers, and the arrays of numpy."""

from __future__ import annotations

from trainlint.semantics import assignment, code, command_line, configurations, iteration, library, records, tensors
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.state import Frame
from trainlint.semantics.text import dotted
from trainlint.semantics.values import (
    ARRAY,
    FRAME,
    NONE,
    NUMBER,
    OBJECT,
    PATH,
    STRING,
    UNKNOWN,
    Const,
    Host,
    Listing,
    Table,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join,
    join_all,
)

_MOST_WORDS = 64
"""Of a text that is split."""


def listing_method(frame: Frame, receiver: Listing, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of a list or a set: what is added joins what its items look like."""
    if name in ("append", "appendleft", "add", "insert", "extend") and given.positional:
        added = given.positional[-1]
        if name == "extend":
            added = iteration.item_of(frame, added)
        item = added if isinstance(receiver.item, Unknown) else join(receiver.item, added)
        assignment.rebind(frame, code.receiver_of(node), Listing(item, growing=True))
        if isinstance(added, Tensor) and name in ("append", "appendleft", "insert"):
            records.note_kept_graph(
                frame, node, code.receiver_of(node), node.arguments[-1].value if node is not None else None, added
            )
        return OBJECT
    if name in ("pop", "popleft", "get"):
        return receiver.item
    if name in ("copy", "sort", "reverse"):
        return receiver
    return UNKNOWN


def tuple_method(frame: Frame, receiver: Tuple, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of a sequence whose items are known one by one; one that grows is a list from then on."""
    if name in ("append", "extend", "insert", "add"):
        return listing_method(frame, Listing(join_all(receiver.items), growing=True), name, given, node)
    return join_all(receiver.items) if name == "pop" else UNKNOWN


def table_method(frame: Frame, receiver: Table, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of a dictionary."""
    if receiver.file and name.startswith("merge_"):
        configurations.note_changes(frame, receiver, given)
        if name == "merge_with_cli":
            configurations.note_any_change(frame, receiver)
        return NONE
    if name in ("update", "setdefault"):
        _update_table(frame, receiver, name, given, node)
    values = [value for _, value in receiver.items] + ([receiver.rest] if receiver.rest is not None else [])
    whole = join_all(values)
    if name == "items":
        return Listing(Tuple((STRING, whole)))
    if name == "values":
        return Listing(whole)
    if name == "keys":
        return Listing(STRING)
    if name in ("get", "pop", "setdefault"):
        key = given.first()
        if not isinstance(key, Const) or not isinstance(key.value, str):
            return whole
        if name == "pop":
            assignment.forget_item(frame, code.receiver_of(node), receiver, key)
        if receiver.file and len(given.positional) > 1:
            return configurations.fallback(frame, receiver, key.value, given.positional[1])
        return configurations.current(frame, receiver.get(key.value))
    if name == "copy":
        return receiver
    return UNKNOWN


def _update_table(frame: Frame, receiver: Table, name: str, given: Given, node: code.Call | None) -> None:
    items = dict(receiver.items)
    rest = receiver.rest
    if name == "setdefault":
        key = given.first()
        if isinstance(key, Const) and isinstance(key.value, str) and len(given.positional) > 1:
            items.setdefault(key.value, given.positional[1])
    else:
        for value in given.positional[:1]:
            if isinstance(value, Table):
                items = items if value.rest is None else configurations.perhaps_overridden(items)
                items |= dict(value.items)
                rest = value.rest if rest is None else rest
            else:
                items, rest = configurations.perhaps_overridden(items), UNKNOWN
        items |= given.keywords
        rest = rest if given.complete else UNKNOWN
        configurations.note_changes(frame, receiver, given)
    assignment.rebind(frame, code.receiver_of(node), Table(tuple(items.items()), rest, receiver.file))


def host_method(frame: Frame, receiver: Value, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of a string, a number or an array on the host."""
    if name == "format" and node is not None:
        for argument, value in zip(node.arguments, given.all(), strict=False):
            tensors.format_sync(frame, node, value, argument.value)
        return STRING
    if isinstance(receiver, Host) and receiver.kind == "array":
        if receiver.whole and name in library.ARRAY_METHODS:
            return replace(receiver, double=receiver.double and name != "astype")
        return NUMBER if name in ("item", "sum", "mean", "max", "min") else replace(ARRAY, fetched=receiver.fetched)
    if receiver == FRAME:
        return _frame_method(frame, name, node)
    if name == "split" and not given.all():
        return words_of(receiver)
    if receiver == PATH:
        return _path_method(frame, name, given, node)
    if name in ("split", "splitlines"):
        return Listing(STRING)
    changed = code.receiver_of(node)
    if name in ("append", "extend", "insert") and changed is not None and dotted(changed) == "sys.argv":
        command_line.note_words(frame, None)
    if name in ("item", "tolist", "append", "extend"):
        return NUMBER
    return (
        STRING if isinstance(receiver, Const) or (isinstance(receiver, Host) and receiver.kind == "string") else UNKNOWN
    )


def words_of(text: Value) -> Value:
    """The words of a text, one by one where the program spells it out."""
    words = str(text.value).split() if isinstance(text, Const) else []
    return Tuple(tuple(map(Const, words))) if 0 < len(words) <= _MOST_WORDS else Listing(STRING)


def _path_method(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of a path of pathlib of which nothing is known but that it is one."""
    records.record_path_read(frame, name, given, node)
    if name in library.PATH_READERS:
        return STRING if name == "read_text" else OBJECT
    return PATH if name in library.SAME_KIND_OF_PATH else UNKNOWN


def _frame_method(frame: Frame, name: str, node: code.Call | None) -> Value:
    """A method of a DataFrame or a Series of pandas."""
    if name in ("iterrows", "apply") and node is not None:
        records.record_frame_access(frame, node, name, proved=True)
    if name == "to_numpy":
        return ARRAY
    if name in ("tolist", "to_list"):
        return Listing(UNKNOWN)
    if name == "item":
        return NUMBER
    return FRAME if name in library.SAME_FRAME else UNKNOWN
