"""Looking at programs without running them: ``make_jaxpr``, ``eval_shape``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, overload

from functrax.core.arrays.operators import Handle
from functrax.core.boundaries.tracebacks import boundary
from functrax.core.errors.typed import ArgumentError, ReferenceUseError, ShapeError
from functrax.core.ir.jaxpr import ClosedJaxpr
from functrax.core.pytree.operations import (
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_map,
    tree_unflatten,
)
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import eval_jaxpr, stage, stage_with_references
from functrax.core.tracing.trace import EVAL, named_axis, state
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import (
    FlatFunction,
    check_callable,
    name_of,
    positional_names,
    signature_of,
)
from functrax.transforms.arguments.static_args import ArgumentRoles, positions
from functrax.transforms.arguments.types_of_arrays import (
    ShapeDtypeStruct as ShapeDtypeStruct,
    type_of as type_of,
)

if TYPE_CHECKING:
    from functrax.transforms.arguments.function_types import P


def flatten_types(tree: Any) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a pytree of arrays and of types, and its structure.

    In the place of the type of a handle is a handle of types.
    """
    leaves, treedef = tree_flatten(tree)
    if any(_is_of_handle(x) for x in leaves):
        return tree_flatten(tree_map(lambda x: x.dtype.handle(x) if _is_of_handle(x) else x, tree))
    return leaves, treedef


def _is_of_handle(x: Any) -> bool:
    return type(x) is ShapeDtypeStruct and dtypes.issubdtype(x.dtype, dtypes.extended)


def _types_of(fun: Any, arguments: Any) -> tuple[list[ShapedArray], PyTreeDef]:
    """The types of arguments, and their structure, in which references are themselves."""
    what = f"an argument of {name_of(fun)}"
    leaves, tree = flatten_types(arguments)
    try:
        return [type_of(x, what) for x in leaves], tree
    except ReferenceUseError as error:
        from functrax.transforms.arguments.discharge import fixed

        leaves, tree = flatten_types(fixed(fun, arguments, error))
        return [type_of(x, what) for x in leaves], tree


def typeof(x: Any) -> Any:
    """The type of an array or a number: its shape, dtype and weak type.

    That of typed keys is a :class:`ShapeDtypeStruct`, that of a reference an ``AbstractRef``.

    Args:
      x: an array or a number, known or traced, or a reference.

    Returns:
      A :class:`ShapedArray`, which can be compared and hashed.

    Raises:
      DTypeError: for what is no array.

    >>> typeof(1.0)
    ShapedArray(float32[], weak_type=True)
    """
    if isinstance(x, Handle):
        return ShapeDtypeStruct(x.shape, x.dtype)
    if getattr(x, "is_ref", False):
        return x.aval
    return type_of(x, "the argument of typeof")


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The types of a function's results, without computing them.

    Args:
      fun: a pure function of pytrees of arrays.
      args: arrays, or :class:`ShapeDtypeStruct`; only shapes and dtypes matter.
      kwargs: the same by name.

    Returns:
      The result's pytree, with a :class:`ShapeDtypeStruct` in place of each array; what the
      function returns as a :class:`ShapeDtypeStruct` stays.

    Raises:
      ArgumentError: if ``fun`` is not a function.
      DTypeError: for arguments and results that are no arrays; and what ``fun`` raises.

    >>> import functrax.numpy as jnp
    >>> eval_shape(jnp.dot, ShapeDtypeStruct((2, 3), "float32"), jnp.ones(3))
    ShapeDtypeStruct(shape=(2,), dtype=float32)
    """
    check_callable("eval_shape", fun)
    avals, tree = _types_of(fun, (args, kwargs))
    flat_fun = _TypedFunction(fun, tree)
    jaxpr, _, effects = stage_with_references(flat_fun, avals, name_of(fun))
    written = len(effects.targets) if effects else 0  # by nobody: nothing is run
    computed = map(_struct, jaxpr.out_avals[written:])
    types = [next(computed) if x is None else x for x in flat_fun.types]
    return tree_unflatten(flat_fun.out_tree, types)


class _TypedFunction(FlatFunction):
    """A function whose results may be types as well as arrays: ``types`` has None for arrays."""

    types: list[ShapeDtypeStruct | None]

    def __call__(self, *leaves: Value) -> list[Value]:
        args, kwargs = tree_unflatten(self.in_tree, leaves)
        found, self.out_tree = tree_flatten(self.function(*args, **kwargs))
        self.types = [x if isinstance(x, ShapeDtypeStruct) else None for x in found]
        what = f"a result of {self.__name__}"
        return [as_value(x, what) for x, given in zip(found, self.types) if given is None]


def _struct(aval: ShapedArray) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def input_names(
    fun: Any, roles: ArgumentRoles, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[str]:
    """What the inputs of a function's program are called: ``x``, ``params['w']``, ``args[2]``."""
    signature = signature_of(fun)
    named = [] if signature is None else positional_names(signature)
    static = positions(roles.static_nums, len(args))
    tops = [*named[: len(args)], *(f"args[{i}]" for i in range(len(named), len(args)))]
    trees = [(top, x) for i, (top, x) in enumerate(zip(tops, args, strict=True)) if i not in static]
    trees += [(k, kwargs[k]) for k in sorted(kwargs) if k not in roles.static_names]
    return [top + keystr(path) for top, x in trees for path, _ in tree_flatten_with_path(x)[0]]


