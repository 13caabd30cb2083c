"""Whole programs on disk, so that a new process compiles none that an earlier one compiled.

A jaxpr enters; a planned :class:`~functrax.backends.executables.program.RuntimeProgram` leaves, if
one of its key (:mod:`functrax.backends.cache.program_key`) is on disk with the machine code of all
of its kernels.  Then neither passes nor lowering run, and none of the compiler is imported.

An entry is the program as nested tuples, written by ``marshal``: records by their number in
``_RECORDS`` with their fields, machine code by its key in the same cache.  A program that calls
Python functions is not kept.

Start at :func:`find` and :func:`keep`.
"""

from __future__ import annotations

import marshal
import weakref
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

import numpy as np

from functrax.backends import disk_cache
from functrax.backends.cache.program_key import program_key
from functrax.backends.executables.library_functions import LibraryFunction
from functrax.backends.executables.program import (
    CondInstruction,
    CopyInstruction,
    Launch,
    RuntimeProgram,
    ScanInstruction,
    Slot,
    WhileInstruction,
)
from functrax.backends.machine_code.kernel_jit import CompiledCode, LaunchCode, machine
from functrax.core.events import monitoring
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import compile_context, state as options
from functrax.core.types.aval import ShapedArray

_RECORDS: Final = (
    *(
        Slot,
        Launch,
        CopyInstruction,
        CondInstruction,
        WhileInstruction,
        ScanInstruction,
        RuntimeProgram,
        LaunchCode,
        LibraryFunction,
    ),
)
_NUMBERS: Final = {kind: number for number, kind in enumerate(_RECORDS)}
_VALUES: Final = {kind: attrgetter(*[f.name for f in fields(kind)]) for kind in _RECORDS}
_FUNCTION, _PARAMS, _OWNER = (
    [f.name for f in fields(Launch)].index(name) for name in ("function", "params", "owner")
)
#: What is written as it is.
_PLAIN: Final = frozenset({int, str, bool, type(None)})
_CODE, _ARRAY, _DTYPE, _TUPLE = range(len(_RECORDS), len(_RECORDS) + 4)

#: Weak on both sides: a jaxpr remembers what it was compiled to, and so holds its program.
_sources: weakref.WeakKeyDictionary[RuntimeProgram, weakref.ref[Jaxpr]] = (
    weakref.WeakKeyDictionary()
)


class _UnknownError(Exception):
    """Something that is not written, or machine code that is gone."""


def find(jaxpr: Jaxpr) -> RuntimeProgram | None:
    """The program that an earlier process made of a jaxpr; None if there is none.

    Args:
      jaxpr: a program without constants.
    """
    key = _key(jaxpr)
    if key is None:
        return None
    cache = disk_cache.current()
    entry = cache.get(key)
    monitoring.record_event(monitoring.CACHE_ASKED)
    monitoring.record_event(monitoring.CACHE_MISS if entry is None else monitoring.CACHE_HIT)
    if entry is None:
        return None
    try:
        program = _decoded(marshal.loads(entry.payload), cache)
    except _UnknownError:  # it is compiled, and written again
        return None
    assert isinstance(program, RuntimeProgram)
    remember_source(program, jaxpr)
    return program


def keep(jaxpr: Jaxpr, program: RuntimeProgram) -> None:
    """Write what a jaxpr was compiled to, if it can be written."""
    key = _key(jaxpr)
    if key is None:
        return
    try:
        payload = marshal.dumps(_encoded(program))
    except _UnknownError:
        return
    disk_cache.current().put(key, payload, f"program {jaxpr.name}")


def same_programs(x: RuntimeProgram, y: RuntimeProgram) -> bool:
    """Whether two programs do the same by the same machine code, and call no Python functions."""
    try:
        return bool(_encoded(x) == _encoded(y))
    except _UnknownError:
        return False


def remember_source(program: RuntimeProgram, jaxpr: Jaxpr) -> None:
    """Note the jaxpr of a program that was not compiled by itself."""
    _sources[program] = weakref.ref(jaxpr)


def source_of(program: RuntimeProgram) -> Jaxpr | None:
    """The jaxpr of a program that was found on disk, or made by a plan, if it is still there."""
    found = _sources.get(program)
    return None if found is None else found()


def _key(jaxpr: Jaxpr) -> bytes | None:
    if not (options.cache and options.cache_programs) or shown():
        return None
    place = ("program key", compile_context())
    if place not in jaxpr.memo:
        jaxpr.memo[place] = program_key(jaxpr)
    key: bytes | None = jaxpr.memo[place]
    return key


def shown() -> bool:
    """Whether somebody wants to see the compiler at work."""
    return bool(options.dump or options.log or options.check)


def _encoded(x: Any) -> Any:
    kind = type(x)
    if kind in _PLAIN:
        return x
    if kind is tuple:
        return (_TUPLE, *[part if type(part) in _PLAIN else _encoded(part) for part in x])
    if kind is CompiledCode:
        return _CODE, x.key
    if kind is np.ndarray:
        return _ARRAY, x.tobytes(), x.shape, ShapedArray((), x.dtype).str_short()
    if isinstance(x, np.dtype):
        return _DTYPE, ShapedArray((), x).str_short()
    number = _NUMBERS.get(kind)
    if number is None:  # a Python function, or what an instruction keeps of another kind
        raise _UnknownError
    parts = _VALUES[kind](x)
    return (number, *[part if type(part) in _PLAIN else _encoded(part) for part in parts])


def _decoded(x: Any, cache: disk_cache.DiskCache) -> Any:
    if type(x) is not tuple:
        return x
    number, *parts = x
    if number == _TUPLE:
        return tuple([_decoded(part, cache) if type(part) is tuple else part for part in parts])
    if number == _CODE:
        found = machine().known(parts[0], cache)
        if found is None:
            raise _UnknownError
        return found
    if number == _ARRAY:
        data, shape, dtype = parts
        return np.frombuffer(data, _dtype(dtype)).reshape(shape).copy()
    if number == _DTYPE:
        return _dtype(parts[0])
    kind = _RECORDS[number]
    values = [_decoded(part, cache) if type(part) is tuple else part for part in parts]
    if kind is Launch:
        _place(values)
    return kind(*values)


def _dtype(name: str) -> np.dtype[Any]:
    return ShapedArray.from_short(name).dtype


def _place(values: list[Any]) -> None:
    """Put the addresses that machine code has in this process into the fields of a launch."""
    owner: LaunchCode = values[_OWNER]
    try:
        values[_FUNCTION] = owner.kernel.address
        if owner.calls:
            params = list(values[_PARAMS])
            for place, code in owner.calls:
                params[place] = code.address
            values[_PARAMS] = tuple(params)
    except LookupError:  # a library that this process has not
        raise _UnknownError from None
