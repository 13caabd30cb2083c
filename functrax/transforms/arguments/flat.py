"""Between pytrees and flat values: what every transformation does on entry and exit.

:class:`FlatFunction` calls a user's function with flat values and remembers the structure of what
it returned.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import is_dataclass
from typing import Any

from functrax.core.errors.typed import ArgumentError, DTypeError, FunctraxError, ReferenceUseError
from functrax.core.pytree.operations import (
    KeyPath,
    PyTreeDef,
    SequenceKey,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_unflatten,
)
from functrax.core.tracing.inputs import as_value, is_valid_argument
from functrax.core.tracing.primitive import Value
from functrax.transforms.arguments.names import name_of as name_of


class FlatFunction:
    """A user's function of pytrees, as a function of flat values.

    Args:
      function: called with unflattened positional and keyword arguments.
      in_tree: the structure of ``(args, kwargs)``.

    After a call, ``out_tree`` is the structure of the result.
    """

    def __init__(self, function: Callable[..., Any], in_tree: PyTreeDef) -> None:
        self.function = function
        self.in_tree = in_tree
        self.__name__ = name_of(function)
        self.out_tree: PyTreeDef

    def __call__(self, *leaves: Value) -> list[Value]:
        args, kwargs = tree_unflatten(self.in_tree, leaves)
        out, self.out_tree = flatten_result(self.__name__, self.function(*args, **kwargs))
        return out


def flatten_result(name: str, result: Any) -> tuple[list[Value], PyTreeDef]:
    """What a function of a name returned as values, and its structure."""
    leaves, tree = tree_flatten(result)
    try:
        return [as_value(x, f"a result of {name}") for x in leaves], tree
    except ReferenceUseError:
        raise
    except DTypeError as error:
        for path, leaf in tree_flatten_with_path(result)[0]:
            if not is_valid_argument(leaf):
                what = f"function {name} returned a value of type {type(leaf)} at output component "
                what += f"{keystr(path) or 'the root'}, which is not a valid JAX type"
                raise DTypeError(f"{error.what}: {what}", got=error.got, fix=error.fix) from None
        raise


def flatten_fixing(function: Any, args: Sequence[Any]) -> tuple[Any, list[Value], PyTreeDef]:
    """As :func:`flatten_args`, but references among the arguments stay what they are.

    Returns:
      The arguments, in which references are containers without leaves; their leaves; their
      structure, which unflattens to the references.
    """
    try:
        return args, *flatten_args(function, args, {})
    except ReferenceUseError as error:
        from functrax.transforms.arguments.discharge import fixed

        args = fixed(function, tuple(args), error)
        return args, *flatten_args(function, args, {})


def flatten_args(
    function: Any, args: Sequence[Any], kwargs: dict[str, Any], static: Collection[int] = ()
) -> tuple[list[Value], PyTreeDef]:
    """The leaves of arguments as values, and their structure.

    ``static`` are the positions of further arguments, which are not among ``args``.
    """
    leaves, tree = tree_flatten((tuple(args), kwargs))
    try:
        return [as_value(x) for x in leaves], tree
    except FunctraxError:  # say which of them it is
        paths = tree_flatten_with_path((tuple(args), kwargs))[0]
        names = given_names(function, len(args), static)
        values = []
        for path, x in paths:
            try:
                values.append(as_value(x, _argument(function, path, names)))
            except ReferenceUseError:
                raise
            except DTypeError as error:
                fix = _advice(x, error.fix)
                raise DTypeError(error.what, got=error.got, fix=fix) from None
    return values, tree


def _argument(function: Any, path: KeyPath, names: Sequence[str]) -> str:
    """What a leaf of ``(args, kwargs)`` is called in errors."""
    which: Any = path[1]
    name = names[which.idx] if isinstance(which, SequenceKey) else which.key
    return f"argument {name}{keystr(path[2:])} of {name_of(function)}"


def _advice(x: Any, fallback: str) -> str:
    """What to do about an argument that is no array."""
    kind = type(x)
    if isinstance(x, (str, bytes)):
        return "text is for static arguments (static_argnums, static_argnames), or to close over"
    if is_dataclass(x) and not isinstance(x, type):
        return (
            f"functrax.tree_util.register_dataclass({kind.__name__}), which makes a container "
            "of it; or a static argument"
        )
    if callable(x):
        return (
            "close over it, make it a static argument (static_argnums), or wrap it in "
            "functrax.tree_util.Partial"
        )
    if kind.__module__.partition(".")[0] not in ("builtins", "numpy"):
        return (
            f"functrax.tree_util.register_dataclass for {kind.__name__}, if it is a container of "
            "arrays (register_pytree_node_class if it is no dataclass); else a static argument, or "
            "close over it"
        )
    return fallback


def given_names(function: Any, count: int, static: Collection[int] = ()) -> list[str]:
    """The names of ``count`` positional arguments, or their positions."""
    total = count + len(static)
    signature = signature_of(function)
    known = [] if signature is None else positional_names(signature)
    names = [*known[:total], *map(str, range(len(known), total))]
    fixed = {i % total for i in static}
    return [name for i, name in enumerate(names) if i not in fixed]


def argnums_tuple(argnums: int | Sequence[int]) -> tuple[int, ...]:
    """Positions as a tuple."""
    return (argnums,) if isinstance(argnums, int) else tuple(argnums)


def check_callable(transform: str, function: Any) -> None:
    """Refuse what cannot be called, and what does not return by being called."""
    if isinstance(function, staticmethod):
        raise ArgumentError(
            f"{transform}: staticmethod arguments are not supported",
            got=repr(function),
            fix=f"the decorators in the other order: @staticmethod above @{transform}",
        )
    code = getattr(function, "__code__", None)
    if code is not None and code.co_flags & inspect.CO_GENERATOR:
        raise ArgumentError(
            f"{transform}: Expected a function, got a generator function: {name_of(function)}",
            got="a function with `yield`, which returns no arrays",
            fix="return a tuple of arrays, or functrax.lax.scan for a sequence of them",
        )
    if not callable(function):
        raise ArgumentError(
            f"{transform}: the first argument is not a function. Expected a callable value",
            got=f"{function!r} of type {type(function).__name__}",
            fix=f"{transform}(f), with f callable",
        )


def normalize_argnums(
    transform: str, function: Any, argnums: Sequence[int], num_args: int
) -> tuple[int, ...]:
    """Positions counted from 0; negative ones count from the end.

    Raises:
      ArgumentError: if one is out of range.
    """
    for i in argnums:
        if not -num_args <= i < num_args:
            raise ArgumentError(
                f"{transform}: argnums {i} is out of range: differentiating with respect to "
                f"argnums={','.join(map(str, argnums))} requires at least "
                f"{i + 1 if i >= 0 else -i} positional arguments to be passed by the caller, but "
                "got only "
                f"{num_args} positional arguments.",
                got=f"{num_args} positional arguments to {name_of(function)}",
                fix="argnums counts positional arguments from 0; pass that argument by position",
            )
    return tuple([i % num_args for i in argnums])


def restricted_to(
    transform: str,
    function: Callable[..., Any],
    argnums: int | Sequence[int],
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> tuple[Callable[..., Any], tuple[int, ...]]:
    """The function of the chosen arguments alone, and their positions counted from 0."""
    chosen = normalize_argnums(transform, function, argnums_tuple(argnums), len(args))

    def restricted(*differentiated: Any) -> Any:
        if chosen == (0,):
            return function(*differentiated, *args[1:], **kwargs)
        full = list(args)
        for i, x in zip(chosen, differentiated, strict=True):
            full[i] = x
        return function(*full, **kwargs)

    restricted.__name__ = name_of(function)
    return restricted, chosen


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def positional_names(signature: inspect.Signature) -> list[str]:
    """Names of the parameters that can be given by position."""
    return [p.name for p in signature.parameters.values() if p.kind in _POSITIONAL]


def signature_of(function: Any) -> inspect.Signature | None:
    """A function's parameters, if it tells them."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None
