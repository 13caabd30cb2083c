"""Comparisons of integers with 0: their kinds, and which of them mean the same.

Start at :data:`Kind`; a :class:`~functrax.core.index.expr.Condition` compares an expression so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from functrax.core.types.symbolic_sizes import gcd

Kind: TypeAlias = Literal["==0", "!=0", ">=0"]
KINDS: tuple[Kind, ...] = ("==0", "!=0", ">=0")


def compare(value: int, kind: Kind) -> bool:
    """Whether ``value`` is as ``kind`` says."""
    if kind == ">=0":
        return value >= 0
    return (value == 0) == (kind == "==0")


def common_divisor(const: int, coefficients: Sequence[int], kind: Kind) -> int | bool:
    """What ``const + Σ coefficient * integer`` may be divided by, or the comparison's truth.

    A negative divisor turns the sum around, which equality does not mind: the first coefficient is
    positive then.
    """
    if not coefficients:
        return compare(const, kind)
    common = gcd(*coefficients)
    if kind == ">=0":
        return common
    if const % common:
        return kind != "==0"
    return common if coefficients[0] > 0 else -common
