"""Text to index maps: what ``str(map)`` prints, and the index strings that users write.

What enters: text.  What leaves: an :class:`~functrax.core.index.map.IndexMap`, an expression, or
conditions.  One grammar serves all three (lowest precedence first; C's order)::

    either  := both ("||" both)*                  or
    both    := equal (("&&" | "&") equal)*        and
    equal   := order (("==" | "!=") order)*
    order   := sum (("<" | "<=" | ">" | ">=") sum)*
    sum     := product (("+" | "-") product)*
    product := unary (("*" | "/" | "//" | "%") unary)*
    unary   := ("-" | "+" | "!") unary | primary
    primary := number | name | "(" either ")" | "[" either "]" | load "(" either, … ")"

``/`` and ``//`` are both **floor** division and ``%`` has the divisor's sign, as in Python; C
truncates toward zero.  A comparison used as a number is 0 or 1; a number used as a condition means
"is not 0".  The map grammar is ``{[4,5] -> [9]: (d0 + d1 | (d0 - d1)%2 == 0 & d1 - 1 >= 0)}``.

Start at :func:`parse_index_map` and :func:`parse_index_expr`; :class:`_Parser` does the work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeAlias

from functrax.core.errors.typed import ArgumentError, FunctraxError, ParseError
from functrax.core.index.expr import Condition, Dim, IndexExpr, Load, as_expr, indicator
from functrax.core.index.map import IndexMap
from functrax.core.index.map_form import Shape, strides_of

# A conjunction of conditions, or a number.
_Value: TypeAlias = "IndexExpr | tuple[Condition, ...]"
_Names: TypeAlias = "Callable[[str], IndexExpr | None]"
_Sizes: TypeAlias = "Callable[[str], int]"
_LoadRanks: TypeAlias = "tuple[int, ...] | None"  # None: any operand, any rank

_TOKEN = re.compile(
    r"\s*(\d+|\$\{[^{}]*\}|@?[A-Za-z_]\w*|->|//|\|\||&&|[<>=!]=|[-+*/%()\[\]{}<>!,:|&])"
)
_ALLOWED = "integers, + - * / // %, comparisons, && || !, parentheses"


def parse_index_map(text: str, sizes: _Sizes | None = None) -> IndexMap:
    """The map that ``str`` printed; ``parse_index_map(str(m)) == m``.

    Args:
      text: the map.
      sizes: gives the number that an expression of sizes is, which stands in ``${...}``.

    Raises:
      ParseError: the text is not a map; the message points at the place.

    Example:
      >>> parse_index_map("{[4,5] -> [9]: (d0 + d1 | d1 - 1 >= 0)}").codomain
      (9,)
    """
    parser = _Parser(text, _dim_name, None, ParseError, sizes=sizes)
    parser.expect("{")
    domain = parser.shape()
    parser.expect("->")
    codomain = parser.shape()
    parser.expect(":")
    parser.expect("(")
    exprs: list[IndexExpr] = []
    while parser.next not in (")", "|"):
        exprs.append(parser.number(parser.sum()))
        if parser.next not in (")", "|"):
            parser.expect(",")
    conditions: tuple[Condition, ...] = ()
    if parser.skip("|"):
        conditions = parser.truth(parser.both())
    for sign in (")", "}"):
        parser.expect(sign)
    parser.end()
    return IndexMap(domain, codomain, tuple(exprs), conditions)


def parse_index_expr(
    text: str,
    rank: int,
    *,
    xshape: Shape = (),
    yshape: Shape = (),
    load_ranks: Sequence[int] = (),
) -> IndexExpr:
    """An index string in Jittor's notation, such as ``"i2 - i5*2"`` or ``"(i1 - i3)/2"``.

    Args:
      text: integers, ``i0`` to ``i<rank-1>`` (or ``d0``, …), ``+ - * / // %`` by constants,
        comparisons with ``&& || !`` (worth 0 or 1), ``xshapeK``, ``yshapeK``, ``xstrideK``,
        ``ystrideK``, ``XDIM``, ``YDIM``, and ``@e0(i0, i1)`` for extra operand 0 read at
        ``(i0, i1)``.  ``/`` is floor division.
      rank: how many dimensions the iteration space has.
      xshape: the shape that ``xshapeK`` and ``xstrideK`` are of (row-major strides).
      yshape: the shape that ``yshapeK`` and ``ystrideK`` are of.
      load_ranks: the rank of each extra operand.

    Raises:
      ArgumentError: the text is not such an expression.

    Example:
      >>> str(parse_index_expr("(i1 - i3)/2 + xshape0", 4, xshape=(8, 9)))
      '(d1 - d3)//2 + 8'
    """
    parser = _user_parser(text, rank, xshape, yshape, load_ranks)
    value = parser.number(parser.either())
    parser.end()
    return value


def parse_conditions(
    text: str,
    rank: int,
    *,
    xshape: Shape = (),
    yshape: Shape = (),
    load_ranks: Sequence[int] = (),
) -> tuple[Condition, ...]:
    """Conditions that hold together exactly where the text is true.

    The arguments are those of :func:`parse_index_expr`.  Jittor's overflow conditions say where
    a point is *not* valid: pass them through :func:`negate`.

    Example:
      >>> parse_conditions("i0 < 3 && (i0 - i1)%2", 2)
      (Condition(-d0 + 2 >= 0), Condition((d0 - d1)%2 != 0))
      >>> negate(parse_conditions("(i0 - i1)%2", 2))
      (Condition((d0 - d1)%2 == 0),)
    """
    parser = _user_parser(text, rank, xshape, yshape, load_ranks)
    value = parser.truth(parser.either())
    parser.end()
    return value


def negate(conditions: Sequence[Condition]) -> tuple[Condition, ...]:
    """Conditions that hold exactly where not all of the given ones do.

    Example:
      >>> negate([Dim(0) < 3])
      (Condition(d0 - 3 >= 0),)
    """
    if len(conditions) == 1:
        return (conditions[0].negate(),)
    return (_count(conditions) < len(conditions),)


def _count(conditions: Sequence[Condition]) -> IndexExpr:
    """How many of the conditions hold."""
    total = as_expr(0)
    for condition in conditions:
        total = total + indicator(condition)
    return total


def _user_parser(
    text: str, rank: int, xshape: Shape, yshape: Shape, load_ranks: Sequence[int]
) -> _Parser:
    constants = {"XDIM": len(xshape), "YDIM": len(yshape)}
    for letter, shape in (("x", xshape), ("y", yshape)):
        for k, (size, stride) in enumerate(zip(shape, strides_of(shape), strict=True)):
            constants[f"{letter}shape{k}"] = size
            constants[f"{letter}stride{k}"] = stride
    dims = {f"{letter}{k}": Dim(k) for letter in "id" for k in range(rank)}

    def names(name: str) -> IndexExpr | None:
        return as_expr(constants[name]) if name in constants else dims.get(name)

    allowed = [f"i0 to i{rank - 1}"] if rank else []
    allowed += [name for name in constants if rank or constants[name]]
    allowed += [f"@e{k}(…) of {n} indices" for k, n in enumerate(load_ranks)]
    return _Parser(text, names, tuple(load_ranks), ArgumentError, ", ".join([*allowed, _ALLOWED]))


def _dim_name(name: str) -> IndexExpr | None:
    return Dim(int(name[1:])) if re.fullmatch(r"d\d+", name) else None


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(
        self,
        text: str,
        names: _Names,
        load_ranks: _LoadRanks,
        error: type[FunctraxError],
        allowed: str = f"what str(map) prints: d0, d1, …, e0(…), {_ALLOWED}",
        sizes: _Sizes | None = None,
    ) -> None:
        self.sizes = sizes
        self.text, self.names, self.load_ranks = text, names, load_ranks
        self.error, self.allowed = error, allowed
        self.place = 0  # where the next token starts
        self.next = ""  # the next token, "" at the end
        self._after = 0
        self._advance()

    # ---- tokens -------------------------------------------------------------------------------

    def _advance(self) -> str:
        taken = self.next
        self.place = self._after
        while self.text[self.place : self.place + 1].isspace():
            self.place += 1
        match = _TOKEN.match(self.text, self.place)
        if match is None and self.place < len(self.text):
            self.fail(f"unexpected character {self.text[self.place]!r}")
        self.next = match.group(1) if match else ""
        self._after = match.end() if match else self.place
        return taken

    def skip(self, *signs: str) -> str:
        """Take the next token if it is one of the signs; otherwise answer ""."""
        return self._advance() if self.next in signs else ""

    def expect(self, sign: str) -> None:
        """Take the token ``sign``, which must come next."""
        if not self.skip(sign):
            self.fail(f"expected '{sign}', found {_quoted(self.next)}")

    def end(self) -> None:
        """Nothing may follow."""
        if self.next:
            self.fail(f"expected the end, found {_quoted(self.next)}")

    def fail(self, problem: str, place: int | None = None) -> NoReturn:
        """Raise the error that names the text, the place and what is allowed."""
        at = self.place if place is None else place
        raise self.error(
            f"index expression: {problem} at position {at}",
            got=f"{self.text}\n{' ' * at}^",
            fix=f"allowed are {self.allowed}",
        )

    # ---- grammar ------------------------------------------------------------------------------

    def shape(self) -> Shape:
        """``[2,3]``."""
        self.expect("[")
        sizes: list[int] = []
        while self.next != "]":
            size = self._size()
            if size is None:
                self.fail(f"expected a size, found {_quoted(self.next)}")
            sizes.append(size)
            if self.next != "]":
                self.expect(",")
        self.expect("]")
        return tuple(sizes)

    def _size(self) -> int | None:
        """The number that comes next, or the size that ``${...}`` is."""
        if self.next.isdigit():
            return int(self._advance())
        if self.sizes is not None and self.next.startswith("${"):
            return self.sizes(self._advance()[2:-1])
        return None

    def either(self) -> _Value:
        """``a || b``."""
        parts = [self.both()]
        while self.skip("||"):
            parts.append(self.both())
        if len(parts) == 1:
            return parts[0]
        # De Morgan: not (not a and not b and …)
        return negate([c for part in parts for c in _single(negate(self.truth(part)))])

    def both(self) -> _Value:
        """``a && b``."""
        value = self.equal()
        while self.skip("&&", "&"):
            value = (*self.truth(value), *self.truth(self.equal()))
        return value

    def equal(self) -> _Value:
        """``a == b``, ``a != b``."""
        value = self.order()
        while sign := self.skip("==", "!="):
            left, right = self.number(value), self.number(self.order())
            value = (left.eq(right) if sign == "==" else left.ne(right),)
        return value

    def order(self) -> _Value:
        """``a < b`` and its kind."""
        value = self.sum()
        while sign := self.skip("<", "<=", ">", ">="):
            left, right = self.number(value), self.number(self.sum())
            if sign in ("<", "<="):
                value = (left < right if sign == "<" else left <= right,)
            else:
                value = (left > right if sign == ">" else left >= right,)
        return value

    def sum(self) -> _Value:
        """``a + b - c``."""
        value = self._product()
        while sign := self.skip("+", "-"):
            left, right = self.number(value), self.number(self._product())
            value = left + right if sign == "+" else left - right
        return value

    def _product(self) -> _Value:
        value = self._unary()
        while self.next in ("*", "/", "//", "%"):
            place, sign = self.place, self._advance()
            left, right = self.number(value), self.number(self._unary())
            if sign == "*":
                if left.as_int() is None and right.as_int() is None:
                    self.fail(f"only a constant can multiply: ({left}) * ({right})", place)
                value = left * right
                continue
            if not right.as_int():
                self.fail(f"only a constant other than 0 can divide, not ({right})", place)
            value = left % right if sign == "%" else left // right
        return value

    def _unary(self) -> _Value:
        sign = self.skip("-", "+", "!")
        if not sign:
            return self._primary()
        value = self._unary()
        if sign == "!":
            return negate(self.truth(value))
        return -self.number(value) if sign == "-" else self.number(value)

    def _primary(self) -> _Value:
        for opening, closing in (("(", ")"), ("[", "]")):
            if self.skip(opening):
                inner = self.either()
                self.expect(closing)
                return inner
        place, word = self.place, self.next
        size = self._size()
        if size is not None:
            return as_expr(size)
        if re.fullmatch(r"@?e\d+", word):
            return self._load(place)
        known = self.names(word)
        if known is None:
            is_name = re.match(r"@|\w", word) is not None
            self.fail(
                f"{'unknown name' if is_name else 'expected an operand, found'} {_quoted(word)}"
            )
        self._advance()
        return known

    def _load(self, place: int) -> IndexExpr:
        operand = int(self._advance().lstrip("@")[1:])
        self.expect("(")
        indices: list[IndexExpr] = []
        while self.next != ")":
            indices.append(self.number(self.either()))
            if self.next != ")":
                self.expect(",")
        self.expect(")")
        if self.load_ranks is not None:
            if operand >= len(self.load_ranks):
                self.fail(f"there is no extra operand e{operand}", place)
            if self.load_ranks[operand] != len(indices):
                self.fail(f"e{operand} has {self.load_ranks[operand]} dimensions", place)
        return Load(operand, indices)

    # ---- numbers and conditions -----------------------------------------------------------------

    def number(self, value: _Value) -> IndexExpr:
        """A condition as 0 or 1."""
        if isinstance(value, IndexExpr):
            return value
        if len(value) == 1:
            return indicator(value[0])
        return indicator(_count(value).ge(len(value)))

    def truth(self, value: _Value) -> tuple[Condition, ...]:
        """A number as "is not 0"."""
        return (value.ne(0),) if isinstance(value, IndexExpr) else value


def _single(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """The conditions as one."""
    return conditions if len(conditions) == 1 else (_count(conditions).ge(len(conditions)),)


def _quoted(token: str) -> str:
    return f"'{token}'" if token else "the end"
