"""Products of arrays of few bits that have a scale for each block of elements."""

from __future__ import annotations

from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims.arithmetic import mul
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import broadcast_in_dim, reshape
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.core.types.dtypes import DType
from functrax.lax.dot import DotDimensionNumbers, dot_general
from functrax.lax.operands import Shape, as_array, axes_of, dtype_of, value_of
from functrax.typing import ArrayLike, DTypeLike


def scaled_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    lhs_scale: ArrayLike | None = None,
    rhs_scale: ArrayLike | None = None,
    dimension_numbers: DotDimensionNumbers | None = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """``(lhs * lhs_scale) @ (rhs * rhs_scale)``, with scales for blocks of contracted elements.

    Args:
      lhs: an array, of a float8 or float4 say.
      rhs: an array.
      lhs_scale: an array like ``lhs`` but shorter along contracted axes: each scale is that of as
        many elements in a row as fit, two at least; None for no scale.
      rhs_scale: the same for ``rhs``.
      dimension_numbers: as in :func:`dot_general`; by default the product of (batches of) matrices.
      preferred_element_type: the dtype of the scaled operands and of the result; bfloat16 if None.

    Returns:
      An array as :func:`dot_general` gives it.

    Raises:
      ShapeError: if a scale does not fit its operand, or the operands do not fit each other.
      ArgumentError: without ``dimension_numbers``, for operands that are no matrices.

    Example:
      >>> import functrax.numpy as jnp
      >>> from functrax import lax
      >>> x = jnp.ones((2, 4), jnp.float8_e4m3fn)
      >>> scales = jnp.array([[2.0, 0.5], [1.0, 1.0]])
      >>> lax.scaled_dot(x, x.T, lhs_scale=scales, preferred_element_type=jnp.float32)
      Array([[5., 5.],
             [4., 4.]], dtype=float32)
    """
    x, y = value_of("scaled_dot", lhs), value_of("scaled_dot", rhs)
    if dimension_numbers is None:
        n = x.aval.ndim
        if n < 2:
            raise ArgumentError(
                "scaled_dot: takes matrices, or dimension_numbers",
                got=x.aval.str_short(),
                fix="dimension_numbers=(((0,), (0,)), ((), ()))",
            )
        batch = tuple(range(n - 2))
        dimension_numbers = (((n - 1,), (n - 2,)), (batch, batch))
    wanted = dtypes.bfloat16
    if preferred_element_type is not None:
        wanted = dtype_of(preferred_element_type)
    (of_lhs, of_rhs), _ = dimension_numbers
    x = scaled("scaled_dot: lhs", x, lhs_scale, tuple(of_lhs), wanted)
    y = scaled("scaled_dot: rhs", y, rhs_scale, tuple(of_rhs), wanted)
    return dot_general(x, y, dimension_numbers, preferred_element_type=wanted)


def scaled(name: str, x: Value, scale: ArrayLike | None, axes: Shape, dtype: DType) -> Array:
    """An array in a dtype, times the scales of its blocks.

    Args:
      name: of the operation and the operand, for errors.
      x: the array.
      scale: an array that is shorter along ``axes``, whose sizes it divides; None for none.
      axes: those along which a scale is that of several elements.
      dtype: of the result.

    Raises:
      ShapeError: if the scales do not fit.
    """
    wide = convert_element_type.bind(x, dtype=dtype, weak_type=False)
    if scale is None:
        return as_array(wide)
    scales = value_of(name, scale)
    shape, given = x.aval.shape, scales.aval.shape
    blocked = axes_of(name, len(shape), axes)
    fits = len(shape) == len(given) and all(
        (m > 0 and n % m == 0 and n >= 2 * m) if d in blocked else n == m
        for d, (n, m) in enumerate(zip(shape, given, strict=True))
    )
    if not fits:
        raise ShapeError(
            f"{name} and its scales do not fit",
            got=f"{x.aval.str_short()} and {scales.aval.str_short()}",
            fix=f"scales of shape {shape}, but shorter by a divisor along the axes {list(blocked)}",
        )
    factor = convert_element_type.bind(scales, dtype=dtype, weak_type=False)
    parts = tuple([part for n, m in zip(shape, given, strict=True) for part in (m, n // m)])
    dims = tuple(range(0, 2 * len(shape), 2))
    spread = broadcast_in_dim.bind(factor, shape=parts, dims=dims)
    return as_array(mul.bind(wide, reshape.bind(spread, shape=shape)))
