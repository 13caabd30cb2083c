"""Tracing a function takes the same time and memory, however large its arrays are.

Every public function is traced with abstract arrays of a thousand, a million and a thousand million
elements, and so is its gradient.  A function that makes a table as long as an axis, or loops over
an axis in Python, fails at a million, before it can do harm.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import functrax
from tests.any_size import tracing
from tests.any_size.cases import CASES, EXCEPTIONS, WITHOUT_GRADIENT, Case

NAMES = tracing.public_functions()
SIZES = (10**3, 10**6, 10**9)
MOST_BYTES = 1_000_000  # more than for the smallest size
PLAIN = [Case(letters, lambda f, *arrays: f(*arrays))
         for letters in ("v", "vv", "vvv", "i", "ii", "m", "mm", "g", "c", "b")]  # fmt: skip


def cases_of(name: str) -> Sequence[Case]:
    found = CASES.get(name)
    if found is not None:
        return [found] if isinstance(found, Case) else found
    for case in PLAIN:
        try:
            functrax.eval_shape(called(name, case, 10**3), *tracing.arguments(case.letters, 10**3))
        except Exception:
            continue
        return [case]
    pytest.fail(f"{name} has no case: tests/any_size/cases.py says how functions are called")


def called(name: str, case: Case, n: int) -> Callable[..., Any]:
    function = tracing.lookup(name)
    return (
        functools.partial(case.call, function, n)
        if case.n
        else functools.partial(case.call, function)
    )


def check(
    make: Callable[[int], Callable[[], Any] | None],
    what: str,
    sizes: Sequence[int] = SIZES,
    most: int = MOST_BYTES,
) -> None:
    """Compare the costs of what ``make`` gives for each size."""
    least = None
    for n in sizes:
        call = make(n)
        if call is None:
            return
        found = tracing.cost(call)
        if least is None:
            least = found
            continue
        if found.seconds > 5 * least.seconds + 0.5:  # another process may have been at work
            found = min(found, tracing.cost(call))
        assert found.bytes <= least.bytes + most, f"{what}, {n} elements: {found}, {least}"
        assert found.seconds <= 5 * least.seconds + 0.5, f"{what}, {n} elements: {found}, {least}"


@pytest.mark.parametrize("name", [name for name in NAMES if name not in EXCEPTIONS])
def test_tracing_costs_the_same_at_any_size(name: str) -> None:
    for number, case in enumerate(cases_of(name)):

        def traced(n: int, case: Case = case) -> Callable[[], Any]:
            args = tracing.arguments(case.letters, n)
            return lambda: functrax.make_jaxpr(called(name, case, n))(*args)

        def derived(n: int, case: Case = case) -> Callable[[], Any] | None:
            args = tracing.arguments(case.letters, n)
            gradient = tracing.gradient(called(name, case, n), args)
            return gradient and (lambda: functrax.make_jaxpr(gradient)(*args))

        check(traced, f"case {number}")
        if name not in WITHOUT_GRADIENT:
            check(derived, f"the gradient of case {number}")


def test_the_tables_name_public_functions() -> None:
    assert not set(CASES) - set(NAMES)
    assert not set(EXCEPTIONS) - set(NAMES)
    assert not set(EXCEPTIONS) & set(CASES)
    assert set(NAMES) >= WITHOUT_GRADIENT


def test_a_table_as_long_as_an_axis_is_found() -> None:
    def by_table(n: int) -> Callable[[], Any]:
        args = tracing.arguments("v", n)
        return lambda: functrax.make_jaxpr(lambda x: x[np.arange(n)[::-1].copy()])(*args)

    with pytest.raises(AssertionError, match="1000000 elements"):
        check(by_table, "a reversal")
