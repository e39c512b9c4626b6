"""Which functions are worth following: whether anything that rules speak about can happen inside.

Models are the bulk of most code bases, and nearly all of their code is arithmetic on tensors. What a forward returns
can be told without walking it, if nothing in it, and nothing that it names, reads a tensor, moves one, prints or logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, NamedTuple

from trainlint.semantics import code
from trainlint.semantics.facts import ModuleFacts

_SPEAKING = frozenset(
    [
        "item",
        "tolist",
        "numpy",
        "cpu",
        "cuda",
        "to",
        "float",
        "int",
        "bool",
        "print",
        "log",
        "info",
        "warning",
        "debug",
        "error",
        "exception",
        "backward",
        "step",
        "zero_grad",
        "synchronize",
        "empty_cache",
        "collect",
        "save",
        "load",
        "tokenizer",
        "tokenize",
        "encode",
        "encode_plus",
        "batch_encode_plus",
        "word_tokenize",
        "DataLoader",
        "DistributedDataParallel",
        "DDP",
        "DataParallel",
        "data_parallel",
        "parallel_apply",
        "equal",
        "allclose",
        "write",
        "add_scalar",
        "add_image",
        "wandb",
        "tensor",
        "as_tensor",
        "new_tensor",
        "iloc",
        "loc",
        "iterrows",
        "FloatTensor",
        "LongTensor",
        "IntTensor",
        "DoubleTensor",
        "HalfTensor",
        "BoolTensor",
        "ByteTensor",
        "barrier",
        "all_reduce",
        "all_gather",
        "environ",
        "set_detect_anomaly",
        "detect_anomaly",
        "get_scale",
        "GradScaler",
        "no_sync",
        "nonzero",
        "argwhere",
        "masked_select",
        "unique",
        "repeat_interleave",
        "checkpoint",
        "checkpoint_sequential",
        "compile",
        "open",
        "File",
        "from_pretrained",
        "read_bytes",
        "read_csv",
        "read_table",
        "read_text",
        "read_json",
        "read_parquet",
        "read_pickle",
        "read_excel",
        "read_hdf",
        "loadtxt",
        "genfromtxt",
        "loadmat",
        "connect",
        "ZipFile",
        "imread",
        "SentencePieceProcessor",
        "create_model",
        "InferenceSession",
        "Compose",
    ]
)
"""Names of calls that rules speak about, or that lead to such."""
_KEPT = frozenset(["checkpoint", "checkpoint_sequential"])
"""Those of them that constructors keep in an attribute under another name."""
_REDUCING = frozenset(["sum", "mean", "max", "min", "norm", "abs", "any", "all", "isnan", "isinf", "isfinite"])


def _ends(*node_types: type[Any]) -> tuple[str, ...]:
    """How lowered nodes of these types end in their JSON: with their tag."""
    return tuple(f",{code.NODE_TYPES.index(node_type)}]" for node_type in node_types)


_CONDITIONS = _ends(code.If, code.While, code.Assert, code.Conditional)
_FOR, _SLICE, _SUBSCRIPT, _COMPREHENSION = _ends(code.For, code.Slice, code.Subscript, code.Comprehension)


class _Mention(NamedTuple):
    """A name, and where what it means is looked for."""

    closure: int
    """Number of the import closure; files that import each other have the same one."""
    word: str


class Interest:
    """Answers for all functions of a project, each found once."""

    def __init__(self, files: Mapping[Path, ModuleFacts], closure: Callable[[Path], frozenset[Path]]) -> None:
        self._files = files
        self._closure = closure
        self._functions: dict[str, list[tuple[Path, int]]] = {}
        self._methods: dict[str, list[tuple[Path, int]]] = {}
        self._known: dict[tuple[Path, int], bool] = {}
        self._closures: dict[frozenset[Path], int] = {}
        self._mentions: dict[tuple[Path, int], tuple[_Mention, ...]] = {}
        self._meant: dict[_Mention, list[tuple[Path, int]]] = {}
        self._silent: set[_Mention] = set()
        """Names that mean nothing that speaks."""
        for path, facts in files.items():
            for index, function in enumerate(facts.functions):
                first, _, rest = function.qualname.partition(".")
                (self._methods if rest else self._functions).setdefault(first, []).append((path, index))

    def of(self, path: Path, index: int) -> bool:
        """Whether a function, or anything of the project that it names, may do what rules speak about."""
        start = (path, index)
        known = self._known.get(start)
        if known is None:
            known = self._known[start] = self._search(start)
        return known

    def answer(self, path: Path, what: str | int) -> bool:
        """The one or the other: for a class by its name, or for a function by its index."""
        return self.of_class(path, what) if isinstance(what, str) else self.of(path, what)

    def of_class(self, path: Path, name: str) -> bool:
        """The same for all methods of a class."""
        return any(self.of(*key) for key in self._methods.get(name, ()) if key[0] == path)

    def functions_named_by(self, *named: tuple[Path, str]) -> Iterator[tuple[Path, int]]:
        """The methods of classes, each by its file and name, and the functions and methods of the project that these
        name, and so on."""
        waiting = [key for path, name in named for key in self._methods.get(name, ()) if key[0] == path]
        seen = set(waiting)
        asked: set[_Mention] = set()
        while waiting:
            key = waiting.pop()
            yield key
            fresh = [item for item in self._named_by(key, asked) if item not in seen]
            seen.update(fresh)
            waiting += fresh

    def _search(self, start: tuple[Path, int]) -> bool:
        seen = {start}
        asked: set[_Mention] = set()
        waiting = [start]
        while waiting:
            key = waiting.pop()
            if self._known.get(key, False) or self._speaks(key):
                return True
            named = self._named_by(key, asked, self._silent)
            fresh = [item for item in named if item not in seen and self._known.get(item, True)]
            seen.update(fresh)
            waiting += fresh
        # nothing that can be reached from here speaks, so nothing that was met does
        self._known.update(dict.fromkeys(seen, False))
        self._silent |= asked
        return False

    def _speaks(self, key: tuple[Path, int]) -> bool:
        path, index = key
        facts = self._files[path]
        if facts.functions[index].qualname.endswith("__init__"):
            return not facts.words(index).isdisjoint(_KEPT)
        return _speaks(facts.body_line(index), facts.words(index))

    def _named_by(
        self, key: tuple[Path, int], asked: set[_Mention], silent: AbstractSet[_Mention] = frozenset()
    ) -> Iterator[tuple[Path, int]]:
        """The functions and methods of the project that a function names, but for names that are `silent` or that were
        `asked` for before: where each of many files defines the same ones, a search would else meet all of them in
        each. They lie in the import closure of the function's file, so that the answer depends on nothing else."""
        for mention in self._mentioned_by(key):
            if mention not in asked and mention not in silent:
                asked.add(mention)
                yield from self._meant_by(key[0], mention)

    def _mentioned_by(self, key: tuple[Path, int]) -> tuple[_Mention, ...]:
        found = self._mentions.get(key)
        if found is None:
            path, index = key
            words = [
                word for word in self._files[path].words(index) if word in self._functions or word in self._methods
            ]
            closure = self._closures.setdefault(self._closure(path), len(self._closures)) if words else 0
            found = self._mentions[key] = tuple(_Mention(closure, word) for word in words)
        return found

    def _meant_by(self, path: Path, mention: _Mention) -> list[tuple[Path, int]]:
        found = self._meant.get(mention)
        if found is None:
            named = (*self._functions.get(mention.word, ()), *self._methods.get(mention.word, ()))
            visible = self._closure(path)
            found = self._meant[mention] = [one for one in named if one[0] in visible]
        return found


def _speaks(line: str, words: frozenset[str]) -> bool:
    if words & _SPEAKING:
        return True
    if words & _REDUCING and any(end in line for end in _CONDITIONS):
        return True
    if "range" in words and _SUBSCRIPT in line and (_FOR in line or _COMPREHENSION in line):
        return True
    return _FOR in line and _SLICE in line
