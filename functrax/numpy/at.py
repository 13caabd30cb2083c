"""``x.at[index]``: what assignment to ``x[index]`` would do, as a new array.

Arrays are immutable; ``x.at[i].set(y)`` is a copy of ``x`` in which element ``i`` is ``y``.  The
index means what it means in ``x[index]`` (:mod:`functrax.numpy.index_plan`), and each update is
one ``scatter`` by that index's map: its domain is the shape of the updates, its codomain that of
``x``.  Negative indices wrap once; updates out of range are dropped; an element named several
times is updated several times, in no particular order except that the last ``set`` stays.

Start at :class:`At`, which is the property; :class:`AtIndex` has the methods.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from functrax.core.arrays.array import ConcreteArray
from functrax.core.arrays.operators import Array
from functrax.core.boundaries.tracebacks import with_boundaries
from functrax.core.errors.typed import ShapeError
from functrax.core.ir.jaxpr import Literal
from functrax.core.options.config import state
from functrax.core.prims.arithmetic import neg, select_n
from functrax.core.prims.comparisons import gt
from functrax.core.prims.convert import convert_element_type, real
from functrax.core.prims.mapped import scatter
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.promotion import lattice_result_type
from functrax.numpy import reductions
from functrax.numpy.index_plan import CHECK, Bounds, gather_map, read_index
from functrax.numpy.indexing import check_static, fill_literal, gather, mode_name
from functrax.numpy.promote import SCALARS, broadcast_value, result, scalar_literal, to_array
from functrax.transforms.control.user_loops import fori_loop
from functrax.typing import ArrayLike

__all__ = ["At", "AtIndex"]


@with_boundaries
class At:
    """``x.at``: takes an index in brackets.

    >>> import functrax.numpy as jnp
    >>> jnp.zeros(3).at[jnp.array([0, 0, 5])].add(1.0)
    Array([2., 0., 0.], dtype=float32)
    """

    __slots__ = ("array",)

    def __init__(self, array: Value) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> AtIndex:
        return AtIndex(self.array, index)

    def __repr__(self) -> str:
        return f"At({self.array!r})"


@with_boundaries
class AtIndex:
    """``x.at[index]``: reads, or makes changed copies.

    All methods take ``mode``: what an index out of range does.  None and ``"drop"`` leave such
    updates out, ``"clip"`` makes them change the nearest element; ``get`` clamps for None, and
    gives ``fill_value`` for ``"fill"``.  ``indices_are_sorted`` is accepted and not needed;
    ``unique_indices`` is a promise that no element is named twice.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Value, index: Any) -> None:
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"AtIndex({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        mode: Any = None,
        fill_value: ArrayLike | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """``x[index]``, with a choice of what indices out of range give.

        Args:
          mode: None, ``"clip"`` or ``"promise_in_bounds"``: the nearest element; ``"fill"`` or
            ``"drop"``: ``fill_value``.
          fill_value: a scalar; NaN if None, and for integers the lowest (unsigned: the highest).
          indices_are_sorted: accepted, and not needed.
          unique_indices: accepted, and not needed.
          wrap_negative_indices: whether a negative index counts from the end.

        Example:
          >>> import functrax.numpy as jnp
          >>> jnp.arange(3.0).at[5].get(mode="fill", fill_value=-1)
          Array(-1., dtype=float32)
        """
        x = self.array
        kind = mode_name("at[].get", mode, "promise")
        if state.check_static_indices and kind == "promise":
            check_static(x.aval, self.index, wrap_negative_indices)
        fills = kind == "fill"
        bounds = Bounds(clip=not fills, wrap=wrap_negative_indices)
        entries, operands = read_index(x.aval, self.index, bounds)
        fill = fill_literal("at[].get", x.aval.dtype, fill_value) if fills else None
        return gather(x, entries, operands, fill)

    def set(self, values: ArrayLike, **options: Any) -> Array:
        """``x[index] = values``; of several values for one element the last stays.

        Args:
          values: an array that broadcasts to the shape of ``x[index]``; it is converted to the
            dtype of ``x``, with a warning where that loses information.
          **options: ``mode``, ``indices_are_sorted``, ``unique_indices``,
            ``wrap_negative_indices``.

        Raises:
          ShapeError: if the values do not broadcast to the index's shape.
          IndexingError: for what is not an index.
        """
        return _update(self, "set", values, **options)

    def add(self, values: ArrayLike, **options: Any) -> Array:
        """``x[index] += values``; values for one element add up."""
        return _update(self, "add", values, **options)

    def subtract(self, values: ArrayLike, **options: Any) -> Array:
        """``x[index] -= values``."""
        taken = neg.bind(cast_update("at[].subtract", values, self.array.aval))
        return _update(self, "add", taken, **options)

    def multiply(self, values: ArrayLike, **options: Any) -> Array:
        """``x[index] *= values``."""
        return _update(self, "mul", values, **options)

    mul = multiply

    def divide(self, values: ArrayLike, **options: Any) -> Array:
        """``x[index] /= values``; the result is of a floating dtype, as a division's is."""
        return self.array / self._factors(values, options)

    def power(self, values: ArrayLike, **options: Any) -> Array:
        """``x[index] **= values``."""
        return self.array ** self._factors(values, options)

    def _factors(self, values: Any, options: dict[str, Any]) -> Value:
        x = self.array
        one = Literal(1, ShapedArray((), x.aval.dtype))
        ones = AtIndex(broadcast_in_dim.bind(one, shape=x.aval.shape, dims=()), self.index)
        return _update(ones, "mul", values, **options)

    def min(self, values: ArrayLike, **options: Any) -> Array:
        """``x[index] = minimum(x[index], values)``."""
        return _update(self, "min", values, **options)

    def max(self, values: ArrayLike, **options: Any) -> Array:
        """``x[index] = maximum(x[index], values)``."""
        return _update(self, "max", values, **options)

    def apply(self, func: Callable[[Array], Any], **options: Any) -> Array:
        """``x[index] = func(x[index])``; an element named k times has it applied k times.

        Args:
          func: an elementwise function.
          **options: as for :meth:`set`.

        If the index is traced, how often an element is named is only known at run time; it is then
        applied in a loop, which has no derivative backwards, unless ``unique_indices=True``.
        """

        def applied(x: Value) -> Value:
            here = AtIndex(x, self.index)
            return here.set(func(here.get()), **options)

        most: Any = _most_repeats(self, options)
        if most is not None and most < 2:
            return applied(self.array) if most else self.array
        hits = _hits(self, options)
        if most is None:
            most = reductions.max(hits, initial=0)

        def again(count: Any, x: Value) -> Value:
            named = gt.bind(hits, broadcast_value(to_array("at[].apply", count), hits.aval.shape))
            return result(select_n.bind(named, x, applied(x)))

        out: Value = fori_loop(0, most, again, self.array)
        return out


