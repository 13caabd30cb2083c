"""Scans whose body takes several steps at once.

What enters is a body of one step; what leaves are the results of a scan over groups of steps, and
of a second scan over the steps that are left.  A scan of one group is no loop at all.

Start at :func:`run_scan`.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.prims.reindex import reshape
from functrax.core.prims.slicing import concatenate, slice_
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import Derived, derive, eval_jaxpr
from functrax.core.types.aval import ShapedArray
from functrax.transforms.control.scan import scan_p, split_three


def run_scan(
    body: Jaxpr,
    consts: Sequence[Value],
    carry: Sequence[Value],
    stacked: Sequence[Value],
    length: int,
    reverse: bool,
    at_once: int,
) -> list[Value]:
    """The last carries and the stacked results of ``length`` steps, ``at_once`` to a group."""
    num_carry = len(carry)
    if at_once == 1 or length == 0:
        return _scan(body, consts, carry, stacked, length, reverse)
    at_once = min(at_once, length)
    groups = length // at_once
    whole = groups * at_once
    grouped = [
        reshape.bind(x, shape=(groups, at_once, *x.aval.shape[1:]))
        for x in (_part(x, 0, whole) for x in stacked)
    ]
    inner = _group(body, at_once, len(consts), num_carry, reverse)

    def run_groups(carry: Sequence[Value]) -> list[Value]:
        given = [*inner.consts, *consts]
        if groups == 1:
            only = [reshape.bind(x, shape=x.aval.shape[1:]) for x in grouped]
            return eval_jaxpr(inner.jaxpr, (), *given, *carry, *only)
        outs = _scan(inner.jaxpr, given, carry, grouped, groups, reverse)
        results = [reshape.bind(x, shape=(whole, *x.aval.shape[2:])) for x in outs[num_carry:]]
        return [*outs[:num_carry], *results]

    def run_rest(carry: Sequence[Value]) -> list[Value]:
        rest = [_part(x, whole, length) for x in stacked]
        return _scan(body, consts, carry, rest, length - whole, reverse)

    if whole == length:
        return run_groups(carry)
    if reverse:
        after = run_rest(carry)
        before = run_groups(after[:num_carry])
        last = before[:num_carry]
    else:
        before = run_groups(carry)
        after = run_rest(before[:num_carry])
        last = after[:num_carry]
    pairs = zip(before[num_carry:], after[num_carry:], strict=True)
    return [*last, *(concatenate.bind(a, b, axis=0) for a, b in pairs)]


def _scan(
    body: Jaxpr,
    consts: Sequence[Value],
    carry: Sequence[Value],
    stacked: Sequence[Value],
    length: int,
    reverse: bool,
) -> list[Value]:
    outs: list[Value] = scan_p.bind(
        *consts, *carry, *stacked,
        jaxpr=body, length=length, num_consts=len(consts), num_carry=len(carry), reverse=reverse,
    )  # fmt: skip
    return outs


def _part(x: Value, start: int, limit: int) -> Value:
    shape = x.aval.shape
    if limit - start == shape[0]:
        return x
    return slice_.bind(
        x,
        start=(start, *(0 for _ in shape[1:])),
        limit=(limit, *shape[1:]),
        strides=(1,) * len(shape),
    )


def _group(body: Jaxpr, steps: int, num_consts: int, num_carry: int, reverse: bool) -> Derived:
    """A body that takes ``steps`` steps: its slices and results have them as leading axis."""
    consts, carry, slices = split_three(body.in_avals, num_consts, num_carry)

    def group(*args: Value) -> tuple[list[Value], tuple[bool, ...]]:
        given, now, stacked = split_three(args, num_consts, num_carry)
        results: list[list[Value]] = []
        for i in reversed(range(steps)) if reverse else range(steps):
            step = [reshape.bind(_part(x, i, i + 1), shape=x.aval.shape[1:]) for x in stacked]
            outs = eval_jaxpr(body, (), *given, *now, *step)
            now = outs[:num_carry]
            results.append([reshape.bind(x, shape=(1, *x.aval.shape)) for x in outs[num_carry:]])
        if reverse:
            results.reverse()
        joined = [concatenate.bind(*rows, axis=0) for rows in zip(*results, strict=True)]
        return [*now, *joined], ()

    avals = [ShapedArray((steps, *a.shape), a.dtype, a.weak_type) for a in slices]
    return derive(body, ("unroll", steps, reverse), group, [*consts, *carry, *avals], "unroll")
