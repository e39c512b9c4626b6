"""Walks leave objects in cycles, and the collector is paused while they last."""

from __future__ import annotations

import gc

MANY = 1_000_000
"""Objects: fewer are left to the end, so that small projects are checked without any collection."""


class Garbage:
    """Tells when enough objects were made since the last collection for another one to be worth its time."""

    def __init__(self) -> None:
        self._kept = 0

    def collect_if_much(self) -> None:
        """Collect when as many objects have been made as were alive after the last time, and many: so a collection
        costs a fixed part of making them, however much is kept."""
        if gc.get_count()[0] >= max(MANY, self._kept):
            gc.collect()
            self._kept = len(gc.get_objects())
