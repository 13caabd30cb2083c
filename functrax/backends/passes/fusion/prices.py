"""What fusion weighs: to compute a value again where it is needed, or to store and to load it."""

from __future__ import annotations

from functrax.core.records import record

#: Under what a program of groups remembers why pairs of its equations, given by their positions,
#: share no kernel: a sentence, or a :class:`Price`.
REASONS = "reasons why groups stay apart"
#: Under what it remembers the prices of values that kernels compute more often than once, and of
#: views that are stored.
PRICES = "prices of values that are computed again, and of views that are stored"


@record
class Price:
    """What either way costs, in nanoseconds of all elements, as the model of cost says.

    It is written as text by those who ask alone, for sizes may not be known yet.

    Args:
      places: at how many places a kernel computes the value for each of its points, or how many
        kernels put a view together.
      again: to compute it so often, beyond once.
      stored: to store it once, to load it, and to start one kernel more.
    """

    places: int
    again: float
    stored: float

    def __str__(self) -> str:
        often = f"at {self.places} places" if self.places > 1 else "where it is needed"
        again, stored = _time(self.again), _time(self.stored)
        return f"to compute it {often} takes {again} more, to store and to load it {stored}"


def _time(ns: float) -> str:
    for unit, size in (("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.1f} {unit}"
    return f"{ns:.0f} ns"
