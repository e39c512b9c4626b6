"""Evaluation of expressions to abstract values, with a record of each sync point that is met on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainlint.semantics import (
    accidents,
    assignment,
    attributes,
    calls,
    classes,
    classification,
    clocks,
    code,
    conditions,
    configurations,
    elements,
    entry_facts,
    functions,
    guards,
    iteration,
    library,
    module_runs,
    naming,
    narrowing,
    object_types,
    presence,
    records,
    tensors,
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import SyncKind
from trainlint.semantics.state import Frame, ModuleState, Standing
from trainlint.semantics.text import dotted
from trainlint.semantics.values import (
    ARRAY,
    FRAME,
    MOST_OPTIONS,
    NONE,
    NUMBER,
    OBJECT,
    PATH,
    STRING,
    UNKNOWN,
    Bound,
    Choice,
    Class,
    Const,
    DeviceValue,
    Function,
    Generated,
    Host,
    Instance,
    Listing,
    Method,
    ModuleValue,
    Object,
    Option,
    Partial,
    Reference,
    Table,
    Tensor,
    Test,
    Tuple,
    Unknown,
    Value,
    join,
    join_all,
)
from trainlint.semantics.vocabulary import GuardKind, Known, Place


def evaluate(frame: Frame, node: code.Expression) -> Value:
    """The abstract value of an expression; what it does on the way is recorded in the frame's run."""
    return _EVALUATORS[node.tag](frame, node)


def decide(frame: Frame, test: code.Expression) -> Value:
    """The value of a condition that Python asks for its truth: the host reads the tensors that it depends on."""
    if isinstance(test, code.Boolean):
        return _boolean_ending(frame, test, decide)
    value = evaluate(frame, test)
    tensors.branch_sync(frame, test, value)
    return value


def evaluate_optional(frame: Frame, node: code.Expression | None) -> Value:
    """The value of an expression that may be left out, which stands for None."""
    return NONE if node is None else evaluate(frame, node)


# -------------------------------------------------------------------------------------------------------- names


def _name(frame: Frame, node: code.Name) -> Value:
    name = node.id
    value = frame.variables.get(name) or frame.lookup(name)
    if value is None:
        if name in library.BUILTINS:
            return Reference(name)
        if name == "__file__" and frame.run.configurations:
            return Object(object_types.PATH, origin=str(frame.module.path))
        value = UNKNOWN
    return infer(frame, name, name) if value is UNKNOWN else value


def infer(frame: Frame, name: str, path: str) -> Value:
    """What a value of unknown origin is, by its name and by what the function does with it."""
    if path in frame.backpropagated:
        return naming.inferred_tensor(assumed_place(frame), keeps_graph=True)
    value = naming.infer(name)
    if isinstance(value, Object) and frame.module.facts.is_of_another_framework:
        return UNKNOWN
    if isinstance(value, Object) and value.type == object_types.MODEL and value.place is Place.UNKNOWN:
        return replace(value, place=assumed_place(frame))
    return value


def assumed_place(frame: Frame) -> Place:
    """Where a model of unknown origin lives: on the device, if this entry point uses one."""
    return Place.DEVICE if frame.run.entry.cuda is Known.YES else Place.UNKNOWN


def _constant(frame: Frame, node: code.Constant) -> Value:
    key = (node.value.__class__, node.value)
    known = _CONSTANTS.get(key)
    if known is None:
        known = _CONSTANTS[key] = Const(node.value)
    return known


_CONSTANTS: dict[tuple[type, object], Const] = {}


def _opaque(frame: Frame, node: code.Opaque) -> Value:
    return STRING if node.what == "template" else NUMBER if node.what in ("int", "complex") else OBJECT


# --------------------------------------------------------------------------------------------------- attributes


