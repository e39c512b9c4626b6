"""What is known of the libraries that training code uses: what a call returns, and which calls are worth a record.

Names are canonical dotted paths; `canonical` maps the many ways of writing one to a single spelling.
"""

from __future__ import annotations

import re

_ALIASES: tuple[tuple[str, str], ...] = (
    ("torch.utils.data.dataloader.", "torch.utils.data."),
    ("torch.utils.data.dataset.", "torch.utils.data."),
    ("torch.utils.data.sampler.", "torch.utils.data."),
    ("torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler"),
    ("torch.nn.parallel.distributed.", "torch.nn.parallel."),
    ("torch.nn.parallel.data_parallel.", "torch.nn.parallel."),
    ("torch.nn.parallel.DataParallel", "torch.nn.DataParallel"),
    ("torch.nn.modules.", "torch.nn."),
    ("torch.nn.utils.clip_grad.", "torch.nn.utils."),
    ("torch.autograd.grad_mode.", "torch."),
    ("torch.autograd.no_grad", "torch.no_grad"),
    ("torch.optim.adam.", "torch.optim."),
    ("torch.optim.adamw.", "torch.optim."),
    ("torch.optim.sgd.", "torch.optim."),
    ("torch.optim.optimizer.", "torch.optim."),
    ("torch.cuda.amp.grad_scaler.", "torch.cuda.amp."),
    ("torch.cuda.amp.autocast_mode.", "torch.cuda.amp."),
    ("torch.amp.autocast_mode.", "torch.amp."),
    ("torch.amp.grad_scaler.", "torch.amp."),
    ("torch.tensor.", "torch.Tensor."),
    ("torch.utils.tensorboard.writer.", "torch.utils.tensorboard."),
    ("tensorboardX.", "torch.utils.tensorboard."),
    ("tensorboard_logger.", "torch.utils.tensorboard.logger."),
    ("ray.air.config.ScalingConfig", "ray.train.ScalingConfig"),
    ("ray.air.ScalingConfig", "ray.train.ScalingConfig"),
    ("ray.air.session.", "ray.train."),
    ("ignite.engine.engine.", "ignite.engine."),
    ("ignite.engine.events.", "ignite.engine."),
    ("lightning.pytorch.", "pytorch_lightning."),
    ("lightning.fabric.Fabric", "lightning.Fabric"),
    ("lightning_fabric.", "lightning."),
    ("lightning.LightningModule", "pytorch_lightning.LightningModule"),
    ("lightning.LightningDataModule", "pytorch_lightning.LightningDataModule"),
    ("lightning.Trainer", "pytorch_lightning.Trainer"),
    ("lightning.Callback", "pytorch_lightning.Callback"),
    ("lightning.seed_everything", "pytorch_lightning.seed_everything"),
    ("pytorch_lightning.core.", "pytorch_lightning."),
    ("pytorch_lightning.callbacks.callback.", "pytorch_lightning."),
    ("pytorch_lightning.callbacks.Callback", "pytorch_lightning.Callback"),
    ("pytorch_lightning.utilities.cli.", "pytorch_lightning.cli."),
    ("pytorch_lightning.trainer.Trainer", "pytorch_lightning.Trainer"),
    ("pytorch_lightning.trainer.trainer.Trainer", "pytorch_lightning.Trainer"),
    ("accelerate.accelerator.", "accelerate."),
    ("accelerate.state.", "accelerate."),
    ("deepspeed.comm.comm.", "torch.distributed."),
    ("deepspeed.comm.", "torch.distributed."),
    ("torch.distributed.distributed_c10d.", "torch.distributed."),
    ("torch.distributed.fsdp.fully_sharded_data_parallel.", "torch.distributed.fsdp."),
    ("torch.distributed._composable.fsdp.", "torch.distributed.fsdp."),
    ("apex.parallel.DistributedDataParallel", "torch.nn.parallel.DistributedDataParallel"),
    ("tqdm.auto.", "tqdm."),
    ("tqdm.notebook.", "tqdm."),
    ("tqdm.std.", "tqdm."),
    ("tqdm.autonotebook.", "tqdm."),
    ("autograd.variable.Variable", "torch.autograd.Variable"),
    ("transformers.trainer.", "transformers."),
    ("transformers.trainer_callback.", "transformers."),
    ("transformers.training_args.", "transformers."),
    ("transformers.optimization.", "transformers."),
)

_canonical: dict[str, str] = {}


def canonical(name: str) -> str:
    """The one spelling of a library name."""
    known = _canonical.get(name)
    if known is None:
        known = name
        for prefix, replacement in _ALIASES:
            if known.startswith(prefix) or known == prefix:
                known = replacement + known[len(prefix) :]
        _canonical[name] = known
    return known


