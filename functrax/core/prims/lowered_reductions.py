"""How reductions put elements together, in scalar operations.

A reduction carries a few numbers (most carry one): :meth:`Reduction.start` makes them of one
element, :meth:`Reduction.combine` puts two sets of them together, :meth:`Reduction.finish` makes
the result of them.  ``combine`` is associative, up to rounding, so a kernel may have partial
results in lanes, in loops and in threads, and combine them at the end; it begins with
:attr:`Reduction.identity`, or with the element that the result starts from.

Start at :class:`Reduction`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.core.prims.lowered_arithmetic import larger, smaller
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.types import dtypes

Carried: TypeAlias = tuple[Scalar, ...]
_MANY: Final = 2**31 - 1


class Reduction(ABC):
    """What a kernel does with the elements that become one.

    Attributes:
      name: what it is called in print.
      carries: the dtypes of the numbers carried.
      place: the dtype of the places that elements are told apart by.
      identity: the numbers carried for no elements; None if the result must start from something.
      commutative: the elements may come in any order; else in row-major order of their places.
    """

    name: str
    carries: tuple[np.dtype[Any], ...]
    place: np.dtype[Any] = dtypes.int32
    identity: tuple[Any, ...] | None
    commutative: bool = True

    def empty(self, b: Builder) -> Carried:
        """What is carried for no elements."""
        assert self.identity is not None, f"{self.name} starts from an element"
        return tuple(b.const(x, d) for x, d in zip(self.identity, self.carries, strict=True))

    @abstractmethod
    def start(self, b: Builder, x: Scalar, place: Scalar) -> Carried:
        """What is carried for one element; ``place`` is its index along the axis."""

    @abstractmethod
    def combine(self, b: Builder, left: Carried, right: Carried) -> Carried:
        """What is carried for the elements of both; those of ``left`` come first."""

    @abstractmethod
    def finish(self, b: Builder, carried: Carried) -> Scalar:
        """The result."""


def _of_numbers(
    of_bools: str, function: Callable[[Builder, Scalar, Scalar], Scalar]
) -> Callable[[Builder, Scalar, Scalar], Scalar]:
    """A function of numbers, and the logic that it is for truth values."""

    def combine(b: Builder, x: Scalar, y: Scalar) -> Scalar:
        return b.logic(of_bools, x, y) if x.dtype == dtypes.bool_ else function(b, x, y)

    return combine


def _log_add_exp(b: Builder, x: Scalar, y: Scalar) -> Scalar:
    """``log(exp(x) + exp(y))`` of floats, without overflow."""
    # The difference of equal infinities is NaN.
    apart = b.select(b.compare("eq", x, y), b.like(x, 0), b.neg(b.abs(b.sub(x, y))))
    return b.add(larger(b, x, y), b.math("log1p", b.math("exp", apart)))


_COMBINE: Final[dict[str, Callable[[Builder, Scalar, Scalar], Scalar]]] = {
    "add": _of_numbers("or", Builder.add),
    "mul": _of_numbers("and", Builder.mul),
    "max": larger,
    "min": smaller,
    "logaddexp": _log_add_exp,
    "and": lambda b, x, y: b.logic("and", x, y),
    "or": lambda b, x, y: b.logic("or", x, y),
    "xor": lambda b, x, y: b.logic("xor", x, y),
    "set": lambda b, x, y: y,
}


class Fold(Reduction):
    """A reduction by one operation, ``add mul max min logaddexp and or xor``, or ``set``: the last
    one.

    Args:
      op: the operation.
      dtype: of elements and result.
      carried: the dtype to compute in; of complex numbers both parts are carried.
      identity: of the operation; None for ``set``.
    """

    def __init__(
        self, op: str, dtype: np.dtype[Any], carried: np.dtype[Any], identity: Any
    ) -> None:
        self.op = self.name = op
        self.carries = dtypes.parts_of(carried)
        self.identity = None if identity is None else (identity, 0)[: len(self.carries)]
        self.commutative = op != "set"
        self._dtype = dtype
        self._carried = carried
        self._function = _COMBINE[op]

    def start(self, b: Builder, x: Scalar, place: Scalar) -> Carried:
        return b.parts(b.convert(x, self._carried))

    def combine(self, b: Builder, left: Carried, right: Carried) -> Carried:
        return b.parts(self._function(b, b.whole(left), b.whole(right)))

    def finish(self, b: Builder, carried: Carried) -> Scalar:
        return b.convert(b.whole(carried), self._dtype)


class ArgExtremum(Reduction):
    """The place of the largest or smallest element: a reduction of pairs of value and place.

    NaN wins over numbers; of equal elements and of several NaNs the first one wins, whatever the
    order in which pairs are combined.

    Args:
      wins: ``"gt"`` for the largest, ``"lt"`` for the smallest.
      dtype: of the elements.
      identity: the value that no other value loses to.
      size: how many elements there are at most.
      index_dtype: of the result.
    """

    def __init__(
        self,
        wins: str,
        dtype: np.dtype[Any],
        identity: Any,
        size: int,
        index_dtype: np.dtype[Any],
    ) -> None:
        self.place = dtypes.int32 if size <= _MANY else dtypes.int64
        self.carries = (dtypes.float32 if dtype in dtypes.HALF else dtype, self.place)
        self.identity = (identity, np.iinfo(self.place).max)
        self._wins = wins
        self.name = "argmax" if wins == "gt" else "argmin"
        self._index_dtype = index_dtype

    def start(self, b: Builder, x: Scalar, place: Scalar) -> Carried:
        return b.widen(x), place

    def combine(self, b: Builder, left: Carried, right: Carried) -> Carried:
        (x, i), (y, j) = left, right
        better, equal = b.compare(self._wins, y, x), b.compare("eq", x, y)
        if dtypes.is_float(x.dtype):
            x_nan, y_nan = b.is_nan(x), b.is_nan(y)
            better = b.logic("or", better, b.both(y_nan, b.logic("not", x_nan)))
            equal = b.logic("or", equal, b.both(x_nan, y_nan))
        takes = b.logic("or", better, b.both(equal, b.compare("lt", j, i)))
        return b.select(takes, y, x), b.select(takes, j, i)

    def finish(self, b: Builder, carried: Carried) -> Scalar:
        return b.convert(carried[1], self._index_dtype)
