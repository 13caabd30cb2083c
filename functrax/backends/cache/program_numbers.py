"""Programs as words and numbers: what programs that differ in sizes have in common.

A jaxpr enters; its words leave (primitives, ranks, dtypes, names), and its numbers: the sizes in
types and parameters, the integers of index maps, and literals (the divisor of a mean).  Programs
with equal words have as many numbers in the same order; :class:`Rebuilt` writes one with others.

Start at :class:`Flat`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from functrax.core.index.expr import (
    Condition,
    Dim,
    FloorDiv,
    IndexExpr,
    Indicator,
    Load,
    Mod,
    add_terms,
)
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.tracing.primitive import Primitive
from functrax.core.tracing.trace import CustomCall
from functrax.core.types.aval import ShapedArray
from functrax.core.types.symbolic_sizes import Recorded


class NotGenericError(Exception):
    """A program that no plan is made of."""


class Flat:
    """A program as words, which members of a family share, and numbers.

    Numbers are integers and literals, which are interned: equal ones are one object.
    """

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.words: list[Any] = []
        self.numbers: list[Any] = []
        self._program(jaxpr)

    def _program(self, jaxpr: Jaxpr) -> None:
        words = self.words
        number: dict[Atom, int] = {}
        words.append((jaxpr.name, len(jaxpr.invars), len(jaxpr.outvars), len(jaxpr.eqns)))
        if jaxpr.constvars:
            raise NotGenericError("constants")
        if any(eqn.primitive.is_foreign for eqn in jaxpr.eqns):
            raise NotGenericError("a call of a function of the user's own")
        for v in jaxpr.invars:
            number[v] = len(number)
            self._type(v.aval)
        for eqn in jaxpr.eqns:
            words.append(eqn.primitive)
            self._atoms(eqn.invars, number)
            for key, value in eqn.params.items():
                words.append(key)
                self._value(value)
            for v in eqn.outvars:
                number[v] = len(number)
                self._type(v.aval)
        self._atoms(jaxpr.outvars, number)

    def _atoms(self, xs: Sequence[Atom], number: dict[Atom, int]) -> None:
        for x in xs:
            if type(x) is Literal:
                self._value(x)
            else:
                self.words.append(number[x])

    def _type(self, aval: ShapedArray) -> None:
        self.words.append((aval.dtype, aval.weak_type, aval.ndim))
        self.numbers += aval.shape

    def _value(self, x: Any) -> None:
        kind = type(x)
        if kind is int or kind is Recorded:
            self.words.append(int)
            self.numbers.append(x)
        elif kind is tuple:
            self.words.append((tuple, len(x)))
            for part in x:
                self._value(part)
        elif kind is Literal:
            self.words.append(Literal)
            self._type(x.aval)
            self.numbers.append(x)
        elif kind is Jaxpr:
            self._program(x)
        elif kind is ShapedArray:
            self._type(x)
        elif x is None or kind in (bool, str, float):
            self.words.append((kind, repr(x) if kind is float else x))
        elif isinstance(x, Primitive | np.dtype):
            self.words.append(x)
        elif isinstance(x, IndexExpr):
            self._index(x)
        elif kind is Condition:
            self.words.append((kind, x.kind))
            self._index(x.expr)
        elif isinstance(x, CustomCall):  # how to differentiate what is inlined here
            self.words.append(kind)
        elif is_dataclass(x) and kind.__module__.startswith("functrax."):
            self.words.append(kind)
            for field in fields(x):
                self._value(getattr(x, field.name))
        else:
            self._other(x)

    def _other(self, x: Any) -> None:
        """What has no numbers, and may be another one in each program."""
        raise NotGenericError(f"a parameter of type {type(x)}")

    def _index(self, x: IndexExpr) -> None:
        self.words.append((IndexExpr, len(x.terms)))
        self.numbers.append(x.const)
        for atom, coef in x.terms:
            self.numbers.append(coef)
            self.words.append(type(atom))
            if isinstance(atom, Dim):
                self.words.append(atom.number)
            elif isinstance(atom, FloorDiv | Mod):
                self.numbers.append(atom.divisor)
                self._index(atom.expr)
            elif isinstance(atom, Load):
                self.words.append((atom.operand, len(atom.indices)))
                for index in atom.indices:
                    self._index(index)
            else:
                assert isinstance(atom, Indicator)
                self._value(atom.condition)


class Rebuilt:
    """A program with other numbers, in the order of :class:`Flat`.

    Args:
      numbers: one for each of the program's; recorded ones in place of some.
    """

    def __init__(self, numbers: Sequence[Any]) -> None:
        self._numbers = iter(numbers)

    def program(self, jaxpr: Jaxpr) -> Jaxpr:
        """The program."""
        new: dict[Atom, Atom] = {}
        invars = [self._variable(v, new) for v in jaxpr.invars]
        eqns = []
        for eqn in jaxpr.eqns:
            operands = self._atoms(eqn.invars, new)
            params = {key: self._value(value) for key, value in eqn.params.items()}
            outvars = [self._variable(v, new) for v in eqn.outvars]
            eqns.append(Eqn(eqn.primitive, operands, outvars, params, eqn.source))
        return Jaxpr((), invars, self._atoms(jaxpr.outvars, new), eqns, jaxpr.name, jaxpr.arg_names)

    def _variable(self, v: Var, new: dict[Atom, Atom]) -> Var:
        made = new[v] = Var(self._type(v.aval))
        return made

    def _atoms(self, xs: Sequence[Atom], new: dict[Atom, Atom]) -> list[Atom]:
        return [self._value(x) if type(x) is Literal else new[x] for x in xs]

    def _type(self, aval: ShapedArray) -> ShapedArray:
        return ShapedArray(
            tuple([next(self._numbers) for _ in aval.shape]), aval.dtype, aval.weak_type
        )

    def _value(self, x: Any) -> Any:
        kind = type(x)
        if kind is int or kind is Recorded:
            return next(self._numbers)
        if kind is tuple:
            return tuple([self._value(part) for part in x])
        if kind is Literal:
            aval = self._type(x.aval)
            value = next(self._numbers)
            return value if type(value) is Literal else Literal(value, aval)
        if kind is Jaxpr:
            return self.program(x)
        if kind is ShapedArray:
            return self._type(x)
        if isinstance(x, IndexExpr):
            return self._index(x)
        if kind is Condition:
            return Condition(self._index(x.expr), x.kind)
        if is_dataclass(x) and not isinstance(x, CustomCall):
            return kind(*[self._value(getattr(x, field.name)) for field in fields(x)])
        return x

    def _index(self, x: IndexExpr) -> IndexExpr:
        const = next(self._numbers)
        terms: list[tuple[Any, Any]] = []
        for atom, _ in x.terms:
            coef = next(self._numbers)
            terms.append((self._atom(atom), coef))
        return add_terms(const, terms)

    def _atom(self, atom: Any) -> Any:
        if isinstance(atom, Dim):
            return atom
        if isinstance(atom, FloorDiv | Mod):
            divisor = next(self._numbers)
            return type(atom)(self._index(atom.expr), divisor)
        if isinstance(atom, Load):
            return Load(atom.operand, [self._index(index) for index in atom.indices])
        return Indicator(self._value(atom.condition))
