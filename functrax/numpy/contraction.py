"""Sums of products: what dot, matmul, tensordot and einsum are made of.

Every contraction is a product over the full index space, summed: each operand is broadcast
directly to the axes ``[result…, summed…]`` (in whatever order its own axes come), the operands
are multiplied, and the last axes are summed.  A matrix product is four equations, and no
operand is transposed; the compiler recognises the pattern, and never stores the product.

An operand's axes are named by labels (characters or integers), all different;
:func:`contract` is the one place where a contraction is built.  :func:`dot` and :func:`matmul`
write down the common shapes without looking for labels.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.prims.arithmetic import mul
from functrax.core.prims.reduce import reduce_or, reduce_sum
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.lax.precision import (
    asks_for_precision,
    check_precision,
    check_preferred,
    with_precision,
)
from functrax.numpy.axes import Shape, many_axes
from functrax.numpy.promote import convert, operand, promote_dtypes, result
from functrax.typing import ArrayLike, DTypeLike

if TYPE_CHECKING:
    from functrax.lax.precision import PrecisionLike

__all__ = [
    "dot", "matmul", "tensordot",
]  # fmt: skip

Labels: TypeAlias = "tuple[Hashable, ...]"

_spread = broadcast_in_dim.bind
_sum = reduce_sum.bind


def contract(
    operands: Sequence[Value], labels: Sequence[Labels], out: Labels, sizes: dict[Hashable, int]
) -> Value:
    """Multiply operands of one dtype and sum over the labels that the result does not have.

    Args:
      operands: the arrays.
      labels: for each operand the labels of its axes, all different; an axis of size 1 is
        repeated along the label's size.
      out: the labels of the result's axes.
      sizes: the size of every label.

    Returns:
      An array with one axis for each label in ``out``.  Booleans are "or" of "and".
    """
    summed = _summed_labels(labels, out)
    dtype = operands[0].aval.dtype
    if summed and dtype in dtypes.NARROW:
        # Rounding each product to 16 bits would lose what adding up in 32 bits keeps.
        operands = [convert(x, dtypes.float32) for x in operands]
        return convert(contract(operands, labels, out, sizes), dtype)
    space = (*out, *summed)
    shape = tuple([sizes[label] for label in space])
    place = {label: k for k, label in enumerate(space)}
    product = None
    for x, own in zip(operands, labels, strict=True):
        dims = tuple([place[label] for label in own])
        wide = _spread(x, shape=shape, dims=dims)
        product = wide if product is None else mul.bind(product, wide)
    if not summed:
        return product
    return sum_axes(product, tuple(range(len(out), len(space))))


def _summed_labels(labels: Sequence[Labels], out: Labels) -> Labels:
    found: dict[Hashable, None] = {}
    for own in labels:
        for label in own:
            if label not in out:
                found[label] = None
    return tuple(found)


def sum_axes(x: Value, axes: Shape) -> Value:
    """The sum along axes; of booleans, whether any is true."""
    reduce = reduce_or if x.aval.dtype == dtypes.bool_ else reduce_sum
    return reduce.bind(x, axes=axes)


def operands_of(
    name: str, preferred: Any, *args: Any, precision: Any = None
) -> tuple[list[Value], Any]:
    """Operands of the one dtype that a product is computed in, and the result's dtype.

    Products are computed in the dtype in which the operands meet, or in ``preferred`` where
    that is wider; the result has the preferred dtype.
    """
    values, dtype = _promoted(name, preferred, *args)
    if asks_for_precision(precision):
        check_precision(name, precision)
        values = with_precision(precision, *values)
    return values, dtype


def _promoted(name: str, preferred: Any, *args: Any) -> tuple[list[Value], Any]:
    if preferred is None and all(isinstance(x, Array) for x in args):
        dtype = args[0].aval.dtype
        if all(x.aval.dtype is dtype for x in args):
            return list(args), dtype
    values = promote_dtypes(name, *args)
    dtype = values[0].aval.dtype
    if preferred is None:
        return values, dtype
    wanted = dtypes.canonicalize_dtype(dtypes.as_dtype(preferred))
    check_preferred(name, wanted, dtype)
    if _holds(wanted, dtype):  # an integer need not go through the 16 bits of the other operand
        values = [convert(operand(name, k, x), wanted) for k, x in enumerate(args)]
    return values, wanted


def _holds(wide: Any, narrow: Any) -> bool:
    """Whether computing in ``wide`` instead of ``narrow`` loses nothing."""
    if dtypes.is_inexact(narrow) and not dtypes.is_inexact(wide):
        return False
    if dtypes.is_complex(narrow) and not dtypes.is_complex(wide):
        return False
    return bool(wide.itemsize >= narrow.itemsize)


def finish(x: Value, dtype: Any) -> Value:
    """The result in its dtype."""
    return result(x) if x.aval.dtype == dtype else result(convert(x, dtype))


@with_out_sharding
def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The product of two arrays: of vectors, their inner product; of matrices, theirs.

    Args:
      a: an array, whose last axis is summed; a scalar multiplies.
      b: an array, whose last axis but one, or only axis, is summed.
      precision: None, a :class:`functrax.lax.Precision`, its name, or a pair of them; products are
        computed in full precision for all of them.
      preferred_element_type: the dtype of the sums and of the result; the dtype in which the
        operands meet if None.

    Returns:
      An array of shape ``(*a.shape[:-1], *b.shape[:-2], *b.shape[-1:])``.

    Raises:
      ShapeError: if the contracted sizes differ.
      ArgumentError: for an unknown precision.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.dot(jnp.array([[1.0, 2.0]]), jnp.array([[3.0], [4.0]]))
      Array([[11.]], dtype=float32)
    """
    plain = preferred_element_type is None and not asks_for_precision(precision)
    if plain and isinstance(a, Array) and isinstance(b, Array):
        left, right = a.aval, b.aval
        if len(left.shape) == 2 and len(right.shape) == 2 and left.dtype is right.dtype:
            return _matrix_product("dot", a, b)
    (x, y), dtype = operands_of("dot", preferred_element_type, a, b, precision=precision)
    p, q = x.aval.ndim, y.aval.ndim
    if p == 0 or q == 0:
        sizes: dict[Hashable, int] = dict(enumerate(x.aval.shape or y.aval.shape))
        product = contract((x, y), (_letters(p), _letters(q)), _letters(max(p, q)), sizes)
        return finish(product, dtype)
    return finish(axes_product("dot", x, y, (p - 1,), (max(q - 2, 0),)), dtype)


