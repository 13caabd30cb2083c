"""Contractions: sums of products, written as broadcasts, one multiplication and one sum.

There is no primitive for a matrix product.  Both operands are spread over one iteration space,
whose axes are the batch axes, the free axes of the left operand, those of the right one, and last
the contracted axes; devices recognise the pattern and never store the product.

Start at :func:`dot_general`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims.arithmetic import mul
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reduce import reduce_or, reduce_sum
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.core.types.dtypes import DType
from functrax.lax.operands import Shape, as_array, axes_of, dtype_of, value_of
from functrax.lax.precision import (
    PrecisionLike,
    asks_for_precision,
    check_precision,
    check_preferred,
    with_precision,
)
from functrax.typing import ArrayLike, DTypeLike

DotDimensionNumbers: TypeAlias = (
    "tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]"
)


@with_out_sharding
def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The sum of products over some axes, for each index of the batch axes.

    Args:
      lhs: an array.
      rhs: an array.  Two dtypes are not promoted as elsewhere: see :func:`product_dtype`.
      dimension_numbers: ``((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))``, tuples
        of axes that go together in order.
      precision: accepted as in jax.lax; all are as exact, see :mod:`functrax.lax.precision`.
      preferred_element_type: the dtype in which to add up, and of the result.

    Returns:
      An array whose axes are the batch axes, the other axes of ``lhs``, those of ``rhs``.

    Raises:
      ShapeError: if axes that go together have different sizes.
      DTypeError, AxisError, ArgumentError: if the operands or axes do not fit.

    >>> import numpy as np
    >>> from functrax import lax
    >>> x = np.arange(6.0).reshape(2, 3)
    >>> lax.dot_general(x, x, (((1,), (1,)), ((), ())))
    Array([[ 5., 14.],
           [14., 50.]], dtype=float32)
    """
    x, y = value_of("dot_general", lhs), value_of("dot_general", rhs)
    check_precision("dot_general", precision, x.aval.dtype, y.aval.dtype)
    (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = _numbers(dimension_numbers)
    lhs_sum = axes_of("dot_general", x.aval.ndim, lhs_sum)
    lhs_batch = axes_of("dot_general", x.aval.ndim, lhs_batch)
    rhs_sum = axes_of("dot_general", y.aval.ndim, rhs_sum)
    rhs_batch = axes_of("dot_general", y.aval.ndim, rhs_batch)
    axes_of("dot_general", x.aval.ndim, (*lhs_sum, *lhs_batch))
    axes_of("dot_general", y.aval.ndim, (*rhs_sum, *rhs_batch))
    _check_sizes(x, y, "contracting", lhs_sum, rhs_sum)
    _check_sizes(x, y, "batch", lhs_batch, rhs_batch)
    dtype = product_dtype(x.aval.dtype, y.aval.dtype)
    x, y, narrow = in_sum_dtype("dot_general", x, y, dtype, preferred_element_type)
    if asks_for_precision(precision):
        x, y = with_precision(precision, x, y)
    lhs_free = [a for a in range(x.aval.ndim) if a not in lhs_sum and a not in lhs_batch]
    rhs_free = [a for a in range(y.aval.ndim) if a not in rhs_sum and a not in rhs_batch]
    lhs_places = _places((lhs_batch, 0), (lhs_free, len(lhs_batch)))
    rhs_places = _places((rhs_batch, 0), (rhs_free, len(lhs_batch) + len(lhs_free)))
    first_sum = len(lhs_batch) + len(lhs_free) + len(rhs_free)
    lhs_places |= _places((lhs_sum, first_sum))
    rhs_places |= _places((rhs_sum, first_sum))
    shape = (
        *(x.aval.shape[a] for a in (*lhs_batch, *lhs_free)),
        *(y.aval.shape[a] for a in rhs_free),
        *(x.aval.shape[a] for a in lhs_sum),
    )
    lhs_dims = tuple(lhs_places[a] for a in range(x.aval.ndim))
    rhs_dims = tuple(rhs_places[a] for a in range(y.aval.ndim))
    product = mul.bind(
        broadcast_in_dim.bind(x, shape=shape, dims=lhs_dims),
        broadcast_in_dim.bind(y, shape=shape, dims=rhs_dims),
    )
    return sum_product(product, tuple(range(first_sum, len(shape))), narrow)


def product_dtype(lhs: DType, rhs: DType) -> DType:
    """The dtype of a product of two, as XLA has it.

    It is the one that is complex, else that with the wider range, more digits, more bits, a sign.

    >>> product_dtype(dtypes.float16, dtypes.bfloat16).name
    'bfloat16'
    """
    return lhs if lhs is rhs else max(lhs, rhs, key=_extent)


def _extent(dtype: DType) -> tuple[Any, ...]:
    if dtypes.is_inexact(dtype):
        info = dtypes.finfo(dtype)
        return (dtypes.is_complex(dtype), info.maxexp, info.nmant, info.bits, True)
    if dtype == dtypes.bool_:
        return (False, -1, -1, 1, True)
    integer = dtypes.iinfo(dtype)
    return (False, -1, -1, integer.bits, integer.min < 0)


def in_sum_dtype(
    name: str, x: Value, y: Value, dtype: DType, preferred: DTypeLike | None
) -> tuple[Value, Value, Any]:
    """Two operands in the dtype to add up in, and the dtype to convert the sum to, or None.

    Products of half precision are exact in single precision, in which they are added up.

    Args:
      name: of the operation.
      x: an operand.
      y: the other.
      dtype: of the result, if no other is preferred.
      preferred: the dtype of the result, or None.
    """
    wanted = dtype
    if preferred is not None:
        wanted = dtype_of(preferred)
        check_preferred(name, wanted, dtype)
    working = wanted
    if wanted.itemsize < dtype.itemsize or dtypes.is_inexact(dtype) > dtypes.is_inexact(wanted):
        working = dtype
    if working in dtypes.NARROW:
        working = dtypes.float32
    convert = convert_element_type.bind
    if x.aval.dtype != working:
        x = convert(x, dtype=working, weak_type=False)
    if y.aval.dtype != working:
        y = convert(y, dtype=working, weak_type=False)
    return x, y, None if working == wanted else wanted


def sum_product(product: Value, axes: Shape, dtype: Any = None) -> Array:
    """The last step of a contraction; of truth values it is "any"."""
    reduce = reduce_or if product.aval.dtype == dtypes.bool_ else reduce_sum
    out = reduce.bind(product, axes=axes) if axes else product
    if dtype is not None:
        out = convert_element_type.bind(out, dtype=dtype, weak_type=False)
    return as_array(out)


def _numbers(given: Any) -> Any:
    try:
        (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = given
        return (tuple(lhs_sum), tuple(rhs_sum)), (tuple(lhs_batch), tuple(rhs_batch))
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            "dot_general: dimension_numbers is not a pair of pairs of axis lists",
            got=repr(given),
            fix="(((1,), (0,)), ((), ())) for the product of two matrices",
        ) from error


def _check_sizes(x: Value, y: Value, kind: str, lhs_axes: Shape, rhs_axes: Shape) -> None:
    fits = len(lhs_axes) == len(rhs_axes) and all(
        x.aval.shape[a] == y.aval.shape[b] for a, b in zip(lhs_axes, rhs_axes, strict=True)
    )
    if not fits:
        raise ShapeError(
            f"dot_general: the {kind} axes do not go together",
            got=f"axes {lhs_axes} of {x.aval.str_short()}, axes {rhs_axes} of {y.aval.str_short()}",
            fix="as many axes on both sides, of the same sizes in the same order",
        )


def _places(*groups: tuple[Sequence[int], int]) -> dict[int, int]:
    """For each axis its place in the iteration space; each group is placed from a number on."""
    return {axis: first + k for axes, first in groups for k, axis in enumerate(axes)}


@with_out_sharding
def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The product of vectors and matrices, or with ``dimension_numbers`` any contraction.

    Args:
      lhs: a vector or a matrix.
      rhs: a vector or a matrix, whose first axis goes with the last of ``lhs``.
      dimension_numbers: as in :func:`dot_general`, for arrays of any rank.
      precision: accepted as in jax.lax.
      preferred_element_type: the dtype of the result.

    Returns:
      A scalar of two vectors, a vector of a vector and a matrix, a matrix of two; with
        ``dimension_numbers`` as :func:`dot_general`.

    Raises:
      ShapeError: if the sizes do not fit, or an array has another rank.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.dot(np.eye(2), np.array([3.0, 4.0]))
    Array([3., 4.], dtype=float32)
    """
    x, y = value_of("dot", lhs), value_of("dot", rhs)
    if dimension_numbers is None:
        ranks_fit = x.aval.ndim in (1, 2) and y.aval.ndim in (1, 2)
        if not ranks_fit or x.aval.shape[-1] != y.aval.shape[0]:
            raise ShapeError(
                "dot takes vectors and matrices whose neighbouring sizes agree",
                got=f"{x.aval.str_short()}, {y.aval.str_short()}",
                fix="lax.dot_general, or functrax.numpy.matmul",
            )
        dimension_numbers = (((x.aval.ndim - 1,), (0,)), ((), ()))
    return dot_general(x, y, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: PrecisionLike = None) -> Array:
    """The products of matrices, for each index of the leading axes.

    Args:
      lhs: shape ``(*batch, m, k)``.
      rhs: shape ``(*batch, k, n)``.
      precision: accepted as in jax.lax.

    Returns:
      Shape ``(*batch, m, n)``.

    Raises:
      ShapeError: if the arrays' ranks or sizes do not fit.

    >>> import numpy as np
    >>> from functrax import lax
    >>> lax.batch_matmul(np.ones((5, 2, 3)), np.ones((5, 3, 4))).shape
    (5, 2, 4)
    """
    x, y = value_of("batch_matmul", lhs), value_of("batch_matmul", rhs)
    ndim = x.aval.ndim
    if ndim < 2 or y.aval.ndim != ndim:
        raise ShapeError(
            "batch_matmul takes arrays of one rank, which is at least 2",
            got=f"{x.aval.str_short()}, {y.aval.str_short()}",
            fix="arrays of the same rank; x[None] adds a batch axis",
        )
    batch = tuple(range(ndim - 2))
    return dot_general(x, y, (((ndim - 1,), (ndim - 2,)), (batch, batch)), precision)
