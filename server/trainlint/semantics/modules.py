"""Which file of a project an import means: the one place that turns module names into files and back.

Real training code is started from anywhere: a module is looked for beside a script, at the roots of the package and of
the project, under `src/`, and at last wherever one file alone could be meant. What Python would take from the standard
library or from an installed library is not looked for that far.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

INSTALLED = frozenset(
    word
    for line in (
        "accelerate apex bitsandbytes colossalai comet_ml composer cv2 datasets deepspeed diffusers einops",
        "evaluate fabric fairscale flash_attn fsspec h5py horovod hydra ignite jax kornia lightning",
        "lightning_fabric matplotlib megatron mlflow mmcv mmengine monai neptune nltk numba numpy omegaconf",
        "optuna pandas peft PIL psutil pycocotools pydantic pynvml pytorch_lightning ray requests safetensors",
        "scipy sentencepiece skimage sklearn spacy tensorboard tensorboardX tensorflow tiktoken timm",
        "tokenizers torch torch_xla torchaudio torchdata torchmetrics torchtext torchvision tqdm",
        "transformer_engine transformers triton trl wandb webdataset xformers yaml",
    )
    for word in line.split()
)
"""Top-level names that an environment for training provides; a file of the project does not answer to one of these
from afar, only from where Python itself would find it first."""


class ModuleMap:
    """The importable files of one project."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._files: dict[str, Path] = {}
        self._by_name: dict[str, list[str]] = defaultdict(list)
        self._regular_packages: set[str] = set()
        self._folders: set[str] = set()
        for path in paths:
            self._add(path)
        self._top = _common_folder(self._files) if self._files else ""
        self._roots: dict[tuple[str, str], str | None] = {}
        self._search: dict[str, tuple[list[str], list[str]]] = {}

    def _add(self, path: Path) -> None:
        text = os.fspath(path)
        if not text.endswith(".py"):
            return
        folder, _, name = text[:-3].rpartition(os.sep)
        if name == "__init__":
            key = folder
            self._regular_packages.add(folder)
            self._files[key] = path
        else:
            key = f"{folder}{os.sep}{name}"
            self._files.setdefault(key, path)
        self._by_name[key.rpartition(os.sep)[2]].append(key)
        while folder and folder not in self._folders:
            self._folders.add(folder)
            folder = folder.rpartition(os.sep)[0]

    def resolve(self, importer: Path, module: str, level: int, names: Sequence[str]) -> list[Path]:
        """Return the project files that an import statement of `importer` loads or takes names from.

        `import a.b` (no `names`) means the packages on the way as well, since it binds `a`; `from a.b import x` means
        `a.b` and, where it is a module, `a.b.x`. An import of anything outside the project returns an empty list.
        """
        base = self._base(importer, module, level)
        if base is None:
            return []
        found = [self._files[key] for key in self._imported(base, module, names) if key in self._files]
        return [path for path in dict.fromkeys(found) if path != importer]

    def locate(self, importer: Path, module: str, level: int = 0) -> Path | None:
        """Return the file of the module that `importer` names; None outside the project and for namespace packages."""
        base = self._base(importer, module, level)
        return None if base is None else self._files.get(_join(base, module))

    def module_name(self, path: Path) -> str:
        """Return the dotted name of a file, counted from the folder above its topmost regular package."""
        folder, _, name = os.fspath(path).rpartition(os.sep)
        parts = [] if name == "__init__.py" else [name.rpartition(".")[0] or name]
        while folder in self._regular_packages:
            folder, _, name = folder.rpartition(os.sep)
            parts.append(name)
        return ".".join(reversed(parts))

    def _imported(self, base: str, module: str, names: Sequence[str]) -> list[str]:
        whole = _join(base, module)
        if names:
            return [whole, *(f"{whole}{os.sep}{name}" for name in names)]
        parts = module.split(".")
        return [_join(base, ".".join(parts[: end + 1])) for end in range(len(parts))]

    def _base(self, importer: Path, module: str, level: int) -> str | None:
        """The folder that `module` counts from."""
        folder = os.fspath(importer).rpartition(os.sep)[0]
        if level:
            for _ in range(level - 1):
                folder = folder.rpartition(os.sep)[0]
            return folder
        key = (folder, module)
        if key not in self._roots:
            self._roots[key] = self._find_base(folder, module)
        return self._roots[key]

    def _find_base(self, folder: str, module: str) -> str | None:
        first = module.partition(".")[0]
        foreign = first in sys.stdlib_module_names or first in INSTALLED
        near, far = self._search_path(folder)
        for base in near if foreign else (*near, *far):
            if self._holds(base, module, first):
                return base
        return None if foreign else self._only_base(module, first)

    def _search_path(self, folder: str) -> tuple[list[str], list[str]]:
        """Where Python would look for an absolute import of a file in `folder` however it is started, then where it
        would if the program were started from inside a package."""
        if folder not in self._search:
            package_root = folder
            inside: list[str] = []
            while package_root in self._regular_packages:
                inside.append(package_root)
                package_root = package_root.rpartition(os.sep)[0]
            far = list(_with_src(package_root))
            while package_root != self._top and package_root.startswith(self._top) and package_root:
                package_root = package_root.rpartition(os.sep)[0]
                far += _with_src(package_root)
            self._search[folder] = ([far[0]], far[1:] + inside)
        return self._search[folder]

    def _holds(self, base: str, module: str, first: str) -> bool:
        """Whether `module` is found from `base`: a file or regular package of its first name, or, through folders
        without `__init__.py`, the whole of it."""
        start = f"{base}{os.sep}{first}"
        if start in self._files:
            return True
        whole = _join(base, module)
        return start in self._folders and (whole in self._files or whole in self._folders)

    def _only_base(self, module: str, first: str) -> str | None:
        """The one folder of the project from which `module` is found, if there is one and it is no package itself."""
        tail = os.sep + module.replace(".", os.sep)
        bases = {
            key[: -len(tail)]
            for key in self._by_name.get(module.rpartition(".")[2], ())
            if key.endswith(tail) and (module != first or key[: -len(tail)] not in self._regular_packages)
        }
        return bases.pop() if len(bases) == 1 else None


def _join(base: str, module: str) -> str:
    return f"{base}{os.sep}{module.replace('.', os.sep)}" if module else base


def _with_src(folder: str) -> tuple[str, str]:
    return folder, f"{folder}{os.sep}src"


def _common_folder(keys: Iterable[str]) -> str:
    folders = [key.rpartition(os.sep)[0] for key in keys]
    return os.path.commonpath(folders)
