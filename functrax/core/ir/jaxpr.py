"""Programs as data: ``Var``, ``Literal``, ``Eqn``, ``Jaxpr``, ``ClosedJaxpr``.

A :class:`Jaxpr` is a list of equations in single-assignment form; every variable has a type (a
:class:`ShapedArray`).  Operands are variables or scalar literals; parameters are keyword-only and
hashable.  Two jaxprs are equal when they are the same up to the names of their variables; the
hash follows.  A :class:`ClosedJaxpr` adds the values of the constants.

Start at :class:`Eqn`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from functrax.core.errors.source import SourceLine
from functrax.core.lazy import late
from functrax.core.process.locks import new_rlock
from functrax.core.types.aval import ShapedArray
from functrax.core.types.symbolic_sizes import Recorded

if TYPE_CHECKING:
    from functrax.core.tracing.primitive import Primitive

_interning = new_rlock()

# Text stands above programs, and few processes print any.
_eqn_text = late("functrax.core.ir.printing", "eqn_text")
_jaxpr_text = late("functrax.core.ir.printing", "jaxpr_text")
_closed_jaxpr_text = late("functrax.core.ir.printing", "closed_jaxpr_text")
_terminal_text = late("functrax.core.ir.coloring", "terminal_text")
_html_text = late("functrax.core.ir.coloring", "html_text")


class Var:
    """One value of a program: defined once, by an input or by an equation."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self):#x}):{self.aval.str_short()}"


class Literal:
    """A scalar constant written into the program; interned, so equal literals are one object.

    As an operand of an elementwise equation it stands for an array full of its value.
    """

    __slots__ = ("__weakref__", "aval", "val")
    _interned: ClassVar[WeakValueDictionary[tuple[ShapedArray, bytes], Literal]] = (
        WeakValueDictionary()
    )

    aval: ShapedArray
    val: Any

    def __new__(cls, value: Any, aval: ShapedArray) -> Literal:
        if type(value) is Recorded:
            return _recorded_literal(value, aval)
        array: Any = np.asarray(value, dtype=aval.dtype)
        key = (aval, array.tobytes())
        found = cls._interned.get(key)
        if found is not None:
            return found
        self = object.__new__(cls)
        self.aval = aval
        self.val = array[()]
        with _interning:  # a dictionary of weak references is changed in several steps
            return cls._interned.setdefault(key, self)

    def __repr__(self) -> str:
        return f"{self.val}:{self.aval.str_short()}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Literal, (self.val, self.aval))


def _recorded_literal(value: Recorded, aval: ShapedArray) -> Literal:
    """The literal of a recorded number; of equal ones of a recording one object."""
    number = value.recording.scalar(value, aval.dtype)
    key = ("literal", aval, number.number)
    found: Literal | None = value.recording.kept.get(key)
    if found is None:
        found = object.__new__(Literal)
        found.aval, found.val = aval, number
        value.recording.kept[key] = found
        value.recording.note_hash(number)  # equal literals are one object, so others are not equal
    return found


Atom: TypeAlias = "Var | Literal"


class Eqn:
    """``outvars = primitive[params] invars``, and the user's line that made it."""

    __slots__ = ("invars", "outvars", "params", "primitive", "source")

    def __init__(
        self,
        primitive: Primitive,
        invars: Sequence[Atom],
        outvars: Sequence[Var],
        params: dict[str, Any],
        source: SourceLine | None = None,
    ) -> None:
        self.primitive = primitive
        self.invars = tuple(invars)
        self.outvars = tuple(outvars)
        self.params = params
        self.source = source

    @property
    def effects(self) -> frozenset[Hashable]:
        """What the equation does besides computing its outputs."""
        return self.primitive.effects(self.params)

    def __repr__(self) -> str:
        return str(_eqn_text(self))


