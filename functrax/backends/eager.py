"""Lazy eager mode: operations outside of ``jit`` are recorded, and run when a value is needed.

:func:`record` is what the bottom interpreter does with an operation on arrays.  Types are inferred,
and errors of shapes and dtypes raised, at once; the operation itself becomes a
:class:`~functrax.backends.eager_graph.Node`, and arrays of it are what the user gets.  Looking at
one of them (``ConcreteArray.value``) cuts out what it depends on and runs it as one program
(``backends/eager_graph.py``, ``backends/eager_run.py``).

What may act on the world is not recorded: side effects, operations that hold programs, and all
operations while ``debug_nans`` looks for the one at fault, and operations on memory that others may
write to; these run at once (``device.execute``).

The graph stays bounded without being looked at.  Before an operation that would have more than
:data:`MAX_NODES` others to run, what is recorded of its region is run; from half of that on already
before an operation like one that the graph began with, so that a loop is cut at the same place of
its body each time, and finds its program again.  Both bounds are :data:`PATIENCE` more while
somebody looks at a value every so many operations.  When recorded operations hold more than
:data:`MAX_BYTES` of arrays, all of them are run.

Start at :func:`record`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

from functrax.backends import eager_run, nan_check
from functrax.backends.device import execute
from functrax.backends.eager_graph import (
    FEW_BYTES,
    GROWN,
    REPEATED,
    SMALL_BYTES,
    Node,
    Part,
    Recorded,
    Region,
    Signature,
    ancestors,
    cut,
    node_of,
    region_of,
)
from functrax.core import native
from functrax.core.array import Borrowed, ConcreteArray, Pending
from functrax.core.aval import ShapedArray
from functrax.core.config import compile_context, state as options, trace_context
from functrax.core.inputs import concrete
from functrax.core.jaxpr import Jaxpr, Literal
from functrax.core.locks import new_lock
from functrax.core.primitive import Primitive
from functrax.core.source import SourceLine, is_internal, user_line
from functrax.core.trace import EVAL, Trace, current_source

#: So many operations more may wait where values are looked at as often; most training steps are
#: fewer.
PATIENCE: Final = 1024
#: So many operations may wait for one value after that.
MAX_NODES: Final = 256
#: So many bytes of arrays may be kept alive by recorded operations alone.
MAX_BYTES: Final = 1 << 28
#: How many signatures are remembered.
_MAX_SIGNATURES: Final = 1 << 16
#: What an operation costs in NumPy: nanoseconds to begin with, and for each element.
_BEGIN: Final = 4000
_ELEMENT: Final = 1
#: Reindexes that NumPy does without touching the elements.
_VIEWS: Final = frozenset({"broadcast_in_dim", "transpose", "slice", "rev", "reshape"})

_signatures: dict[Any, Signature] = {}
_modes: dict[Any, Any] = {}
_now: Callable[[], int] = getattr(native.extension, "eager_now", eager_run.count)
_unseen: Callable[[], int] = getattr(native.extension, "eager_unseen", eager_run.unseen)


def record(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Apply a primitive to concrete arrays and literals, later.

    Args:
      primitive: the operation.
      args: arrays and literals.
      params: its parameters.

    Returns:
      An array whose value is pending, or a list of them.
    """
    if not primitive.pure or primitive.holds_programs or not records():
        return execute(primitive, args, params)
    for x in args:
        if type(x) is ConcreteArray and type(x._buffer) is Borrowed:
            return execute(primitive, args, params)
    simpler = primitive.simplify(*args, **params)
    if simpler is not None:
        return concrete(simpler)
    strict = options.strict
    signature = signature_of(primitive, strict, [x.aval for x in args], params)
    operands = tuple([_operand(x, strict) for x in args])
    found = _new_node(signature, operands, current_source())
    results = [ConcreteArray(x, aval) for x, aval in zip(found, signature.results, strict=True)]
    return results[0] if type(signature.types) is ShapedArray else results


EVAL.executor = record


def _node(
    signature: Signature, operands: tuple[Any, ...], source: SourceLine | None
) -> list[Recorded]:
    """Record an operation: what arrays of its results hold."""
    node = Node(signature, operands, source, *_extent(signature, operands))
    if signature.holds:
        _note_arrays(node)
    if type(signature.types) is ShapedArray:
        return [node]
    parts = [Part(node, number) for number in range(len(signature.results))]
    node.parts = tuple([weakref.ref(part) for part in parts])
    return [*parts]


_new_node: Final[Callable[..., list[Recorded]]] = getattr(native.extension, "eager_node", _node)


def records() -> bool:
    """Whether operations are recorded now."""
    return options.eager == "lazy" and options.backend == "llvm" and not nan_check.enabled()


def _mode() -> tuple[Any, ...] | None:
    """What decides how operations are recorded, one object for equal modes; None: not at all."""
    if not records():
        return None
    leaks = options.check_tracer_leaks
    mode: tuple[Any, ...] = (options.strict, trace_context(), compile_context(), leaks)
    found: tuple[Any, ...] = _modes.setdefault(mode, mode)
    return found


def signature_of(
    primitive: Primitive, strict: bool, avals: Sequence[ShapedArray], params: dict[str, Any]
) -> Signature:
    """What nodes of an operation share: one object for equal operations."""
    key = (primitive, strict, *avals, *params.items())
    found = _signatures.get(key)
    return _new_signature(key, primitive, tuple(avals), params) if found is None else found