def _attribute(frame: Frame, node: code.Attribute) -> Value:
    if frame.backpropagated and dotted(node) in frame.backpropagated:
        known = attributes.read(frame, evaluate(frame, node.value), node.name)
        return (
            known if not isinstance(known, Unknown) else naming.inferred_tensor(assumed_place(frame), keeps_graph=True)
        )
    base = evaluate(frame, node.value)
    if node.name == "no_sync":
        # taken to be entered later: `context = nullcontext if last else model.no_sync`
        frame.run.entry.disables_sync = True
    return attributes.read(frame, base, node.name)


# ---------------------------------------------------------------------------------------------------- subscripts


def _subscript(frame: Frame, node: code.Subscript) -> Value:
    if isinstance(node.value, code.Attribute) and node.value.name in library.FRAME_INDEXERS:
        return _frame_item(frame, node, node.value)
    base = evaluate(frame, node.value)
    key = evaluate(frame, node.key)
    _index_sync(frame, node, base, key)
    keys = key.items if isinstance(key, Tuple) else (key,)
    if any(isinstance(one, Tensor) and one.boolean for one in keys):
        records.note_dynamic_shape(frame, node, base)
    return item_at(frame, base, key)


def _frame_item(frame: Frame, node: code.Subscript, indexer: code.Attribute) -> Value:
    """`table.iloc[…]`, `table.loc[…]`, or an attribute of something else that has such a name."""
    holder = evaluate(frame, indexer.value)
    key = evaluate(frame, node.key)
    if holder == FRAME:
        records.record_frame_access(frame, node, indexer.name, proved=True)
        single = isinstance(key, Tuple | Const) or key == NUMBER
        return UNKNOWN if single else FRAME
    base = attributes.read(frame, holder, indexer.name)
    if isinstance(base, Unknown | Method) and indexer.name == "iloc":
        records.record_frame_access(frame, node, indexer.name, proved=False)
    _index_sync(frame, node, base, key)
    keys = node.key.items if isinstance(node.key, code.Sequence) else ()
    selects = [key, *(evaluate_quietly(frame, one) for one in keys)]
    if any(isinstance(one, Tensor) and one.boolean for one in selects):
        records.note_dynamic_shape(frame, node, base)
    return item_at(frame, base, key)


def _index_sync(frame: Frame, node: code.Subscript, base: Value, key: Value) -> None:
    """Slice bounds on the device are read by the host; so are device numbers that index a Python list."""
    keys = node.key.items if isinstance(node.key, code.Sequence) else (node.key,)
    slices = [item for item in keys if isinstance(item, code.Slice)]
    if slices:
        for bound in [bound for item in slices for bound in (item.lower, item.upper) if bound is not None]:
            value = evaluate(frame, bound)
            if isinstance(value, Tensor) and not value.container:
                tensors.sync(frame, SyncKind.INDEX, node, value, bound)
                return
    elif isinstance(base, Listing | Tuple) and isinstance(key, Tensor) and not key.container and not _is_mask(key):
        tensors.sync(frame, SyncKind.INDEX, node, key, node.key)


def _is_mask(key: Tensor) -> bool:
    """Whether a tensor of several truths selects rows, of another tensor: no list takes one."""
    return key.boolean and not key.number


