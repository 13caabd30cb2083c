"""``convolve`` and ``correlate`` of vectors: the sum of products over a sliding window.

The window is one ``reindex`` that reads element ``i + k`` for result ``i`` and filter element
``k``, and zero outside of the vector; the rest is a product and a sum.

Start at :func:`convolve`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.index.expr import Dim
from functrax.core.index.map import IndexMap
from functrax.core.prims.arithmetic import mul
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reduce import reduce_sum
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.tracing.primitive import Value, like
from functrax.numpy.complex_parts import conj
from functrax.numpy.contraction import finish, operands_of
from functrax.numpy.promote import convert, inexact
from functrax.numpy.shaping import reverse
from functrax.typing import ArrayLike, DTypeLike

if TYPE_CHECKING:
    from functrax.lax.precision import PrecisionLike

__all__ = ["convolve", "correlate"]

_MODES = ("full", "same", "valid")


def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The convolution of two vectors: ``out[n] = sum_k a[k] * v[n - k]``.

    Args:
      a: a vector; integers become floats, as in JAX.
      v: another.
      mode: ``"full"`` gives every overlap, ``"same"`` as many as the longer vector has elements,
        ``"valid"`` those where one vector lies within the other.
      precision: as for :func:`functrax.numpy.dot`.
      preferred_element_type: the dtype of the sums and of the result.

    Returns:
      A vector of size M + N - 1, max(M, N) or max(M, N) - min(M, N) + 1.

    Raises:
      ArgumentError: for another mode.
      ShapeError: if an argument is not a vector, or is empty.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.convolve(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 1.0]))
      Array([1., 3., 5., 3.], dtype=float32)
    """
    x, y, dtype = _vectors("convolve", a, v, mode, preferred_element_type, precision)
    if x.aval.size < y.aval.size:
        x, y = y, x
    return finish(_slide(x, reverse(y, (0,)), mode), dtype)


def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The cross-correlation of two vectors: ``out[n] = sum_k a[n + k] * conj(v[k])``.

    Args:
      a: a vector; integers become floats, as in JAX.
      v: another.
      mode: ``"full"`` gives every overlap, ``"same"`` as many as the longer vector has elements,
        ``"valid"`` those where one vector lies within the other.
      precision: as for :func:`functrax.numpy.dot`.
      preferred_element_type: the dtype of the sums and of the result.

    Returns:
      A vector of size M + N - 1, max(M, N) or max(M, N) - min(M, N) + 1.

    Raises:
      ArgumentError: for another mode.
      ShapeError: if an argument is not a vector, or is empty.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.correlate(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 1.0]))
      Array([2., 3.], dtype=float32)
    """
    x, y, dtype = _vectors("correlate", a, v, mode, preferred_element_type, precision)
    y = conj(y)
    if x.aval.size >= y.aval.size:
        return finish(_slide(x, y, mode), dtype)
    # The shorter one slides along the longer one, the other way round.
    return finish(reverse(_slide(y, x, mode), (0,)), dtype)


def _vectors(
    name: str, a: Any, v: Any, mode: str, preferred: Any, precision: Any
) -> tuple[Value, Value, Any]:
    if mode not in _MODES:
        raise ArgumentError(f"{name}: unknown mode", got=repr(mode), fix="one of " + str(_MODES))
    (x, y), dtype = operands_of(name, preferred, a, v, precision=precision)
    for operand in (x, y):
        if operand.aval.ndim != 1 or not operand.aval.size:
            raise ShapeError(
                f"{name}: takes vectors that are not empty",
                got=f"{x.aval.str_short()} and {y.aval.str_short()}",
                fix="ravel them",
            )
    kind = inexact(x.aval.dtype)
    return convert(x, kind), convert(y, kind), kind if preferred is None else dtype


def _slide(x: Value, window: Value, mode: str) -> Value:
    """Sums of ``x[i + k - before] * window[k]``; the window is not longer than the vector."""
    size, width = x.aval.size, window.aval.size
    before, count = {
        "full": (width - 1, size + width - 1),
        "same": (width - 1 - (width - 1) // 2, size),
        "valid": (0, size - width + 1),
    }[mode]
    read = IndexMap((count, width), (size,), (Dim(0) + Dim(1) - before,))
    elements = reindex.bind(x, map=read, fill=like(x, 0))
    filters = broadcast_in_dim.bind(window, shape=(count, width), dims=(1,))
    return reduce_sum.bind(mul.bind(elements, filters), axes=(1,))
