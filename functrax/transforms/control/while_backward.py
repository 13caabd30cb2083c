"""Reverse mode through a loop of unknown length, in logarithmic memory.

The backward pass of ``carry = body(carry)`` needs the carries of every step in reverse order.  They
are computed again from checkpoints, by bisection: a stack holds carries of earlier steps; to get
at step ``t``, the loop runs from the top of the stack half of the way there and pushes what it
finds, until it is there.  The stack never holds more than 33 carries, one for each bit of the
number of steps; n steps cost O(n log n).

All of it is while loops over ordinary operations, so it can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from functrax.core import dtypes
from functrax.core.aval import ShapedArray
from functrax.core.index_expr import Dim, Load
from functrax.core.index_map import IndexMap
from functrax.core.jaxpr import Jaxpr
from functrax.core.primitive import Value, like, literal
from functrax.core.prims.arithmetic import add, ge, lt, sub
from functrax.core.prims.bitwise import shift_right_logical
from functrax.core.prims.mapped import reindex, scatter
from functrax.core.prims.reindex import full, zeros
from functrax.core.stage import eval_jaxpr
from functrax.transforms.linearize import SplitJaxpr
from functrax.transforms.transpose import transpose_jaxpr

#: Checkpoints that the backward pass may keep: enough for any int32 number of steps.
DEPTH = 33


def _one() -> Value:
    return literal(1, dtypes.int32)


def _row_map(shape: tuple[int, ...]) -> IndexMap:
    dims = tuple(Dim(i) for i in range(len(shape)))
    return IndexMap(shape, (DEPTH, *shape), (Load(0, []), *dims))


def _read(stack: Value, top: Value) -> Value:
    index_map = _row_map(stack.aval.shape[1:])
    return reindex.bind(stack, top, map=index_map, fill=like(stack, 0))


def _write(stack: Value, top: Value, row: Value) -> Value:
    index_map = _row_map(stack.aval.shape[1:])
    return scatter.bind(stack, row, top, map=index_map, op="set", unique=True)


def _new_stack(row: Value) -> Value:
    aval = row.aval
    empty = zeros(ShapedArray((DEPTH, *aval.shape), aval.dtype))
    return _write(empty, literal(0, dtypes.int32), row)


def while_cotangents(
    holds: Callable[[Sequence[Value]], Value],
    split: SplitJaxpr,
    body: Jaxpr,
    consts: Sequence[Value],
    init: Sequence[Value],
    linear: tuple[bool, ...],
    ct_carry: Sequence[Value],
    const_avals: Sequence[ShapedArray],
) -> tuple[list[Value], list[Value]]:
    """The cotangents of a loop's linear constants and linear initial carries.

    Args:
      holds: the condition, of the known carries.
      split: the body, split into known and unknown.
      body: the whole body, linear in the inputs that ``linear`` marks.
      consts: the known constants of the body.
      init: the known initial carries.
      linear: which of the body's constants and carries are linear.
      ct_carry: cotangents of the final linear carries.
      const_avals: types of the linear constants.
    """
    from functrax.transforms.control.while_loop import run_while

    num_known = len(init)

    def step(carry: Sequence[Value]) -> list[Value]:
        outs = eval_jaxpr(split.known.jaxpr, (), *split.known.consts, *consts, *carry)
        return outs[:num_known]

    nonzero = tuple(split.out_unknown)
    back = transpose_jaxpr(body, linear, nonzero, fill=True)
    zero = literal(0, dtypes.int32)
    count, *_ = run_while(
        lambda n, *carry: holds(carry),
        lambda n, *carry: [add.bind(n, _one()), *step(carry)],
        [full((), zero), *init],
        "count steps",
    )

    def advance(target: Value, start: Value, carry: Sequence[Value]) -> list[Value]:
        """The carries at step ``target``, from those at step ``start``."""
        _, *there = run_while(
            lambda i, *xs: lt.bind(i, target),
            lambda i, *xs: [add.bind(i, _one()), *step(xs)],
            [start, *carry],
            "advance",
        )
        return there

    def approach(t: Value, top: Value, stacks: Sequence[Value]) -> list[Value]:
        """Push checkpoints until the top of the stack is at step ``t``."""

        def halfway(top: Value, steps: Value, *states: Value) -> list[Value]:
            start = _read(steps, top)
            rest = add.bind(sub.bind(t, start), _one())
            middle = add.bind(start, shift_right_logical.bind(rest, _one()))
            carry = advance(middle, start, [_read(s, top) for s in states])
            above = add.bind(top, _one())
            rows = [middle, *carry]
            pushed = [_write(s, above, r) for s, r in zip([steps, *states], rows, strict=True)]
            return [above, *pushed]

        return run_while(
            lambda top, steps, *states: lt.bind(_read(steps, top), t),
            halfway,
            [top, *stacks],
            "approach",
        )

    def backwards(t: Value, top: Value, *rest: Value) -> list[Value]:
        stacks, cts = rest[: 1 + num_known], rest[1 + num_known :]
        totals, ct = cts[: len(const_avals)], cts[len(const_avals) :]
        top, *stacks_there = approach(t, top, stacks)
        carry = [_read(s, top) for s in stacks_there[1:]]
        found = eval_jaxpr(back.jaxpr, (), *back.consts, *consts, *carry, *ct)
        more, ct_before = found[: len(totals)], found[len(totals) :]
        sums = [add.bind(a, b) for a, b in zip(totals, more, strict=True)]
        return [sub.bind(t, _one()), sub.bind(top, _one()), *stacks_there, *sums, *ct_before]

    start = [
        sub.bind(count, _one()),
        full((), zero),
        *(_new_stack(x) for x in (full((), zero), *init)),
        *(zeros(a) for a in const_avals),
        *ct_carry,
    ]
    outs = run_while(lambda t, *rest: ge.bind(t, zero), backwards, start, "backwards")
    cts = outs[3 + num_known :]
    return cts[: len(const_avals)], cts[len(const_avals) :]