KNOWN_PACKAGES = {
    "torch",
    "torchvision",
    "accelerate",
    "transformers",
    "pytorch_lightning",
    "lightning",
    "lightning_fabric",
    "deepspeed",
    "trl",
    "peft",
}
"""Packages whose own code is not looked into: what their names mean is written here."""
DATA_LOADERS = {
    "torch.utils.data.DataLoader",
    "torch_geometric.loader.DataLoader",
    "torch_geometric.data.DataLoader",
    "monai.data.DataLoader",
    "torchdata.stateful_dataloader.StatefulDataLoader",
    "accelerate.data_loader.DataLoaderShard",
}
DDP = "torch.nn.parallel.DistributedDataParallel"
DATA_PARALLEL = {"torch.nn.DataParallel", "torch.nn.parallel.data_parallel"}
FSDP = {
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard",
    "fairscale.nn.FullyShardedDataParallel",
}
WRAPPERS = {DDP, *DATA_PARALLEL, *FSDP}
SHARDING_SAMPLERS = {
    "torch.utils.data.DistributedSampler",
    "torchdata.nodes.DistributedSampler",
    "catalyst.data.DistributedSamplerWrapper",
}
GRAD_SCALERS = {
    "torch.cuda.amp.GradScaler",
    "torch.amp.GradScaler",
    "torch.cpu.amp.GradScaler",
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler",
}
AUTOCASTS = {"torch.cuda.amp.autocast", "torch.autocast", "torch.amp.autocast", "torch.cpu.amp.autocast"}
NO_GRADS = {"torch.no_grad", "torch.inference_mode"}
MODULE_BASES = {
    "torch.nn.Module",
    "torch.jit.ScriptModule",
    "pytorch_lightning.LightningModule",
    "transformers.PreTrainedModel",
    "transformers.modeling_utils.PreTrainedModel",
    "diffusers.ModelMixin",
    "torch_geometric.nn.MessagePassing",
    "torch_geometric.nn.conv.MessagePassing",
}
ALL_PARAMETERS_RUN = re.compile(
    r"^transformers\.(\w+\.)*(\w+For(SequenceClassification|TokenClassification|QuestionAnswering|MaskedLM"
    r"|MultipleChoice|ImageClassification)|GPT2LMHeadModel|(GPTNeoX|Llama|Mistral|Qwen2|Qwen3|Gemma2?|Phi3?|Bloom)ForCausalLM)"
    r"\.(from_pretrained|from_config)$"
)
"""Models of transformers whose forward uses all parameters: no mixtures of experts, no layers that are dropped."""
LIGHTNING_MODULE = "pytorch_lightning.LightningModule"
DATASET_BASES = {
    "torch.utils.data.Dataset",
    "torch.utils.data.IterableDataset",
    "torch.utils.data.IterDataPipe",
    "torch.utils.data.MapDataPipe",
}
LIGHTNING_STRATEGIES = re.compile(
    r"^(pytorch_lightning|lightning(\.fabric)?|ray\.train\.lightning)\.(strategies\.|plugins\.|overrides\.)?(\w+\.)*\w*(Strategy|DDPPlugin)$"
)
"""Strategies of Lightning and Fabric, as classes; what Lightning 1 called plugins among them."""
RANK_ZERO_REPORTS = re.compile(r"^(pytorch_lightning|lightning|lightning_utilities)\.(\w+\.)*rank_zero_info$")
"""Lightning's function that logs on the first rank only."""
LIGHTNING_PROFILERS = re.compile(r"^pytorch_lightning\.profilers?\.(\w+\.)*\w+Profiler$")
IGNITE_EVENT = "ignite.engine.Events."
"""How the names of the events of an engine begin."""
ARGUMENT_PARSERS = (
    *("argparse.ArgumentParser", "configargparse.ArgumentParser", "configargparse.ArgParser"),
    *("jsonargparse.ArgumentParser", "simple_parsing.ArgumentParser"),
)
DATACLASS_PARSERS = ("transformers.HfArgumentParser", "transformers.hf_argparser.HfArgumentParser", "trl.TrlParser")
"""Parsers whose options are the fields of the dataclasses that they are made with."""
COMMAND_RUNNERS = (
    *("tyro.cli", "simple_parsing.parse", "draccus.parse", "pyrallis.parse", "jsonargparse.CLI"),
    *("jsonargparse.auto_cli", "fire.Fire", "typer.run", "defopt.run"),
)
"""Functions that fill a dataclass, or call a function, by options of the command line."""
FIELDS = (
    *("dataclasses.field", "attr.ib", "attr.field", "attrs.field", "pydantic.Field", "pydantic.fields.Field"),
    *("simple_parsing.field", "simple_parsing.helpers.field", "draccus.field", "pyrallis.field", "chz.field"),
)
"""Functions that say what a field of a class holds by default."""
FIELD_DECORATORS = (
    *("dataclasses.dataclass", "pydantic.dataclasses.dataclass", "attr.s", "attr.define", "attrs.define"),
    *("attrs.frozen", "attr.dataclass", "chz.chz"),
)
FIELD_BASES = (
    *("pydantic.BaseModel", "pydantic.BaseSettings", "pydantic_settings.BaseSettings"),
    *("tap.Tap", "tap.tap.Tap", "simple_parsing.Serializable", "simple_parsing.helpers.Serializable"),
)
"""Classes whose subclasses are declared by their fields."""
PATHLIB_PATHS = ("pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath")
PATHS = (*PATHLIB_PATHS, "os.path.join")
PATH_READERS = frozenset({"open", "read_text", "read_bytes"})
"""Methods of a path of pathlib that open the file; their calls are recorded under "pathlib.Path"."""
SAME_KIND_OF_PATH = frozenset(
    {"joinpath", "with_name", "with_suffix", "with_stem", "resolve", "absolute", "expanduser"}
)
"""Methods of such a path that give another one."""
SAME_PATH = ("os.path.abspath", "os.path.realpath", "os.path.normpath", "os.path.expanduser", "os.fspath")
CONFIGURATION_LOADERS = (
    *("yaml.safe_load", "yaml.load", "yaml.full_load", "yaml.unsafe_load", "json.load", "json.loads"),
    *("tomllib.load", "tomllib.loads", "tomli.load", "tomli.loads", "toml.loads"),
)
"""Functions that read a configuration from an open file, or from its text."""
CONFIGURATION_READERS = ("toml.load", "omegaconf.OmegaConf.load")
"""Functions that read a configuration by its path."""
CONFIGURATION_WRAPPERS = (
    *("omegaconf.OmegaConf.create", "omegaconf.OmegaConf.to_container", "omegaconf.DictConfig", "easydict.EasyDict"),
    *("addict.Dict", "munch.Munch", "munch.munchify", "munch.DefaultMunch.fromDict", "box.Box", "dotmap.DotMap"),
    *("attrdict.AttrDict", "ml_collections.ConfigDict", "ml_collections.config_dict.ConfigDict"),
)
"""Functions and classes that make the same configuration of one, with another type."""
HF_TRAINERS = re.compile(r"^(transformers|trl|sentence_transformers|setfit|optimum\.\w+)\.(\w*\.)*\w*Trainer$")
HF_CALLBACK = "transformers.TrainerCallback"
HF_ARGUMENTS = re.compile(
    r"^(transformers|trl)\.(\w*\.)*(\w*TrainingArguments|SFTConfig|DPOConfig|GRPOConfig|RewardConfig|PPOConfig|ORPOConfig|KTOConfig)$"
)

