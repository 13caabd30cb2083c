"""What index maps mean, in NumPy: evaluation, gather (reindex) and scatter (reindex_reduce).

What enters: a map (:class:`functrax.core.index.map_form.MapForm`), arrays, and index arrays for its
extra operands.  What leaves: arrays.  This is the definition that every backend is tested
against, so the general path is plain; three shortcuts keep it usable on large arrays:

- an affine map whose valid points are a box reads or writes a strided window (:func:`_window`);
- a scatter first reduces the domain dimensions that the map does not use (a sum is all of that);
- a scatter that is proven injective assigns, and needs no accumulation.

Indices are computed in int64 on open grids: an expression of one dimension costs one row.
Start at :func:`evaluate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from functrax.core.errors.typed import ArgumentError, DTypeError, ShapeError
from functrax.core.index.bounds import bounds
from functrax.core.index.comparisons import Kind
from functrax.core.index.expr import Atom, Condition, Dim, FloorDiv, IndexExpr, Indicator, Load, Mod
from functrax.core.index.map_form import MapForm, Shape, flatten, size_of
from functrax.core.index.proofs import box, injective
from functrax.core.types import dtypes

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"
Indices: TypeAlias = "npt.NDArray[np.int64]"
Valid: TypeAlias = "npt.NDArray[np.bool_] | Literal[True]"
ScatterOp: TypeAlias = Literal["add", "mul", "max", "min", "and", "or", "xor", "set"]

_UFUNCS: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def evaluate(
    form: MapForm, loads: Sequence[npt.ArrayLike] = ()
) -> tuple[tuple[Indices, ...], Valid]:
    """The index into every codomain dimension at every point, and which points are valid.

    Args:
      form: the map.
      loads: the extra operands, integer arrays.

    Returns:
      One int64 array per codomain dimension and a boolean array, each of the domain's rank and
      broadcastable to the domain; ``True`` in place of the array where every point is proven
      valid.  An invalid point's index may be out of bounds.
    """
    grid = _Grid(form, loads)
    indices = tuple(grid.value(expr) for expr in form.exprs)
    for condition in form.conditions:
        grid.require(grid.holds(condition))
    for expr, index, size in zip(form.exprs, indices, form.codomain, strict=True):
        grid.require_range(expr, index, size)
    return indices, grid.valid


class _Grid:
    """Values of expressions over the whole domain, on open grids; remembers invalid points."""

    def __init__(self, form: MapForm, loads: Sequence[npt.ArrayLike]) -> None:
        self.domain = form.domain
        self.loads = [_as_index_array(k, load) for k, load in enumerate(loads)]
        self.valid: Valid = True
        self._values: dict[Atom, Indices] = {}

    def value(self, expr: IndexExpr) -> Indices:
        total: Indices = np.full((1,) * len(self.domain), expr.const, np.int64)
        for atom, coef in expr.terms:
            if atom not in self._values:
                self._values[atom] = self._atom(atom)
            total = total + coef * self._values[atom]
        return total

    def holds(self, condition: Condition) -> npt.NDArray[np.bool_]:
        return _compare(self.value(condition.expr), condition.kind)

    def require(self, holds: npt.NDArray[np.bool_]) -> None:
        self.valid = holds if self.valid is True else self.valid & holds

    def require_range(self, expr: IndexExpr, index: Indices, size: int) -> bool:
        """Ask for ``0 <= index < size``; False where that had to be checked point by point."""
        interval = bounds(expr, self.domain)
        if interval is not None and interval[0] >= 0 and interval[1] < size:
            return True
        self.require((index >= 0) & (index < size))
        return False

    def _atom(self, atom: Atom) -> Indices:
        if isinstance(atom, Dim):
            shape = [1] * len(self.domain)
            shape[atom.number] = self.domain[atom.number]
            return np.arange(shape[atom.number], dtype=np.int64).reshape(shape)
        if isinstance(atom, FloorDiv):
            return np.floor_divide(self.value(atom.expr), atom.divisor)
        if isinstance(atom, Mod):
            return np.mod(self.value(atom.expr), atom.divisor)
        if isinstance(atom, Load):
            return self._load(atom)
        assert isinstance(atom, Indicator)
        return self.holds(atom.condition).astype(np.int64)

    def _load(self, atom: Load) -> Indices:
        if atom.operand >= len(self.loads):
            raise ArgumentError(
                f"index map: extra operand e{atom.operand} is missing",
                got=f"{len(self.loads)} extra operands for the expression {atom}",
                fix="pass one integer array for every extra operand that the map reads",
            )
        array = self.loads[atom.operand]
        if array.ndim != len(atom.indices):
            raise ShapeError(
                f"index map: operand e{atom.operand} is read with {len(atom.indices)} indices",
                got=f"an array of shape {array.shape} for the expression {atom}",
                fix="give an array with one dimension for each index",
            )
        where = []
        for expr, size in zip(atom.indices, array.shape, strict=True):
            index = self.value(expr)
            inside = self.require_range(expr, index, size)
            where.append(index if inside else np.clip(index, 0, max(size - 1, 0)))
        if array.size == 0:
            return np.zeros((1,) * len(self.domain), np.int64)
        # Indices of rank 0 maps have rank 0, and would give a scalar.
        return np.asarray(array[tuple(where)] if where else np.full((1,) * len(self.domain), array))


def gather(
    form: MapForm, array: npt.ArrayLike, loads: Sequence[npt.ArrayLike] = (), fill: object = 0
) -> Array:
    """``O[o] = array[f(o)]``, or ``fill`` where the point ``o`` is not valid.

    Args:
      form: the map ``f``; the result has the shape of its domain.
      array: of the shape of the map's codomain, any dtype.
      loads: the extra operands.
      fill: the value of invalid points, of the dtype of ``array``.

    Returns:
      An array of the dtype of ``array``; possibly a read-only view of it.

    Raises:
      ShapeError: ``array`` does not have the shape of the codomain.
    """
    source = np.asarray(array)
    _check_shape("gather", source.shape, form.codomain)
    if source.size == 0 or size_of(form.domain) == 0:
        return np.full(form.domain, fill, source.dtype)
    window = box(form)
    if window is None:
        return _gather_points(form, source, loads, fill)
    view = _window(source, form, window, writeable=False)
    if view.shape == form.domain:
        return view
    out = np.full(form.domain, fill, source.dtype)
    out[tuple(slice(start, stop) for start, stop in window)] = view
    return out


def scatter(
    form: MapForm,
    values: npt.ArrayLike,
    out_shape: Shape,
    op: ScatterOp,
    identity: npt.ArrayLike,
    loads: Sequence[npt.ArrayLike] = (),
) -> Array:
    """``O[f(i)] op= values[i]`` over the valid points ``i``, from ``O = identity``.

    ``set`` keeps the last value in row-major order of ``i``.  The order of the other operations
    is not defined.  float16 and bfloat16 are accumulated in float32.

    Args:
      form: the map ``f``.
      values: of the shape of the map's domain.
      out_shape: the result's shape, which is the map's codomain.
      op: ``add``, ``mul``, ``max``, ``min`` (NaN wins), ``and``, ``or``, ``xor`` (bits of
        integers, or booleans) or ``set``.
      identity: what ``O`` starts from, a scalar or an array of ``out_shape``.
      loads: the extra operands.

    Raises:
      ShapeError: ``values`` or ``out_shape`` do not fit the map.
      DTypeError: bits of floats.
    """
    source = np.asarray(values)
    _check_shape("scatter", source.shape, form.domain)
    _check_shape("scatter", tuple(out_shape), form.codomain)
    _check_op(op, source.dtype)
    dtype = _accumulator(source.dtype)
    out = np.empty(form.codomain, dtype)
    out[...] = np.asarray(identity, source.dtype)
    with np.errstate(all="ignore"):  # overflow and NaN are values here, not events
        if source.size and out.size:
            _scatter_into(out, *_reduce_unused(form, source, op, dtype), op, loads)
        return out.astype(source.dtype, copy=False)


def _scatter_into(
    out: Array, form: MapForm, source: Array, op: ScatterOp, loads: Sequence[npt.ArrayLike]
) -> None:
    """Scatter the values of a map that uses all its dimensions."""
    if not injective(form):
        _accumulate(form, source, out, op, loads)
        return
    window = box(form)
    if window is None:
        _assign_points(form, source, out, op, loads)
        return
    target = _window(out, form, window, writeable=True)
    part = source[tuple(slice(start, stop) for start, stop in window)]
    target[...] = part if op == "set" else _UFUNCS[op](target, part)


def _gather_points(
    form: MapForm, source: Array, loads: Sequence[npt.ArrayLike], fill: object
) -> Array:
    indices, valid = evaluate(form, loads)
    if valid is not True:
        indices = tuple(
            np.clip(index, 0, size - 1) for index, size in zip(indices, form.codomain, strict=True)
        )
    found = np.asarray(source[indices]) if indices else source
    if valid is not True:
        found = np.where(valid, found, np.asarray(fill, source.dtype))
    return np.broadcast_to(found, form.domain)


def _reduce_unused(
    form: MapForm, source: Array, op: ScatterOp, dtype: np.dtype[Any]
) -> tuple[MapForm, Array]:
    """Reduce the dimensions that the map does not use, and drop them from the map."""
    used = sorted(form.used_dims())
    unused = tuple(k for k in range(len(form.domain)) if k not in used)
    if op == "set":
        source = source[tuple(slice(None) if k in used else -1 for k in range(len(form.domain)))]
    elif unused:
        source = _UFUNCS[op].reduce(source, axis=unused, dtype=dtype)
    renumber = {k: Dim(position) for position, k in enumerate(used)}
    reduced = replace(
        form,
        domain=tuple(form.domain[k] for k in used),
        exprs=tuple(expr.substitute(renumber) for expr in form.exprs),
        conditions=tuple(condition.substitute(renumber) for condition in form.conditions),
    )
    return reduced, np.asarray(source, dtype)


def _assign_points(
    form: MapForm, source: Array, out: Array, op: ScatterOp, loads: Sequence[npt.ArrayLike]
) -> None:
    flat, source = _flat_points(form, source, loads)
    target = out.reshape(-1)
    target[flat] = source if op == "set" else _UFUNCS[op](target[flat], source)


def _accumulate(
    form: MapForm, source: Array, out: Array, op: ScatterOp, loads: Sequence[npt.ArrayLike]
) -> None:
    flat, source = _flat_points(form, source, loads)
    target = out.reshape(-1)
    if op == "set":
        last = np.full(target.size, -1, np.int64)
        np.maximum.at(last, flat, np.arange(flat.size))
        target[last >= 0] = source[last[last >= 0]]
    elif op == "add" and out.dtype.kind in "fc":
        target += _bin_sums(flat, source, target.size).astype(out.dtype)
    else:
        _UFUNCS[op].at(target, flat, source)


def _bin_sums(flat: Indices, source: Array, size: int) -> Array:
    """Sums in float64, which is exact for no more and no less than NumPy's own and much faster."""
    if source.dtype.kind != "c":
        return np.bincount(flat, source, size)
    sums = np.empty(size, np.complex128)
    sums.real = np.bincount(flat, source.real, size)
    sums.imag = np.bincount(flat, source.imag, size)
    return sums


