"""Injects the agent into an interpreter that starts with this folder on PYTHONPATH, then makes itself unseen.

It reads on any Python, and does nothing below 3.9: children of a job may run another interpreter. The `sitecustomize`
that it stands before, such as Debian's, is run as if this one were not there.
"""

import sys


def _inject():
    import os

    here = os.path.dirname(os.path.abspath(__file__))
    others = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    sys.path[:] = others
    sys.path_importer_cache.pop(here, None)
    sys.modules.pop("sitecustomize", None)
    try:
        if sys.version_info >= (3, 9) and os.environ.get("TRAINLINT_PROBE_DIR"):
            _start(os.path.dirname(here))
    except BaseException:
        pass
    # Raises as it would without this file: `site` reports what goes wrong in a sitecustomize.
    __import__("sitecustomize")


def _start(agent):
    names = {"__name__": "_trainlint_agent.loading"}
    with open(agent + "/loading.py", "rb") as source:
        exec(compile(source.read(), "<trainlint loading>", "exec"), names)
    names["load"](agent)


_inject()