def item_at(frame: Frame, base: Value, key: Value) -> Value:
    """`base[key]`."""
    if isinstance(base, Choice):
        found: Value | None = None
        for option in base.options:
            one = item_at(frame, option, key)
            found = one if found is None else join(found, one)
        return UNKNOWN if found is None else found
    if isinstance(base, Tensor):
        # one item of a vector is a number, whose type gives way to that of others
        return replace(base, double=False) if base.double else base
    if isinstance(base, Tuple):
        if isinstance(key, Const) and isinstance(key.value, int) and -len(base.items) <= key.value < len(base.items):
            return base.items[key.value]
        return base if isinstance(key, Unknown) else iteration.item_of(frame, base)
    if isinstance(base, Table):
        if isinstance(key, Const) and isinstance(key.value, str):
            value = configurations.current(frame, base.get(key.value))
            return infer(frame, key.value, key.value) if isinstance(value, Unknown) else value
        values = [value for _, value in base.items] + ([base.rest] if base.rest is not None else [])
        parts = join_all(value for value in values if isinstance(value, Table)) if base.file else UNKNOWN
        # a part of the configuration, into which the program may put values
        return replace(parts, rest=UNKNOWN, file=base.file) if isinstance(parts, Table) else join_all(values)
    if isinstance(base, Listing):
        return base.item
    if isinstance(base, Option):
        return attributes.option_attribute(frame, base, str(key.value)) if isinstance(key, Const) else Option(base.name)
    if isinstance(base, Object):
        return _object_item(frame, base, key)
    if isinstance(base, Instance):
        member = classes.find_member(base.cls, "__getitem__")
        if isinstance(member, Function):
            return functions.call_function(frame, member, Given([base, key]), None)
    if isinstance(base, Host):
        # an item may be a scalar
        return replace(ARRAY, fetched=base.fetched) if base.kind == "array" else base if base == FRAME else UNKNOWN
    return UNKNOWN


def _object_item(frame: Frame, base: Object, key: Value) -> Value:
    if base.type == object_types.ENVIRONMENT:
        entry_facts.note_environment_read(frame, key)
        if isinstance(key, Const) and isinstance(key.value, str):
            name = key.value.lower()
            return Host("rank") if naming.RANK.search(name) else Host("world-size") if "world_size" in name else STRING
        return STRING
    if base.type == object_types.COMPUTED:
        return base
    if base.type == object_types.LIBRARY_DICT:
        return Reference(f"{base.origin}.{key.value if isinstance(key, Const) else 'any'}")
    if base.type == object_types.MODULE_DICT and isinstance(base.inner, ModuleValue):
        return _any_function(frame, base.inner.module, key)
    if base.type in (object_types.CHECKPOINT, object_types.STATE_DICT):
        return replace(base, inner=base)
    if base.type in (object_types.MODEL, object_types.HF_DATASET):
        return base
    if base.type in (object_types.ITERATOR, object_types.PROGRESS) and base.inner is not None:
        return item_at(frame, base.inner, key)
    return UNKNOWN


def _any_function(frame: Frame, module: ModuleState, key: Value) -> Value:
    """`module.__dict__[name]`: one of the functions or classes that the module itself defines."""
    if isinstance(key, Const) and isinstance(key.value, str):
        return module_runs.member_of_module(frame, module, key.value)
    module.whole = True
    found: list[Value] = []
    for name in module.units.binders:
        value = frame.run.find_global(module, name)
        if (
            isinstance(value, Function | Class)
            and value.module is module
            and value not in found
            and not name.startswith("_")
        ):
            found.append(value)
    functions = [value for value in found if isinstance(value, Function)]
    chosen = functions or found
    return join_all(chosen) if 0 < len(chosen) <= MOST_OPTIONS else UNKNOWN


def _slice(frame: Frame, node: code.Slice) -> Value:
    return OBJECT


# ------------------------------------------------------------------------------------------------------ operators


