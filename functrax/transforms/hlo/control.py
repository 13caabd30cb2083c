"""Rules of primitives that hold programs: calls, loops, choices.

A program that is called is a computation of its own, shared by equal calls.  Loops and choices take
and give tuples.

Start at :func:`while_`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from functrax.core.ir.jaxpr import Eqn
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.control.cond import Cond
from functrax.transforms.control.linear_solve import Solve, split_consts
from functrax.transforms.control.scan import Scan, split_three
from functrax.transforms.control.while_loop import WhilePrimitive
from functrax.transforms.hlo.computations.computation import Computation, Node
from functrax.transforms.hlo.equations import callable_computation, write_jaxpr
from functrax.transforms.hlo.rules import rule
from functrax.transforms.interpreters.call import Call
from functrax.transforms.interpreters.custom_call import CustomCallPrimitive

_INDEX = dtypes.int32


@rule(Call)
def call(w: Computation, eqn: Eqn, operands: list[Node]) -> list[Node]:
    """A call of the program's computation."""
    callee = callable_computation(w, eqn.params["jaxpr"])
    assert callee.root is not None
    out = w.op("call", callee.root.type, *operands, to_apply=callee)
    return [out] if isinstance(out.type, ShapedArray) else w.members(out)


@rule(CustomCallPrimitive)
def custom_call(w: Computation, eqn: Eqn, operands: list[Node]) -> list[Node]:
    """The function; its rules have been asked for derivatives already."""
    return write_jaxpr(w, eqn.params["jaxpr"], operands)


@rule(Solve)
def solve(w: Computation, eqn: Eqn, operands: list[Node]) -> list[Node]:
    """The program that solves."""
    consts, own = split_consts(operands, eqn.params["num_consts"])
    return write_jaxpr(w, eqn.params["programs"][1], [*consts[1], *own])


@rule(Cond)
def cond(w: Computation, eqn: Eqn, operands: list[Node]) -> list[Node]:
    """A conditional; each branch takes a tuple and gives one."""
    index, *rest = operands
    given = w.tuple(rest)

    def branch(number: int) -> Computation:
        jaxpr = eqn.params["branches"][number]

        def write(inner: Computation) -> Node:
            inputs = inner.members(inner.parameter(given.type, "operands"))
            return inner.tuple(write_jaxpr(inner, jaxpr, inputs))

        return w.shared(("branch", jaxpr), f"branch_{jaxpr.name}", write)

    branches = tuple(branch(number) for number in range(len(eqn.params["branches"])))
    types = tuple(v.aval for v in eqn.outvars)
    out = w.op("conditional", types, index, *[given] * len(branches), branch_computations=branches)
    return w.members(out)


@rule(WhilePrimitive)
def while_(w: Computation, eqn: Eqn, operands: list[Node]) -> list[Node]:
    """A loop over a tuple of the constants of condition and body, and the values carried."""
    p = eqn.params
    of_cond, of_body, carry = split_three(operands, p["cond_consts"], p["body_consts"])

    def condition(inner: Computation, state: Sequence[Node]) -> Node:
        first, _, values = split_three(state, len(of_cond), len(of_body))
        return write_jaxpr(inner, p["cond"], [*first, *values])[0]

    def body(inner: Computation, state: Sequence[Node]) -> list[Node]:
        first, second, values = split_three(state, len(of_cond), len(of_body))
        return [*first, *second, *write_jaxpr(inner, p["body"], [*second, *values])]

    return _loop(w, [*of_cond, *of_body, *carry], condition, body)[len(of_cond) + len(of_body) :]


def _loop(
    w: Computation,
    start: Sequence[Node],
    condition: Callable[[Computation, Sequence[Node]], Node],
    body: Callable[[Computation, Sequence[Node]], list[Node]],
) -> list[Node]:
    """The values after a loop: while the condition holds, those of the body."""
    initial = w.tuple(start)
    test, step = w.inner("condition"), w.inner("body")
    state = test.members(test.parameter(initial.type, "state"))
    test.root = condition(test, state)
    state = step.members(step.parameter(initial.type, "state"))
    step.root = step.tuple(body(step, state))
    return w.members(w.op("while", initial.type, initial, condition=test, body=step))


@rule(Scan)
def scan(w: Computation, eqn: Eqn, operands: list[Node]) -> list[Node]:
    """A loop that counts, reads slices of the stacked inputs and writes slices of the results."""
    p = eqn.params
    length, reverse = p["length"], p["reverse"]
    consts, carry, stacked = split_three(operands, p["num_consts"], p["num_carry"])
    results = [w.full(v.aval.shape, 0, v.aval.dtype) for v in eqn.outvars[p["num_carry"] :]]
    if length == 0:  # XLA takes no element of nothing, not in a loop that does not run either
        return [*carry, *results]
    sizes = [1, len(consts), len(carry), len(stacked)]

    def condition(inner: Computation, state: Sequence[Node]) -> Node:
        return inner.compare("LT", state[0], inner.constant(length, _INDEX))

    def body(inner: Computation, state: Sequence[Node]) -> list[Node]:
        ((count,), fixed, values, arrays), outs = split_consts(state, sizes)
        here = count
        if reverse:
            here = inner.elementwise("subtract", inner.constant(length - 1, _INDEX), count)
        slices = [_row(inner, x, here) for x in arrays]
        found = write_jaxpr(inner, p["jaxpr"], [*fixed, *values, *slices])
        rows = zip(outs, found[len(values) :], strict=True)
        written = [_with_row(inner, x, row, here) for x, row in rows]
        following = inner.elementwise("add", count, inner.constant(1, _INDEX))
        return [following, *fixed, *found[: len(values)], *arrays, *written]

    start = [w.constant(0, _INDEX), *consts, *carry, *stacked, *results]
    (_, _, last, _), outs = split_consts(_loop(w, start, condition, body), sizes)
    return [*last, *outs]


def _starts(w: Computation, x: Node, index: Node) -> list[Node]:
    return [index, *[w.constant(0, _INDEX)] * (len(x.shape) - 1)]


def _row(w: Computation, x: Node, index: Node) -> Node:
    """An element along the first axis."""
    shape = (1, *x.shape[1:])
    type = ShapedArray(shape, x.dtype)
    out = w.op("dynamic-slice", type, x, *_starts(w, x, index), dynamic_slice_sizes=shape)
    return w.reshape(out, x.shape[1:])


def _with_row(w: Computation, x: Node, row: Node, index: Node) -> Node:
    """An array with another element along the first axis."""
    wide = w.reshape(row, (1, *row.shape))
    return w.op("dynamic-update-slice", x.aval, x, wide, *_starts(w, x, index))
