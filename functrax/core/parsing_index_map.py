"""Index maps read from text: ``{[4,5] -> [9]: (d0 + d1 | (d0 - d1)%2 == 0)}``.

``d0`` is a dimension of the domain, ``e0(...)`` a read of an index operand, ``[a >= b]`` is 1
where the condition holds.  A minus in front of a term negates all of the term, so ``-d0//2`` is
``-(d0//2)``, as maps print it.  Any expression may be given; the map simplifies it.

Start at :func:`read_index_map`.
"""

from __future__ import annotations

from collections.abc import Callable

from functrax.core.errors import FunctraxError
from functrax.core.index_expr import Condition, Dim, IndexExpr, Indicator, Load, as_expr
from functrax.core.index_map import IndexMap
from functrax.core.lexer import Cursor, Token

_MAX_LOADS = 64  # index operands that one map may read
_COMPARE: dict[str, Callable[[IndexExpr, IndexExpr], Condition]] = {
    "==": IndexExpr.eq,
    "!=": IndexExpr.ne,
    ">=": IndexExpr.ge,
    "<=": IndexExpr.le,
    ">": IndexExpr.gt,
    "<": IndexExpr.lt,
}


def read_index_map(cursor: Cursor) -> IndexMap:
    """The map that comes next.

    Raises:
      ParseError: if there is none, or it breaks a rule of index maps.

    >>> print(read_index_map(Cursor("{[6] -> [3]: ((d0 + 1)//2 - 1 | d0 >= 0)}")))
    {[6] -> [3]: ((d0 + 1)//2 - 1)}
    """
    begin = cursor.expect("{", "before an index map")
    domain = _shape(cursor)
    cursor.expect("->", "between the domain and the codomain of an index map")
    codomain = _shape(cursor)
    cursor.expect(":", "before the expressions of an index map")
    cursor.expect("(", "before the expressions of an index map")
    exprs: list[IndexExpr] = []
    conditions: list[Condition] = []
    rank = len(domain)
    while not cursor.at(")", "|"):
        exprs.append(_expr(cursor, rank))
        if not cursor.accept(","):
            break
    if cursor.accept("|"):
        conditions.append(_condition(cursor, rank))
        while cursor.accept("&"):
            conditions.append(_condition(cursor, rank))
    cursor.expect(")", "after the expressions of an index map")
    cursor.expect("}", "after an index map")
    try:
        return IndexMap(domain, codomain, tuple(exprs), tuple(conditions))
    except FunctraxError as error:
        raise cursor.error(f"not an index map: {error.what}", begin, error.fix) from None


def read_int(cursor: Cursor, what: str) -> int:
    """The decimal integer that comes next, without a sign."""
    token = cursor.expect_kind("number", what)
    if not token.text.isdigit() or len(token.text) > 100:
        raise cursor.error(f"expected {what}", token)
    return int(token.text)


def _shape(cursor: Cursor) -> tuple[int, ...]:
    cursor.expect("[", "before a shape")
    sizes: list[int] = []
    while not cursor.at("]"):
        sizes.append(read_int(cursor, "the size of an axis"))
        if not cursor.accept(","):
            break
    cursor.expect("]", "after a shape")
    return tuple(sizes)


def _condition(cursor: Cursor, rank: int) -> Condition:
    left = _expr(cursor, rank)
    compare = _COMPARE.get(cursor.token.text)
    if compare is None:
        raise cursor.error("expected a comparison in the condition of an index map")
    cursor.advance()
    return compare(left, _expr(cursor, rank))


def _expr(cursor: Cursor, rank: int) -> IndexExpr:
    cursor.descend()
    total = -_term(cursor, rank) if cursor.accept("-") else _term(cursor, rank)
    while cursor.at("+", "-"):
        minus = cursor.advance().text == "-"
        term = _term(cursor, rank)
        total = total - term if minus else total + term
    cursor.depth -= 1
    return total


def _term(cursor: Cursor, rank: int) -> IndexExpr:
    value = _factor(cursor, rank)
    while cursor.at("*", "//", "%"):
        token = cursor.advance()
        value = _apply(cursor, token, value, _factor(cursor, rank))
    return value


def _apply(cursor: Cursor, token: Token, left: IndexExpr, right: IndexExpr) -> IndexExpr:
    try:
        if token.text == "*":
            return left * right
        return left // right if token.text == "//" else left % right
    except FunctraxError as error:
        raise cursor.error(error.what, token, error.fix) from None


def _factor(cursor: Cursor, rank: int) -> IndexExpr:
    if cursor.accept("-"):
        return as_expr(-read_int(cursor, "an integer"))
    if cursor.at_kind("number"):
        return as_expr(read_int(cursor, "an integer"))
    if cursor.accept("("):
        value: IndexExpr = _expr(cursor, rank)
        cursor.expect(")", "after an index expression")
        return value
    if cursor.accept("["):
        value = Indicator(_condition(cursor, rank))
        cursor.expect("]", "after a condition")
        return value
    return _indexed(cursor, rank)


def _indexed(cursor: Cursor, rank: int) -> IndexExpr:
    """``d0`` or ``e0(...)``."""
    token = cursor.expect_kind("name", "an index expression: d0, e0(...), an integer or (...)")
    letter, digits = token.text[0], token.text[1:]
    number = int(digits) if digits.isdigit() and len(digits) < 10 else -1
    if letter == "d" and 0 <= number < rank:
        return Dim(number)
    if letter != "e" or not 0 <= number < _MAX_LOADS:
        raise cursor.error(
            "not an index of this map",
            token,
            f"d0 to d{rank - 1}, the dimensions of its domain" if rank else "integers only",
        )
    cursor.expect("(", "after an index operand")
    indices: list[IndexExpr] = []
    while not cursor.at(")"):
        indices.append(_expr(cursor, rank))
        if not cursor.accept(","):
            break
    cursor.expect(")", "after the indices of an index operand")
    return Load(number, indices)
