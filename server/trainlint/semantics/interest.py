"""Which functions are worth following: whether anything that rules speak about can happen inside.

Models are the bulk of most code bases, and nearly all of their code is arithmetic on tensors. What a forward returns
can be told without walking it, if nothing in it, and nothing that it names, reads a tensor, moves one, prints or logs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from trainlint.semantics.facts import ModuleFacts

_QUOTED = re.compile(r'"([A-Za-z_]\w*)"')
_SPEAKING = frozenset(
    """item tolist numpy cpu cuda to float int bool print log info warning debug error exception backward step zero_grad
    synchronize empty_cache collect save load tokenizer tokenize encode encode_plus batch_encode_plus word_tokenize
    DataLoader DistributedDataParallel DDP DataParallel data_parallel parallel_apply equal
    allclose write add_scalar add_image wandb tensor as_tensor FloatTensor LongTensor
    barrier all_reduce all_gather environ set_detect_anomaly detect_anomaly get_scale GradScaler no_sync""".split()
)
"""Names of calls that rules speak about, or that lead to such."""
_REDUCING = frozenset("sum mean max min norm abs any all isnan isinf isfinite".split())
_CONDITIONS = (",28]", ",30]", ",36]", ",12]")
_FOR, _SLICE = ",29]", ",5]"
"""How the lowered nodes of conditions, of a loop and of a slice end in their JSON."""


class Interest:
    """Answers for all functions of a project, each found once."""

    def __init__(self, files: Mapping[Path, ModuleFacts]) -> None:
        self._files = files
        self._functions: dict[str, list[tuple[Path, int]]] = {}
        self._methods: dict[str, list[tuple[Path, int]]] = {}
        self._known: dict[tuple[Path, int], bool] = {}
        self._words: dict[tuple[Path, int], frozenset[str]] = {}
        for path, facts in files.items():
            for index, function in enumerate(facts.functions):
                first, _, rest = function.qualname.partition(".")
                (self._methods if rest else self._functions).setdefault(first, []).append((path, index))

    def of(self, path: Path, index: int) -> bool:
        """Whether a function, or anything of the project that it names, may do what rules speak about."""
        return self._of((path, index), 0)

    def of_class(self, name: str) -> bool:
        """The same for all methods of the classes of this name."""
        return any(self._of(key, 0) for key in self._methods.get(name, ()))

    def _of(self, key: tuple[Path, int], depth: int) -> bool:
        known = self._known.get(key)
        if known is None:
            self._known[key] = False
            known = self._known[key] = self._look(key, depth)
        return known

    def _look(self, key: tuple[Path, int], depth: int) -> bool:
        path, index = key
        facts = self._files[path]
        line = facts.lines[len(facts.unit_rows) + index]
        words = frozenset(_QUOTED.findall(line))
        constructor = facts.functions[index].qualname.endswith("__init__")
        if not constructor and _speaks(line, words):
            return True
        if depth > 40:
            return True
        named: list[tuple[Path, int]] = []
        for word in words:
            named += self._functions.get(word, [])
            named += self._methods.get(word, [])
        return any(self._of(item, depth + 1) for item in named)


def _speaks(line: str, words: frozenset[str]) -> bool:
    if words & _SPEAKING:
        return True
    if words & _REDUCING and any(end in line for end in _CONDITIONS):
        return True
    return _FOR in line and _SLICE in line
