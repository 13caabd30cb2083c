"""Sizes that have a name and no value: programs are traced with them for all of their values.

A size is a ``Recorded`` number (``symbolic_sizes.py``) of a :class:`SymbolicScope`,
so all that computes with sizes computes with it.  Nothing is recorded: what is asked about a size
is answered if it holds for all values that the scope allows, and is an error if that depends on
them.  Whether two sizes are equal is never an error: those that may differ are different.

Start at :class:`SymbolicScope`; :func:`symbolic_shape` is what users call.
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

import numpy as np

from functrax.core.errors.typed import ArgumentError, SizeError
from functrax.core.types import size_polynomials as sp
from functrax.core.types.size_polynomials import Polynomial, SizeFacts
from functrax.core.types.symbolic_sizes import Recorded, SizeRecording, recording_of

MOST_OF_INT32: Final = 2**31 - 1
_LONGEST: Final = 2_000  # characters of an expression
_CONSTRAINT: Final = re.compile(r"(.+?)(>=|<=|==|<|>)(.+)")
#: Values that sizes have for their hashes alone: primes, so that what differs seldom looks alike.
_HINTS: Final = (1009, 2003, 3001, 4001, 5003, 6007, 7001, 8009)


class SymbolicScope(SizeRecording):
    """Sizes that may be computed with each other, and what is known of them.

    Args:
      constraints_str: what holds for all values, such as ``"b >= 4"``, ``"mod(b, 2) == 0"``.

    >>> scope = SymbolicScope(["b >= 8"])
    >>> (b,) = symbolic_shape("b", scope=scope)
    >>> b * 2 > 15, b == 7, (3 * b) // 3
    (True, False, b)
    """

    has_values = False

    def __init__(self, constraints_str: Sequence[str] = ()) -> None:
        super().__init__(())
        self.names: dict[str, Recorded] = {}
        self._made: dict[tuple[Any, ...], Recorded] = {}
        self._polynomials: list[Polynomial] = []
        self.constraints = (
            [constraints_str] if isinstance(constraints_str, str) else [*constraints_str]
        )
        self.facts = SizeFacts()
        self.facts = SizeFacts([p for _, parts in self.checks() for p in parts])

    def __repr__(self) -> str:
        return f"SymbolicScope({', '.join(map(repr, self.constraints))})"

    # ---- numbers --------------------------------------------------------------------------------

    def size(self, name: str) -> Recorded:
        """The size of a name."""
        found = self.names.get(name)
        if found is None:
            found = self.names[name] = self._number(sp.variable(name))
        return found

    def polynomial(self, x: Any) -> Polynomial:
        """A size or a number as a polynomial of the sizes of this scope."""
        if type(x) is not Recorded:
            return sp.constant(operator.index(x))
        if x.recording is not self:
            raise ArgumentError(
                "sizes of two scopes are used together",
                got=f"{x} of {x.recording!r}, and a size of {self!r}",
                fix="one scope: symbolic_shape(..., scope=scope)",
            )
        return self._polynomials[x.number]

    def number(self, p: Polynomial) -> Any:
        """A polynomial as a size, or as the number that it is."""
        known = sp.number(p)
        return self._number(p) if known is None else known

    def _number(self, p: Polynomial) -> Recorded:
        key = sp.frozen(p)
        found = self._made.get(key)
        if found is None:
            names = sorted({a.name for a in sp.atoms([p]) if not a.arguments})
            hints = dict(zip(names, itertools.cycle(_HINTS)))
            try:
                hint = sp.evaluated(p, hints)
            except ZeroDivisionError:
                hint = 0
            found = self._made[key] = Recorded(self, len(self._polynomials), hint)
            self._polynomials.append(p)
        return found

    def apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        made = OPERATIONS.get(function)
        if made is None or not all(_whole(x) for x in operands):
            self._refuse(f"{getattr(function, '__name__', function)} of", operands)
        if function in (max, min):
            for x, y in (operands, reversed(operands)):
                if self.is_sure(operator.ge if function is max else operator.le, x, y):
                    return x
        return self.number(made(*map(self.polynomial, operands)))

    def ask(self, function: Callable[..., bool], *operands: Any) -> bool:
        if function is bool:
            function, operands = operator.ne, (*operands, 0)
        if function not in COMPARISONS:
            self._refuse(f"{getattr(function, '__name__', function)} of", operands)
        if not all(_whole(x) for x in operands):
            if function in (operator.eq, operator.ne):
                return function is operator.ne
            self._refuse("the comparison of", operands)
        p, q = map(self.polynomial, operands)
        difference = sp.add(p, q, -1)
        if function in (operator.eq, operator.ne):
            return (not difference or self._is_zero(difference)) is (function is operator.eq)
        least, most = self.facts.lower(difference), self.facts.upper(difference)
        found = {function(least, 0), function(most, 0)}
        if len(found) == 1:
            return found.pop()
        if self._assumes_small(operands):
            return self.ask(function, *operands)
        sign = COMPARISONS[function]
        raise SizeError(
            f"Symbolic dimension comparison '{self.shown_any(operands[0])}' {sign} "
            f"'{self.shown_any(operands[1])}' is inconclusive: it holds for some sizes and not for "
            "others",
            got=f"{self!r}, where sizes are at least 1",
            fix="a constraint that decides it: "
            f'constraints=["{self.shown_any(operands[0])} {sign.strip("<>=")}>= ..."]',
        )

    def require(self, constraint: str) -> None:
        """Add a constraint: it holds from now on, and each call is tested for it."""
        self.constraints.append(constraint)
        self.facts = SizeFacts([p for _, parts in self.checks() for p in parts])

    def _assumes_small(self, operands: Sequence[Any]) -> bool:
        """Whether a size is compared with more than int32 holds: then it is taken to be less.

        That is a constraint from now on, which each call is tested for.
        """
        for x, y in (operands, reversed(operands)):
            if type(x) is Recorded and type(y) is not Recorded and abs(y) >= MOST_OF_INT32:
                self.require(f"{self.shown_any(x)} <= {MOST_OF_INT32 - 1}")
                return True
        return False

    def _is_zero(self, p: Polynomial) -> bool:
        return self.facts.lower(p) == 0 == self.facts.upper(p)

    def is_sure(self, function: Callable[..., bool], *operands: Any) -> bool:
        try:
            return self.ask(function, *operands)
        except SizeError:
            return False

    def scalar(self, x: Recorded, dtype: Any) -> Any:
        return x

    def attribute(self, x: Recorded, name: str) -> Any:
        raise AttributeError(f"a symbolic size has no attribute {name!r}")

    def decide(self, function: Callable[..., Any], *operands: Any) -> Any:
        self._refuse(f"{getattr(function, '__name__', function)} of", operands)

    def pin(self, x: Recorded) -> Any:
        self._refuse("the value of", (x,))

    def note_hash(self, x: Recorded) -> None:
        pass

    def shown(self, x: Recorded, write: Callable[[Any], str] = str) -> str:
        text = sp.text(self._polynomials[x.number])
        return f"${{{text}}}" if _text.marked else text

    def shown_any(self, x: Any) -> str:
        """A size or a number in a message."""
        return sp.text(self._polynomials[x.number]) if type(x) is Recorded else repr(x)

    def _refuse(self, what: str, operands: Sequence[Any]) -> NoReturn:
        shown = ", ".join(self.shown_any(x) for x in operands)
        raise SizeError(
            f"{what} a symbolic size is asked for, and it stands for all values that it may have",
            got=shown,
            fix="functrax.numpy.array(size) where an array will do; export for a certain size "
            "where a function needs the number",
        )

    # ---- texts ----------------------------------------------------------------------------------

    def expression(self, text: str) -> Any:
        """The size that a text says: ``"2*b + 1"``, ``"floordiv(n, 4)"``.

        Raises:
          ArgumentError: if it is no such expression.
        """
        return self.number(_read(text, lambda name: sp.variable(self._named(name))))

    def checks(self) -> list[tuple[str, list[Polynomial]]]:
        """Each constraint, with the polynomials that are never negative where it holds."""
        names = [
            (f"{name} >= 1", [sp.add(sp.variable(name), sp.constant(-1))]) for name in self.names
        ]
        return names + [(text, self._constraint(text)) for text in self.constraints]

    def _named(self, name: str) -> str:
        self.size(name)
        return name

    def _constraint(self, text: str) -> list[Polynomial]:
        found = _CONSTRAINT.fullmatch(text)
        if found is None:
            raise _bad(text, "a constraint such as 'b >= 4', 'a <= b', 'mod(b, 2) == 0'")
        left, right = (self.polynomial(self.expression(found[n])) for n in (1, 3))
        difference = sp.add(left, right, -1)
        negative = sp.add({}, difference, -1)
        sign = found[2]
        if sign == "==":
            return [difference, negative]
        strict = sp.constant(-1 if len(sign) == 1 else 0)
        return [sp.add(difference if sign[0] == ">" else negative, strict)]


def _whole(x: Any) -> bool:
    return type(x) is Recorded or isinstance(x, (int, np.integer))


def _power(p: Polynomial, q: Polynomial) -> Polynomial:
    n = sp.number(q)
    if n is None or not 0 <= n <= 16:
        raise SizeError("a power of a size that is none", got=sp.text(q), fix="0 to 16")
    out = sp.constant(1)
    for _ in range(n):
        out = sp.multiply(out, p)
    return out


def _divide(function: Callable[[Polynomial, Polynomial], Polynomial]) -> Any:
    def divided(p: Polynomial, q: Polynomial) -> Polynomial:
        if not q:
            raise ZeroDivisionError(f"{sp.text(p)} divided by 0")
        return function(p, q)

    return divided


def _extremum(name: str) -> Any:
    def chosen(p: Polynomial, q: Polynomial) -> Polynomial:
        a, b = sp.number(p), sp.number(q)
        if a is not None and b is not None:
            return sp.constant(sp.FUNCTIONS[name](a, b))
        return dict(p) if p == q else sp.function(name, p, q)

    return chosen


OPERATIONS: Final[dict[Any, Callable[..., Polynomial]]] = {
    operator.add: sp.add,
    operator.sub: lambda p, q: sp.add(p, q, -1),
    operator.mul: sp.multiply,
    operator.neg: lambda p: sp.add({}, p, -1),
    operator.pos: lambda p: p,
    operator.floordiv: _divide(sp.floordiv),
    operator.mod: _divide(sp.mod),
    operator.pow: _power,
    math.trunc: lambda p: p,
    math.floor: lambda p: p,
    math.ceil: lambda p: p,
    max: _extremum("max"),
    min: _extremum("min"),
}
COMPARISONS: Final[dict[Any, str]] = {
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.eq: "==",
    operator.ne: "!=",
}
_NODES: Final[dict[type, Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_CALLS: Final[dict[str, Any]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
}


def _read(text: str, variable: Callable[[str], Polynomial]) -> Polynomial:
    """The polynomial that a text says."""

    def read(node: ast.AST) -> Polynomial:
        match node:
            case ast.Constant(value=int() as n) if type(n) is int and abs(n) < 2**63:
                return sp.constant(n)
            case ast.Name(id=name):
                return variable(name)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _NODES:
                return OPERATIONS[_NODES[type(op)]](read(left), read(right))
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _NODES:
                return OPERATIONS[_NODES[type(op)]](read(operand))
            case ast.Call(func=ast.Name(id=name), args=[a, b], keywords=[]) if name in _CALLS:
                return OPERATIONS[_CALLS[name]](read(a), read(b))
        raise _bad(text, "numbers, names, +, -, *, floordiv, mod, max and min")

    try:
        if len(text) > _LONGEST:
            raise _bad(text[:100] + "...", f"at most {_LONGEST} characters")
        return read(ast.parse(text.strip().replace("^", "**"), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise _bad(text, f"an expression of sizes ({error})") from None


def _bad(text: str, fix: str) -> ArgumentError:
    return ArgumentError("symbolic_shape: not an expression of sizes", got=repr(text), fix=fix)


class SizeReader:
    """From expressions of sizes to numbers, or to sizes of a scope.

    Args:
      sizes: what the names stand for.
    """

    def __init__(self, sizes: Mapping[str, Any] | SymbolicScope) -> None:
        self._sizes = sizes
        self._known: dict[str, Any] = {}
        scope = None if isinstance(sizes, SymbolicScope) else recording_of(list(sizes.values()))
        self._scope = scope if isinstance(scope, SymbolicScope) else SymbolicScope()

    def __call__(self, text: str) -> Any:
        """The number or the size that an expression is.

        Raises:
          ArgumentError: if it is no expression, or has a size that is not known.
        """
        found = self._known.get(text)
        if found is None:
            if isinstance(self._sizes, SymbolicScope):
                found = self._sizes.expression(text)
            else:
                found = self._scope.number(_read(text, self._variable))
            self._known[text] = found
        return found

    def _variable(self, name: str) -> Polynomial:
        assert not isinstance(self._sizes, SymbolicScope)
        if name not in self._sizes:
            raise _bad(name, f"sizes among {', '.join(self._sizes)}")
        return self._scope.polynomial(self._sizes[name])


# ---- programs -----------------------------------------------------------------------------------


class _Text(threading.local):
    """How a thread writes sizes."""

    marked = False


_text: Final = _Text()


class sizes_in_text:  # noqa: N801 - a block
    """A block in which sizes are written as programs have them: ``${b}``."""

    def __enter__(self) -> None:
        self._before, _text.marked = _text.marked, True

    def __exit__(self, *error: object) -> None:
        _text.marked = self._before


# ---- what users call ----------------------------------------------------------------------------


def scope_of(
    function: str, scope: SymbolicScope | None, constraints: Sequence[str]
) -> SymbolicScope:
    """The scope that a user gives to a function, or a new one with constraints."""
    if scope is None:
        return SymbolicScope(constraints)
    if constraints:
        raise ArgumentError(
            f"{function}: a scope has its constraints already",
            got=f"scope={scope!r} and constraints={list(constraints)}",
            fix="SymbolicScope(constraints)",
        )
    return scope


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[int | None] | None = None,
) -> tuple[Any, ...]:
    """A shape whose sizes may have names in place of values.

    Args:
      shape_spec: the sizes, separated by commas: numbers, names, and what is made of them by ``+``,
        ``-``, ``*``, ``floordiv``, ``mod``, ``max`` and ``min``.  ``_`` is a size of ``like``;
        ``...`` at the end, or None for all, are the rest of its sizes.
      constraints: what holds for all values, such as ``"b >= 4"``, ``"mod(b, 2) == 0"``.
      scope: that of the sizes; a new one with the constraints if omitted.
      like: a shape for ``_`` and ``...``.

    Returns:
      The shape; names stand for positive whole numbers.

    Raises:
      ArgumentError: if the text is no shape, or does not fit ``like``.

    >>> symbolic_shape("b, 2*b, 784")
    (b, 2*b, 784)
    """
    scope = scope_of("symbolic_shape", scope, constraints)
    spec = "..." if shape_spec is None else shape_spec.strip()
    if spec.startswith("(") and spec.endswith(")"):
        spec = spec[1:-1]
    parts = [part.strip() for part in _split(spec)]
    if parts and not parts[-1]:
        parts.pop()
    known = None if like is None else list(like)
    if "..." in parts:
        if parts.index("...") != len(parts) - 1 or known is None:
            raise _bad(spec, "'...' at the end, with like=")
        parts[-1:] = ["_"] * (len(known) - len(parts) + 1)
    if known is not None and len(known) != len(parts):
        raise _bad(spec, f"as many sizes as like={tuple(known)}")
    sizes = []
    for n, part in enumerate(parts):
        given = None if known is None else known[n]
        if part == "_" and given is None:
            raise _bad(spec, "'_' with a size of like=")
        size = given if part == "_" else scope.expression(part)
        if type(size) is int and given not in (None, size):
            raise _bad(spec, f"the size {given} of like= in the place of {part}")
        sizes.append(size)
    return tuple(sizes)


def _split(spec: str) -> list[str]:
    """The parts between the commas that are in no parentheses."""
    parts, depth = [""], 0
    for c in spec:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts if spec else []