def _binary(frame: Frame, node: code.Binary) -> Value:
    left, right = evaluate(frame, node.left), evaluate(frame, node.right)
    if node.op == "%" and isinstance(left, Const | Host) and _is_string(left):
        tensors.format_sync(frame, node, right, node.right)
        return STRING
    if node.op == "+" and isinstance(left, Listing | Tuple) != isinstance(right, Listing | Tuple):
        return Listing(OBJECT)
    for value in (left, right):
        if isinstance(value, Tensor):
            other = right if value is left else left
            if node.op in _ELEMENTWISE:
                records.note_double(frame, node, left, right)
            clocks.note_work(frame, node, left, right)
            return tensors.combine(value, other)
    if node.op == "/" and isinstance(left, Object) and left.type == object_types.PATH:
        return configurations.joined(frame, [left, right])
    if node.op == "/" and PATH in (left, right):
        return PATH
    if node.op == "/" and isinstance(left, Reference | Object):
        return OBJECT
    if isinstance(left, Listing) and isinstance(right, Listing):
        return Listing(join(left.item, right.item), growing=left.growing or right.growing)
    if isinstance(left, Tuple) and isinstance(right, Tuple) and node.op == "+":
        return Tuple(left.items + right.items)
    arrays = [value for value in (left, right) if isinstance(value, Host) and value.kind == "array"]
    if arrays:
        whole = node.op in _ELEMENTWISE and any(array.whole for array in arrays)
        return Host("array", whole, fetched=any(array.fetched for array in arrays))
    if isinstance(left, Const | Host | Option | Test) and isinstance(right, Const | Host | Option | Test):
        if node.op == "%" and any(isinstance(value, Host) and value.kind == "rank" for value in (left, right)):
            return Host("rank")
        if isinstance(left, Const) and isinstance(right, Const):
            return _fold(node.op, left, right)
        if node.op == "-":
            clocks.note_elapsed(frame, left, right)
        return STRING if _is_string(left) or _is_string(right) else computed_number(frame, node.op, left, right)
    return UNKNOWN


def computed_number(frame: Frame, operator: str, left: Value, right: Value) -> Host:
    """The result of arithmetic on numbers of the host, with how the number of processes goes into it."""
    one, other = ranks_in(left), ranks_in(right)
    if not one and not other:
        return NUMBER
    if operator == "*":
        return Host("number", ranks=one + other)
    if operator in ("/", "//"):
        frame.run.entry.divides_by_ranks |= other > 0
        return Host("number", ranks=one - other)
    return NUMBER


def ranks_in(value: Value) -> int:
    """How often the number of processes, or of GPUs, is a factor of a number; see `Host.ranks`."""
    if isinstance(value, Host):
        return 1 if value.kind == "world-size" else value.ranks
    return 1 if isinstance(value, Option) and naming.WORLD_SIZE.search(value.name) else 0


_ELEMENTWISE = frozenset({"+", "-", "*", "/", "//", "%", "**"})
"""Operators that make an array of an array and anything else."""


def _is_string(value: Value) -> bool:
    return (isinstance(value, Const) and isinstance(value.value, str)) or (
        isinstance(value, Host) and value.kind == "string"
    )


def _fold(operator: str, left: Const, right: Const) -> Value:
    """Arithmetic on literals, as far as rules ask for it: batch sizes and worker counts."""
    one, other = left.value, right.value
    if isinstance(one, str) or isinstance(other, str):
        return STRING
    if not isinstance(one, int | float) or not isinstance(other, int | float):
        return NUMBER
    if operator == "+":
        return Const(one + other)
    if operator == "-":
        return Const(one - other)
    if operator == "*" and abs(one) < 1e9 and abs(other) < 1e9:
        return Const(one * other)
    return NUMBER


def _boolean(frame: Frame, node: code.Boolean) -> Value:
    return _boolean_ending(frame, node, evaluate)


def _boolean_ending(
    frame: Frame, node: code.Boolean, evaluate_last: Callable[[Frame, code.Expression], Value]
) -> Value:
    """The value of `a and b`: Python asks for the truth of all operands but the last, whose value it may be."""
    values: list[Value] = []
    outer = frame.where
    for position, operand in enumerate(node.values):
        last = position == len(node.values) - 1
        value = evaluate_last(frame, operand) if last else decide(frame, operand)
        if node.op == "and" and not last:
            holds = classification.classify(frame, operand).positive
            depth = len(outer.loops)
            frame.where = frame.where.guarded(*[Standing(kind, operand, depth) for kind in holds])
        values.append(value)
    frame.where = outer
    test = classification.classify(frame, node)
    if test.has_kinds:
        return test
    if node.op == "or" and values and isinstance(values[0], Const | Option):
        return join_all(values[1:]) if values[0] == NONE else _first_that_holds(values[0], values)
    if all(isinstance(value, Const | Host | Option | Test) for value in values):
        return NUMBER
    return values[-1] if node.op == "and" else join_all(values)