class Jaxpr:
    """A program: inputs, constants' variables, equations and outputs.  Immutable once made."""

    __slots__ = (
        "__weakref__", "_effects", "_hash", "_key", "arg_names", "constvars", "eqns", "invars",
        "memo", "name", "outvars",
    )  # fmt: skip

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Atom],
        eqns: Sequence[Eqn],
        name: str = "fn",
        arg_names: Sequence[str] | None = None,
    ) -> None:
        self.constvars = tuple(constvars)
        self.invars = tuple(invars)
        self.outvars = tuple(outvars)
        self.eqns = tuple(eqns)
        self.name = name
        self.arg_names = None if arg_names is None else tuple(arg_names)
        #: Results of work on this program (its compiled form, its derivatives), kept with it.
        self.memo: dict[Hashable, Any] = {}
        self._key: tuple[Any, ...] | None = None
        self._hash: int | None = None
        self._effects: frozenset[Hashable] | None = None

    @property
    def effects(self) -> frozenset[Hashable]:
        """The effects of all equations, those of inner programs included."""
        if self._effects is None:
            found: frozenset[Hashable] = frozenset()
            for eqn in self.eqns:
                found |= eqn.effects
            self._effects = found
        return self._effects

    @property
    def in_avals(self) -> list[ShapedArray]:
        """The types of the inputs, constants left out."""
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The types of the outputs."""
        return [v.aval for v in self.outvars]

    def structure(self) -> tuple[Any, ...]:
        """A nested tuple that is equal for programs equal up to renaming."""
        if self._key is None:
            self._key = _structure(self)
        return self._key

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Jaxpr):
            return NotImplemented
        return hash(self) == hash(other) and self.structure() == other.structure()

    def __hash__(self) -> int:
        """Of types and operations alone: the structure of a long program takes long to make."""
        if self._hash is None:
            types = [x.aval for x in (*self.constvars, *self.invars, *self.outvars)]
            self._hash = hash((*types, *[eqn.primitive for eqn in self.eqns]))
        return self._hash

    def as_text(self, source: bool = True) -> str:
        """The program as text; ``source`` adds the user's names and lines, as comments."""
        return str(_jaxpr_text(self, source))

    def __str__(self) -> str:
        return self.as_text()

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(_terminal_text(str(self)))

    def _repr_html_(self) -> str:
        return str(_html_text(str(self)))


class ClosedJaxpr:
    """A jaxpr together with the values of its constants; equal to its jaxpr if it has none."""

    __slots__ = ("consts", "jaxpr")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any]) -> None:
        assert len(jaxpr.constvars) == len(consts)
        self.jaxpr = jaxpr
        self.consts = list(consts)

    @property
    def in_avals(self) -> list[ShapedArray]:
        """The types of the inputs."""
        return self.jaxpr.in_avals

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The types of the outputs."""
        return self.jaxpr.out_avals

    @property
    def eqns(self) -> tuple[Eqn, ...]:
        """The equations."""
        return self.jaxpr.eqns

    @property
    def effects(self) -> frozenset[Hashable]:
        """What the program does besides computing its outputs."""
        return self.jaxpr.effects

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Jaxpr):
            return not self.consts and self.jaxpr == other
        if not isinstance(other, ClosedJaxpr):
            return NotImplemented
        return self.jaxpr == other.jaxpr and all(
            a is b or _same_array(a, b) for a, b in zip(self.consts, other.consts, strict=True)
        )

    def __hash__(self) -> int:
        return hash(self.jaxpr)

    def as_text(self, source: bool = True, tensors: Sequence[str] | None = None) -> str:
        """The program as text, with its constants.

        Args:
          source: as in :meth:`Jaxpr.as_text`.
          tensors: names that stand for the constants' values.
        """
        return str(_closed_jaxpr_text(self, source, tensors))

    def __str__(self) -> str:
        return self.as_text()

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(_terminal_text(str(self)))

    def _repr_html_(self) -> str:
        return str(_html_text(str(self)))


def _same_array(a: Any, b: Any) -> bool:
    x, y = np.asarray(a), np.asarray(b)
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def _structure(jaxpr: Jaxpr) -> tuple[Any, ...]:
    number: dict[Var, int] = {}

    def atom(x: Atom) -> Hashable:
        return x if isinstance(x, Literal) else number[x]

    def define(variables: Iterable[Var]) -> tuple[ShapedArray, ...]:
        types = []
        for v in variables:
            number[v] = len(number)
            types.append(v.aval)
        return tuple(types)

    constants, inputs = define(jaxpr.constvars), define(jaxpr.invars)
    body = []
    for eqn in jaxpr.eqns:
        operands = tuple(atom(x) for x in eqn.invars)
        params = tuple(sorted(eqn.params.items()))
        body.append((eqn.primitive, operands, params, define(eqn.outvars)))
    return constants, inputs, tuple(body), tuple(atom(x) for x in jaxpr.outvars)


def subjaxprs(eqn: Eqn) -> Iterator[Jaxpr]:
    """The programs that an equation holds in its parameters."""
    return programs_in(eqn.params)


def programs_in(params: Mapping[str, Any]) -> Iterator[Jaxpr]:
    """The programs among parameters: themselves parameters, or in a tuple that is one."""
    for value in params.values():
        if isinstance(value, Jaxpr):
            yield value
        elif isinstance(value, tuple):
            yield from (v for v in value if isinstance(v, Jaxpr))


def all_eqns(jaxpr: Jaxpr) -> Iterator[Eqn]:
    """Every equation, those of inner programs included, in order."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in subjaxprs(eqn):
            yield from all_eqns(inner)
