"""Matrices ``[n, n]`` of numbers that ``n`` alone decides, as ``jax.scipy.linalg`` makes them.

Those of binomial coefficients are worked out exactly, before they are rounded to floats.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError
from functrax.core.prims.reindex import iota
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.lax.operands import dtype_of
from functrax.numpy.axes import integer
from functrax.numpy.promote import promoting
from functrax.typing import DTypeLike

__all__ = ["dft", "hadamard", "helmert", "hilbert", "invhilbert", "invpascal", "pascal"]

_KINDS = ("symmetric", "lower", "upper")


def _positive(name: str, n: Any) -> int:
    size = integer(name, "n", n)
    if size < 1:
        raise ArgumentError(
            f"{name}: n must be a positive integer", got=f"n={n!r}", fix="1, 2, ..."
        )
    return size


def _floats(rows: list[list[int]]) -> Value:
    """Integers of any size as floats of the default dtype."""
    n = len(rows)
    return jnp.asarray(np.array(rows, dtype=float).reshape(n, n), dtype=float)


@promoting
def hilbert(n: int) -> Array:
    """The matrix of ``1 / (i + j + 1)``, which is hard to invert.

    Args:
      n: its size, an integer that is known.

    Returns:
      Floats ``[n, n]``.

    Raises:
      ArgumentError: if ``n`` is no integer.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import hilbert
    >>> hilbert(2)
    Array([[1.        , 0.5       ],
           [0.5       , 0.33333334]], dtype=float32, weak_type=True)
    """
    places = jnp.arange(integer("hilbert", "n", n)) * 1.0
    return 1.0 / (places[:, None] + places + 1.0)


def invhilbert(n: int) -> Array:
    """The inverse of :func:`hilbert`, whose elements are integers, worked out exactly.

    Args:
      n: its size, an integer that is known.

    Returns:
      Floats ``[n, n]``.

    Raises:
      ArgumentError: if ``n`` is no integer.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import invhilbert
    >>> invhilbert(2)
    Array([[ 4., -6.],
           [-6., 12.]], dtype=float32)
    """
    size = integer("invhilbert", "n", n)
    choose = math.comb
    return _floats(
        [
            [
                (-1) ** (i + j)
                * (i + j + 1)
                * choose(size + i, size - j - 1)
                * choose(size + j, size - i - 1)
                * choose(i + j, i) ** 2
                for j in range(size)
            ]
            for i in range(size)
        ]
    )


def _kind(name: str, kind: str | None) -> str:
    found = "symmetric" if kind is None else kind
    if found not in _KINDS:
        raise ArgumentError(
            f"{name}: Expected kind to be one of {_KINDS}", got=repr(kind), fix="'symmetric'"
        )
    return found


def pascal(n: int, kind: str | None = None) -> Array:
    """The matrix of binomial coefficients, worked out exactly.

    Args:
      n: its size, an integer that is known.
      kind: ``"lower"`` for ``i choose j``, ``"upper"`` for its transpose, ``"symmetric"`` (or
        None) for the product of the two, ``i + j choose i``.

    Returns:
      Floats ``[n, n]``.

    Raises:
      ArgumentError: for another kind, or if ``n`` is no integer.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import pascal
    >>> pascal(3)
    Array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 3., 6.]], dtype=float32)
    """
    chosen, size = _kind("pascal", kind), range(integer("pascal", "n", n))
    if chosen == "symmetric":
        return _floats([[math.comb(i + j, i) for j in size] for i in size])
    lower = _floats([[math.comb(i, j) for j in size] for i in size])
    return lower if chosen == "lower" else lower.T


def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of :func:`pascal`, whose elements are integers, worked out exactly.

    Args:
      n: its size, an integer that is known.
      kind: as for :func:`pascal`.

    Returns:
      Floats ``[n, n]``.

    Raises:
      ArgumentError: for another kind, or if ``n`` is no integer.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import invpascal
    >>> invpascal(3)
    Array([[ 3., -3.,  1.],
           [-3.,  5., -2.],
           [ 1., -2.,  1.]], dtype=float32)
    """
    chosen, size = _kind("invpascal", kind), range(integer("invpascal", "n", n))
    signed = [[(-1) ** (i + j) * math.comb(i, j) for j in size] for i in size]
    if chosen == "symmetric":
        return _floats([[sum(r[i] * r[j] for r in signed) for j in size] for i in size])
    lower = _floats(signed)
    return lower if chosen == "lower" else lower.T


def helmert(n: int, full: bool = False) -> Array:
    """Orthonormal rows, each but the first of which compares one number with those before it.

    Args:
      n: how many numbers there are, at least 1.
      full: whether the first row, of equal elements, is returned too.

    Returns:
      Floats ``[n - 1, n]``, or ``[n, n]``.

    Raises:
      ArgumentError: if ``n`` is not a positive integer.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import helmert
    >>> helmert(3).round(4)
    Array([[ 0.7071, -0.7071,  0.    ],
           [ 0.4082,  0.4082, -0.8165]], dtype=float32)
    """
    size = _positive("helmert", n)
    i, j = (iota.bind(shape=(size, size), dtype=dtypes.float64, axis=k) for k in (0, 1))
    root = jnp.sqrt(i * (i + 1.0))
    below = jnp.where(j < i, 1.0 / root, jnp.where(j == i, -i / root, 0.0))
    rows = jnp.where(i == 0, 1.0 / math.sqrt(size), below).astype(dtypes.default_float())
    return rows if full else rows[1:]


@promoting
def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """The matrix of 1 and -1 with orthogonal rows, of Sylvester.

    Args:
      n: its size, a power of 2.
      dtype: of the result.

    Returns:
      A matrix ``[n, n]``.

    Raises:
      ArgumentError: for another ``n``.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import hadamard
    >>> hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    size = integer("hadamard", "n", n)
    if size < 1 or size & (size - 1):
        raise ArgumentError(
            "hadamard: n must be a positive power of 2", got=f"n={n!r}", fix="1, 2, 4, 8, ..."
        )
    places = jnp.arange(size)
    odd = jnp.bitwise_count(places[:, None] & places) % 2 == 1
    return jnp.where(odd, -1, 1).astype(dtype)


@promoting
def dft(n: int, scale: str | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """The matrix that makes of a vector its Fourier transform, ``exp(-2 pi i j k / n)``.

    Args:
      n: the length of the vectors.
      scale: ``"sqrtn"`` and ``"n"`` divide by the root of ``n``, or by ``n``.
      dtype: of the result; the default complex one if None.

    Returns:
      Complex numbers ``[n, n]``.

    Raises:
      ArgumentError: for another scale, a dtype that is not complex, or if ``n`` is no integer.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import dft
    >>> dft(2).real
    Array([[ 1.,  1.],
           [ 1., -1.]], dtype=float32)
    """
    wanted = dtype_of(complex if dtype is None else dtype)
    if not dtypes.is_complex(wanted):
        raise ArgumentError(
            "dft: dtype must be a complex one", got=str(wanted), fix="complex64 or complex128"
        )
    size = integer("dft", "n", n)
    divisors = {None: 1.0, "sqrtn": max(size, 1) ** 0.5, "n": float(max(size, 1))}
    if scale not in divisors:
        raise ArgumentError(
            "dft: scale must be None, 'sqrtn' or 'n'", got=repr(scale), fix="scale=None"
        )
    places = jnp.arange(size)
    turns = (places[:, None] * places % max(size, 1)).astype(dtypes.real_dtype(wanted))
    return (jnp.exp(-2j * jnp.pi * (turns / max(size, 1))) / divisors[scale]).astype(wanted)
