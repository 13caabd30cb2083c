"""Cosine transforms of real arrays, with the names and the meaning of ``jax.scipy.fft``.

A transform of ``n`` numbers is one Fourier transform of ``n`` numbers, in another order.

Source: J. Makhoul, "A fast cosine transform in one and two dimensions", 1980.

Start at :func:`dct`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import functrax.numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.boundaries.arguments import explain_all as _explain_all
from functrax.core.errors.typed import ArgumentError, DTypeError
from functrax.core.lazy import listing as _listing
from functrax.core.tracing.primitive import Value
from functrax.numpy.promote import to_array
from functrax.typing import ArrayLike

__all__ = ["dct", "dctn", "idct", "idctn"]


def dct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """``y[k] = 2 sum_j x[j] cos(pi k (2 j + 1) / (2 n))``, along an axis.

    Args:
      x: real.
      type: 2, the only one there is.
      n: how many numbers of the axis count; zeros are added if there are fewer.
      axis: the axis.
      norm: ``"ortho"`` makes the transform orthogonal; None and ``"backward"`` do not.

    Returns:
      An array of the shape of ``x``, but for ``n``.

    Raises:
      ArgumentError: for another type or norm.
      DTypeError: for complex numbers.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.scipy.fft.dct(jnp.ones(2)).round(4)
    Array([4., 0.], dtype=float32)
    """
    v = _sized(_checked("dct", x, type, norm), n, axis)
    return jnp.moveaxis(_forward(jnp.moveaxis(v, axis, -1), norm), -1, axis)


def idct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """The inverse of :func:`dct`, along an axis.

    J. Makhoul, "A fast cosine transform in one and two dimensions", 1980.

    Args:
      x: real; integers become floats.
      type: 2, the only one there is.
      n: how many numbers of the axis count; zeros are added if there are fewer.
      axis: the axis.
      norm: the one that was given to :func:`dct`.

    Returns:
      An array of the shape of ``x``, but for ``n``.

    Raises:
      ArgumentError: for another type or norm.
      DTypeError: for complex numbers.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.fft import dct, idct
    >>> idct(dct(jnp.array([1.0, 2.0, 5.0]))).round(4)
    Array([1., 2., 5.], dtype=float32)
    """
    v = _sized(_checked("idct", x, type, norm), n, axis)
    return jnp.moveaxis(_backward(jnp.moveaxis(v, axis, -1), norm), -1, axis)


def dctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """:func:`dct` along several axes.

    Args:
      x: real; integers become floats.
      type: 2, the only one there is.
      s: the sizes of the axes, cut or filled up with zeros; those of ``x`` if None.
      axes: the axes; all if None, or as many of the last as ``s`` has sizes.
      norm: ``"ortho"`` makes the transform orthogonal; None and ``"backward"`` do not.

    Returns:
      An array of the shape of ``x``, but for ``s``.

    Raises:
      ArgumentError: for another type or norm, or if there is not one size for each axis.
      DTypeError: for complex numbers.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.fft import dctn
    >>> dctn(jnp.ones((2, 2))).round(4)
    Array([[16.,  0.],
           [ 0.,  0.]], dtype=float32)
    """
    return _several("dctn", dct, x, type, s, axes, norm)


def idctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of :func:`dctn`, along several axes.

    Args:
      x: real; integers become floats.
      type: 2, the only one there is.
      s: the sizes of the axes, cut or filled up with zeros; those of ``x`` if None.
      axes: the axes; all if None, or as many of the last as ``s`` has sizes.
      norm: the one that was given to :func:`dctn`.

    Returns:
      An array of the shape of ``x``, but for ``s``.

    Raises:
      ArgumentError: for another type or norm, or if there is not one size for each axis.
      DTypeError: for complex numbers.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.fft import dctn, idctn
    >>> idctn(dctn(jnp.eye(2))).round(4)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return _several("idctn", idct, x, type, s, axes, norm)


def _several(
    name: str,
    one: Callable[..., Value],
    x: Any,
    type: int,
    s: Sequence[int] | None,
    axes: Sequence[int] | None,
    norm: str | None,
) -> Value:
    out = to_array(name, x)
    if axes is None:
        axes = range(out.ndim) if s is None else range(out.ndim - len(s), out.ndim)
    sizes = [None] * len(axes) if s is None else list(s)
    if len(sizes) != len(axes):
        raise ArgumentError(
            f"{name}: s needs one size for each axis",
            got=f"s={s}, axes={axes}",
            fix="as many sizes as axes",
        )
    for axis, n in zip(axes, sizes, strict=True):
        out = one(out, type, n, axis, norm)
    return out


def _checked(name: str, x: Any, type: int, norm: str | None) -> Value:
    v = to_array(name, x)
    if type != 2:
        raise ArgumentError(f"{name}: there is type 2 only", got=f"type={type!r}", fix="type=2")
    if norm not in (None, "backward", "ortho"):
        raise ArgumentError(
            f"{name}: unknown norm", got=repr(norm), fix="None, 'backward' or 'ortho'"
        )
    if v.dtype.kind == "c":
        raise DTypeError(f"{name} takes real numbers", got=v.aval.str_short(), fix="x.real")
    return v if v.dtype.kind not in "biu" else v.astype(float)


def _sized(v: Value, n: int | None, axis: int) -> Value:
    """``v`` with ``n`` elements along an axis."""
    if n is None or n == v.shape[axis]:
        return v
    first = jnp.moveaxis(v, axis, 0)[:n]
    rest = [(0, n - first.shape[0]), *[(0, 0)] * (v.ndim - 1)]
    return jnp.moveaxis(jnp.pad(first, rest), 0, axis)


def _weights(n: int, dtype: Any, norm: str | None) -> Value:
    """By what an orthogonal transform differs from the plain one."""
    first, others = (math.sqrt(0.25 / n), math.sqrt(0.5 / n)) if norm == "ortho" else (1.0, 1.0)
    return jnp.full(n, others, dtype).at[0].set(first)


def _turns(n: int, dtype: Any) -> Value:
    angles = jnp.arange(n, dtype=dtype) * (math.pi / (2 * n))
    return jnp.cos(angles) - 1j * jnp.sin(angles)


def _forward(v: Value, norm: str | None) -> Value:
    n = v.shape[-1]
    order = jnp.concatenate([v[..., ::2], v[..., 1::2][..., ::-1]], axis=-1)
    out = 2 * (jnp.fft.fft(order) * _turns(n, v.dtype)).real
    return out.astype(v.dtype) * _weights(n, v.dtype, norm)


def _backward(y: Value, norm: str | None) -> Value:
    n = y.shape[-1]
    y = y / _weights(n, y.dtype, norm)
    mirrored = jnp.concatenate([jnp.zeros_like(y[..., :1]), y[..., 1:][..., ::-1]], axis=-1)
    order = jnp.fft.ifft(0.5 * (y - 1j * mirrored) * _turns(n, y.dtype).conj()).real
    half = (n + 1) // 2
    out = jnp.zeros_like(y).at[..., ::2].set(order[..., :half].astype(y.dtype))
    return out.at[..., 1::2].set(order[..., half:][..., ::-1].astype(y.dtype))


_explain_all(globals())
__dir__ = _listing(globals())
