"""Data loaders, their samplers and their datasets."""

from __future__ import annotations

from trainlint.semantics import (
    classes,
    code,
    frameworks,
    library,
    object_lists,
    object_types,
    records,
    repetition,
    sameness,
    sharding,
    transforms,
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import DatasetKind, Loader, Sampler
from trainlint.semantics.state import Frame, Role
from trainlint.semantics.text import called_name, describe, last_word
from trainlint.semantics.values import (
    NONE,
    UNKNOWN,
    Function,
    Host,
    Instance,
    Listing,
    Object,
    Tensor,
    Tuple,
    Value,
    join_all,
    options,
)
from trainlint.semantics.vocabulary import Known


def make_loader(frame: Frame, given: Given, node: code.Call | None, name: str, *, exact: bool = True) -> Value:
    """A DataLoader: a record that its uses join, and a value that loops recognize."""
    if node is None:
        return Object(object_types.LOADER)
    arguments = given.arguments("torch.utils.data.DataLoader")
    if not exact or name != "torch.utils.data.DataLoader":
        arguments = replace(arguments, complete=False)
    key = (frame.site(node.at), frame.where.calls, arguments.named.get("dataset"))
    loader = frame.run.loaders.get(key)
    if loader is None:
        loader = frame.run.loaders[key] = Loader(
            frame.site(node.at), records.pending_context(frame), describe(node), arguments, library=name
        )
        frame.run.loader_where[id(loader)] = frame.where
    loader.arguments = arguments
    loader.same_each_time = sameness.same_call(frame, node)
    dataset = arguments.value("dataset") or UNKNOWN
    loader.dataset = dataset
    loader.dataset_kind, loader.works_per_item = dataset_facts(frame, dataset)
    if loader.dataset_kind is DatasetKind.MAP:
        loader.object_lists = object_lists.object_lists(frame, dataset)
    if loader.dataset_kind is DatasetKind.ITERABLE:
        loader.repeats = repetition.repeats(frame, dataset)
    if (
        isinstance(dataset, Object)
        and dataset.origin in library.IN_MEMORY_DATASETS
        and isinstance(dataset.inner, Tensor)
    ):
        loader.item_place = dataset.inner.place
    for argument in node.arguments:
        if argument.keyword == "dataset" or (argument.keyword is None and argument is node.arguments[0]):
            loader.dataset_text = describe(argument.value)
            loader.sharded_dataset = loader.sharded_dataset or sharding.may_be_a_part(frame, dataset, argument.value)
    chosen = _sampler_argument(node)
    if chosen is not None:
        loader.sampler_text = describe(chosen)
        loader.sampler_may_be_none = _may_hold_none(frame, chosen)
    _join_sampler(loader, [arguments.value("sampler"), arguments.value("batch_sampler")])
    frameworks.run_dataset(frame, dataset, loader)
    transforms.join_loader(frame, loader, dataset)
    collate = arguments.value("collate_fn")
    if collate is not None:
        frameworks.run_collate(frame, collate, loader)
    worker_init = arguments.value("worker_init_fn")
    if worker_init is not None:
        frameworks.run_worker_init(frame, worker_init, loader)
    return Object(object_types.LOADER, fact=loader)


def _sampler_argument(node: code.Call) -> code.Expression | None:
    """The expression for the sampler, or the batch sampler, in a call that makes a loader."""
    named = {argument.keyword: argument.value for argument in node.arguments if argument.keyword is not None}
    for name in ("sampler", "batch_sampler"):
        position = library.PARAMETERS["torch.utils.data.DataLoader"].index(name)
        leading = node.arguments[: position + 1]
        if name in named:
            return named[name]
        if len(leading) > position and not any(one.star or one.keyword for one in leading):
            return leading[position].value
    return None


def _may_hold_none(frame: Frame, node: code.Expression) -> bool:
    """Whether an expression may be None for all that the function around it says: what is known of a variable leaves
    out the branch that puts None in it."""
    if isinstance(node, code.Call | code.Sequence):
        return False
    if not isinstance(node, code.Name):
        return True
    bound = [
        one.value
        for one in sharding.assignments(frame)
        if any(isinstance(target, code.Name) and target.id == node.id for target in one.targets)
    ]
    return len(bound) != 1 or not isinstance(bound[0], code.Call | code.Sequence)


def _join_sampler(loader: Loader, values: list[Value | None]) -> None:
    """Connect a loader with its sampler; of several that it may get, the one that shards."""
    found: list[Sampler] = []
    for value in values:
        for option in options(value) if value is not None else ():
            inner: Value | None = option.sampler if isinstance(option, Instance) else option
            while (
                isinstance(inner, Object)
                and inner.type == object_types.SAMPLER
                and inner.fact is None
                and inner.inner is not None
            ):
                inner = inner.inner
            if isinstance(inner, Object) and isinstance(inner.fact, Sampler):
                found.append(inner.fact)
    if found:
        loader.sampler = next((sampler for sampler in found if sampler.shards), found[0])
        if loader not in loader.sampler.loaders:
            loader.sampler.loaders.append(loader)


def make_sampler(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    """A sampler: a record that its loader joins, and a value."""
    wrapped = given.get("sampler", 0)
    if name == "torch.utils.data.BatchSampler" and isinstance(wrapped, Object) and wrapped.type == object_types.SAMPLER:
        return Object(object_types.SAMPLER, origin=name, inner=wrapped)
    if node is None:
        return Object(object_types.SAMPLER, origin=name)
    key = (frame.site(node.at), frame.where.calls)
    sampler = frame.run.samplers.get(key)
    if sampler is None:
        sampler = Sampler(
            site=frame.site(node.at),
            context=records.pending_context(frame),
            library=name,
            arguments=given.arguments(name),
            shards=name in library.SHARDING_SAMPLERS or "istributed" in name,
        )
        frame.run.samplers[key] = sampler
        frame.run.sampler_where[id(sampler)] = frame.where
    sampler.arguments = given.arguments(name)
    return Object(object_types.SAMPLER, origin=name, fact=sampler)


def note_set_epoch(frame: Frame, receiver: Object) -> None:
    """`set_epoch` of a sampler, or of the loader that holds it."""
    frame.run.entry.sets_epoch = True
    fact = receiver.fact
    if isinstance(fact, Sampler):
        fact.sets_epoch = True
    elif isinstance(fact, Loader) and fact.sampler is not None:
        fact.sampler.sets_epoch = True


def make_dataset(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    """A dataset of a library; the transforms that it is given run for each item."""
    for keyword in ("transform", "target_transform", "transforms"):
        _run_transforms(frame, given.keywords.get(keyword))
    if name in library.DATASET_WRAPPERS:
        return Object(object_types.DATASET, origin=name, inner=given.first())
    if name == "torch.utils.data.random_split":
        whole = Object(
            object_types.DATASET,
            origin="torch.utils.data.Subset",
            inner=given.first(),
        )
        return Listing(whole)
    return Object(
        object_types.DATASET,
        origin=name,
        inner=join_all(given.positional) if name in library.IN_MEMORY_DATASETS else None,
        fact=transforms.given_to_dataset(frame, given),
    )


def _run_transforms(frame: Frame, value: Value | None) -> None:
    """What a dataset of a library applies to each item."""
    if isinstance(value, Object) and value.type == object_types.TRANSFORM:
        _run_transforms(frame, value.inner)
    elif isinstance(value, Tuple):
        for item in value.items:
            _run_transforms(frame, item)
    elif value is not None:
        frameworks.run_per_item(frame, [value], Role.SAMPLE)


def dataset_facts(frame: Frame, dataset: Value) -> tuple[DatasetKind, Known]:
    """What kind of dataset this is, and whether it works for each item."""
    kinds = [_one_dataset(frame, option) for option in options(dataset) if option != NONE]
    if not kinds:
        return DatasetKind.UNKNOWN, Known.UNKNOWN
    kind = kinds[0][0] if all(item[0] is kinds[0][0] for item in kinds) else DatasetKind.UNKNOWN
    works = kinds[0][1] if all(item[1] is kinds[0][1] for item in kinds) else Known.UNKNOWN
    return kind, works


def _one_dataset(frame: Frame, dataset: Value) -> tuple[DatasetKind, Known]:
    if isinstance(dataset, Object):
        if dataset.origin in library.IN_MEMORY_DATASETS:
            return DatasetKind.IN_MEMORY, Known.NO
        if dataset.origin in library.DATASET_WRAPPERS and dataset.inner is not None:
            return dataset_facts(frame, dataset.inner)
        if dataset.type == object_types.HF_DATASET or library.TORCHVISION_DATASETS.match(dataset.origin):
            return DatasetKind.MAP, Known.YES
        return DatasetKind.UNKNOWN, Known.UNKNOWN
    if isinstance(dataset, Instance):
        names = classes.library_bases(dataset.cls)
        if any(name.endswith("IterableDataset") for name in names):
            return DatasetKind.ITERABLE, Known.NO if _is_fed(frame, dataset) else Known.YES
        getter = classes.find_member(dataset.cls, "__getitem__")
        if isinstance(getter, Function):
            return DatasetKind.MAP, _works(frame, getter)
        if any(library.TORCHVISION_DATASETS.match(name) for name in names):
            return DatasetKind.MAP, Known.YES
        return DatasetKind.UNKNOWN, Known.UNKNOWN
    if isinstance(dataset, Listing | Tuple | Tensor):
        return DatasetKind.IN_MEMORY, Known.NO
    if isinstance(dataset, Host) and dataset.kind == "array":
        return DatasetKind.IN_MEMORY, Known.NO
    return DatasetKind.UNKNOWN, Known.UNKNOWN


def _is_fed(frame: Frame, dataset: Instance, depth: int = 3) -> bool:
    """Whether an iterable dataset hands on what others put into a queue, so that no worker of its own could make it
    any sooner; datasets that it goes over included."""
    defined = [
        (member.module, member.define)
        for cls in classes.lineage(dataset.cls)
        for member in cls.members.values()
        if isinstance(member, Function)
    ]
    bodies = (frame.run.body(module, define.body) for module, define in defined if isinstance(define, code.Define))
    if any(_takes_from_queue(item) for body in bodies for item in code.walk(body)):
        return True
    inner = (value for value in dataset.attributes.values() if isinstance(value, Instance))
    return depth > 0 and any(_is_fed(frame, one, depth - 1) for one in inner if classes.is_dataset_class(one.cls))


def _takes_from_queue(node: object) -> bool:
    if not isinstance(node, code.Call) or not isinstance(node.function, code.Attribute):
        return False
    return node.function.name in _TAKING and "queue" in last_word(node.function.value).lower()


_TAKING = frozenset({"get", "get_nowait", "recv"})
"""Methods that take something out of a queue."""

_IDLE = {
    "len",
    "int",
    "tensor",
    "as_tensor",
    "from_numpy",
    "float",
    "long",
    "is_tensor",
    "isinstance",
    "LongTensor",
    "FloatTensor",
    "tolist",
    "dict",
    "items",
    "Tensor",
    "unsqueeze",
}


def _works(frame: Frame, getter: Function) -> Known:
    """Whether `__getitem__` does more than hand out what is in memory."""
    if not isinstance(getter.define, code.Define):
        return Known.UNKNOWN
    body = frame.run.body(getter.module, getter.define.body)
    for item in code.walk(body):
        if isinstance(item, code.Call) and called_name(item.function) not in _IDLE:
            return Known.YES
        if isinstance(item, code.For | code.While | code.Comprehension):
            return Known.YES
    return Known.NO


def note_dataset_change(frame: Frame, instance: Instance) -> None:
    """A dataset whose method is called in a loop, or whose attribute is set there, changes between epochs."""
    owner = frame.function.owner if frame.function is not None else None
    if owner is not instance.cls and classes.is_dataset_class(instance.cls):
        frame.run.changed_datasets.add(id(instance))
