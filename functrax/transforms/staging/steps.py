"""``steps``: many steps of a training loop as one program, bit for bit what as many calls give.

A step is compiled by itself, as a call of it would be.  The program of many steps is a loop around
that very program: the same kernels run on the same shapes, so neither another fusion nor another
order of a sum can change a bit, and a step takes as many launches as before.  What falls away is
what each call costs: reading the arguments, making results, and the Python around it.

``lax.scan`` compiles the body as part of the loop, and may fuse it in another way.

Start at :class:`Steps`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functrax.backends.cpu import CpuDevice
from functrax.backends.device import Executable, current_device
from functrax.backends.executables.program import CondInstruction, RuntimeProgram, ScanInstruction
from functrax.backends.executables.program_builder import ProgramBuilder
from functrax.backends.runtime.choice import load
from functrax.core.arrays.array import ConcreteArray
from functrax.core.boundaries.tracebacks import boundary
from functrax.core.errors.typed import ArgumentError, DTypeError, PyTreeError, ShapeError
from functrax.core.options.config import state as options, trace_context
from functrax.core.prims.arithmetic import add
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.reindex import reshape
from functrax.core.prims.slicing import concatenate, slice_
from functrax.core.pytree.operations import (
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_unflatten,
)
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.trace import EVAL, Tracer, state
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import check_callable, name_of
from functrax.transforms.arguments.leaf_types import leaf_types
from functrax.transforms.control.stepwise import row
from functrax.transforms.control.user_loops import scan
from functrax.transforms.staging.jit import Jitted, jit
from functrax.transforms.staging.traces import Traced

_INT32 = np.dtype(np.int32)


def steps(
    step: Callable[..., Any], k: int, *, batch: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """``k`` steps of a loop as one program, equal to ``k`` calls in every bit.

    Args:
      step: takes ``(carry, batch)`` and returns ``(carry, out)``, pytrees of arrays; the carry
        keeps its structure, shapes and dtypes.  It may be jitted already.
      k: the number of steps, at least 1.
      batch: where a batch comes from, if not from a stack of batches: a function of the data and
        the number of the step, an int32, which is compiled into the loop.

    Returns:
      Without ``batch``, a function of ``(carry, batches)``, where each array of ``batches`` has a
      leading axis of size ``k`` (None if ``step`` takes None); with it, a function of
      ``(carry, data, first=0)``, whose steps get ``batch(data, first)``, ``batch(data, first + 1)``
      and so on.  Both return the last carry, and the ``out`` of all steps stacked along a new
      leading axis.  The results are those of ``k`` calls of ``jit(step)``.  Under another
      transformation they are those of ``lax.scan``, and may differ in the last bits.

    Raises:
      ArgumentError: if ``k`` is no positive integer.
      ShapeError: if the leading sizes are not ``k``, or the carry changes its shape.
      DTypeError: if the carry changes its dtype.
      PyTreeError: if ``step`` returns no pair, or the carry changes its structure.

    >>> import functrax, functrax.numpy as jnp
    >>> def step(w, x):
    ...     error = w * x - 3 * x
    ...     return w - 0.1 * error * x, error**2
    >>> w, losses = functrax.steps(step, 4)(jnp.float32(0), jnp.ones(4))
    >>> losses.shape
    (4,)
    """
    check_callable("steps", step)
    given: Any = k
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < 1:
        raise ArgumentError("steps: k is the number of steps", got=repr(k), fix="1, or more")
    many = Steps(step, int(k), batch)
    if batch is None:

        @functools.wraps(step, updated=())
        @boundary
        def run(carry: Any, batches: Any = None) -> tuple[Any, Any]:
            return many.stacked(carry, batches)

        return run

    @functools.wraps(step, updated=())
    @boundary
    def run_numbered(carry: Any, data: Any, first: Any = 0) -> tuple[Any, Any]:
        return many.numbered(carry, data, first)

    return run_numbered


class _Loop(NamedTuple):
    """Many steps, compiled.

    Args:
      executable: takes the constants, the carry and the rows, and the data behind the constants.
      consts: raw values.
      results: the types of the last carry and of the stacked results.
    """

    executable: Executable
    consts: tuple[Any, ...]
    results: tuple[ShapedArray, ...]


class _Step(NamedTuple):
    """One step for a carry and a batch of certain types.

    Args:
      traced: the program of the step.
      maker: the program of its batch, if there is a function for that.
      keeps: whether the carry has the same types after it.
    """

    traced: Traced
    maker: Traced | None
    keeps: bool


class Steps:
    """See :func:`steps`."""

    def __init__(self, step: Callable[..., Any], k: int, batch: Callable[..., Any] | None) -> None:
        self._name = name_of(step)
        self._step = step if isinstance(step, Jitted) else jit(step)
        self._batch = batch if batch is None or isinstance(batch, Jitted) else jit(batch)
        self._k = k
        self._known: dict[Any, _Step] = {}
        self._loops: dict[Any, _Loop] = {}

    def stacked(self, carry: Any, batches: Any = None) -> tuple[Any, Any]:
        """The steps on a stack of batches."""
        rows = _values(batches, "a batch of steps")
        for x in tree_flatten(rows)[0]:
            if x.aval.shape[:1] != (self._k,):
                raise ShapeError(
                    f"steps: {self._name} is to run {self._k} times",
                    got=f"an array {x.aval.str_short()} of batches",
                    fix=f"a leading axis of size {self._k}: one batch for each step",
                )
        return self._run(carry, rows, ())

    def numbered(self, carry: Any, data: Any, first: Any = 0) -> tuple[Any, Any]:
        """The steps on batches that a function makes."""
        start = as_value(first, "the number of the first step")
        if start.aval.shape or not dtypes.is_integer(start.aval.dtype):
            raise ArgumentError(
                "steps: first is the number of the first step",
                got=start.aval.str_short(),
                fix="an integer",
            )
        start = convert_element_type.bind(start, dtype=_INT32, weak_type=False)
        numbers = as_value(np.arange(self._k, dtype=_INT32))
        ones = reshape.bind(start, shape=(1,))
        same = concatenate.bind(*[ones] * self._k, axis=0) if self._k > 1 else ones
        return self._run(carry, add.bind(same, numbers), _values(data, "the data of steps"))

    def _run(self, carry: Any, rows: Any, data: Any) -> tuple[Any, Any]:
        carry = _values(carry, "a carry of steps")
        leaves = tree_flatten((carry, rows, data))[0]
        if state.trace is not EVAL or any(isinstance(x, Tracer) for x in leaves):
            return scan(lambda c, x: self._call(c, x, data), carry, rows, self._k)
        compiles = isinstance(current_device(), CpuDevice) and not options.disable_jit
        outs: list[Any] = []
        while len(outs) < self._k:
            step = None if options.disable_jit else self._settled(carry, rows, data)
            if compiles and step is not None and step.keeps:
                carry, last = self._loop(step, carry, _rest(rows, len(outs)), data, len(outs))
                return carry, _joined(outs, last)
            carry, out = self._call(carry, _map(lambda x: row(x, len(outs)), rows), data)
            outs.append(out)
        return carry, _joined(outs, None)

    def _call(self, carry: Any, x: Any, data: Any) -> tuple[Any, Any]:
        """One step by itself."""
        batch = x if self._batch is None else self._batch(data, x)
        return _pair(self._name, self._step(carry, batch))

    # ---- compiling ----------------------------------------------------------------------------

    def _settled(self, carry: Any, rows: Any, data: Any) -> _Step:
        """The step for values of these types."""
        types = _map(lambda x: x.aval, (carry, rows, data))
        leaves, tree = tree_flatten(types)
        key = (tree, tuple(leaves), trace_context())
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._traced(*types)
        return found

    def _traced(self, carry: Any, rows: Any, data: Any) -> _Step:
        batch, maker = _map(_row_type, rows), None
        if self._batch is not None:
            maker = self._batch.lower(data, batch).traced
            batch = tree_unflatten(maker.out_tree, maker.jaxpr.out_avals)
        traced = self._step.lower(carry, batch).traced
        after, _ = _pair(self._name, tree_unflatten(traced.out_tree, traced.jaxpr.out_avals))
        return _Step(traced, maker, _keeps(self._name, carry, after))

    def _loop(self, step: _Step, carry: Any, rows: Any, data: Any, done: int) -> tuple[Any, Any]:
        length = self._k - done
        key = (step.traced.jaxpr, length, options.strict, options.debug_nans, options.debug_infs)
        loop = self._loops.get(key)
        num_carry = len(tree_flatten(carry)[0])
        if loop is None:
            loop = self._loops[key] = _compiled(step, num_carry, length)
        values = [x.buffer for x in tree_flatten((data, carry, rows))[0]]
        outs = loop.executable([*loop.consts, *values])
        arrays = [ConcreteArray(v, a) for v, a in zip(outs, loop.results, strict=True)]
        result: tuple[Any, Any] = tree_unflatten(step.traced.out_tree, arrays)
        return result


def _compiled(step: _Step, num_carry: int, length: int) -> _Loop:
    """The program that runs a step many times."""
    traced, maker = step.traced, step.maker
    program = CpuDevice().compiled(traced.jaxpr).program
    consts = list(traced.consts)
    if maker is not None:
        made = CpuDevice().compiled(maker.jaxpr).program
        program = _with_batch(program, made, len(consts), num_carry, len(maker.consts))
        consts += maker.consts
    outer = ProgramBuilder(f"{length} x {program.name}")
    slots = [program.slots[s] for s in program.inputs]
    first_row = len(slots) - _num_rows(step, num_carry)
    inputs = [
        outer.input((length, *s.shape) if n >= first_row else s.shape, s.dtype)
        for n, s in enumerate(slots)
    ]
    first = first_row - num_carry
    types = [program.slots[s] for s in program.outputs]
    outputs = [
        outer.value(s.shape if n < num_carry else (length, *s.shape), s.dtype)
        for n, s in enumerate(types)
    ]
    consts_slots, carry_slots = tuple(inputs[:first]), tuple(inputs[first:first_row])
    rows = tuple(inputs[first_row:])
    outer.add(ScanInstruction(program, length, consts_slots, carry_slots, rows, tuple(outputs)))
    avals = traced.jaxpr.out_avals
    results = [
        a if n < num_carry else ShapedArray((length, *a.shape), a.dtype, a.weak_type)
        for n, a in enumerate(avals)
    ]
    raw = tuple([c.buffer for c in consts])
    return _Loop(load(outer.build(outputs)), raw, tuple(results))


def _num_rows(step: _Step, num_carry: int) -> int:
    """How many of the inputs change with the step."""
    if step.maker is not None:
        return 1
    return len(step.traced.jaxpr.invars) - len(step.traced.consts) - num_carry


def _with_batch(
    step: RuntimeProgram,
    maker: RuntimeProgram,
    num_consts: int,
    num_carry: int,
    num_maker_consts: int,
) -> RuntimeProgram:
    """A program that makes a batch, and then the step.

    Its inputs are the constants of the step, those of the maker, the data, the carry, the number.
    """
    whole = ProgramBuilder(step.name)
    zero = whole.const(np.int32(0))

    def inputs(program: RuntimeProgram, begin: int, end: int) -> list[int]:
        slots = [program.slots[s] for s in program.inputs[begin:end]]
        return [whole.input(s.shape, s.dtype) for s in slots]

    def call(program: RuntimeProgram, operands: Sequence[int]) -> list[int]:
        slots = [program.slots[s] for s in program.outputs]
        results = [whole.value(s.shape, s.dtype) for s in slots]
        whole.add(CondInstruction(zero, (program,), tuple(operands), tuple(results)))
        return results

    last = len(maker.inputs) - 1
    consts = inputs(step, 0, num_consts)
    data = inputs(maker, 0, last)
    carry = inputs(step, num_consts, num_consts + num_carry)
    batch = call(maker, [*data, *inputs(maker, last, last + 1)])
    return whole.build(call(step, [*consts, *carry, *batch]))


# ---- pytrees ----------------------------------------------------------------------------------


def _map(function: Callable[[Any], Any], tree: Any) -> Any:
    leaves, structure = tree_flatten(tree)
    return tree_unflatten(structure, map(function, leaves))


def _values(tree: Any, what: str) -> Any:
    return _map(lambda x: as_value(x, what), tree)


def _row_type(aval: ShapedArray) -> ShapedArray:
    return ShapedArray(aval.shape[1:], aval.dtype, aval.weak_type)


def _pair(name: str, result: Any) -> tuple[Any, Any]:
    if isinstance(result, (tuple, list)) and len(result) == 2:
        return result[0], result[1]
    raise PyTreeError(
        f"steps: {name} does not return a pair",
        got=type(result).__name__,
        fix="return carry, out; out may be None",
    )


def _keeps(name: str, before: Any, after: Any) -> bool:
    """Whether the types of the carry stay; weak ones may settle in the first steps."""
    given, tree = tree_flatten_with_path(before)
    made, made_tree = tree_flatten(after)
    if tree != made_tree:
        raise PyTreeError(
            f"steps: {name} returns a carry of another structure than it was given",
            got=f"given {tree}, returned {made_tree}",
            fix="return the carry in the containers that it came in",
        )
    types = leaf_types(tree, [a for _, a in given])
    for (path, aval), a, b in zip(given, types, leaf_types(tree, made), strict=True):
        what = f"carry{keystr(path)} was {a.str_short()} and becomes {b.str_short()}"
        if a.shape != b.shape:
            raise ShapeError(
                f"steps: {name} changes the shape of a carry",
                got=what,
                fix="carries keep their shapes; return what grows as out",
            )
        if a.dtype != b.dtype and not aval.weak_type:
            raise DTypeError(
                f"steps: {name} changes the dtype of a carry",
                got=what,
                fix=f"start from an array of dtype {b.dtype}",
            )
    return all(a == b for (_, a), b in zip(given, made, strict=True))


def _rest(rows: Any, done: int) -> Any:
    """The rows that are left."""

    def rest(x: Value) -> Value:
        shape = x.aval.shape
        start = (done, *[0] * (len(shape) - 1))
        return slice_.bind(x, start=start, limit=shape, strides=(1,) * len(shape))

    return _map(rest, rows) if done else rows


def _joined(outs: Sequence[Any], last: Any) -> Any:
    """Results of single steps, and behind them those that are stacked already."""
    if not outs:
        return last
    trees = [_map(lambda x: reshape.bind(x, shape=(1, *x.aval.shape)), _values(o, "a result"))
             for o in outs]  # fmt: skip
    if last is not None:
        trees.append(last)
    columns = zip(*[tree_flatten(t)[0] for t in trees], strict=True)
    joined = [concatenate.bind(*c, axis=0) if len(c) > 1 else c[0] for c in columns]
    return tree_unflatten(tree_flatten(trees[0])[1], joined)
