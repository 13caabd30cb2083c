"""The first stage of a jitted function: ``f.trace(*args)`` is its program for certain arguments.

It comes before ``lower()``, which brings the compiler along.  Start at :class:`TracedFunction`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from functrax.core.jaxpr import ClosedJaxpr, Jaxpr
from functrax.core.primitive import Value
from functrax.core.pytree import PyTreeDef, tree_unflatten
from functrax.core.records import field, record
from functrax.core.tracebacks import with_boundaries
from functrax.transforms.inspect_types import ShapeDtypeStruct
from functrax.transforms.traces import Signature, Traced

if TYPE_CHECKING:
    from functrax.transforms.lowered import Lowered


class StagedFunction:
    """What is known of a function at each stage: trees and types of arguments and results."""

    traced: Traced
    signature: Signature

    @property
    def in_tree(self) -> PyTreeDef:
        """The structure of the arguments that are not static: a tuple, and a dict of named ones."""
        return self.signature.tree

    @property
    def out_tree(self) -> PyTreeDef:
        """The structure of the results."""
        return self.traced.out_tree

    @property
    def args_info(self) -> Any:
        """The types of the arguments, ``(args, kwargs)``."""
        return tree_unflatten(self.in_tree, map(struct, self.signature.avals))

    @property
    def out_info(self) -> Any:
        """The types of the results, as their pytree."""
        return tree_unflatten(self.out_tree, map(struct, self.traced.jaxpr.out_avals))


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
      donate_argnums: the positions of arguments that a call may use up.
    """

    fun_name: str
    function: Callable[..., Any] = field(repr=False)
    traced: Traced = field(repr=False)
    signature: Signature = field(repr=False)
    bind: Callable[[Sequence[Value]], Sequence[Value]] = field(repr=False)
    donate_argnums: tuple[int, ...] = ()

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
    def in_avals(self) -> Any:
        """The abstract values of the arguments, ``(args, kwargs)``."""
        return tree_unflatten(self.in_tree, self.signature.avals)

    @property
    def out_avals(self) -> Any:
        """The abstract values of the results, as their pytree."""
        return tree_unflatten(self.out_tree, self.traced.jaxpr.out_avals)

    def lower(self) -> Lowered:
        """The program as the compiler takes it."""
        from functrax.transforms.lowered import Lowered  # and the compiler

        return Lowered(self.fun_name, self.function, self.traced, self.signature, self.bind)


def struct(aval: Any) -> ShapeDtypeStruct:
    """An abstract value as users see it."""
    return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
