"""Comparison of compiled contractions with their definition (``random_contractions.py``).

:func:`check` compares a case: the result, and for floats its gradients and how they change along a
direction, which forward over reverse mode and reverse over reverse mode must both find.  It also
looks at what the compiled programs store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import functrax
from functrax import numpy as jnp
from functrax.backends.reference import strided
from functrax.transforms.differentiation.derivatives import grad, jvp
from functrax.transforms.staging.jit import jit
from tests.backends.random_contractions import (
    Array,
    Case,
    contraction,
    expected,
    integers,
    is_inexact,
    outside,
    values,
)

ORDERS = ("result", "gradient", "forward over reverse", "reverse over reverse")


def check_seed(seed: int, orders: tuple[str, ...] = ORDERS) -> None:
    """Compare the case of a seed.

    Raises:
      AssertionError: something is wrong with it.
    """
    case = contraction(seed)
    try:
        with functrax.enable_x64():
            check(case, np.random.default_rng([seed, 6]), orders)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {case.text}: {error}") from error


def check(case: Case, rng: np.random.Generator, orders: tuple[str, ...]) -> None:
    floats = [k for k, a in enumerate((case.x, case.w)) if is_inexact(a.dtype)]
    if not is_inexact(case.result):
        y = run(case.function, case)
        assert y.dtype == case.result, f"{y.dtype} instead of {case.result}"
        np.testing.assert_array_equal(np.asarray(y), integers(case))
        return
    c = values(rng, case.terms.out_shape, case.result)
    directions = [
        values(rng, a.shape, a.dtype) if k in floats else np.zeros(a.shape, case.result)
        for k, a in enumerate((case.x, case.w))
    ]
    want = expected(case, c, *directions)
    for order, (function, wanted) in programs(case, c, directions, floats, want).items():
        if order not in orders:
            continue
        try:
            found = run(function, case)
        except AssertionError as error:
            raise AssertionError(f"{order}: {error}") from error
        found = found if isinstance(found, tuple) else (found,)
        types = [case.result] if order == "result" else [(case.x, case.w)[k].dtype for k in floats]
        for got, bounded, dtype in zip(found, wanted, types, strict=True):
            assert got.dtype == dtype, f"{order}: {got.dtype} instead of {dtype}"
            wrong = outside(got, bounded)
            assert not wrong, f"{order}: {wrong}"


def programs(
    case: Case, c: Array, directions: list[Array], floats: list[int], want: Any
) -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    """What is compiled, and what it must give."""
    result: dict[str, tuple[Callable[..., Any], list[Any]]]
    result = {"result": (case.function, [want.result])}
    if not floats:
        return result
    argnums = tuple(floats)
    along = [directions[k] for k in floats]

    def loss(x: Any, w: Any) -> Any:
        y = case.function(x, w)
        energy = jnp.real(y) ** 2 + jnp.imag(y) ** 2 if case.result.kind == "c" else y * y
        return jnp.sum(jnp.real(jnp.asarray(c) * y)) + 0.25 * jnp.sum(energy)

    gradient = grad(loss, argnums)

    def at(*xs: Any) -> Any:
        """The gradient as a function of the floats alone."""
        full = [case.x, case.w]
        for k, x in zip(floats, xs, strict=True):
            full[k] = x
        return gradient(*full)

    def forward(x: Any, w: Any) -> Any:
        return jvp(at, tuple((x, w)[k] for k in floats), tuple(map(jnp.asarray, along)))[1]

    def reverse(x: Any, w: Any) -> Any:
        def slope(x: Any, w: Any) -> Any:
            found = gradient(x, w)
            parts = [jnp.sum(jnp.real(g * jnp.asarray(u))) for g, u in zip(found, along)]
            return sum(p.astype(case.working.type(0).real.dtype) for p in parts)

        return grad(slope, argnums)(x, w)

    first, second = ([pair[k] for k in floats] for pair in (want.first, want.second))
    result["gradient"] = (gradient, first)
    result["forward over reverse"] = (forward, second)
    result["reverse over reverse"] = (reverse, second)
    return result


def run(function: Callable[..., Any], case: Case) -> Any:
    """The results of a compiled function, which stores nothing that is larger than it must be."""
    stores_little(function, case)
    return jit(function)(case.x, case.w)


def stores_little(function: Callable[..., Any], case: Case) -> None:
    """Every stored array is at most as large as operands, result and their packing together.

    Complex numbers are not looked at: operations on them are no kernels yet.
    """
    if "c" in (case.x.dtype.kind, case.w.dtype.kind):
        return
    arrays = (case.x.size, case.w.size, int(np.prod(case.terms.out_shape)))
    limit = max(2 * sum(arrays), strided.SMALL)
    for slot in functrax.explain(function)(case.x, case.w).program.slots:
        size = int(np.prod(slot.shape))
        assert size <= limit, f"an array {slot} of {size} elements is stored, {limit} allowed"
