"""Which files of a project matter to its training code, and which of them belong together.

Most files of a repository never meet a training library: they are neither parsed nor linked. What matters is every
file that mentions one, whatever those files import, and whoever imports them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from trainlint.semantics.facts import ImportedModule
from trainlint.semantics.modules import ModuleMap
from trainlint.semantics.prefilter import scan
from trainlint.source.discovery import context_files, default_filters, is_shared_place, project_root, scripts_in


class Outline(NamedTuple):
    """What is known of a file before it is parsed."""

    relevant: bool
    """Whether it mentions a training library."""
    imports: tuple[ImportedModule, ...]
    configurations: tuple[str, ...] = ()
    """The configuration files that it names, as `semantics.prefilter.Scan` has them."""


def outline_of(data: bytes) -> Outline:
    """Look a file over without parsing it."""
    found = scan(data)
    return Outline(bool(found.libraries), found.imports, found.configurations)


class Closure(NamedTuple):
    """The relevant files, in groups that import each other; the rest is in no group."""

    components: tuple[tuple[Path, ...], ...]
    """Sorted, and each one's files sorted."""


def closure(outlines: Mapping[Path, Outline]) -> Closure:
    """Find the relevant files among all files of a project, and their connected components."""
    modules = ModuleMap(outlines)
    imported = {
        path: [file for one in outline.imports for file in modules.resolve(path, one.module, one.level, one.names)]
        for path, outline in outlines.items()
    }
    importers: dict[Path, list[Path]] = {}
    for path, files in imported.items():
        for file in files:
            importers.setdefault(file, []).append(path)
    seeds = [path for path, outline in outlines.items() if outline.relevant]
    relevant = _reachable(seeds, imported) | _reachable(seeds, importers)
    return Closure(tuple(_components(relevant, imported)))


def import_closure(script: Path) -> tuple[Path, ...]:
    """A script, the files of its project that it imports, and those that these import; sorted. Only these are read."""
    root = project_root(script)
    files = sorted(scripts_in(root)) if is_shared_place(root) else context_files(root, default_filters(root))
    modules = ModuleMap([*files, script])
    found, pending = {script}, [script]
    while pending:
        importer = pending.pop()
        try:
            imports = outline_of(importer.read_bytes()).imports
        except OSError:
            continue
        for one in imports:
            new = set(modules.resolve(importer, one.module, one.level, one.names)) - found
            found |= new
            pending += new
    return tuple(sorted(found))


def _reachable(seeds: Iterable[Path], edges: Mapping[Path, Sequence[Path]]) -> set[Path]:
    found = set(seeds)
    pending = list(found)
    while pending:
        for path in edges.get(pending.pop(), ()):
            if path not in found:
                found.add(path)
                pending.append(path)
    return found


def _components(files: set[Path], imported: Mapping[Path, Sequence[Path]]) -> list[tuple[Path, ...]]:
    neighbours: dict[Path, list[Path]] = {path: [] for path in files}
    for path in files:
        for file in imported[path]:
            if file in files:
                neighbours[path].append(file)
                neighbours[file].append(path)
    components = []
    left = set(files)
    for path in sorted(files):
        if path in left:
            component = _reachable([path], neighbours)
            left -= component
            components.append(tuple(sorted(component)))
    return components
