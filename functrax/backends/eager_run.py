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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from functrax.backends import nan_check, single_operations
from functrax.backends.deferred import Deferred
from functrax.backends.device import Executable, device_of
from functrax.backends.eager_graph import (
    ChangedError,
    Cut,
    Node,
    Part,
    Signature,
    ancestors,
    cut,
    node_of,
)
from functrax.backends.reference import in_numpy, rule_of
from functrax.core import native
from functrax.core.array import Pending
from functrax.core.config import Override, compile_context, state as options
from functrax.core.errors import add_note
from functrax.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.locks import new_rlock
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.trace import state

#: Operations for which the reference takes at most so many nanoseconds are left to it.
CHEAP: Final = 300_000
#: What the reference takes longer for, in all, is worth a program.
PAYS: Final = 2_000_000
#: What it costs to run a program of one operation, in nanoseconds.
ALONE: Final = 20_000
#: What is run by itself more often than this gets a program.
OFTEN: Final = 100
#: How many compiled cuts are remembered.
MAX_PROGRAMS: Final = 4096

#: By the key of a cut its program, or the nanoseconds that the reference took for it so far.
_programs: dict[tuple[Any, ...], Any] = {}
#: Functions of at most so many elements share a program.
ROOM: Final = (16, 64, 256, 1024, 4096)
_rooms: dict[Any, Executable] = {}
_number = 0
_looked_at = _gap = _gap_before = 0
#: One thread runs at a time; others record meanwhile.
_lock: Final = new_rlock()


def run(roots: Sequence[Node], requested: bool = True) -> None:
    """Compute operations that are recorded, and all that they depend on.

    Args:
      roots: the operations; those that are computed already count for nothing.
      requested: see :func:`~functrax.backends.eager_graph.cut`.

    Raises:
      MemoryError: if there is not enough memory, with a note of the line that needs most.
    """
    try:
        _run_roots(roots, requested)
    except MemoryError as error:
        _name_largest(error, ancestors(roots))
        raise


def _name_largest(error: MemoryError, nodes: Sequence[Node]) -> None:
    """Note which operation has the largest results."""
    bytes_of = {id(n): sum(a.size * a.dtype.itemsize for a in n.signature.results) for n in nodes}
    largest = max(nodes, key=lambda n: bytes_of[id(n)], default=None)
    if largest is not None:
        types = ", ".join(a.str_short() for a in largest.signature.results)
        add_note(error, f"the largest value to be computed is {types}, of {largest.source}")


def _run_roots(roots: Sequence[Node], requested: bool) -> None:
    description = None
    if requested and len(roots) == 1 and _single(roots[0]):
        return
    if native.extension is None:
        if requested:
            _note_look()
    else:
        description = native.extension.eager_run(list(roots) if requested else tuple(roots))
        if description is True:
            return
    with _lock:
        while nodes := ancestors(roots):
            try:
                _run_as_recorded(nodes, roots, requested, description)
                return
            except ChangedError:
                description = None


def count() -> int:
    """The number of an operation that is recorded now."""
    global _number
    _number += 1
    return _number


def _note_look() -> None:
    global _looked_at, _gap, _gap_before
    _gap_before, _gap, _looked_at = _gap, _number - _looked_at, _number


def unseen() -> int:
    """How many operations were recorded between two looks at values that had to be run, at most.

    Before the last two looks, and since.
    """
    return max(_number - _looked_at, _gap, _gap_before)


def _run_as_recorded(
    nodes: list[Node], roots: Sequence[Node], requested: bool, description: Any
) -> None:
    strict = nodes[0].signature.strict
    if options.strict is strict and options.backend == "llvm":
        _run(nodes, roots, requested, description)
    else:
        with Override("strict", strict), Override("backend", "llvm"):
            _run(nodes, roots, requested, description)


Node.run = staticmethod(run)


def _has_program(signature: Signature) -> bool:
    """Whether an operation that is little work is run by a program of its own.

    That is so if NumPy gives other bits, and if the operation is run often.
    """
    if signature.alone is None:
        signature.uses += 1
        own_bits = not (signature.exact or signature.shares)
        if signature.strict or not (own_bits or signature.uses > OFTEN):
            return False
        elementwise = signature.primitive.family == "elementwise"
        signature.alone = (own_bits or elementwise) and single_operations.is_compiled(
            signature.primitive, signature.avals, signature.params
        )
    return signature.alone


def _is_deferred(operands: Sequence[Any]) -> bool:
    return any(type(x) is Deferred for x in operands)


def _single(node: Node) -> bool:
    """Run an operation that is little work and needs no other: whether it is one."""
    signature = node.signature
    if not signature.counts or signature.cost > CHEAP or options.strict is not signature.strict:
        return False
    operands = []
    for x in node.operands:
        if node_of(x) is not None:
            return False
        operands.append(_known(x))
    if node.value is not None:
        return True  # another thread ran it meanwhile
    if signature.alone is not False and _has_program(signature) and not _is_deferred(operands):
        return False
    previous = state.source
    state.source = node.source
    try:
        node.value = _operation(signature, operands)
    finally:
        state.source = previous
    node.operands = ()
    return True


def settle(raw: Any) -> None:
    """Compute the recorded operations that read a raw value.

    Values do not know who reads them, so they are looked for among all that is recorded, but only
    if somebody besides the array and the caller refers to the value.
    """
    if sys.getrefcount(raw) > _ARRAY_ALONE:
        run(_readers(raw), requested=False)


def _find_readers(raw: Any) -> list[Node]:
    """The operations that have a raw value among their operands."""
    holders = {id(x): x for x in gc.get_referrers(raw) if type(x) is tuple}
    nodes = {n for x in holders.values() for n in gc.get_referrers(x) if type(n) is Node}
    return [n for n in nodes if n.value is None and id(n.operands) in holders]