def _update(
    at: AtIndex,
    op: str,
    values: Any,
    *,
    mode: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    wrap_negative_indices: bool = True,
) -> Value:
    x, index = at.array, at.index
    name = f"at[].{'multiply' if op == 'mul' else op}"
    if isinstance(index, Array) and index.dtype == dtypes.bool_ and _is_traced(index):
        return _masked(name, x, index, op, values)
    bounds = Bounds(mode_name(name, mode, "fill") == "clip", wrap_negative_indices)
    entries, operands = read_index(x.aval, index, bounds)
    index_map = gather_map(x.aval.shape, tuple(entries))
    updates = _spread(name, cast_update(name, values, x.aval), index_map.domain)
    out = scatter.bind(x, updates, *operands, map=index_map, op=op, unique=unique_indices)
    return result(out)


def _is_traced(x: Array) -> bool:
    return type(x) is not ConcreteArray


def cast_update(name: str, values: Any, aval: ShapedArray) -> Value:
    """Values in the dtype of the array that they go into."""
    target = ShapedArray((), aval.dtype)
    if type(values) in SCALARS:
        typed = (dtypes.as_dtype(type(values)), type(values) is not bool)
        if lattice_result_type((aval.dtype, False), typed)[0] == aval.dtype:
            return scalar_literal(values, target)
    y = to_array(name, values)
    own = y.aval
    if own.dtype == aval.dtype:
        return y
    joined, _ = lattice_result_type((aval.dtype, aval.weak_type), (own.dtype, own.weak_type))
    if joined != aval.dtype:
        warnings.warn(
            f"{name}: values of {own.dtype} are converted to the array's {aval.dtype}, which "
            f"may lose information; convert them with .astype({aval.dtype.name!r})",
            FutureWarning,
            stacklevel=2,
        )
    if dtypes.is_complex(own.dtype) and not dtypes.is_complex(aval.dtype):
        y = real.bind(y)
    return convert_element_type.bind(y, dtype=aval.dtype)


def _spread(name: str, y: Value, shape: tuple[int, ...]) -> Value:
    own = y.aval.shape
    if own == shape:
        return y
    tail = shape[len(shape) - len(own) :]
    if len(own) > len(shape) or any(a not in (1, b) for a, b in zip(own, tail, strict=True)):
        raise ShapeError(
            f"{name}: the values do not broadcast to the shape that is indexed",
            got=f"values {y.aval.str_short()}, index of shape {shape}",
            fix=f"values of shape {shape}, or one that broadcasts to it",
        )
    return broadcast_value(y, shape)


def _masked(name: str, x: Value, mask: Value, op: str, values: Any) -> Value:
    """An update by a traced mask, which a scalar allows: no shape depends on the mask."""
    y = cast_update(name, values, x.aval)
    fits = x.aval.shape[: mask.aval.ndim] == mask.aval.shape
    if y.aval.ndim or not fits:
        # read_index says what is wrong with such an index
        read_index(x.aval, mask, CHECK)
    everywhere = broadcast_value(y, x.aval.shape)
    changed = everywhere
    if op != "set":
        whole = gather_map(x.aval.shape, tuple(read_index(x.aval, (), CHECK)[0]))
        changed = scatter.bind(x, everywhere, map=whole, op=op, unique=True)
    shown = mask
    if mask.aval.shape != x.aval.shape:
        dims = tuple(range(mask.aval.ndim))
        shown = broadcast_in_dim.bind(mask, shape=x.aval.shape, dims=dims)
    return result(select_n.bind(shown, x, changed))


def _hits(at: AtIndex, options: dict[str, Any]) -> Value:
    """How often each element of the array is named."""
    shape = at.array.aval.shape
    zero = Literal(0, ShapedArray((), dtypes.int32))
    none = broadcast_in_dim.bind(zero, shape=shape, dims=())
    return _update(AtIndex(none, at.index), "add", 1, **options)


def _most_repeats(at: AtIndex, options: dict[str, Any]) -> int | None:
    """The largest number of times that an element is named, None if that is not known yet."""
    if options.get("unique_indices"):
        return 1
    _, operands = read_index(at.array.aval, at.index, CHECK)
    if all(operand.aval.size <= 1 for operand in operands):
        return 1
    if any(_is_traced(operand) for operand in operands):
        return None
    shape = at.array.aval.shape
    entries, _ = read_index(at.array.aval, at.index, CHECK)
    index_map = gather_map(shape, tuple(entries))
    ones = np.ones(index_map.domain, np.int32)
    counts = index_map.scatter(ones, shape, "add", 0, [operand.value for operand in operands])
    return int(counts.max(initial=0))
