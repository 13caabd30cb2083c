"""Contractions of ``einsum`` by a function of the caller's, in the place of ``lax.dot_general``.

Quantised products are written that way: a step of an einsum is given to the function as a product
of two arrays, with the axes that are summed and those that both have.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from functrax.core.errors.typed import ArgumentError
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.tracing.primitive import Value
from functrax.numpy.contraction import Labels
from functrax.numpy.promote import to_array
from functrax.numpy.shaping import transpose_to


def contract_by(
    dot_general: Callable[..., Any],
    precision: Any,
    dtype: Any,
    operands: Sequence[Value],
    labels: Sequence[Labels],
    out: Labels,
    sizes: dict[Hashable, int],
) -> Value:
    """Two operands multiplied and summed by ``dot_general``, as ``contract`` would.

    Args:
      dot_general: takes what ``functrax.lax.dot_general`` takes.
      precision: for it.
      dtype: for it, as ``preferred_element_type``.
      operands: two arrays.
      labels: for each operand the labels of its axes.
      out: the labels of the result's axes; what no result has, both operands have.
      sizes: the size of every label.

    Raises:
      ArgumentError: for more than two operands at once.
    """
    if len(operands) != 2:
        raise ArgumentError(
            "einsum: a function for products takes two operands at a time",
            got=f"{len(operands)} operands in one step",
            fix="optimize='auto'",
        )
    (x, y) = (_whole(v, own, sizes) for v, own in zip(operands, labels, strict=True))
    first, second = labels
    both = tuple([label for label in out if label in first and label in second])
    summed = tuple([label for label in first if label not in out])
    sides = [(x, first), (y, second)]
    made = (*both, *_only(first, both, summed), *_only(second, both, summed))
    if made != out:  # the order of the operands in which einsum meets them from behind
        sides.reverse()
        made = (*both, *_only(second, both, summed), *_only(first, both, summed))
    axes = [[tuple([own.index(k) for k in group]) for _, own in sides] for group in (summed, both)]
    numbers = (tuple(axes[0]), tuple(axes[1]))
    (left, _), (right, _) = sides
    product = dot_general(left, right, numbers, precision, preferred_element_type=dtype)
    order = tuple([made.index(label) for label in out])
    return transpose_to(to_array("einsum", product), order)


def _only(own: Labels, both: Labels, summed: Labels) -> Labels:
    return tuple([label for label in own if label not in both and label not in summed])


def _whole(x: Value, own: Labels, sizes: dict[Hashable, int]) -> Value:
    """The operand with axes of size 1 repeated."""
    shape = tuple([sizes[label] for label in own])
    if shape == x.aval.shape:
        return x
    return broadcast_in_dim.bind(x, shape=shape, dims=tuple(range(len(shape))))
