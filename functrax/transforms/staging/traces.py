"""What a jitted function remembers of its traces, and why there was more than one.

A :class:`TraceSignature` is all that a trace depends on; a :class:`Traced` is what it gave.  The
history of a function is a list of :class:`TraceRecord`; :func:`reports` says of each why the
program could not be taken from an earlier one: in what the signature differs from the most similar
one before.

Start at :func:`reports`.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from functrax.core.errors.source import SourceLine
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import context_values
from functrax.core.pytree.operations import PyTreeDef, filled, keystr, tree_flatten_with_path
from functrax.core.records import field, record
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import Derived, Effects
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.flat import positional_names, signature_of
from functrax.transforms.arguments.static_args import StaticKey


class TraceSignature(NamedTuple):
    """What a trace depends on.

    Args:
      tree: the structure of the traced arguments, positional and named.
      avals: their types.
      static: the static arguments.
      context: the values of the options that change what a program means.
      axes: the named axes that are bound.
    """

    tree: PyTreeDef
    avals: tuple[ShapedArray, ...]
    static: StaticKey
    context: tuple[Hashable, ...]
    axes: tuple[tuple[Hashable, int], ...]


@record
class Traced:
    """A traced function: a program whose constants are its leading inputs.

    Args:
      jaxpr: the program.
      consts: the values of the constants.
      out_tree: the structure of the results.
      milliseconds: how long tracing took.
      effects: what the program does to references; None if it knows of none.  If it does,
        ``consts`` has references where the program is to be given their values.
    """

    jaxpr: Jaxpr
    consts: tuple[Value, ...]
    out_tree: PyTreeDef
    milliseconds: float
    effects: Effects | None = None


@record
class TraceRecord:
    """One trace of a function.

    Args:
      signature: what it depends on.
      jaxpr: the program, while it lives.
      where: the line that called the function.
      milliseconds: how long tracing took.
      kept: whether the program was remembered; it is not if it closes over traced values.
    """

    signature: TraceSignature
    jaxpr: weakref.ref[Jaxpr]
    where: SourceLine | None
    milliseconds: float
    kept: bool


@record
class Difference:
    """One way in which a call differed from an earlier one.

    Args:
      argument: the argument, as ``x`` or ``params['w']``; empty if it is none.
      kind: ``"shape"``, ``"dtype"``, ``"weak type"``, ``"static value"``, ``"structure"``,
        ``"option"``, ``"named axes"``, or ``"not kept"``: nothing differed, but the program closes
        over traced values of an outer transformation, or was forgotten.
      before: what it was.
      after: what it is.
    """

    argument: str
    kind: str
    before: str
    after: str

    def __str__(self) -> str:
        if self.kind == "not kept":
            return f"nothing differs, but the program was not kept: {self.after}"
        subject = f"the {self.kind} of {self.argument}" if self.argument else f"the {self.kind}"
        return f"{subject}: {self.before} became {self.after}"


@record
class TraceReport:
    """Why a function was traced.

    Args:
      number: which trace of the function, counted from 1.
      where: the line that called the function.
      milliseconds: how long tracing took.
      compiles: how many kernels' machine code had to be made for the program.
      nearest: the number of the earlier trace that is most like it; 0 for the first.
      differences: how it differs from that.
      guards: what the compiled program takes for granted and every call is tested for, as
        ``"x is f32[3]"``; a call that fails one takes another program.
    """

    number: int
    where: SourceLine | None
    milliseconds: float
    compiles: int
    nearest: int
    differences: tuple[Difference, ...]
    guards: tuple[str, ...] = ()

    def __str__(self) -> str:
        at = "" if self.where is None else f" at {self.where}"
        head = (
            f"trace {self.number}{at}: {self.milliseconds:.2f} ms, {self.compiles} compiles, "
            f"{len(self.guards)} guards"
        )
        if not self.nearest:
            return f"{head}\n    the first call"
        lines = [f"    {d}" for d in self.differences]
        return "\n".join([f"{head}, nearest is trace {self.nearest}", *lines])


def compiles(jaxpr: Jaxpr) -> int:
    """How many kernels' machine code was made for a program and its derivatives."""
    from functrax.backends.compilation.compiler import (
        CompiledProgram,  # imported with the first program
    )
    from functrax.backends.compile_log import CompileLog

    count = 0
    for value in list(jaxpr.memo.values()):
        if isinstance(value, CompiledProgram):
            count += value.log.origins["llvm"]
        elif isinstance(value, CompileLog):  # of a plan for all sizes
            count += value.origins["llvm"]
        elif isinstance(value, Derived):
            count += compiles(value.jaxpr)
    return count


def planned(jaxpr: Jaxpr) -> bool:
    """Whether a program, or a derivative of it, was made by the plan of another size."""
    found = (planned(x.jaxpr) for x in list(jaxpr.memo.values()) if isinstance(x, Derived))
    return bool(jaxpr.memo.get("planned")) or any(found)


