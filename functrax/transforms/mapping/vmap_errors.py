"""Why the arguments of a ``vmap`` do not say how many elements there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from functrax.core.errors.typed import ArgumentError, AxisError, FunctraxError, ShapeError
from functrax.core.pytree.operations import KeyPath, SequenceKey, keystr, tree_flatten_with_path
from functrax.transforms.arguments.flat import given_names, name_of
from functrax.transforms.arguments.leaf_types import LeafType


def size_error(
    fun: Any,
    types: Sequence[LeafType],
    axes: Sequence[int | None],
    given: tuple[tuple[Any, ...], dict[str, Any]],
    axis_size: int | None,
) -> FunctraxError:
    """The error for arguments whose mapped axes have not one size.

    Args:
      fun: the function that was to be mapped.
      types: those of the leaves of its arguments, as users know them.
      axes: the axis of each of them, or None.
      given: the arguments.
      axis_size: what the caller said of the size.
    """
    args, kwargs = given
    names = given_names(fun, len(args))
    paths = [path for path, _ in tree_flatten_with_path(given)[0]]
    found: list[tuple[int, str]] = []
    for x, axis, path in zip(types, axes, paths, strict=True):
        if axis is None:
            continue
        ndim, shape = x.ndim, x.shape
        if not -ndim <= axis < ndim:
            needed = axis + 1 if axis >= 0 else -axis
            return AxisError(
                f"vmap was requested to map its argument along axis {axis}, which implies that its "
                f"rank should be at least {needed}, but is only {ndim} (its shape is {shape})",
                got=f"{_name(path, names)} of {name_of(fun)} is {x.str_short()}",
                fix="in_axes=None for what is not mapped" if not ndim else "another axis",
            )
        kind = x.str_long()
        found.append((shape[axis], f"axis {axis} of {_name(path, names)} of type {kind}"))
    if found:
        return _inconsistent(fun, found, axis_size)
    if not types:
        return ArgumentError(
            "vmap wrapped function must be passed at least one argument containing an array or "
            f"axis_size must be specified, got empty *args={args} and **kwargs={kwargs}",
            got=f"no arrays for {name_of(fun)}",
            fix="axis_size=n",
        )
    return ArgumentError(
        "vmap must have at least one non-None value in in_axes or axis_size must be specified",
        got=f"in_axes is None for every argument of {name_of(fun)}",
        fix="axis_size=n, or an axis in in_axes",
    )


def _name(path: KeyPath, names: Sequence[str]) -> str:
    which = path[1]
    if isinstance(which, SequenceKey):
        name = names[which.idx]
        name = f"args[{name}]" if name.isdigit() else f"argument {name}"
        return f"{name}{keystr(path[2:])}"
    return f"kwargs{keystr(path[1:])}"


def _inconsistent(fun: Any, found: list[tuple[int, str]], axis_size: int | None) -> ShapeError:
    examples = dict(reversed(found))
    lines = [] if axis_size is None else [f"the `axis_size` argument was {axis_size}"]
    for i, (size, count) in enumerate(Counter(size for size, _ in found).most_common()):
        if count == 1:
            lines.append(f"one axis had size {size}: {examples[size]}")
        else:
            which = "most" if i == 0 else "some"
            lines.append(f"{which} axes ({count} of them) had size {size}, e.g. {examples[size]}")
    return ShapeError(
        "vmap got inconsistent sizes for array axes to be mapped:\n  * " + ";\n  * ".join(lines),
        got=f"arguments of {name_of(fun)}",
        fix="arrays of one size along their mapped axes; in_axes=None for what is not mapped",
    )
