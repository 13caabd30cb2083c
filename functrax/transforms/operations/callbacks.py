"""Calling Python from inside a program: ``pure_callback``, ``io_callback``, ``debug.callback``.

A pure callback computes values from values; a debug callback is an effect, which stays in the
program, in order, even when nothing depends on it; an io callback is both.  Callbacks get NumPy
arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from functrax.core.arrays.array import from_numpy
from functrax.core.errors.typed import (
    ArgumentError,
    CallbackResultError,
    DifferentiationError,
    ShardingError,
    VmapMethodError,
)
from functrax.core.pytree.operations import PyTreeDef, tree_flatten, tree_unflatten
from functrax.core.tracing.inputs import as_value, concrete, is_valid_argument
from functrax.core.tracing.primitive import Avals, Opaque, Ops, Tangents, Value, spread
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import check_callable, name_of
from functrax.transforms.arguments.inspect_types import type_of
from functrax.transforms.interpreters.batching import add_batch_axis

FlatCallback = Callable[..., Sequence[Any]]

VMAP_METHODS = (
    *("sequential", "sequential_unrolled", "expand_dims", "broadcast_all"),
    "legacy_vectorized",  # JAX's older name for what leaves arguments that are not mapped alone
)


class ArrayCallback(Opaque):
    """Base: ``callback(*arrays)``; ``out_avals`` are the types of what it must return."""

    multiple_results = True
    holds_programs = True
    plural: str

    def shape_rule(
        self,
        *avals: ShapedArray,
        callback: FlatCallback,
        out_avals: tuple[ShapedArray, ...],
        vmap_method: str | None,
    ) -> Avals:
        return out_avals

    def reference(
        self,
        *values: Any,
        callback: FlatCallback,
        out_avals: tuple[ShapedArray, ...],
        vmap_method: str | None,
    ) -> Any:
        outs = [np.asarray(x) for x in callback(*map(np.asarray, values))]
        if len(outs) != len(out_avals):
            raise CallbackResultError(
                f"{self.name}: {name_of(callback)} returned another number of arrays",
                got=f"{len(outs)}, where {len(out_avals)} were declared",
                fix="a declaration with one ShapeDtypeStruct for each array",
            )
        for out, aval in zip(outs, out_avals, strict=True):
            if out.shape != aval.shape:
                raise CallbackResultError(
                    f"{self.name}: {name_of(callback)} returned another shape than declared",
                    got=f"shape {out.shape} for {aval.str_short()}",
                    fix="return arrays of the declared shapes",
                )
            if dtypes.canonicalize_dtype(out.dtype) != aval.dtype:
                raise CallbackResultError(
                    f"{self.name}: Incorrect output dtype for return value of {name_of(callback)}",
                    got=f"{out.dtype.name} for {aval.str_short()}",
                    fix=f"return it as {aval.dtype.name}; 64-bit numbers are 32-bit ones without "
                    "enable_x64",
                )
        return [out.astype(a.dtype) for out, a in zip(outs, out_avals, strict=True)]

    def jvp(self, primals: Ops, tangents: Tangents, **params: Any) -> tuple[Any, Any]:
        if any(t is not None for t in tangents):
            raise DifferentiationError(
                f"{self.name}: {self.plural} do not support JVP. Python code cannot be "
                "differentiated",
                got=f"the callback {name_of(params['callback'])}",
                fix="wrap the call in functrax.custom_jvp or functrax.custom_vjp, or put "
                "functrax.lax.stop_gradient around its arguments",
            )
        outs = self.bind(*primals, **params)
        return outs, [None] * len(outs)

    def transpose(self, cts: Any, *operands: Any, **params: Any) -> list[Value | None]:
        raise DifferentiationError(
            f"{self.name}: {self.plural} do not support transpose.",
            got=f"the callback {name_of(params['callback'])}",
            fix="functrax.custom_vjp, or functrax.lax.custom_linear_solve, around the call",
        )

    def batch(
        self,
        size: int,
        args: Ops,
        batched: Sequence[bool],
        *,
        callback: FlatCallback,
        out_avals: tuple[ShapedArray, ...],
        vmap_method: str | None,
    ) -> tuple[Any, Any]:
        if vmap_method is None and size == 1:
            vmap_method = "sequential"  # there is one way to call it
        if vmap_method is None:
            raise VmapMethodError(
                f"vmap of {self.name}: {name_of(callback)} has no vmap_method: vmap is only "
                "supported with one",
                got="vmap_method=None",
                fix=f"one of {', '.join(VMAP_METHODS)} as vmap_method=",
            )
        inner = callback
        if vmap_method.startswith("sequential"):
            inner = _Sequential(callback, tuple(batched), size, len(out_avals))
        elif vmap_method == "broadcast_all":
            args = spread(size, args, batched, literals=True)
        elif vmap_method == "expand_dims":
            args = [x if b else add_batch_axis(x, 1) for x, b in zip(args, batched, strict=True)]
        wider = tuple(ShapedArray((size, *a.shape), a.dtype) for a in out_avals)
        outs = self.bind(*args, callback=inner, out_avals=wider, vmap_method=vmap_method)
        return outs, [True] * len(outs)


class PureCallback(ArrayCallback):
    """A callback that may be called any number of times."""

    name = "pure_callback"
    plural = "Pure callbacks"


class IoCallback(ArrayCallback):
    """A callback that is called once for each time that the program comes to it."""

    name = "io_callback"
    plural = "IO callbacks"
    pure = False

    def effects(self, params: dict[str, Any]) -> frozenset[Hashable]:
        return frozenset({"io"})


class _Sequential:
    """Calls a callback once for each element of a batch."""

    def __init__(
        self, callback: FlatCallback, batched: tuple[bool, ...], size: int, num_outs: int
    ) -> None:
        self.callback = callback
        self.batched = batched
        self.size = size
        self.num_outs = num_outs
        self.__name__ = name_of(callback)

    def __call__(self, *args: Any) -> list[Any]:
        rows = [
            self.callback(*(x[i] if b else x for x, b in zip(args, self.batched, strict=True)))
            for i in range(self.size)
        ]
        return [np.stack([np.asarray(row[k]) for row in rows]) for k in range(self.num_outs)]


class DebugCallback(Opaque):
    """An effect: calls Python with values, and has no results."""

    name = "debug_callback"
    multiple_results = True
    pure = False
    holds_programs = True

    def shape_rule(self, *avals: ShapedArray, callback: FlatCallback) -> Avals:
        return ()

    def reference(self, *values: Any, callback: FlatCallback) -> Any:
        callback(*map(np.asarray, values))
        return []

    def effects(self, params: dict[str, Any]) -> frozenset[Hashable]:
        return frozenset({"debug"})

    def jvp(self, primals: Ops, tangents: Tangents, *, callback: FlatCallback) -> tuple[Any, Any]:
        self.bind(*primals, callback=callback)
        return [], []

    def transpose(self, cts: Any, *operands: Any, **params: Any) -> list[Value | None]:
        return [None] * len(operands)

    def batch(
        self, size: int, args: Ops, batched: Sequence[bool], *, callback: FlatCallback
    ) -> tuple[Any, Any]:
        inner = _Sequential(callback, tuple(batched), size, 0)
        return self.bind(*args, callback=inner), []


pure_callback_p, io_callback_p, debug_callback_p = PureCallback(), IoCallback(), DebugCallback()


class _TreeCallback:
    """A user's callback of pytrees as a function of flat arrays; other leaves are kept aside."""

    def __init__(
        self, callback: Callable[..., Any], tree: PyTreeDef, leaves: Sequence[Any]
    ) -> None:
        self.callback = callback
        self.tree = tree
        self.fixed = [None if is_valid_argument(x) else (x,) for x in leaves]
        self.__name__ = name_of(callback)

    def __call__(self, *arrays: Any) -> list[Any]:
        given = map(from_numpy, arrays)
        leaves = [next(given) if f is None else f[0] for f in self.fixed]
        args, kwargs = tree_unflatten(self.tree, leaves)
        return tree_flatten(self.callback(*args, **kwargs))[0]


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Call a Python function of arrays that have values when the program runs.

    Args:
      callback: pure; it may be called any number of times, or not at all.
      result_shape_dtypes: the types of its results, a pytree of ``ShapeDtypeStruct``.
      args: pytrees of arrays.
      sharding: where the callback is to run: a sharding, or None; there is one place.
      vmap_method: what ``vmap`` does: ``"sequential"`` calls once for each element,
        ``"expand_dims"`` calls once with a leading axis (of size 1 on arguments that are not
        mapped), ``"broadcast_all"`` once with all arguments repeated, ``"legacy_vectorized"``
        once, with arguments that are not mapped as they are; None refuses.
      kwargs: pytrees of arrays by name.

    Returns:
      A pytree of arrays of those types.

    Raises:
      DifferentiationError: under differentiation.
      ShardingError: if ``sharding`` is none of the device.

    >>> import functrax, numpy as np
    >>> shape = functrax.ShapeDtypeStruct((), "float32")
    >>> functrax.jit(lambda x: functrax.pure_callback(np.sin, shape, x))(0.0)
    Array(0., dtype=float32)
    """
    check_callable("pure_callback", callback)
    _check_sharding("pure_callback", sharding)
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ArgumentError(
            "pure_callback: unknown vmap_method",
            got=repr(vmap_method),
            fix=f"one of {', '.join(VMAP_METHODS)}",
        )
    return _array_callback(
        pure_callback_p, callback, result_shape_dtypes, (args, kwargs), vmap_method
    )


def _check_sharding(name: str, sharding: Any) -> None:
    if sharding is None:
        return
    from functrax.backends.sharding.shardings import Sharding

    if not isinstance(sharding, Sharding) or sharding.num_devices != 1:
        raise ShardingError(
            f"{name}: not a sharding of the one device there is",
            got=f"{sharding!r} of type {type(sharding).__name__}",
            fix="sharding=None",
        )


def _array_callback(
    primitive: ArrayCallback,
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    arguments: Any,
    vmap_method: str | None,
) -> Any:
    leaves, tree = tree_flatten(arguments)
    types, out_tree = tree_flatten(result_shape_dtypes)
    avals = tuple([_declared(primitive.name, t) for t in types])
    arrays = [as_value(x, f"an argument of {primitive.name}") for x in leaves]
    flat = _TreeCallback(callback, tree, leaves)
    outs = primitive.bind(*arrays, callback=flat, out_avals=avals, vmap_method=vmap_method)
    return tree_unflatten(out_tree, map(concrete, outs))


def _declared(name: str, declared: Any) -> ShapedArray:
    """A declared type, refused where results could not have it."""
    aval = type_of(declared, "a type in result_shape_dtypes")
    dtype = getattr(declared, "dtype", aval.dtype)
    if isinstance(dtype, np.dtype) and dtypes.canonicalize_dtype(dtype) != dtype:
        raise ArgumentError(
            f"{name}: result_shape_dtypes cannot specify 64-bit types when jax_enable_x64 is off",
            got=f"{dtype.name}{list(aval.shape)}",
            fix=f"{dtypes.canonicalize_dtype(dtype).name}, or functrax.enable_x64",
        )
    return aval


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function that acts on the world, or looks at it, when the program runs.

    It is called once each time, even if nothing depends on its results; ``vmap`` calls it once for
    each element, in turn.

    Args:
      callback: gets arrays that have values.
      result_shape_dtypes: the types of its results, a pytree of ``ShapeDtypeStruct``s; None if
        there are none.
      args: pytrees of arrays.
      sharding: where the callback is to run: a sharding, or None; there is one place.
      ordered: accepted for compatibility; callbacks run in program order.
      kwargs: pytrees of arrays by name.

    Raises:
      DifferentiationError: under differentiation.
      ShardingError: if ``sharding`` is none of the device.

    >>> import functrax, numpy as np
    >>> from functrax.experimental import io_callback
    >>> rng = np.random.default_rng(0)
    >>> shape = functrax.ShapeDtypeStruct((2,), "float32")
    >>> draw = functrax.jit(lambda: io_callback(lambda: rng.random(2, "float32"), shape))
    >>> bool((draw() == draw()).all())
    False
    """
    check_callable("io_callback", callback)
    _check_sharding("io_callback", sharding)
    return _array_callback(
        io_callback_p, callback, result_shape_dtypes, (args, kwargs), "sequential"
    )


def debug_callback(
    callback: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any
) -> None:
    """Call a Python function for its side effect when the program runs.

    Args:
      callback: gets arrays that have values; its result is ignored.
      args: pytrees of arrays; other leaves are passed on as they are.
      ordered: accepted for compatibility; callbacks run in program order.
      kwargs: the same by name.
    """
    check_callable("debug.callback", callback)
    leaves, tree = tree_flatten((args, kwargs))
    flat = _TreeCallback(callback, tree, leaves)
    debug_callback_p.bind(*(as_value(x) for x in leaves if is_valid_argument(x)), callback=flat)
