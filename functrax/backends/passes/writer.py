"""Writes equations of passes, equal ones once.

Start at :class:`EquationWriter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrax.core.errors.source import SourceLine
from functrax.core.ir.jaxpr import Atom, Eqn, Var
from functrax.core.tracing.primitive import Primitive


class EquationWriter:
    """Writes equations one after the other.

    Args:
      source: the user's line.

    Attributes:
      eqns: what was written so far.
    """

    def __init__(self, source: SourceLine | None) -> None:
        self.source = source
        self.eqns: list[Eqn] = []
        self._known: dict[Any, Var] = {}

    def new(self, primitive: Primitive, *operands: Atom, **params: Any) -> Var:
        """The result of an equation, of the type that follows from its operands."""
        aval = primitive.infer(tuple([x.aval for x in operands]), params)
        return self.add(primitive, operands, params, aval)

    def several(self, primitive: Primitive, *operands: Atom, **params: Any) -> list[Var]:
        """The results of an equation that has more than one, or may have."""
        avals = primitive.infer(tuple([x.aval for x in operands]), params)
        outs = [Var(a) for a in (avals if isinstance(avals, tuple) else (avals,))]
        self.eqns.append(Eqn(primitive, operands, outs, params, self.source))
        return outs

    def define(self, out: Var, primitive: Primitive, *operands: Atom, **params: Any) -> list[Eqn]:
        """Write the equation of which a variable of the program is the result; all equations."""
        self.eqns.append(Eqn(primitive, operands, (out,), params, self.source))
        return self.eqns

    def add(
        self, primitive: Primitive, operands: Sequence[Atom], params: dict[str, Any], aval: Any
    ) -> Var:
        """The result of an equation, of a given type."""
        key = (primitive, tuple(operands), tuple(params.items()))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Var(aval)
            self.eqns.append(Eqn(primitive, operands, (found,), params, self.source))
        return found

    def giving(self, out: Var) -> list[Eqn]:
        """All equations, of which the last one defines ``out``."""
        last = self.eqns.pop()
        return [*self.eqns, Eqn(last.primitive, last.invars, (out,), last.params, self.source)]
