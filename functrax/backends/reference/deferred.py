"""Products that are put off, so that a sum of products never stores the product.

A matrix product is written as ``reduce_sum(mul(broadcast(x), broadcast(w)))``.  The reference
device does not compute such a ``mul``: it keeps a :class:`Deferred`, which is its two factors.  A
sum contracts them (``backends/reference/numpy_contraction.py``); everything else asks for
:meth:`Deferred.materialize`, which is exactly what the operation would have given.

Whether a product is put off (:func:`defer`) depends on shapes and strides only, so a program gives
the same bits whether it is run at once or operation by operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrax.backends.reference import strided
from functrax.backends.reference.strided import Array, distinct, elementwise, used_axes
from functrax.core.prims.arithmetic import mul


class Deferred:
    """A product of two arrays of one shape and dtype, not computed yet.

    Args:
      factors: the two arrays, of which one at least repeats elements.
    """

    __slots__ = ("_value", "dtype", "factors", "shape")

    def __init__(self, factors: Sequence[Array]) -> None:
        self.factors = tuple(factors)
        self.shape = self.factors[0].shape
        self.dtype = self.factors[0].dtype
        self._value: Array | None = None

    def materialize(self) -> Array:
        """The elements, computed the first time."""
        if self._value is None:
            with np.errstate(all="ignore"):
                self._value = elementwise(mul, self.factors, {})
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        value = self.materialize()
        return np.array(value, dtype) if copy or dtype not in (None, value.dtype) else value

    def map_factors(self, function: Callable[[Array], Array]) -> Deferred:
        """The product of what a function makes of each factor."""
        return Deferred([function(x) for x in self.factors])

    def __repr__(self) -> str:
        return f"Deferred({self.dtype}{list(self.shape)})"


def defer(values: Sequence[Any]) -> Deferred | None:
    """The product of two raw values put off, or None if it is to be computed now."""
    x, y = values
    if not (_is_array(x) and _is_array(y)) or x.size <= strided.SMALL:
        return None
    x_used, y_used = used_axes(x), used_axes(y)
    if not x_used or not y_used:
        return None  # an array that is one element, repeated: scaling gains nothing
    union = math.prod(x.shape[k] for k in {*x_used, *y_used})
    if union <= strided.SMALL or min(distinct(x), distinct(y)) >= union:
        return None
    return Deferred(values)


def _is_array(x: Any) -> bool:
    return type(x) is np.ndarray and x.ndim > 0
