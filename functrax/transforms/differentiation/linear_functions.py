"""What ``linearize`` and ``vjp`` return: linear functions that are pytrees.

:class:`Linearized` is a function's value at a point and the tape of its derivative.
:class:`LinearizedFunction` applies the tape, :class:`VJPFunction` its transpose.  The leaves of
both are the *residuals*, the known values that the tape uses, so they leave ``jit`` as results,
enter it as arguments, and are batched and stored as other containers are.

Residuals are looked for where they are asked for, so a call that follows at once pays nothing.

Start at :class:`Linearized`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from functrax.core.boundaries.tracebacks import with_boundaries
from functrax.core.errors.typed import ArgumentError, PyTreeError, TangentError
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.pytree.operations import (
    PyTreeDef,
    register_pytree_node,
    tree_flatten,
    tree_unflatten,
)
from functrax.core.pytree.registry import Partial
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import stage
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import FlatFunction
from functrax.transforms.differentiation.tangents import check_tangents, cotangents, with_zeros
from functrax.transforms.interpreters.detached import DetachedTape
from functrax.transforms.interpreters.linearize import Tape, linearize_flat
from functrax.transforms.interpreters.transpose import backward


class LinearSignature:
    """Trees and types of a function's arguments and results; of tangents, too."""

    __slots__ = ("in_avals", "in_tree", "name", "out_avals", "out_tree")

    def __init__(
        self,
        name: str,
        in_tree: PyTreeDef,
        in_avals: Sequence[ShapedArray],
        out_tree: PyTreeDef,
        out_avals: Sequence[ShapedArray],
    ) -> None:
        self.name = name
        self.in_tree, self.in_avals = in_tree, in_avals
        self.out_tree, self.out_avals = out_tree, out_avals

    def push(self, tape: Tape, tangents: tuple[Any, ...]) -> Any:
        """The derivative in a direction."""
        given = check_tangents("linearize", "tangent", tangents, self.in_tree, self.in_avals)
        return tree_unflatten(self.out_tree, with_zeros(tape.apply(given), self.out_avals))

    def pull(self, tape: Tape, ct: Any) -> tuple[Any, ...]:
        """The transpose of the derivative of a cotangent."""
        given = check_tangents("vjp", "cotangent", ct, self.out_tree, self.out_avals)
        cts = cotangents(backward(tape, given), self.in_avals)
        return tree_unflatten(self.in_tree, cts)  # type: ignore[no-any-return]


class Linearized:
    """A function's value at a point, and the tape of its derivative there."""

    def __init__(self, flat_fun: FlatFunction, flat: list[Value], in_tree: PyTreeDef) -> None:
        self.primals = flat
        self.in_avals = [x.aval for x in flat]
        self.in_tree = in_tree
        nonzero = [dtypes.is_inexact(a.dtype) for a in self.in_avals]
        self.results, self.tape = linearize_flat(flat_fun, flat, nonzero)
        self.out_tree = flat_fun.out_tree
        self.out_avals = [x.aval for x in self.results]
        self.name = flat_fun.__name__

    def value(self) -> Any:
        """The function's value."""
        return tree_unflatten(self.out_tree, map(concrete, self.results))

    def function(self) -> LinearizedFunction:
        """The derivative."""
        return LinearizedFunction(self._signature(), self.tape, None, ())

    def transpose(self) -> VJPFunction:
        """The transpose of the derivative."""
        return VJPFunction(self._signature(), self.tape, self.primals)

    def _signature(self) -> LinearSignature:
        return LinearSignature(
            self.name, self.in_tree, self.in_avals, self.out_tree, self.out_avals
        )


def _residuals(given: Iterable[Any], avals: Sequence[ShapedArray], what: str) -> list[Value]:
    """Residuals that a user, or a transformation, has put in the place of others."""
    values = []
    for x, aval in zip(given, avals, strict=True):
        value = as_value(x, f"a residual of {what}")
        if value.aval.shape != aval.shape or value.aval.dtype != aval.dtype:
            raise TangentError(
                f"{what}: a residual is not of the type of the one that it takes the place of",
                got=f"{value.aval.str_short()}, where {aval.str_short()} is needed",
                fix="give back what was taken out, without another axis or dtype",
            )
        values.append(value)
    return values


