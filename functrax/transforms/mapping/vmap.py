"""The user's ``vmap``: pytrees of axes in, :func:`batch_flat` in the middle, axes out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrax.core.boundaries.tracebacks import boundary
from functrax.core.errors.typed import ArgumentError, AxisError, DTypeError, PyTreeError
from functrax.core.prims.reindex import transpose_
from functrax.core.pytree.operations import (
    broadcast_prefix,
    filled,
    in_handles,
    tree_flatten,
    tree_unflatten,
)
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Value
from functrax.transforms.arguments.flat import FlatFunction, check_callable, flatten_args, name_of
from functrax.transforms.arguments.leaf_types import axes_of_words, leaf_types
from functrax.transforms.interpreters.batching import add_batch_axis, batch_flat

if TYPE_CHECKING:
    from functrax.transforms.arguments.function_types import P, R


def vmap(
    fun: Callable[P, R],
    in_axes: int | Sequence[Any] | None = 0,
    out_axes: Any = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
    spmd_axis_name: Hashable = None,
) -> Callable[P, R]:
    """Turn a function of single elements into a function of arrays of them.

    Args:
      fun: the function to apply to every element.
      in_axes: for each positional argument the axis that counts elements, or None to give every
        element the same argument: an int, or a tuple with a pytree prefix for each argument.
        Keyword arguments are mapped along axis 0.
      out_axes: where the axis goes in the results; None needs a result that is the same for all.
      axis_name: a name for the axis, for collectives such as ``functrax.lax.psum``.
      axis_size: the number of elements, if no argument says it.
      spmd_axis_name: accepted for compatibility; there is one device, so it changes nothing.

    Returns:
      A function of the same arguments, which have the axis more; so have its results.

    Raises:
      ShapeError: if the arguments disagree about the number of elements.
      AxisError: if an axis is out of range.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.vmap(jnp.dot)(jnp.ones((3, 2)), jnp.ones((3, 2)))
    Array([2., 2., 2.], dtype=float32)
    """
    check_callable("vmap", fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or isinstance(in_axes, (int, tuple))):
        raise ArgumentError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
            f"positional arguments passed to the function, but got {in_axes!r}.",
            got=f"{in_axes!r} of type {type(in_axes).__name__}",
            fix="in_axes=0, or in_axes=(0, None) with an entry for each argument",
        )
    for what, given in (("in_axes", in_axes), ("out_axes", out_axes)):
        if type(given) is not int:
            _check_leaves(what, tree_flatten(given)[0])

    @functools.wraps(fun)
    @boundary
    def batched_function(*args: Any, **kwargs: Any) -> Any:
        if type(in_axes) is not int:
            axes = _flat_in_axes(fun, in_axes, args, kwargs)
            if _gives_numbers_as_they_are(axes, args, kwargs):
                of_mapped, mapped_axes, mapped = _without_fixed(fun, axes, args, kwargs)
                return vmap(of_mapped, mapped_axes, out_axes, axis_name, axis_size)(*mapped)
        try:
            flat, in_tree = flatten_args(fun, args, kwargs)
        except DTypeError:
            axes = _flat_in_axes(fun, in_axes, args, kwargs)
            from functrax.transforms.arguments.discharge import references_in, vmap_over_references

            over = functools.partial(vmap, axis_name=axis_name, axis_size=axis_size)
            if references_in(fun, (args, kwargs)):
                return vmap_over_references(over, fun, axes, out_axes, args, kwargs)
            if None not in axes:
                raise
            of_mapped, mapped_axes, mapped = _without_fixed(fun, axes, args, kwargs)
            return vmap(of_mapped, mapped_axes, out_axes, axis_name, axis_size)(*mapped)
        given_axes = _flat_in_axes(fun, in_axes, args, kwargs)
        axes = axes_of_words(in_tree, [x.aval for x in flat], given_axes)
        size = _batch_size(flat, axes, axis_size)
        if size is None:
            from functrax.transforms.mapping.vmap_errors import size_error

            types = leaf_types(in_tree, [x.aval for x in flat])
            raise size_error(fun, types, given_axes, (args, kwargs), axis_size)
        moved = [x if a is None else _to_front(x, a) for x, a in zip(flat, axes, strict=True)]
        flat_fun = _FunctionWithFixedResults(fun, in_tree)
        outs, flags = batch_flat(flat_fun, size, moved, [a is not None for a in axes], axis_name)
        wanted = _flat_out_axes(fun, out_axes, flat_fun)
        hidden = in_handles(flat_fun.out_tree) if any(wanted) else [False] * len(wanted)
        arrays = iter(zip(outs, flags, strict=True))
        results = [
            flat_fun.fixed_result(i, axis)
            if i in flat_fun.fixed
            else concrete(_from_front(fun, axis_name, *next(arrays), axis, size, words))
            for i, (axis, words) in enumerate(zip(wanted, hidden, strict=True))
        ]
        return tree_unflatten(flat_fun.out_tree, results)

    return batched_function


class _FunctionWithFixedResults(FlatFunction):
    """As its base, but results may be no arrays; those are not among what a call returns.

    After a call, ``fixed`` has them, by their places, with the errors that they would be.
    """

    def __call__(self, *leaves: Value) -> list[Value]:
        args, kwargs = tree_unflatten(self.in_tree, leaves)
        found, self.out_tree = tree_flatten(self.function(*args, **kwargs))
        self.fixed: dict[int, tuple[Any, DTypeError]] = {}
        values = []
        for i, x in enumerate(found):
            try:
                values.append(as_value(x, f"a result of {self.__name__}"))
            except DTypeError as error:
                self.fixed[i] = (x, error)
        return values

    def fixed_result(self, i: int, axis: int | None) -> Any:
        """The result at a place, which has no axis."""
        x, error = self.fixed[i]
        if axis is not None:
            raise error
        return x


def _gives_numbers_as_they_are(axes: Sequence[int | None], args: Any, kwargs: Any) -> bool:
    """Whether numbers of Python or arrays of NumPy are among what is not mapped.

    The function gets these as they are: it may be a jitted one, with static arguments.
    """
    mapped = len(axes) - axes.count(None)
    if not 0 < mapped < len(axes):
        return False
    leaves = tree_flatten((args, kwargs))[0]
    return any(
        axis is None and isinstance(x, (int, float, complex, np.ndarray, np.generic))
        for x, axis in zip(leaves, axes, strict=True)
    )


def _without_fixed(
    fun: Callable[..., Any], axes: Sequence[int | None], args: Any, kwargs: Any
) -> tuple[Callable[..., Any], tuple[int | None, ...], list[Any]]:
    """A function of the leaves that are mapped alone, their axes, and they; others may be anything.

    Args:
      fun: a function of ``args`` and ``kwargs``.
      axes: the axis of each of their leaves, or None.
      args, kwargs: the arguments.
    """
    leaves, tree = tree_flatten((args, kwargs))
    places = [i for i, axis in enumerate(axes) if axis is not None]

    def of_mapped(*values: Any) -> Any:
        given = list(leaves)
        for i, x in zip(places, values, strict=True):
            given[i] = x
        positional, named = tree_unflatten(tree, given)
        return fun(*positional, **named)

    functools.update_wrapper(of_mapped, fun)
    return of_mapped, tuple(axes[i] for i in places), [leaves[i] for i in places]


def _is_none(x: Any) -> bool:
    return x is None


def _flat_in_axes(fun: Any, in_axes: Any, args: Any, kwargs: Any) -> list[int | None]:
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise ArgumentError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the "
            "positional arguments passed to the function, but got "
            f"len(in_axes)={len(in_axes)}, len(args)={len(args)}",
            got=f"in_axes={in_axes!r} for {len(args)} positional arguments of {name_of(fun)}",
            fix="as many entries as arguments; None for those that are not mapped",
        )
    try:
        axes = broadcast_prefix((in_axes, 0), (args, kwargs), is_leaf=_is_none)
    except PyTreeError as error:
        raise PyTreeError(
            "vmap in_axes specification must be a tree prefix of the corresponding value; "
            f"it does not fit the arguments of {name_of(fun)}",
            got=f"in_axes={in_axes!r}. Mismatch details: {error.what}\n{error.got}",
            fix="in_axes must be a prefix of the structure of the arguments",
        ) from None
    return axes


def _check_leaves(what: str, axes: Sequence[Any]) -> None:
    for axis in axes:
        if not isinstance(axis, int) or isinstance(axis, bool):
            raise ArgumentError(
                f"vmap {what} must be an int, None, or a pytree of them",
                got=f"{axis!r} of type {type(axis).__name__}",
                fix=f"{what}=0, or a pytree of ints and None",
            )


def _batch_size(
    flat: Sequence[Value], axes: Sequence[int | None], axis_size: int | None
) -> int | None:
    """The number of elements, or None if it is not one number that fits all arguments."""
    sizes = set() if axis_size is None else {axis_size}
    for x, axis in zip(flat, axes, strict=True):
        if axis is None:
            continue
        if not -x.aval.ndim <= axis < x.aval.ndim:
            return None
        sizes.add(x.aval.shape[axis])
    return sizes.pop() if len(sizes) == 1 else None


def _to_front(x: Value, axis: int) -> Value:
    axis %= x.aval.ndim
    return transpose_(x, (axis, *(i for i in range(x.aval.ndim) if i != axis)))


def _flat_out_axes(fun: Any, out_axes: Any, flat_fun: FlatFunction) -> list[int | None]:
    dummy, _ = filled(flat_fun.out_tree)
    try:
        axes = broadcast_prefix(out_axes, dummy, is_leaf=_is_none)
    except PyTreeError as error:
        raise PyTreeError(
            "vmap out_axes specification must be a tree prefix of the corresponding value; "
            f"it does not fit the result of {name_of(fun)}",
            got=f"out_axes={out_axes!r}. Mismatch details: {error.what}\n{error.got}",
            fix="out_axes must be a prefix of the structure of the result",
        ) from None
    return axes


def _from_front(
    fun: Any,
    axis_name: Hashable,
    x: Value,
    batched: bool,
    axis: int | None,
    size: int,
    words: bool,
) -> Value:
    """A result with the mapped axis where the user wants it; words have one more at their end."""
    if axis is None:
        if batched:
            raise ArgumentError(
                f"vmap has mapped output (axis_name={axis_name}) but out_axes is None: at vmap "
                f"out_axes, a result of {name_of(fun)} differs by element",
                got=f"{x.aval.str_short()} with the mapped axis in front",
                fix="out_axes=0, or a reduction over the named axis, such as functrax.lax.psum",
            )
        return x
    if not batched:
        x = add_batch_axis(x, size)
    ndim = x.aval.ndim - words
    if not -ndim <= axis < ndim:
        raise AxisError(
            f"vmap: axis {axis} is out of bounds: it is the out_axes of a result of {name_of(fun)}",
            got=f"a result of rank {ndim - 1}",
            fix=f"an axis from {-ndim} to {ndim - 1}",
        )
    order = list(range(1, x.aval.ndim))
    order.insert(axis % ndim, 0)
    return transpose_(x, tuple(order))
