"""Cotangents that are added to references, in place of being returned: ``f_vjp.with_refs``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrax.core.boundaries.tracebacks import boundary
from functrax.core.errors.typed import ArgumentError, PyTreeError
from functrax.core.pytree.operations import (
    PyTreeDef,
    broadcast_prefix,
    filled,
    register_pytree_node,
    tree_leaves,
    tree_unflatten,
)
from functrax.core.state.reference_access import addupdate
from functrax.core.state.references import Ref


class _Mark:
    """Something that says one thing, and compares by its kind."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class GradValue(_Mark):
    """Asks for the cotangent itself, as anything does that is neither of the others."""

    __slots__ = ()


class DontWant(_Mark):
    """Says that a cotangent is not wanted."""

    __slots__ = ()


class DidntWant(_Mark):
    """Stands in a result for a cotangent that was not wanted."""

    __slots__ = ()


class GradRef(_Mark):
    """Stands in a result for a cotangent that was added to a reference."""

    __slots__ = ()


register_pytree_node(GradRef, lambda x: ((), None), lambda data, children: GradRef())
register_pytree_node(DidntWant, lambda x: ((), None), lambda data, children: DidntWant())


def accumulating(
    f_vjp: Callable[[Any], tuple[Any, ...]], in_tree: PyTreeDef, wanted: Sequence[Any]
) -> Callable[[Any], tuple[Any, ...]]:
    """A backward pass that adds cotangents to references.

    Args:
      f_vjp: from a cotangent of the value to those of the arguments.
      in_tree: the structure of the arguments.
      wanted: for each argument a pytree prefix of references and marks.

    Raises:
      ArgumentError: if there is not one for each argument, or the structures differ.
    """
    places, _ = filled(in_tree)
    try:
        marks = broadcast_prefix(tuple(wanted), places, is_leaf=lambda x: x is None)
    except PyTreeError as error:
        raise ArgumentError(
            "vjp: with_refs is not given what fits the arguments",
            got=error.got or error.what,
            fix="one reference, functrax.ad.GradValue() or functrax.ad.DontWant() for each",
        ) from None

    @boundary
    def backward(ct: Any) -> tuple[Any, ...]:
        outs: list[Any] = []
        for mark, x in zip(marks, tree_leaves(f_vjp(ct)), strict=True):
            if isinstance(mark, Ref):
                addupdate(mark, (), x)
                outs.append(GradRef())
            else:
                outs.append(DidntWant() if isinstance(mark, DontWant) else x)
        return tree_unflatten(in_tree, outs)  # type: ignore[no-any-return]

    return backward
