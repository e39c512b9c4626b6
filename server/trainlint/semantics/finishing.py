"""From what the walk of one entry point kept to the records that rules see.

Only once all of an entry point has been walked is it known how often its code runs and what holds for all of it.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from trainlint.semantics import (
    accumulation,
    classes,
    contexts,
    entry_facts,
    library,
    naming,
    records,
    structures,
    unchanged,
)
from trainlint.semantics.context import Context
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import (
    AttentionByHand,
    BackwardPass,
    Call,
    Checkpoint,
    Collective,
    Concatenation,
    ConfigurationSetting,
    DeepSpeedConfiguration,
    DoubleArithmetic,
    DynamicShape,
    EarlyRead,
    ElementLoop,
    EnvironmentSetting,
    EvaluationForward,
    FileLoad,
    FrameAccess,
    KeptGraph,
    LoaderUse,
    NormalizedConvolution,
    Placement,
    Project,
    Report,
    Site,
    StepLoop,
    SyncPoint,
    Timing,
    Tokenization,
    Trainer,
    Transfer,
    Upload,
    Wrapping,
)
from trainlint.semantics.state import (
    IteratedByHand,
    LoopRun,
    Pending,
    Role,
    Run,
    Where,
)
from trainlint.semantics.values import Tensor, options
from trainlint.semantics.vocabulary import Framework, GuardKind, Known, Place, Region

_DISTRIBUTES = frozenset(
    [
        "init_process_group",
        "DistributedDataParallel",
        "DDP",
        "FullyShardedDataParallel",
        "fully_shard",
        "Accelerator",
        "Fabric",
        "deepspeed",
    ]
)
_CHOOSES_DEVICE = frozenset({"set_device", "set_device_idx", "set_device_index"})
_BATCH_NORMS = frozenset({"BatchNorm1d", "BatchNorm2d", "BatchNorm3d"})
_OTHER_BATCH_NORMS = frozenset({"SyncBatchNorm", "convert_sync_batchnorm", "convert_syncbn_model", "FrozenBatchNorm2d"})
_CONVOLUTIONS = frozenset({"Conv1d", "Conv2d", "Conv3d"})
_HALF = frozenset(
    """
    GradScaler amp autocast bf16 bfloat16 deepspeed float16 fp16 from_pretrained half mixed_precision precision scaler
    use_amp
    """.split()  # noqa: SIM905
)
_SWITCHES = frozenset({"GradScaler", "amp", "autocast", "bf16", "fp16", "mixed_precision", "scaler", "use_amp"})
"""Of these, what does nothing while it is switched off."""
_TF32 = frozenset({"allow_tf32", "fp32_precision", "set_float32_matmul_precision"})
_STARTS_PROCESSES = frozenset(
    """
    Popen Process ProcessPoolExecutor check_call check_output execv execve execvp notebook_launcher spawn
    start_processes subprocess system
    """.split()  # noqa: SIM905
)
_DOUBLE = frozenset({"double", "float64", "set_default_dtype"})
_TEXTS = frozenset({"text", "operand"})
"""Fields that hold lowered code until a record is made of them, since most never are."""


def _on_cpu(value: Any) -> Any:
    """A field of a record in a set-up that the configuration says has no accelerator."""
    if isinstance(value, Tensor) and value.place is Place.DEVICE:
        return replace(value, place=Place.HOST)
    return Place.HOST if value is Place.DEVICE else value


def _is_of_benchmarks(site: Site) -> bool:
    """Whether code stands in a file of benchmarks, by its name or that of its folder."""
    path = site.path
    return not naming.TRAINING.search(path.stem) and any(map(naming.BENCHMARK.search, (path.stem, path.parent.name)))


class Finisher:
    """Turns what one run kept into records with contexts."""

    def __init__(self, run: Run, project: Project) -> None:
        self.run = run
        self.project = project
        self._contexts: dict[int, tuple[Where, Context]] = {}
        self.lists: dict[type, list[Any]] = {
            Call: project.calls,
            SyncPoint: project.syncs,
            Report: project.reports,
            Transfer: project.transfers,
            EarlyRead: project.early_reads,
            Timing: project.timings,
            Upload: project.uploads,
            Tokenization: project.tokenizations,
            FrameAccess: project.frame_accesses,
            Trainer: project.trainers,
            KeptGraph: project.kept_graphs,
            DynamicShape: project.dynamic_shapes,
            ElementLoop: project.element_loops,
            DoubleArithmetic: project.double_arithmetic,
            Collective: project.collectives,
            Concatenation: project.concatenations,
            NormalizedConvolution: project.normalized_convolutions,
            AttentionByHand: project.attentions,
            Wrapping: project.wrappings,
            Placement: project.placements,
            BackwardPass: project.backward_passes,
            FileLoad: project.file_loads,
            EvaluationForward: project.evaluations,
            Checkpoint: project.checkpoints,
            EnvironmentSetting: project.environment,
            ConfigurationSetting: project.settings,
            DeepSpeedConfiguration: project.deepspeed,
        }

    def finish(self) -> None:
        self._settle_entry()
        self.project.entries.append(self.run.entry)
        structures.note_structures(self.run)
        self._leave_out_measured_loops()
        self._settle_passes()
        made = [record for record in map(self._make, list(self.run.pending.values())) if record is not None]
        made = [self._completed(record, made) for record in made]
        for record in made:
            self.lists[type(record)].append(record)
            if isinstance(record, Transfer) and record.value.loader is not None:
                record.value.loader.transfers.append(record)
        self._finish_loaders()
        self._finish_loops()

    def _leave_out_measured_loops(self) -> None:
        """A loop that runs backward passes and updates nothing, in a function named for evaluation or measurement, by
        calls of such functions alone or in a file of benchmarks, is no step loop: `def benchmark(…)`. Neither is one
        that tries steps out, on no data: `def probe_batch_size(…)`."""
        for loop in self.run.loops.values():
            if not loop.runs_step:
                continue
            name = loop.site.symbol.rpartition(".")[2]
            tries = naming.TRIES.search(name) and not loop.over_data
            in_measurement = naming.measures(name) or _is_of_benchmarks(loop.site)
            measured = in_measurement or (loop.backwards and loop.only_measured)
            if tries or (measured and not loop.updates):
                loop.runs_step = loop.trains = False

    def _settle_passes(self) -> None:
        """Which loops are passes over data is known once all of them were walked.

        A loop around a whole pass that trains holds steps and is none, though one algorithm of several makes its only
        update there: L-BFGS with a closure over all batches. After `model.eval()`, only a loop that calls a model
        evaluates.
        """
        for loop in self.run.loops.values():
            if loop.in_evaluation and not (loop.named_for_evaluation or loop.runs_forward):
                loop.in_evaluation = False
            is_pass = loop.runs_step and loop.over_data and loop.updates and loop.backwards
            if is_pass and loop.where is not None:
                loop.where.root.runs_passes = True
            outer = loop.parent if is_pass else None
            while outer is not None:
                if not (outer.over_data or outer.small):
                    outer.runs_step = False
                outer = outer.parent

    def _settle_entry(self) -> None:
        entry = self.run.entry
        options = self.run.options
        if options.device in ("cuda", "cpu"):
            entry.cuda = Known.YES if options.device == "cuda" else Known.NO
        entry.never_on_gpu = (
            options.device == "cpu"
            or entry.stays_on_cpu
            or (
                entry.cuda is not Known.YES
                and entry.framework is Framework.PYTORCH
                and self.run.training_places == {Place.HOST}
            )
        )
        entry.normalizes_batches = self._normalizes_batches()
        entry.names_convolutions = not self.run.mentions.isdisjoint(_CONVOLUTIONS)
        entry.names_half = entry.autocast or not self.run.mentions.isdisjoint(_HALF)
        entry.names_only_switches = self.run.mentions & _HALF <= _SWITCHES
        entry.starts_processes = not self.run.mentions.isdisjoint(_STARTS_PROCESSES)
        entry.names_tf32 = not self.run.mentions.isdisjoint(_TF32)
        entry.names_double = not self.run.mentions.isdisjoint(_DOUBLE)
        entry.chooses_device = entry.chooses_device or not self.run.mentions.isdisjoint(_CHOOSES_DEVICE)
        if options.distributed in ("true", "false"):
            entry.distributed = Known.YES if options.distributed == "true" else Known.NO
        elif (
            entry.distributed is Known.UNKNOWN
            and not self.run.mentions & _DISTRIBUTES
            and entry.framework is Framework.PYTORCH
        ):
            entry.distributed = Known.NO

    def _normalizes_batches(self) -> bool:
        run = self.run
        if not run.entry.trains or run.mentions & _OTHER_BATCH_NORMS:
            return False
        if any(name.rpartition(".")[2] in _BATCH_NORMS for name in run.started_from_nothing):
            return True
        if not run.mentions & _BATCH_NORMS:
            return False
        made = {instance.cls for instance in run.instances.values() if classes.is_module_class(instance.cls)}
        for cls in {cls for one in made for cls in classes.lineage(one)}:
            for path, index in run.interest.functions_named_by((cls.module.path, cls.define.name)):
                # what they name decides, so the answer depends on their bodies
                run.read.add((path, index))
                if run.facts[path].functions[index].mentions & _BATCH_NORMS:
                    return True
        return False

    def _make(self, pending: Pending) -> Any:
        make, fields, where = pending
        if make is EvaluationForward and fields["site"] in self.run.differentiated:
            # another model that is called there needs autograd
            return None
        fields = {
            name: self.run.nodes.text(value) if name in _TEXTS and not isinstance(value, str) else value
            for name, value in fields.items()
        }
        if self.run.options.device == "cpu":
            fields = {name: _on_cpu(value) for name, value in fields.items()}
        context = self._context(where)
        if make is records.kept_graph:
            return self._make_kept_graph(fields, where, context)
        if make is records.transfer:
            index = contexts.step_index(where)
            if index is None and where.root.role in (Role.STEP, Role.FORWARD):
                index = unchanged.FRAMEWORK_LOOP
            return make(context=context, step_index=index, **fields)
        if make in (records.checkpoint, records.loader_use, records.concatenation):
            return make(context=context, where=where, **fields)
        return make(context=context, **fields)

    def _make_kept_graph(self, fields: dict[str, Any], where: Where, context: Context) -> KeptGraph | None:
        if where.root.role is Role.FORWARD:
            # what a forward collects in loops of its own, it collects for its result
            return None
        is_loss, function = fields.pop("is_loss"), fields.pop("function")
        elsewhere = self._goes_on_elsewhere(fields["target"], is_loss, function)
        fields["backpropagated"] = fields["backpropagated"] or elsewhere
        index = _whole_step(where, contexts.step_index(where))
        if index is None and where.root.role is Role.STEP:
            index = unchanged.FRAMEWORK_LOOP
        if index is None and context.region is Region.EVALUATION:
            index = _loop_of_evaluation(where, is_loss)
        return records.kept_graph(context=context, step_index=index, **fields)

    def _goes_on_elsewhere(self, target: str, is_loss: bool, kept_by: tuple[Path, int] | None) -> bool:
        """Whether a function other than the one that puts a tensor into an attribute may run a backward pass from
        there, as the update after an episode does from the log probabilities of its actions.

        Of what is called a loss that is assumed where the other function runs a backward pass itself.
        """
        name = target.rpartition(".")[2]
        if name == target:
            return False
        for module in self.run.modules.values():
            module.whole = True
            for index, function in enumerate(module.facts.functions):
                if (module.path, index) == kept_by or function.qualname.endswith("__init__"):
                    continue
                goes_back = not is_loss or "backward" in function.mentions
                if goes_back and name in module.facts.words(index):
                    return True
        return False

    def _context(self, where: Where) -> Context:
        """The context of what ran under these circumstances; many records share them."""
        known = self._contexts.get(id(where))
        if known is None:
            known = self._contexts[id(where)] = where, contexts.context_of(where, self.run.entry, self.run.nodes)
        return known[1]

    @cached_property
    def bias_needed(self) -> bool:
        """Whether code uses biases of layers without asking whether they have one."""
        return structures.code_uses_biases(self.run)

    def _completed(self, record: Any, made: list[Any]) -> Any:
        """Fields that only the whole entry point tells."""
        entry = self.run.entry
        if isinstance(record, Checkpoint):
            # a model that starts from nothing or from a saved one may go on from what an earlier run has saved
            either = bool(self.run.started_from_saved & self.run.started_from_nothing)
            resumed = Known.YES if entry.resumes else Known.UNKNOWN if either else Known.NO
            elsewhere = "optimizer" in self.run.saved_kinds
            missing = tuple(kind for kind in ("optimizer",) if kind not in self.run.saved_kinds)
            return replace(record, resumed=resumed, optimizer_saved_elsewhere=elsewhere, missing=missing)
        if isinstance(record, NormalizedConvolution) and record.bias is Known.YES:
            return replace(record, bias_needed=self.bias_needed)
        if isinstance(record, FileLoad):
            return replace(record, restores_optimizer=entry_facts.place_key(record.site) in self.run.optimizer_files)
        if isinstance(record, Wrapping):
            other = next(
                (
                    item.library
                    for item in made
                    if isinstance(item, Wrapping)
                    and item is not record
                    and item.library != record.library
                    and item.library not in library.DATA_PARALLEL
                ),
                "",
            )
            used = self.run.wrapped_models.get(record.site)
            with_gradients = used is not None and used.with_gradients
            evaluated = record.for_evaluation or (used is not None and used.called)
            trains = entry.trains and (with_gradients or not evaluated)
            return replace(record, trains=trains, other_branch=other)
        return record

    def _finish_loaders(self) -> None:
        run = self.run
        for loader in run.loaders.values():
            loader.changes_between_epochs = any(
                id(option) in run.changed_datasets for option in options(loader.dataset)
            )
            loader.context = self._context(run.loader_where[id(loader)])
            self.project.loaders.append(loader)
        for sampler in run.samplers.values():
            sampler.context = self._context(run.sampler_where[id(sampler)])
            sampler.sets_epoch = sampler.sets_epoch or run.entry.sets_epoch
            self.project.samplers.append(sampler)
        for loader, trains in run.framework_loaders:
            region = Region.TRAINING if trains else Region.EVALUATION
            loader.uses.append(LoaderUse(loader.site, region, trains, loader.context))
        for iterated in run.hand_iterated:
            self._use_by_hand(iterated)

    def _use_by_hand(self, iterated: IteratedByHand) -> None:
        loader, where = iterated.loader, iterated.where
        context = self._context(where)
        if any(use.region is Region.TRAINING for use in loader.uses):
            return
        evaluation = context.region is Region.EVALUATION or (
            naming.EVALUATION.search(loader.name.rpartition(".")[2]) and "train" not in loader.name
        )
        region = Region.EVALUATION if evaluation or not self.run.entry.trains else Region.TRAINING
        rare = any(guard.kind is GuardKind.EXCEPTIONAL for guard in where.guards)
        restarts = iterated.again or (any(loop.holds_steps for loop in where.loops) and not rare)
        loader.uses.append(LoaderUse(loader.site, region, restarts, context))

    def _finish_loops(self) -> None:
        for loop in self.run.loops.values():
            accumulation.fold_micro_batches(loop)
        for loop in self.run.loops.values():
            if loop.runs_step and loop.where is not None and (loop.backwards or loop.updates):
                self.project.step_loops.append(self._step_loop(loop))

    def _step_loop(self, loop: LoopRun) -> StepLoop:
        assert loop.where is not None
        accumulates = accumulation.accumulates(loop)
        return StepLoop(
            site=loop.site,
            context=self._context(replace(loop.where, loops=(*loop.where.loops, loop))),
            backwards=list(loop.backwards),
            steps=list(loop.updates),
            accumulates=accumulates,
            accumulation_site=accumulation.first_of_several(loop) if accumulates else None,
            disables_sync=loop.no_sync or self.run.entry.disables_sync,
            model_wrapped=loop.wrapper or self.run.wrapper,
            managers=loop.where.managers,
            ends_early=loop.ends_early,
            turns=loop.turns,
        )


def _loop_of_evaluation(where: Where, is_loss: bool) -> int | None:
    """The innermost open loop, by index, whose turns are those of an evaluation; one that is not over data may as well
    go over the layers of one forward, unless it adds up losses."""
    for index in range(len(where.loops) - 1, -1, -1):
        loop = where.loops[index]
        if loop.over_data or (loop.in_evaluation and is_loss):
            return index
    return None


def _whole_step(where: Where, index: int | None) -> int | None:
    """The loop whose turn is a whole step: around a loop over micro-batches, which runs backward passes only, the one
    that updates."""
    while index is not None and index > 0 and not where.loops[index].updates:
        outer = next((one for one in range(index - 1, -1, -1) if where.loops[one].runs_step), None)
        if outer is None or not where.loops[outer].updates:
            break
        index = outer
    return index
