"""``einsum``: sums of products in index notation.

What enters is subscripts such as ``"bij,bjk->bik"`` and arrays.  Subscripts and shapes are worked
out once into a :class:`EinsumPlan`, which is remembered: which axes each operand has, which of its
axes are taken on the diagonal, and in which order pairs of operands are contracted
(:mod:`functrax.numpy.einsum_order`).  Then every step of the plan is one contraction
(:mod:`functrax.numpy.contraction`).

Start at :func:`einsum`, then :func:`_make_plan`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from functrax.backends.sharding.out_sharding import with_out_sharding
from functrax.core.arrays.operators import Array
from functrax.core.errors.typed import ArgumentError, ShapeError
from functrax.core.index.expr import Dim
from functrax.core.index.map import IndexMap
from functrax.core.prims.mapped import reindex
from functrax.core.records import record
from functrax.core.tracing.primitive import Value, like
from functrax.lax.dot import dot_general as lax_dot_general
from functrax.numpy.axes import Shape
from functrax.numpy.contraction import Labels, contract, finish, operands_of, sum_axes
from functrax.numpy.einsum_order import pair_order, step_cost
from functrax.numpy.promote import to_array
from functrax.numpy.shaping import transpose_to
from functrax.typing import DTypeLike

if TYPE_CHECKING:
    from functrax.lax.precision import PrecisionLike

__all__ = ["einsum", "einsum_path"]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@record
class EinsumStep:
    """One contraction: of the values at ``positions`` in the list, into a new last value."""

    positions: Shape
    out: Labels


@record
class EinsumPlan:
    """How to compute an einsum.

    Args:
      labels: each operand's labels; one that occurs twice means the diagonal.
      sizes: label and size.
      path: for each step the positions of its operands in the list of what is left.
      steps: the contractions, in order; the last gives the result.
    """

    labels: tuple[Labels, ...]
    sizes: tuple[tuple[Hashable, int], ...]
    path: tuple[Shape, ...]
    steps: tuple[EinsumStep, ...]


@with_out_sharding
def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    optimize: str | bool | Sequence[Any] = "auto",
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    _dot_general: Any = None,
) -> Array:
    """The sum of products that the subscripts write down.

    Args:
      subscripts: one letter (or other character) per axis, operands separated by commas, and
        after ``->`` the result's axes; without it, the letters that occur once, in alphabetical
        order.  ``...`` stands
        for axes that broadcast.  A letter twice in one operand takes its diagonal.  Or, in
        place of a string: ``einsum(a, [0, 1], b, [1, 2], [0, 2])``.
      *operands: arrays.
      optimize: the order of contraction: ``"auto"`` (the cheapest for up to eight operands, greedy
        for more), ``"optimal"`` or True, ``"greedy"``, False (all at once), or a list of tuples
        as :func:`einsum_path` gives.
      precision: as for :func:`dot`.
      preferred_element_type: the dtype of the sums and of the result.
      _dot_general: what computes each step in the place of ``lax.dot_general``, whose arguments
        it is given; libraries have quantised products that way.

    Returns:
      The array of the result's axes, in the dtype in which the operands meet.

    Raises:
      ArgumentError: if the subscripts are malformed or do not fit the number of operands, or the
        order does not contract each operand once.
      ShapeError: if an operand has another number of axes, or sizes of one letter differ.

    Example:
      >>> import functrax.numpy as jnp
      >>> x = jnp.arange(4.0).reshape(2, 2)
      >>> jnp.einsum("ij,jk->ik", x, x)
      Array([[ 2.,  3.],
             [ 6., 11.]], dtype=float32)
      >>> jnp.einsum("ii", x)
      Array(3., dtype=float32)
    """
    text, arrays = _subscripts_first(subscripts, operands)
    values, dtype = operands_of("einsum", preferred_element_type, *arrays, precision=precision)
    plan = _make_plan(text, tuple([x.aval.shape for x in values]), _hashable(optimize))
    if _dot_general is None or _dot_general is lax_dot_general:
        return finish(_follow(plan, values, contract), dtype)
    from functrax.numpy.einsum_products import contract_by

    products = functools.partial(contract_by, _dot_general, precision, dtype)
    return finish(_follow(plan, values, products), dtype)


def _hashable(optimize: Any) -> Any:
    """An order of contraction given as a list, as tuples; other choices as they are."""
    if not isinstance(optimize, (list, tuple)):
        return optimize
    steps = optimize[1:] if optimize and optimize[0] == "einsum_path" else optimize
    return tuple(map(tuple, steps))


def einsum_path(
    subscripts: Any, /, *operands: Any, optimize: str | bool | Sequence[Any] = "auto"
) -> tuple[list[Shape], str]:
    """The order in which :func:`einsum` contracts, and what it costs.

    Args:
      subscripts: as for :func:`einsum`.
      *operands: as for :func:`einsum`; only their shapes matter.
      optimize: as for :func:`einsum`.

    Returns:
      For each step the positions of its operands in the list, from which they are taken, and to
      whose end the result goes; and a text with the operations of each step.

    Raises:
      ArgumentError: if the subscripts are malformed or do not fit the number of operands.
      ShapeError: if an operand has another number of axes, or sizes of one letter differ.

    Example:
      >>> import functrax.numpy as jnp
      >>> x, v = jnp.ones((9, 9)), jnp.ones(9)
      >>> path, report = jnp.einsum_path("ij,jk,k->i", x, x, v)
      >>> path
      [(1, 2), (0, 1)]
      >>> print(report)
      324 operations instead of 2187
        jk,k->j: 162
        ij,j->i: 162
    """
    text, arrays = _subscripts_first(subscripts, operands)
    shapes = tuple([to_array("einsum_path", x, k).aval.shape for k, x in enumerate(arrays)])
    plan = _make_plan(text, shapes, _hashable(optimize))
    return list(plan.path), _report(plan)


def _report(plan: EinsumPlan) -> str:
    """The operations of a plan and of its steps, as text."""
    sizes = dict(plan.sizes)
    live = [frozenset(own) for own in plan.labels]
    at_once = step_cost(live, frozenset(plan.steps[-1].out), sizes)
    names = {x: chr(ord("A") + x - 1) if isinstance(x, int) else str(x) for x in sizes}
    total, lines = 0, []
    for step in plan.steps:
        taken = [live[k] for k in step.positions]
        cost = step_cost(taken, frozenset(step.out), sizes)
        terms = [tuple(dict.fromkeys((*plan.labels, *(s.out for s in plan.steps))[k]))
                 for k in step.positions]  # fmt: skip
        parts = ",".join("".join(names[x] for x in own) for own in terms)
        lines.append(f"  {parts}->{''.join(names[x] for x in step.out)}: {cost}")
        live.append(frozenset(step.out))
        total += cost
    return "\n".join([f"{total} operations instead of {at_once}", *lines])


def _subscripts_first(subscripts: Any, operands: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """The two ways of calling, as the first one."""
    if isinstance(subscripts, str):
        return subscripts.replace(" ", ""), operands
    mixed = [subscripts, *operands]
    lists = mixed[1::2]
    if len(mixed) < 2 or not all(isinstance(labels, (list, tuple)) for labels in lists):
        raise ArgumentError(
            "einsum: starts with the subscripts",
            got=f"{type(subscripts).__name__}",
            fix='einsum("ij,jk->ik", a, b), or einsum(a, [0, 1], b, [1, 2], [0, 2])',
        )
    text = ",".join(_letters_of(labels) for labels in lists)
    if len(mixed) % 2:
        text += "->" + _letters_of(mixed[-1])
    return text, mixed[: 2 * len(lists) : 2]


def _letters_of(labels: Sequence[Any]) -> str:
    return "".join("..." if label is Ellipsis else _LETTERS[label] for label in labels)


@functools.lru_cache(maxsize=4096)
def _make_plan(text: str, shapes: tuple[Shape, ...], optimize: Any) -> EinsumPlan:
    labels, out = _read(text, shapes)
    sizes = _sizes(text, labels, shapes)
    steps: list[EinsumStep] = []
    live: list[tuple[Labels, int]] = [(own, k) for k, own in enumerate(labels)]
    path = _path(labels, out, sizes, optimize)
    for positions in path:
        taken = [live[k] for k in positions]
        live = [entry for k, entry in enumerate(live) if k not in positions]
        needed = {label for own, _ in live for label in own} | set(out)
        last = not live
        kept = dict.fromkeys(label for own, _ in taken for label in own if label in needed)
        step = EinsumStep(tuple(number for _, number in taken), out if last else tuple(kept))
        live.append((step.out, len(labels) + len(steps)))
        steps.append(step)
    return EinsumPlan(labels, tuple(sizes.items()), path, tuple(steps))


def _path(
    labels: Sequence[Labels], out: Labels, sizes: dict[Hashable, int], optimize: Any
) -> tuple[Shape, ...]:
    if not isinstance(optimize, tuple):
        return tuple(pair_order([*map(frozenset, labels)], frozenset(out), sizes, optimize))
    left = len(labels)
    for positions in optimize:
        known = all(isinstance(k, int) and 0 <= k < left for k in positions)
        if not known or len(set(positions)) != len(positions) or not positions:
            left = 0
            break
        left += 1 - len(positions)
    if left != 1:
        raise ArgumentError(
            "einsum: the order does not contract each operand once",
            got=f"optimize={list(optimize)} for {len(labels)} operands",
            fix="for each step the positions in the list of what is left, to which it appends",
        )
    return optimize


def _read(text: str, shapes: tuple[Shape, ...]) -> tuple[tuple[Labels, ...], Labels]:
    """The labels of the operands and of the result; the ellipsis' axes are numbered from behind."""
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        raise ArgumentError(
            "einsum: needs one term for each operand",
            got=f"{text!r} has {len(terms)} terms, for {len(shapes)} operands",
            fix="separate the terms by commas",
        )
    labels = tuple(_term(text, term, shape) for term, shape in zip(terms, shapes, strict=True))
    spread = max((sum(isinstance(x, int) for x in own) for own in labels), default=0)
    dots = tuple(range(spread, 0, -1))
    if not arrow:
        letters = [x for own in labels for x in own if isinstance(x, str)]
        return labels, (*dots, *sorted(x for x in set(letters) if letters.count(x) == 1))
    before, ellipsis, after = output.partition("...")
    out: Labels = (*before, *(dots if ellipsis else ()), *after)
    known = {label for own in labels for label in own}
    if len(set(out)) != len(out) or not known.issuperset(out):
        raise ArgumentError(
            "einsum: a letter of the result occurs twice, or in no operand",
            got=repr(text),
            fix="each letter once after '->', from those before it",
        )
    return labels, out


