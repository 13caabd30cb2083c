"""Why something is no kernel: an answer, on which other ways are taken, and no error.

What lowers a group, a contraction or a loop returns kernels or a :class:`Refusal`.  Whoever asks
looks which it is, and takes the next way: other loops, one group after the other, a host call.

A lowering evaluates values by recursion through several objects, and may find out deep inside that
one has no scalar expression.  There :func:`refuse` leaves the recursion, and :func:`answered`, at
the lowering's own door, makes a value of it.  The exception is known in this file alone.

Start at :class:`Refusal`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from functrax.core.records import record

_Found = TypeVar("_Found")


@record
class Refusal:
    """Why there is no kernel.

    Args:
      reason: what stands in the way, for people: "a product with a number".
    """

    reason: str


class _RefusedError(Exception):
    """Leaves the recursion of one lowering; it goes from :func:`refuse` to :func:`answered`."""


def refuse(reason: str) -> NoReturn:
    """Leave a lowering, whose :func:`answered` then returns the reason."""
    raise _RefusedError(reason)


def answered(lower: Callable[[], _Found]) -> _Found | Refusal:
    """What a lowering finds, or why it left its recursion."""
    try:
        return lower()
    except _RefusedError as error:
        return Refusal(str(error))
