"""Products of matrices stored in few bits (OCP Microscaling Formats, version 1.0, 2023)."""

from __future__ import annotations

from functrax import lax, numpy as jnp
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ShapeError
from functrax.typing import ArrayLike, DTypeLike


def scaled_matmul(
    lhs: ArrayLike,
    rhs: ArrayLike,
    lhs_scales: ArrayLike,
    rhs_scales: ArrayLike,
    preferred_element_type: DTypeLike = jnp.float32,
) -> Array:
    """``(lhs * lhs_scales) @ (rhs * rhs_scales).T`` for each of a batch, added up in float32.

    Args:
      lhs: of shape ``[B, M, K]``, of float8 or float4 say.
      rhs: of shape ``[B, N, K]``.
      lhs_scales: of shape ``[B, M, K / block]``: each is the scale of a block of elements in a row.
      rhs_scales: of shape ``[B, N, K / block]``.
      preferred_element_type: the dtype of the result.

    Returns:
      An array of shape ``[B, M, N]``.

    Raises:
      ShapeError: if an argument has not three axes, or the shapes do not fit each other.

    Example:
      >>> import functrax, functrax.numpy as jnp
      >>> x = jnp.ones((1, 2, 4), jnp.float8_e4m3fn)
      >>> scales = jnp.array([[[2.0], [0.5]]], jnp.float8_e8m0fnu)
      >>> functrax.nn.scaled_matmul(x, x, scales, scales)
      Array([[[16.,  4.],
              [ 4.,  1.]]], dtype=float32)
    """
    arrays = [jnp.asarray(x) for x in (lhs, rhs, lhs_scales, rhs_scales)]
    shown = ", ".join(str(x.shape) for x in arrays)
    if any(x.ndim != 3 for x in arrays):
        raise ShapeError(
            "scaled_matmul: requires all inputs to be 3-dimensional arrays",
            got=shown,
            fix="x[None], for a batch of one",
        )
    a, b, of_a, of_b = arrays
    if a.shape[::2] != b.shape[::2] or of_a.shape[::2] != of_b.shape[::2]:
        raise ShapeError(
            "scaled_matmul: requires inputs, and scales, to have matching batch (B) and contract "
            "(K) dimensions",
            got=shown,
            fix="[B, M, K], [B, N, K], and scales [B, M, K / block], [B, N, K / block]",
        )
    product = lax.scaled_dot(
        a,
        b,
        lhs_scale=of_a,
        rhs_scale=of_b,
        dimension_numbers=(((2,), (2,)), ((0,), (0,))),
        preferred_element_type=jnp.float32,
    )
    return product.astype(preferred_element_type)
