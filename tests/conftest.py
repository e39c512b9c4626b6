"""Settings of all tests."""

from __future__ import annotations

import compileall
import signal
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).parents[1]
LONG = (
    "tests/probe/test_planted.py",
    "tests/probe/test_agent_",
    "tests/harmless/",
    "tests/examples/",
    "tests/precommit/",
    "tests/action/",
    "tests/soundness/",
    "tests/editor/",
    "tests/probe/",
    "tests/lsp/",
)
"""Where single tests take many seconds, the longest first."""

# The same examples on every run, and no limit by the clock: other work on the machine is no fault of the code.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")

# A shell that starts a test run in the background has it ignore the keys of the terminal, and nohup its end; so would
# all programs that it starts.
for ignored in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, signal.default_int_handler if ignored is signal.SIGINT else signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    """Compile what the programs import that tests start, as pip does where it installs trainlint.

    A checkout in an environment that forbids to write bytecode would else be compiled anew by each of more than a
    thousand processes, which takes as long as all else that a short one does.
    """
    if not hasattr(config, "workerinput"):
        for sources in ("server", "rules"):
            compileall.compile_dir(REPOSITORY / sources, quiet=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest, so that in the end no process is left with what others cannot take off it."""
    items.sort(
        key=lambda item: next((rank for rank, path in enumerate(LONG) if item.nodeid.startswith(path)), len(LONG))
    )
