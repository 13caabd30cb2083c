"""``jax.interpreters.batching``: rules of ``vmap``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import functrax.numpy as jnp
from functrax.compat.extension.rules import (
    axis_primitive_batchers as axis_primitive_batchers,
    fancy_primitive_batchers as fancy_primitive_batchers,
    primitive_batchers as primitive_batchers,
)
from functrax.compat.extension.user_primitives import Primitive

#: The batch axis of a value that has none.
not_mapped = None


def defvectorized(prim: Primitive) -> None:
    """Say that a primitive of one operand, or of operands batched alike, is batched by itself."""

    def batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[Any, Any]:
        assert all(d == dims[0] for d in dims), f"{prim}: operands are batched differently: {dims}"
        return prim.bind(*args, **params), dims[0]

    primitive_batchers[prim] = batch


def defbroadcasting(prim: Primitive) -> None:
    """Say that a primitive is elementwise, and broadcasts operands of equal rank."""

    def batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[Any, Any]:
        shapes = [jnp.shape(x) for x in args]
        rank = max(len(s) - (d is not None) for s, d in zip(shapes, dims))
        given = [
            x if d is None else _with_rank(jnp.moveaxis(x, d, 0), rank) for x, d in zip(args, dims)
        ]
        outs = prim.bind(*given, **params)
        return outs, [0] * len(outs) if prim.multiple_results else 0

    primitive_batchers[prim] = batch


def _with_rank(x: Any, rank: int) -> Any:
    """An array with its batch axis in front, and ``rank`` axes after it."""
    return jnp.reshape(x, (x.shape[0], *(1,) * (rank + 1 - x.ndim), *x.shape[1:]))


def defreducer(prim: Primitive) -> None:
    """Say that a primitive of one operand reduces over its parameter ``axes``."""

    def batch(
        args: Sequence[Any], dims: Sequence[int], *, axes: Sequence[int], **params: Any
    ) -> tuple[Any, Any]:
        (operand,) = args
        in_front = jnp.moveaxis(operand, dims[0], 0)
        return prim.bind(in_front, axes=tuple(a + 1 for a in axes), **params), 0

    primitive_batchers[prim] = batch


def broadcast(x: Any, sz: int, axis: int, mesh_axis: Any = None) -> Any:
    """The same value for each of ``sz`` elements, along a new axis."""
    shape = list(jnp.shape(x))
    shape.insert(axis, sz)
    return jnp.broadcast_to(jnp.expand_dims(x, axis), shape)


def bdim_at_front(x: Any, bdim: int | None, size: int, mesh_axis: Any = None) -> Any:
    """A value with its batch axis in front; one without is repeated."""
    return broadcast(x, size, 0) if bdim is None else jnp.moveaxis(x, bdim, 0)


moveaxis = jnp.moveaxis