OPTIMIZERS = (
    *("torch.optim.SGD", "torch.optim.Adam", "torch.optim.AdamW", "torch.optim.RMSprop", "torch.optim.NAdam"),
    *("torch.optim.RAdam", "torch.optim.Adagrad", "torch.optim.Adadelta", "torch.optim.Adamax", "torch.optim.ASGD"),
    *("torch.optim.Rprop", "transformers.AdamW"),
)
"""Optimizers whose second argument is the learning rate."""
FREE_SCHEDULES = frozenset(
    f"torch.optim.lr_scheduler.{name}" for name in ("LambdaLR", "MultiplicativeLR", "CyclicLR", "OneCycleLR")
)
"""Schedules that set a learning rate of their own, or as a function says."""

PARAMETERS: dict[str, tuple[str, ...]] = {
    "torch.utils.data.DataLoader": (
        "dataset",
        "batch_size",
        "shuffle",
        "sampler",
        "batch_sampler",
        "num_workers",
        "collate_fn",
        "pin_memory",
        "drop_last",
        "timeout",
        "worker_init_fn",
        "multiprocessing_context",
        "generator",
    ),
    "torch.nn.parallel.DistributedDataParallel": (
        "module",
        "device_ids",
        "output_device",
        "dim",
        "broadcast_buffers",
        "init_sync",
        "process_group",
        "bucket_cap_mb",
        "find_unused_parameters",
        "check_reduction",
        "gradient_as_bucket_view",
        "static_graph",
    ),
    "torch.distributed.fsdp.FullyShardedDataParallel": (
        "module",
        "process_group",
        "sharding_strategy",
        "cpu_offload",
        "auto_wrap_policy",
        "backward_prefetch",
        "mixed_precision",
        "ignored_modules",
        "param_init_fn",
        "device_id",
        "sync_module_states",
        "forward_prefetch",
        "limit_all_gathers",
        "use_orig_params",
    ),
    "torch.nn.DataParallel": ("module", "device_ids", "output_device", "dim"),
    "torch.nn.parallel.data_parallel": ("module", "inputs", "device_ids", "output_device", "dim", "module_kwargs"),
    "torch.utils.data.DistributedSampler": ("dataset", "num_replicas", "rank", "shuffle", "seed", "drop_last"),
    "torch.cuda.amp.GradScaler": ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"),
    "torch.cpu.amp.GradScaler": ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"),
    "torch.amp.GradScaler": ("device", "init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"),
    "torch.cuda.amp.autocast": ("enabled", "dtype", "cache_enabled"),
    "torch.cpu.amp.autocast": ("enabled", "dtype", "cache_enabled"),
    "torch.autocast": ("device_type", "dtype", "enabled", "cache_enabled"),
    "torch.amp.autocast": ("device_type", "dtype", "enabled", "cache_enabled"),
    "torch.autograd.set_detect_anomaly": ("mode", "check_nan"),
    "torch.autograd.detect_anomaly": ("check_nan",),
    **dict.fromkeys(OPTIMIZERS, ("params", "lr")),
    "torch.optim.Optimizer.zero_grad": ("set_to_none",),
    "torch.nn.Module.zero_grad": ("set_to_none",),
    "torch.distributed.init_process_group": ("backend", "init_method", "timeout", "world_size", "rank"),
    "torch.distributed.new_group": ("ranks", "timeout", "backend", "pg_options", "use_local_synchronization"),
    "torch.distributed.barrier": ("group", "async_op", "device_ids", "timeout"),
    "torch.distributed.monitored_barrier": ("group", "timeout", "wait_all_ranks"),
    "torch.distributed.all_reduce": ("tensor", "op", "group", "async_op"),
    "torch.distributed.broadcast": ("tensor", "src", "group", "async_op", "group_src"),
    "torch.distributed.broadcast_object_list": ("object_list", "src", "group", "device", "group_src"),
    "torch.distributed.reduce": ("tensor", "dst", "op", "group", "async_op", "group_dst"),
    "torch.distributed.all_gather": ("tensor_list", "tensor", "group", "async_op"),
    "torch.distributed.all_gather_object": ("object_list", "obj", "group"),
    "torch.distributed.all_gather_into_tensor": ("output_tensor", "input_tensor", "group", "async_op"),
    "torch.distributed.gather": ("tensor", "gather_list", "dst", "group", "async_op", "group_dst"),
    "torch.distributed.gather_object": ("obj", "object_gather_list", "dst", "group", "group_dst"),
    "torch.distributed.scatter": ("tensor", "scatter_list", "src", "group", "async_op", "group_src"),
    "torch.distributed.scatter_object_list": (
        "scatter_object_output_list",
        "scatter_object_input_list",
        "src",
        "group",
        "group_src",
    ),
    "torch.distributed.reduce_scatter": ("output", "input_list", "op", "group", "async_op"),
    "torch.distributed.reduce_scatter_tensor": ("output", "input", "op", "group", "async_op"),
    "torch.distributed.all_to_all": ("output_tensor_list", "input_tensor_list", "group", "async_op"),
    "torch.distributed.all_to_all_single": (
        "output",
        "input",
        "output_split_sizes",
        "input_split_sizes",
        "group",
        "async_op",
    ),
    "torch.save": ("obj", "f"),
    "torch.load": ("f", "map_location", "pickle_module"),
    "torch.distributed.fsdp.CPUOffload": ("offload_params",),
    "torch.use_deterministic_algorithms": ("mode",),
    "torch.nn.utils.clip_grad_norm_": ("parameters", "max_norm", "norm_type", "error_if_nonfinite", "foreach"),
    "gc.collect": ("generation",),
    "torch.utils.checkpoint.checkpoint_sequential": ("functions", "segments", "input", "use_reentrant"),
}
"""Parameter names, in order, of the callees whose positional arguments rules ask for by name."""

