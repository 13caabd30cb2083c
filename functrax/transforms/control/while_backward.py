"""Reverse mode through a loop of unknown length, in memory that does not grow with the loop.

The backward pass of ``carry = body(carry)`` needs the carries of every step in reverse order.  They
are computed again from checkpoints: a stack of ``rows`` carries of earlier steps; to get at step
``t``, the loop runs from the top of the stack part of the way there and pushes what it finds, until
it is there.  The part is chosen by how many rows are free (:func:`_part_of_the_way`): a step each
if there is room for all, else even parts that leave room for bisection inside each.  When the stack
is full, the loop runs from its top each time.

The backward pass knows the number of steps, so a checkpoint holds no carry that only the condition
looks at (:func:`needed_carries`).

All of it is while loops over ordinary operations, so it can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from functrax.core.index.expr import Dim, Load
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.prims.arithmetic import add, div, max_, select_n, sub
from functrax.core.prims.bitwise import clz
from functrax.core.prims.comparisons import and_, eq, ge, lt
from functrax.core.prims.convert import convert_element_type
from functrax.core.prims.mapped import reindex, scatter
from functrax.core.prims.reindex import full, zeros
from functrax.core.tracing.primitive import Value, like, literal
from functrax.core.tracing.stage import eval_jaxpr, live_eqns
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.control.scan import chosen, merged, others, rearranged
from functrax.transforms.interpreters.linearize import SplitJaxpr
from functrax.transforms.interpreters.transpose import transpose_jaxpr

#: Checkpoints that the backward pass keeps unless told otherwise: bisection needs no more for any
#: int32 number of steps.
DEFAULT_ROWS = 33

#: Runs a loop: its condition, its body, the first carries, and what it is called.
Step: TypeAlias = "Callable[..., Sequence[Value]]"
Loop: TypeAlias = "Callable[[Callable[..., Value], Step, Sequence[Value], str], list[Value]]"


def _integer(n: int) -> Value:
    return literal(n, dtypes.int32)


def _zero() -> Value:
    return full((), _integer(0))


def _row_map(stack: ShapedArray) -> IndexMap:
    shape = stack.shape[1:]
    dims = tuple(Dim(i) for i in range(len(shape)))
    return IndexMap(shape, stack.shape, (Load(0, []), *dims))


def _read(stack: Value, top: Value) -> Value:
    index_map = _row_map(stack.aval)
    return reindex.bind(stack, top, map=index_map, fill=like(stack, 0))


def _write(stack: Value, top: Value, row: Value) -> Value:
    index_map = _row_map(stack.aval)
    return scatter.bind(stack, row, top, map=index_map, op="set", unique=True)


def _new_stack(rows: int, row: Value) -> Value:
    aval = row.aval
    empty = zeros(ShapedArray((rows, *aval.shape), aval.dtype))
    return _write(empty, _integer(0), row)


def _part_of_the_way(steps: Value, free: Value) -> Value:
    """How many of ``steps`` steps to go before the next checkpoint, with ``free`` rows left.

    One, if every step can have a row; else the steps are divided by the rows that bisection of a
    part leaves over.
    """
    bits = sub.bind(_integer(32), clz.bind(steps))
    parts = max_.bind(_integer(2), sub.bind(free, bits))
    even = div.bind(sub.bind(add.bind(steps, parts), _integer(1)), parts)
    return select_n.bind(ge.bind(free, steps), even, _integer(1))


def _reads(jaxpr: Jaxpr, results: Sequence[bool]) -> list[bool]:
    """Which inputs of a program the given results depend on."""
    wanted = [v for v, flag in zip(jaxpr.outvars, results, strict=True) if flag]
    read = {x for eqn in live_eqns(jaxpr.eqns, wanted, effects=False) for x in eqn.invars}
    return [v in read or v in wanted for v in jaxpr.invars]


def _with_what_they_need(step: Jaxpr, num_consts: int, flags: Sequence[bool]) -> list[bool]:
    """The carries marked, and those that a step, or several, makes them of."""
    flags = list(flags)
    while True:
        read = _reads(step, flags)[num_consts:]
        more = [a or b for a, b in zip(flags, read, strict=True)]
        if more == flags:
            return flags
        flags = more


def _restricted(step: Jaxpr, num_consts: int, flags: Sequence[bool]) -> Jaxpr:
    """The step of some of the carries alone, without side effects: it has run before."""
    inputs = [*step.invars[:num_consts], *chosen(step.invars[num_consts:], flags)]
    outs = chosen(step.outvars, flags)
    return Jaxpr((), inputs, outs, live_eqns(step.eqns, outs, effects=False), step.name)


def _without_effects(body: Jaxpr) -> Jaxpr:
    """The same program, to be run again: what it prints has been printed."""
    if not body.effects:
        return body
    if "without effects" not in body.memo:
        eqns = live_eqns(body.eqns, body.outvars, effects=False)
        body.memo["without effects"] = Jaxpr((), body.invars, body.outvars, eqns, body.name)
    found: Jaxpr = body.memo["without effects"]
    return found


class Replay:
    """The steps of a loop that has run, again and again.

    Args:
      step: a program from constants and all carries to all new carries.
      consts: values of the constants.
      flags: which carries matter; the others are left out.
      loop: runs loops.
    """

    def __init__(
        self, step: Jaxpr, consts: Sequence[Value], flags: Sequence[bool], loop: Loop
    ) -> None:
        self.loop = loop
        self.flags = _with_what_they_need(step, len(consts), flags)
        self.step = _restricted(step, len(consts), self.flags)
        self.consts = consts

    def advance(self, carry: Sequence[Value]) -> list[Value]:
        """One step."""
        return eval_jaxpr(self.step, (), *self.consts, *carry)

    def run(self, target: Value, start: Value, carry: Sequence[Value]) -> list[Value]:
        """The carries at step ``target``, from those at step ``start``."""
        _, *there = self.loop(
            lambda i, *xs: lt.bind(i, target),
            lambda i, *xs: [add.bind(i, _integer(1)), *self.advance(xs)],
            [start, *carry],
            "advance",
        )
        return there

    def count(self, cond: Jaxpr, of_cond: Sequence[Value], init: Sequence[Value]) -> Value:
        """The number of steps while a condition of all these carries holds."""
        count, *_ = self.loop(
            lambda n, *xs: eval_jaxpr(cond, (), *of_cond, *xs)[0],
            lambda n, *xs: [add.bind(n, _integer(1)), *self.advance(xs)],
            [_zero(), *init],
            "count steps",
        )
        return count


class Checkpoints:
    """A stack of carries of earlier steps, with the numbers of these steps.

    Values of it, which loops carry, are ``[top, *stacks]``: the highest row in use; then the
    numbers of steps and the carries, each with a leading axis of ``rows``.
    """

    def __init__(self, replay: Replay, rows: int) -> None:
        self.replay = replay
        self.rows = rows

    def start(self, init: Sequence[Value]) -> list[Value]:
        """The stack with the carries before the first step."""
        return [_zero(), *(_new_stack(self.rows, x) for x in (_zero(), *init))]

    def approach(self, t: Value, saved: Sequence[Value]) -> list[Value]:
        """Push checkpoints until the top is at step ``t`` or the stack is full."""

        def unfinished(top: Value, steps: Value, *states: Value) -> Value:
            room = lt.bind(top, _integer(self.rows - 1))
            return and_.bind(room, lt.bind(_read(steps, top), t))

        def push(top: Value, steps: Value, *states: Value) -> list[Value]:
            start = _read(steps, top)
            free = sub.bind(_integer(self.rows - 1), top)
            place = add.bind(start, _part_of_the_way(sub.bind(t, start), free))
            carry = self.replay.run(place, start, [_read(s, top) for s in states])
            above = add.bind(top, _integer(1))
            rows = [place, *carry]
            pushed = [_write(s, above, r) for s, r in zip([steps, *states], rows, strict=True)]
            return [above, *pushed]

        return self.replay.loop(unfinished, push, saved, "approach")

    def carry_at(self, t: Value, saved: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """The carries at step ``t``, once approached; and the stack without what is of no more use.

        That is the top, if it is at step ``t``: the next to be asked for is the step before.
        """
        top, steps, *states = saved
        start = _read(steps, top)
        carry = self.replay.run(t, start, [_read(s, top) for s in states])
        used = convert_element_type.bind(eq.bind(start, t), dtype=dtypes.int32)
        return carry, [sub.bind(top, used), steps, *states]


def while_cotangents(
    cond: Jaxpr,
    of_cond: Sequence[Value],
    split: SplitJaxpr,
    body: Jaxpr,
    consts: Sequence[Value],
    init: Sequence[Value],
    linear: tuple[bool, ...],
    ct_carry: Sequence[Value],
    const_avals: Sequence[ShapedArray],
    rows: int,
    loop: Loop,
) -> tuple[list[Value], list[Value]]:
    """The cotangents of a loop's linear constants and linear initial carries.

    Args:
      cond: the condition, of its constants and the known carries.
      of_cond: its constants.
      split: the body, split into known and unknown.
      body: the whole body, linear in the inputs that ``linear`` marks.
      consts: the known constants of the body.
      init: the known initial carries.
      linear: which of the body's constants and carries are linear.
      ct_carry: cotangents of the final linear carries.
      const_avals: types of the linear constants.
      rows: how many checkpoints to keep.
      loop: runs loops.
    """
    known = split.known.jaxpr
    step = rearranged(known, range(len(known.invars)), range(len(init)))
    given = [*split.known.consts, *consts]
    back = transpose_jaxpr(_without_effects(body), linear, tuple(split.out_unknown), fill=True)

    tested = Replay(step, given, _reads(cond, (True,))[len(of_cond) :], loop)
    seen_by_cond = [*[True] * len(of_cond), *tested.flags]
    test = Jaxpr((), chosen(cond.invars, seen_by_cond), cond.outvars, cond.eqns, cond.name)
    count = tested.count(test, of_cond, chosen(init, tested.flags))

    first = len(back.consts) + len(consts)
    read = _reads(back.jaxpr, [True] * len(back.jaxpr.outvars))[first : first + len(init)]
    replay = Replay(step, given, read, loop)
    stack = Checkpoints(replay, rows)
    saved_now = stack.start(chosen(init, replay.flags))
    num_saved = len(saved_now)

    def backwards(t: Value, *rest: Value) -> list[Value]:
        saved, cts = rest[:num_saved], rest[num_saved:]
        totals, ct = cts[: len(const_avals)], cts[len(const_avals) :]
        carry, saved_there = stack.carry_at(t, stack.approach(t, saved))
        unread = [zeros(x.aval) for x in others(init, replay.flags)]
        whole = merged(replay.flags, carry, unread)
        found = eval_jaxpr(back.jaxpr, (), *back.consts, *consts, *whole, *ct)
        more, ct_before = found[: len(totals)], found[len(totals) :]
        sums = [add.bind(a, b) for a, b in zip(totals, more, strict=True)]
        return [sub.bind(t, _integer(1)), *saved_there, *sums, *ct_before]

    start = [
        sub.bind(count, _integer(1)),
        *saved_now,
        *(zeros(a) for a in const_avals),
        *ct_carry,
    ]
    outs = loop(lambda t, *rest: ge.bind(t, _integer(0)), backwards, start, "backwards")
    cts = outs[1 + num_saved :]
    return cts[: len(const_avals)], cts[len(const_avals) :]
