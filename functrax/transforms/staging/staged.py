"""The first stage of a jitted function: ``f.trace(*args)`` is its program for certain arguments.

It comes before ``lower()``, which brings the compiler along.  Start at :class:`TracedFunction`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from functrax.backends.sharding.placement import default_backend
from functrax.core.boundaries.tracebacks import with_boundaries
from functrax.core.errors.typed import UnavailableError
from functrax.core.ir.jaxpr import ClosedJaxpr, Jaxpr
from functrax.core.pytree.operations import PyTreeDef, tree_leaves, tree_unflatten
from functrax.core.records import field, record
from functrax.core.tracing.primitive import Value
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.inspect_types import ShapeDtypeStruct
from functrax.transforms.staging.jit_shardings import CallShardings
from functrax.transforms.staging.traces import Signature, Traced

if TYPE_CHECKING:
    from functrax.transforms.staging.lowered import Lowered


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
    signature: Signature
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


@record(eq=False)
@with_boundaries
class TracedFunction(StagedFunction):
    """A jitted function traced for arguments of certain types.

    Args:
      fun_name: the function's name.
      function: the user's function.
      traced: the program.
      signature: the types of the arguments.
      bind: runs the program on values.
      places: where arguments and results lie.
    """

    fun_name: str
    function: Callable[..., Any] = field(repr=False)
    traced: Traced = field(repr=False)
    signature: Signature = field(repr=False)
    bind: Callable[[Sequence[Value]], Sequence[Value]] = field(repr=False)
    places: Places = field(repr=False)

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program, and the arrays that the function closes over."""
        program, consts = self.traced.jaxpr, self.traced.consts
        if not consts:
            return ClosedJaxpr(program, ())
        inputs, number = program.invars, len(consts)
        open_ = Jaxpr(inputs[:number], inputs[number:], program.outvars, program.eqns, program.name)
        return ClosedJaxpr(open_, consts)

    @property
    def out_avals(self) -> Any:
        """The abstract values of the results, as their pytree."""
        return tree_unflatten(self.out_tree, self.traced.jaxpr.out_avals)

    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> Lowered:
        """The program as the compiler takes it.

        Args:
          lowering_platforms: for which platforms; ``"cpu"`` has to be among them.

        Raises:
          UnavailableError: if it is not.
        """
        from functrax.transforms.staging.lowered import Lowered  # and the compiler

        platform = default_backend()
        if lowering_platforms is not None and platform not in lowering_platforms:
            raise UnavailableError(
                "lower: programs cannot be made for these platforms",
                got=f"lowering_platforms={tuple(lowering_platforms)}",
                fix=f"({platform!r},)",
            )
        return Lowered(
            self.fun_name, self.function, self.traced, self.signature, self.bind, self.places
        )


def struct(aval: Any) -> ShapeDtypeStruct:
    """An abstract value as users see it."""
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