def _flat_points(
    form: MapForm, source: Array, loads: Sequence[npt.ArrayLike]
) -> tuple[Indices, Array]:
    """The row-major codomain position and the value of every valid point, in row-major order."""
    _, valid = evaluate(form, loads)
    flat = np.broadcast_to(
        _Grid(form, loads).value(flatten(form.exprs, form.codomain)), form.domain
    )
    if valid is True:
        return flat.reshape(-1), source.reshape(-1)
    mask = np.broadcast_to(valid, form.domain)
    return flat[mask], source[mask]


def _window(
    array: Array, form: MapForm, window: tuple[tuple[int, int], ...], *, writeable: bool
) -> Array:
    """The elements that an affine map reads on a box of its domain, as a strided view."""
    affine = form.as_affine()
    assert affine is not None
    offset, matrix = affine
    shape = tuple(stop - start for start, stop in window)
    if 0 in shape:
        return np.empty(shape, array.dtype)
    start = tuple(
        const + sum(coef * low for coef, (low, _) in zip(row, window, strict=True))
        for const, row in zip(offset, matrix, strict=True)
    )
    strides = tuple(
        sum(row[k] * stride for row, stride in zip(matrix, array.strides, strict=True))
        for k in range(len(shape))
    )
    index: tuple[Any, ...] = (*(slice(first, None) for first in start), ...)  # a view at rank 0 too
    corner = array[index]
    return strided_view(corner, shape, strides, writeable=writeable)