def reports(history: Sequence[TraceRecord], function: Callable[..., Any]) -> list[TraceReport]:
    """Why each trace was made.

    Args:
      history: the traces, in order.
      function: the user's function, for the names of its arguments.
    """
    out = []
    for k, latest in enumerate(history):
        nearest, differences = 0, tuple[Difference, ...]()
        if k:
            found = [_differences(earlier, latest, function) for earlier in history[:k]]
            best = min(range(k), key=lambda n: (len(found[n]), -n))
            nearest, differences = best + 1, found[best]
        jaxpr = latest.jaxpr()
        count = 0 if jaxpr is None else compiles(jaxpr)
        guards = _guards(latest.signature, function)
        report = TraceReport(
            k + 1, latest.where, latest.milliseconds, count, nearest, tuple(differences), guards
        )
        out.append(report)
    return out


def _guards(signature: TraceSignature, function: Callable[..., Any]) -> tuple[str, ...]:
    """What a call is tested for before a program is used."""
    names = argument_names(function, signature)
    types = [f"{name} is {x.str_short()}" for name, x in zip(names, signature.avals, strict=True)]
    static = [f"{name} is {x}" for name, x in _static_arguments(signature.static, function).items()]
    axes = [f"the axis {name} has size {n}" for name, n in signature.axes]
    return (f"the structure is {signature.tree}", *types, *static, *axes, "the options are as then")


def _differences(
    earlier: TraceRecord, later: TraceRecord, function: Callable[..., Any]
) -> tuple[Difference, ...]:
    a, b = earlier.signature, later.signature
    found: list[Difference] = []
    if a.tree != b.tree:
        found.append(Difference("", "structure", str(a.tree), str(b.tree)))
    else:
        names = argument_names(function, b)
        for name, x, y in zip(names, a.avals, b.avals, strict=True):
            found += _aval_differences(name, x, y)
    found += _static_differences(a.static, b.static, function)
    for (option, old), (_, new) in zip(context_values(a.context), context_values(b.context)):
        if old != new:
            found.append(Difference(option, "option", repr(old), repr(new)))
    if a.axes != b.axes:
        found.append(Difference("", "named axes", str(dict(a.axes)), str(dict(b.axes))))
    if not found:
        why = "it was forgotten" if earlier.kept else "it closes over values that are being traced"
        found.append(Difference("", "not kept", "", why))
    return tuple(found)


def _aval_differences(name: str, x: ShapedArray, y: ShapedArray) -> list[Difference]:
    found = []
    if x.shape != y.shape:
        found.append(Difference(name, "shape", str(x.shape), str(y.shape)))
    if x.dtype != y.dtype:
        found.append(Difference(name, "dtype", x.dtype.name, y.dtype.name))
    if x.weak_type != y.weak_type:
        found.append(Difference(name, "weak type", _weak(x), _weak(y)))
    return found


def _weak(x: ShapedArray) -> str:
    return "a Python number" if x.weak_type else "an array"


def _static_differences(
    a: StaticKey, b: StaticKey, function: Callable[..., Any]
) -> list[Difference]:
    old, new = (_static_arguments(key, function, lambda x: x) for key in (a, b))
    found = []
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            texts = [repr(side[name].value) if name in side else "not given" for side in (old, new)]
            found.append(Difference(name, "static value", *texts))
    return found


def _static_arguments(
    key: StaticKey,
    function: Callable[..., Any],
    text: Callable[[Any], Any] = lambda x: repr(x.value),
) -> dict[str, Any]:
    """The static arguments by name, as text or in another form."""
    signature = signature_of(function)
    named = [] if signature is None else positional_names(signature)
    positional = {named[i] if i < len(named) else f"args[{i}]": text(x) for i, x in key[0]}
    return {**positional, **{name: text(x) for name, x in key[1]}}


def argument_names(function: Callable[..., Any], signature: TraceSignature) -> list[str]:
    """What the traced leaves of the arguments are called: ``x``, ``params['w']``."""
    (args, kwargs), _ = filled(signature.tree)
    tops = _top_names(signature_of(function), {i for i, _ in signature.static[0]}, len(args))
    trees = [*zip(tops, args), *sorted(kwargs.items())]
    return [top + keystr(path) for top, x in trees for path, _ in tree_flatten_with_path(x)[0]]


def _top_names(signature: inspect.Signature | None, static: set[int], count: int) -> list[str]:
    named = [] if signature is None else positional_names(signature)
    places = [i for i in range(count + len(static)) if i not in static]
    return [named[i] if i < len(named) else f"args[{i}]" for i in places]


@record
class CacheInfo:
    """How often a jitted function was traced, and how often a trace was found.

    Args:
      hits: calls whose program was there already.
      misses: calls that traced.
      currsize: programs remembered.
      compiles: how many kernels' machine code had to be made for the programs remembered; sizes
        that are new need none where the kernels are known.
      planned: how many of those programs were not compiled by themselves, but made of that of
        another size.
      records: the latest traces, for :attr:`history`.
      function: the user's function.
    """

    hits: int
    misses: int
    currsize: int
    compiles: int
    planned: int
    records: tuple[TraceRecord, ...] = field(repr=False, compare=False)
    function: Callable[..., Any] = field(repr=False, compare=False)

    @functools.cached_property
    def history(self) -> tuple[TraceReport, ...]:
        """Why each of the latest traces was made."""
        return tuple(reports(self.records, self.function))

    @property
    def traces(self) -> int:
        """How often the function was traced."""
        return self.misses
