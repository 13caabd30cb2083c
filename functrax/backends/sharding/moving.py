"""``device_put`` where a place is named, ``reshard`` and ``with_sharding_constraint``."""

from __future__ import annotations

from typing import Any, TypeVar

from functrax.backends.device import Device, another_copy, made_on_default
from functrax.backends.sharding.layouts import Format, Layout, check_row_major
from functrax.backends.sharding.placed import (
    as_sharding,
    check_fits,
    check_held,
    put,
)
from functrax.backends.sharding.prefixes import prefix_leaves
from functrax.backends.sharding.shardings import NamedSharding, Sharding
from functrax.core.arrays.array import ConcreteArray
from functrax.core.errors.typed import ArgumentError, ShardingError
from functrax.core.pytree.operations import tree_flatten, tree_unflatten
from functrax.core.tracing.inputs import as_value

T = TypeVar("T")


def moved(x: Any, device: Any, src: Any, donate: Any, may_alias: Any) -> Any:
    """What ``functrax.device_put`` does where an argument is not its default."""
    leaves, tree = tree_flatten(x)
    places = prefix_leaves(device, x, "device_put: device")
    for where in prefix_leaves(src, x, "device_put: src"):
        as_sharding(where, "device_put: src")
    given = _flags(donate, x, "donate", (bool,))
    aliases = _flags(may_alias, x, "may_alias", (bool, type(None)))
    made = []
    for leaf, where, donated, alias in zip(leaves, places, given, aliases, strict=True):
        if donated and alias:
            raise ArgumentError(
                "device_put: may_alias and donate cannot be True at the same time.",
                got=f"donate={donate!r}, may_alias={may_alias!r}",
                fix="one of them",
            )
        made.append(moved_leaf(leaf, where, "device_put", alias))
    return tree_unflatten(tree, made)


def moved_leaf(leaf: Any, where: Any, name: str, alias: bool | None = None) -> Any:
    """An array on a device, a sharding or what stands for one; None leaves it where it is.

    Args:
      leaf: the array, or a number.
      where: the device, or so.
      name: the function that was called, for errors.
      alias: False for memory of its own.

    Raises:
      ShardingError: if it does not fit, or is none of these.
    """
    value: Any = as_value(leaf, f"a leaf given to {name}")
    if isinstance(where, Format):
        if where.layout is Layout.AUTO:
            raise ShardingError(
                f"{name}: a layout that the compiler chooses is for jit",
                got=repr(where),
                fix="Format(None, sharding)",
            )
        check_row_major(where.layout, value.aval.shape, name)
    sharding = as_sharding(where, name)
    if sharding is None and value is not leaf:
        value = made_on_default(value)
    if alias is False and value is leaf and type(value) is ConcreteArray:
        value = another_copy(value)
    return _placed(value, sharding, check_held, name, value is not leaf)


def _flags(prefix: Any, x: Any, what: str, kinds: tuple[type, ...]) -> list[Any]:
    flags = prefix_leaves(prefix, x, f"device_put: {what}")
    for flag in flags:
        if not isinstance(flag, kinds):
            raise ArgumentError(
                f"device_put: {what} is neither True nor False",
                got=f"{flag!r} of type {type(flag).__name__}",
                fix=f"{what}=False",
            )
    return flags


def reshard(xs: Any, out_shardings: Any) -> Any:
    """The arrays of a pytree on other shardings; under transformations it is the identity.

    Args:
      xs: a pytree of arrays.
      out_shardings: a ``functrax.NamedSharding``, a ``functrax.P`` for the mesh that is set, or a
        pytree prefix of ``xs`` that ends in them.

    Returns:
      A pytree of equal values.

    Raises:
      ShardingError: if a sharding does not fit an array or the devices, or there is no mesh.

    >>> import functrax, functrax.numpy as jnp
    >>> with functrax.set_mesh(functrax.make_mesh((1,), ("x",))):
    ...     reshard(jnp.arange(3), functrax.P("x")).sharding.spec
    P('x',)
    """
    return _on_shardings(xs, out_shardings, "reshard", "out_shardings")


def with_sharding_constraint(x: T, shardings: Any) -> T:
    """The arrays of a pytree on the shardings that a program asks for.

    Under ``jit`` and other transformations it is the identity, for there is one device; the
    shardings are checked there too.

    Args:
      x: a pytree of arrays.
      shardings: a sharding, a ``functrax.P`` for the mesh that is set, None for any, or a pytree
        prefix of ``x`` that ends in them.  Specs may name axes of type Auto only.

    Returns:
      A pytree of equal values.

    Raises:
      ShardingError: if a sharding does not fit an array or the devices, or there is no mesh.

    >>> import functrax, functrax.numpy as jnp
    >>> mesh = functrax.make_mesh((1,), ("x",), (functrax.sharding.AxisType.Auto,))
    >>> sharding = functrax.NamedSharding(mesh, functrax.P("x"))
    >>> functrax.jit(lambda x: with_sharding_constraint(x * 2, sharding))(jnp.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    return _on_shardings(x, shardings, "with_sharding_constraint", "shardings")  # type: ignore[no-any-return]


def on_sharding(x: Any, out_sharding: Any, name: str) -> Any:
    """The result of a function that was asked for it on a sharding.

    Args:
      x: an array.
      out_sharding: a sharding, or a ``functrax.P`` for the mesh that is set.  That of a type, on a
        mesh without axes, asks for nothing.
      name: of the function.

    Raises:
      ShardingError: if the sharding does not fit the array or the devices, or there is no mesh.
    """
    if isinstance(out_sharding, NamedSharding) and out_sharding.mesh.empty:
        return x
    return _on_shardings(x, out_sharding, name, "out_sharding")


def _on_shardings(x: Any, shardings: Any, name: str, argument: str) -> Any:
    leaves, tree = tree_flatten(x)
    made = []
    for leaf, where in zip(leaves, prefix_leaves(shardings, x, f"{name}: {argument}")):
        if isinstance(where, Device):
            raise ShardingError(
                f"{name}: a device is no sharding",
                got=repr(where),
                fix="functrax.sharding.SingleDeviceSharding(device)",
            )
        if name == "with_sharding_constraint" and isinstance(where, NamedSharding):
            _check_auto(where, name)
        value: Any = as_value(leaf, f"a leaf given to {name}")
        check = check_held if type(value) is ConcreteArray else check_fits
        made.append(_placed(value, as_sharding(where, name), check, name, value is not leaf))
    return tree_unflatten(tree, made)


def _placed(value: Any, sharding: Sharding | None, check: Any, name: str, fresh: bool) -> Any:
    if sharding is None:
        return value
    check(sharding, value.aval.shape, name)
    return put(value, sharding, fresh=fresh)


def _check_auto(sharding: NamedSharding, name: str) -> None:
    """Refuse a sharding whose spec names an axis that is not of type Auto."""
    auto = sharding.mesh.auto_axes
    others = [axis for axis in sharding.spec.names() if axis not in auto]
    if others:
        raise ShardingError(
            f"{name}: the spec names an axis that is not of type Auto",
            got=f"{others[0]!r} in {sharding!r}",
            fix="functrax.reshard, or axis_types=(AxisType.Auto,) for the mesh",
        )
