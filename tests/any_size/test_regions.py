"""Sizes of a region: what is answered, what becomes a fact, what is refused."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import pytest

from functrax.core.errors.typed import SizeError
from functrax.core.types import size_polynomials as sp
from functrax.core.types.size_bounds import choice, roughly, surely
from functrax.core.types.size_cases import SizeCase
from functrax.core.types.symbolic_sizes import applied, decided


def case(b: int = 1000, n: int = 50) -> tuple[SizeCase, Any, Any]:
    """Two sizes of at least 1, with usual values."""
    facts = [sp.add(sp.variable(name), sp.constant(-1)) for name in ("b", "n")]
    found = SizeCase({"b": b, "n": n}, facts)
    return found, found.size("b"), found.size("n")


def region(sizes: SizeCase) -> list[str]:
    return [sp.text(p) for parts, _ in sizes.splits for p in parts]


def test_what_holds_for_all_values_is_no_fact() -> None:
    sizes, b, n = case()
    assert b + n > 1
    assert b * n >= b
    assert not 2 * b < b
    assert (4 * b * n) // n == 4 * b
    assert (6 * b) % 3 == 0
    assert region(sizes) == []


def test_other_answers_make_the_region_smaller() -> None:
    sizes, b, n = case()
    assert b >= 14
    assert b > 10  # follows
    assert not n > 64
    assert region(sizes) == ["b - 14", "-n + 64"]
    assert sizes.known("b") is None
    assert not b > 14 + 986
    assert sizes.splits[-1][1] == "b > 1000"


def test_sizes_that_may_differ_are_different_but_1_is_told_apart() -> None:
    sizes, b, n = case(b=7, n=7)
    assert b != n
    assert b != 7
    assert b % 8 != 0
    assert region(sizes) == []
    assert b != 1
    assert region(sizes) == ["b - 2"]
    ones, b, _ = case(b=1)
    assert b == 1
    assert region(ones) == ["b - 1", "-b + 1"]
    assert ones.known("b") == 1


def test_what_is_for_speed_alone_is_answered_by_usual_values() -> None:
    sizes, b, n = case()

    @choice
    def height(rows: int) -> int:
        return min(rows, 6)

    assert roughly(b) == 1000
    assert roughly(b * n) > 40_000
    assert type(roughly(3)) is int
    assert applied(height, b) == 6
    assert decided(max, b, n) == 1000
    assert type(b / 3) is float
    assert not surely(operator.lt, b, 2000)
    assert surely(operator.ge, b, 1)
    assert region(sizes) == []


def test_quotients_that_are_rounded_up() -> None:
    sizes, b, _ = case()
    high = -(-b // 6)
    assert str(high) == "<size floordiv(b + 5, 6)>"
    assert high >= 1
    assert -(-32768 * b // (7 * b)) == -(-32768 // 7)
    assert region(sizes) == []
    assert applied(math.gcd, 6 * b, 4) == 2
    assert applied(math.gcd, 6 * b, 2 * b) == 2 * b


def test_what_is_refused() -> None:
    sizes, b, n = case()
    for ask in (
        lambda: range(b),
        lambda: int(b),
        lambda: np.zeros(b),
        lambda: applied(len, (b, n)),
    ):
        with pytest.raises(TypeError, match=r"symbolic size|integer"):
            ask()
    sizes.close_questions()
    with pytest.raises(SizeError):
        _ = b > 14
    assert b != 1  # two of which one may be 1


def test_what_is_compared_with_2_31_is_taken_to_be_less() -> None:
    sizes, b, n = case()
    assert 40 * b * n < 2**31
    assert [sp.text(p) for p in sizes.limits] == ["-40*b*n + 2147483646"]
    assert region(sizes) == []
