"""Probes every planted program and prints where the result and the program's own truth disagree.

    python -m tests.probe.planted [NAME ...]

Ends with status 1 if they disagree anywhere.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.probe.planted.expectations import Program, programs
from tests.probe.planted.runs import disagreements, platform_here, probe


def main(arguments: Sequence[str] | None = None) -> int:
    known = {program.name: program for program in programs()}
    parser = argparse.ArgumentParser(prog="python -m tests.probe.planted", description="Probe the planted programs.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs; all of them by default")
    parser.add_argument("--keep", type=Path, help="keep results and recordings in this folder")
    parsed = parser.parse_args(arguments)
    if unknown := set(parsed.names) - known.keys():
        parser.error(f"there is no program {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    chosen = [known[name] for name in parsed.names or known]
    with tempfile.TemporaryDirectory() as scratch:
        right = sum(_is_right(program, (parsed.keep or Path(scratch)).resolve()) for program in chosen)
    print(f"{right} of {len(chosen)} right")
    return int(right < len(chosen))


def _is_right(program: Program, folder: Path) -> bool:
    place = folder / program.name
    place.mkdir(parents=True)
    start = time.monotonic()
    try:
        wrong = disagreements(probe(program, place, platform_here()))
    except AssertionError as error:
        wrong = [str(error)]
    print(f"{'wrong' if wrong else 'right'}  {program.name:<28}{time.monotonic() - start:5.0f} s", flush=True)
    for one in wrong:
        print(f"       {one}", flush=True)
    return not wrong


if __name__ == "__main__":
    sys.exit(main())
