"""Index maps the slow way: plain Python loops over points, and seeded random maps to try them on.

Enter at :func:`gather_oracle` and :func:`scatter_oracle`; :func:`random_map` makes the maps.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrax.core.index.expr import (
    Condition,
    Dim,
    FloorDiv,
    IndexExpr,
    Indicator,
    Load,
    Mod,
    as_expr,
)
from functrax.core.index.map import IndexMap
from functrax.core.index.map_form import MapForm

OPS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "max": max,
    "min": min,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "set": lambda a, b: b,
}


class OutsideLoadError(Exception):
    """An index array was read outside its bounds."""


def value_at(expr: IndexExpr, point: Sequence[int], loads: Sequence[np.ndarray] = ()) -> int:
    """The value of an expression at one point, by its definition."""
    total = expr.const
    for atom, coef in expr.terms:
        if isinstance(atom, Dim):
            total += coef * point[atom.number]
        elif isinstance(atom, FloorDiv):
            total += coef * (value_at(atom.expr, point, loads) // atom.divisor)
        elif isinstance(atom, Mod):
            total += coef * (value_at(atom.expr, point, loads) % atom.divisor)
        elif isinstance(atom, Indicator):
            total += coef * int(holds_at(atom.condition, point, loads))
        else:
            assert isinstance(atom, Load)
            where = tuple(value_at(index, point, loads) for index in atom.indices)
            array = loads[atom.operand]
            if any(not 0 <= i < n for i, n in zip(where, array.shape, strict=True)):
                raise OutsideLoadError
            total += coef * int(array[where])
    return total


def holds_at(condition: Condition, point: Sequence[int], loads: Sequence[np.ndarray] = ()) -> bool:
    """Whether a condition holds at one point."""
    value = value_at(condition.expr, point, loads)
    return {"==0": value == 0, "!=0": value != 0, ">=0": value >= 0}[condition.kind]


def points_of(shape: Sequence[int]) -> itertools.product[tuple[int, ...]]:
    """Every point of an iteration space, in row-major order."""
    return itertools.product(*(range(n) for n in shape))


def image(form: MapForm, point: Sequence[int], loads: Sequence[np.ndarray] = ()) -> Any:
    """The element that a point means, or None where the point is not valid."""
    try:
        if not all(holds_at(condition, point, loads) for condition in form.conditions):
            return None
        where = tuple(value_at(expr, point, loads) for expr in form.exprs)
    except OutsideLoadError:
        return None
    inside = all(0 <= i < n for i, n in zip(where, form.codomain, strict=True))
    return where if inside else None


def gather_oracle(form: MapForm, array: np.ndarray, fill: Any, loads: Any = ()) -> np.ndarray:
    """``reindex`` by a loop."""
    out = np.full(form.domain, fill, array.dtype)
    for point in points_of(form.domain):
        where = image(form, point, loads)
        if where is not None:
            out[point] = array[where]
    return out


def scatter_oracle(
    form: MapForm, values: np.ndarray, op: str, identity: Any, loads: Any = ()
) -> np.ndarray:
    """``reindex_reduce`` by a loop."""
    out = np.full(form.codomain, identity, values.dtype)
    for point in points_of(form.domain):
        where = image(form, point, loads)
        if where is not None:
            out[where] = OPS[op](out[where], values[point])
    return out


def random_expr(rng: random.Random, rank: int, depth: int, num_loads: int = 0) -> IndexExpr:
    """A random quasi-affine expression; numerators are often negative."""
    expr = as_expr(rng.randint(-3, 4))
    for _ in range(rng.randint(0 if depth else 1, 2)):
        if rank:
            expr = expr + rng.choice((-2, -1, 1, 1, 1, 2, 3)) * Dim(rng.randrange(rank))
    if depth and rng.random() < 0.7:
        inner = random_expr(rng, rank, depth - 1, num_loads)
        divisor = rng.randint(1, 5)
        expr = expr + rng.choice((-1, 1, 2)) * (
            inner // divisor if rng.random() < 0.5 else inner % divisor
        )
    if num_loads and rng.random() < 0.5:
        expr = expr + Load(rng.randrange(num_loads), [random_expr(rng, rank, 0) for _ in range(1)])
    if depth and rng.random() < 0.15:
        expr = expr + Indicator(random_expr(rng, rank, 0).ge(Dim(0) if rank else 1))
    return expr


def random_condition(rng: random.Random, rank: int, num_loads: int = 0) -> Condition:
    """A random condition."""
    return Condition(random_expr(rng, rank, 1, num_loads), rng.choice(("==0", "!=0", ">=0", ">=0")))


def random_map(seed: int, num_loads: int = 0) -> IndexMap:
    """A random small map; about half of its points are valid."""
    rng = random.Random(seed)
    rank, out_rank = rng.randint(0, 3), rng.randint(0, 3)
    domain = tuple(rng.randint(1, 4) for _ in range(rank))
    codomain = tuple(rng.randint(2, 7) for _ in range(out_rank))
    exprs = tuple(random_expr(rng, rank, rng.randint(0, 2), num_loads) for _ in codomain)
    conditions = tuple(
        random_condition(rng, rank, num_loads) for _ in range(rng.choice((0, 0, 1, 2)))
    )
    return IndexMap(domain, codomain, exprs, conditions)


def random_structured_map(seed: int) -> IndexMap:
    """A random composition of the specialisations, as programs make them."""
    rng = random.Random(seed)
    shape = tuple(rng.choice((1, 2, 3, 4, 6)) for _ in range(rng.randint(1, 3)))
    total = IndexMap.identity(shape)
    for _ in range(rng.randint(1, 4)):
        total = _random_step(rng, total.domain).compose(total)
    return total


def _random_step(rng: random.Random, shape: tuple[int, ...]) -> IndexMap:
    rank = len(shape)
    kind = rng.choice(("transpose", "reverse", "slice", "pad", "split", "merge", "broadcast"))
    if kind == "transpose":
        return IndexMap.transpose(shape, rng.sample(range(rank), rank))
    if kind == "reverse":
        return IndexMap.reverse(shape, [k for k in range(rank) if rng.random() < 0.5])
    if kind == "slice":
        start = [rng.randint(0, n - 1) for n in shape]
        limit = [rng.randint(a + 1, n) for a, n in zip(start, shape, strict=True)]
        return IndexMap.slice_(shape, start, limit, [rng.randint(1, 3) for _ in shape])
    if kind == "pad":
        low = [rng.randint(-1, 2) if n > 2 else rng.randint(0, 1) for n in shape]
        return IndexMap.pad(
            shape, low, [rng.randint(0, 1) for _ in shape], [rng.randint(0, 2) for _ in shape]
        )
    if kind == "broadcast" and rank < 4:
        place = rng.randint(0, rank)
        dims = [k + (k >= place) for k in range(rank)]
        out = (*shape[:place], rng.randint(1, 2), *shape[place:])
        return IndexMap.broadcast(shape, out, dims)
    size = int(np.prod(shape))
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    first = rng.choice(divisors)
    return IndexMap.reshape(shape, (first, size // first) if kind == "split" else (size,))
