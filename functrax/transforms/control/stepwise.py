"""Loops as Python loops, while ``functrax.disable_jit()`` holds: for looking at values inside.

Start at :func:`scan_in_python` and :func:`while_in_python`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrax.core.errors.typed import ConcretizationError
from functrax.core.prims.reindex import reshape
from functrax.core.prims.slicing import concatenate, slice_
from functrax.core.pytree.operations import tree_flatten, tree_unflatten
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Value
from functrax.transforms.control.carry import LoopBody


def scan_in_python(
    body: LoopBody,
    step: Callable[..., tuple[Any, Any]],
    stacked: Sequence[Value],
    length: int,
    reverse: bool,
) -> tuple[Any, Any]:
    """The last carry, and the results stacked, of at least one step.

    Args:
      body: checks the carries.
      step: from flat carries and flat slices to the pair that the user's function returns.
      stacked: the inputs.
      length: the number of steps.
      reverse: whether to go from the last slice to the first.
    """
    carry = list(body.leaves)
    rows: list[list[Value]] = []
    result: Any = None
    for i in reversed(range(length)) if reverse else range(length):
        new, result = step(*carry, *(row(x, i) for x in stacked))
        carry = body.checked(new)
        rows.append([as_value(y, f"a result of {body.name}") for y in tree_flatten(result)[0]])
    if reverse:
        rows.reverse()
    joined = [
        concatenate.bind(*(reshape.bind(y, shape=(1, *y.aval.shape)) for y in ys), axis=0)
        for ys in zip(*rows, strict=True)
    ]
    last = tree_unflatten(body.tree, map(concrete, carry))
    return last, tree_unflatten(tree_flatten(result)[1], map(concrete, joined))


def while_in_python(
    body: LoopBody,
    holds: Callable[..., Sequence[Value]],
    step: Callable[..., Any],
) -> list[Value] | None:
    """The last carries; None if the condition has no value yet.

    Args:
      body: checks the carries.
      holds: from flat carries to the condition.
      step: from flat carries to what the user's function returns.
    """
    carry = list(body.leaves)
    while True:
        try:
            goes_on = bool(concrete(holds(*carry)[0]))
        except ConcretizationError:
            return None
        if not goes_on:
            return carry
        carry = body.checked(step(*carry))


def row(x: Value, i: int) -> Value:
    """Element ``i`` of the first axis."""
    shape = x.aval.shape
    rows = slice_.bind(
        x,
        start=(i, *(0 for _ in shape[1:])),
        limit=(i + 1, *shape[1:]),
        strides=(1,) * len(shape),
    )
    return concrete(reshape.bind(rows, shape=shape[1:]))