def _term(text: str, term: str, shape: Shape) -> Labels:
    before, ellipsis, after = term.partition("...")
    letters = before + after
    if any(letter in ".,->" for letter in letters):
        raise ArgumentError("einsum: subscripts are letters", got=repr(text), fix='"ij,jk->ik"')
    dots = len(shape) - len(letters)
    if dots < 0 or (dots and not ellipsis):
        raise ShapeError(
            "einsum: an operand has another number of axes than its term",
            got=f"term {term!r} of {text!r} for an operand of shape {shape}",
            fix="one letter for each axis; '...' stands for any number",
        )
    return (*before, *range(dots, 0, -1), *after)


def _sizes(text: str, labels: Sequence[Labels], shapes: Sequence[Shape]) -> dict[Hashable, int]:
    sizes: dict[Hashable, int] = {}
    owner: dict[Hashable, int] = {}
    for k, (own, shape) in enumerate(zip(labels, shapes, strict=True)):
        for label, size in zip(own, shape, strict=True):
            known = sizes.get(label, 1)
            if 1 not in (known, size) and known != size:
                shown = repr(label) if isinstance(label, str) else "an axis of '...'"
                raise ShapeError(
                    f"einsum: the sizes of {shown} differ",
                    got=f"{known} in operand {owner[label]}, {size} in operand {k}, of {text!r} "
                    f"with shapes {', '.join(map(str, shapes))}",
                    fix="axes of one letter have one size",
                )
            if size != 1 or label not in sizes:
                sizes[label], owner[label] = size, k
    return sizes


