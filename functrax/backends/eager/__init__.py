"""Lazy eager mode: operations outside of ``jit`` are recorded, and run when a value is needed.

:func:`record` is what the bottom interpreter does with an operation on arrays.  Types are inferred,
and errors of shapes and dtypes raised, at once; the operation itself becomes a node of a graph, and
arrays of it are what the user gets.  Looking at one of them (``ConcreteArray.value``) cuts out what
it depends on and runs it as one program (``native/eager_run.h``, ``backends/eager/run.py``).

What may act on the world is not recorded: side effects, operations that hold programs, all
operations while ``debug_nans`` looks for the one at fault, and operations on memory that others may
write to, that another device has, or that is bound to one; these run at once (``device.execute``).
So does everything without the extension.  The default device runs what is recorded, and a graph has
operations of several devices where the default changes (``settings.py``).

The graph stays bounded without being looked at.  Before an operation that would have more than
:data:`MAX_NODES` others to run, what is recorded of its region is run; from half of that on already
before an operation like one that the graph began with, so that a loop is cut at the same place of
its body each time, and finds its program again.  Both bounds are :data:`PATIENCE` more while
somebody looks at a value every so many operations.  For a GPU they are less, so that it works while
the host records.  When recorded operations hold more than
:data:`MAX_BYTES` of arrays, all of them are run.

Start at :func:`record`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from functrax.backends.cost import numpy_ns
from functrax.backends.device import execute
from functrax.backends.eager import run as eager_run
from functrax.backends.eager.graph import FEW_BYTES, REPEATED, SMALL_BYTES, Cut, Signature
from functrax.backends.eager.settings import Setting, current_setting
from functrax.backends.reference.strided import OUTGROWN
from functrax.backends.targets import target
from functrax.core import native
from functrax.core.arrays.array import Borrowed, ConcreteArray, Pending
from functrax.core.errors.source import SourceLine, is_internal, user_line
from functrax.core.errors.typed import ArgumentError
from functrax.core.ir.jaxpr import Jaxpr, Literal
from functrax.core.options.config import compile_context, state as options, trace_context
from functrax.core.prims.reindex import Reindex
from functrax.core.tracing.inputs import concrete
from functrax.core.tracing.primitive import MAX_REMEMBERED, Primitive
from functrax.core.tracing.trace import EVAL, Trace, current_source
from functrax.core.types.aval import ShapedArray

#: So many operations more may wait where values are looked at as often; most training steps are
#: fewer.
PATIENCE: Final = 1024
#: So many operations may wait for one value after that.
MAX_NODES: Final = 256
#: So many bytes of arrays may be kept alive by recorded operations alone.
MAX_BYTES: Final = 1 << 28

_signatures: dict[Any, Signature] = {}
_modes: dict[Any, Any] = {}


def record(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Apply a primitive to concrete arrays and literals, later.

    Args:
      primitive: the operation.
      args: arrays and literals.
      params: its parameters.

    Returns:
      An array whose value is pending, or a list of them.
    """
    setting = current_setting()
    if setting is None or not primitive.pure or primitive.holds_programs:
        return execute(primitive, args, params)
    for x in args:
        if not setting.takes(x):
            return execute(primitive, args, params)
    simpler = primitive.simplify(*args, **params)
    if simpler is not None:
        return concrete(simpler)
    signature = signature_of(primitive, setting, [x.aval for x in args], params)
    single = type(signature.types) is ShapedArray
    if native.extension is None:
        operands = [x.buffer if type(x) is ConcreteArray else x.val for x in args]
        out = eager_run.operation(signature, operands)
        found = [out] if single else out
    else:
        found = native.extension.eager_node(signature, args, current_source())
    results = [ConcreteArray(x, aval) for x, aval in zip(found, signature.results, strict=True)]
    return results[0] if single else results


EVAL.executor = record


def _mode() -> tuple[Any, ...] | None:
    """What decides how operations are recorded, one object for equal modes; None: not at all."""
    setting = current_setting()
    if setting is None:
        return None
    leaks = options.check_tracer_leaks
    mode: tuple[Any, ...] = (setting, trace_context(), compile_context(), leaks)
    found: tuple[Any, ...] = _modes.setdefault(mode, mode)
    return found


