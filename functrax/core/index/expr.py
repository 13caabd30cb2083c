"""Integer index expressions: the arithmetic that index maps are written in.

What enters: dimension numbers, integers and index arrays.  What leaves: immutable, hashable
expressions in a canonical form, so that two expressions that normalise alike are ``==``.

Every expression is an affine sum ``const + Σ coef * atom``.  The atoms are

- :class:`Dim`: the k-th index of the iteration space;
- :class:`FloorDiv` and :class:`Mod`: an expression divided by a positive constant.  Division is
  **floor** division and the remainder has the sign of the divisor, as in Python;
- :class:`Load`: an integer array (an extra operand), read at some expressions;
- :class:`Indicator`: 1 where a condition holds, 0 elsewhere.

An atom is itself an expression (the sum of itself once); :class:`Sum` is everything else,
constants included.  Build expressions with ``Dim(k)``, ``Load(n, (…))`` and the operators
``+ - * // %``; ``//`` and ``%`` normalise.  A :class:`Condition` is an expression compared with 0.

Start at :class:`IndexExpr`, then :func:`linear`, which every operator ends in.  What needs none of
these classes is in ``affine.py`` (sums as data, and their text), ``digits.py`` (quotients and
remainders that add up to a whole) and ``comparisons.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from functrax.core.errors.typed import ArgumentError
from functrax.core.index.affine import Affine, Key
from functrax.core.index.comparisons import KINDS, Kind, common_divisor, compare
from functrax.core.index.digits import fold_quotients
from functrax.core.types.symbolic_sizes import gcd, integer

Index: TypeAlias = "IndexExpr | int"
LoadRule: TypeAlias = "Callable[[int, tuple[IndexExpr, ...]], IndexExpr]"


class IndexExpr(Affine):
    """An integer expression of the indices of an iteration space (abstract; immutable).

    Example:
      >>> from functrax.core.index.expr import Dim
      >>> i, j = Dim(0), Dim(1)
      >>> str((4 * i + j) // 4), str((4 * i + j + 9) % 4)
      ('d0 + d1//4', '(d1 + 1)%4')
      >>> 4 * (j // 4) + j % 4 == j
      True
    """

    __slots__ = ()

    @property
    def terms(self) -> tuple[tuple[Atom, int], ...]:
        """The atoms and their coefficients."""
        raise NotImplementedError

    def substitute(self, dims: Mapping[int, Index], load: LoadRule | None = None) -> IndexExpr:
        """Put an expression in place of each dimension named, and of each extra operand's read.

        Args:
          dims: dimension number to expression; dimensions that are absent stay.
          load: called with an operand's number and its indices, which are substituted already;
            returns what stands in place of that read.

        Example:
          >>> str((Dim(0) // 2 + Dim(1)).substitute({0: 2 * Dim(3) + 1}))
          'd1 + d3'
        """
        return _substitute(self, {k: as_expr(e) for k, e in dims.items()}, load or Load, {})

    def __add__(self, other: Index) -> IndexExpr:
        if type(other) is int:
            return _moved(self, other)
        right = as_expr(other)
        return add_terms(self.const + right.const, (*self.terms, *right.terms))

    __radd__ = __add__

    def __neg__(self) -> IndexExpr:
        return self * -1

    def __sub__(self, other: Index) -> IndexExpr:
        if type(other) is int:
            return _moved(self, -other)
        that = as_expr(other)
        return add_terms(self.const - that.const, (*self.terms, *[(x, -c) for x, c in that.terms]))

    def __rsub__(self, other: int) -> IndexExpr:
        return as_expr(other) - self

    def __mul__(self, other: Index) -> IndexExpr:
        left, right = self, as_expr(other)
        factor = right.as_int()
        if factor is None:
            left, factor = right, left.as_int()
        if factor is None:
            raise ArgumentError(
                "index expression: only a constant can multiply an index expression",
                got=f"({self}) * ({right})",
                fix="keep products of indices out of index maps, or compute them into an index "
                "array and read it with Load",
            )
        return linear(left.const * factor, {atom: coef * factor for atom, coef in left.terms})

    __rmul__ = __mul__

    def __floordiv__(self, other: Index) -> IndexExpr:
        divisor = as_expr(other).as_divisor(self, "//")
        return _floordiv(-self, -divisor) if divisor < 0 else _floordiv(self, divisor)

    def __rfloordiv__(self, other: int) -> IndexExpr:
        return as_expr(other) // self

    def __mod__(self, other: Index) -> IndexExpr:
        divisor = as_expr(other).as_divisor(self, "%")
        return -_mod(-self, -divisor) if divisor < 0 else _mod(self, divisor)

    def __rmod__(self, other: int) -> IndexExpr:
        return as_expr(other) % self

    def eq(self, other: Index) -> Condition:
        """The condition ``self == other`` (``==`` itself compares structure)."""
        return Condition(self - other, "==0")

    def ne(self, other: Index) -> Condition:
        """The condition ``self != other``."""
        return Condition(self - other, "!=0")

    def ge(self, other: Index) -> Condition:
        """The condition ``self >= other``; also the operator ``>=``."""
        return Condition(self - other, ">=0")

    def gt(self, other: Index) -> Condition:
        """The condition ``self > other``; also the operator ``>``."""
        return Condition(self - other - 1, ">=0")

    def le(self, other: Index) -> Condition:
        """The condition ``self <= other``; also the operator ``<=``."""
        return Condition(as_expr(other) - self, ">=0")

    def lt(self, other: Index) -> Condition:
        """The condition ``self < other``; also the operator ``<``."""
        return Condition(as_expr(other) - self - 1, ">=0")

    __ge__ = ge
    __gt__ = gt
    __le__ = le
    __lt__ = lt

    def __repr__(self) -> str:
        return f"IndexExpr({self})"


class Atom(IndexExpr):
    """An expression that is not a sum (abstract)."""

    __slots__ = ("_sort_key",)
    _sort_key: Key

    @property
    def terms(self) -> tuple[tuple[Atom, int], ...]:
        """The atom itself, once."""
        return ((self, 1),)

    def _seal_atom(self, sort_key: Key, parts: tuple[IndexExpr, ...]) -> None:
        self._sort_key = sort_key
        self._seal((0, ((sort_key, 1),)), 0, parts)


class Sum(IndexExpr):
    """``const + Σ coef * atom``; made by :func:`linear`, never directly."""

    __slots__ = ("_terms",)
    _terms: tuple[tuple[Atom, int], ...]

    def __init__(self, const: int, terms: tuple[tuple[Atom, int], ...]) -> None:
        self._terms = terms
        key = (const, tuple([(atom._sort_key, coef) for atom, coef in terms]))
        self._seal(key, const, [atom for atom, _ in terms], size=0)

    @property
    def terms(self) -> tuple[tuple[Atom, int], ...]:
        """The atoms and their coefficients."""
        return self._terms


class Dim(Atom):
    """The ``number``-th index of the iteration space; ``0 <= Dim(k) < domain[k]``."""

    __slots__ = ("number",)
    number: int

    def __init__(self, number: int) -> None:
        if number < 0:
            what = "Dim: a dimension's number is at least 0"
            raise ArgumentError(what, got=str(number), fix="Dim(0) for the first")
        self.number = number
        self._seal_atom((0, number), ())
        self.dims_mask = 1 << number

    def text(self) -> str:
        """Such as ``d0``."""
        return f"d{self.number}"


class Division(Atom):
    """An expression divided by a positive constant (abstract)."""

    __slots__ = ("expr", "divisor")
    expr: IndexExpr
    divisor: int
    _rank: int  # where the kind of division stands in the order of atoms

    def __init__(self, expr: IndexExpr, divisor: int) -> None:
        self.expr, self.divisor = expr, divisor
        self._seal_atom((self._rank, divisor, expr._key), (expr,))

    def text(self) -> str:
        """Such as ``d0//4`` or ``(d0 + 1)%4``."""
        inner = str(self.expr)
        if not isinstance(self.expr, Dim | Load | Indicator):
            inner = f"({inner})"
        return f"{inner}{self.digit}{self.divisor}"


class FloorDiv(Division):
    """``expr // divisor``, rounded down; made by the operator ``//``, which normalises."""

    __slots__ = ()
    digit = "//"
    _rank = 1


class Mod(Division):
    """``expr % divisor``, never negative; made by the operator ``%``, which normalises."""

    __slots__ = ()
    digit = "%"
    _rank = 2


class Load(Atom):
    """Extra operand ``operand``, an integer array, read at ``indices``.

    A point of the map at which ``indices`` are outside that array is not valid.

    Example:
      >>> str(Load(0, (Dim(1), 3)) + 1)
      'e0(d1, 3) + 1'
    """

    __slots__ = ("indices", "operand")
    operand: int
    indices: tuple[IndexExpr, ...]

    def __init__(self, operand: int, indices: Iterable[Index]) -> None:
        if operand < 0:
            what = "Load: an operand's number is at least 0"
            raise ArgumentError(what, got=str(operand), fix="Load(0, ...) for the first")
        self.operand = operand
        self.indices = tuple(as_expr(index) for index in indices)
        self._seal_atom((3, operand, tuple(e._key for e in self.indices)), self.indices)
        self.loads_mask |= 1 << operand

    def text(self) -> str:
        """Such as ``e0(d1, 3)``."""
        return f"e{self.operand}({', '.join(map(str, self.indices))})"


class Indicator(Atom):
    """1 where ``condition`` holds and 0 elsewhere.

    Example:
      >>> str(Dim(0) + Indicator(Dim(1) >= 2))
      'd0 + [d1 - 2 >= 0]'
    """

    __slots__ = ("condition",)
    condition: Condition

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        kind = KINDS.index(condition.kind)
        self._seal_atom((4, kind, condition.expr._key), (condition.expr,))

    def text(self) -> str:
        """Such as ``[d1 >= 0]``."""
        return f"[{self.condition}]"


class Condition:
    """An expression compared with 0: ``expr == 0``, ``expr != 0`` or ``expr >= 0`` (immutable).

    Common factors are divided out and a constant condition is one of two, so that conditions
    that normalise alike are ``==``.

    Args:
      expr: the expression.
      kind: ``"==0"``, ``"!=0"`` or ``">=0"``.

    Example:
      >>> str(Condition(2 * Dim(0) - 3, ">=0"))
      'd0 - 2 >= 0'
      >>> str(((Dim(0) - Dim(1)) % 3).eq(0))
      '(d0 - d1)%3 == 0'
    """

    __slots__ = ("expr", "kind")
    expr: IndexExpr
    kind: Kind

    def __init__(self, expr: Index, kind: Kind) -> None:
        if kind not in KINDS:
            raise ArgumentError(
                "Condition: unknown kind of condition", got=repr(kind), fix=f"use one of {KINDS}"
            )
        self.expr, self.kind = _normal_condition(as_expr(expr), kind)

    def as_bool(self) -> bool | None:
        """True or False for a condition on a constant, else None."""
        value = self.expr.as_int()
        return None if value is None else compare(value, self.kind)

    def negate(self) -> Condition:
        """The condition that holds exactly where this one does not."""
        if self.kind == ">=0":
            return Condition(-self.expr - 1, ">=0")
        return Condition(self.expr, "!=0" if self.kind == "==0" else "==0")

    def substitute(self, dims: Mapping[int, Index], load: LoadRule | None = None) -> Condition:
        """As :meth:`IndexExpr.substitute`."""
        return Condition(self.expr.substitute(dims, load), self.kind)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Condition):
            return NotImplemented
        return self.kind == other.kind and self.expr == other.expr

    def __hash__(self) -> int:
        return hash((KINDS.index(self.kind), self.expr))

    def __bool__(self) -> bool:
        raise ArgumentError(
            "index condition: the truth of a condition is known at each point only",
            got=str(self),
            fix="put it in the map's conditions; write 'a < b < c' as two conditions",
        )

    def __str__(self) -> str:
        return f"{self.expr} {self.kind[:2]} 0"

    def __repr__(self) -> str:
        return f"Condition({self})"

    def sort_key(self) -> tuple[object, ...]:
        """A key that orders conditions the same way in every process."""
        return KINDS.index(self.kind), self.expr._key


def as_expr(value: Index) -> IndexExpr:
    """An integer or an expression as an expression.

    Raises:
      ArgumentError: ``value`` is neither.
    """
    if isinstance(value, IndexExpr):
        return value
    try:
        return Sum(integer(value), ())
    except TypeError:
        raise ArgumentError(
            "index expression: an operand is neither an integer nor an index expression",
            got=f"{value!r} ({type(value).__name__})",
            fix="index expressions are made of Dim(k), Load(n, (…)), integers and + - * // %",
        ) from None


def linear(const: int, terms: Mapping[Atom, int]) -> IndexExpr:
    """The canonical expression ``const + Σ terms[atom] * atom``."""
    if FloorDiv in map(type, terms):
        const, terms = fold_quotients(const, terms)
    kept = [(atom, coef) for atom, coef in terms.items() if coef]
    if const == 0 and len(kept) == 1 and kept[0][1] == 1:
        return kept[0][0]
    if len(kept) > 1:
        kept.sort(key=_by_sort_key)
    return Sum(const, tuple(kept))


def _moved(expr: IndexExpr, step: int) -> IndexExpr:
    """The expression plus an integer; its terms stay as they are."""
    const, terms = expr.const + step, expr.terms
    if const == 0 and len(terms) == 1 and terms[0][1] == 1:
        return terms[0][0]
    return Sum(const, terms)


def add_terms(const: int, terms: Iterable[tuple[Atom, int]]) -> IndexExpr:
    """As :func:`linear`, for terms among which an atom may occur more than once."""
    total: dict[Atom, int] = {}
    for atom, coef in terms:
        total[atom] = total.get(atom, 0) + coef
    return linear(const, total)


def _by_sort_key(term: tuple[Atom, int]) -> Key:
    return term[0]._sort_key


def _floordiv(expr: IndexExpr, divisor: int) -> IndexExpr:
    """Multiples of the divisor leave the quotient, common factors are divided out."""
    if divisor == 1:
        return expr
    const, low_const = divmod(expr.const, divisor)
    whole = {atom: coef // divisor for atom, coef in expr.terms if coef % divisor == 0}
    rest = {atom: coef for atom, coef in expr.terms if coef % divisor}
    if not rest:
        return linear(const, whole)
    # (g*r + c) // (g*d) == (r + c//g) // d
    common = gcd(divisor, *rest.values())
    divisor //= common
    inner = linear(low_const // common, {atom: coef // common for atom, coef in rest.items()})
    if isinstance(inner, Mod) and inner.divisor % divisor == 0:
        # (e % (a*b)) // b == (e//b) % a
        quotient = _mod(_floordiv(inner.expr, divisor), inner.divisor // divisor)
        return linear(const, whole) + quotient
    nested = [atom for atom, coef in inner.terms if isinstance(atom, FloorDiv) and coef == 1]
    if len(nested) == 1:  # (e//a + r) // b == (e + a*r) // (a*b)
        atom = nested[0]
        merged = atom.expr + (inner - atom) * atom.divisor
        return linear(const, whole) + _floordiv(merged, atom.divisor * divisor)
    quotient = FloorDiv(inner, divisor)
    return add_terms(const, [*whole.items(), (quotient, 1)])


def _mod(expr: IndexExpr, divisor: int) -> IndexExpr:
    """Multiples of the divisor vanish, common factors leave the remainder."""
    if divisor == 1:
        return as_expr(0)
    rest: dict[Atom, int] = {}
    for atom, coef in expr.terms:
        if isinstance(atom, Mod) and coef * atom.divisor % divisor == 0:
            return _mod(expr + (atom.expr - atom) * coef, divisor)
        if coef % divisor:
            rest[atom] = coef
    if not rest:
        return as_expr(expr.const % divisor)
    # (g*e + g*q + r) % (g*m) == g*((e + q) % m) + r
    common = gcd(divisor, *rest.values())
    high, low = divmod(expr.const % divisor, common)
    inner = linear(high, {atom: coef // common for atom, coef in rest.items()})
    if len(inner.terms) != len(rest):  # quotients folded: what came out may reduce further
        return _mod(inner, divisor // common) * common + low
    return linear(low, {Mod(inner, divisor // common): common})


def _normal_condition(expr: IndexExpr, kind: Kind) -> tuple[IndexExpr, Kind]:
    found = common_divisor(expr.const, [coef for _, coef in expr.terms], kind)
    if isinstance(found, bool):  # 0 == 0 stands for true and 1 == 0 for false
        return as_expr(0 if found else 1), "==0"
    if found == 1:
        return expr, kind
    return linear(expr.const // found, {atom: coef // found for atom, coef in expr.terms}), kind


def _substitute(
    expr: IndexExpr, dims: Mapping[int, IndexExpr], load: LoadRule, done: dict[Atom, IndexExpr]
) -> IndexExpr:
    const, terms = expr.const, []
    for atom, coef in expr.terms:
        if atom not in done:
            done[atom] = _substitute_atom(atom, dims, load, done)
        const += coef * done[atom].const
        terms += [(inner, coef * factor) for inner, factor in done[atom].terms]
    return add_terms(const, terms)


def _substitute_atom(
    atom: Atom, dims: Mapping[int, IndexExpr], load: LoadRule, done: dict[Atom, IndexExpr]
) -> IndexExpr:
    if isinstance(atom, Dim):
        return dims.get(atom.number, atom)
    if isinstance(atom, FloorDiv):
        return _floordiv(_substitute(atom.expr, dims, load, done), atom.divisor)
    if isinstance(atom, Mod):
        return _mod(_substitute(atom.expr, dims, load, done), atom.divisor)
    if isinstance(atom, Load):
        indices = tuple(_substitute(index, dims, load, done) for index in atom.indices)
        return load(atom.operand, indices)
    assert isinstance(atom, Indicator)
    inner = _substitute(atom.condition.expr, dims, load, done)
    return indicator(Condition(inner, atom.condition.kind))


def indicator(condition: Condition) -> IndexExpr:
    """1 where the condition holds, 0 elsewhere, as an expression."""
    known = condition.as_bool()
    return Indicator(condition) if known is None else as_expr(int(known))