def _follow(plan: EinsumPlan, operands: Sequence[Value], product: Callable[..., Value]) -> Value:
    """Compute what a plan says; ``product`` contracts the operands of a step."""
    sizes = dict(plan.sizes)
    values = [_diagonal(x, own) for x, own in zip(operands, plan.labels, strict=True)]
    labels = [tuple(dict.fromkeys(own)) for own in plan.labels]
    for step in plan.steps:
        chosen = [_sum_own(k, step, values, labels) for k in step.positions]
        if len(chosen) == 1:
            value, own = chosen[0]
            out = _arrange(value, own, step.out)
        else:
            out = product([x for x, _ in chosen], [own for _, own in chosen], step.out, sizes)
        values.append(out)
        labels.append(step.out)
    return values[-1]


def _arrange(x: Value, own: Labels, out: Labels) -> Value:
    return transpose_to(x, tuple(own.index(label) for label in out))


def _sum_own(
    k: int, step: EinsumStep, values: Sequence[Value], labels: Sequence[Labels]
) -> tuple[Value, Labels]:
    """An operand, summed over what no other operand of the step and no result has."""
    own = labels[k]
    others = {label for n in step.positions if n != k for label in labels[n]}
    axes = tuple(i for i, x in enumerate(own) if x not in others and x not in step.out)
    if not axes:
        return values[k], own
    return sum_axes(values[k], axes), tuple(x for i, x in enumerate(own) if i not in axes)


def _diagonal(x: Value, labels: Labels) -> Value:
    """Axes of one label taken together."""
    unique = tuple(dict.fromkeys(labels))
    if len(unique) == len(labels):
        return x
    shape = x.aval.shape
    sizes = {label: max(shape[k] for k, own in enumerate(labels) if own == label)
             for label in unique}  # fmt: skip
    exprs = tuple(0 if shape[k] == 1 else Dim(unique.index(x)) for k, x in enumerate(labels))
    domain = tuple(sizes[label] for label in unique)
    index_map = IndexMap.from_function(domain, shape, lambda *_: exprs)
    return reindex.bind(x, map=index_map, fill=like(x, 0))