def _first_that_holds(first: Const | Option, values: list[Value]) -> Value:
    """`args.workers or 4`: the setting itself, with the default that it then has."""
    if isinstance(first, Option) and first.has_default:
        if first.default:
            return first
        rest = join_all(values[1:])
        if isinstance(rest, Const):
            return replace(first, default=rest.value)
    return join_all(values)


def evaluate_quietly(frame: Frame, node: code.Expression) -> Value:
    """The value of a name or attribute chain; nothing else is evaluated a second time."""
    if isinstance(node, code.Name | code.Attribute):
        return evaluate(frame, node)
    if isinstance(node, code.Call) and isinstance(node.function, code.Name | code.Attribute):
        callee = evaluate(frame, node.function)
        if dotted(node.function) in ("os.environ.get", "os.getenv") and node.arguments:
            return item_at(frame, Object(object_types.ENVIRONMENT), evaluate(frame, node.arguments[0].value))
        if isinstance(callee, Function):
            return conditions.guard_function(frame, callee)
        if isinstance(callee, Bound):
            return conditions.guard_function(frame, callee.function)
        if isinstance(callee, Reference) and callee.name in tensors.DEVICE_TESTS:
            return Test((GuardKind.DEVICE,), (GuardKind.NOT_DEVICE,), callee.name)
        if isinstance(callee, Reference) and callee.name == "torch.distributed.get_rank":
            return Host("rank")
    return UNKNOWN


def _unary(frame: Frame, node: code.Unary) -> Value:
    value = decide(frame, node.operand) if node.op == "not" else evaluate(frame, node.operand)
    if node.op == "not":
        return value.negated if isinstance(value, Test) else NUMBER
    if isinstance(value, Const) and node.op == "-" and isinstance(value.value, int | float):
        return Const(-value.value)
    return value


def _compare(frame: Frame, node: code.Compare) -> Value:
    values = [evaluate(frame, node.left)] + [evaluate(frame, operand) for operand in node.comparators]
    if any(operator in ("is", "is not") for operator in node.ops):
        test = classification.classify(frame, node)
        return test if test.has_kinds else NUMBER
    tensors.note_question(frame, *values)
    if any(operator in ("in", "not in") for operator in node.ops):
        numbers = isinstance(values[1], Listing | Tuple) and not _is_string(iteration.item_of(frame, values[1]))
        if isinstance(values[0], Tensor) and not values[0].container and numbers:
            tensors.sync(frame, SyncKind.BRANCH, node, values[0], node.left)
        return NUMBER
    folded = _folded(node.ops, values)
    if folded is not None:
        return folded
    # what is asked to equal something that is no tensor is none either
    other = node.ops[0] in ("==", "!=") and (OBJECT in values or PATH in values)
    textual = other or any(_is_string(value) for value in values)
    for value in () if textual else values:
        if isinstance(value, Tensor) and not value.container:
            return replace(value, keeps_graph=False, loader=None, double=False, boolean=True)
    test = classification.classify(frame, node)
    if test.has_kinds:
        return test
    if len(values) == 2 and isinstance(values[0], Tensor) and guards.is_number(values[1]):
        # what is compared with a number is a tensor, though it was taken out of a batch that may hold anything
        return replace(values[0], keeps_graph=False, loader=None, double=False, boolean=True)
    return NUMBER


def _folded(operators: tuple[str, ...], values: list[Value]) -> Const | None:
    """The result of comparing two literal strings, or a number with infinity; other literals may vary in loops."""
    if len(values) != 2 or operators[0] not in ("==", "!="):
        return None
    one, other = values
    if not isinstance(one, Const) or not isinstance(other, Const):
        return None
    strings = isinstance(one.value, str) and isinstance(other.value, str)
    infinite = any(
        isinstance(value.value, float) and value.value in (float("inf"), float("-inf")) for value in (one, other)
    )
    return Const((one.value == other.value) == (operators[0] == "==")) if strings or infinite else None


