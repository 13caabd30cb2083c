"""``pmap``: a function mapped over the devices, of which there is one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from functrax.backends.device import Device
from functrax.backends.sharding.placement import devices as devices_of
from functrax.core.errors.typed import ArgumentError, ShapeError, ShardingError, StaticArgumentError
from functrax.core.pytree.operations import (
    broadcast_prefix,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_unflatten,
)
from functrax.transforms.arguments.flat import argnums_tuple, check_callable, name_of
from functrax.transforms.arguments.static_args import positions
from functrax.transforms.mapping.vmap import vmap
from functrax.transforms.staging.jit import jit


def pmap(
    fun: Callable[..., Any],
    axis_name: Hashable = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Iterable[int] = (),
    devices: Sequence[Device] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Iterable[int] = (),
) -> Any:
    """Map a function over devices: ``jit`` of ``vmap`` over an axis of size 1.

    There is one device, so mapped axes have size 1.

    Args:
      fun: the function of the parts.
      axis_name: a name for the axis, for collectives such as ``functrax.lax.psum``.
      in_axes: for each positional argument the mapped axis, or None; as ``functrax.vmap``.
      out_axes: where the axis goes in the results; None for what the first device has.
      static_broadcasted_argnums: positions of arguments that are part of the signature.
      devices: the devices to run on: a list of the one, or None.
      backend: its platform, ``"cpu"``, or None.
      axis_size: must be 1 or None.
      donate_argnums: positions of arguments whose buffers a call may use up.

    Returns:
      A jitted function of arrays with one more axis.

    Raises:
      ShardingError: if a mapped axis has another size than 1, nothing is mapped, or ``devices`` is
        not a list of the device.
      UnavailableError: for a backend that there is not.

    >>> import functrax.numpy as jnp
    >>> pmap(lambda x: x + 1)(jnp.arange(3)[None])
    Array([[1, 2, 3]], dtype=int32)
    """
    check_callable("pmap", fun)
    _check_place(devices, backend, axis_size)
    axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    _check_axes(axes)
    static = argnums_tuple(static_broadcasted_argnums)  # type: ignore[arg-type]
    name = name_of(fun)

    @functools.wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        fixed = positions(static, len(args))
        missing = [i for i in static if i >= len(args)]
        if missing:
            raise StaticArgumentError(
                f"pmap: pmapped function has static_broadcasted_argnums={static} but was called "
                f"with only {len(args)} positional argument{'s' * (len(args) != 1)}. All static "
                "broadcasted arguments must be passed positionally.",
                got=f"static arguments {missing} by name, or not at all",
                fix="give them by position",
            )
        places = [i for i in range(len(args)) if i not in fixed]

        def part(*dynamic: Any, **named: Any) -> Any:
            full = list(args)
            for i, x in zip(places, dynamic, strict=True):
                full[i] = x
            return fun(*full, **named)

        part.__name__ = name
        chosen = axes
        if isinstance(axes, tuple) and len(axes) == len(args):
            chosen = tuple([axes[i] for i in places])
        kept = tree_map(lambda axis: 0 if axis is None else axis, out_axes, is_leaf=_is_none)
        run = vmap(part, chosen, kept, axis_name, axis_size=1)
        try:
            return _without_axis(run(*[args[i] for i in places], **kwargs), out_axes)
        except ShapeError as error:
            if "inconsistent sizes" not in error.what:
                raise
            raise ShardingError(
                f"pmap: a mapped axis of an argument of {name} has not the size 1, and there is "
                "one device",
                got=error.got,
                fix="functrax.vmap, or arrays of size 1 along the mapped axes",
            ) from None

    return jit(mapped, static_argnums=static, donate_argnums=argnums_tuple(donate_argnums))  # type: ignore[arg-type]


def _is_none(x: Any) -> bool:
    return x is None


def _without_axis(result: Any, out_axes: Any) -> Any:
    """The result of the first device where its axis is None, else of all devices."""
    if not any(axis is None for axis in tree_leaves(out_axes, is_leaf=_is_none)):
        return result
    leaves, tree = tree_flatten(result)
    axes = broadcast_prefix(out_axes, result, is_leaf=_is_none)
    return tree_unflatten(
        tree, [x[0] if axis is None else x for x, axis in zip(leaves, axes, strict=True)]
    )


def _check_place(devices: Any, backend: str | None, axis_size: int | None) -> None:
    there = devices_of(backend)
    if devices is not None and list(devices) != there:
        raise ShardingError(
            "pmap: devices is not a list of the one device there is",
            got=repr(devices),
            fix="devices=None",
        )
    if axis_size not in (None, 1):
        raise ShardingError(
            "pmap: there is one device", got=f"axis_size={axis_size!r}", fix="axis_size=None"
        )


def _check_axes(in_axes: Any) -> None:
    for axis in tree_leaves(in_axes):
        if isinstance(axis, bool) or not isinstance(axis, int):
            raise ArgumentError(
                "pmap in_axes must be an int, None, or a pytree of them",
                got=f"{axis!r} of type {type(axis).__name__}",
                fix="in_axes=0",
            )
    if not tree_leaves(in_axes):
        raise ShardingError(
            "pmap requires at least one argument with a mapped axis.",
            got=f"in_axes={in_axes!r}",
            fix="in_axes=0",
        )
