"""Running what is recorded: how a cut becomes results.

What enters is a :class:`~functrax.backends.eager_graph.Cut`.  Little work is done by the reference,
operation by operation (:func:`_one_by_one`); more is a program, which is written down, compiled
and remembered by the cut's key (:func:`_compiled`).  Which of the two depends on the cut alone, by
:attr:`Cut.cost`, never on what ran before, for the two may differ in their last bits.

Start at :func:`run`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final

from functrax.backends import eager_graph
from functrax.backends.deferred import Deferred
from functrax.backends.device import Executable, device_of
from functrax.backends.eager_graph import Cut, Node, Signature, cut
from functrax.core.config import Override, state as options
from functrax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.trace import state

#: A cut for which the reference takes at most so many nanoseconds is left to it.
CHEAP: Final = 300_000
#: How many compiled cuts are remembered.
MAX_PROGRAMS: Final = 4096

_programs: dict[tuple[Any, ...], Executable] = {}
#: One thread cuts and runs at a time; others record meanwhile.
_lock: Final = threading.RLock()


def run(roots: Sequence[Node], requested: bool = True) -> None:
    """Compute operations that are recorded, and all that they depend on.

    Args:
      roots: the operations; those that are computed already count for nothing.
      requested: see :func:`~functrax.backends.eager_graph.cut`.
    """
    with _lock:
        waiting = [node for node in roots if node.value is None and node.operands is not None]
        if waiting:
            found = cut(waiting, requested)
            del waiting
            _publish(found, _results(found))


eager_graph.run_roots = run


def _results(found: Cut) -> list[Any]:
    strict = found.nodes[0].signature.strict
    with ExitStack() as overrides:
        if options.strict is not strict:
            overrides.enter_context(Override("strict", strict))
        if options.backend != "llvm":
            overrides.enter_context(Override("backend", "llvm"))
        if found.cost <= CHEAP:
            return _one_by_one(found)
        return _compiled(found)(found.inputs)


def _publish(found: Cut, results: Sequence[Any]) -> None:
    """Give the results to those who refer to them, and let go of what they were made of."""
    for (_, target), value in zip(found.outputs, results, strict=True):
        target.value = value
    for node in found.nodes:
        if node.parts:
            for ref in node.parts:
                part = ref()
                if part is not None and part.value is not None:
                    part.node = None
        elif node.value is not None:
            node.operands = ()


# ---- operation by operation -------------------------------------------------------------------


def _one_by_one(found: Cut) -> list[Any]:
    """The results of the operations, each run by itself."""
    apply = device_of("llvm").apply
    values: list[Any] = []
    previous = state.source
    try:
        for node, codes in zip(found.nodes, found.operands):
            operands = [
                x.val if type(x) is Literal else values[x] if x >= 0 else found.inputs[-1 - x]
                for x in codes
            ]
            signature = node.signature
            state.source = node.source
            out = apply(signature.primitive, operands, signature.params)
            if signature.primitive.multiple_results:
                values += out
            else:
                values.append(out)
    finally:
        state.source = previous
    return [_stored(values[number]) for number, _ in found.outputs]


def _stored(x: Any) -> Any:
    return x.materialize() if type(x) is Deferred else x


# ---- as a program -----------------------------------------------------------------------------


def _compiled(found: Cut) -> Executable:
    key = found.key
    executable = _programs.get(key)
    if executable is None:
        if len(_programs) >= MAX_PROGRAMS:
            _programs.clear()
        executable = _programs[key] = device_of("llvm").compile(program(found))
    return executable


def program(found: Cut, name: str = "eager") -> Jaxpr:
    """A cut as a program."""
    inputs = [Var(aval) for aval in found.input_avals]
    values: list[Atom] = []
    eqns: list[Eqn] = []
    for node, codes in zip(found.nodes, found.operands):
        signature = node.signature
        operands = [
            x if type(x) is Literal else values[x] if x >= 0 else inputs[-1 - x] for x in codes
        ]
        if signature.literals_are_inputs:
            operands = [_filled(x, signature, eqns) for x in operands]
        outs = [Var(aval) for aval in signature.results]
        eqns.append(Eqn(signature.primitive, operands, outs, signature.params, node.source))
        values += outs
    return Jaxpr((), inputs, [values[number] for number, _ in found.outputs], eqns, name)


def _filled(x: Atom, signature: Signature, eqns: list[Eqn]) -> Atom:
    """A scalar operand of an elementwise operation as an array full of it."""
    shape = signature.results[0].shape
    if not shape or x.aval.shape == shape:
        return x
    filled = Var(x.aval.update(shape=shape))
    eqns.append(Eqn(broadcast_in_dim, [x], [filled], {"shape": shape, "dims": ()}))
    return filled


def forget() -> None:
    """Forget the compiled cuts."""
    with _lock:
        _programs.clear()
