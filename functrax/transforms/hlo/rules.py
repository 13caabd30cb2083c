"""The registry of rules: for a primitive's class, the function that writes its instructions.

A rule takes the computation to write in, the equation and its operands' nodes, and returns the
nodes of its results: one, or a list where the primitive has multiple results.  A class without a
rule of its own has that of its nearest base class.  The modules of rules register them when they
are imported.

Start at :func:`rule`; :func:`written` applies rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from functrax.core.errors.typed import UnavailableError
from functrax.core.ir.jaxpr import Eqn
from functrax.core.tracing.primitive import Primitive
from functrax.transforms.hlo.computations.computation import Computation, Node
from functrax.transforms.hlo.computations.literals import has_dtype

Written: TypeAlias = "Node | Sequence[Node]"
Rule: TypeAlias = Callable[[Computation, Eqn, "list[Node]"], Written]

_Rule = TypeVar("_Rule", bound=Rule)
RULES: Final[dict[type[Primitive], Rule]] = {}


def rule(*classes: Any) -> Callable[[_Rule], _Rule]:
    """Registers a function as the rule of primitives' classes."""

    def register(function: _Rule) -> _Rule:
        for one in classes:
            assert one not in RULES, f"two rules for {one.__name__}"
            RULES[one] = function
        return function

    return register


def written(w: Computation, eqn: Eqn, operands: list[Node]) -> list[Node]:
    """The results of an equation.

    Raises:
      UnavailableError: if its primitive has no rule, or XLA no such dtype.
    """
    for x in (*eqn.invars, *eqn.outvars):
        if not has_dtype(x.aval.dtype):
            raise unavailable(eqn, f"XLA has no arrays of {x.aval.dtype}")
    for one in type(eqn.primitive).__mro__:
        found = RULES.get(one)
        if found is not None:
            results = found(w, eqn, operands)
            return [results] if isinstance(results, Node) else list(results)
    raise unavailable(eqn, "XLA has no instruction for it")


def unavailable(eqn: Eqn, why: str) -> UnavailableError:
    """The error for an equation that cannot be written."""
    types = ", ".join(x.aval.str_short() for x in eqn.invars)
    return UnavailableError(
        f"hlo: {eqn.primitive.name} cannot be written: {why}",
        got=f"{eqn.primitive.name} of {types or 'nothing'}",
        fix="hand XLA the parts of the program before and after it",
        where=eqn.source,
    )
