"""The exponential of matrices, and its derivative."""

from __future__ import annotations

from typing import Any, Literal, overload

import functrax.numpy as jnp
from functrax import lax
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims.matrices import check_matrix
from functrax.core.tracing.primitive import Value
from functrax.numpy import linalg as la
from functrax.numpy.factoring import matrices_of
from functrax.numpy.promote import promoting
from functrax.transforms.differentiation.derivatives import jvp
from functrax.typing import ArrayLike

__all__ = ["expm", "expm_frechet"]

#: Numerators of the diagonal Padé approximant of order 13 to exp.
_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
    129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0,
    40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
#: The 1-norm up to which it is exact to double precision.
_PADE_LIMIT = 5.371920351148152


@promoting
def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The matrix exponential, by scaling and squaring a Padé approximant.

    N. J. Higham, "The scaling and squaring method for the matrix exponential revisited", 2005.

    Args:
      A: square matrices ``[..., n, n]``.
      upper_triangular: accepted; whether they are upper triangles.
      max_squarings: results of matrices that would need more squarings are NaN.

    Returns:
      Matrices ``[..., n, n]``.

    Raises:
      ShapeError: if the matrices are not square.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import expm
    >>> expm(jnp.array([[0.0, 1.0], [0.0, 0.0]])).round(4)
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    (x,) = matrices_of("expm", A)
    check_matrix("expm", x.aval, square=True)
    if x.aval.size == 0:
        return x
    size = jnp.max(jnp.sum(jnp.abs(x), axis=-2), axis=-1)
    size = lax.stop_gradient(size)[..., None, None]
    count = jnp.maximum(0.0, jnp.ceil(jnp.log2(jnp.maximum(size, 1e-30) / _PADE_LIMIT)))
    small = x * jnp.exp2(-jnp.minimum(count, max_squarings)).astype(x.dtype)
    most = jnp.minimum(jnp.max(count), max_squarings)

    def squared(state: tuple[Value, Value]) -> tuple[Value, Value]:
        step, out = state
        return step + 1, jnp.where(step < count, out @ out, out)

    start = jnp.zeros_like(most), _pade(small)
    _, out = lax.while_loop(lambda state: state[0] < most, squared, start)
    return jnp.where(count > max_squarings, jnp.nan, out)


def _pade(x: Value) -> Value:
    b = _PADE
    eye = jnp.eye(x.shape[-1], dtype=x.dtype)
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    odd = x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2)
    odd = x @ (odd + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * eye)
    even = x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2)
    even = even + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * eye
    return la.solve(even - odd, even + odd)


@overload
def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = ..., compute_expm: Literal[True] = ...
) -> tuple[Array, Array]: ...
@overload
def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = ..., compute_expm: Literal[False]
) -> Array: ...
@overload
def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = ..., compute_expm: bool = ...
) -> Array | tuple[Array, Array]: ...
def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True
) -> Any:
    """The exponential of a matrix, and its derivative in a direction.

    Args:
      A: square matrices ``[..., n, n]``.
      E: the direction, of the shape of ``A``.
      method: None, ``"SPS"`` or ``"blockEnlarge"``; the derivative of :func:`expm` is taken.
      compute_expm: whether to return both.

    Returns:
      ``(expm(A), derivative)``, or the derivative.

    Raises:
      ShapeError: if the shapes differ, or are not square.
      ArgumentError: for another method.

    >>> import functrax.numpy as jnp
    >>> from functrax.scipy.linalg import expm_frechet
    >>> zero = jnp.zeros((2, 2))
    >>> expm_frechet(zero, jnp.ones((2, 2)), compute_expm=False).round(3)
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    x, direction = matrices_of("expm_frechet", A, E)
    check_matrix("expm_frechet", x.aval, square=True)
    if x.shape != direction.shape:
        raise ShapeError(
            "expm_frechet: expected A and E to be the same shape",
            got=f"A {x.aval.str_short()}, E {direction.aval.str_short()}",
            fix="a direction for each element",
        )
    if method not in (None, "SPS", "blockEnlarge"):
        raise ArgumentError("expm_frechet: unknown method", got=repr(method), fix="None")
    value, derivative = jvp(expm, (x,), (direction,))
    return (value, derivative) if compute_expm else derivative
