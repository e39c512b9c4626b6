"""Records of what is met: kept graphs, checkpoints, loops over loaders, calls, prints and logs, work of tokenizers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainlint.semantics import (
    backward_passes,
    classes,
    code,
    expressions,
    file_names,
    growing,
    library,
    naming,
    object_types,
    sameness,
    tensors,
    unchanged,
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.context import Context
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import (
    Call,
    Checkpoint,
    Collective,
    Concatenation,
    DoubleArithmetic,
    DynamicShape,
    FrameAccess,
    KeptGraph,
    Loader,
    LoaderUse,
    Report,
    ReportKind,
    Site,
    Tokenization,
    TokenizerWork,
    Transfer,
)
from trainlint.semantics.state import Frame, IteratedByHand, Role, Where
from trainlint.semantics.text import dotted, identifiers, last_word
from trainlint.semantics.values import (
    NONE,
    UNKNOWN,
    Choice,
    Const,
    Instance,
    Listing,
    Object,
    Option,
    Table,
    Tensor,
    Tuple,
    Value,
    is_reference,
)
from trainlint.semantics.vocabulary import Confidence, Frequency, GradMode, GuardKind, Place, Region


def pending_context(frame: Frame) -> Context:
    """A context to stand in until all loops of the entry point are known."""
    return Context(Frequency.ONCE, Region.SETUP, None, (), (), GradMode.UNKNOWN, frame.run.entry)


# ------------------------------------------------------------------------------------------------------ kept graphs


def kept_graph(
    *,
    context: Context,
    outlives: frozenset[int],
    step_index: int | None,
    bounded: bool,
    **fields: Any,
) -> KeptGraph | None:
    """A kept graph, if its target outlives the turn of the loop that makes the tensor."""
    if step_index is None or step_index not in outlives:
        return None
    if bounded:
        context = replace(context, confidence=Confidence.LOW)
    return KeptGraph(context=context, **fields)


def note_kept_graph(
    frame: Frame,
    node: code.Expression | None,
    target: code.Expression | None,
    added: code.Expression | None,
    value: Tensor,
) -> None:
    """Record that a tensor with its graph is added to something that may outlive the step."""
    in_loop = bool(frame.where.loops) or frame.where.root.role is Role.STEP
    if node is None or target is None or added is None or not value.keeps_graph or not in_loop:
        return
    path = dotted(target.value if isinstance(target, code.Subscript) else target)
    if not path:
        return
    frame.run.record(
        kept_graph,
        frame,
        "kept",
        site=frame.site(node.at),
        text=node,
        value_site=frame.site(added.at),
        target=path,
        backpropagated=path in frame.backpropagated or backward_passes.may_start(frame, path),
        function=_function_of(frame),
        outlives=_outlived_loops(frame, target, path),
        bounded=path in frame.run.reset_sums(frame),
        is_loss=value.number or any(naming.LOSS.search(last_word(one)) for one in (target, added)),
    )


def _function_of(frame: Frame) -> tuple[Path, int] | None:
    """The function that runs, by file and index of its body; None for a lambda, and at module level."""
    define = frame.function.define if frame.function is not None else None
    return (frame.module.path, define.body) if isinstance(define, code.Define) else None


def _outlived_loops(frame: Frame, target: code.Expression, path: str) -> frozenset[int]:
    """The open loops, by index, whose turns the target outlives."""
    count = len(frame.where.loops)
    first = unchanged.FRAMEWORK_LOOP if frame.where.root.role is Role.STEP else 0
    if isinstance(target, code.Name) or (isinstance(target, code.Subscript) and isinstance(target.value, code.Name)):
        name = path
        if name in frame.globals:
            return frozenset(range(first, count))
        before = frame.before_loops
        own = {frame.loop_base + offset for offset, names in enumerate(before) if name in names}
        enclosing = frame.enclosing is not None and name not in frame.variables
        return frozenset(own | (set(range(frame.loop_base)) if enclosing else set()))
    if frame.function is not None and path in frame.run.assigned_attributes(frame):
        return frozenset()
    return frozenset(range(first, count))


# ----------------------------------------------------------------------------------------------------------- types


def note_double(frame: Frame, node: code.Binary, left: Value, right: Value) -> None:
    """Record that a tensor of float64 meets another one on the device, in a program that asks for float64 nowhere."""
    if not isinstance(left, Tensor) or not isinstance(right, Tensor) or left.double == right.double:
        return
    double, other, operand = (left, right, node.left) if left.double else (right, left, node.right)
    meant = frame.run.mentions & {"double", "float64", "set_default_dtype"}
    if double.place is Place.DEVICE and other.place is Place.DEVICE and not double.registered and not meant:
        frame.run.record(
            DoubleArithmetic, frame, "double", site=frame.site(node.at), text=node, operand=operand, value=double
        )


# ---------------------------------------------------------------------------------------------------------- shapes


def note_dynamic_shape(frame: Frame, node: code.Expression, value: Value) -> None:
    """Record that the values of a tensor on the device decide a shape."""
    frame.run.note_possible_wait()
    if isinstance(value, Tensor) and value.place is Place.DEVICE:
        frame.run.record(DynamicShape, frame, "shape", site=frame.site(node.at), text=node, value=value)


# -------------------------------------------------------------------------------------------------------- transfers


def transfer(*, context: Context, step_index: int | None, unchanged_in: frozenset[int], **fields: Any) -> Transfer:
    """A transfer, with whether the loop that turned out to be the step loop repeats it."""
    return Transfer(context=context, repeated=step_index in unchanged_in, **fields)


# ------------------------------------------------------------------------------------------------------ collectives


def note_collective(frame: Frame, name: str, given: Given, node: code.Call | None) -> None:
    """Record that ranks wait for each other."""
    contributed = library.CONTRIBUTIONS.get(name)
    if node is None or contributed is None:
        return
    parameter, position = contributed
    value = NONE if not parameter else given.get(parameter, position) or UNKNOWN
    frame.run.record(
        Collective,
        frame,
        name,
        site=frame.site(node.at),
        text=node,
        name=name,
        value=value,
        figure=_figure(frame, name, value, given, position),
    )


def _figure(frame: Frame, name: str, value: Value, given: Given, position: int) -> Confidence | None:
    """How sure it is that a collective exchanges a figure to look at; see `Collective.figure`."""
    if name.endswith("gather_for_metrics"):
        return Confidence.HIGH
    exchanged = tensors.tensors_in(value)
    if not exchanged:
        return None
    if all(tensor.figure and not tensor.keeps_graph for tensor in exchanged):
        return Confidence.HIGH
    written = given.nodes[position].value if position < len(given.nodes) else None
    words = identifiers(written) if written is not None else []
    if all(tensor.keeps_graph and tensors.is_figure(tensor) for tensor in exchanged):
        return Confidence.HIGH if any(naming.LOSS.search(word) for word in words) else None
    named = any(naming.LOSS.search(word) or naming.METRIC.search(word) for word in words)
    detached = not any(tensor.keeps_graph or tensor.gradient or tensor.loader is not None for tensor in exchanged)
    return Confidence.MEDIUM if named and detached else None


# --------------------------------------------------------------------------------------------------- concatenations


def note_concatenation(frame: Frame, node: code.Assign) -> None:
    """Record that a variable which a loop only adds to is joined with what is new at each turn."""
    target = node.targets[0]
    if not frame.loop_bodies or len(node.targets) != 1 or not isinstance(target, code.Name):
        return
    joined = growing.joined_to(node)
    if joined is None or target.id not in frame.before_loops[-1]:
        return
    callee = expressions.evaluate_quietly(frame, joined.function)
    if is_reference(callee, *library.CONCATENATIONS) and growing.only_collects(frame.loop_bodies[-1], node):
        frame.run.record(
            concatenation, frame, "concatenation", site=frame.site(joined.at), text=joined, target=target.id
        )


def concatenation(*, context: Context, where: Where, **fields: Any) -> Concatenation:
    """A concatenation, with what its loop turned out to be."""
    loop = where.loops[-1]
    return Concatenation(context=context, loop=loop.site, ends_early=loop.ends_early, turns=loop.turns, **fields)


# ------------------------------------------------------------------------------------------------------ checkpoints


def note_checkpoint(frame: Frame, given: Given, node: code.Call | None) -> None:
    """Record a save, with which training state it holds."""
    content = given.get("obj", 0)
    if node is None or content is None:
        return
    kinds = state_kinds(content)
    frame.run.saved_kinds |= kinds
    frame.run.record(
        checkpoint,
        frame,
        "save",
        site=frame.site(node.at),
        text=node,
        content=content,
        holds_model="model" in kinds,
        holds_optimizer="optimizer" in kinds,
        same_file=file_names.same_on_all_ranks(frame, _argument(node, "f", 1)),
        stands_alone=frame.standing_alone == node.at,
    )


def _argument(node: code.Call, name: str, position: int) -> code.Expression | None:
    """The expression that a call passes for a parameter; None where it cannot be told, or is left out."""
    if any(argument.star for argument in node.arguments):
        return None
    named = (argument.value for argument in node.arguments if argument.keyword == name)
    positional = [argument.value for argument in node.arguments if argument.keyword is None]
    return next(named, positional[position] if position < len(positional) else None)


def checkpoint(*, context: Context, where: Where, **fields: Any) -> Checkpoint:
    """A checkpoint is periodic if it is written from a loop that trains."""
    periodic = any(loop.runs_step or loop.holds_steps for loop in where.loops)
    # a better score decides when most checkpoints are written; that does not make them doubtful
    return Checkpoint(context=replace(context, confidence=Confidence.HIGH), periodic=periodic, **fields)


def state_kinds(value: Value, key: str = "", depth: int = 0) -> set[str]:
    """Which training state a saved value holds: "model", "optimizer", "scheduler", "scaler"."""
    if depth > 4:
        return set()
    if isinstance(value, Table):
        kinds: set[str] = set()
        for name, item in value.items:
            kinds |= state_kinds(item, name, depth + 1)
        return kinds | (_kinds_by_name("optimizer") if value.rest is not None and not value.items else set())
    if isinstance(value, Choice | Tuple):
        inner = value.options if isinstance(value, Choice) else value.items
        return set().union(*(state_kinds(item, key, depth + 1) for item in inner))
    if isinstance(value, Object) and value.type == object_types.STATE_DICT and isinstance(value.inner, Object):
        by_type = {
            object_types.OPTIMIZER: "optimizer",
            object_types.SCHEDULER: "scheduler",
            object_types.SCALER: "scaler",
            object_types.MODEL: "model",
        }
        kind = by_type.get(value.inner.type, "model")
        return _kinds_by_name(key) or {kind} if kind == "model" else {kind}
    if isinstance(value, Instance) and classes.is_module_class(value.cls):
        return {"model"}
    if isinstance(value, Object) and value.type in (object_types.MODEL, object_types.OPTIMIZER):
        return {"model"} if value.type == object_types.MODEL else {"optimizer"}
    if isinstance(value, Option):
        return _kinds_by_name(key)
    return _kinds_by_name(key)


def _kinds_by_name(key: str) -> set[str]:
    lower = key.lower()
    if "optim" in lower or lower in ("opt", "opt_state"):
        return {"optimizer"}
    if "sched" in lower:
        return {"scheduler"}
    if "scaler" in lower:
        return {"scaler"}
    if "state_dict" in lower or "model" in lower or lower in ("net", "weights"):
        return {"model"}
    return set()


# ------------------------------------------------------------------------------------------------------------ loops


def loader_use(
    *, context: Context, where: Where, site: Site, loop: Any, loader: Any, epoch_name: str, name: str
) -> None:
    """Attach a loop to the loader it iterates; the region follows from what the loop turned out to be."""
    region = Region.TRAINING if loop is not None and loop.runs_step else context.region
    if loop is None and context.region is Region.TRAINING:
        region = Region.TRAINING
    elif loop is not None and not loop.runs_step:
        region = Region.EVALUATION if not (loop.holds_steps and loop.loader is not None) else Region.TRAINING
    outer = [item for item in where.loops if not item.small]
    rare = any(guard.kind in (GuardKind.EXCEPTIONAL, GuardKind.FIRST) for guard in where.guards)
    epoch_loop = outer[-1].site if outer else None
    loader.uses.append(LoaderUse(site, region, bool(outer) and not rare, context, epoch_loop, epoch_name, name))


def note_loop(frame: Frame, loop: Any, loader: Object, name: str) -> None:
    """Record that a loop goes over a loader."""
    if loader.fact is None:
        return
    outer = frame.where.loops
    epoch_name = outer[-1].counter if outer else ""
    if outer and len(outer) - 1 < frame.loop_base:
        name = _name_in_caller(frame, loader, len(outer) - 1)
    frame.run.record(
        loader_use,
        frame,
        ("use", id(loader.fact)),
        site=loop.site,
        loop=loop,
        loader=loader.fact,
        epoch_name=epoch_name,
        name=name,
    )


def _name_in_caller(frame: Frame, loader: Object, index: int) -> str:
    """What the function that holds the loop `index` calls the loader; empty if it has no name there."""
    holder: Frame | None = frame
    while holder is not None and holder.loop_base > index:
        holder = holder.caller
    for name, value in holder.variables.items() if holder is not None else ():
        if isinstance(value, Object) and value.fact is loader.fact:
            return name
    return ""


def note_iteration(frame: Frame, loader: Object) -> None:
    """Record that an iterator over a loader is made by hand: `iter(loader)`."""
    if not isinstance(loader.fact, Loader):
        return
    frame.run.hand_iterated.append(IteratedByHand(loader.fact, frame.where, again=False))


# ------------------------------------------------------------------------------------- calls, prints, tokenizers


def record_call(frame: Frame, name: str, given: Given, node: code.Call | None, receiver: Value | None = None) -> None:
    """Record a call of a library function that rules ask for by name."""
    if node is None:
        return
    frame.run.record(
        Call,
        frame,
        name,
        name=name,
        site=frame.site(node.at),
        text=node,
        arguments=given.arguments(name),
        receiver=receiver,
        stands_alone=frame.standing_alone == node.at,
        one_of_several=frame.choosing == node.at,
        same_each_time=is_made_per_item(frame, name) and _same_each_time(frame, name, node),
        varies_by_item=is_made_per_item(frame, name)
        and not is_cached(frame)
        and sameness.by_item(frame, node, of_path=name.startswith(_METHODS_OF_PATHS)),
        numpy=_name_of_numpy(frame) if name in _TAKE_ARRAYS else "",
    )


def _same_each_time(frame: Frame, name: str, node: code.Call) -> bool:
    """Whether what a call opens or makes is the same each time; a method of a path opens that path."""
    path = code.receiver_of(node) if name.startswith(_METHODS_OF_PATHS) else None
    return sameness.same_call(frame, node) and (path is None or sameness.same(frame, path))


_METHODS_OF_PATHS = "pathlib.Path."


def record_path_read(frame: Frame, method: str, given: Given, node: code.Call | None) -> None:
    """Record that a method of a path opens its file, in code that runs for the items of a dataset."""
    name = _METHODS_OF_PATHS + method
    if method in library.PATH_READERS and is_made_per_item(frame, name):
        record_call(frame, name, given, node)


def is_made_per_item(frame: Frame, name: str) -> bool:
    """Whether a call opens a file or makes a costly object in code that runs for the items of a dataset."""
    per_item = frame.where.root.role in (Role.SAMPLE, Role.COLLATE)
    return per_item and bool(library.FILE_READERS.match(name) or library.OBJECT_MAKERS.match(name))


_TAKE_ARRAYS = frozenset({"torch.tensor", "torch.as_tensor"})


def _name_of_numpy(frame: Frame) -> str:
    names = (name for name in ("np", "numpy") if is_reference(frame.lookup(name) or UNKNOWN, "numpy"))
    return next(names, "")


def record_report(
    frame: Frame,
    kind: ReportKind,
    name: str,
    given: Given,
    node: code.Call | None,
    *,
    rank_aware: bool = False,
    speaker: str = "",
) -> None:
    """Record a print or a log; what is printed is read from the device if it lives there."""
    if node is None:
        return
    entry = frame.run.entry
    aware = (
        rank_aware
        or (kind is ReportKind.PRINT and entry.rank_aware_print)
        or (kind is ReportKind.LOGGER and entry.silent_loggers)
    )
    frame.run.record(
        Report,
        frame,
        name,
        kind=kind,
        site=frame.site(node.at),
        text=node,
        name=name,
        arguments=given.arguments(name),
        rank_aware=aware,
        only_reads=all(_only_reads(argument.value) for argument in node.arguments),
        names_rank=any(_mentions_rank(argument.value) for argument in node.arguments),
        stands_alone=frame.standing_alone == node.at,
        speaker=speaker,
    )
    if kind is ReportKind.TRACKER and name.startswith("pytorch_lightning."):
        # Lightning keeps tensors that are logged on the device, and reads them when it logs
        return
    for argument, value in zip(node.arguments, given.all(), strict=False):
        tensors.format_sync(frame, node, value, argument.value)


_READS = frozenset(
    {"len", "float", "int", "str", "bool", "round", "min", "max", "sum", "abs", "repr", "format", "join", "time"}
    | {"perf_counter", "now", "strftime", "item", "tolist", "cpu", "numpy", "detach", "mean", "norm", "get_last_lr"}
    | {"get", "keys", "items", "values", "lower", "upper", "strip", "size", "argmax", "basename", "dumps", "isoformat"}
    | {"memory_allocated", "max_memory_allocated", "get_lr", "get_rank", "get_world_size"}
)
"""Calls that change nothing, so that a line of output may be left out with them."""


def _only_reads(node: code.Expression) -> bool:
    return all(last_word(item.function) in _READS for item in code.walk(node) if isinstance(item, code.Call))


def _mentions_rank(node: code.Expression) -> bool:
    return any(
        naming.RANK.search(item.id if isinstance(item, code.Name) else item.name)
        for item in code.walk(node)
        if isinstance(item, code.Name | code.Attribute)
    )


def _is_computed(value: Value | None, node: code.Expression) -> bool:
    """Whether a value is a tensor that a model has computed, or a part of an array: no text."""
    sliced = isinstance(node, code.Subscript) and isinstance(node.key, code.Sequence)
    return sliced or (isinstance(value, Tensor) and value.keeps_graph and value.loader is None)


def record_tokenization(
    frame: Frame, kind: str, method: str, given: Given, node: code.Call | None, tokenizer: str = ""
) -> None:
    """Record work of a tokenizer of the library `kind`."""
    if node is None or given.keywords.get("tokenize") == Const(False):
        return
    work = (
        TokenizerWork.DECODE
        if method in library.DECODING_METHODS
        else TokenizerWork.PAD
        if method in library.PADDING_METHODS
        else TokenizerWork.ENCODE
    )
    first = given.get("text", 0)
    if work is TokenizerWork.ENCODE and node.arguments and _is_computed(first, node.arguments[0].value):
        # what is called so in models of audio and images turns features into codes
        return
    frame.run.record(
        Tokenization,
        frame,
        "tokenize",
        site=frame.site(node.at),
        text=node,
        library=kind,
        work=work,
        arguments=given.arguments(),
        cached=is_cached(frame),
        tokenizer=tokenizer,
        generated=_is_generated(first),
        fixed=isinstance(first, Const) or (bool(node.arguments) and _is_fixed(frame, node.arguments[0].value)),
        part_of_another=_does_the_work_of_another(frame),
    )


def _is_fixed(frame: Frame, node: code.Expression) -> bool:
    """Whether a text is the same for every item: a token of the tokenizer's own, or one that the code makes up."""
    return _is_special_token(node) or sameness.made_of_its_own(frame, node)