RECORDED = {
    "gc.collect",
    "torch.nn.DataParallel",
    "torch.tensor",
    "torch.as_tensor",
    "torch.compile",
    "torch._dynamo.mark_dynamic",
    "torch._dynamo.maybe_mark_dynamic",
    "torch.save",
    "torch.load",
    "torch.autocast",
    "print",
    "torch.set_float32_matmul_precision",
    "torch.use_deterministic_algorithms",
    "torch.set_default_dtype",
    "torch.set_anomaly_enabled",
    *OPTIMIZERS,
    "torch.set_autocast_gpu_dtype",
    "torch.set_autocast_dtype",
    "torch.nn.utils.clip_grad_norm",
    "torch.nn.utils.clip_grad_norm_",
    "torch.nn.utils.clip_grad_value_",
    "torch.set_default_tensor_type",
    "os.putenv",
    "safetensors.torch.save_file",
    "safetensors.torch.save_model",
}
RECORDED_PREFIXES = (
    "torch.cuda.",
    "torch.distributed.",
    "torch.autograd.",
    "torch.backends.",
    "torch.amp.",
    "torch.cpu.amp.",
    "torch.utils.data.",
    "torch.utils.checkpoint.",
    "torch.nn.parallel.",
    "torch.profiler.",
    "torch.accelerator.",
    "torch.mps.",
    "torch.xpu.",
    "transformers.Train",
    "transformers.Seq2SeqTrain",
    "accelerate.",
    "deepspeed.",
    "pytorch_lightning.strategies",
    "pytorch_lightning.plugins",
    "pytorch_lightning.Trainer",
    "lightning.Fabric",
    "lightning.fabric.strategies",
    "ray.train.lightning.",
)

FACTORIES = {
    "zeros",
    "ones",
    "empty",
    "full",
    "eye",
    "rand",
    "randn",
    "randint",
    "randperm",
    "arange",
    "linspace",
    "logspace",
    "tensor",
    "as_tensor",
    "zeros_like",
    "ones_like",
    "empty_like",
    "full_like",
    "rand_like",
    "randn_like",
    "randint_like",
    "normal",
    "bernoulli_",
    "scalar_tensor",
    "range",
    "FloatTensor",
    "LongTensor",
    "IntTensor",
    "HalfTensor",
    "DoubleTensor",
    "BoolTensor",
    "ByteTensor",
    "ShortTensor",
    "Tensor",
    "BFloat16Tensor",
    "from_numpy",
    "frombuffer",
    "asarray",
    "complex",
    "multinomial_",
}
"""Functions of `torch` that make a tensor on the host unless told otherwise (`*_like` follow their argument)."""

CONCATENATIONS = frozenset(
    f"torch.{name}"
    for name in ("cat", "concat", "concatenate", "hstack", "vstack", "dstack", "row_stack", "column_stack")
)
"""Functions that copy all of several tensors into a new one."""

HOST_RESULTS = {
    "torch.is_tensor",
    "torch.numel",
    "torch.is_grad_enabled",
    "torch.get_default_dtype",
    "torch.initial_seed",
    "torch.seed",
    "torch.is_floating_point",
    "torch.is_complex",
    "torch.get_num_threads",
    "torch.manual_seed",
    "torch.finfo",
    "torch.iinfo",
    "torch.Size",
    "torch.Generator",
    "torch.is_autocast_enabled",
    "torch.promote_types",
    "torch.result_type",
    "torch.broadcast_shapes",
    "torch.get_rng_state",
    "torch.set_rng_state",
    "torch.typename",
}
SYNCING_FUNCTIONS = {"torch.equal", "torch.allclose", "torch.is_nonzero"}
"""Functions that return a Python bool computed from tensor data, so that the host waits."""

SYNCING_METHODS = {"item", "tolist", "equal", "allclose", "is_nonzero", "__bool__", "__float__", "__int__"}
COPYING_METHODS = {"cpu", "numpy"}
FRAME_INDEXERS = {"iloc", "loc"}
"""Attributes by which pandas looks up rows and cells."""
FRAME_MAKERS = {"DataFrame", "Series", "concat", "merge"}
"""Functions of pandas that return a DataFrame or a Series, beside those that read one."""
SAME_FRAME = {
    *("reset_index", "set_index", "copy", "sample", "dropna", "fillna", "drop", "drop_duplicates", "merge", "join"),
    *("sort_values", "sort_index", "query", "head", "tail", "rename", "assign", "astype", "filter", "reindex"),
}
"""Methods of a DataFrame that return one."""
STRING_METHODS = {"endswith", "startswith", "lower", "upper", "strip", "split", "join", "encode", "isdigit"}
"""Methods that only text has: what they are called on is no tensor after all."""
TENSOR_METHODS = {"item", "tolist", "cpu", "numpy", "detach", "backward", "cuda", "mean", "sum"}
"""Methods that only a tensor has: what they are called on is one, wherever it comes from."""
HOST_METHODS = {
    "size",
    "dim",
    "numel",
    "nelement",
    "element_size",
    "stride",
    "data_ptr",
    "get_device",
    "is_contiguous",
    "ndimension",
    "storage",
    "storage_offset",
    "is_floating_point",
    "is_complex",
    "is_pinned",
    "is_shared",
    "untyped_storage",
    "is_cuda",
    "keys",
    "__len__",
    "is_sparse",
    "_nnz",
    "sparse_dim",
    "dense_dim",
    "convert_tokens_to_ids",
}
TELLING_PREFIXES = ("get_", "has_", "is_", "num_")
"""Of methods that tell something about a tensor, or about an object of a class that derives from it; none of torch's
own that is called so returns a tensor."""
HOST_ATTRIBUTES = {
    "shape",
    "dtype",
    "ndim",
    "requires_grad",
    "is_cuda",
    "is_leaf",
    "grad_fn",
    "layout",
    "names",
    "itemsize",
    "nbytes",
    "is_sparse",
    "is_quantized",
    "_version",
    "output_nr",
    "is_mkldnn",
    "is_nested",
}
REDUCTIONS = {
    "sum",
    "mean",
    "max",
    "min",
    "norm",
    "std",
    "var",
    "prod",
    "median",
    "any",
    "all",
    "argmax",
    "argmin",
    "logsumexp",
    "count_nonzero",
    "nansum",
    "nanmean",
}
NOT_DIFFERENTIABLE = {
    "eq",
    "ne",
    "gt",
    "ge",
    "lt",
    "le",
    "isnan",
    "isinf",
    "isfinite",
    "argmax",
    "argmin",
    "argsort",
    "long",
    "int",
    "bool",
    "byte",
    "any",
    "all",
    "sign",
    "floor",
    "ceil",
    "round",
    "nonzero",
    "count_nonzero",
    "bincount",
    "multinomial",
    "bernoulli",
}
"""Methods of tensors whose result has no gradient."""

