"""Sizes that stand for all values of a region: what the compiler makes with them holds for each.

A size is a polynomial of named sizes, as in ``symbolic_scopes.py``, and has a value besides: a
usual one of the region.  What is asked about sizes is answered

- if it has one answer for all values, by that;
- if it decides for speed alone (``roughly``, ``choice``, ``decided``), by the usual values;
- whether two sizes are equal that may differ: they are different, but of 1 each is told apart;
- else by the usual values, and the answer becomes a part of the region: from then on it holds for
  all values.  What was left out is another region, for which the compiler runs again.

Statements of other kinds allow rewrites for some values, which are left out; a value itself is not
given.

Start at :class:`SizeCase`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from functrax.core.types import size_polynomials as sp
from functrax.core.types.size_bounds import whole
from functrax.core.types.size_polynomials import Polynomial, SizeAtom, SizeFacts
from functrax.core.types.symbolic_scopes import (
    COMPARISONS,
    MOST_OF_INT32,
    OPERATIONS,
    SymbolicScope,
)
from functrax.core.types.symbolic_sizes import Recorded, SizeRecording, as_scalar, plain

_ONE: Final = sp.constant(1)
#: With this sizes begin in texts, of messages for example.  Code that has one is not code.
MARK: Final = "<size "


class SizeCase(SymbolicScope):
    """Sizes of a region.

    Args:
      usual: a value of each named size; together they are in the region.
      region: polynomials that are never negative in it.

    Attributes:
      region: the same, and those that answers have added.
      splits: for each answer that made the region smaller what it added, and the statement.
      limits: sizes that were taken to be less than int32 holds: what is never negative then.
    """

    def __init__(self, usual: Mapping[str, int], region: Sequence[Polynomial]) -> None:
        self._usual = dict(usual)
        super().__init__(())
        self.region = list(region)
        self.facts = SizeFacts(self.region)
        self.splits: list[tuple[list[Polynomial], str]] = []
        self.limits: list[Polynomial] = []
        self._signs: dict[Any, tuple[float, float]] = {}
        self._estimates: set[int] = set()
        self._is_closed = False
        for name in usual:
            self.size(name)

    def known(self, name: str) -> int | None:
        """The value of a named size, if it has only one in the region."""
        p = sp.variable(name)
        least = self.facts.lower(p)
        return int(least) if least == self.facts.upper(p) else None

    def close_questions(self) -> None:
        """From now on no answer may depend on sizes: the region stays as it is."""
        self._is_closed = True

    # ---- numbers --------------------------------------------------------------------------------

    def number(self, p: Polynomial) -> Any:
        """A polynomial as a size, or as the number that it is for all values of the region."""
        found = self._made.get(sp.frozen(p))
        if found is not None or sp.number(p) is not None:
            return super().number(p) if found is None else found
        least = self.facts.lower(p)
        return int(least) if least == self.facts.upper(p) else self._number(p)

    def _number(self, p: Polynomial) -> Recorded:
        key = sp.frozen(p)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._new(sp.evaluated(p, self._usual), None)
            self._polynomials.append(p)
        return found

    def _new(self, value: Any, step: Any) -> Recorded:
        if step is not None:
            self._polynomials.append({})  # so that there is one for each number; it is not used
        return super()._new(value, step)

    def polynomial_of(self, x: Any) -> Polynomial | None:
        """A number as a polynomial; None if it is none."""
        if type(x) is Recorded:
            return self._polynomials[x.number] if self._steps[x.number] is None else None
        return sp.constant(int(x)) if isinstance(x, int | np.integer) else None

    def step_of(self, x: Recorded) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
        """How a number that is no polynomial was computed: a function and its operands."""
        return self._steps[x.number]

    def apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        found = self._polynomial(function, operands)
        if found is not None:
            return self.number(found)
        counts = function in OPERATIONS and any(type(x) is float for x in operands)
        if counts or getattr(function, "is_choice", False) or function is operator.truediv:
            return function(*map(_usual, operands))
        estimated = getattr(function, "is_estimate", False) or (
            function in OPERATIONS and all(map(self._is_estimate, _sizes(operands)))
        )
        emitted = estimated or getattr(function, "is_emitted", False) or function is as_scalar
        if not emitted:
            self._refuse(f"{getattr(function, '__name__', function)} of", _sizes(operands))
        made = SizeRecording.apply(self, function, *operands)
        if estimated:
            self._estimates.add(made.number)
        return made

    def _is_estimate(self, x: Recorded) -> bool:
        return x.number in self._estimates

    def _polynomial(
        self, function: Callable[..., Any], operands: Sequence[Any]
    ) -> Polynomial | None:
        """What a function gives, if that is a polynomial."""
        if function is whole and type(operands[0]) is Recorded:
            step = self.step_of(operands[0])
            return None if step is None else self.polynomial_of(step[1][0])
        made = OPERATIONS.get(function)
        if function is math.gcd:
            return self._common_divisor(*operands)
        found = [p for p in map(self.polynomial_of, operands) if p is not None]
        if len(found) < len(operands):
            return None
        if function is operator.abs:
            (p,) = found
            return p if self.ask(operator.ge, operands[0], 0) else sp.add({}, p, -1)
        if made is None:
            return None
        if function in (max, min):
            first, second = operands
            if self._answer(operator.ge, first, second) is not None:
                first_is_it = self._answer(operator.ge, first, second) is (function is max)
                return found[0 if first_is_it else 1]
        if function is operator.floordiv:
            return self._quotient(*found)
        if function is operator.mod and self._is_rest(*found):
            return found[0]
        return made(*found)

    def _common_divisor(self, *numbers: Any) -> Polynomial:
        """A divisor that all have for all values; a greater one may be there for some."""
        found: Polynomial = {}
        for p in map(self.polynomial, numbers):
            if p and not (found and not sp.mod(p, found)):
                exact = not found or not sp.mod(found, p)
                found = p if exact else sp.constant(math.gcd(*found.values(), *p.values()))
        return found if self.facts.lower(found) >= 0 else sp.add({}, found, -1)

    def _quotient(self, p: Polynomial, q: Polynomial) -> Polynomial:
        """``p // q``; what is rounded up is a quotient of what is not negative, too."""
        if not q:
            return OPERATIONS[operator.floordiv](p, q)
        p, q = self._reduced(p, q)
        whole, rest = sp.divided(p, q)
        if not rest or self._is_rest(rest, q):
            return whole
        if self.facts.lower(q) < 1 or self.facts.upper(rest) > 0:
            return sp.add(whole, sp.floordiv(rest, q))
        more = sp.add(sp.add(q, rest, -1), sp.constant(-1))  # -((-rest + q - 1) // q)
        return sp.add(whole, sp.floordiv(more, q), -1)

    def _is_rest(self, p: Polynomial, q: Polynomial) -> bool:
        """Whether a polynomial is its own rest, divided by another one."""
        return self.facts.lower(p) >= 0 and self.facts.lower(sp.add(q, p, -1)) >= 1

    def _reduced(self, p: Polynomial, q: Polynomial) -> tuple[Polynomial, Polynomial]:
        """A quotient without the sizes that all terms above and below have as factors."""
        for atom in min(q, key=len, default=()):
            if (
                all(atom in monomial for monomial in (*p, *q))
                and self.facts.lower({(atom,): 1}) > 0
            ):
                return self._reduced(_without(p, atom), _without(q, atom))
        return p, q

    def scalar(self, x: Recorded, dtype: Any) -> Any:
        return x if self.step_of(x) is not None else self.apply(as_scalar, x, dtype)

    def attribute(self, x: Recorded, name: str) -> Any:
        if name == "dtype":
            return np.asarray(x.value).dtype
        self._refuse(f"the attribute {name} of", (x,))

    def shown(self, x: Recorded, write: Callable[[Any], str] = str) -> str:
        p = self.polynomial_of(x)
        return f"{MARK}{'a number' if p is None else sp.text(p)}>"

    def shown_any(self, x: Any) -> str:
        p = self.polynomial_of(x)
        return "a number" if p is None else sp.text(p)

    # ---- questions ------------------------------------------------------------------------------

    def ask(self, function: Callable[..., bool], *operands: Any) -> bool:
        if function is bool:
            function, operands = operator.ne, (*operands, 0)
        if function not in COMPARISONS:
            return False
        found = self._answer(function, *operands)
        if found is not None:
            return found
        p, q = map(self.polynomial_of, operands)
        if p is None or q is None:
            if function in (operator.eq, operator.ne):
                return function is operator.ne
            if any(map(self._is_estimate, _sizes(operands))):
                return function(*map(_usual, operands))
            self._refuse("a comparison of", _sizes(operands))
        if function in (operator.eq, operator.ne) and (self._is_closed or _ONE not in (p, q)):
            return function is operator.ne
        if self._is_small(operands):
            return self.ask(function, *operands)
        return self._split(function, p, q, operands)

    def _answer(self, function: Callable[..., bool], x: Any, y: Any) -> bool | None:
        """The answer that a statement has for all values of the region, or None."""
        p, q = self.polynomial_of(x), self.polynomial_of(y)
        if p is None or q is None:
            return None
        difference = sp.add(p, q, -1)
        key = sp.frozen(difference)
        least, most = self._signs.get(key, (0, 1))
        if key not in self._signs:
            least, most = self.facts.lower(difference), self.facts.upper(difference)
            if least > 0 or most < 0 or least == most:  # what is sure stays so
                self._signs[key] = least, most
        if function in (operator.eq, operator.ne):
            if least == 0 == most:
                return function is operator.eq
            return function is operator.ne if least > 0 or most < 0 else None
        found = {function(least, 0), function(most, 0)}
        return found.pop() if len(found) == 1 else None

    def _split(
        self,
        function: Callable[..., bool],
        p: Polynomial,
        q: Polynomial,
        operands: Sequence[Any],
    ) -> bool:
        """The answer for the usual values, to which the region is restricted."""
        if self._is_closed:
            self._refuse("a comparison of", _sizes(operands))
        answer = function(*map(_usual, operands))
        more = sp.add(p, q, -1)
        less = sp.add({}, more, -1)
        value = _usual(operands[0]) - _usual(operands[1])
        if function in (operator.eq, operator.ne):
            one = sp.constant(-1)
            added = [more, less] if value == 0 else [sp.add(more if value > 0 else less, one)]
        else:
            upwards = function in (operator.gt, operator.ge)
            strict = function in (operator.gt, operator.lt)
            side = more if upwards is answer else less
            added = [side if strict is not answer else sp.add(side, sp.constant(-1))]
        shown = [self.shown_any(x) for x in operands]
        self.splits.append((added, f"{shown[0]} {COMPARISONS[function]} {shown[1]}"))
        self._restrict(added)
        return answer

    def _restrict(self, added: Sequence[Polynomial]) -> None:
        self.region += added
        self.facts = SizeFacts(self.region)

    def _is_small(self, operands: Sequence[Any]) -> bool:
        """Whether a size is compared with more than int32 holds: then it is taken to be less."""
        for x, y in (operands, reversed(operands)):
            if type(x) is Recorded and type(y) is not Recorded and abs(y) >= MOST_OF_INT32:
                p = self.polynomial_of(x)
                assert p is not None, "what is no polynomial is not compared"
                self.limits.append(sp.add(sp.constant(MOST_OF_INT32 - 1), p, -1))
                self._restrict(self.limits[-1:])
                return True
        return False

    def is_sure(self, function: Callable[..., bool], *operands: Any) -> bool:
        return self._answer(function, *operands) is True

    def decide(self, function: Callable[..., Any], *operands: Any) -> Any:
        return function(*map(_usual, operands))


def _usual(x: Any) -> Any:
    """The value of an operand, which may be a tuple of operands."""
    return tuple([_usual(part) for part in x]) if type(x) is tuple else plain(x)


def _without(p: Polynomial, atom: SizeAtom) -> Polynomial:
    """A polynomial divided by an atom that all its terms have."""
    found: Polynomial = {}
    for monomial, times in p.items():
        place = monomial.index(atom)
        found[monomial[:place] + monomial[place + 1 :]] = times
    return found


def _sizes(operands: Sequence[Any]) -> list[Any]:
    return [x for x in operands if type(x) is Recorded]
