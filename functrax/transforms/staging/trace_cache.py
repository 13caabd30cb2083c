"""The traces of a jitted function, by their signatures; those that are not used again go.

A function that is called with another length each time has a program for each, of which most are
never asked for again.  The *weight* of a program is its equations.  Whenever new ones weigh as much
as :data:`FIRST_BOUND` together, those go that were not used since that last was so.  Where one that
went is asked for again, the bound rises: what is used again and again stays, however much it is.

Start at :class:`TraceCache`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final

from functrax.transforms.staging.traces import Traced

#: Equations: of new programs after which those are dropped that are not used.
FIRST_BOUND: Final = 4_000
#: By how many times its weight the bound rises for one that was dropped and is traced again.
RISE: Final = 4
#: What a program weighs beside its equations: its signature, inputs and results.
OVERHEAD: Final = 10
#: The signatures of so many programs that went are known.
MOST_DROPPED: Final = 1 << 14


class TraceCache(dict[Hashable, Traced]):
    """Traces by their signatures.

    Attributes:
      bound: how much new ones may weigh before those that are not used are dropped.
      new: what those weigh that came since.
      used: the identities of those that were used since, new ones among them.
      dropped: the hashes of signatures whose traces went, in order.
    """

    def __init__(self) -> None:
        self.bound = FIRST_BOUND
        self.new = 0
        self.used: set[int] = set()
        self.dropped: dict[int, None] = {}

    def find(self, key: Hashable) -> Traced | None:
        """The trace of a signature, which is used now."""
        found = self.get(key)
        if found is not None:
            self.used.add(id(found))
        return found

    def keep(self, key: Hashable, traced: Traced) -> bool:
        """Remember a trace; whether it is time for :meth:`drop_unused`."""
        weight = OVERHEAD + len(traced.jaxpr.eqns)
        word = hash(key)
        if word in self.dropped:
            del self.dropped[word]
            self.bound += RISE * weight
        self[key] = traced
        self.used.add(id(traced))
        self.new += weight
        return self.new > self.bound

    def drop_unused(self, running: Iterable[Callable[..., Any]]) -> None:
        """Drop what was not used since this was last done.

        Args:
          running: the executables of programs that were called without :meth:`find`.
        """
        called = set(map(id, running))
        for key, traced in list(self.items()):
            if id(traced) in self.used or not called.isdisjoint(
                map(id, traced.jaxpr.memo.values())
            ):
                continue
            del self[key]
            self.dropped[hash(key)] = None
        for word in list(self.dropped)[: len(self.dropped) - MOST_DROPPED]:
            del self.dropped[word]
        self.used.clear()
        self.new = 0

    def clear(self) -> None:
        """Forget all of it, and what was learnt about their use."""
        super().clear()
        self.used.clear()
        self.dropped.clear()
        self.bound, self.new = FIRST_BOUND, 0
