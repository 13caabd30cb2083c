"""Whole derivative matrices: ``jacfwd``, ``jacrev``, ``hessian``.

A Jacobian is the derivative (or its transpose) applied to every basis vector at once, by ``vmap``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from functrax.core.boundaries.tracebacks import boundary
from functrax.core.errors.typed import DifferentiationError
from functrax.core.prims.arithmetic import add, select_n
from functrax.core.prims.comparisons import eq
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import iota, reshape
from functrax.core.prims.slicing import slice_
from functrax.core.pytree.operations import PyTreeDef, tree_flatten, tree_map, tree_unflatten
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Value, literal
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import check_callable, name_of, restricted_to
from functrax.transforms.differentiation.derivatives import jvp, vjp
from functrax.transforms.mapping.vmap import vmap

if TYPE_CHECKING:
    from functrax.transforms.arguments.function_types import P


def _basis(avals: Sequence[ShapedArray]) -> list[Value]:
    """For each value, an array of all basis vectors: one row for each element of all values."""
    total = sum(a.size for a in avals)
    arrays, offset = [], 0
    for aval in avals:
        rows = iota.bind(shape=(total, aval.size), dtype=dtypes.int32, axis=0)
        columns = iota.bind(shape=(total, aval.size), dtype=dtypes.int32, axis=1)
        here = eq.bind(rows, add.bind(columns, literal(offset, dtypes.int32)))
        one, zero = literal(1, aval.dtype), literal(0, aval.dtype)
        rows = reshape.bind(select_n.bind(here, zero, one), shape=(total, *aval.shape))
        if aval.weak_type:
            rows = convert_element_type.bind(rows, dtype=aval.dtype, weak_type=True)
        arrays.append(rows)
        offset += aval.size
    return arrays


def _rows(x: Value, avals: Sequence[ShapedArray]) -> list[Value]:
    """Split axis 0, which counts the elements of all values, into the values' own axes."""
    parts, offset = [], 0
    rest = x.aval.shape[1:]
    for aval in avals:
        start = (offset, *(0 for _ in rest))
        limit = (offset + aval.size, *rest)
        part = slice_.bind(x, start=start, limit=limit, strides=(1,) * x.aval.ndim)
        parts.append(reshape.bind(part, shape=(*aval.shape, *rest)))
        offset += aval.size
    return parts


def _checked(
    transform: str,
    what: str,
    function: Any,
    tree: Any,
    holomorphic: bool,
    *,
    allow_int: bool = False,
    allow_complex: bool = False,
) -> list[ShapedArray]:
    avals: list[ShapedArray] = [as_value(x).aval for x in tree_flatten(tree)[0]]
    for aval in avals:
        fine = dtypes.is_complex(aval.dtype) if holomorphic else dtypes.is_float(aval.dtype)
        fine = fine or (allow_complex and not holomorphic and dtypes.is_complex(aval.dtype))
        if not fine and not allow_int:
            raise DifferentiationError(
                _refusal(transform, what, aval, holomorphic, allow_complex)
                + f": {name_of(function)} is differentiated by or returns a value that "
                + ("is not complex" if holomorphic else "is not a real floating point number"),
                got=aval.str_short(),
                fix="convert it with .astype('float32'); holomorphic=True for complex functions",
            )
    return avals


def _refusal(
    transform: str, what: str, aval: ShapedArray, holomorphic: bool, allow_complex: bool
) -> str:
    given = f"but got {aval.dtype.name}"
    if holomorphic:
        return f"{transform} with holomorphic=True requires {what}s with complex dtype, {given}"
    kinds, root = ("real- or complex", "inexact") if allow_complex else ("real", "floating")
    return (
        f"{transform} requires {kinds}-valued {what}s ({what} dtype that is a sub-dtype of "
        f"np.{root}), {given}"
    )