def strided_view(
    corner: Array, shape: Sequence[int], strides: Sequence[int], *, writeable: bool
) -> Array:
    """Elements at regular places from the first one of an array, as a view."""
    # NumPy describes the memory by a code, which it does not understand of stored floats.
    stored = corner.dtype in dtypes.STORED
    x = corner.view(np.uint8) if stored else corner
    found = np.lib.stride_tricks.as_strided(x, shape, strides, writeable=writeable)
    return found.view(corner.dtype) if stored else found


def _as_index_array(number: int, load: npt.ArrayLike) -> Indices:
    array = np.asarray(load)
    if array.dtype.kind not in "iub":
        raise DTypeError(
            f"index map: extra operand e{number} is not an array of integers",
            got=f"dtype {array.dtype}",
            fix="convert it to an integer dtype",
        )
    return array.astype(np.int64, copy=False)


def _compare(value: Indices, kind: Kind) -> npt.NDArray[np.bool_]:
    if kind == ">=0":
        return np.greater_equal(value, 0)
    return np.equal(value, 0) if kind == "==0" else np.not_equal(value, 0)


def _accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float32 for the floats of two bytes and less, whose own sums would lose everything."""
    if dtype.kind in "biufc" and dtype != np.float16:
        return dtype
    return np.dtype(np.float32)


def _check_op(op: str, dtype: np.dtype[Any]) -> None:
    if op != "set" and op not in _UFUNCS:
        raise ArgumentError(
            "scatter: unknown operation", got=repr(op), fix=f"use one of {(*_UFUNCS, 'set')}"
        )
    if op in ("and", "or", "xor") and dtype.kind not in "biu":
        raise DTypeError(
            f"scatter: '{op}' is defined for booleans and integers",
            got=f"dtype {dtype}",
            fix="add, mul, min or max; or convert with .astype('int32')",
        )


def _check_shape(name: str, got: Shape, expected: Shape) -> None:
    if got != expected:
        raise ShapeError(
            f"{name}: the array does not have the shape that the map is of",
            got=f"shape {got}, expected {expected}",
            fix="an array of the map's own shape",
        )
