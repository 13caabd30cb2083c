"""Single operations as programs of their own: eager mode when the option ``strict`` is on.

The reference device's rules give other last bits than machine code does, for functions such as
``exp`` and for the order of sums.  In strict mode an operation outside ``jit`` has to give the bits
that it gives inside, so it is compiled by the same compiler, as a program of one equation, which is
remembered by what it does (:func:`_executable`).

Reindexes stay views, and products of views stay put off (``backends/reference/deferred.py``), for
they round what they compute in one way only.  A sum of such a product is a program that holds the
product and what repeats its factors, so nothing large is stored.

What enters: a primitive and raw values.  In between stands a *description*, a hashable tree of the
operations and their operands.  Start at :func:`run`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from functrax.backends.device import Device, Executable, device_of
from functrax.backends.reference.deferred import Deferred, defer
from functrax.backends.reference.reference_device import rule_of
from functrax.backends.runtime.subnormals import in_mode
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.options.config import Override, compile_context, state as options
from functrax.core.prims.arithmetic import mul
from functrax.core.prims.control import Choice, LoopPrimitive
from functrax.core.prims.cumulative import Cumulative
from functrax.core.prims.reduce import ReindexReduce
from functrax.core.prims.reindex import Reindexing, broadcast_in_dim
from functrax.core.tracing.primitive import Elementwise, Primitive
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

#: A number ``("number", dtype, bytes)``, an input ``("input", dtype, shape, dims, whole shape)``,
#: or an operation ``(primitive, parameters, operands)``.
Description: TypeAlias = tuple[Any, ...]


def run(
    primitive: Primitive,
    values: Sequence[Any],
    params: dict[str, Any],
    compile_: Callable[[Jaxpr], Executable],
) -> Any:
    """The result of an operation, or a list of results; the same bits as in a compiled program.

    Args:
      primitive: the operation.
      values: its raw operands.
      params: its parameters.
      compile_: makes a program without constants callable.
    """
    reference = device_of("interp").apply  # of operations that are no matter of the compiler
    if isinstance(primitive, Reindexing) or getattr(primitive, "takes_deferred", False):
        return reference(primitive, values, params)
    if primitive is mul and all(x.dtype in dtypes.SCALAR for x in values):
        put_off = defer(values)
        if put_off is not None:
            return put_off
    found = run_compiled(primitive, values, params, compile_)
    if found is None:
        dense = [x if isinstance(x, np.generic) else np.asarray(x, order="C") for x in values]
        return reference(primitive, dense, params)  # as a compiled program would call it
    return found if primitive.multiple_results else found[0]


def run_compiled(
    primitive: Primitive,
    values: Sequence[Any],
    params: dict[str, Any],
    compile_: Callable[[Jaxpr], Executable],
) -> list[Any] | None:
    """The results of an operation as a program; None if the compiler has no code for it."""
    inputs: list[Any] = []
    key = _operation(primitive, params, values, inputs)
    executable = _executable(key, compile_, compile_context())
    return None if executable is None else executable(inputs)


def by_rule(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
    """The result of an operation, or a list of results, by its reference; not in strict mode.

    What computes real floats flushes subnormal numbers, as a program does; what moves them does
    not.  Nor do complex functions: NumPy multiplies by the reciprocals of divisors, which would be
    zero for large ones.
    """
    rule = rule_of(primitive)
    computes = isinstance(primitive, (Elementwise, ReindexReduce))
    if computes and values[-1].dtype.kind != "c":
        return in_mode(True, rule, primitive, values, params)
    return rule(primitive, values, params)


@contextmanager
def rounded(device: Device) -> Iterator[None]:
    """Programs in which what shares a kernel does not change a bit; contractions are units."""
    on = Override("backend", device.backend)
    with Override("strict", True), Override("strict_tiles", True), on:
        yield


def compile_rounded(device: Device, jaxpr: Jaxpr) -> Executable:
    """A program of operations outside of ``jit``: each has the bits that it has by itself.

    Those of the strict mode are what they are.
    """
    if options.strict:
        return device.compile(jaxpr)
    with rounded(device):
        return device.compile(jaxpr)


def is_compiled(primitive: Primitive, avals: Sequence[ShapedArray], params: dict[str, Any]) -> bool:
    """Whether the compiler has code for an operation on arrays, or a library function."""
    from functrax.backends.libraries.calls import has_library_call  # a part of the compiler

    return has_library_call(primitive) or _is_compiled(
        _equation(primitive, [Var(a) for a in avals], params)
    )


def _operation(
    primitive: Primitive, params: dict[str, Any], values: Sequence[Any], inputs: list[Any]
) -> Description:
    """The description of an operation; the arrays that it is made of go to ``inputs``."""
    operands = []
    for x in values:
        if type(x) is Deferred:
            operands.append(_operation(mul, {}, x.factors, inputs))
        elif isinstance(x, np.generic):
            operands.append(("number", x.dtype, x.tobytes()))
        elif not x.shape and isinstance(primitive, Elementwise) and any(y.shape for y in values):
            operands.append(("number", x.dtype, np.asarray(x).tobytes()))  # it fills an array
        else:
            operands.append(_input(x, inputs))
    return (primitive, tuple(params.items()), tuple(operands))


def _input(x: Any, inputs: list[Any]) -> Description:
    shape, dims = x.shape, tuple(range(len(x.shape)))
    strides = getattr(x, "strides", ())
    if 0 in strides and 0 not in shape:
        kept = tuple([d for d in dims if strides[d] or shape[d] == 1])
        part = x[tuple([slice(None) if d in kept else 0 for d in dims])]
        inputs.append(np.ascontiguousarray(part).reshape([shape[d] for d in kept]))
        return ("input", x.dtype, tuple([shape[d] for d in kept]), kept, shape)
    inputs.append(np.asarray(x, order="C") if strides else x)
    return ("input", x.dtype, shape, dims, shape)


@functools.lru_cache(maxsize=4096)
def _executable(
    description: Description, compile_: Callable[[Jaxpr], Executable], context: tuple[Any, ...]
) -> Executable | None:
    """The program of an operation made callable; None if the compiler has no code for it.

    The options of the compiler are a part of the key alone.
    """
    inputs: list[Var] = []
    eqns: list[Eqn] = []
    last = _write_operation(description, inputs, eqns)
    if not _is_compiled(last):
        return None
    return compile_(Jaxpr((), inputs, last.outvars, eqns, last.primitive.name))


def _is_compiled(eqn: Eqn) -> bool:
    from functrax.backends.libraries.calls import gives_other_bits  # parts of the compiler
    from functrax.backends.passes.fusion.kernel_groups import is_fusible

    primitive = eqn.primitive
    if (
        isinstance(primitive, (LoopPrimitive, Choice, Cumulative))
        or primitive.is_written
        or primitive.is_foreign
    ):
        return True  # no part of a group, but known to the compiler
    return is_fusible(eqn) or gives_other_bits(eqn)


def _write(description: Description, inputs: list[Var], eqns: list[Eqn]) -> Atom:
    """Write the equations of a description; the value that it stands for."""
    kind = description[0]
    if kind == "number":
        _, dtype, data = description
        return Literal(np.frombuffer(data, dtype)[0], ShapedArray((), dtype))
    if kind == "input":
        _, dtype, shape, dims, whole = description
        inputs.append(Var(ShapedArray(shape, dtype)))
        if shape == whole:
            return inputs[-1]
        eqns.append(_equation(broadcast_in_dim, inputs[-1:], {"shape": whole, "dims": dims}))
        return eqns[-1].outvars[0]
    return _write_operation(description, inputs, eqns).outvars[0]


def _write_operation(description: Description, inputs: list[Var], eqns: list[Eqn]) -> Eqn:
    """Write the equations of an operation; the last, which has no results where it has none."""
    primitive, params, operands = description
    found = [_write(x, inputs, eqns) for x in operands]
    eqns.append(_equation(primitive, found, dict(params)))
    return eqns[-1]


def _equation(primitive: Primitive, operands: Sequence[Atom], params: dict[str, Any]) -> Eqn:
    avals = primitive.infer(tuple([x.aval for x in operands]), params)
    results = [avals] if type(avals) is ShapedArray else avals
    return Eqn(primitive, operands, [Var(a) for a in results], params)
