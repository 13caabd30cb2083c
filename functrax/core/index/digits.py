"""Digits of an affine sum: quotients and remainders that add up to what they are digits of.

What enters: the constant and the terms of a sum.  What leaves: the same sum, with fewer digits.
Only the operators ``//`` and ``%`` of :mod:`functrax.core.index.expr` are needed here, no class.

Start at :func:`fold_quotients`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

#: Atoms of ``core/index/expr.py``, with their coefficients.
Terms: TypeAlias = "Mapping[Any, int]"


def fold_quotients(const: int, terms: Terms) -> tuple[int, Terms]:
    """Apply ``e == d*(e//d) + e%d``, to quotients and to remainders, while the sum gets smaller.

    So ``d*(e//d) + e%d`` becomes ``e``, and ``e - d*(e//d)`` becomes ``e%d``.  But quotients keep
    small coefficients: ``16*e - 255*(e//16)`` becomes ``16*(e%16) + e//16``, the place of an
    element in a transposed matrix, whose digits tell how large it is and what its quotients are.
    """
    for atom, coef in terms.items():
        if atom.digit == "//" and coef:
            often = _times(atom.expr, terms)
            if abs(coef + often * atom.divisor) < abs(coef):
                const, terms = _with_digits(const, terms, atom, -often)
                return fold_quotients(const, terms)
            if coef % atom.divisor:
                continue
            times = coef // atom.divisor
        elif atom.digit == "%" and coef:
            times = coef
        else:
            continue
        moved, trial = _with_digits(const, terms, atom, times)
        quotient = (atom.expr // atom.divisor).terms
        if any(abs(trial[q]) > abs(terms.get(q, 0)) for q, _ in quotient):
            continue
        if _total_size(trial) < _total_size(terms):
            return fold_quotients(moved, trial)
    return const, terms


def _times(expr: Any, terms: Terms) -> int:
    """How often an expression, but for its constant, is part of a sum with these terms."""
    (often, left), *others = {divmod(terms.get(atom, 0), coef) for atom, coef in expr.terms}
    return often if not left and not others else 0


def _with_digits(const: int, terms: Terms, digit: Any, times: int) -> tuple[int, dict[Any, int]]:
    """A sum plus so many times ``e - d*(e//d) - e%d``, which is 0; a digit is one of the latter."""
    e, d = digit.expr, digit.divisor
    total = dict(terms)
    for part, factor in ((e, times), (e // d, -times * d), (e % d, -times)):
        const += factor * part.const
        for atom, coef in part.terms:
            total[atom] = total.get(atom, 0) + factor * coef
    return const, total


def _total_size(terms: Terms) -> int:
    return sum(atom.size for atom, coef in terms.items() if coef)
