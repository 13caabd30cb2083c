"""Running what is recorded: how nodes become results.

Operations that are little work are run by the reference, one by one (:func:`_one_by_one`).  More is
cut out of the graph (``backends/eager_graph.py``), written down as a program, compiled, and
remembered by the cut's key (:func:`_compiled`).  Which of the two depends on the operations alone,
never on what ran before, for the two may differ in their last bits.

Start at :func:`run`.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Sequence
from typing import Any, Final

from functrax.backends.device import Executable, device_of
from functrax.backends.eager_graph import Cut, Node, Part, Signature, ancestors, cut
from functrax.core.array import Pending
from functrax.core.config import Override, compile_context, state as options
from functrax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.trace import state

#: Operations for which the reference takes at most so many nanoseconds are left to it.
CHEAP: Final = 300_000
#: How many compiled cuts are remembered.
MAX_PROGRAMS: Final = 4096

_programs: dict[tuple[Any, ...], Executable] = {}
#: One thread runs at a time; others record meanwhile.
_lock: Final = threading.RLock()


def run(roots: Sequence[Node], requested: bool = True) -> None:
    """Compute operations that are recorded, and all that they depend on.

    Args:
      roots: the operations; those that are computed already count for nothing.
      requested: see :func:`~functrax.backends.eager_graph.cut`.
    """
    with _lock:
        nodes = ancestors(roots)
        if not nodes:
            return
        strict = nodes[0].signature.strict
        if options.strict is strict and options.backend == "llvm":
            _run(nodes, roots, requested)
        else:
            with Override("strict", strict), Override("backend", "llvm"):
                _run(nodes, roots, requested)


Node.run = staticmethod(run)


def settle(raw: Any) -> None:
    """Compute the recorded operations that read a raw value.

    Values do not know who reads them, so they are looked for among all objects, but only if
    somebody besides the array and the caller refers to the value.
    """
    if sys.getrefcount(raw) <= _ARRAY_ALONE:
        return
    holders = {id(x): x for x in gc.get_referrers(raw) if type(x) is tuple}
    nodes = {n for x in holders.values() for n in gc.get_referrers(x) if type(n) is Node}
    run([n for n in nodes if n.value is None and id(n.operands) in holders], requested=False)


def _alone(holder: Sequence[Any]) -> int:
    def count(raw: Any) -> int:
        return sys.getrefcount(raw)

    return count(holder[0])


_ARRAY_ALONE: Final = _alone([object()])
Pending.settle = staticmethod(settle)


def _run(nodes: list[Node], roots: Sequence[Node], requested: bool) -> None:
    if sum([node.signature.cost for node in nodes]) <= CHEAP:
        _one_by_one(nodes)
        return
    found = cut(nodes, roots if requested else ())
    results = _compiled(found)(found.inputs)
    for (_, target), value in zip(found.outputs, results, strict=True):
        target.value = value
    for node in nodes:
        _let_go(node)


def _let_go(node: Node) -> None:
    """Forget what a node was made of, if nobody needs to compute it any more."""
    for ref in node.parts:
        part = ref()
        if part is not None:
            part.node = None
    if node.parts:
        node.value = ()
    if node.value is not None:
        node.operands = ()


# ---- operation by operation -------------------------------------------------------------------


def _one_by_one(nodes: Sequence[Node]) -> None:
    """Run each operation by itself; all results are kept where somebody refers to them."""
    apply = device_of("llvm").apply
    previous = state.source
    try:
        for node in nodes:
            signature = node.signature
            state.source = node.source
            operands = [_known(x) for x in node.operands]
            out = apply(signature.primitive, operands, signature.params)
            if not node.parts:
                node.value = out
            else:
                for ref in node.parts:
                    part = ref()
                    if part is not None:
                        part.value = out[part.number]
    finally:
        state.source = previous
    for node in nodes:
        _let_go(node)


def _known(x: Any) -> Any:
    """An operand that is computed, as a raw value."""
    kind = type(x)
    if kind is Node or kind is Part:
        return x.value
    return x.val if kind is Literal else x


# ---- as a program -----------------------------------------------------------------------------


def _compiled(found: Cut) -> Executable:
    key = (compile_context(), *found.key)
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
