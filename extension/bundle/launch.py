"""Runs the trainlint that the extension carries: `python -I -S launch.py server`.

The compiled libraries of all supported Python versions lie beside each other, since the names of their files carry the
version; the interpreter imports its own. Nothing else may be imported but the standard library: `-I` and `-S` keep the
working directory, the user's variables and the interpreter's installed packages out.

Worker processes that are started afresh import this file under another name, so nothing may run on import.
"""

import sys
from pathlib import Path


def main() -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent / "libs"))
    from trainlint.__main__ import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