def jacfwd(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]:
    """A function that returns the Jacobian of ``fun``, column by column (forward mode).

    Args:
      fun: a function of pytrees of arrays.
      argnums: which positional arguments to differentiate by.
      has_aux: whether ``fun`` returns ``(value, aux)``; the result is then ``(jacobian, aux)``.
      holomorphic: whether ``fun`` is complex-differentiable.

    Returns:
      For a result of shape R and an argument of shape A, an array of shape R + A; pytrees of
      results hold pytrees of arguments.

    Raises:
      ArgumentError: if ``fun`` is not a function, or has no argument ``argnums``.
      DifferentiationError: if arguments or results are of a dtype without derivatives, such as
        integers.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.jacfwd(jnp.square)(jnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    check_callable("jacfwd", fun)

    @functools.wraps(fun)
    @boundary
    def jacobian_function(*args: Any, **kwargs: Any) -> Any:
        restricted, chosen = restricted_to("jacfwd", fun, argnums, args, kwargs)
        primals = tuple(args[i] for i in chosen)
        avals = _checked("jacfwd", "input", fun, primals, holomorphic)
        tree = tree_flatten(primals)[1]

        def push(*tangents: Any) -> Any:
            out = jvp(restricted, primals, tree_unflatten(tree, tangents), has_aux=has_aux)
            return (out[1], out[2]) if has_aux else (out[1], None)

        columns, aux = vmap(push, out_axes=(-1, None))(*map(concrete, _basis(avals)))
        jacobian = tree_map(lambda x: _split_columns(x, avals, tree, argnums), columns)
        return (jacobian, aux) if has_aux else jacobian

    return jacobian_function


def _split_columns(
    x: Value, avals: Sequence[ShapedArray], tree: PyTreeDef, argnums: int | Sequence[int]
) -> Any:
    parts, offset = [], 0
    front = x.aval.shape[:-1]
    for aval in avals:
        start = (*(0 for _ in front), offset)
        limit = (*front, offset + aval.size)
        part = slice_.bind(x, start=start, limit=limit, strides=(1,) * x.aval.ndim)
        parts.append(reshape.bind(part, shape=(*front, *aval.shape)))
        offset += aval.size
    columns = tree_unflatten(tree, parts)
    return columns[0] if isinstance(argnums, int) else columns


def jacrev(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, Any]:
    """A function that returns the Jacobian of ``fun``, row by row (reverse mode).

    Args:
      fun: a function of pytrees of arrays.
      argnums: which positional arguments to differentiate by.
      has_aux: whether ``fun`` returns ``(value, aux)``; the result is then ``(jacobian, aux)``.
      holomorphic: whether ``fun`` is complex-differentiable.
      allow_int: whether integer arguments are allowed.

    Returns:
      As :func:`jacfwd`.

    Raises:
      ArgumentError, DifferentiationError: as :func:`jacfwd`.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.jacrev(lambda x: jnp.stack([x[0] * x[1], x[0]]))(jnp.array([2.0, 3.0]))
    Array([[3., 2.],
           [1., 0.]], dtype=float32)
    """
    check_callable("jacrev", fun)

    @functools.wraps(fun)
    @boundary
    def jacobian_function(*args: Any, **kwargs: Any) -> Any:
        restricted, chosen = restricted_to("jacrev", fun, argnums, args, kwargs)
        primals = tuple(args[i] for i in chosen)
        _checked(
            "jacrev", "input", fun, primals, holomorphic, allow_int=allow_int, allow_complex=True
        )
        out, pull, *aux = vjp(restricted, *primals, has_aux=has_aux)
        avals = _checked("jacrev", "output", fun, out, holomorphic)
        out_tree = tree_flatten(out)[1]
        rows = vmap(lambda *cts: pull(tree_unflatten(out_tree, cts)))(*map(concrete, _basis(avals)))
        leaves, tree = tree_flatten(rows[0] if isinstance(argnums, int) else rows)
        split = [_rows(x, avals) for x in leaves]
        per_result = [
            tree_unflatten(tree, [parts[k] for parts in split]) for k in range(len(avals))
        ]
        jacobian = tree_unflatten(out_tree, per_result)
        return (jacobian, aux[0]) if has_aux else jacobian

    return jacobian_function


jacobian = jacrev


def hessian(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]:
    """A function that returns the Hessian of ``fun``: forward over reverse.

    Args:
      fun: a function of pytrees of arrays.
      argnums: which positional arguments to differentiate by.
      has_aux: whether ``fun`` returns ``(value, aux)``.
      holomorphic: whether ``fun`` is complex-differentiable.

    Returns:
      A function of the same arguments: for a result of shape R and an argument of shape A it
        returns an array of shape R + A + A; pytrees of results hold pytrees of pytrees of
        arguments.

    Raises:
      ArgumentError, DifferentiationError: as :func:`jacfwd`.

    >>> import functrax, functrax.numpy as jnp
    >>> functrax.hessian(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    inner = jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic)
    return jacfwd(inner, argnums, has_aux=has_aux, holomorphic=holomorphic)
