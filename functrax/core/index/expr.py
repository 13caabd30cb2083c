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

Start at :class:`IndexExpr`, then :func:`linear`, which every operator ends in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias

from functrax.core.errors.typed import ArgumentError
from functrax.core.types.symbolic_sizes import gcd, integer

Index: TypeAlias = "IndexExpr | int"
Kind: TypeAlias = Literal["==0", "!=0", ">=0"]
_KINDS: tuple[Kind, ...] = ("==0", "!=0", ">=0")
# Nested integer tuples: ordered, compared and hashed by Python itself.  No strings, so that the
# hash of an expression is the same in every process.
_Key: TypeAlias = "tuple[object, ...]"
LoadRule: TypeAlias = "Callable[[int, tuple[IndexExpr, ...]], IndexExpr]"


class IndexExpr:
    """An integer expression of the indices of an iteration space (abstract; immutable).

    Attributes:
      const: the constant of the affine sum.
      terms: ``((atom, coefficient), …)``, sorted, no coefficient 0.
      dims_mask: bit k is set when ``Dim(k)`` is used.
      loads_mask: bit n is set when extra operand n is read.
      size: how many nodes the expression has; what simplification makes smaller.

    Example:
      >>> from functrax.core.index.expr import Dim
      >>> i, j = Dim(0), Dim(1)
      >>> str((4 * i + j) // 4), str((4 * i + j + 9) % 4)
      ('d0 + d1//4', '(d1 + 1)%4')
      >>> 4 * (j // 4) + j % 4 == j
      True
    """

    __slots__ = ("_hash", "_key", "const", "dims_mask", "loads_mask", "size")
    const: int
    size: int
    _key: _Key
    _hash: int
    dims_mask: int
    loads_mask: int

    @property
    def terms(self) -> tuple[tuple[Atom, int], ...]:
        """The atoms and their coefficients."""
        raise NotImplementedError

    def used_dims(self) -> frozenset[int]:
        """The numbers of the dimensions that the expression depends on.

        Example:
          >>> sorted((Dim(0) + Dim(2) % 3).used_dims())
          [0, 2]
        """
        mask = self.dims_mask
        return frozenset(k for k in range(mask.bit_length()) if mask >> k & 1)

    def as_int(self) -> int | None:
        """The value of a constant expression, else None."""
        return None if self.terms else self.const

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
        divisor = _divisor(self, other, "//")
        return _floordiv(-self, -divisor) if divisor < 0 else _floordiv(self, divisor)

    def __rfloordiv__(self, other: int) -> IndexExpr:
        return as_expr(other) // self

    def __mod__(self, other: Index) -> IndexExpr:
        divisor = _divisor(self, other, "%")
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

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, IndexExpr):
            return NotImplemented
        return self._hash == other._hash and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return _sum_text(self.const, self.terms)

    def __repr__(self) -> str:
        return f"IndexExpr({self})"

    def _seal(self, key: _Key, const: int, parts: Iterable[IndexExpr], size: int = 1) -> None:
        self.const = const
        self._key = key
        self._hash = hash(key)
        dims = loads = 0
        for part in parts:
            dims |= part.dims_mask
            loads |= part.loads_mask
            size += part.size
        self.dims_mask, self.loads_mask, self.size = dims, loads, size


class Atom(IndexExpr):
    """An expression that is not a sum (abstract)."""

    __slots__ = ("_sort_key",)
    _sort_key: _Key

    @property
    def terms(self) -> tuple[tuple[Atom, int], ...]:
        """The atom itself, once."""
        return ((self, 1),)

    def _seal_atom(self, sort_key: _Key, parts: tuple[IndexExpr, ...]) -> None:
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


class Division(Atom):
    """An expression divided by a positive constant (abstract)."""

    __slots__ = ("expr", "divisor")
    expr: IndexExpr
    divisor: int
    _rank: int  # where the kind of division stands in the order of atoms

    def __init__(self, expr: IndexExpr, divisor: int) -> None:
        self.expr, self.divisor = expr, divisor
        self._seal_atom((self._rank, divisor, expr._key), (expr,))


class FloorDiv(Division):
    """``expr // divisor``, rounded down; made by the operator ``//``, which normalises."""

    __slots__ = ()
    _rank = 1