_readers: Final[Callable[[Any], list[Node]]] = getattr(
    native.extension, "eager_readers", _find_readers
)


def _alone(holder: Sequence[Any]) -> int:
    def count(raw: Any) -> int:
        return sys.getrefcount(raw)

    return count(holder[0])


_ARRAY_ALONE: Final = _alone([object()])
Pending.settle = staticmethod(settle)


def _compute(values: Sequence[Any]) -> None:
    """Compute values that are pending by one program."""
    nodes = dict.fromkeys(node for x in values if (node := node_of(x)) is not None)
    if nodes:
        run(list(nodes))


Pending.compute = staticmethod(_compute)


def _run(nodes: list[Node], roots: Sequence[Node], requested: bool, description: Any) -> None:
    cost = sum([node.signature.cost for node in nodes])
    alone = len(nodes) == 1 and nodes[0].signature.alone is True
    if alone:
        alone = not _is_deferred([_known(x) for x in nodes[0].operands])
    if cost <= CHEAP and not alone and (len(nodes) == 1 or not all(map(_is_settled, nodes))):
        _one_by_one(nodes)
        return
    found = cut(nodes, roots if requested else ())
    executable = _compiled(found, CHEAP + 1 if alone else cost)
    if executable is None:
        _one_by_one(nodes)
        return
    if description and native.extension is not None:
        _, inputs, outputs, _ = description
        if len(found.inputs) == inputs and [n for n, _ in found.outputs] == outputs:
            native.extension.eager_remember(description, executable)
    results = executable(found.inputs)
    for (_, target), value in zip(found.outputs, results, strict=True):
        target.value = value
    for node in nodes:
        _let_go(node)


def _is_settled(node: Node) -> bool:
    """Whether an operation has the same bits one by one and in any program, even a cheap one.

    A sum of products has not: what computes it depends on how it is recognised.
    """
    signature = node.signature
    if signature.exact or signature.primitive.family == "elementwise":
        return True
    if signature.primitive.name != "reduce_sum":
        return False
    operand = node.operands[0]
    added = node_of(operand)
    if added is None:
        return not _is_deferred([_known(operand)])
    return added.signature.primitive.family == "elementwise" and not added.signature.exact


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
    previous = state.source
    try:
        for node in nodes:
            given = node.operands
            if node.value is not None:
                continue  # another thread was faster
            state.source = node.source
            out = _operation(node.signature, [_known(x) for x in given])
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


def _operation(signature: Signature, operands: list[Any]) -> Any:
    """The result of an operation, or a list of results: the bits that a program gives.

    Where the reference gives others it is compiled, alone.  Sums of products that are put off are
    the reference's all the same.
    """
    primitive, params = signature.primitive, signature.params
    if signature.strict or nan_check.enabled():
        return device_of("llvm").apply(primitive, operands, params)
    operands = [in_numpy(x) for x in operands]
    with np.errstate(all="ignore"):
        if signature.exact or _is_deferred(operands):
            return rule_of(primitive)(primitive, operands, params)
        if signature.shares and 0 < operands[0].size <= ROOM[-1]:
            return _in_room(signature, np.asarray(operands[0]))
        reference = device_of("interp").apply
        return single_operations.run(primitive, operands, params, _compile_one, reference)


def _in_room(signature: Signature, x: np.ndarray[Any, Any]) -> Any:
    """A function of few elements: arrays of several sizes share one program."""
    room = next(n for n in ROOM if x.size <= n)
    primitive, params = signature.primitive, signature.params
    key = (primitive, *params.items(), x.dtype, room, compile_context())
    executable = _rooms.get(key)
    if executable is None:
        operand = Var(signature.avals[0].update(shape=(room,)))
        out = Var(signature.results[0].update(shape=(room,)))
        one = Jaxpr((), [operand], [out], [Eqn(primitive, [operand], [out], params)], "eager")
        executable = _rooms[key] = _compile_one(one)
    padded = np.ones(room, x.dtype)
    padded[: x.size] = x.reshape(-1)
    (found,) = executable([padded])
    return in_numpy(found)[: x.size].reshape(x.shape)


def _compile_one(jaxpr: Jaxpr) -> Executable:
    with _rounded():
        return device_of("llvm").compile(jaxpr)


def _known(x: Any) -> Any:
    """An operand that is computed, as a raw value."""
    kind = type(x)
    if kind is Node or kind is Part:
        return x.value
    return x.val if kind is Literal else x


# ---- as a program -----------------------------------------------------------------------------


def _compiled(found: Cut, cost: int) -> Executable | None:
    """The program of a cut; None if it does not pay yet."""
    key = (compile_context(), *found.key)
    known = _programs.get(key)
    if known is None and len(_programs) >= MAX_PROGRAMS:
        _programs.clear()
    if cost <= CHEAP and (known is None or type(known) is int):
        alone = sum([not node.signature.exact for node in found.nodes])
        spent = cost + ALONE * alone + (known or 0)
        if spent < PAYS:
            _programs[key] = spent
            return None
    if known is None or type(known) is int:
        if options.strict:
            known = _programs[key] = device_of("llvm").compile(program(found))
        else:
            known = _programs[key] = _compile_one(program(found))
    return known


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


@contextmanager
def _rounded() -> Iterator[None]:
    """Programs in which what shares a kernel does not change a bit; contractions are units."""
    with Override("strict", True), Override("strict_tiles", True), Override("backend", "llvm"):
        yield


def forget() -> None:
    """Forget the compiled cuts."""
    with _lock:
        _programs.clear()
        _rooms.clear()
        if native.extension is not None:
            native.extension.eager_forget()