def _conditional(frame: Frame, node: code.Conditional) -> Value:
    test = decide(frame, node.test)
    known = guards.truth(test)
    if known is not None:
        return evaluate(frame, node.body if known else node.orelse)
    kinds = classification.classify_evaluated(frame, node.test, test)
    kinds = kinds.also(accidents.classify(node.test)).also(presence.switched_off(*presence.ruled_out(frame, node.test)))
    body = conditions.under_guards(frame, kinds.positive, node.test, lambda: _told(frame, node.test, True, node.body))
    orelse = conditions.under_guards(
        frame, kinds.negative, node.test, lambda: _told(frame, node.test, False, node.orelse)
    )
    if GuardKind.EXCEPTIONAL in kinds.positive + kinds.negative:
        return orelse if GuardKind.EXCEPTIONAL in kinds.positive else body
    if (
        isinstance(body, Const)
        and isinstance(body.value, str)
        and isinstance(orelse, Const)
        and isinstance(orelse.value, str)
    ):
        device = tensors.device_of_strings(body.value, orelse.value)
        if device is not None:
            return device
    if isinstance(body, Const) and isinstance(orelse, Const) and body != orelse and body != NONE and orelse != NONE:
        return Host("string") if isinstance(body.value, str) else Option("conditional")
    if isinstance(body, Const | Test) and isinstance(orelse, Const | Test):
        return NUMBER
    if isinstance(body, _CALLED) and isinstance(orelse, _CALLED):
        # a function for the CPU is not called with what lives on a GPU
        if GuardKind.NOT_DEVICE in kinds.negative:
            return body
        if GuardKind.NOT_DEVICE in kinds.positive:
            return orelse
    return (
        join(tensors.as_device(body) or body, tensors.as_device(orelse) or orelse)
        if DeviceValue in (type(body), type(orelse))
        else join(body, orelse)
    )


_CALLED = (Function, Bound, Partial, Reference)


def _told(frame: Frame, test: code.Expression, holds: bool, node: code.Expression) -> Value:
    """The value of one side of a conditional expression, with what the condition tells of variables' types."""
    told = narrowing.narrowed(frame, test, holds)
    before = {name: frame.variables[name] for name in told}
    frame.variables.update(told)
    try:
        return evaluate(frame, node)
    finally:
        frame.variables.update(before)


# ------------------------------------------------------------------------------------------------------- displays


def _sequence(frame: Frame, node: code.Sequence) -> Value:
    items: list[Value] = []
    for item in node.items:
        if isinstance(item, code.Starred):
            spread = evaluate(frame, item.value)
            items.extend(spread.items if isinstance(spread, Tuple) else [iteration.item_of(frame, spread)])
        else:
            items.append(evaluate(frame, item))
    if node.kind == "tuple" or (0 < len(items) <= 12 and node.kind == "list"):
        return Tuple(tuple(items))
    if not items:
        return Listing(UNKNOWN, growing=True, empty=True)
    return Listing(join_all(items), growing=node.kind == "list")


def _mapping(frame: Frame, node: code.Mapping) -> Value:
    items: dict[str, Value] = {}
    rest: Value | None = None
    file = ""
    for key, node_value in zip(node.keys, node.values, strict=True):
        value = evaluate(frame, node_value)
        if key is None:
            if not isinstance(value, Table) or value.rest is not None:
                items = configurations.perhaps_overridden(items)
            if isinstance(value, Table):
                items |= dict(value.items)
                file = file or value.file
            if not isinstance(value, Table) or value.rest is not None:
                # what is spread last counts, whichever keys it has
                items = {name: configurations.perhaps(one) for name, one in items.items()}
                rest = UNKNOWN
        elif isinstance(key, code.Constant) and isinstance(key.value, str):
            items[key.value] = value
        else:
            evaluate(frame, key)
            rest = value if rest is None else join(rest, value)
    return Table(tuple(items.items()), rest, file)


