"""Products that are put off, so that a sum of products never stores the product.

A matrix product is written as ``reduce_sum(mul(broadcast(x), broadcast(w)))``.  The reference
device does not compute such a ``mul``: it keeps a :class:`Deferred`, which is its two factors.
They have the shape of the whole iteration space, but repeat themselves along most axes.  A sum
contracts them by NumPy's matrix product (:func:`contract`), so nothing larger is made than a factor
copied out (a convolution's windows: im2col).  Everything else asks for
:meth:`Deferred.materialize`, which is exactly what the operation would have given.

Whether a product is put off (:func:`defer`) depends on shapes and strides only, so a program gives
the same bits whether it is run at once or operation by operation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from functrax.backends.reference import strided
from functrax.backends.reference.strided import Array, distinct, used_axes
from functrax.core.prims.arithmetic import mul
from functrax.core.prims.reduce import wider
from functrax.core.types import dtypes

#: Axes of the iteration space.
Labels: TypeAlias = Sequence[int]


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
                self._value = np.asarray(mul.reference(*self.factors))
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        value = self.materialize()
        return np.array(value, dtype) if copy or dtype not in (None, value.dtype) else value


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


def contract(x: Deferred, kept: Labels) -> Array:
    """The sum over all axes but ``kept`` (increasing), in the type that it is added up in.

    Args:
      x: the product; not empty.
      kept: the axes of the result.
    """
    dtype = accumulator({x.dtype})
    first, second = x.factors
    in_first, in_second = used_axes(first), used_axes(second)
    batch = [k for k in in_first if k in in_second and k in kept]
    rows = [k for k in in_first if k not in in_second and k in kept]
    columns = [k for k in in_second if k not in in_first and k in kept]
    summed = [k for k in in_first if k in in_second and k not in kept]
    left = _matrix(first, dtype, batch, rows, summed)
    right = _matrix(second, dtype, batch, summed, columns)
    labels = [*batch, *rows, *columns]
    out = np.matmul(left, right).reshape([x.shape[k] for k in labels])
    repeated = {*range(len(x.shape))} - {*in_first, *in_second, *kept}
    out = out * dtype.type(math.prod(x.shape[k] for k in repeated))
    out = out.transpose([labels.index(k) for k in sorted(labels)])
    sizes = [x.shape[k] if k in labels else 1 for k in kept]
    return np.broadcast_to(out.reshape(sizes), [x.shape[k] for k in kept])


def _matrix(x: Array, dtype: np.dtype[Any], batch: Labels, rows: Labels, columns: Labels) -> Array:
    """A factor as a stack of matrices, summed over the axes that are in none of their labels."""
    used = used_axes(x)
    part = x[(*[slice(None) if k in used else 0 for k in range(x.ndim)], ...)].astype(
        dtype, copy=False
    )
    labels = [*batch, *rows, *columns]
    alone = tuple([n for n, k in enumerate(used) if k not in labels])
    if alone:
        part = np.sum(part, axis=alone, dtype=wider(dtype)).astype(dtype)
    left = [k for k in used if k in labels]
    moved = part.transpose([left.index(k) for k in labels])
    stack = [x.shape[k] for k in batch]
    height, width = (math.prod(x.shape[k] for k in ks) for ks in (rows, columns))
    return np.ascontiguousarray(moved.reshape([*stack, height, width]))


def accumulator(found: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """The type in which products of these dtypes are added up.

    float32 for the narrow floats, and for truth values, which are counted: a sum of products that
    are not negative is above zero exactly when one of them is.
    """
    narrow = (dtypes.float16, dtypes.bfloat16, dtypes.bool_)
    return np.result_type(*(dtypes.float32 if d in narrow else d for d in found))
