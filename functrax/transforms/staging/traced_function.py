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
from functrax.core.pytree.operations import tree_unflatten
from functrax.core.records import field, record
from functrax.core.tracing.primitive import Value
from functrax.transforms.staging.staged import Places, StagedFunction
from functrax.transforms.staging.traces import Traced, TraceSignature

if TYPE_CHECKING:
    from functrax.transforms.staging.lowered import Lowered


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
    signature: TraceSignature = field(repr=False)
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
