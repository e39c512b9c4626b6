"""Sweeps the linter over real code and holds it to what it promises of any code: no crash, the same findings however it
is run, fixes that leave code which parses, change nothing else and come to an end.

    python -m tests.soundness [--root DIR ...] [--packages [NAME ...]] [--standard-library] [--cache DIR]

Without a choice of trees it takes the standard library of this Python and ten packages of the registry, which pip
downloads into the cache. Trees are copied, and nothing of them is run. Ends with status 1 if a promise is broken.
"""

from __future__ import annotations

import argparse
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.soundness.fixing import fix_everything
from tests.soundness.linting import Program, lint_in_many_ways
from tests.soundness.packages import PACKAGES, fetch
from tests.soundness.planted import plant_fixes
from tests.soundness.tally import Kind, Tally, table
from tests.soundness.trees import copy_tree

SECONDS = 1800
"""How long one run over a tree may take, unless `--seconds` says otherwise: enough for the standard library on a busy
machine, and not for a search that never ends."""


def main(words: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(words)
    tallies = []
    for name, root in _trees(arguments):
        tally = sweep(name, root, arguments.seconds)
        tallies.append(tally)
        print(f"{name}: {len(tally.failures)} failures in {tally.seconds:.0f} s", file=sys.stderr)
        for failure in tally.failures:
            print(f"  {failure}", file=sys.stderr, flush=True)
    print(table(tallies))
    return 1 if any(tally.failures for tally in tallies) else 0


def sweep(name: str, root: Path, seconds: float = SECONDS) -> Tally:
    """Check everything on a copy of the tree at `root`."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        # Resolved, as the program reports it.
        folder = Path(scratch).resolve()
        copy = copy_tree(root, folder / "tree" / name)
        tally = Tally(name, len(copy.files), copy.lines)
        if not copy.files:
            tally.fail(Kind.CRASH, "the tree", f"{root} holds no Python file")
            return tally
        program = Program(tally, copy, folder / "cache", seconds)
        findings = lint_in_many_ways(program)
        if findings is not None:
            fix_everything(program, findings)
        plant_fixes(copy, tally)
    tally.seconds = time.perf_counter() - started
    return tally


def _trees(arguments: argparse.Namespace) -> list[tuple[str, Path]]:
    roots: list[Path] = [root.resolve() for root in arguments.root]
    everything = not roots and arguments.packages is None and not arguments.standard_library
    if arguments.packages is not None or everything:
        roots += fetch(arguments.packages or PACKAGES, arguments.cache.resolve())
    trees = [(root.name, root) for root in roots]
    if arguments.standard_library or everything:
        version = ".".join(map(str, sys.version_info[:2]))
        trees.append((f"python{version}", Path(sysconfig.get_path("stdlib"))))
    return trees


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, nargs="+", action="extend", default=[], help="folders of code")
    parser.add_argument("--packages", nargs="*", help="packages of the registry (default: ten that train)")
    parser.add_argument("--standard-library", action="store_true", help="the standard library of this Python")
    parser.add_argument("--cache", type=Path, default=Path("out/soundness"), help="where packages are kept")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long a run over one tree may take")
    return parser


if __name__ == "__main__":
    sys.exit(main())