HOST_PACKAGES = {
    "math",
    "random",
    "time",
    "os",
    "sys",
    "json",
    "re",
    "datetime",
    "pathlib",
    "shutil",
    "glob",
    "argparse",
    "logging",
    "collections",
    "itertools",
    "functools",
    "copy",
    "pickle",
    "subprocess",
    "string",
    "socket",
    "platform",
    "warnings",
    "threading",
    "multiprocessing",
    "hashlib",
    "csv",
    "yaml",
    "pprint",
    "inspect",
    "traceback",
    "uuid",
    "types",
    "typing",
    "dataclasses",
    "enum",
    "contextlib",
    "tempfile",
    "urllib",
    "operator",
    "statistics",
    "sklearn",
    "scipy",
    "pandas",
    "matplotlib",
    "PIL",
    "cv2",
    "imageio",
    "skimage",
    "albumentations",
    "librosa",
    "soundfile",
    "rich",
    "click",
    "hydra",
    "omegaconf",
    "psutil",
    "nltk",
    "sacrebleu",
    "rouge",
    "seaborn",
    "toml",
    "requests",
    "importlib",
    "textwrap",
    "heapq",
    "bisect",
    "abc",
    "signal",
}
NUMBER_PACKAGES = {"math", "random", "time", "statistics"}
TENSOR_PACKAGES = {
    "torchvision",
    "torchaudio",
    "timm",
    "kornia",
    "einops",
    "torchmetrics",
    "monai",
    "transformers",
    "diffusers",
    "peft",
    "fairseq",
    "pytorch_lightning",
    "torch_geometric",
    "segmentation_models_pytorch",
    "lpips",
    "pytorch_msssim",
    "open_clip",
    "clip",
    "apex",
    "flash_attn",
    "xformers",
    "torch_scatter",
    "pytorch3d",
    "detectron2",
    "mmcv",
    "mmengine",
    "ignite",
    "fvcore",
    "bitsandbytes",
}
MODULE_FACTORIES = re.compile(
    r"^(torchvision\.models\.(\w+\.)*\w+|timm\.create_model|timm\.models\.(\w+\.)*create_model|torch\.hub\.load|transformers\.(\w+\.)*\w*(Model|For[A-Z]\w*|Encoder|Decoder)\.(from_pretrained|from_config)"
    r"|transformers\.(\w+\.)*(AutoModel\w*|[A-Z]\w*(Model|For[A-Z]\w+))|segmentation_models_pytorch\.\w+|segmentation_models_pytorch\.create_model|monai\.networks\.(\w+\.)*[A-Z]\w*|diffusers\.\w+Model(\.from_pretrained|\.from_config)?"
    r"|open_clip\.create_model|peft\.get_peft_model|peft\.PeftModel\.from_pretrained|unsloth\.\w+|efficientnet_pytorch\.EfficientNet\.\w+|sentence_transformers\.SentenceTransformer"
    r"|torchvision\.ops\.[A-Z]\w*|torchaudio\.models\.\w+|fairseq\.models\.\w+|lpips\.LPIPS|transformers\.\w+LMHeadModel(\.from_pretrained)?|torch\.jit\.(load|script|trace)|torch\.compile)$"
)
TOKENIZER_FACTORIES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"^transformers\.(\w+\.)*\w*(Tokenizer|TokenizerFast|Processor)\.from_pretrained$|^transformers\.(\w+\.)*\w*Tokenizer(Fast)?$"
        ),
        "transformers",
    ),
    (re.compile(r"^tokenizers\.(\w+\.)*\w+"), "transformers"),
    (re.compile(r"^sentencepiece\.SentencePieceProcessor$"), "sentencepiece"),
    (re.compile(r"^tiktoken\.(get_encoding|encoding_for_model|Encoding)$"), "tiktoken"),
    (re.compile(r"^spacy\.(load|blank)$|^spacy\.tokenizer\.Tokenizer$"), "spacy"),
    (re.compile(r"^(youtokentome|subword_nmt|bpemb)\.\w+"), "bpe"),
    (re.compile(r"^torchtext\.data\.(utils\.)?get_tokenizer$"), "torchtext"),
    (re.compile(r"^nltk\.tokenize\.[A-Z]\w*Tokenizer$"), "nltk"),
)
TOKENIZER_FUNCTIONS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"^nltk\.(tokenize\.)?(word_tokenize|sent_tokenize|wordpunct_tokenize|casual_tokenize)$"), "nltk"),
    (re.compile(r"^nltk\.tokenize\.\w+\.\w*tokenize$"), "nltk"),
    (re.compile(r"^clip\.(clip\.)?tokenize$|^open_clip\.tokenize$"), "bpe"),
)
ENCODING_METHODS = {
    "__call__",
    "encode",
    "encode_plus",
    "batch_encode_plus",
    "tokenize",
    "encode_batch",
    "encode_ordinary",
    "EncodeAsIds",
    "EncodeAsPieces",
    "encode_as_ids",
    "encode_as_pieces",
    "apply_chat_template",
    "encode_ordinary_batch",
    "Encode",
    "pipe",
    "word_tokenize",
    "bpe_encode",
    "encode_text",
    "tokenize_text",
    "prepare_for_tokenization",
}
DECODING_METHODS = {
    "decode",
    "batch_decode",
    "decode_ids",
    "DecodeIds",
    "convert_ids_to_tokens",
    "DecodePieces",
    "convert_tokens_to_string",
}
PADDING_METHODS = {"pad", "prepare_for_model", "truncate_sequences"}