def _is_special_token(node: code.Expression) -> bool:
    """`tokenizer.unk_token`, `self.tokenizer.eos_token`."""
    if not isinstance(node, code.Attribute) or not node.name.endswith("_token"):
        return False
    return naming.TOKENIZER.search(dotted(node.value).rpartition(".")[2])


def _does_the_work_of_another(frame: Frame) -> bool:
    """Whether a tokenizer of the project that was called, and recorded then, is at work."""
    inside: Frame | None = frame
    while inside is not None:
        function, caller = inside.function, inside.caller
        if (
            function is not None
            and isinstance(function.define, code.Define)
            and function.define.name in ("__call__", *library.ENCODING_METHODS)
            and function.owner is not None
            and classes.is_tokenizer(function.owner)
            and inside.called_by is not None
            and (caller is None or caller.function is None or caller.function.owner is not function.owner)
        ):
            return True
        inside = caller
    return False


def record_frame_access(frame: Frame, node: code.Expression, how: str, *, proved: bool) -> None:
    """Record that pandas looks up rows, or goes through them one by one."""
    frame.run.record(
        FrameAccess,
        frame,
        how,
        site=frame.site(node.at),
        text=node,
        how=how,
        proved=proved,
        cached=is_cached(frame),
    )


def _is_generated(value: Value | None) -> bool:
    if isinstance(value, Listing):
        value = value.item
    return isinstance(value, Object) and value.type == object_types.GENERATED_TEXT


def is_cached(frame: Frame) -> bool:
    """Whether the function that tokenizes keeps its results: an lru_cache, or a dictionary looked up first."""
    function = frame.function
    if function is None:
        return False
    caches = ("functools.lru_cache", "functools.cache", "lru_cache", "cachetools.cached")
    decorated = any(
        is_reference(item, *caches) or (isinstance(item, Object) and item.type == object_types.CACHE)
        for item in function.decorators
    )
    return decorated or any(_looks_up(guard.test) for guard in frame.where.guards)


def _looks_up(test: object) -> bool:
    """Whether a condition asks a cache: `if key not in self.kept:`, or one that says so in a name."""
    if isinstance(test, code.Compare) and "not in" in test.ops:
        return True
    return any(
        "cache" in (item.id if isinstance(item, code.Name) else item.name).lower()
        for item in code.walk(test)
        if isinstance(item, code.Name | code.Attribute)
    )
