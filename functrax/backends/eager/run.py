"""Running what is recorded: how a cut of the graph becomes results.

C++ cuts out what has to run (``native/eager_cut.h``), and runs cuts whose program it knows.  The
others come here.  Operations that are little work are run by the reference, one by one
(:func:`_one_by_one`).  More is written down as a program, compiled, and remembered by the cut's key
(:func:`_compiled`).  Which of the two depends on the operations alone, never on what ran before,
for the two may differ in their last bits.

A cut is a copy: what happens here changes nothing in the graph, so what is recorded can be computed
after any error.  An error that is functrax's own is no reason not to give a value: what is recorded
is then computed by NumPy, operation by operation, and the error is reported (:func:`_recover`).

Start at :func:`compute`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from functrax.backends.cost import numpy_ns
from functrax.backends.device import Executable, device_of
from functrax.backends.eager import single_operations
from functrax.backends.eager.graph import CHEAP, SMALL_BYTES, Cut, Signature
from functrax.backends.eager.single_operations import compile_rounded
from functrax.backends.internal_errors import report
from functrax.backends.reference import nan_check
from functrax.backends.reference.deferred import Deferred
from functrax.backends.reference.reference_device import in_numpy
from functrax.backends.reference.strided import SMALL
from functrax.backends.targets import target
from functrax.core import native
from functrax.core.boundaries.tracebacks import is_mistake
from functrax.core.errors.source import SourceLine
from functrax.core.errors.typed import add_note
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.options.config import Override, compile_context, state as options
from functrax.core.prims.arithmetic import mul
from functrax.core.prims.identity import optimization_barrier
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reduce import ReindexReduce, reduce_sum
from functrax.core.prims.reindex import Reindexing, broadcast_in_dim, reshape
from functrax.core.process.locks import new_rlock
from functrax.core.tracing.primitive import MAX_REMEMBERED, Elementwise
from functrax.core.tracing.trace import state
from functrax.core.types.aval import ShapedArray

#: By the key of a cut its program, or the nanoseconds that the reference took for it so far.
_programs: dict[tuple[Any, ...], Any] = {}
#: How many operations the cuts have together whose programs are remembered: each takes about a
#: kilobyte as long as the program does.
_operations = 0
#: The programs of functions of few elements, which arrays of several sizes share.
_rooms: dict[Any, Executable] = {}
#: One thread compiles at a time; others record meanwhile.
_lock: Final = new_rlock()


def compute(*fields: Any) -> tuple[list[Any], Executable | None]:
    """The results of a cut that has no program yet, and its program if it gets one.

    Args:
      fields: those of :class:`~functrax.backends.eager.graph.Cut`.

    Raises:
      MemoryError: if there is not enough memory, with a note of the line that needs most.
    """
    found = Cut(*fields)
    with _lock, _as_recorded(found):
        executable = None
        try:
            executable = _program_of(found)
            results = None if executable is None else executable(found.inputs)
        except Exception as error:
            return _recover(error, found), None
        return _one_by_one(found) if results is None else results, executable


def prepare(alike: int, now: bool, fields: tuple[Any, ...]) -> Any:
    """The program of a part of a wide cut, and which instructions threads share with other parts.

    Args:
      alike: how many parts of the cut are like it.
      now: whether the operations cannot be run one by one.
      fields: those of :class:`~functrax.backends.eager.graph.Cut`, without inputs.

    Returns:
      None if it does not pay yet; ``NotImplemented`` if the whole cut is to be one program: on a
      GPU, and if the compiler fails, which it then does for the whole cut, too, and is reported
      there.
    """
    found = Cut(*fields)
    if not found.setting.on_host:
        return NotImplemented  # a GPU's programs are not put together of parts
    with _lock, _as_recorded(found):
        try:
            executable = _compiled_part(found, alike, now)
        except Exception as error:
            if _is_users(error):
                raise
            return NotImplemented
        if executable is None:
            return None
        from functrax.backends.executables.launch_runs import is_short  # part of the compiler

        loaded: Any = executable
        return executable, [is_short(x) for x in loaded.program.instructions]


def compute_each(*fields: Any) -> list[Any]:
    """The results of parts of a wide cut that are little work: operation by operation.

    Args:
      fields: those of :class:`~functrax.backends.eager.graph.Cut`, of all these parts together.
    """
    found = Cut(*fields)
    with _lock, _as_recorded(found):
        return _one_by_one(found)


def recover(error: Exception, fields: tuple[Any, ...]) -> list[Any]:
    """The results of a cut whose program failed.

    Args:
      error: what it raised.
      fields: those of :class:`~functrax.backends.eager.graph.Cut`.

    Raises:
      Exception: what the operations themselves raise.
    """
    found = Cut(*fields)
    with _as_recorded(found):
        return _recover(error, found)


def _recover(error: Exception, found: Cut) -> list[Any]:
    """The results of a cut that could not be computed as a program: by the reference.

    Where that works the error was functrax's own.  What the user's code raised, such as a handler
    of a signal, is the user's.
    """
    if _is_users(error):
        raise error
    results = [found.setting.device.hold(x) for x in _one_by_one(found, _by_reference)]
    line = found.lines[-1]
    report(error, f"what was recorded{f' until {line}' if line else ''} is computed by NumPy")
    return results


def _is_users(error: Exception) -> bool:
    """Whether an error is not one of functrax itself."""
    if isinstance(error, MemoryError):
        return True
    return error.__traceback__ is not None and is_mistake(error)


def _name_largest(error: MemoryError, found: Cut) -> None:
    """Note which operation has the largest results."""
    largest = max(range(len(found.signatures)), key=lambda n: found.signatures[n].out_bytes)
    types = ", ".join(a.str_short() for a in found.signatures[largest].results)
    add_note(error, f"the largest value to be computed is {types}, of {found.lines[largest]}")


@contextmanager
def _as_recorded(found: Cut) -> Iterator[None]:
    """The options that operations were recorded with, whatever they are now.

    An error that says that there is not enough memory names the line that needs most.
    """
    strict, device = found.setting.strict, found.setting.device
    try:
        if options.strict is strict and device_of(options.backend) is device:
            yield
            return
        with Override("strict", strict), Override("backend", device.backend):
            yield
    except MemoryError as error:
        _name_largest(error, found)
        raise


def compute_single(signature: Signature, operands: Sequence[Any], line: SourceLine | None) -> Any:
    """The result of an operation that is little work and needs no other.

    ``NotImplemented`` if it is to be run as a cut.
    """
    if options.strict is not signature.setting.strict:
        return NotImplemented
    values = [x.val if type(x) is Literal else x for x in operands]
    if signature.alone is not False and _has_program(signature):
        return NotImplemented
    previous = state.source
    state.source = line
    try:
        return _stored(operation(signature, values))
    finally:
        state.source = previous


def _has_program(signature: Signature) -> bool:
    """Whether an operation that is little work is run by a program of its own.

    That is so if NumPy gives other bits, and if the operation is run often.
    """
    if signature.alone is None:
        signature.spent += signature.reference_ns
        own_bits = not (signature.exact or signature.shares)
        if signature.setting.strict or not (own_bits or signature.spent > target().compile_ns):
            return False
        signature.alone = (own_bits or signature.pays) and single_operations.is_compiled(
            signature.primitive, signature.avals, signature.params
        )
    return signature.alone


def _program_of(found: Cut) -> Executable | None:
    """The program of a cut; None if its operations are to be run one by one."""
    signatures = found.signatures
    if not found.setting.on_host:
        return _compiled(found, CHEAP + 1)
    cost = sum([signature.cost for signature in signatures]) + _copies(found)
    if cost <= CHEAP and len(signatures) == 1:
        if not _has_program(signatures[0]):
            return None
        cost = CHEAP + 1
    return _compiled(found, cost)


def _copies(found: Cut) -> int:
    """Nanoseconds of the reshapes that NumPy makes copies for: those of what was repeated."""
    makers = [signature for signature in found.signatures for _ in signature.results]
    total = 0
    for signature, codes in zip(found.signatures, found.operands):
        if signature.primitive is reshape and type(codes[0]) is int and codes[0] >= 0:
            if makers[codes[0]].primitive is broadcast_in_dim:
                total += numpy_ns(signature.results[0].size, target())
    return total


# ---- operation by operation -------------------------------------------------------------------


def _by_reference(signature: Signature, operands: list[Any]) -> Any:
    """The result of an operation, or a list of results, without the compiler."""
    values = [in_numpy(x) for x in operands]
    return device_of("interp").apply(signature.primitive, values, signature.params)


def _one_by_one(found: Cut, run: Callable[[Signature, list[Any]], Any] | None = None) -> list[Any]:
    """The results of a cut, each operation run by itself; a value is kept as long as it is read.

    Args:
      found: the cut.
      run: how one is run; :func:`operation` if it is None.
    """
    apply = run or operation
    values: dict[int, Any] = {-1 - n: x for n, x in enumerate(found.inputs)}
    readers: dict[int, int] = dict.fromkeys(found.outputs, 1)
    for codes in found.operands:
        for code in codes:
            if type(code) is int:
                readers[code] = readers.get(code, 0) + 1
    previous = state.source
    count = 0
    as_arrays = _taken_as_arrays(found)
    try:
        for signature, line, codes in zip(found.signatures, found.lines, found.operands):
            state.source = line
            operands = [values[x] if type(x) is int else x.val for x in codes]
            for k in as_arrays.get(count, ()):
                operands[k] = _stored(operands[k])
            out = apply(signature, operands)
            for code in codes:
                if type(code) is int:
                    readers[code] -= 1
                    if not readers[code]:
                        del values[code]
            results = [out] if type(signature.types) is ShapedArray else out
            for number, result in enumerate(results, count):
                if number in readers:
                    values[number] = result
            count += len(signature.results)
    finally:
        state.source = previous
    return [_stored(values[number]) for number in found.outputs]


def _stored(x: Any) -> Any:
    """A value as an array that repeats nothing."""
    if type(x) is Deferred:
        return x.materialize()
    return np.ascontiguousarray(x) if type(x) is np.ndarray and 0 in x.strides else x


def operation(signature: Signature, operands: list[Any]) -> Any:
    """The result of an operation, or a list of results: the bits that a program gives.

    Where the reference gives others it is compiled, alone; a sum of a product that was put off with
    the product.
    """
    primitive, params = signature.primitive, signature.params
    if signature.setting.strict or nan_check.enabled():
        return device_of("llvm").apply(primitive, operands, params)
    operands = [in_numpy(x) for x in operands]
    with np.errstate(all="ignore"):
        if signature.exact:
            return single_operations.by_rule(primitive, operands, params)
        if signature.shares and 0 < operands[0].size <= SMALL:
            return _in_room(signature, np.asarray(operands[0]))
        return single_operations.run(primitive, operands, params, _compile_one)


def _in_room(signature: Signature, x: np.ndarray[Any, Any]) -> Any:
    """A function of few elements: arrays of several sizes share one program."""
    room = max(target().vector_bytes, 1 << (x.size - 1).bit_length())
    primitive, params = signature.primitive, signature.params
    key = (primitive, *params.items(), x.dtype, room, compile_context())
    executable = _rooms.get(key)
    if executable is None:
        operand = Var(signature.avals[0].update(shape=(room,)))
        out = Var(signature.results[0].update(shape=(room,)))
        one = Jaxpr((), [operand], [out], [Eqn(primitive, [operand], [out], params)], "eager")
        executable = _rooms[key] = _compile_one(one)
    padded = np.ones(room, x.dtype)
    padded[: x.size] = x.reshape(-1)
    (found,) = executable([padded])
    return in_numpy(found)[: x.size].reshape(x.shape)


def _compile_one(jaxpr: Jaxpr) -> Executable:
    return compile_rounded(device_of("llvm"), jaxpr)


# ---- as a program -----------------------------------------------------------------------------


def _compiled(found: Cut, cost: int) -> Executable | None:
    """The program of a cut made callable; None if it does not pay yet."""
    key, known = _known(found)
    if not isinstance(known, int):
        executable: Executable = known
        return executable
    if cost <= CHEAP:
        alone = sum([not signature.exact for signature in found.signatures])
        takes = sum([signature.reference_ns for signature in found.signatures])
        spent = known + takes + target().program_ns * alone
        if spent < target().compile_ns:
            _programs[key] = spent
            return None
    return _new_program(found, key)


def _compiled_part(found: Cut, alike: int, now: bool) -> Executable | None:
    """As :func:`_compiled`, of a part of a wide cut.

    What is little work waits until it was as much, but for what would be compiled anyway, operation
    by operation.
    """
    key, known = _known(found)
    if not isinstance(known, int):
        executable: Executable = known
        return executable
    signatures = found.signatures
    spent = known + alike * sum([signature.cost for signature in signatures])
    waits = spent <= CHEAP and not now
    if waits and all(signature.exact or signature.shares for signature in signatures):
        _programs[key] = spent
        return None
    return _new_program(found, key)


def _known(found: Cut) -> tuple[tuple[Any, ...], Any]:
    """The key of a cut, and its program or the nanoseconds that it took so far."""
    key = (compile_context(), *found.key)
    known = _programs.get(key)
    if known is None:
        if max(_operations, len(_programs)) >= MAX_REMEMBERED:
            forget()
        known = 0
    return key, known


def _new_program(found: Cut, key: tuple[Any, ...]) -> Executable:
    global _operations
    jaxpr, setting = program(found), found.setting
    made = _compile_one(jaxpr) if setting.on_host else compile_rounded(setting.device, jaxpr)
    executable = _programs[key] = made
    _operations += len(found.signatures)
    return executable


def program(found: Cut, name: str = "eager") -> Jaxpr:
    """A cut as a program."""
    inputs = [Var(aval) for aval in found.input_avals]
    values: list[Atom] = []
    eqns: list[Eqn] = []
    as_arrays = _taken_as_arrays(found)
    for signature, line, codes in zip(found.signatures, found.lines, found.operands):
        operands = [
            x if type(x) is Literal else values[x] if x >= 0 else inputs[-1 - x] for x in codes
        ]
        for k in as_arrays.get(len(values), ()):
            stored = Var(operands[k].aval)
            eqns.append(Eqn(optimization_barrier, [operands[k]], [stored], {}, line))
            operands[k] = stored
        if signature.literals_are_inputs:
            operands = [_filled(x, signature, eqns) for x in operands]
        outs = [Var(aval) for aval in signature.results]
        eqns.append(Eqn(signature.primitive, operands, outs, signature.params, line))
        values += outs
    return Jaxpr((), inputs, [values[number] for number in found.outputs], eqns, name)


def _taken_as_arrays(found: Cut) -> dict[int, list[int]]:
    """By the number of an operation's result the operands that count as arrays, as if looked at.

    These are matrices to be multiplied that are made of broadcasts alone, such as ``ones`` or an
    outer product: the compiler would multiply what they are made of, in another order.  Broadcasts
    of the product of matrices itself have each axis that is summed, and each other one of two.
    """
    summed = {
        codes[0]: signature.params["axes"]
        for signature, codes in zip(found.signatures, found.operands)
        if signature.primitive is reduce_sum
    }
    taken: dict[int, list[int]] = {}
    if not summed:
        return taken
    #: Of values that repeat elements the axes of what a broadcast repeats, else None.
    repeated: dict[int, set[int] | None] = {}
    number = 0
    for signature, codes in zip(found.signatures, found.operands):
        primitive, avals, result = signature.primitive, signature.avals, signature.results[0]
        mine = [k for k, code in enumerate(codes) if code in repeated]
        wide = {k for k, size in enumerate(result.shape) if size != 1}
        if primitive in (broadcast_in_dim, reindex):
            taken[number] = mine[:1]
        elif primitive is mul and number in summed and signature.out_bytes <= SMALL_BYTES:
            axes = wide.intersection(summed[number])
            used = [repeated.get(code, wide) or set() for code in codes]
            covered = wide <= set().union(*used)
            taken[number] = [k for k in mine if not (covered and axes <= used[k])]
        moves = isinstance(primitive, (Elementwise, Reindexing, ReindexReduce))
        sums = isinstance(primitive, ReindexReduce) and result.size < avals[0].size
        if primitive is broadcast_in_dim:
            dims = zip(signature.params["dims"], avals[0].shape, strict=True)
            repeated[number] = {k for k, size in dims if size != 1}
        elif moves and mine and not sums and len(mine) == sum([bool(a.shape) for a in avals]):
            repeated[number] = None
        number += len(signature.results)
    return taken


def _filled(x: Atom, signature: Signature, eqns: list[Eqn]) -> Atom:
    """A scalar operand of an elementwise operation as an array full of it."""
    shape = signature.results[0].shape
    if not shape or x.aval.shape == shape:
        return x
    filled = Var(x.aval.update(shape=shape))
    eqns.append(Eqn(broadcast_in_dim, [x], [filled], {"shape": shape, "dims": ()}))
    return filled


def forget() -> None:
    """Forget the compiled cuts."""
    global _operations
    with _lock:
        _programs.clear()
        _operations = 0
        _rooms.clear()
        if native.extension is not None:
            native.extension.eager_forget()
