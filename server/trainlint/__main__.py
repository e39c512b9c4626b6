"""The `trainlint` program; `python -m trainlint` is the same one."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """Run the program on the arguments of this process and return its exit status."""
    try:
        from trainlint.cli.program import run

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return 130
    finally:
        # Else the interpreter's last collection goes through all that is about to be given back anyway.
        gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
