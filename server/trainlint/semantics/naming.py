"""Idioms of names: what a value of unknown origin is likely to be, judged by what people call it.

Whatever is inferred here is marked as not proved, which lowers a finding's confidence to medium.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from trainlint.semantics import object_types
from trainlint.semantics.values import NUMBER, UNKNOWN, DeviceValue, Host, Object, Option, Tensor, Value
from trainlint.semantics.vocabulary import Place


class Idiom:
    """A pattern of names; answers are kept, since the same few names are asked for all the time. It is compiled when it
    is first asked, since most runs of the program ask few of them."""

    __slots__ = ("_flags", "_known", "_pattern", "_search")

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._pattern = pattern
        self._flags = flags
        self._search: Callable[[str], re.Match[str] | None] | None = None
        self._known: dict[str, bool] = {}

    def search(self, name: str) -> bool:
        """Whether `name` follows the idiom."""
        known = self._known.get(name)
        if known is None:
            self._search = self._search or re.compile(self._pattern, self._flags).search
            known = self._known[name] = self._search(name) is not None
        return known


MODULE = Idiom(
    r"^_?(model|net|network|module|encoder|decoder|generator|discriminator|backbone|critic|actor|classifier|policy"
    r"|teacher|student|unet|vae|gan|transformer|resnet)s?$|^(net|model)_?[a-z0-9]{1,2}$|_(model|net|network|encoder|decoder)$"
    r"|^model_(?!(fn|func|name|path|args|class|type|id|dir|file|key|size|dim)s?($|_))|^net[A-Z]$|^ddp_model$",
)
CRITERION = Idiom(
    r"criterion|criteria|loss_?(fn|func|function|f)$|^(compute|calc|get|calculate)_?loss|_loss_?(fn|func)$|_criterion$"
)
LOSS = Idiom(r"(^|_)loss(es)?($|_)|^(err|error)[A-Z_]|^loss[A-Z0-9_]")
LABELS = Idiom(r"^(y|gt|gold|labels?|targets?)(_[a-z0-9]+)?$|_(labels?|targets?)$|^y_true$")
METRIC = Idiom(
    r"(^|_)(acc|accuracy|accuracies|correct|metrics?|top_?[15]|precision|recall|psnr|ssim|m?iou|perplexity|ppl|f1|auc)(_|$)",
    re.IGNORECASE,
)
OPTIMIZER = Idiom(r"(^|_)optim(izer)?s?($|_|[A-Z0-9])|^opt(_?[a-zA-Z0-9]{1,2})?$|^optimizer|_opt$|solver")
SCHEDULER = Idiom(r"sched|(^|_)lr($|_)|annealer|warmup")
SCALER = Idiom(r"(^|_)scaler$")
LOADER = Idiom(r"(data_?)?loader|^dl$|_dl$|^(train|val|valid|test|eval)_?(iter|iterator|dataloader)$|dataloader")
DEVICE = Idiom(r"^_?(device|dev|gpu|cuda_device)s?$|_device$")
RANK = Idiom(
    r"^_?(get_)?(ddp_|global_|local_|node_|world_|proc_|dp_|my_|dist_)?rank$|^(proc_id|process_index|local_process_index|global_rank)$",
    re.IGNORECASE,
)
MAIN_PROCESS = Idiom(
    r"(is_?)?(main|master|primary|root|chief|last)_?(process|proc|rank|node|worker)|is_(main|master|root|primary|chief)$|is_global_zero"
    r"|is_rank_?(zero|0)|rank_?zero|is_local_master|is_first_rank|is_logger$|is_local_main|is_log_rank|is_world_process_zero"
    r"|is_local_process_zero|should_log_rank|on_main|one_rank_only",
    re.IGNORECASE,
)
ORDERS_RANKS = Idiom(r"first|wait|barrier|sync|download|join", re.IGNORECASE)
"""In names of context managers: what has ranks wait for each other, and keeps none of them out."""
TOKENIZER = Idiom(
    r"tokeni[sz]er|(^|_)tok(eni[sz]e)?$|^(sp|spm|sp_model|bpe|_bpe)$|sentencepiece|wordpiece", re.IGNORECASE
)
EVALUATION = Idiom(
    r"(^|_)(eval|evaluate|evaluation|evaluator|val|valid|validate|validation|validator|test|testing|infer|inference|predict|prediction"
    r"|sample|generate|benchmark)(_|$|\d)",
    re.IGNORECASE,
)
_MEASUREMENT = Idiom(
    r"(^|_)(measure|measurement|verify|verification|compare|profile|profiler|profiling|bench(mark)?s?|grad_?check)(_|$|\d)",
    re.IGNORECASE,
)
TRIES = Idiom(
    r"(^|_)(probe|dry_run|auto_?batch|warm_?up_(cuda|gpu)|(find|search|tune|estimate|determine)_\w*(batch(_?size)?|lr))(_|$)"
    r"|(^|_)batch_?size_finder(_|$)",
    re.IGNORECASE,
)
"""Functions that run a few steps to find out what fits, before training."""
SAVES = Idiom(r"(^|_)save(_|$)|checkpoint", re.IGNORECASE)
HOUSEKEEPING = Idiom(
    r"^(load|save|restore|dump|export|download|upload|print|freeze|unfreeze|enable|disable|set|has|is|count|num|setup|configure"
    r"|check|should|supports)(_|$)"
)
"""Methods of a model that compute nothing: `load_checkpoint`, which returns what was saved beside the weights."""
TRACED = Idiom(r"^is_(\w+_)?(tracing|scripting|exporting|compiling)$|^is_in_onnx_export$|^_get_tracing_state$")
"""Questions that hold while a model is taken down, for export or by the compiler, and never in code that runs as it is
written."""
EXPORT = Idiom(
    r"(^|_)(export(er|ers|s|ing)?|deploy(ment)?|onnx|tensorrt|trt|coreml|openvino|tflite)(_|$)", re.IGNORECASE
)
HOLDS_DATA = Idiom(r"(^|_)(buffer|replay|memory|sampler|storage|dataset)(_|$)")
"""In names of classes, as words: what hands out data, so that its `sample` evaluates nothing."""
APPLIES_MODELS = Idiom(r"(^|_)(track(er|ing)|post_?process(or|ing)?|inferencer|stitcher|exporter|visuali[sz]er)(_|$)")
"""In names of classes, as words: what applies models that were trained before."""
TRAINING = Idiom(r"train|fit|(^|_)(run|step|epoch|update|optimi[sz]e)(_|$)", re.IGNORECASE)
_ORDERS_EVALUATION = Idiom(
    r"^_*(run|do|perform|maybe)_([a-z]+_)*(eval|evals|evaluate|evaluation|evaluations|validate|validation|validations|inference)"
    r"(_(epoch|step|loop))?$"
    r"|^_*(eval|evaluate|evaluation|val|valid|validate|validation|test|predict|prediction)_(one_)?(step|epoch|run|loop)$",
    re.IGNORECASE,
)
"""Functions that evaluate, though a word of training is in their names: `run_validation`, `eval_epoch`."""
_TRAINS_SURELY = Idiom(r"train|fit|optimi[sz]e", re.IGNORECASE)
_OF_STEP = Idiom(r"backward|loss|learn|closure|batch|iter", re.IGNORECASE)
"""Further words of functions that do a part of a step."""
STEP_INDEX = Idiom(
    r"^_?(i|j|it|n|idx|step|steps|iter|iters|iteration|iterations|batch|batch_?(i|id|idx|index|num|no|nb)|b|bi|ni|niter|n_iter|iter_?num"
    r"|iter_?(count|idx|i)|global_?step|global_?iter|total_?(step|iter)s?|current_?(step|iter)|cur_?(step|iter)|num_?(steps?|updates?|batches)|count|counter"
    r"|step_?(num|idx|i|count)|data_iter_step|t|k|n_steps?|local_step|optimi[sz]er_step|train_step|updates?)$",
    re.IGNORECASE,
)
EPOCH_INDEX = Idiom(r"^_?(epoch|ep|epoch_?(i|id|idx|num|no)|e|current_epoch|cur_epoch)s?$", re.IGNORECASE)
ATTEMPT = Idiom(r"^_?(n_?)?(attempt|retry|retries|try|tries|restart|fold|seed)s?(_?(i|id|idx|index|num|no))?$")
"""Counters of loops that do something whole again: until it works, or from other beginnings."""
BENCHMARK = Idiom(r"(^|_)bench(mark)?s?(_|$)", re.IGNORECASE)
"""In names of files and folders: what runs steps to see how long they take."""
ACCUMULATION = Idiom(
    r"accum|grad_?acc|gradient_?acc|_acc_|update_?freq|micro_?(batch|step)|iter_?size|virtual_batch|backward_?(freq|every|passes)|batch_split"
    r"|acc_?steps?$|gas$|step_every|update_?(every|interval)",
    re.IGNORECASE,
)
UPDATES = Idiom(r"update_?(freq|every|interval)", re.IGNORECASE)
INTERVAL = Idiom(
    r"interval|every|freq|frequency|period|log_?steps?|logging_?steps?|print_?steps?|eval_?steps?|save_?steps?|report|display|cadence"
    r"|save_iter|print_iter|eval_iter|log_iter|n_log|summary_steps?|checkpoint_steps?",
    re.IGNORECASE,
)
PLACE_IN_LOADER = Idiom(r"^_?(data_?loader|batch)_(i|idx|index)$")
"""Which batch of a loader it is, or of which loader: a number that frameworks hand out along with the batch."""
NUMBER_OF = Idiom(r"^(num|nb|n)_[a-z]")
"""Attributes that count what an object has: `batch.num_graphs`."""
DRAINS = Idiom(r"^_*(maybe|pop|drain|poll|try)_")
"""Methods that often have nothing to return: `pop_total_rewards`."""
COUNT = Idiom(r"(^|_)(num|nb|n|count|counts|size|sizes|len|length|lengths|samples|ntokens|nsamples)(_|$)")
SHOULD = Idiom(
    r"(^|_)(should|do|is|time_to|need_to|needs|will|would|must|can)_?(log|print|save|eval|evaluate|report|checkpoint|validate|display|sample|visuali[sz]e|sync)"
    r"|(^|_)(should|would|force)_([a-z]+_)*(save|checkpoint|eval|evaluate|evaluation|validate|validation)$"
    r"|(log|print|save|eval|report)_(now|this_step|due|time)$|is_(log|print|eval|save)\w*_(step|iter)"
    r"|(^|_)(save|checkpoint|eval|evaluation|validation|report|upload)_(is_)?(due|pending|requested)$"
    r"|should_(update|write|flush)_(logs?|logger|metrics|summary)$",
    re.IGNORECASE,
)
ASKS_IF_DUE = Idiom(r"^_*(should|would|(is_)?time_to|needs?(_to)?)_", re.IGNORECASE)
"""Of these, what is surely a question: a function called so answers it, whatever its body is made of."""
DEBUG = Idiom(r"debug|sanity|fast_dev_run|detect_?anomaly|(^|_)profil(e|er|ing)($|_)", re.IGNORECASE)
DISTRIBUTED = Idiom(
    r"distributed|multi_?gpu|(^|_)(ddp|fsdp)($|_)|(^|_)is_dist|use_dist|parallel|multiprocessing", re.IGNORECASE
)
WORLD_SIZE = Idiom(
    r"world_?size|n_?gpus?$|num_?gpus?$|num_processes|num_replicas|device_?count|ngpus_per_node|ddp_world_size",
    re.IGNORECASE,
)
CUDA = Idiom(r"^_?(use_|with_|has_|is_|no_)?(cuda|gpus?|accel|accelerator)(_available|_enabled)?$", re.IGNORECASE)
OTHER_ACCELERATOR = Idiom(r"(^|_)(xla|[thni]pus?|mlus?|habana|gaudi)(_|$)", re.IGNORECASE)
PHASE = Idiom(
    r"^_?(phase|mode|split|stage|is_?train(ing)?|training|train|is_?eval|eval(uate)?|test|validate|eval_only|is_test|inference|do_train|do_eval|testing)$",
    re.IGNORECASE,
)
BACKWARD = Idiom(
    r"^(?!_*(add|after|before|disable|enable|get|has|is|no|on|post|pre|register|remove|set|skip)_)(?!.*hook).*backward"
    r"(?!s?_?(compat|prefetch|layer|cell|lstm|gru|rnn|net|model|module|encoder|decoder|embed|proj|warp|flow|transform"
    r"|sampl|diffusion|process))"
)
"""What runs a backward pass; not `register_full_backward_hook` or `set_is_last_backward`, which prepare for one, and
neither the `backward_layer` of a recurrent network nor the `backward_warp` of images."""
FIRST = Idiom(r"(^|_)(first|is_first|last|is_last|final|is_final|initial)(_|$)", re.IGNORECASE)
FIRST_OVER = Idiom(r"(^|_)(first|initial)(_\w+)?_(complete|completed|done|finished|over|passed|seen)$", re.IGNORECASE)
"""What holds once the first turn is over: `first_batch_done`."""
CONFIG = Idiom(
    r"^_?(args|opt|opts|cfg|config|conf|hparams|hp|hps|params|flags|FLAGS|options|settings|model_args|training_args|train_config|data_args|hyp|C)$|_(config|cfg|args|opts|conf)$"
)
SURELY_CONFIG = Idiom(r"(^|_)(args|cfg|config|hparams|options|settings)$")
"""Of these, what no tensor is called."""
LOGGER = Idiom(r"^_?(logger|log|LOGGER|LOG|logging|_logger)$|_logger$")
TRACKER = Idiom(
    r"^_?(writer|tb|tb_writer|tensorboard|summary_writer|sw|wandb|tracker|tb_logger|wandb_logger|wandb_run|mlflow|comet|neptune|swanlab|log_writer|writer_dict|experiment)$"
    r"|_writer$|^writer_|summary_?writer",
    re.IGNORECASE,
)
PROGRESS = Idiom(
    r"^_?(pbar|progress|progress_bar|bar|prog_bar|tqdm_bar|t_bar|tbar|epoch_iterator|train_bar|batch_bar|prog)$|_(pbar|bar)$"
)
SAMPLER = Idiom(r"sampler")


def evaluates(name: str) -> bool:
    """Whether a function called `name` evaluates a model, and does not train one."""
    if _ORDERS_EVALUATION.search(name):
        return not _TRAINS_SURELY.search(name)
    return EVALUATION.search(name) and not TRAINING.search(name)


def measures(name: str) -> bool:
    """Whether a function called `name` looks at what a model does, its gradients too, and does not train it."""
    return evaluates(name) or (_MEASUREMENT.search(name) and not TRAINING.search(name))


def snake_case(name: str) -> str:
    """`ReplayBuffer` as the words that idioms are made of: `replay_buffer`."""
    return _HUMP.sub("_", name).lower()


_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def is_of_training(qualname: str) -> bool:
    """Whether a function, by its name or that of its class, is a part of training: `Trainer.process`, `update`."""
    return any(TRAINING.search(word) or _OF_STEP.search(word) for word in qualname.split("."))


@functools.cache
def infer(name: str) -> Value:
    """What a value of unknown origin called `name` is likely to be; UNKNOWN where the name says nothing."""
    for pattern, value in _INFERRED:
        if pattern.search(name):
            # `load_model` is no model; calling it gives one
            return UNKNOWN if isinstance(value, Object) and _MAKER.match(name) else value
    return UNKNOWN


def made_by(name: str) -> Value:
    """What a function of unknown origin called `name` is likely to return: a model for `build_model`."""
    maker = _MAKER.match(name)
    made = infer(name[maker.end() :]) if maker is not None else UNKNOWN
    return made if isinstance(made, Object) else UNKNOWN


_MAKER = re.compile(r"_?(?:load|build|get|create|make|init|setup|prepare|construct|new|fetch|define)_(?=[a-z])")

_INFERRED: tuple[tuple[Idiom, Value], ...] = (
    (CONFIG, Option("config")),
    (RANK, Host("rank")),
    (SCHEDULER, Object(object_types.SCHEDULER, proved=False)),
    (OPTIMIZER, Object(object_types.OPTIMIZER, proved=False)),
    (SCALER, Object(object_types.SCALER, proved=False)),
    (TOKENIZER, Object(object_types.TOKENIZER, origin="unknown", proved=False)),
    (SAMPLER, UNKNOWN),
    (LOADER, Object(object_types.LOADER, proved=False)),
    (CRITERION, Object(object_types.MODEL, origin="criterion", place=Place.HOST, proved=False)),
    (DEVICE, DeviceValue(cuda=True, cpu=True, proved=False)),
    (PROGRESS, Object(object_types.PROGRESS, proved=False)),
    (TRACKER, Object(object_types.TRACKER, proved=False)),
    (LOGGER, Object(object_types.LOGGER, proved=False)),
    (MODULE, Object(object_types.MODEL, origin="parameter", place=Place.UNKNOWN, proved=False)),
    (STEP_INDEX, NUMBER),
    (EPOCH_INDEX, NUMBER),
)


def inferred_tensor(place: Place, keeps_graph: bool = False) -> Tensor:
    """A tensor that is told by the name of what holds it."""
    return Tensor(place=place, proved=False, keeps_graph=keeps_graph)