def signature_of(
    primitive: Primitive, setting: Setting, avals: Sequence[ShapedArray], params: dict[str, Any]
) -> Signature:
    """What nodes of an operation share: one object for equal operations."""
    key = (primitive, setting, *avals, *params.items())
    found = _signatures.get(key)
    return _new_signature(key, primitive, tuple(avals), params) if found is None else found


def _new_signature(
    key: Any, primitive: Primitive, avals: tuple[ShapedArray, ...], params: dict[str, Any]
) -> Signature:
    results = primitive.infer(avals, params)
    types = (results,) if type(results) is ShapedArray else results
    sizes = [a.size for a in (*avals, *types)]
    is_view = isinstance(primitive, Reindex) and not primitive.has_fill  # which NumPy does not copy
    touched = 0 if is_view else max(sizes, default=0)
    cost = numpy_ns(touched, target())
    if len(_signatures) >= MAX_REMEMBERED:
        _signatures.clear()
    made = Signature(primitive, avals, params, key[1], results, cost)
    return _signatures.setdefault(key, made)


def _install() -> None:
    """Tell C++, which records what it can, what it needs: see ``native/eager_state.h``."""
    if native.extension is None:
        return
    classes = (ConcreteArray, Literal, Borrowed, SourceLine, Signature, Trace, Setting)
    functions = (
        _mode,
        is_internal,
        user_line,
        record,
        eager_run.compute,
        eager_run.compute_single,
        eager_run.compute_each,
        eager_run.prepare,
        eager_run.recover,
    )
    bounds = (MAX_NODES, PATIENCE, SMALL_BYTES, OUTGROWN, REPEATED, FEW_BYTES, MAX_BYTES)
    native.extension.eager_configure(classes, _signatures, functions, bounds)
    EVAL.executor = native.extension.eager_execute
    _set_stress(os.environ.get("FUNCTRAX_EAGER_STRESS", ""))


# ---- a mode for tests -------------------------------------------------------------------------


def _set_stress(text: str) -> None:
    numbers = {"every": 0, "seed": 0, "collect": 0}
    for part in filter(None, text.replace(" ", "").split(",")):
        name, _, number = part.partition("=")
        if name not in numbers or not (number.isdigit() or (name == "collect" and not number)):
            raise ArgumentError(
                "eager: FUNCTRAX_EAGER_STRESS says where else recorded operations are cut",
                got=repr(text),
                fix="every=7, or seed=3, each perhaps with ,collect behind it",
            )
        numbers[name] = int(number or 1)
    if native.extension is not None:
        native.extension.eager_stress(numbers["every"], numbers["seed"], bool(numbers["collect"]))


@contextmanager
def stress(text: str) -> Iterator[None]:
    """Cut what is recorded at other places than usual, to find faults: a mode for tests.

    Args:
      text: ``"every=7"`` cuts after every seventh operation, ``"seed=3"`` at random places and in
        random ways; with ``",collect"`` behind it garbage is collected before each cut.  The
        environment variable ``FUNCTRAX_EAGER_STRESS`` has the same form.

    Raises:
      ArgumentError: for another text.
    """
    _set_stress(text)
    try:
        yield
    finally:
        _set_stress(os.environ.get("FUNCTRAX_EAGER_STRESS", ""))


_install()


def pending_program(array: ConcreteArray) -> Jaxpr | None:
    """The program that looking at an array would run; None if its value is known.

    Args:
      array: an array.

    Returns:
      A program whose inputs are the arrays that are known, and whose last result is ``array``; or
        None.

    >>> import functrax.numpy as jnp
    >>> x = jnp.arange(3.0)
    >>> print(pending_program(x + 1).as_text(source=False))
    { lambda ; a:f32[]. let
        b:f32[3] = iota[shape=(3,), dtype=f32, axis=0]
        c:f32[3] = broadcast_in_dim[shape=(3,), dims=()] a
        d:f32[3] = add b c
      in (b, d) }
    """
    value = array._buffer
    if native.extension is None or type(value) is not Pending:
        return None
    fields = native.extension.eager_pending(value)
    return None if fields is None else eager_run.program(Cut(*fields), "pending")
