"""Reverse mode's second half: a tape read backwards, each entry by its primitive's transpose.

``ct`` is a cotangent; ``None`` stands for zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrax.core.jaxpr import Jaxpr
from functrax.core.primitive import Linear, Value
from functrax.core.prims.arithmetic import add
from functrax.core.prims.reindex import zeros
from functrax.core.stage import Derived, derive, eval_jaxpr
from functrax.core.trace import current, state
from functrax.transforms.linearize import Entry, PartialTrace, Tape


def backward(tape: Tape, cts: Sequence[Value | None]) -> list[Value | None]:
    """The cotangents of a tape's inputs, given those of its outputs."""
    pending: dict[int, Value] = {}

    def accumulate(key: int, ct: Value) -> None:
        pending[key] = add.bind(pending[key], ct) if key in pending else ct

    for output, ct in zip(tape.outputs, cts, strict=True):
        if output is not None and ct is not None:
            accumulate(id(output), ct)
    previous = state.source
    try:
        for entry in reversed(tape.entries):
            out_cts = [pending.pop(id(v), None) for v in entry.outputs]
            if all(ct is None for ct in out_cts):
                continue
            state.source = entry.source
            for x, ct in zip(entry.inputs, _transpose(tape, entry, out_cts), strict=True):
                if ct is not None and tape.trace.is_unknown(x):
                    accumulate(id(x), ct)
    finally:
        state.source = previous
    return [None if v is None else pending.get(id(v)) for v in tape.inputs]


def _transpose(tape: Tape, entry: Entry, cts: list[Value | None]) -> Sequence[Value | None]:
    operands = [Linear(x.aval) if tape.trace.is_unknown(x) else x for x in entry.inputs]
    ct = cts if entry.primitive.multiple_results else cts[0]
    return entry.primitive.transpose(ct, *operands, **entry.params)


def transpose_jaxpr(
    jaxpr: Jaxpr, linear: tuple[bool, ...], nonzero: tuple[bool, ...], fill: bool = False
) -> Derived:
    """The transpose of a program without constants that is linear in some inputs.

    Args:
      jaxpr: the program.
      linear: which inputs it is linear in.
      nonzero: which results have cotangents.
      fill: whether every linear input gets a cotangent, made of zeros if need be.

    Returns:
      A program from the other inputs and the given cotangents to the cotangents of the linear
      inputs that have one; its flags say which have one.
    """
    known_avals = [a for a, lin in zip(jaxpr.in_avals, linear, strict=True) if not lin]
    ct_avals = [a for a, nz in zip(jaxpr.out_avals, nonzero, strict=True) if nz]

    def transposed(*args: Value) -> tuple[list[Value], tuple[bool, ...]]:
        known, given = iter(args), iter(args[len(known_avals) :])
        partial = PartialTrace(state.trace)
        inputs = [
            partial.new_input(a) if lin else next(known)
            for a, lin in zip(jaxpr.in_avals, linear, strict=True)
        ]
        with current(partial):
            outs = eval_jaxpr(jaxpr, (), *inputs)
        tape = Tape(partial, [x for x, lin in zip(inputs, linear, strict=True) if lin], outs)
        cts = backward(tape, [next(given) if nz else None for nz in nonzero])
        partial.end()
        if fill:
            avals = [a for a, lin in zip(jaxpr.in_avals, linear, strict=True) if lin]
            cts = [zeros(a) if ct is None else ct for a, ct in zip(avals, cts, strict=True)]
        return [ct for ct in cts if ct is not None], tuple(ct is not None for ct in cts)

    key = ("transpose", linear, nonzero, fill)
    return derive(jaxpr, key, transposed, known_avals + ct_avals, "transpose")
