"""Sums of products by NumPy's matrix product.

What enters is a product that was put off (``backends/reference/deferred.py``), whose two factors
have the shape of the whole iteration space but repeat themselves along most axes.  What leaves is
the sum over some of the axes.  Nothing larger is made than a factor copied out (a convolution's
windows: im2col).

An axis of the iteration space is a *label*.  Start at :func:`contract`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from functrax.backends.reference.deferred import Deferred
from functrax.backends.reference.strided import Array, used_axes
from functrax.core.prims.reduce import wider
from functrax.core.types import dtypes

Labels: TypeAlias = Sequence[int]


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