@overload
def make_jaxpr(
    fun: Callable[P, Any],
    static_argnums: int | Sequence[int] = ...,
    axis_env: Sequence[tuple[Any, int]] | None = ...,
    return_shape: Literal[False] = ...,
) -> Callable[P, ClosedJaxpr]: ...
@overload
def make_jaxpr(
    fun: Callable[P, Any],
    static_argnums: int | Sequence[int] = ...,
    axis_env: Sequence[tuple[Any, int]] | None = ...,
    *,
    return_shape: Literal[True],
) -> Callable[P, tuple[ClosedJaxpr, Any]]: ...
def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that returns the program of ``fun`` instead of running it.

    Args:
      fun: a pure function of pytrees of arrays.
      static_argnums: positions of arguments that are not traced.
      axis_env: named axes that the program may use, as pairs of name and size.
      return_shape: whether to return ``(program, types of the results)``.

    Returns:
      A function of the same arguments (arrays or types), which returns a ``ClosedJaxpr``.  Called
      inside of a transformation, it has all arrays that ``fun`` refers to as constants, whether
      they are known or traced, so that their number follows from ``fun``.

    Raises:
      ArgumentError: if ``fun`` is not a function.
      DTypeError: when it is called, for arguments and results that are no arrays.

    >>> import functrax.numpy as jnp
    >>> print(make_jaxpr(lambda x: jnp.sin(x) * 2.0)(1.0).as_text(source=False))
    { lambda ; a:~f32[]. let
        b:~f32[] = sin a
        c:~f32[] = mul b 2.0:~f32[]
      in (c,) }
    """
    check_callable("make_jaxpr", fun)
    roles = ArgumentRoles(fun, static_argnums, None, None, None)

    @functools.wraps(fun)
    @boundary
    def program(*args: Any, **kwargs: Any) -> Any:
        dynamic, others, static = roles.split(args, kwargs)
        avals, tree = _types_of(fun, (dynamic, others))
        flat_fun = FlatFunction(roles.merge(fun, static), tree)
        with ExitStack() as axes:
            for name, size in axis_env or ():
                axes.enter_context(named_axis(name, size))
            jaxpr, consts = stage(
                flat_fun,
                avals,
                name_of(fun),
                input_names(fun, roles, args, kwargs),
                inlines_scalars=state.trace is EVAL,
            )
        closed = ClosedJaxpr(jaxpr, consts)
        if not return_shape:
            return closed
        return closed, tree_unflatten(flat_fun.out_tree, map(_struct, jaxpr.out_avals))

    program.__name__ = f"make_jaxpr({name_of(fun)})"
    program.__qualname__ = f"make_jaxpr({getattr(fun, '__qualname__', name_of(fun))})"
    return program


def jaxpr_as_fun(program: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The function that a program is, which can be transformed as any other.

    Args:
      program: what :func:`make_jaxpr` or ``functrax.parse`` returned.

    Returns:
      A function of one array for each input, which returns the list of the results.

    Raises:
      ArgumentError: when the function is called with another number of arguments.
      ShapeError: or with arguments of other types.

    >>> import functrax.numpy as jnp
    >>> jaxpr_as_fun(make_jaxpr(jnp.sin)(0.0))(0.0)
    [Array(0., dtype=float32, weak_type=True)]
    """
    jaxpr = program.jaxpr

    def function(*args: Any) -> list[Any]:
        if len(args) != len(jaxpr.invars):
            raise ArgumentError(
                f"{jaxpr.name}: the program takes another number of arguments",
                got=f"{len(args)} arguments for {len(jaxpr.invars)} inputs",
                fix="one array for each input",
            )
        values = [as_value(x, f"argument {i} of {jaxpr.name}") for i, x in enumerate(args)]
        for i, (x, wanted) in enumerate(zip(values, jaxpr.in_avals, strict=True)):
            if x.aval.strip_weak_type() is not wanted.strip_weak_type():
                raise ShapeError(
                    f"{jaxpr.name}: argument {i} has another type than the input of the program",
                    got=f"{x.aval.str_short()} for {wanted.str_short()}",
                    fix="an array of the input's shape and dtype",
                )
        return [concrete(x) for x in eval_jaxpr(jaxpr, program.consts, *values)]

    function.__name__ = jaxpr.name
    return function