TRACKER_FACTORIES = re.compile(
    r"^(torch\.utils\.tensorboard\.SummaryWriter|tensorboard\.SummaryWriter|wandb\.init|neptune\.init\w*|neptune\.\w+\.init|comet_ml\.(Experiment|OfflineExperiment|start)"
    r"|ignite\.(contrib\.)?handlers\.(\w+\.)*\w+Logger|aim\.Run|clearml\.Task\.init|swanlab\.init|mlflow\.start_run|visdom\.Visdom|dvclive\.Live)$"
)
TRACKER_CALLS = re.compile(
    r"^(wandb\.log|wandb\.run\.log|mlflow\.log_\w+|swanlab\.log|neptune\.log\w*|trackio\.log|torch\.utils\.tensorboard\.logger\.log_value|comet_ml\.log\w*|aim\.track)$"
)
TRACKER_METHODS = {
    "add_scalar",
    "add_scalars",
    "add_image",
    "add_images",
    "add_histogram",
    "add_figure",
    "add_text",
    "add_graph",
    "add_audio",
    "add_video",
    "add_pr_curve",
    "add_embedding",
    "log",
    "log_metric",
    "log_metrics",
    "track",
    "append",
    "log_dict",
    "report_scalar",
    "log_scalar",
    "line",
    "log_value",
    "scalar_summary",
    "image_summary",
    "histo_summary",
}
TRACKER_ONLY_METHODS = re.compile(
    r"^add_(scalars?|images?|histogram|figure|pr_curve|embedding|audio|video)$|^(scalar|image|histo)_summary$"
)
LOGGING_METHODS = {"debug", "info", "warning", "warn", "error", "critical", "exception", "log", "print", "write"}
BUILTINS = {
    "print",
    "len",
    "range",
    "enumerate",
    "zip",
    "iter",
    "next",
    "float",
    "int",
    "bool",
    "str",
    "list",
    "tuple",
    "dict",
    "set",
    "sum",
    "max",
    "min",
    "abs",
    "round",
    "sorted",
    "reversed",
    "map",
    "filter",
    "isinstance",
    "issubclass",
    "hasattr",
    "getattr",
    "setattr",
    "super",
    "type",
    "open",
    "repr",
    "format",
    "any",
    "all",
    "id",
    "hash",
    "exit",
    "quit",
    "vars",
    "dir",
    "callable",
    "input",
    "divmod",
    "pow",
    "chr",
    "ord",
    "object",
    "property",
    "staticmethod",
    "classmethod",
    "frozenset",
    "bytes",
    "bytearray",
    "memoryview",
    "complex",
    "slice",
    "globals",
    "locals",
    "eval",
    "exec",
    "hex",
    "bin",
    "__import__",
}
EXITS = {"sys.exit", "exit", "quit", "os._exit", "os.abort", "raise_"}

TORCHVISION_DATASETS = re.compile(
    r"^(torchvision\.datasets\.\w+|torchaudio\.datasets\.\w+|torchtext\.datasets\.\w+|medmnist\.\w+|torch_geometric\.datasets\.\w+)$"
)
TRANSFORMS = re.compile(
    r"^(torchvision\.transforms\.(v2\.|transforms\.)?|albumentations\.(pytorch\.)?|kornia\.augmentation\.)[A-Z]\w*$"
)
"""Classes of transforms of images."""
IN_MEMORY_DATASETS = {"torch.utils.data.TensorDataset"}
DATASET_WRAPPERS = {"torch.utils.data.Subset", "torch.utils.data.ConcatDataset", "torch.utils.data.ChainDataset"}
HF_DATASETS = re.compile(
    r"^datasets\.(load_dataset|load_from_disk|Dataset\.\w+|concatenate_datasets|DatasetDict|interleave_datasets)(\..*)?$|^evaluate\."
)

CLOCKS = frozenset(
    {
        *("time.time", "time.time_ns", "time.perf_counter", "time.perf_counter_ns", "time.monotonic"),
        *("time.monotonic_ns", "timeit.default_timer", "datetime.datetime.now", "datetime.datetime.utcnow"),
    }
)
"""Functions that read a clock of the host which goes on while the host waits."""
NEVER_WAITING = re.compile(
    r"^torch\.cuda\.(amp\.|nvtx\.|is_|device_count|current_|get_device_|(max_)?memory_(allocated|reserved)|manual_seed|Event$|Stream$)"
    r"|^torch\.utils\.data\."
)
MAY_WAIT = (
    *("torch.cuda.", "torch.distributed.", "torch.linalg.", "torch.utils.", "torch.jit.", "torch.profiler."),
    *("torch.ops.", "torch.save", "torch.load", "torch.hub.", "torch.multiprocessing.", "torch._dynamo."),
)
"""How functions of torch begin that may wait for the device, unless `NEVER_WAITING` says otherwise."""
VIEWS = frozenset(
    {
        *("view", "view_as", "reshape", "unsqueeze", "squeeze", "expand", "expand_as", "permute", "transpose", "t"),
        *("swapaxes", "movedim", "flatten", "unflatten", "detach", "detach_", "chunk", "split", "unbind", "narrow"),
        *("select", "diagonal", "unfold", "requires_grad_", "contiguous", "retain_grad", "register_hook", "as_strided"),
        *("real", "imag", "is_contiguous", "size", "dim", "numel", "storage", "share_memory_"),
    }
)
"""Functions and methods of tensors that give the device nothing to compute, since they return a view or a fact."""
MADE_FROZEN = frozenset({"torch.nn.Embedding.from_pretrained", "torch.nn.EmbeddingBag.from_pretrained"})
"""Layers whose parameters require no gradients unless `freeze=False` says so."""
COPIES = frozenset({"clone", "flip", "index_select", "repeat", "repeat_interleave", "roll"})
"""Methods of tensors whose result lies in memory of its own, which is pageable on the host."""
TRANSPOSING = frozenset({"t", "transpose", "permute", "swapaxes", "swapdims", "movedim", "T", "mT"})
"""What returns a view of a tensor of which `contiguous()` is a copy."""
RETURNING_SEVERAL = frozenset(
    {
        *("split", "chunk", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit", "split_with_sizes"),
        "broadcast_tensors",
        *("max", "min", "median", "mode", "topk", "sort", "kthvalue", "aminmax", "cummax", "cummin", "meshgrid", "svd"),
        *("nonzero", "unique", "unique_consecutive", "where", "frexp", "lstm", "gru"),
    }
)
"""Functions and methods that return several tensors, or may do so."""
ONLY_TENSORS = frozenset({"shape", "size", "dim", "ndim", "view", "unsqueeze", "permute", "reshape", "softmax"})
"""Attributes that a tensor has, and no list, tuple or dictionary of tensors."""

CHOOSES_DEVICE = (
    "torch.cuda.set_device",
    "torch.cuda.device",
    "torch.accelerator.set_device_index",
    "torch.accelerator.set_device_idx",
    "torch.accelerator.device_index",
)
"""Functions that tell a process which GPU a device without a number means."""
TASK_LAUNCHERS = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "MV2_", "FLUX_")
"""How variables begin that cluster launchers set; these may show each process one GPU alone."""

