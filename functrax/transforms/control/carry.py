"""The carry of a loop, between pytrees and flat values, and its types.

A body must return the carry that it was given: the same containers, shapes and dtypes.  Python
scalars among the initial carries are weak, and give way to what the body makes of them.

Start at :class:`LoopBody`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from functrax.core.errors.typed import DTypeError, PyTreeError, ShapeError
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.prims.convert import convert_element_type
from functrax.core.pytree.operations import keystr, tree_flatten, tree_flatten_with_path
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import stage_with_references
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.promotion import lattice_result_type
from functrax.transforms.arguments.flat import name_of
from functrax.transforms.arguments.leaf_types import leaf_types


def leaf_paths(tree: Any) -> list[str]:
    """How the leaves of a carry are called in errors."""
    return [keystr(path) for path, _ in tree_flatten_with_path(tree)[0]]


class LoopBody:
    """A loop's body, which checks what it makes of the carry.

    Args:
      loop: the name of the loop, for errors.
      function: the user's function.
      carry: the initial carry as given, a pytree.
      paths: what its leaves are called in errors.

    ``leaves`` are the initial carries, ``avals`` their types, both settled by :meth:`stage`.
    """

    def __init__(
        self, loop: str, function: Callable[..., Any], carry: Any, paths: Sequence[str]
    ) -> None:
        self.loop = loop
        self.function = function
        self.name = name_of(function)
        self.paths = paths
        given, self.tree = tree_flatten(carry)
        self.leaves = [as_value(x, f"a carry of {loop}") for x in given]
        self.avals = [x.aval for x in self.leaves]
        self._settled = True

    def stage(
        self, flat: Callable[..., Sequence[Value]], extra: Sequence[ShapedArray] = ()
    ) -> tuple[Jaxpr, list[Any], tuple[Any, ...]]:
        """The program of a flat body, which calls :meth:`checked`, and its constants' values.

        Last are the references that it writes: their values are the last constants, and the first
        results, so they can be carries before the others.

        Weak carries take the type that they and what becomes of them promote to, until nothing
        changes: one carry may settle only after another has.  Those that changed end as strong.
        """
        given = list(self.avals)
        while True:
            self._settled = True
            avals = [*self.avals, *extra]
            jaxpr, consts, effects = stage_with_references(flat, avals, self.name)
            if not self._settled:
                continue
            strong = [
                b if a == b else b.strip_weak_type() for a, b in zip(given, self.avals, strict=True)
            ]
            if strong == self.avals:
                break
            self.avals = strong
        self.leaves = [
            x if x.aval is a else convert_element_type.bind(x, dtype=a.dtype, weak_type=a.weak_type)
            for x, a in zip(self.leaves, self.avals, strict=True)
        ]
        if effects is None:
            return jaxpr, consts, ()
        from functrax.core.state.references import values_of

        return jaxpr, values_of(consts), effects.targets

    def checked(self, carry: Any) -> list[Value]:
        """The flat carry, of the types that it had before."""
        leaves, tree = tree_flatten(carry)
        if tree != self.tree:
            raise PyTreeError(
                f"{self.loop}: {self.name} returns a carry of another structure than it was given",
                got=f"given {self.tree}, returned {tree}",
                fix="return the carry in the containers that it came in",
            )
        values = [as_value(x, f"a carry returned by {self.name}") for x in leaves]
        promoted = [_promoted(a, x.aval) for a, x in zip(self.avals, values, strict=True)]
        if promoted != self.avals:
            self.avals, self._settled = promoted, False
            return values
        return [
            x if (x.aval.shape, x.aval.dtype) == (a.shape, a.dtype) else self._refused(i, values)
            for i, (x, a) in enumerate(zip(values, self.avals, strict=True))
        ]

    def _refused(self, i: int, values: Sequence[Value]) -> NoReturn:
        """Raise the error for a carry whose type the body changes, by its place."""
        was, becomes = (
            leaf_types(self.tree, avals)[i] for avals in (self.avals, [x.aval for x in values])
        )
        got = f"carry{self.paths[i]} was {was.str_short()} and becomes {becomes.str_short()}"
        if was.shape != becomes.shape:
            raise ShapeError(
                f"{self.loop}: {self.name} changes the shape of a carry",
                got=got,
                fix="carries keep their shapes; stack results of each step instead",
            )
        raise DTypeError(
            f"{self.loop}: {self.name} changes the dtype of a carry",
            got=got,
            fix=f"start from an array of dtype {becomes.dtype}, or convert the result with "
            f".astype('{was.dtype}')",
        )


def _promoted(given: ShapedArray, made: ShapedArray) -> ShapedArray:
    if not given.weak_type or given.dtype == made.dtype or made.dtype not in dtypes.ALL:
        return given
    dtype, weak = lattice_result_type((given.dtype, given.weak_type), (made.dtype, made.weak_type))
    return ShapedArray(given.shape, dtype, weak)
