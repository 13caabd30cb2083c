"""References to values that change: ``Ref``, discharged into pure programs while tracing.

A :class:`Ref` belongs to the interpreter at the bottom of those that were at work when it was made,
its home.  There it is a :class:`Cell` with the current value; reading and writing it run no
operation of their own.  A program that is staged meanwhile, and reads or writes the reference, gets
a cell of its own for it, whose first value is an input of the program (:class:`Touched`).  Whoever
stages the program gives it the value from outside, and writes what comes out back: so a program
stays a function, and there is no primitive that changes anything.

Start at :class:`Ref`; ``core/state/lifetime.py`` makes and ends references, and
docs/decisions/0021-references.md has the reasons.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from functrax.core.boundaries.tracebacks import with_boundaries
from functrax.core.errors.typed import ReferenceUseError, ShapeError
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.pytree.operations import PyTreeDef, tree_flatten
from functrax.core.records import record
from functrax.core.state.reference_access import Accessible, addupdate, fitted, get, swap
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import Effects, StagedTracer, StagingTrace
from functrax.core.tracing.trace import Trace, Tracer, leaked, state
from functrax.core.types.aval import ShapedArray


class Cell:
    """The value that a reference has in one interpreter.

    Args:
      value: the current value.
      level: the interpreter whose values it may hold, or those of its parents.
      placeholder: the value at the start, where that is an input of a program.
    """

    __slots__ = ("level", "placeholder", "value", "written")

    def __init__(self, value: Value, level: Trace, placeholder: StagedTracer | None = None) -> None:
        self.value = value
        self.level = level
        self.placeholder = placeholder
        self.written = False


def bottom() -> Trace:
    """The interpreter that has no parent: it computes, or writes a program."""
    trace = state.trace
    while trace.parent is not None:
        trace = trace.parent
    return trace


@record(eq=False)
class AbstractRef:
    """The type of a reference.

    Args:
      inner_aval: the type of the value that it refers to.
    """

    inner_aval: ShapedArray

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self.inner_aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.inner_aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.inner_aval.ndim

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractRef) and self.inner_aval is other.inner_aval

    def __hash__(self) -> int:
        return hash((AbstractRef, self.inner_aval))

    def __repr__(self) -> str:
        return f"Ref{{{self.dtype}[{','.join(map(str, self.shape))}]}}"


@with_boundaries
class _Accessed(Accessible):
    """What a reference and a part of one have in common: access by indexing."""

    __slots__ = ()

    def addupdate(self, x: Any, idx: Any = ()) -> None:
        """Add to the value, or to a part of it."""
        addupdate(self, idx, x)

    def __getitem__(self, idx: Any) -> Any:
        return get(self, (None,) if idx is None else idx)

    def __setitem__(self, idx: Any, value: Any) -> None:
        swap(self, (None,) if idx is None else idx, value)


@with_boundaries
class Ref(_Accessed):
    """A reference to an array that can be changed in place; ``new_ref`` makes one.

    ``ref[...]`` reads, ``ref[...] = x`` and ``ref[i] = x`` write, ``ref.at[i]`` is a part of it.
    Shape and dtype stay.  It is no array: read it to compute with its value.

    >>> import functrax, functrax.numpy as jnp
    >>> total = functrax.new_ref(jnp.zeros(3))
    >>> @functrax.jit
    ... def count(i):
    ...     total[i] += 1.0
    >>> count(1)
    >>> total[...]
    Array([0., 1., 0.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_aval", "_cell", "_ended", "_home", "kind", "tree")

    is_ref = True  # no array, though it has a shape and a dtype

    def __init__(
        self, value: Value, kind: str | None = None, tree: PyTreeDef | None = None
    ) -> None:
        self.kind = kind
        self.tree = tree  # that of a handle, whose only leaf the value is
        self._aval = value.aval
        self._home = bottom()
        self._cell = Cell(concrete(value), state.trace)
        self._ended = ""

    def _here(self) -> Cell:
        """Its cell in the program that is being written, or where values are computed."""
        if self._ended:
            raise ReferenceUseError(
                "a reference is used after its end",
                got=f"{self._aval.str_short()}, which {self._ended} has ended",
                fix=f"read it before {self._ended}, or make a new one of its value",
            )
        home = bottom()
        if self._home is home:
            return self._cell
        if not self._home.alive:
            raise ReferenceUseError(
                "a reference is used outside of the function that made it",
                got=f"{self._aval.str_short()}, made while "
                f"{self._home.name or 'a transformed function'} was being traced",
                fix="return its value, ref[...], or make it outside and pass it as an argument",
            )
        if not isinstance(home, StagingTrace):
            raise leaked(cast(Tracer, self._cell.value))
        return touched_of(home).cell(self)

    def _outside(self, level: Trace, value: Value) -> Value:
        """A value that means something where the reference was made.

        Of the kind ``"no_grad_no_remat"``, a reference is given the value without its derivative.

        Raises:
          ReferenceUseError: if it is known to an inner transformation alone.
        """
        if not isinstance(value, Tracer):
            return value
        trace: Trace | None = level
        while trace is not None:
            if trace is value._trace:
                return value
            trace = trace.parent
        if not value._trace.alive:
            raise leaked(value)
        if self.kind is not None and hasattr(value, "primal"):
            return self._outside(level, value.primal)
        raise ReferenceUseError(
            "a reference from outside of a transformation is given a value that differs by element "
            "of the batch, or has a derivative",
            got=f"{value!r} for {self._aval.str_short()}",
            fix="pass the reference as an argument of that function, or return the value",
        )

    def whole_and_path(self) -> tuple[Ref, list[Any]]:
        """The reference, and no index."""
        return self, []

    def _read(self) -> Any:
        return self._here().value

    def _write(self, value: Any) -> None:
        cell = self._here()
        value = fitted(self._aval, as_value(value, "what a reference is set to"))
        cell.value = concrete(self._outside(cell.level, value))
        cell.written = True

    def shown(self) -> Any:
        """The value as a user has it: a handle, if it was made of one."""
        value = self._read()
        return value if self.tree is None else self.tree.unflatten([value])

    def _raw(self, new: Any) -> Any:
        """The leaf of a handle of the same kind; of a reference to numbers, the value itself."""
        if self.tree is None:
            return new
        leaves, tree = tree_flatten(new)
        if tree != self.tree:
            raise ReferenceUseError(
                "a reference is set to a value of another type",
                got=f"{new!r} for {self.shown()!r}",
                fix="random keys of the same implementation",
            )
        return leaves[0]

    def hand_on(self) -> None:
        """Say that a derivative rule gets it, which may write to it when it is called later."""
        self._here()
        hand_on()

    def no_value(self, what: str) -> ReferenceUseError:
        """The error for a reference where an array is needed."""
        return ReferenceUseError(
            f"{what} is a mutable array reference, and not an array",
            got=repr(self.aval),
            fix="its value, ref[...]; references cannot be returned from transformed functions",
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return tuple(self._aval.shape if self.tree is None else self.shown().shape)

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self._aval.dtype if self.tree is None else self.shown().dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def aval(self) -> AbstractRef:
        """The type."""
        return AbstractRef(self._aval)

    @property
    def sharding(self) -> Any:
        """Where the value lies."""
        return self._read().sharding

    @property
    def at(self) -> _RefAt:
        """Parts, as references: ``ref.at[1:3]``."""
        return _RefAt(self, ())

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError(
                "len: a scalar has no length", got=repr(self.aval), fix="ref.size, or ref[...]"
            )
        return self.shape[0]

    def __repr__(self) -> str:
        if self._ended or not self._home.alive:
            return repr(self.aval)
        shown = repr(self._cell.value if self.tree is None else self.shown())
        return f"Ref({shown.removeprefix('Array(').removesuffix(')')})"


class _RefAt:
    """``ref.at``, which is indexed."""

    __slots__ = ("_path", "_ref")

    def __init__(self, ref: Ref, path: tuple[Any, ...]) -> None:
        self._ref = ref
        self._path = path

    def __getitem__(self, idx: Any) -> TransformedRef:
        return TransformedRef(self._ref, (*self._path, idx))


class TransformedRef(_Accessed):
    """A part of a reference; it reads and writes as one does."""

    __slots__ = ("_path", "ref")

    def __init__(self, ref: Ref, path: tuple[Any, ...]) -> None:
        self.ref = ref
        self._path = path

    def whole_and_path(self) -> tuple[Ref, list[Any]]:
        """The reference, and the indices one after the other."""
        return self.ref, [*self._path]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return tuple(self[...].shape)

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.ref.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def at(self) -> _RefAt:
        """Parts of the part."""
        return _RefAt(self.ref, self._path)

    def __repr__(self) -> str:
        return f"{self.ref.aval!r}.at{''.join(f'[{i!r}]' for i in self._path)}"


@with_boundaries
class Touched:
    """What a program that is being written reads and writes of references.

    Args:
      home: the interpreter that writes it.

    ``arguments`` are references that stand for arguments of the program.  References are
    ``handed_on`` if derivative rules get them, which write to them when derivatives are computed.
    """

    __slots__ = ("arguments", "cells", "handed_on", "home")

    def __init__(self, home: StagingTrace) -> None:
        self.home = home
        self.cells: dict[Ref, Cell] = {}
        self.arguments: list[Ref] = []
        self.handed_on = False

    def cell(self, ref: Ref) -> Cell:
        """The cell of a reference from outside."""
        found = self.cells.get(ref)
        if found is None:
            start = StagedTracer(self.home, ref._aval)
            self.home.constants[id(ref)] = (ref, start)
            found = self.cells[ref] = Cell(start, self.home, start)
        return found

    def targets(self) -> tuple[Ref | int, ...]:
        """What is written: arguments by their number among the references, and others."""
        numbers = [i for i, ref in enumerate(self.arguments) if ref._cell.written]
        return (*numbers, *(ref for ref, cell in self.cells.items() if cell.written))

    def effects(self) -> Effects:
        """What the program does to references, when it has been written."""
        return _ReferenceEffects(self.targets(), self.handed_on)

    def finals(self) -> list[Value]:
        """The last values of what is written."""
        return [
            self.arguments[t]._cell.value if isinstance(t, int) else self.cells[t].value
            for t in self.targets()
        ]

    def ordered(self, jaxpr: Jaxpr, constants: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
        """The program with what is written from outside as its last constants."""
        written = [t for t in self.targets() if isinstance(t, Ref)]
        pairs = [
            (v, c)
            for v, c in zip(jaxpr.constvars, constants, strict=True)
            if c not in _Few(written)
        ]
        for ref in written:
            start = self.cells[ref].placeholder
            assert start is not None, "what is from outside has a first value"
            pairs.append((start.variable, ref))
        constvars = [v for v, _ in pairs]
        made = Jaxpr(
            constvars, jaxpr.invars, jaxpr.outvars, jaxpr.eqns, jaxpr.name, jaxpr.arg_names
        )
        return made, [c for _, c in pairs]


class _ReferenceEffects(Effects):
    def read_only(self, name: str, consts: Sequence[Any]) -> list[Any]:
        return read_only(name, self, consts)

    def hand_on(self) -> None:
        hand_on()


def touched_of(home: StagingTrace) -> Touched:
    """What a program that is being written does with references."""
    if home.touched is None:
        home.touched = Touched(home)
    touched: Touched = home.touched
    return touched


def hand_on() -> None:
    """Say of the program that is being written, if one is, that it hands references on."""
    home = bottom()
    if isinstance(home, StagingTrace):
        touched_of(home).handed_on = True


class _Few:
    """A handful of objects, which are looked for by identity: arrays have no truth value."""

    __slots__ = ("_ids",)

    def __init__(self, objects: Sequence[Any]) -> None:
        self._ids = frozenset(map(id, objects))

    def __contains__(self, x: object) -> bool:
        return id(x) in self._ids


def values_of(consts: Sequence[Any]) -> list[Any]:
    """Constants of a program, with the current values in place of references."""
    return [c._read() if type(c) is Ref else c for c in consts]


def read_only(name: str, effects: Effects | None, consts: Sequence[Any]) -> list[Any]:
    """The constants of a program that must not write to references outside of it.

    Raises:
      ReferenceUseError: if it does.
    """
    if effects is not None and effects.targets:
        raise ReferenceUseError(
            f"{name}: a reference is written in a function that may only read it",
            got=", ".join(repr(t.aval) for t in effects.targets if isinstance(t, Ref))
            or "an argument",
            fix="return the value, and write it outside",
        )
    return values_of(consts)
