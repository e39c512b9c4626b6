"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# The same examples on every run, and no limit by the clock: other work on the machine is no fault of the code.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