FILE_READERS = re.compile(
    r"^(open|h5py\.File|lmdb\.open|sqlite3\.connect|zipfile\.ZipFile|tarfile\.open|netCDF4\.Dataset|xarray\.open_dataset"
    r"|pandas\.(read_(csv|table|json|parquet|pickle|excel|feather|hdf|sql)|HDFStore)|pyarrow\.(parquet|csv|feather)\.read_table"
    r"|numpy\.(load|loadtxt|genfromtxt)|torch\.load|safetensors\.torch\.load_file|scipy\.io\.loadmat|PIL\.Image\.open"
    r"|pathlib\.Path\.(open|read_text|read_bytes)|cv2\.imread|torchvision\.io\.(read_image|read_file|decode_image)|nibabel\.load|soundfile\.read|torchaudio\.load|librosa\.load)$"
)
"""Functions and classes of libraries that open a file by its name, most of which read it at once."""
OBJECT_MAKERS = re.compile(
    r"^(transformers\.(\w+\.)*\w+\.from_pretrained|transformers\.pipeline|sentencepiece\.SentencePieceProcessor"
    r"|tokenizers\.Tokenizer\.\w+|spacy\.load|torch\.(jit|hub)\.load|torchvision\.models\.\w+|timm\.create_model"
    r"|sentence_transformers\.SentenceTransformer|clip\.load|open_clip\.create_\w+|torchaudio\.pipelines\.\w+\.get_model"
    r"|torchaudio\.transforms\.(Spectrogram|MelSpectrogram|MelScale|InverseMelScale|MFCC|LFCC|GriffinLim|Resample|PitchShift)"
    r"|cv2\.(CascadeClassifier|dnn\.read\w+)|dlib\.\w+_predictor"
    r"|insightface\.app\.FaceAnalysis|mediapipe\.solutions\.\w+\.[A-Z]\w+|onnxruntime\.InferenceSession)$"
)
"""Functions and classes of libraries that read files or compute tables to make an object that is used many times."""

ARRAY_MAKERS = re.compile(
    r"^numpy\.(array|asarray|ascontiguousarray|asanyarray|zeros|ones|full|empty|zeros_like|ones_like|full_like|empty_like|arange"
    r"|linspace|eye|stack|vstack|hstack|concatenate|pad|tile|repeat|load|loadtxt|genfromtxt|fromfile|frombuffer|fromiter|memmap"
    r"|transpose|reshape|ravel|flip|fliplr|flipud|rot90|roll|meshgrid)$"
    r"|^cv2\.(imread|imdecode|resize|cvtColor|flip|GaussianBlur|warpAffine)$|^(skimage\.io|imageio(\.v[23])?)\.imread$"
)
"""Functions of numpy and of image libraries whose result is an array for certain, never a scalar."""
DOUBLE_BY_DEFAULT = {
    "numpy.zeros": 1,
    "numpy.ones": 1,
    "numpy.empty": 1,
    "numpy.eye": 3,
    "numpy.linspace": 5,
}
"""Functions of numpy that make float64 unless they are given a type, with the number of arguments before that."""
DOUBLE_SAMPLERS = frozenset(
    {
        "numpy.random.rand",
        "numpy.random.randn",
        "numpy.random.random_sample",
        "numpy.random.standard_normal",
    }
)
"""Functions of numpy that draw float64, as many numbers as their arguments say."""
SHAPED_BY_VALUES = frozenset({"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive"})
"""Functions and methods of tensors whose result has as many items as the values decide."""
BOOLEAN_RESULTS = frozenset(
    {"eq", "ne", "gt", "ge", "lt", "le", "isnan", "isinf", "isfinite", "bool", "isin", "isclose"}
    | {"logical_and", "logical_or", "logical_not", "logical_xor"}
)
"""Functions and methods of tensors that return truth values, one for each item."""
KEEPING_TYPE = frozenset(
    {"view", "reshape", "unsqueeze", "expand", "repeat", "clone", "contiguous", "t", "transpose", "permute", "flatten"}
    | {"detach", "requires_grad_", "pin_memory"}
)
"""Methods of a tensor whose result has its type, and as many dimensions or more."""
ARRAY_METHODS = {"astype", "copy", "reshape", "transpose", "flatten", "ravel", "swapaxes", "clip", "round"}
"""Methods of an array whose result is an array as well."""