def _new_signature(
    key: Any, primitive: Primitive, avals: tuple[ShapedArray, ...], params: dict[str, Any]
) -> Signature:
    results = primitive.infer(avals, params)
    types = (results,) if type(results) is ShapedArray else results
    sizes = [a.size for a in (*avals, *types)]
    touched = 0 if primitive.name in _VIEWS else max(sizes, default=0)
    cost = _BEGIN + _ELEMENT * touched
    if len(_signatures) >= _MAX_SIGNATURES:
        _signatures.clear()
    made = Signature(primitive, avals, params, key[1], results, cost)
    return _signatures.setdefault(key, made)


def _operand(x: Any, strict: bool) -> Any:
    """An operand as a node holds it."""
    if type(x) is Literal:
        return x
    if type(x) is not ConcreteArray:
        return x.val  # a value that is being transposed has none, and says so
    raw = x._buffer
    if isinstance(raw, (Node, Part)):
        node = node_of(raw)
        if node is not None and node.signature.strict is strict:
            return raw
    return x.buffer


# ---- bounds -----------------------------------------------------------------------------------


def _extent(signature: Signature, operands: tuple[Any, ...]) -> tuple[int, int, Region | None]:
    """What has to run for a new operation; its operands are run first if that is too much.

    Returns:
      The size, the begin and the region of the operation's node.
    """
    now = _now()
    producers = [n for x in operands if (n := node_of(x)) is not None]
    if not producers:
        return 1, now, None
    region = region_of(producers[0])
    size, begin = 0, now
    for node in producers:
        other = region_of(node)
        if other is not region:
            region = region.join(other, size, node.size)
        size += node.size
        begin = min(begin, node.begin)
    size = min(size, now - begin) + 1
    if size <= MAX_NODES // 2:
        return size, begin, region
    begins = signature in region.entries
    limit = MAX_NODES // 2 if begins else MAX_NODES
    if _unseen() < PATIENCE + (0 if begins else MAX_NODES):
        limit += PATIENCE
    if size <= limit or now - region.since <= limit:
        return size, begin, region
    return _counted(producers, begin, region, limit)


def _counted(
    producers: list[Node], begin: int, region: Region, limit: int
) -> tuple[int, int, Region | None]:
    """As :func:`_extent`, where the bound of the size is more than the limit."""
    now = _now()
    size = 1 + len(ancestors(producers))
    if size <= limit:
        region.since = now - size
        return size, begin, region
    _run_unasked(producers)
    grown = [n for n in producers if n.value is None]
    return 1 + len(ancestors(grown)), now, None


def _run_unasked(nodes: list[Node]) -> None:
    """Run operations whose values nobody asked for."""
    eager_run.run(nodes, requested=False)


def _bytes_of(nodes: Sequence[Node]) -> int:
    """The bytes of the arrays that operations keep alive."""
    return sum(
        {id(x): x.nbytes for n in nodes for x in n.operands if hasattr(x, "nbytes")}.values()
    )


def _sweep(nodes: Sequence[Node]) -> None:
    """Run operations that keep arrays alive, if these are many bytes."""
    if _bytes_of(nodes) > MAX_BYTES // 2:
        for node in nodes:
            _run_unasked([node])


class _Held:
    """Recorded operations that keep arrays alive, where there is no extension to count them."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._nodes: list[weakref.ref[Node]] = []
        self._bytes = 0

    def add(self, node: Node, nbytes: int) -> None:
        """Remember an operation on so many bytes of arrays; run all if they hold too much."""
        self._nodes.append(weakref.ref(node))
        self._bytes += nbytes
        if self._bytes > MAX_BYTES:
            self._sweep()

    def _sweep(self) -> None:
        with self._lock:
            alive = [n for ref in self._nodes if (n := ref()) is not None and n.value is None]
            self._bytes = _bytes_of(alive)
            self._nodes = [weakref.ref(n) for n in alive]
            if self._bytes <= MAX_BYTES // 2:
                return
            self._nodes, self._bytes = [], 0
        _sweep(alive)


_held: Final = _Held()


def _note_arrays(node: Node) -> None:
    """Count the arrays that an operation keeps alive; what is recorded itself counts elsewhere."""
    sizes = node.signature.operand_bytes
    nbytes = sum(
        size
        for x, size in zip(node.operands, sizes)
        if type(x) is not Literal and node_of(x) is None
    )
    if nbytes > FEW_BYTES:
        _held.add(node, nbytes)


def _install() -> None:
    """Tell C++, which records what it can, what it needs: see ``eager_record.h``."""
    if native.extension is None:
        return
    classes = (ConcreteArray, Node, Part, Literal, Borrowed, SourceLine, Signature, Trace)
    functions = (_mode, _sweep, is_internal, user_line, record, _run_unasked)
    bounds = (MAX_NODES, PATIENCE, SMALL_BYTES, GROWN, REPEATED, FEW_BYTES, MAX_BYTES)
    native.extension.eager_configure(classes, _signatures, functions, bounds)
    EVAL.executor = native.extension.eager_execute


_install()


def pending_program(array: ConcreteArray) -> Jaxpr | None:
    """The program that looking at an array would run; None if its value is known.

    >>> import functrax.numpy as jnp
    >>> x = jnp.arange(3.0)
    >>> print(pending_program(x + 1).as_text(source=False))
    { lambda ; a:f32[]. let
        b:f32[3] = iota[shape=(3,), dtype=f32, axis=0]
        c:f32[3] = broadcast_in_dim[shape=(3,), dims=()] a
        d:f32[3] = add b c
      in (b, d) }
    """
    node = node_of(array._buffer) if isinstance(array._buffer, Pending) else None
    return None if node is None else eager_run.program(cut(ancestors([node]), [node]), "pending")