class Mod(Division):
    """``expr % divisor``, never negative; made by the operator ``%``, which normalises."""

    __slots__ = ()
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
        kind = _KINDS.index(condition.kind)
        self._seal_atom((4, kind, condition.expr._key), (condition.expr,))


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
        if kind not in _KINDS:
            raise ArgumentError(
                "Condition: unknown kind of condition", got=repr(kind), fix=f"use one of {_KINDS}"
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
        return hash((_KINDS.index(self.kind), self.expr))

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
        return _KINDS.index(self.kind), self.expr._key


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
        const, terms = _fold_quotients(const, terms)
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


def compare(value: int, kind: Kind) -> bool:
    """Whether ``value`` is as ``kind`` says."""
    if kind == ">=0":
        return value >= 0
    return (value == 0) == (kind == "==0")


def _by_sort_key(term: tuple[Atom, int]) -> _Key:
    return term[0]._sort_key


def _divisor(expr: IndexExpr, other: Index, sign: str) -> int:
    divisor = as_expr(other).as_int()
    if not divisor:
        raise ArgumentError(
            f"index expression: '{sign}' takes a constant divisor other than 0",
            got=f"({expr}) {sign} ({other})",
            fix="divide by an integer constant",
        )
    return divisor


def _fold_quotients(const: int, terms: Mapping[Atom, int]) -> tuple[int, Mapping[Atom, int]]:
    """Apply ``e == d*(e//d) + e%d``, to quotients and to remainders, while the sum gets smaller.

    So ``d*(e//d) + e%d`` becomes ``e``, and ``e - d*(e//d)`` becomes ``e%d``.  But quotients keep
    small coefficients: ``16*e - 255*(e//16)`` becomes ``16*(e%16) + e//16``, the place of an
    element in a transposed matrix, whose digits tell how large it is and what its quotients are.
    """
    for atom, coef in terms.items():
        if type(atom) is FloorDiv and coef:
            often = _times(atom.expr, terms)
            if abs(coef + often * atom.divisor) < abs(coef):
                const, terms = _with_digits(const, terms, atom, -often)
                return _fold_quotients(const, terms)
            if coef % atom.divisor:
                continue
            times = coef // atom.divisor
        elif type(atom) is Mod and coef:
            times = coef
        else:
            continue
        moved, trial = _with_digits(const, terms, atom, times)
        quotient = (atom.expr // atom.divisor).terms
        if any(abs(trial[q]) > abs(terms.get(q, 0)) for q, _ in quotient):
            continue
        if _total_size(trial) < _total_size(terms):
            return _fold_quotients(moved, trial)
    return const, terms


def _times(expr: IndexExpr, terms: Mapping[Atom, int]) -> int:
    """How often an expression, but for its constant, is part of a sum with these terms."""
    (often, left), *others = {divmod(terms.get(atom, 0), coef) for atom, coef in expr.terms}
    return often if not left and not others else 0


def _with_digits(
    const: int, terms: Mapping[Atom, int], digit: Division, times: int
) -> tuple[int, dict[Atom, int]]:
    """A sum plus so many times ``e - d*(e//d) - e%d``, which is 0; a digit is one of the latter."""
    e, d = digit.expr, digit.divisor
    total = dict(terms)
    for part, factor in ((e, times), (e // d, -times * d), (e % d, -times)):
        const += factor * part.const
        for atom, coef in part.terms:
            total[atom] = total.get(atom, 0) + factor * coef
    return const, total


def _total_size(terms: Mapping[Atom, int]) -> int:
    return sum(atom.size for atom, coef in terms.items() if coef)


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
    if not expr.terms:  # 0 == 0 stands for true and 1 == 0 for false
        return as_expr(0 if compare(expr.const, kind) else 1), "==0"
    common = gcd(*(coef for _, coef in expr.terms))
    if kind == ">=0":
        return _divide_terms(expr, common), kind
    if expr.const % common:
        return as_expr(1 if kind == "==0" else 0), "==0"
    return _divide_terms(expr, common if expr.terms[0][1] > 0 else -common), kind


def _divide_terms(expr: IndexExpr, common: int) -> IndexExpr:
    if common == 1:
        return expr
    return linear(expr.const // common, {atom: coef // common for atom, coef in expr.terms})


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


def _sum_text(const: int, terms: tuple[tuple[Atom, int], ...]) -> str:
    text = ""
    for atom, coef in terms:
        part = _atom_text(atom)
        if isinstance(atom, Division) and (abs(coef) != 1 or (coef < 0 and not text)):
            part = f"({part})"
        part = part if abs(coef) == 1 else f"{abs(coef)}*{part}"
        sign = "-" if coef < 0 else "+"
        text += f" {sign} {part}" if text else sign.strip("+") + part
    if not text:
        return str(const)
    return text if const == 0 else f"{text} {'-' if const < 0 else '+'} {abs(const)}"


def _atom_text(atom: Atom) -> str:
    if isinstance(atom, Dim):
        return f"d{atom.number}"
    if isinstance(atom, Load):
        return f"e{atom.operand}({', '.join(map(str, atom.indices))})"
    if isinstance(atom, Indicator):
        return f"[{atom.condition}]"
    assert isinstance(atom, Division)
    inner = str(atom.expr)
    if not isinstance(atom.expr, Dim | Load | Indicator):
        inner = f"({inner})"
    return f"{inner}{'//' if isinstance(atom, FloorDiv) else '%'}{atom.divisor}"
