"""Settings of all tests."""

from __future__ import annotations

import signal

from hypothesis import settings

# The same examples on every run, and no limit by the clock: other work on the machine is no fault of the code.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")

# A shell that starts a test run in the background has it ignore interrupts, and so would all programs that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