def _format(frame: Frame, node: code.Format) -> Value:
    for part in node.parts:
        tensors.format_sync(frame, node, evaluate(frame, part), part, site_of=part)
    return STRING


def _comprehension(frame: Frame, node: code.Comprehension) -> Value:
    saved = dict(frame.variables)
    iterated: Value = UNKNOWN
    works, waits = len(frame.run.works), frame.run.waits
    for clause in node.clauses:
        iterated = evaluate(frame, clause.iterable)
        assignment.assign(frame, clause.target, iteration.item_of(frame, iterated))
        for condition in clause.conditions:
            decide(frame, condition)
    element = evaluate(frame, node.element)
    if node.kind == "dict" and node.value is not None:
        value = evaluate(frame, node.value)
        frame.variables.clear()
        frame.variables.update(saved)
        return replace(value, container=True) if isinstance(value, Tensor) else Table((), value)
    frame.variables.clear()
    frame.variables.update(saved)
    if len(frame.run.works) > works and frame.run.waits == waits:
        elements.note_comprehension(frame, node, iterated, frame.run.works[works:])
    return Listing(element)


def _lambda(frame: Frame, node: code.Lambda) -> Value:
    return Function(frame.module, node, f"{frame.symbol}.<lambda>" if frame.symbol else "<lambda>", frame.row, frame)


def _yield(frame: Frame, node: code.Yield) -> Value:
    frame.yield_where = frame.where
    value = evaluate_optional(frame, node.value)
    if node.delegates:
        if isinstance(value, Generated):
            functions.run_generated(frame, value, frame.yields or frame.yielded.append)
            return UNKNOWN
        value = iteration.item_of(frame, value)
    if frame.yields is not None:
        frame.yields(value)
    else:
        frame.yielded.append(value)
    return UNKNOWN


def _await(frame: Frame, node: code.Await) -> Value:
    return evaluate(frame, node.value)


def _starred(frame: Frame, node: code.Starred) -> Value:
    return evaluate(frame, node.value)


def _walrus(frame: Frame, node: code.Walrus) -> Value:
    value = evaluate(frame, node.value)
    assignment.assign(frame, node.target, value)
    return value


def _call(frame: Frame, node: code.Call) -> Value:
    return calls.evaluate_call(frame, node)


def callee_of(frame: Frame, function: code.Expression) -> Value:
    """What a call calls: like evaluation, but a method of a library object is kept with its receiver."""
    if not isinstance(function, code.Attribute):
        return evaluate(frame, function)
    base = evaluate(frame, function.value)
    return attributes.method(frame, base, function.name)


_EVALUATORS: list[Callable[[Frame, Any], Value]] = [lambda frame, node: UNKNOWN] * len(code.NODE_TYPES)
for _node_type, _evaluator in (
    (code.Name, _name),
    (code.Constant, _constant),
    (code.Opaque, _opaque),
    (code.Attribute, _attribute),
    (code.Subscript, _subscript),
    (code.Slice, _slice),
    (code.Call, _call),
    (code.Binary, _binary),
    (code.Boolean, _boolean),
    (code.Unary, _unary),
    (code.Compare, _compare),
    (code.Conditional, _conditional),
    (code.Sequence, _sequence),
    (code.Mapping, _mapping),
    (code.Format, _format),
    (code.Comprehension, _comprehension),
    (code.Lambda, _lambda),
    (code.Yield, _yield),
    (code.Await, _await),
    (code.Starred, _starred),
    (code.Walrus, _walrus),
):
    _EVALUATORS[code.NODE_TYPES.index(_node_type)] = _evaluator