@with_boundaries
class LinearizedFunction(Partial[Any]):
    """The derivative of a function at a point: a linear function of tangents.

    It is a :class:`~functrax.tree_util.Partial` of a function of the residuals and the tangents:
    ``f.func(*f.args, *tangents)`` is ``f(*tangents)``, and ``f.func.args[0]`` is its program.
    """

    __slots__ = ("_detached", "_signature", "_tape", "_values")

    _signature: LinearSignature
    _tape: Tape | None
    _detached: DetachedTape | None
    _values: Sequence[Any]

    def __new__(
        cls,
        signature: LinearSignature,
        tape: Tape | None,
        detached: DetachedTape | None,
        values: Sequence[Any],
    ) -> LinearizedFunction:
        """Of a tape, or of a detached one and what are to be its values."""
        made: LinearizedFunction = functools.partial.__new__(cls, signature.push)
        made._signature, made._tape = signature, tape
        made._detached, made._values = detached, values
        return made

    def split(self) -> tuple[DetachedTape, Sequence[Any]]:
        """The tape without its residuals, and these."""
        if self._detached is None:
            assert self._tape is not None
            self._detached, self._values = DetachedTape.of(self._tape)
        return self._detached, self._values

    def __call__(self, *tangents: Any) -> Any:
        tape = self._tape
        if tape is None:
            assert self._detached is not None
            values = _residuals(self._values, self._detached.avals, "linearize")
            tape = self._tape = self._detached.attached(values)
        return self._signature.push(tape, tangents)

    @property
    def func(self) -> Any:
        """The function of residuals and tangents, a partial whose first argument is its program."""
        detached, _ = self.split()
        return functools.partial(_apply, self.jaxpr, self._signature, detached)

    @property
    def args(self) -> tuple[Any, ...]:
        """The residuals."""
        return tuple(self.split()[1])

    @property
    def keywords(self) -> dict[str, Any]:
        """None."""
        return {}

    @property
    def jaxpr(self) -> Jaxpr:
        """The program: from residuals and those tangents that matter to tangents of the result."""
        detached, _ = self.split()
        return _program(detached, self._signature.name)

    def __repr__(self) -> str:
        return f"<linearized {self._signature.name}>"

    def __reduce__(self) -> Any:
        raise ArgumentError(
            f"linearize: the derivative of {self._signature.name} cannot be pickled",
            got="a program with rules that are Python functions",
            fix="linearize again where it is needed",
        )


def _apply(jaxpr: Jaxpr, signature: LinearSignature, detached: DetachedTape, *args: Any) -> Any:
    count = len(detached.avals)
    values = _residuals(args[:count], detached.avals, "linearize")
    return signature.push(detached.attached(values), args[count:])


def _program(detached: DetachedTape, name: str) -> Jaxpr:
    present = [x is not None for x in detached.inputs]
    tangent_avals = [x.aval for x in detached.inputs if x is not None]

    def applied(*args: Value) -> list[Value]:
        count = len(detached.avals)
        tangents = iter(args[count:])
        outs = detached.attached(args[:count]).apply(
            [next(tangents) if p else None for p in present]
        )
        return [x for x in outs if x is not None]

    return stage(applied, [*detached.avals, *tangent_avals], f"linearized({name})")[0]


def _flatten_linearized(f: LinearizedFunction) -> tuple[tuple[Any, ...], Any]:
    detached, values = f.split()
    return tuple(values), (f._signature, detached)


register_pytree_node(
    LinearizedFunction,
    _flatten_linearized,
    lambda data, values: LinearizedFunction(data[0], None, data[1], tuple(values)),
)


