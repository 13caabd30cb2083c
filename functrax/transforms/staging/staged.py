"""What is known of a function at each stage ahead of time: trees, types, places.

Start at :class:`StagedFunction`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrax.core.pytree.operations import PyTreeDef, tree_leaves, tree_unflatten
from functrax.core.records import record
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.types_of_arrays import ShapeDtypeStruct
from functrax.transforms.staging.jit_shardings import CallShardings
from functrax.transforms.staging.traces import Traced, TraceSignature


@record
class ArgInfo:
    """What is known of an array among the arguments of a function.

    Args:
      _aval: its type.
      donated: whether a call may use up its memory.
    """

    _aval: ShapedArray
    donated: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._aval.shape

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self._aval.dtype


@record(eq=False)
class Places:
    """Where the arguments and results of a function lie, and which arguments are donated.

    Args:
      shardings: what ``in_shardings`` and ``out_shardings`` ask for.
      leaves: the arrays, or the types, that the function was traced for.
      donated: for each of them whether a call may use it up.
    """

    shardings: CallShardings | None
    leaves: Sequence[Any]
    donated: tuple[bool, ...]

    def of_inputs(self, tree: PyTreeDef) -> list[Any]:
        """The sharding of each input: that asked for, or that which the array has."""
        given = [_own_sharding(x) for x in self.leaves]
        if self.shardings is None:
            return given
        args, _ = tree_unflatten(tree, self.leaves)
        asked = self.shardings.of_inputs(args)
        return [y if x is None else x for x, y in zip(asked, given)]

    def of_outputs(self, result: Any) -> list[Any]:
        """The sharding that each result is to have, or None."""
        if self.shardings is None:
            return [None] * len(tree_leaves(result))
        return self.shardings.of_outputs(result)


def _own_sharding(x: Any) -> Any:
    """The sharding of an array or a type; None if it is not bound to one."""
    if isinstance(x, ShapeDtypeStruct):
        return x.sharding
    from functrax.backends.sharding.placed import given_sharding

    return given_sharding(x)


class StagedFunction:
    """What is known of a function at each stage: trees and types of arguments and results."""

    traced: Traced
    signature: TraceSignature
    places: Places

    @property
    def in_tree(self) -> PyTreeDef:
        """The structure of the arguments that are not static: a tuple, and a dict of named ones."""
        return self.signature.tree

    @property
    def out_tree(self) -> PyTreeDef:
        """The structure of the results."""
        return self.traced.out_tree

    @property
    def in_avals(self) -> Any:
        """The abstract values of the arguments, ``(args, kwargs)``."""
        return tree_unflatten(self.in_tree, self.signature.avals)

    @property
    def args_info(self) -> Any:
        """The types of the arguments and whether they are donated, ``(args, kwargs)``."""
        return tree_unflatten(self.in_tree, map(ArgInfo, self.signature.avals, self.places.donated))

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The numbers of the arrays, counted through all arguments, that a call may use up."""
        return tuple([i for i, donated in enumerate(self.places.donated) if donated])

    @property
    def out_info(self) -> Any:
        """The types of the results, as their pytree."""
        plain = [struct(aval) for aval in self.traced.jaxpr.out_avals]
        asked = self.places.of_outputs(tree_unflatten(self.out_tree, plain))
        known = [x if s is None else x.update(sharding=s) for x, s in zip(plain, asked)]
        return tree_unflatten(self.out_tree, known)


def struct(aval: Any) -> ShapeDtypeStruct:
    """An abstract value as users see it."""
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