def _letters(count: int) -> Labels:
    return tuple(range(count))


def _matrix_product(name: str, x: Value, y: Value) -> Value:
    """Of two matrices of one dtype."""
    rows, inside = x.aval.shape
    other, columns = y.aval.shape
    if inside != other:
        raise _contracting(name, x, y, 1, 0)
    dtype = x.aval.dtype
    if dtype in dtypes.NARROW:
        x, y = convert(x, dtypes.float32), convert(y, dtypes.float32)
        return convert(_matrix_product(name, x, y), dtype)
    shape = (rows, columns, inside)
    product = mul.bind(_spread(x, shape=shape, dims=(0, 2)), _spread(y, shape=shape, dims=(2, 1)))
    if product.aval.dtype is dtypes.bool_:
        return reduce_or.bind(product, axes=(2,))
    return _sum(product, axes=(2,))


def axes_product(name: str, x: Value, y: Value, left: Shape, right: Shape) -> Value:
    """Sum over pairs of axes; the other axes of ``x``, then those of ``y``, stay."""
    p, q = x.aval.ndim, y.aval.ndim
    for i, j in zip(left, right, strict=True):
        if x.aval.shape[i] != y.aval.shape[j]:
            raise _contracting(name, x, y, i, j)
    mine = _letters(p)
    other = [p + k for k in range(q)]
    for i, j in zip(left, right, strict=True):
        other[j] = i
    theirs = tuple(other)
    out = (*(k for k in mine if k not in left), *(k for k in theirs if k >= p))
    sizes = dict(zip(theirs, y.aval.shape, strict=True)) | dict(enumerate(x.aval.shape))
    return contract((x, y), (mine, theirs), out, sizes)


def _contracting(name: str, x: Value, y: Value, i: int, j: int) -> ShapeError:
    left, right = x.aval, y.aval
    return ShapeError(
        f"{name}: contracting sizes differ",
        got=f"lhs {left.str_short()} dim {i} = {left.shape[i]}, "
        f"rhs {right.str_short()} dim {j} = {right.shape[j]}",
        fix=_suggestion(name, left.shape, right.shape, i, j),
    )


def _suggestion(name: str, left: Shape, right: Shape, i: int, j: int) -> str:
    """A product of the same arrays that fits, if transposing or exchanging them makes one."""
    if len(left) == 2 and len(right) == 2 and name in ("dot", "matmul"):
        fitting = (
            (left[0] == right[0], "a.T, b"),
            (left[1] == right[1], "a, b.T"),
            (left[0] == right[1], "b, a"),
        )
        found = next((text for fits, text in fitting if fits), None)
        if found is not None:
            return f"jnp.{name}({found})"
    if len(left) == 2 and len(right) == 1 and left[0] == right[0]:
        return f"jnp.{name}(a.T, b)"
    if len(left) == 1 and len(right) == 2 and right[1] == left[0]:
        return f"jnp.{name}(a, b.T)"
    return f"make dim {i} of lhs and dim {j} of rhs the same size"


