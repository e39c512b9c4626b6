"""The words of the model as `trainlint explain` says them: what stands at a row, and what a rule is told of it.

What has no words here is called by its name.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from enum import Enum
from typing import Any

from trainlint.lint.questions import Question
from trainlint.report.paths import text_of
from trainlint.semantics.context import Site
from trainlint.semantics.values import Const, Host, Option, Unknown
from trainlint.semantics.vocabulary import Confidence, Frequency, GradMode, GuardKind, Known, Place

KINDS = {
    "calls": "a call of",
    "syncs": "a read of a tensor's value",
    "reports": "output",
    "transfers": "a transfer",
    "uploads": "an upload of host values",
    "early_reads": "a read of a copy under way",
    "timings": "a time that is taken",
    "loaders": "a loader",
    "samplers": "a sampler",
    "tokenizations": "a tokenizer's work",
    "frame_accesses": "a look-up in a table of pandas",
    "trainers": "a trainer",
    "kept_graphs": "a value kept with its graph",
    "dynamic_shapes": "a shape that values decide",
    "element_loops": "a loop over the items of a tensor",
    "double_arithmetic": "arithmetic in float64",
    "collectives": "a call that ranks wait for each other in",
    "concatenations": "a concatenation in a loop",
    "normalized_convolutions": "a convolution before a normalization",
    "attentions": "an attention that is written out",
    "wrappings": "a wrapper of a model",
    "placements": "a model moved to a device",
    "step_loops": "a step loop",
    "backward_passes": "a backward pass",
    "evaluations": "a forward pass",
    "checkpoints": "a checkpoint",
    "file_loads": "a file that is loaded",
    "name_uses": "a mention of",
    "environment": "a setting of the environment:",
    "settings": "a setting of a configuration:",
    "deepspeed": "a configuration of DeepSpeed",
}
"""What the records of each list of a project are."""

GUARDS = {
    GuardKind.INTERVAL: "an interval",
    GuardKind.PAUSE: "an evaluation or a checkpoint every few steps",
    GuardKind.RANK: "one rank",
    GuardKind.OTHER_RANKS: "the other ranks",
    GuardKind.FIRST: "one step or epoch",
    GuardKind.ACCUMULATION: "gradient accumulation",
    GuardKind.SINGLE: "no gradient accumulation",
    GuardKind.DEVICE: "a GPU",
    GuardKind.NOT_DEVICE: "no GPU",
    GuardKind.DISTRIBUTED: "several processes",
    GuardKind.NOT_DISTRIBUTED: "a single process",
    GuardKind.EXCEPTIONAL: "an error, or the end",
    GuardKind.DEBUG: "debugging",
    GuardKind.EVALUATION: "evaluation",
    GuardKind.TRAINING: "training",
    GuardKind.DATA: "values of the step",
    GuardKind.OFF: "a switch that is off",
    GuardKind.FLAG: "a condition",
}
"""What a condition stands for."""

PLACES = {Place.DEVICE: "on the GPU", Place.HOST: "on the CPU", Place.UNKNOWN: "in a place that is not known"}
"""Where a tensor is."""

_GRAD = {GradMode.ENABLED: "it does", GradMode.DISABLED: "it does not", GradMode.UNKNOWN: "not known"}

FACTS: dict[str, str | tuple[str, str]] = {
    "Context.hot": ("it runs at every training step", "it does not run at every training step"),
    "Context.frequency": "it runs {answer}",
    "Context.region": "it is part of {answer}",
    "Context.loop": "the loop that runs it is {answer}",
    "Context.path": "the calls that lead to it are {answer}",
    "Context.guards": "the conditions around it are {answer}",
    "Context.concerns_training": (
        "it is code of a program that trains",
        "it is part of evaluation, or of a program that does not train",
    ),
    "Context.on_request": (
        "it runs only where somebody asks for it, or something goes wrong",
        "it runs without anybody asking for it",
    ),
    "Context.under": ("it stands under {}", "it does not stand under {}"),
    "Context.grad": "autograd records there: {answer}",
    "Context.confidence": "how well this is known: {answer}",
    "Context.for_each_item": ("it runs for each item of a dataset", "it does not run for each item of a dataset"),
    "Context.forked": ("it runs in workers that a loader forks", "it does not run in workers that a loader forks"),
    "Context.compiled": ("`torch.compile` traces it", "`torch.compile` does not trace it"),
    "Context.counter": "what counts the steps there: {answer}",
    "Context.uncalled": ("nothing calls the function around it", "its function is called"),
    "Context.is_uncalled": ("nothing calls the function around it", "its function is called"),
    "Context.served": "how sure it is that training waits for it: {answer}",
    "Context.may_use_gpu": ("a GPU may be there to wait for", "no GPU is there to wait for"),
    "Context.routine": ("ordinary steps get there", "ordinary steps do not get there"),
    "Context.phrase": "it runs {answer}",
    "Context.why": "it {answer}",
    "Entry.framework": "the training loop is that of {answer}",
    "Entry.distributed": ("the program trains in several processes", "the program trains in one process"),
    "Entry.cuda": ("the program trains on CUDA", "the program does not train on CUDA"),
    "Entry.never_on_gpu": ("the program uses no GPU", "the program may use a GPU"),
    "Entry.stays_on_cpu": (
        "the framework was told to stay on the CPU",
        "the framework was not told to stay on the CPU",
    ),
    "Entry.trains": ("the program trains", "no training is seen in the program"),
    "Entry.rank_aware_print": (
        "`print` is replaced on all ranks but one",
        "`print` writes on every rank",
    ),
    "Entry.silent_loggers": ("loggers are quiet on all ranks but one", "loggers write on every rank"),
    "Entry.sets_epoch": ("`set_epoch` is called somewhere", "`set_epoch` is called nowhere"),
    "Entry.disables_sync": (
        "gradient reduction is switched off for micro-batches somewhere",
        "gradient reduction is never switched off",
    ),
    "Entry.resumes": ("the program reads a checkpoint back", "the program reads no checkpoint back"),
    "Entry.autocast": ("the program has an autocast", "the program has no autocast"),
    "Entry.autocast_runs": ("the program computes under autocast", "the program computes under no autocast"),
    "Entry.names_only_switches": (
        "all that names half precision are switches for it",
        "something else than switches names half precision",
    ),
    "Entry.names_convolutions": ("the program names convolutions", "the program names no convolution"),
    "Entry.normalizes_batches": ("the model has batch normalization", "no batch normalization is seen in the model"),
    "Entry.names_half": ("the program names a precision below float32", "the program names no precision below float32"),
    "Entry.names_tf32": (
        "the program says whether TF32 may be used",
        "the program does not say whether TF32 may be used",
    ),
    "Entry.names_double": ("the program asks for float64 somewhere", "the program asks for float64 nowhere"),
    "Entry.chooses_device": ("each process is told which GPU is its own", "no process is told which GPU is its own"),
    "Entry.data_parallel": (
        "each rank trains on a share of the data, and gradients are averaged",
        "gradients are not averaged over ranks",
    ),
    "Entry.reads_zero_gradients": (
        "code relies on gradients that are zeros",
        "no code relies on gradients being zeros",
    ),
    "Entry.wants_fixed_shapes": ("batches of one shape pay there", "nothing there asks for batches of one shape"),
    "Entry.captures_scalars": (
        "`torch.compile` is told to keep reads of numbers in its graphs",
        "`torch.compile` is not told to keep reads of numbers in its graphs",
    ),
    "Entry.captures_shapes": (
        "`torch.compile` is told to keep shapes that values decide in its graphs",
        "`torch.compile` is not told to keep shapes that values decide in its graphs",
    ),
    "Entry.chooses_start_method": (
        "the program says how processes start",
        "the program does not say how processes start",
    ),
    "Entry.resets_learning_rate": (
        "something else than the optimizer's argument may decide the learning rate",
        "the optimizer's argument decides the learning rate",
    ),
    "Entry.divides_by_ranks": (
        "a number is divided by the number of processes",
        "nothing is divided by the number of processes",
    ),
    "Entry.starts_processes": ("the program starts further processes", "the program starts no further processes"),
    "Entry.conditional_forwards": "whether the models' forward leaves out submodules: {answer}",
    "Entry.leaves_samplers": (
        "the framework was told to leave samplers alone",
        "the framework was not told to leave samplers alone",
    ),
    "Entry.on_its_own": ("the loop is the script's own", "a framework takes care of some of it"),
    "Entry.spared": ("the framework sees to it ({})", "no framework sees to it ({})"),
    "Entry.computes_in_float32": (
        "the script owns its loop on CUDA, and all of it is in float32",
        "it is not known to be a loop of the script's own on CUDA, all in float32",
    ),
    "Entry.leaves_autocast_off": ("autocast is switched off by default", "autocast is not left switched off"),
    "Entry.path": "the entry point is {answer}",
    "Entry.name": "the entry point is {answer}",
    "Arguments.absent": ("{} is left out", "{} is not known to be left out"),
    "Arguments.given": ("{} is passed", "{} is not known to be passed"),
    "Arguments.constant": "{} is {answer}",
    "Arguments.value": "{} is {answer}",
    "Arguments.setting": "the option that {} is: {answer}",
    "Arguments.holding": "{} is {answer}",
    "Arguments.certainty": "how sure it is what {} is: {answer}",
    "Arguments.told_by": "what tells what {} is: {answer}",
    "Arguments.unknown": ("{} may be anything", "{} is known"),
    "Arguments.named": "the arguments passed by name are {answer}",
    "Arguments.positional": "the arguments passed by position are {answer}",
    "Arguments.unsure": "the arguments that may not be passed: {answer}",
    "Arguments.complete": ("all its arguments are known", "some of its arguments are not written there"),
    "Arguments.spread": ("it takes arguments from a list or a mapping", "its arguments are all written out"),
    "Project.torch_version": "the newest torch release that the project admits is {answer}",
    "Call.receiver": "its method is called on {answer}",
    "Call.stands_alone": ("the call is a statement of its own", "the call is part of a statement"),
    "Call.same_each_time": ("it is passed the same each time", "it is not known to be passed the same each time"),
    "Call.varies_by_item": (
        "what it is passed follows from the item that is asked for",
        "what it is passed does not follow from the item that is asked for, or its result is kept",
    ),
    "Call.one_of_several": ("it may be a call of something else too", "it is a call of this alone"),
    "Call.numpy": "the name of numpy there is {answer}",
    "Call.may_write": ("it may be opened to be written", "it is opened to be read"),
    "Call.maps_memory": ("it is a memory map", "it is no memory map"),
    "Call.joins_all_ranks": ("every rank has to call it", "it does not wait for every rank"),
    "SyncPoint.kind": "it is a {answer} of a tensor's value",
    "SyncPoint.on_device": ("the tensor is on the GPU", "the tensor is not known to be on the GPU"),
    "SyncPoint.operand": "what is read is {answer}",
    "SyncPoint.accumulated": ("the number is only added up", "the number is used for more than adding up"),
    "Report.kind": "it is output by a {answer}",
    "Report.rank_aware": ("its printer is silent on all ranks but one", "its printer writes on every rank"),
    "Report.only_reads": ("what it shows is only read", "what it shows is computed in the call"),
    "Report.names_rank": ("it prints the rank", "it does not print the rank"),
    "Report.stands_alone": ("the call is a statement of its own", "the call is part of a statement"),
    "Report.dropped": ("the logger drops it unless the level is lowered", "its level is written"),
    "Report.warns": ("it is a warning under a condition", "it is no warning under a condition"),
    "Report.batched": ("the tracker keeps it for a later write", "the tracker writes at once"),
    "Report.speaker": "what prints on one rank there is {answer}",
    "Transfer.target": "it goes to a tensor {answer}",
    "Transfer.non_blocking": ("the host does not wait for the copy", "the host waits for the copy"),
    "Transfer.may_be_cuda": ("it may go to CUDA", "it does not go to CUDA"),
    "Transfer.may_be_other_accelerator": ("it may go to another accelerator", "it goes to CUDA or the CPU"),
    "Transfer.may_be_mps": ("it may go to Apple's GPU", "it does not go to Apple's GPU"),
    "Transfer.device_is_certain": ("it goes to CUDA for certain", "it may fall back to the CPU"),
    "Transfer.device_is_known": ("the program text says where it goes", "only a name tells where it goes"),
    "Transfer.host_value_reused": (
        "the tensor on the host may be used afterwards",
        "the tensor on the host is done with",
    ),
    "Transfer.made_by": "the call that makes what is moved: {answer}",
    "Transfer.factory": "what makes what is moved: {answer}",
    "Transfer.device_text": "the device is written {answer}",
    "Transfer.of_nothing": ("what is moved has no elements", "what is moved may have elements"),
    "Transfer.repeated": (
        "each step moves the same tensor again",
        "it is not known to move the same tensor at each step",
    ),
    "EarlyRead.copy": "the copy that it reads is at {answer}",
    "EarlyRead.shares": ("it makes an array of the same memory", "it reads the data at once"),
    "Timing.start": "the time is taken from {answer}",
    "Timing.work": "the work that is left out is {answer}",
    "Timing.work_site": "that work is at {answer}",
    "Upload.value": "what is copied is {answer}",
    "Upload.device_proved": ("the device is proved", "the device is told by a name"),
    "Loader.dataset": "the dataset is {answer}",
    "Loader.dataset_kind": "the kind of its dataset is {answer}",
    "Loader.works_per_item": ("its dataset computes or reads for each item", "there is no work for each item"),
    "Loader.uses": "the loops over it are {answer}",
    "Loader.transfers": "its batches are moved by {answer}",
    "Loader.prepared_by": "the framework that was handed it is {answer}",
    "Loader.sampler": "its sampler is {answer}",
    "Loader.changes_between_epochs": (
        "the main process changes its dataset between epochs",
        "nothing changes its dataset between epochs",
    ),
    "Loader.sharded_dataset": (
        "its dataset may be one rank's share already",
        "its dataset is not one rank's share",
    ),
    "Loader.dataset_text": "the dataset is written {answer}",
    "Loader.sampler_text": "the sampler is written {answer}",
    "Loader.sampler_may_be_none": ("its sampler may be None as well", "its sampler is not None"),
    "Loader.object_lists": "the lists of objects that its dataset holds: {answer}",
    "Loader.repeats": ("each process that goes over its dataset gets all of it", "its dataset is dealt out"),
    "Loader.item_place": "its items are {answer}",
    "Loader.cannot_pin": ("its batches are of a class without `pin_memory`", "its batches can be pinned"),
    "Loader.workers": "its number of workers is {answer}",
    "Loader.workers_certainty": "how sure its number of workers is: {answer}",
    "Loader.transformations": "what its items go through: {answer}",
    "Loader.same_each_time": ("it is made of the same each time", "it is not known to be made of the same each time"),
    "Loader.made_by_its_loop": ("the loop that starts it anew also makes it anew", "its loop does not make it anew"),
    "Loader.trains": ("a training loop goes over it", "no training loop goes over it, as far as is seen"),
    "Loader.evaluates": ("only evaluation goes over it", "not only evaluation goes over it"),
    "Loader.restarts": ("each epoch starts it anew", "it is not started anew for each epoch"),
    "Loader.epoch_use": "the loop that starts it anew: {answer}",
    "Loader.pins": ("its batches come in pinned memory", "its batches do not come in pinned memory"),
    "Loader.forks": ("it forks workers", "it forks no workers"),
    "Loader.spared": ("the framework sees to it ({})", "no framework sees to it ({})"),
    "Loader.feeds_cuda": ("its batches go to CUDA", "its batches do not go to CUDA"),
    "Loader.is_remade": (
        "the host copies its batches before they are moved",
        "the host does not copy its batches before they are moved",
    ),
    "Loader.hands_over_items": (
        "its batches are lists of the items as they are",
        "its batches are not lists of the items as they are",
    ),
    "Sampler.shards": ("it gives each rank its own share", "it does not give each rank its own share"),
    "Sampler.sets_epoch": ("it is told the epoch", "it is not told the epoch"),
    "Sampler.loaders": "the loaders that use it are {answer}",
    "FrameAccess.how": "it is {answer} of a table",
    "FrameAccess.proved": ("it is known to be a table of pandas", "only the name tells that it is a table of pandas"),
    "FrameAccess.cached": ("its result is kept for the next time", "its result is not kept"),
    "Tokenization.work": "the tokenizer's work is to {answer}",
    "Tokenization.cached": ("its result is kept for the next time", "its result is not kept"),
    "Tokenization.fixed": ("the text is always the same", "the text varies"),
    "Tokenization.part_of_another": (
        "it is how a tokenizer of the project does its work",
        "it is no part of another tokenizer's work",
    ),
    "Tokenization.tokenizer": "the tokenizer's class is {answer}",
    "Tokenization.generated": ("the text came into being in the step itself", "the text was there before the step"),
    "Tokenization.certainty": "how sure it is that this is a tokenizer that training waits for: {answer}",
    "Tokenization.of_one_text": ("it is given a single text", "it is not known to be given a single text"),
    "Trainer.dataset_kind": "the kind of its dataset is {answer}",
    "Trainer.works_per_item": ("its dataset computes or reads for each item", "there is no work for each item"),
    "Trainer.makes_loader": ("its class makes the loader its own way", "it makes the loader itself"),
    "DeepSpeedConfiguration.at": "what stands under {}: {answer}",
    "DeepSpeedConfiguration.settings": "its settings are {answer}",
    "KeptGraph.target": "it is added to {answer}",
    "KeptGraph.backpropagated": ("the sum is, or may be, backpropagated", "the sum is never backpropagated"),
    "DoubleArithmetic.operand": "the operand in float64 is {answer}",
    "ElementLoop.tensor": "the tensor is {answer}",
    "ElementLoop.operand": "what is computed at each turn is {answer}",
    "ElementLoop.work_site": "that is computed at {answer}",
    "Collective.figure": "how sure it is that it exchanges a figure to look at: {answer}",
    "Collective.is_barrier": ("it only waits", "it exchanges something"),
    "Concatenation.target": "what grows is {answer}",
    "Concatenation.loop": "its loop is {answer}",
    "Concatenation.ends_early": ("its loop may end early", "its loop goes on to its end"),
    "Concatenation.turns": "how often its loop turns: {answer}",
    "NormalizedConvolution.normalization": "the normalization is made at {answer}",
    "NormalizedConvolution.bias": ("the convolution has a bias", "the convolution has no bias"),
    "NormalizedConvolution.bias_needed": ("code uses the biases of layers", "no code uses the biases of layers"),
    "AttentionByHand.product": "queries and keys meet at {answer}",
    "AttentionByHand.result": "weights and values meet at {answer}",
    "Wrapping.model": "what it wraps is {answer}",
    "Wrapping.conditional_forward": (
        "the model's forward leaves submodules out under a condition",
        "the model's forward leaves no submodule out",
    ),
    "Wrapping.for_evaluation": ("its function is named for evaluation", "its function is not named for evaluation"),
    "Wrapping.trains": ("the wrapped model runs in a training loop", "the wrapped model runs in no training loop"),
    "Wrapping.by_apex": ("the wrapper is apex's", "the wrapper is torch's"),
    "Wrapping.other_branch": "what the other branch wraps the model in: {answer}",
    "Placement.model": "what is moved is {answer}",
    "Placement.device": "the device is {answer}",
    "StepLoop.backwards": "its backward passes are at {answer}",
    "StepLoop.steps": "its optimizer steps are at {answer}",
    "StepLoop.accumulates": (
        "several backward passes go into one optimizer step",
        "it is not known to accumulate gradients",
    ),
    "StepLoop.accumulation_site": "the backward pass of micro-batches is at {answer}",
    "StepLoop.disables_sync": (
        "reductions are switched off for all micro-batches but the last",
        "reductions are not switched off for micro-batches",
    ),
    "StepLoop.model_wrapped": "what wraps the model is {answer}",
    "StepLoop.managers": "the context managers around it are at {answer}",
    "StepLoop.ends_early": ("it may end early", "it goes on to its end"),
    "StepLoop.turns": "how often it turns: {answer}",
    "BackwardPass.loss": "what it starts from is {answer}",
    "BackwardPass.names_scaling": (
        "its function names something for scaling",
        "its function names nothing for scaling",
    ),
    "BackwardPass.loop": "the loop around it is {answer}",
    "BackwardPass.retains_graph": ("it keeps the graph", "it does not keep the graph"),
    "BackwardPass.graph_ends_with_step": (
        "no graph goes from one step to the next",
        "a graph may go from one step to the next",
    ),
    "EvaluationForward.model": "what it runs is {answer}",
    "EvaluationForward.frozen_inputs": ("nothing in it requires gradients", "something in it may require gradients"),
    "EvaluationForward.only_evaluates": (
        "its function needs gradients for nothing",
        "its function may need gradients for something else",
    ),
    "EvaluationForward.certain": ("it is known to be a model", "only its name tells that it is a model"),
    "Checkpoint.content": "what it saves is {answer}",
    "Checkpoint.holds_model": ("it saves the model", "it does not save the model"),
    "Checkpoint.holds_optimizer": ("it saves the optimizer", "it does not save the optimizer"),
    "Checkpoint.periodic": ("it is written during training", "it is not written during training"),
    "Checkpoint.optimizer_saved_elsewhere": (
        "another save writes the optimizer's state",
        "no other save writes the optimizer's state",
    ),
    "Checkpoint.resumed": (
        "the program reads such a file back to train on",
        "the program does not read such a file back",
    ),
    "Checkpoint.same_file": ("every rank writes to the same path", "ranks are not known to write to the same path"),
    "Checkpoint.stands_alone": ("the call is a statement of its own", "the call is part of a statement"),
    "Checkpoint.missing": "the training state that it lacks: {answer}",
    "FileLoad.restores_optimizer": ("an optimizer takes its state from it", "no optimizer takes its state from it"),
    "NameUse.called": ("it is called", "it is only named"),
    "NameUse.under": "the conditions around it are {answer}",
    "NameUse.given_to_decorator": ("a decorator is given it", "it is not what a decorator is given"),
    "EnvironmentSetting.value": "its value is {answer}",
    "EnvironmentSetting.fallback": ("it counts only where the variable is not set", "it always counts"),
    "EnvironmentSetting.after_cuda": (
        "the process has used CUDA before",
        "the process is not known to have used CUDA before",
    ),
    "ConfigurationSetting.value": "its value is {answer}",
    "Tensor.place": "the tensor is {answer}",
    "Tensor.pinned": ("the tensor is in pinned memory", "the tensor is not known to be in pinned memory"),
    "Tensor.proved": ("where the tensor is, is proved", "only a name tells where the tensor is"),
    "Tensor.loader": "the loader that the tensor comes from: {answer}",
    "Tensor.keeps_graph": ("autograd's graph hangs on the tensor", "no graph hangs on the tensor"),
    "Tensor.created": ("the tensor was made on the host", "the tensor was not just made on the host"),
    "Tensor.number": ("the tensor holds one number", "the tensor is not known to hold one number"),
    "Tensor.container": ("it is a collection of tensors", "it is one tensor"),
    "Tensor.registered": ("the tensor belongs to a module", "the tensor belongs to no module"),
    "Tensor.gradient": ("the tensor is a gradient", "the tensor is no gradient"),
    "Tensor.figure": ("the tensor is made of losses alone", "the tensor is not made of losses alone"),
    "Tensor.double": ("the tensor holds float64", "the tensor is not known to hold float64"),
    "Tensor.boolean": ("the tensor holds truth values", "the tensor is not known to hold truth values"),
    "Tensor.autocast": "the autocast that it was computed under: {answer}",
    "Tensor.scaled": ("a scaler multiplied the tensor", "no scaler multiplied the tensor"),
    "Tensor.fetched": ("the tensor came from the GPU", "the tensor is not known to come from the GPU"),
    "Tensor.single": ("it is one tensor", "it may be several tensors"),
    "Tensor.remade": ("the host has copied the batch since", "the host has not copied the batch since"),
}
"""What a rule asked, by class and name, in words: the answer in the middle of a sentence, or one sentence for yes and
one for no."""
"""What a rule is told, as part of a sentence about the record: by class and attribute, what holds where the answer is
yes and where it is no; or with `{answer}` in the place of any other. `{}` is what the rule asks for."""


def fact_of(question: Question) -> str:
    """What a rule was told, as part of a sentence about the record that it asked about."""
    words = FACTS.get(f"{question.of.__name__}.{question.name}")
    wanted = " or ".join(_word(one) for one in question.arguments)
    if isinstance(words, tuple):
        yes, no = (text.replace("{}", wanted) for text in words)
        match question.answer:
            case True | Known.YES:
                return yes
            case False | Known.NO:
                return no
        return f"it is not known whether {yes}"
    template = words or f"{question.name.replace('_', ' ')}: {{answer}}"
    return template.replace("{}", wanted).replace("{answer}", told(question.answer))


def _word(argument: object) -> str:
    """What a rule asked for: a kind of condition, the name of an argument."""
    return GUARDS[argument] if isinstance(argument, GuardKind) else f"`{argument}`"


def told(answer: object) -> str:
    """An answer of the model in words."""
    match answer:
        case True | Known.YES:
            return "yes"
        case False | Known.NO:
            return "no"
        case Known.UNKNOWN | Unknown():
            return "not known"
        case None | "" | ():
            return "none"
        case Frequency():
            return answer.phrase
        case Confidence():
            return answer.label
        case Place():
            return PLACES[answer]
        case GradMode():
            return _GRAD[answer]
        case GuardKind():
            return GUARDS[answer]
        case Enum():
            return str(answer.value)
        case Const():
            return f"`{answer.value!r}`"
        case Option():
            return f"an option, `{answer.default!r}` by default" if answer.has_default else "an option"
        case Host():
            return f"a value of the host ({answer.kind})"
        case Site():
            return f"{text_of(answer.path)}:{answer.row}"
        case str() | int() | float():
            return f"`{answer}`"
        case (int() as major, int() as minor):
            return f"{major}.{minor}"
        case tuple() | list() | frozenset():
            return ", ".join(map(told, answer)) or "none"
    return _object(answer)


def _object(answer: Any) -> str:
    """An object by its text in the program, else by what kind of thing it is."""
    text = getattr(answer, "text", "") or getattr(answer, "type", "")
    if isinstance(text, str) and text:
        return f"`{' '.join(text.split())}`"
    name = type(answer).__name__ if is_dataclass(answer) else ""
    return f"a {name.lower()}" if name else "something"