class NotNeeded:
    """Stands in ``args_res`` for an argument that the backward pass does not use."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NotNeeded()"


@with_boundaries
class VJPFunction:
    """The transpose of the derivative of a function at a point.

    ``args_res`` is a list with an entry for each argument: those of its leaves that the backward
    pass uses, and :class:`NotNeeded` for others.  They can be taken out, and put back before the
    call.  ``opaque_residuals`` are the other values that it uses.
    """

    __slots__ = (
        *("__weakref__", "_args_res", "_detached", "_order", "_signature", "_tape"),
        "_opaque_residuals",
    )

    def __init__(
        self, signature: LinearSignature, tape: Tape | None, primals: Sequence[Value]
    ) -> None:
        self._signature = signature
        self._tape: Tape | None = tape
        self._args_res: Any = primals  # until it is split: the flat primals
        self._detached: DetachedTape | None = None

    @classmethod
    def of(cls, data: tuple[Any, ...], args_res: Any, opaque: Any) -> VJPFunction:
        """Put together what was taken apart."""
        signature, detached, order = data
        made = cls(signature, None, ())
        made._detached, made._order = detached, order
        made._args_res, made._opaque_residuals = args_res, opaque
        return made

    def _split(self) -> None:
        """Sort the residuals: which are the arguments, and which are not."""
        if self._detached is not None:
            return
        assert self._tape is not None
        self._detached, values = DetachedTape.of(self._tape)
        used = {id(x) for x in values}
        primals: Sequence[Value] = self._args_res
        positions = {id(x): n for n, x in reversed(list(enumerate(primals)))}
        #: For each residual its number among the leaves of the arguments, or ~ among the others.
        self._order: list[int] = []
        self._opaque_residuals: list[Any] = []
        for x in values:
            found = positions.get(id(x))
            self._order.append(~len(self._opaque_residuals) if found is None else found)
            if found is None:
                self._opaque_residuals.append(x)
        leaves = [
            concrete(x) if id(x) in used and positions[id(x)] == n else NotNeeded()
            for n, x in enumerate(primals)
        ]
        self._args_res = list(tree_unflatten(self._signature.in_tree, leaves))

    @property
    def args_res(self) -> list[Any]:
        """For each argument what of it the backward pass uses."""
        self._split()
        self._tape = None  # the list may be changed
        return self._args_res  # type: ignore[no-any-return]

    @args_res.setter
    def args_res(self, value: Sequence[Any]) -> None:
        self._split()
        self._tape = None
        self._args_res = list(value)

    @property
    def opaque_residuals(self) -> list[Any]:
        """What else it uses."""
        self._split()
        self._tape = None
        return self._opaque_residuals

    @opaque_residuals.setter
    def opaque_residuals(self, value: Sequence[Any]) -> None:
        self._split()
        self._tape = None
        self._opaque_residuals = list(value)

    @property
    def in_tree(self) -> PyTreeDef:
        """The structure of the arguments' cotangents."""
        return self._signature.in_tree

    @property
    def out_tree(self) -> PyTreeDef:
        """The structure of the cotangent that it takes."""
        return self._signature.out_tree

    @property
    def jaxpr(self) -> Jaxpr:
        """The program of the derivative, whose transpose this is."""
        self._split()
        assert self._detached is not None
        return _program(self._detached, self._signature.name)

    def __call__(self, ct: Any, *more: Any) -> tuple[Any, ...]:
        if more:
            raise self._too_many(1 + len(more))
        tape = self._tape if self._tape is not None else self._attached()
        return self._signature.pull(tape, ct)

    def with_refs(self, *wanted: Any) -> Callable[[Any], tuple[Any, ...]]:
        """The same function, which adds cotangents to references in place of returning them.

        Args:
          wanted: for each argument a reference, ``functrax.ad.DontWant()``, or anything else for
            the cotangent itself; or a pytree prefix of these.

        Raises:
          ArgumentError: if they do not fit the arguments.
        """
        from functrax.transforms.differentiation.accumulating import accumulating

        return accumulating(self, self._signature.in_tree, wanted)

    def _attached(self) -> Tape:
        assert self._detached is not None
        leaves = tree_flatten(tuple(self._args_res), is_leaf=_is_placeholder)[0]
        opaque = self._opaque_residuals
        given = [opaque[~n] if n < 0 else leaves[n] for n in self._order if n < len(leaves)]
        if len(given) < len(self._order):
            raise PyTreeError(
                f"vjp: args_res does not fit the arguments of {self._signature.name}",
                got=f"{len(leaves)} leaves",
                fix=f"entries of the structure {self._signature.in_tree}",
            )
        return self._detached.attached(_residuals(given, self._detached.avals, "vjp"))

    def _too_many(self, count: int) -> ArgumentError:
        name = self._signature.name
        return ArgumentError(
            f"vjp: the function returned by vjp applied to {name} takes one argument, the "
            "cotangent of its value",
            got=f"the vjp of {name} was called with {count} arguments",
            fix="one cotangent of the structure of the value: f_vjp((ct_a, ct_b)) for a pair",
        )

    def __repr__(self) -> str:
        return f"<vjp of {self._signature.name}>"


def _is_placeholder(x: Any) -> bool:
    return x is None or isinstance(x, NotNeeded)


def _flatten_vjp(f: VJPFunction) -> tuple[tuple[Any, ...], Any]:
    f._split()
    return (f._args_res, f._opaque_residuals), (f._signature, f._detached, tuple(f._order))


register_pytree_node(VJPFunction, _flatten_vjp, lambda data, parts: VJPFunction.of(data, *parts))
# It is part of the structure, not a leaf: where it stands, no value is passed on.
register_pytree_node(NotNeeded, lambda x: ((), None), lambda data, children: NotNeeded())
