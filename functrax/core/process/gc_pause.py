"""Python's collector of cyclic garbage, kept away from modules while they are loaded.

The collector looks at everything that is young each time some hundred objects were made.  What
``import`` makes stays, so looking at it finds nothing; it took an eighth of ``import functrax``,
and the look at all old objects that follows fell into the first call of a program.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


class Pause:
    """No collections as long as this object lives, or until :meth:`end`.

    A module that is being imported keeps it as a global: if the import fails, the collector runs
    again.
    """

    def __init__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def end(self) -> None:
        """Let the collector run again, unless it did not before; what was made counts as old."""
        if self._was_enabled:
            self._was_enabled = False
            age()
            gc.enable()

    def __del__(self) -> None:
        self.end()


def age() -> None:
    """Put all objects among the oldest, which the collector seldom looks at."""
    if not gc.get_freeze_count():  # the program's own frozen objects stay so
        gc.freeze()
        gc.unfreeze()


@contextmanager
def paused() -> Iterator[None]:
    """No collections in this block, for most of what it makes stays or has no cycles.

    What is garbage then is found by the collection that follows, which looks at it first.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
