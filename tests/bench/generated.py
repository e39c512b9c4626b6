"""Training projects made by a deterministic generator: as large as asked for, and the same on every machine.

Their files are of the kinds that real repositories consist of, in about the same proportions of code, comments and
documentation: models, datasets, losses, engines, shared tools, and scripts that train with some of each.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from string import Template

from tests.bench import bodies

_WORDS = """
    anchor batch channel cosine crop decay depth dropout embed epoch factor feature filter frame grid head hidden image
    index kernel label layer length level margin mask mean merge mixup momentum noise norm offset pad patch query rank
    ratio sample scale score segment shift smooth source span stride student target teacher token weight width window
"""
WORDS = [word for line in _WORDS.splitlines() for word in line.split()]
_FIELDS = ("vision", "text", "speech", "video", "graphs")
"""Parts of the repository, which share the core and nothing else."""
_SHARES = {"models": 0.34, "data": 0.18, "losses": 0.08, "engines": 0.14, "tools": 0.1}
"""Of the files of a part; the rest are scripts."""
_CORE_SHARE = 0.12


def write_training_project(root: Path, files: int = 300, lines_in_file: int = 345, seed: int = 0) -> None:
    """Write a repository of several fields of work over a shared core, each with training scripts of its own."""
    choose = random.Random(seed)
    _start(root, "generated")
    core = [f"core_{number}" for number in range(int(files * _CORE_SHARE))]
    for number, name in enumerate(core):
        imports = _imports("generated.core", choose.sample(core[:number], min(2, number)))
        _write(
            root / "generated/core" / f"{name}.py", module(choose, bodies.CORE, bodies.TOOLS, imports, lines_in_file)
        )
    for field in _FIELDS:
        _write_field(root, field, core, (files - len(core)) // len(_FIELDS), lines_in_file, choose)
    for package in ("generated", "generated/core", *(f"generated/{field}" for field in _FIELDS)):
        _write(root / package / "__init__.py", "")


def write_plain_project(root: Path, files: int = 300, lines_in_file: int = 345, seed: int = 1) -> None:
    """Write a repository whose code, all but one script, never meets a training library."""
    choose = random.Random(seed)
    _start(root, "plain")
    for number in range(files - 1):
        text = module(choose, bodies.PLAIN, bodies.TOOLS, [], lines_in_file)
        _write(root / f"plain/part_{number % 12}/module_{number}.py", text)
    _write(root / "train.py", _filled(choose, bodies.LONE_SCRIPT))


def _write_field(
    root: Path, field: str, core: Sequence[str], files: int, lines_in_file: int, choose: random.Random
) -> None:
    """Write one part: a package of each kind of module, then the scripts that use them."""
    names: dict[str, list[str]] = {}
    for kind, share in _SHARES.items():
        names[kind] = [f"{choose.choice(WORDS)}_{number}" for number in range(max(1, int(files * share)))]
        for name in names[kind]:
            imports = _imports("generated.core", choose.sample(core, min(3, len(core))))
            if kind == "models":
                earlier = names[kind][: names[kind].index(name)]
                imports += _imports(f"generated.{field}.{kind}", choose.sample(earlier, min(2, len(earlier))))
            text = module(choose, bodies.MAIN[kind], bodies.MORE[kind], imports, lines_in_file)
            _write(root / f"generated/{field}/{kind}/{name}.py", text)
        listed = _imports(f"generated.{field}.{kind}", names[kind])
        _write(root / f"generated/{field}/{kind}/__init__.py", "\n".join(listed) + "\n")
    written = sum(map(len, names.values()))
    for number in range(files - written):
        picked = {f"{kind}_module": choose.choice(names[kind]) for kind in _SHARES}
        text = _filled(choose, bodies.SCRIPT, field=field, core_module=choose.choice(core), **picked)
        text += _more(choose, bodies.SCRIPT_MORE, lines_in_file - text.count("\n"))
        _write(root / f"scripts/{field}/train_{field}_{number}.py", text + _filled(choose, bodies.SCRIPT_END))


def _start(root: Path, name: str) -> None:
    root.mkdir(parents=True, exist_ok=True)
    (root / "pyproject.toml").write_text(f'[project]\nname = "{name}"\nversion = "1"\n')


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _imports(package: str, names: Iterable[str]) -> list[str]:
    return [f"from {package} import {name}" for name in names]


def module(choose: random.Random, head: str, more: Sequence[str], imports: Sequence[str], lines: int) -> str:
    """A module: its imports and what others import of it, then definitions up to so many lines."""
    text = _filled(choose, head, imports="\n".join(imports))
    return text + _more(choose, more, lines - text.count("\n"))


def _more(choose: random.Random, templates: Sequence[str], lines: int) -> str:
    parts: list[str] = []
    count = 0
    while count < lines:
        parts.append("\n\n" + _filled(choose, choose.choice(templates)))
        count += parts[-1].count("\n")
    return "".join(parts)


def _filled(choose: random.Random, template: str, **known: str) -> str:
    """A template with names and numbers of its own."""
    words = {f"w{number}": word for number, word in enumerate(choose.sample(WORDS, 6))}
    names = {
        "Name": "".join(word.title() for word in choose.sample(WORDS, 2)) + str(choose.randrange(1000)),
        "name": "_".join(choose.sample(WORDS, 2)) + f"_{choose.randrange(1000)}",
    }
    numbers = {f"n{number}": str(choose.randrange(2, 512)) for number in range(4)}
    fractions = {f"f{number}": f"{choose.random():.3f}" for number in range(2)}
    return Template(template.lstrip("\n")).substitute(words, **names, **numbers, **fractions, **known)
