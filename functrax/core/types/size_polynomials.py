"""Polynomials over sizes that are not known yet, and what holds for all of their values.

A polynomial is a dict from monomials to whole coefficients; a monomial is a sorted tuple of atoms,
an atom the name of a size, or a function of polynomials that is none itself: ``floordiv``, ``mod``
(by what is no number), ``max``, ``min``.  Each polynomial has one form, so equal ones are equal.

:meth:`SizeFacts.lower` finds a number that a polynomial never goes below: sizes are written as
their least value and a rest that is never negative, and what is known (``a >= b``,
``mod(b, 2) == 0``) is added as often as it makes a negative term vanish.

Start at :class:`SizeFacts`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from functrax.core.types.symbolic_sizes import applied


class SizeAtom(NamedTuple):
    """The name of a size; or the name of a function, with its arguments."""

    name: str
    arguments: tuple[tuple[tuple[Any, int], ...], ...] = ()


Monomial: TypeAlias = "tuple[SizeAtom, ...]"
Polynomial: TypeAlias = "dict[Monomial, int]"
#: So often facts are added to one question, one after the other.
_DEPTH: Final = 3


def constant(n: int) -> Polynomial:
    """A number as a polynomial."""
    return {(): n} if n else {}


def variable(name: str) -> Polynomial:
    """A size as a polynomial."""
    return {(SizeAtom(name),): 1}


def number(p: Polynomial) -> int | None:
    """The number that a polynomial is, or None."""
    return 0 if not p else p.get(()) if len(p) == 1 else None


def add(p: Polynomial, q: Polynomial, times: int = 1) -> Polynomial:
    """``p + times * q``."""
    out = dict(p)
    for monomial, n in q.items():
        total = out.get(monomial, 0) + times * n
        if total:
            out[monomial] = total
        else:
            out.pop(monomial, None)
    return out


def multiply(p: Polynomial, q: Polynomial) -> Polynomial:
    """``p * q``."""
    out: Polynomial = {}
    for m, a in p.items():
        out = add(out, {tuple(sorted((*m, *k))): a * b for k, b in q.items()})
    return out


def frozen(p: Polynomial) -> tuple[tuple[Any, int], ...]:
    """A polynomial as part of an atom."""
    return tuple(sorted(p.items()))


def function(name: str, *arguments: Polynomial) -> Polynomial:
    """A function of polynomials as a polynomial."""
    return {(SizeAtom(name, tuple(map(frozen, arguments))),): 1}


def floordiv(p: Polynomial, q: Polynomial) -> Polynomial:
    """``p // q``: what divides exactly is taken out."""
    out, rest = divided(p, q)
    n = number(q)
    if n is not None and number(rest) is not None:
        return add(out, constant((number(rest) or 0) // n))
    return out if not rest else add(out, function("floordiv", rest, q))


def mod(p: Polynomial, q: Polynomial) -> Polynomial:
    """``p % q``."""
    if number(q) is not None:
        return add(p, multiply(q, floordiv(p, q)), -1)
    rest = divided(p, q)[1]
    return {} if not rest else function("mod", rest, q)


def divided(p: Polynomial, q: Polynomial) -> tuple[Polynomial, Polynomial]:
    """What of ``p`` is a multiple of ``q``, divided by it, and the rest."""
    out: Polynomial = {}
    rest = dict(p)
    lead = max(q)  # of the most atoms, or last in order
    for _ in range(64):
        for monomial in sorted(rest, reverse=True):
            left = _without(monomial, lead)
            if left is not None and rest[monomial] % q[lead] == 0:
                part = {left: rest[monomial] // q[lead]}
                break
        else:
            return out, rest
        out = add(out, part)
        rest = add(rest, multiply(part, q), -1)
    return {}, p


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """A monomial divided by another one, if it has all of that one's atoms."""
    left = list(monomial)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def atoms(polynomials: Iterable[Polynomial]) -> set[SizeAtom]:
    """All atoms of polynomials, those inside of functions among them."""
    found: set[SizeAtom] = set()
    for p in polynomials:
        for monomial in p:
            for atom in monomial:
                if atom not in found:
                    found |= {atom} | atoms(map(dict, atom.arguments))
    return found


def evaluated(p: Polynomial, sizes: Mapping[str, Any]) -> Any:
    """The value of a polynomial for certain sizes, which may be such of another scope."""
    return sum(n * math.prod([_value(a, sizes) for a in m]) for m, n in p.items())


def _value(atom: SizeAtom, sizes: Mapping[str, Any]) -> Any:
    if not atom.arguments:
        return sizes[atom.name]
    return FUNCTIONS[atom.name](*(evaluated(dict(x), sizes) for x in atom.arguments))


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": lambda a, b: applied(max, a, b),
    "min": lambda a, b: applied(min, a, b),
}


def text(p: Polynomial) -> str:
    """A polynomial as it is written: ``2*b^2 + floordiv(n, 4) - 1``."""
    if not p:
        return "0"
    terms = sorted(p.items(), key=lambda term: (-len(term[0]), term[0]))
    out = ""
    for monomial, n in terms:
        counts: dict[str, int] = {}
        for atom in monomial:
            name = atom.name
            if atom.arguments:
                name += f"({', '.join(text(dict(x)) for x in atom.arguments)})"
            counts[name] = counts.get(name, 0) + 1
        factors = [name if k == 1 else f"{name}^{k}" for name, k in counts.items()]
        if abs(n) != 1 or not factors:
            factors.insert(0, str(abs(n)))
        sign = ("-" if n < 0 else "") if not out else (" - " if n < 0 else " + ")
        out += sign + "*".join(factors)
    return out


class SizeFacts:
    """What is known of sizes: each is at least 1, and some polynomials are never negative.

    Args:
      never_negative: these polynomials.
    """

    def __init__(self, never_negative: Iterable[Polynomial] = ()) -> None:
        self._known = list(never_negative)
        self._least: dict[SizeAtom, float] = {}
        for p in self._known:  # b - 4: b is at least 4
            rest = [(m, n) for m, n in p.items() if m]
            if len(rest) == 1 and len(rest[0][0]) == 1 and rest[0][1] > 0:
                ((atom,), n) = rest[0]
                self._least[atom] = max(self._least_of(atom), -(p.get((), 0) // n))

    def lower(self, p: Polynomial) -> float:
        """A number that the polynomial never goes below; ``-inf`` if none is found."""
        facts = [*self._known, *self._of_functions(atoms([p, *self._known]))]
        return self._lower(p, facts, _DEPTH)

    def upper(self, p: Polynomial) -> float:
        """A number that the polynomial never exceeds; ``inf`` if none is found."""
        return -self.lower(add({}, p, -1))

    def _lower(self, p: Polynomial, known: list[Polynomial], depth: int) -> float:
        shifted = self._shifted(p)
        found = -math.inf
        if shifted is not None and all(n >= 0 for m, n in shifted.items() if m):
            found = shifted.get((), 0)
        if depth == 0 or found > -math.inf:
            return found
        for fact in known:
            for monomial, n in fact.items():
                # p >= p - k * fact for whatever k >= 0: one with which the monomial vanishes.
                mine = p.get(monomial, 0)
                if monomial and n * mine > 0 and mine % n == 0:
                    rest = add(p, fact, -(mine // n))
                    found = max(found, self._lower(rest, known, depth - 1))
        return found

    def _shifted(self, p: Polynomial) -> Polynomial | None:
        """The polynomial of what each atom is more than it is at least."""
        out: Polynomial = {}
        for monomial, n in p.items():
            product = constant(n)
            for atom in monomial:
                least = self._least_of(atom)
                if least == -math.inf:
                    return None
                product = multiply(product, {(atom,): 1, **constant(int(least))})
            out = add(out, product)
        return out

    def _least_of(self, atom: SizeAtom) -> float:
        """What an atom is at least; sizes are at least 1."""
        found = self._least.get(atom)
        if found is None:
            found = self._least[atom] = self._least_of_function(atom) if atom.arguments else 1
        return found

    def _least_of_function(self, atom: SizeAtom) -> float:
        a, b = (self._lower(dict(x), [], 0) for x in atom.arguments)
        if atom.name in ("max", "min"):
            return max(a, b) if atom.name == "max" else min(a, b)
        by = number(dict(atom.arguments[1]))
        if atom.name == "floordiv" and by is not None and by > 0 and a > -math.inf:
            return a // by
        return 0 if b >= 1 and (atom.name == "mod" or a >= 0) else -math.inf

    def _of_functions(self, found: set[SizeAtom]) -> list[Polynomial]:
        """What the meaning of functions says, as polynomials that are never negative."""
        facts: list[Polynomial] = []
        for atom in found:
            if not atom.arguments:
                continue
            a, b = (dict(x) for x in atom.arguments)
            own: Polynomial = {(atom,): 1}
            if atom.name in ("max", "min"):
                sign = 1 if atom.name == "max" else -1
                facts += [add(multiply(constant(sign), own), x, -sign) for x in (a, b)]
            elif self._lower(b, self._known, 1) >= 1:
                most = add(b, constant(-1))
                if atom.name == "mod":
                    facts += [own, add(most, own, -1)]
                    if self._lower(a, self._known, 1) >= 0:
                        facts.append(add(a, own, -1))
                else:  # b * own <= a <= b * own + b - 1
                    rest = add(a, multiply(b, own), -1)
                    facts += [rest, add(most, rest, -1)]
        return facts