COLLECTIVES = re.compile(
    r"^torch\.distributed\.(all_reduce|all_gather\w*|barrier|broadcast\w*|reduce\w*|gather\w*|scatter\w*|monitored_barrier|all_to_all\w*)$"
)
FRAMEWORK_COLLECTIVES = {
    "accelerate.Accelerator": frozenset({"gather", "gather_for_metrics", "reduce", "wait_for_everyone"}),
    "lightning.Fabric": frozenset({"all_gather", "all_reduce", "barrier", "broadcast"}),
}
"""Methods by which frameworks run a collective of all ranks."""
HOST_TENSOR = re.compile(r"^torch\.(Float|Double|Half|BFloat16|Byte|Char|Short|Int|Long|Bool)?Tensor$")
"""Legacy types of tensors on the host."""
CONTRIBUTIONS: dict[str, tuple[str, int]] = {
    "torch.distributed.all_reduce": ("tensor", 0),
    "torch.distributed.reduce": ("tensor", 0),
    "torch.distributed.gather": ("tensor", 0),
    "torch.distributed.all_gather": ("tensor", 1),
    "torch.distributed.all_gather_into_tensor": ("input_tensor", 1),
    "torch.distributed.all_gather_object": ("obj", 1),
    "torch.distributed.gather_object": ("obj", 0),
    "torch.distributed.barrier": ("", 0),
    "torch.distributed.monitored_barrier": ("", 0),
    "accelerate.Accelerator.gather": ("tensor", 0),
    "accelerate.Accelerator.gather_for_metrics": ("input_data", 0),
    "accelerate.Accelerator.reduce": ("tensor", 0),
    "accelerate.Accelerator.wait_for_everyone": ("", 0),
    "lightning.Fabric.all_gather": ("data", 0),
    "lightning.Fabric.all_reduce": ("data", 0),
    "lightning.Fabric.barrier": ("", 0),
    "ignite.distributed.all_reduce": ("tensor", 0),
    "ignite.distributed.barrier": ("", 0),
    "ray.train.report": ("", 0),
    "pytorch_lightning.LightningModule.all_gather": ("data", 0),
    "pytorch_lightning.Strategy.reduce": ("tensor", 0),
    "pytorch_lightning.Strategy.barrier": ("", 0),
}
"""What each rank contributes to a collective: the parameter's name and position; no name where it is a barrier."""
CUDA_TENSOR = re.compile(r"^torch\.cuda\.(Float|Long|Int|Half|Double|Bool|Byte|Short|BFloat16)?Tensor$")


OF_TENSORS = (ONLY_TENSORS | VIEWS | BOOLEAN_RESULTS | KEEPING_TYPE | REDUCTIONS | NOT_DIFFERENTIABLE) | frozenset(
    {
        *("float", "half", "double", "bfloat16", "exp", "log", "sqrt", "square", "pow", "abs", "neg", "sigmoid"),
        *("tanh", "relu", "log_softmax", "clamp", "clip", "matmul", "mm", "bmm", "mul", "add", "sub", "div"),
        *(
            "masked_fill",
            "gather",
            "scatter",
            "index_select",
            "clone",
            "repeat",
            "cumsum",
            "roll",
            "flip",
            "std",
            "var",
            "norm",
        ),
    }
)
"""Methods that a tensor has, and no list, tuple or dictionary of tensors."""


def is_module_class(name: str) -> bool:
    """Whether a library name is a class of modules: calling it makes a model, a layer or a loss."""
    if (
        name in MODULE_BASES
        or name in MADE_FROZEN
        or MODULE_FACTORIES.match(name)
        or name == "torch.optim.swa_utils.AveragedModel"
    ):
        return True
    head, _, last = name.rpartition(".")
    return (
        head.startswith("torch.nn")
        and last[:1].isupper()
        and last != "Parameter"
        and not head.startswith(("torch.nn.utils", "torch.nn.init"))
        and name not in WRAPPERS
    )


def is_optimizer_class(name: str) -> bool:
    """Whether a library name is an optimizer, or a function that makes one."""
    head, _, last = name.rpartition(".")
    if name.startswith(("torch.optim.lr_scheduler", "torch.optim.swa_utils")) or "sched" in last.lower():
        return False
    optimizer_packages = (
        "torch.optim",
        "timm.optim",
        "apex.optimizers",
        "bitsandbytes.optim",
        "torch_optimizer",
        "deepspeed.ops",
        "pytorch_optimizer",
        "lion_pytorch",
        "muon",
    )
    if head.startswith(optimizer_packages) and (last[:1].isupper() or last.startswith("create_optimizer")):
        return True
    return name in {
        "transformers.AdamW",
        "transformers.Adafactor",
        "transformers.optimization.AdamW",
        "timm.optim.create_optimizer",
    }


def is_scheduler(name: str) -> bool:
    """Whether a library name is a learning rate schedule, or a function that makes one."""
    return (
        name.startswith(("torch.optim.lr_scheduler.", "torch.optim.swa_utils.SWALR", "transformers.get_"))
        or "scheduler" in name.rpartition(".")[2].lower()
    )


_NO_PARAMETERS = (
    *("ReLU", "LeakyReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Sigmoid", "LogSigmoid", "Tanh", "Hard"),
    *("Soft", "LogSoftmax", "Dropout", "MaxPool", "AvgPool", "AdaptiveMaxPool", "AdaptiveAvgPool", "Identity"),
    *("Flatten", "Unflatten", "Upsample", "PixelShuffle", "ZeroPad", "ReflectionPad", "ReplicationPad", "ConstantPad"),
    *("CosineSimilarity", "PairwiseDistance"),
)


def has_no_parameters(layer: str) -> bool:
    """Whether a class of layers, by canonical name, computes with its inputs alone: activations, pooling, losses."""
    name = layer.rpartition(".")[2]
    return ".nn." in layer and (name.startswith(_NO_PARAMETERS) or "Loss" in name)


OTHER_FRAMEWORKS = frozenset(
    {"tensorflow", "keras", "tf_keras", "jax", "flax", "chainer", "paddle", "mindspore", "mxnet"}
    | {"mlx", "warp", "tinygrad"}
)
"""Libraries whose models, tensors and training steps have the same names as torch's, and neither its ways nor its
costs."""
TORCH_FAMILY = frozenset(
    {"torch", "torchvision", "torchaudio", "lightning", "pytorch_lightning", "accelerate", "deepspeed", "ignite"}
)
"""Packages of torch, and those that train with it alone."""
