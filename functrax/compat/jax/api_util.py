"""``jax.api_util``: functions of flat arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from functrax.compat.extension.linear_util import WrappedFun, transformation_with_aux2
from functrax.compat.extension.programs import DebugInfo
from functrax.core.pytree.operations import PyTreeDef, tree_flatten, tree_unflatten
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.inspect_types import type_of


def safe_map(f: Callable[..., Any], *args: Iterable[Any]) -> list[Any]:
    """``list(map(f, *args))`` of sequences that must have one length."""
    rows = [list(a) for a in args]
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        raise AssertionError(f"length mismatch: {[len(row) for row in rows]}")
    return [f(*xs) for xs in zip(*rows)]


@transformation_with_aux2
def flatten_fun(f: Callable[..., Any], store: Any, in_tree: PyTreeDef, *args: Any) -> list[Any]:
    """A function of flat arguments, positional and named; the second result is the tree's shape."""
    positional, named = tree_unflatten(in_tree, args)
    leaves, out_tree = tree_flatten(f(*positional, **named))
    store.store(out_tree)
    return leaves


@transformation_with_aux2
def flatten_fun_nokwargs(
    f: Callable[..., Any], store: Any, in_tree: PyTreeDef, *args: Any
) -> list[Any]:
    """As :func:`flatten_fun`, of positional arguments alone."""
    leaves, out_tree = tree_flatten(f(*tree_unflatten(in_tree, args)))
    store.store(out_tree)
    return leaves


def shaped_abstractify(x: Any) -> ShapedArray:
    """The type of an array or a number."""
    return type_of(x, "the argument of shaped_abstractify")


def debug_info(
    traced_for: str,
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    **options: Any,
) -> DebugInfo:
    """What a function that is traced is called, and its arguments."""
    name = getattr(fun, "__name__", type(fun).__name__)
    try:
        names = tuple(inspect.signature(fun).parameters)
    except (TypeError, ValueError):  # a builtin
        names = None
    return DebugInfo(traced_for, name, names)


def argnums_partial(
    f: WrappedFun,
    dyn_argnums: int | Sequence[int],
    args: Sequence[Any],
    require_static_args_hashable: bool = True,
) -> tuple[WrappedFun, list[Any]]:
    """A function of some of its arguments, the others fixed, and those arguments.

    Raises:
      ValueError: if a fixed argument must be hashable and is not.
    """
    numbers = [dyn_argnums] if isinstance(dyn_argnums, int) else list(dyn_argnums)
    dynamic = {n % len(args) for n in numbers}
    fixed = [x for n, x in enumerate(args) if n not in dynamic]
    if require_static_args_hashable:
        for x in fixed:
            try:
                hash(x)
            except TypeError:
                raise ValueError(f"Non-hashable static argument: {x!r}") from None

    def around(call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        moving, still = iter(given), iter(fixed)
        merged = [next(moving) if n in dynamic else next(still) for n in range(len(args))]
        return call(*merged, **named)

    return f.around(around), [x for n, x in enumerate(args) if n in dynamic]


def rebase_donate_argnums(
    donate_argnums: Sequence[int], static_argnums: Sequence[int]
) -> tuple[int, ...]:
    """The numbers of donated arguments, counted without the static ones.

    Raises:
      ValueError: if an argument is both.
    """
    both = set(donate_argnums) & set(static_argnums)
    if both:
        raise ValueError(
            f"static_argnums cannot intersect with donate_argnums: both have {sorted(both)}"
        )
    return tuple(n - sum(s < n for s in static_argnums) for n in sorted(donate_argnums))
