"""Types of library objects: what `Object.type` holds, unless it is the canonical name of what wraps a model.

Where one class stands for all of its kind, its name is the type; the others are words of this model.
"""

from __future__ import annotations

from typing import Final

MODEL: Final = "torch.nn.Module"
OPTIMIZER: Final = "torch.optim.Optimizer"
SCHEDULER: Final = "torch.optim.lr_scheduler.LRScheduler"
SCALER: Final = "torch.amp.GradScaler"
STATE_DICT: Final = "state_dict"
CHECKPOINT: Final = "checkpoint"

LOADER: Final = "torch.utils.data.DataLoader"
SAMPLER: Final = "sampler"
DATASET: Final = "dataset"
HF_DATASET: Final = "datasets.Dataset"
TRANSFORM: Final = "transform"
TOKENIZER: Final = "tokenizer"
GENERATED_TEXT: Final = "generated-text"
GENERATOR: Final = "torch.Generator"

ITERATOR: Final = "iterator"
ENUMERATE: Final = "enumerate"
ZIP: Final = "zip"
RANGE: Final = "range"
PROGRESS: Final = "tqdm"
PREPARED: Final = "prepared"

NO_GRAD: Final = "no_grad"
ENABLE_GRAD: Final = "enable_grad"
MAYBE_GRAD: Final = "maybe_grad"
NO_SYNC: Final = "no_sync"
ACCUMULATE: Final = "accumulate"
AUTOCAST: Final = "autocast"
CACHE: Final = "cache"
DECORATOR: Final = "decorator"

ACCELERATOR: Final = "accelerate.Accelerator"
FABRIC: Final = "lightning.Fabric"
LIGHTNING_TRAINER: Final = "pytorch_lightning.Trainer"
LIGHTNING_STRATEGY: Final = "pytorch_lightning.Strategy"
DEEPSPEED_ENGINE: Final = "deepspeed.Engine"
LIGHTNING_PROFILER: Final = "pytorch_lightning.Profiler"
IGNITE_ENGINE: Final = "ignite.Engine"
IGNITE_STATE: Final = "ignite.State"
IGNITE_EVENT: Final = "ignite.Events"
IGNITE_PARALLEL: Final = "ignite.distributed.Parallel"
RAY_CONTEXT: Final = "ray.train.TrainContext"
RAY_SHARD: Final = "ray.data.DataIterator"
SUBSCRIPTION: Final = "subscription"
HF_TRAINER: Final = "hf.Trainer"

LOGGER: Final = "logging.Logger"
TRACKER: Final = "tracker"
PARSER: Final = "argparse.ArgumentParser"
PATH: Final = "pathlib.Path"
FILE: Final = "file"
"""A configuration file of the project, opened; `origin` is its path."""
HYDRA: Final = "hydra.main"
ENVIRONMENT: Final = "os.environ"
SUPER: Final = "super"
MODULE_DICT: Final = "module-dict"
LIBRARY_DICT: Final = "library-dict"
DEVICE_TEXT: Final = "device-text"
COMPUTED: Final = "computed"