@with_out_sharding
def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The matrix product ``a @ b``; leading axes are batches, and broadcast.

    Args:
      a: an array of at least one axis; a vector is a row.
      b: an array of at least one axis; a vector is a column.
      precision: as for :func:`dot`.
      preferred_element_type: as for :func:`dot`.

    Returns:
      An array of the broadcast batches and the two outer axes; a vector's axis is left out.

    Raises:
      ShapeError: for scalars, if the contracted sizes differ, or batches do not broadcast.
      ArgumentError: for an unknown precision.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.matmul(jnp.ones((5, 1, 2, 3)), jnp.ones((4, 3, 6))).shape
      (5, 4, 2, 6)
    """
    plain = preferred_element_type is None and not asks_for_precision(precision)
    if plain and isinstance(a, Array) and isinstance(b, Array):
        left, right = a.aval, b.aval
        if len(left.shape) == 2 and len(right.shape) == 2 and left.dtype is right.dtype:
            return _matrix_product("matmul", a, b)
    (x, y), dtype = operands_of("matmul", preferred_element_type, a, b, precision=precision)
    refuse_few_axes("matmul", x, y)
    mine = ("m", "k") if x.aval.ndim > 1 else ("k",)
    theirs = ("k", "n") if y.aval.ndim > 1 else ("k",)
    return finish(batched_product("matmul", x, y, mine, theirs), dtype)


def batched_product(name: str, x: Value, y: Value, mine: Labels, theirs: Labels) -> Value:
    """Sum over ``"k"``; the axes before those that are named are batches, and broadcast."""
    left, right = x.aval, y.aval
    i = left.ndim - len(mine) + mine.index("k")
    j = right.ndim - len(theirs) + theirs.index("k")
    if left.shape[i] != right.shape[j]:
        raise _contracting(name, x, y, i, j)
    first = left.shape[: left.ndim - len(mine)]
    second = right.shape[: right.ndim - len(theirs)]
    count = max(len(first), len(second))
    sizes: dict[Hashable, int] = dict.fromkeys(range(count), 1)
    for shape in (first, second):
        for k, size in enumerate(shape, count - len(shape)):
            if size != sizes[k] and 1 not in (size, sizes[k]):
                raise ShapeError(
                    f"{name}: the batch axes do not broadcast",
                    got=f"lhs {left.str_short()}, rhs {right.str_short()}",
                    fix="leading sizes must be equal or 1, counted from the last batch axis",
                )
            sizes[k] = sizes[k] if size == 1 else size
    batch = _letters(count)
    sizes.update(zip(mine, left.shape[len(first) :], strict=True))
    sizes.update(zip(theirs, right.shape[len(second) :], strict=True))
    out = (*batch, *(label for label in (*mine, *theirs) if label != "k"))
    labels = (
        (*batch[count - len(first) :], *mine),
        (*batch[count - len(second) :], *theirs),
    )
    return contract((x, y), labels, out, sizes)


def refuse_few_axes(name: str, *values: Value, ndim: Sequence[int] = (1, 1)) -> None:
    for k, (x, least) in enumerate(zip(values, ndim, strict=True)):
        if x.aval.ndim < least:
            raise ShapeError(
                f"{name}: operand {k} has too few axes",
                got=f"{x.aval.str_short()}, which needs {least} or more",
                fix="x * y for a product with a scalar" if not x.aval.ndim else "add axes",
            )


@with_out_sharding
def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: int | Sequence[int] | Sequence[Sequence[int]] = 2,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The sum of products over pairs of axes.

    Args:
      a: an array.
      b: an array.
      axes: a number: the last axes of ``a`` against the first of ``b``; or two sequences of axes,
        paired in order.
      precision: as for :func:`dot`.
      preferred_element_type: as for :func:`dot`.

    Returns:
      An array of the other axes of ``a``, then those of ``b``.

    Raises:
      ShapeError: if the sizes of a pair differ.
      ArgumentError: if ``axes`` is neither, or the sequences differ in length.

    Example:
      >>> import functrax.numpy as jnp
      >>> jnp.tensordot(jnp.ones((2, 3, 4)), jnp.ones((4, 3, 5)), axes=([1, 2], [1, 0])).shape
      (2, 5)
    """
    (x, y), dtype = operands_of("tensordot", preferred_element_type, a, b, precision=precision)
    left, right = _paired_axes(x.aval.ndim, y.aval.ndim, axes)
    return finish(axes_product("tensordot", x, y, left, right), dtype)


def _paired_axes(p: int, q: int, axes: Any) -> tuple[Shape, Shape]:
    if isinstance(axes, (tuple, list)) and len(axes) == 2:
        left, right = many_axes("tensordot", axes[0], p), many_axes("tensordot", axes[1], q)
        if len(left) == len(right):
            return left, right
    elif hasattr(axes, "__index__") and 0 <= int(axes) <= min(p, q):
        count = int(axes)
        return tuple(range(p - count, p)), tuple(range(count))
    raise ArgumentError(
        f"tensordot: Number of tensordot axes {axes!r} exceeds input ranks, or differs"
        if isinstance(axes, int)
        else "tensordot: axes is a number of axes, or two sequences of as many axes",
        got=f"axes {axes!r} for operands of rank {p} and {q}",
        fix="axes=1, or axes=([1, 0], [0, 1])",
    )
