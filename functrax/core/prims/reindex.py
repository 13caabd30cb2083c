"""The reindex family: ``O[o] = I[f(o)]``, or a fill value where ``f(o)`` is out of bounds.

The map ``f`` is data (``core/index/map.py``).  ``reindex`` (``core/prims/mapped.py``) takes any
map; the others, here and in ``core/prims/slicing.py``, are specialisations with a readable name
and parameters, and each can say which map it is (``index_map``), which the tests compare with its
reference and with its rules.

The whole family is linear in the operand, so the derivative is the operation on the tangent, and
the transpose of ``reindex[f]`` is ``reindex_reduce[add, f]`` (``core/prims/reduce.py``).

Start at :class:`Reindexing`.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from functrax.core.errors.typed import AxisError, BroadcastAxisError, ShapeError
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Eqn, Literal
from functrax.core.prims.shape_checks import check_axes, check_permutation, check_sizes
from functrax.core.tracing.primitive import (
    Avals,
    BadSample,
    Linear,
    Ops,
    Primitive,
    Sample,
    Tangents,
    Value,
    registry,
)
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

_F32 = dtypes.float32


class Reindexing(Primitive):
    """Base of the family: the results are elements of operands as they are, or their indices."""

    family = "reindex"
    exact = True
    rounds_nothing = True
    computes_nothing = True


class Reindex(Reindexing):
    """A member with a map: linear in operand 0."""

    takes_stored = True
    #: There may be points where nothing is read; the result is the parameter ``fill`` there.
    has_fill: ClassVar[bool] = False

    @abstractmethod
    def index_map(self, *args: Any, **params: Any) -> IndexMap:
        """``(*avals, **params)`` -> the map from output points to operand elements."""

    def lowers(self, avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> bool:
        return self.is_numeric(avals, params)

    def moved_operands(self, params: dict[str, Any]) -> slice:
        return slice(0, 1)

    def jvp(self, *args: Any, **params: Any) -> tuple[Any, Any]:
        primals, tangents = args
        out = self.bind(*primals, **params)
        t = tangents[0]
        return out, None if t is None else self.bind(t, *primals[1:], **params)


def map_of(eqn: Eqn) -> IndexMap:
    """The map of an equation whose primitive is a :class:`Reindex`."""
    params = eqn.params
    found: IndexMap | None = params.get("map")
    if found is not None:
        return found
    return _map_of(eqn.primitive, tuple([x.aval for x in eqn.invars]), tuple(params.items()))


@functools.lru_cache(maxsize=4096)
def _map_of(
    primitive: Reindex, avals: tuple[ShapedArray, ...], params: tuple[tuple[str, Any], ...]
) -> IndexMap:
    return primitive.index_map(*avals, **dict(params))


@functools.lru_cache(maxsize=4096)
def _way_back(
    own: tuple[int, ...], shape: tuple[int, ...], dims: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """How what was broadcast comes back: axes to sum, the order of the rest, whether it is all.

    It is not all where an axis of size 1 was repeated along its own axis.
    """
    repeated = {d for s, d in zip(own, dims, strict=True) if s != shape[d]}
    kept = [d for d in range(len(shape)) if d in dims and d not in repeated]
    axes = tuple(d for d in range(len(shape)) if d not in kept)
    order = tuple(kept.index(d) for d in dims if d not in repeated)
    return axes, order, not repeated


def _check_broadcast_axes(x: ShapedArray, out: ShapedArray, dims: tuple[int, ...]) -> None:
    """Refuse anything but a different axis of the result for each axis of the operand."""
    name, got = "broadcast_in_dim", f"dims {dims} for {x.str_short()} to shape {out.shape}"
    if len(dims) != x.ndim:
        raise BroadcastAxisError(
            f"{name}: broadcast_dimensions must have length equal to operand ndim",
            got=got,
            fix=f"{x.ndim} axes in dims",
        )
    if out.ndim < x.ndim:
        raise BroadcastAxisError(
            f"{name}: target broadcast shape must have equal or higher rank to the operand shape",
            got=got,
            fix=f"a shape of {x.ndim} sizes or more",
        )
    if any(not 0 <= d < out.ndim for d in dims):
        raise BroadcastAxisError(
            f"{name} broadcast_dimensions must be a subset of output dimensions",
            got=got,
            fix=f"axes from 0 to {out.ndim - 1}",
        )
    if len(set(dims)) != len(dims):
        raise BroadcastAxisError(
            f"{name} broadcast_dimensions must not contain duplicates",
            got=got,
            fix="name each axis of the result once",
        )


class BroadcastInDim(Reindex):
    """Axis ``i`` of the operand becomes axis ``dims[i]``; the other axes repeat it.

    ``dims`` need not increase.  An axis of size 1 may be repeated along its own axis.
    """

    name = "broadcast_in_dim"

    def shape_rule(self, x: ShapedArray, *, shape: tuple[int, ...], dims: tuple[int, ...]) -> Avals:
        out = ShapedArray(shape, x.dtype, x.weak_type)
        _check_broadcast_axes(x, out, dims)
        for size, dim in zip(x.shape, dims, strict=True):
            if size not in (1, shape[dim]):
                raise ShapeError(
                    "broadcast_in_dim: operand dimension sizes must either be 1, or be equal to "
                    "their corresponding dimensions in the target broadcast shape",
                    got=f"{x.str_short()} to shape {shape} with dims {dims}",
                    fix="an operand's axis must have the size of its output axis, or 1",
                )
        return out

    def reference(self, x: Any, *, shape: tuple[int, ...], dims: tuple[int, ...]) -> Any:
        x = np.asarray(x)
        order = sorted(range(len(dims)), key=dims.__getitem__)
        expanded = [1] * len(shape)
        for i in order:
            expanded[dims[i]] = x.shape[i]
        return np.broadcast_to(x.transpose(order).reshape(expanded), shape)

    def index_map(
        self, x: ShapedArray, *, shape: tuple[int, ...], dims: tuple[int, ...]
    ) -> IndexMap:
        return IndexMap.broadcast(x.shape, shape, dims)

    def simplify(self, x: Value, *, shape: tuple[int, ...], dims: tuple[int, ...]) -> Value | None:
        if x.aval.shape == shape and dims == tuple(range(len(shape))):
            return x
        return None

    def transpose(
        self, ct: Value, x: Linear, *, shape: tuple[int, ...], dims: tuple[int, ...]
    ) -> list[Value | None]:
        axes, order, keeps_shape = _way_back(x.aval.shape, shape, dims)
        summed = registry["reduce_sum"].bind(ct, axes=axes) if axes else ct
        moved = transpose_(summed, order)
        return [moved if keeps_shape else reshape.bind(moved, shape=x.aval.shape)]

    def batch(
        self,
        size: int,
        args: Ops,
        batched: Sequence[bool],
        *,
        shape: tuple[int, ...],
        dims: tuple[int, ...],
    ) -> tuple[Any, Any]:
        moved = (0, *(d + 1 for d in dims))
        return self.bind(args[0], shape=(size, *shape), dims=moved), True

    def samples(self) -> Iterable[Sample]:
        yield Sample(((),), {"shape": (2, 3), "dims": ()})
        yield Sample(((3,),), {"shape": (2, 3, 4), "dims": (1,)})
        yield Sample(((3, 2),), {"shape": (2, 4, 3), "dims": (2, 0)})
        yield Sample(((1, 3),), {"shape": (4, 3), "dims": (0, 1)})
        yield Sample(((2,),), {"shape": (2, 0), "dims": (0,)})

    def bad_samples(self) -> Iterable[BadSample]:
        x = ShapedArray((3,), _F32)
        yield BadSample((x,), ShapeError, "sizes", {"shape": (2, 4), "dims": (1,)})
        yield BadSample((x,), BroadcastAxisError, "subset", {"shape": (3,), "dims": (1,)})
        yield BadSample((x,), BroadcastAxisError, "length equal", {"shape": (3,), "dims": ()})


class Transpose(Reindex):
    """Output axis ``i`` is axis ``perm[i]`` of the operand."""

    name = "transpose"

    def shape_rule(self, x: ShapedArray, *, perm: tuple[int, ...]) -> Avals:
        check_permutation("transpose", x, perm)
        return ShapedArray(tuple(x.shape[p] for p in perm), x.dtype, x.weak_type)

    def reference(self, x: Any, *, perm: tuple[int, ...]) -> Any:
        return np.transpose(x, perm)

    def index_map(self, x: ShapedArray, *, perm: tuple[int, ...]) -> IndexMap:
        return IndexMap.transpose(x.shape, perm)

    def simplify(self, x: Value, *, perm: tuple[int, ...]) -> Value | None:
        return x if perm == tuple(range(len(perm))) else None

    def transpose(self, ct: Value, x: Linear, *, perm: tuple[int, ...]) -> list[Value | None]:
        return [self.bind(ct, perm=tuple(perm.index(i) for i in range(len(perm))))]

    def batch(
        self, size: int, args: Ops, batched: Sequence[bool], *, perm: tuple[int, ...]
    ) -> tuple[Any, Any]:
        return self.bind(args[0], perm=(0, *(p + 1 for p in perm))), True

    def samples(self) -> Iterable[Sample]:
        yield Sample(((2, 3, 4),), {"perm": (2, 0, 1)})
        yield Sample(((0, 3),), {"perm": (1, 0)})
        yield Sample(((),), {"perm": ()})

    def bad_samples(self) -> Iterable[BadSample]:
        yield BadSample((ShapedArray((2, 3), _F32),), AxisError, "permutation", {"perm": (0, 0)})


def transpose_(x: Value, perm: tuple[int, ...]) -> Value:
    """``transpose``, left out where it changes nothing."""
    return x if perm == tuple(range(len(perm))) else transpose.bind(x, perm=perm)


class Reshape(Reindex):
    """The same elements in row-major order, in another shape."""

    name = "reshape"

    def shape_rule(self, x: ShapedArray, *, shape: tuple[int, ...]) -> Avals:
        check_sizes("reshape", shape)
        if math.prod(shape) != x.size:
            raise ShapeError(
                "reshape: the number of elements differs",
                got=f"{x.str_short()} ({x.size}) to shape {shape} ({math.prod(shape)})",
                fix="a shape with as many elements; one size may be -1 in functrax.numpy.reshape",
            )
        return ShapedArray(shape, x.dtype, x.weak_type)

    def reference(self, x: Any, *, shape: tuple[int, ...]) -> Any:
        return np.reshape(x, shape)

    def index_map(self, x: ShapedArray, *, shape: tuple[int, ...]) -> IndexMap:
        return IndexMap.reshape(x.shape, shape)

    def simplify(self, x: Value, *, shape: tuple[int, ...]) -> Value | None:
        return x if x.aval.shape == shape else None

    def transpose(self, ct: Value, x: Linear, *, shape: tuple[int, ...]) -> list[Value | None]:
        return [self.bind(ct, shape=x.aval.shape)]

    def batch(
        self, size: int, args: Ops, batched: Sequence[bool], *, shape: tuple[int, ...]
    ) -> tuple[Any, Any]:
        return self.bind(args[0], shape=(size, *shape)), True

    def samples(self) -> Iterable[Sample]:
        yield Sample(((2, 6),), {"shape": (3, 4)})
        yield Sample(((6,),), {"shape": (1, 2, 3)})
        yield Sample(((1,),), {"shape": ()})
        yield Sample(((0, 3),), {"shape": (3, 0, 2)})

    def bad_samples(self) -> Iterable[BadSample]:
        yield BadSample((ShapedArray((2, 3), _F32),), ShapeError, "differs", {"shape": (4,)})


class Rev(Reindex):
    """Reverses the order along some axes."""

    name = "rev"

    def shape_rule(self, x: ShapedArray, *, axes: tuple[int, ...]) -> Avals:
        check_axes("rev", x, axes)
        return x

    def reference(self, x: Any, *, axes: tuple[int, ...]) -> Any:
        return np.flip(x, axes)

    def index_map(self, x: ShapedArray, *, axes: tuple[int, ...]) -> IndexMap:
        return IndexMap.reverse(x.shape, axes)

    def transpose(self, ct: Value, x: Linear, *, axes: tuple[int, ...]) -> list[Value | None]:
        return [self.bind(ct, axes=axes)]

    def batch(
        self, size: int, args: Ops, batched: Sequence[bool], *, axes: tuple[int, ...]
    ) -> tuple[Any, Any]:
        return self.bind(args[0], axes=tuple(a + 1 for a in axes)), True

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 4),), {"axes": (1,)})
        yield Sample(((3, 0),), {"axes": (0, 1)})

    def bad_samples(self) -> Iterable[BadSample]:
        yield BadSample((ShapedArray((3,), _F32),), AxisError, "rev", {"axes": (1,)})


class Iota(Reindexing):
    """The index along one axis: ``O[o] = o_axis``."""

    name = "iota"
    accepts = dtypes.NUMERIC

    def shape_rule(self, *, shape: tuple[int, ...], dtype: Any, axis: int) -> Avals:
        out = ShapedArray(shape, dtype)
        check_axes("iota", out, (axis,))
        return out

    def reference(self, *, shape: tuple[int, ...], dtype: Any, axis: int) -> Any:
        line = np.arange(shape[axis]).astype(dtype)
        column = line.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        return np.broadcast_to(column, shape)

    def jvp(self, primals: Ops, tangents: Tangents, **params: Any) -> tuple[Any, Any]:
        return self.bind(**params), None

    def batch(
        self, size: int, args: Ops, batched: Sequence[bool], **params: Any
    ) -> tuple[Any, Any]:
        return self.bind(**params), False

    def samples(self) -> Iterable[Sample]:
        yield Sample((), {"shape": (3, 4), "dtype": None, "axis": 1})
        yield Sample((), {"shape": (0, 4), "dtype": None, "axis": 0})

    def bad_samples(self) -> Iterable[BadSample]:
        yield BadSample((), AxisError, "iota", {"shape": (3,), "dtype": _F32, "axis": 1})


broadcast_in_dim, transpose, reshape = BroadcastInDim(), Transpose(), Reshape()
rev, iota = Rev(), Iota()


def full(shape: tuple[int, ...], value: Literal) -> Value:
    """An array full of a scalar constant; the constant itself for rank 0."""
    return broadcast_in_dim.bind(value, shape=shape, dims=()) if shape else value


def zeros(aval: ShapedArray) -> Value:
    """Zeros of a type."""
    return full(aval.shape, Literal(0, ShapedArray((), aval.dtype, aval.weak_type)))


def ones(aval: ShapedArray) -> Value:
    """Ones of a type."""
    return full(aval.shape, Literal(1, ShapedArray((), aval.dtype, aval.weak_type)))
