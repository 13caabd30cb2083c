"""Programs into computations: an interpreter that writes instructions.

Start at :func:`write_jaxpr`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrax.core.ir.jaxpr import Atom, Jaxpr, Literal, Var
from functrax.core.tracing.stage import stage
from functrax.transforms.hlo.computations.computation import Computation, Node
from functrax.transforms.hlo.rules import written


def write_jaxpr(w: Computation, jaxpr: Jaxpr, inputs: Sequence[Node]) -> list[Node]:
    """The results of a program without constants, written into a computation.

    Args:
      w: the computation.
      jaxpr: the program.
      inputs: the nodes of its inputs.
    """
    values: dict[Var, Node] = dict(zip((*jaxpr.constvars, *jaxpr.invars), inputs, strict=True))

    def node(x: Atom) -> Node:
        return w.literal(x) if isinstance(x, Literal) else values[x]

    for eqn in jaxpr.eqns:
        results = written(w, eqn, [node(x) for x in eqn.invars])
        values.update(zip(eqn.outvars, results, strict=True))
    return [node(x) for x in jaxpr.outvars]


def write_function(w: Computation, function: Callable[..., Any], *operands: Node) -> list[Node]:
    """The results of a function of values, a list of them, written into a computation."""
    jaxpr, consts = stage(function, [x.aval for x in operands], "written")
    assert not consts, "a function written for its operands has no constants"
    return write_jaxpr(w, jaxpr, operands)


def tuple_of_results(w: Computation, results: Sequence[Node]) -> Node:
    """The root for results: one array as it is, else a tuple."""
    return results[0] if len(results) == 1 else w.tuple(results)


def callable_computation(w: Computation, jaxpr: Jaxpr) -> Computation:
    """The computation of a program: a parameter for each input, :func:`tuple_of_results`."""

    def write(inner: Computation) -> Node:
        inputs = [inner.parameter(a) for a in jaxpr.in_avals]
        return tuple_of_results(inner, write_jaxpr(inner, jaxpr, inputs))

    return w.shared(("call", jaxpr), jaxpr.name, write)
