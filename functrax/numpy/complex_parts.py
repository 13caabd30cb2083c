"""Real and imaginary parts, angles and conjugates, elementwise.

Start at :func:`real`.
"""

from __future__ import annotations

from functrax.core.arrays.operators import Array
from functrax.core.prims import analytic as waves, comparisons as compare
from functrax.core.prims.convert import conj as conj_p, imag as imag_p, real as real_p
from functrax.core.prims.reindex import zeros
from functrax.core.tracing.primitive import like
from functrax.core.types import dtypes
from functrax.numpy.analytic import arctan2, rad2deg
from functrax.numpy.promote import as_weak_as, inexact, promote_dtypes, result
from functrax.numpy.ufuncs import like_weak
from functrax.typing import ArrayLike


def real(x: ArrayLike, /) -> Array:
    """The real part; a real array itself.

    Args:
      x: an array or a scalar.

    Returns:
      A real array of the same shape.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.real(jnp.array([1 + 2j]))
      Array([1.], dtype=float32)
    """
    (v,) = promote_dtypes("real", x)
    return result(as_weak_as(v, real_p.bind(v)) if v.aval.dtype in dtypes.COMPLEX else v)


def imag(x: ArrayLike, /) -> Array:
    """The imaginary part; zeros for a real array.

    Args:
      x: an array or a scalar.

    Returns:
      A real array of the same shape.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.imag(jnp.array([1 + 2j])), jnp.imag(jnp.array([3.0]))
      (Array([2.], dtype=float32), Array([0.], dtype=float32))
    """
    (v,) = promote_dtypes("imag", x)
    if v.aval.dtype not in dtypes.COMPLEX:
        return result(zeros(v.aval))
    return result(as_weak_as(v, imag_p.bind(v)))


def conjugate(x: ArrayLike, /) -> Array:
    """The complex conjugate; a real array itself.

    Args:
      x: an array or a scalar.

    Returns:
      An array of the same shape and dtype.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.conjugate(jnp.array([1 + 2j]))
      Array([1.-2.j], dtype=complex64)
    """
    (v,) = promote_dtypes("conjugate", x)
    return result(conj_p.bind(v) if v.aval.dtype in dtypes.COMPLEX else v)


conj = conjugate


def isreal(x: ArrayLike) -> Array:
    """Whether the imaginary part of each element is 0.

    Args:
      x: an array or a scalar.

    Returns:
      Booleans of the same shape; all True for a real dtype.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.isreal(jnp.array([1 + 2j, 3 + 0j]))
      Array([False,  True], dtype=bool)
    """
    part = imag(x)
    return result(compare.eq.bind(part, like(part, 0)))


def iscomplex(x: ArrayLike) -> Array:
    """Whether the imaginary part of each element is not 0.

    Args:
      x: an array or a scalar.

    Returns:
      Booleans of the same shape; all False for a real dtype.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.iscomplex(jnp.array([1 + 2j, 3 + 0j]))
      Array([ True, False], dtype=bool)
    """
    part = imag(x)
    return result(compare.ne.bind(part, like(part, 0)))


def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The angle of complex numbers in [-π, π]; π for negative real ones.

    Args:
      z: an array or a scalar, real or complex.
      deg: give degrees in place of radians.

    Returns:
      A real array of the same shape.

    Raises:
      DTypeError: for lists.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.angle(jnp.array([1j, -1.0]), deg=True)
      Array([ 90., 180.], dtype=float32)
    """
    (v,) = promote_dtypes("angle", z, kind=inexact)
    if v.aval.dtype in dtypes.COMPLEX:
        turned = as_weak_as(v, arctan2(imag_p.bind(v), real_p.bind(v)))
    else:
        turned = result(waves.atan2.bind(like_weak(v, 0), v))
    return rad2deg(turned) if deg else turned
