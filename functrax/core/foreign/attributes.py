"""Attributes of calls: numbers, arrays of numbers, texts, and dictionaries of these, by name.

Python values enter; what programs hold leaves, which prints and parses: a number is a
:class:`~functrax.core.ir.jaxpr.Literal`, a text is a ``str``, an array is ``("array", dtype, hex of
its bytes)``, a dictionary ``("dictionary", ((name, value), ...))``.  Types are JAX's: Python's
integers and floats have 64 bits, those of NumPy the bits that they have, whatever ``enable_x64``
says; lists are arrays.

Start at :func:`normal`; :func:`described` is what the runtime gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from functrax.core.errors.typed import ArgumentError
from functrax.core.foreign.element_types import code_of
from functrax.core.ir.jaxpr import Literal
from functrax.core.types.aval import ShapedArray

#: Names with values, sorted by name.
Attributes: TypeAlias = tuple[tuple[str, Any], ...]

ARRAY, DICTIONARY, SCALAR, STRING = 1, 2, 3, 4
_PYTHON: Final = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}


def normal(what: str, given: Mapping[str, Any]) -> Attributes:
    """Attributes as programs hold them.

    Args:
      what: the function that they are given to.
      given: values by name.

    Raises:
      ArgumentError: for a value that no attribute can have.
    """
    return tuple([(name, _value(what, name, given[name])) for name in sorted(given)])


def _value(what: str, name: str, value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, Mapping):
        return "dictionary", normal(what, value)
    if type(value) in _PYTHON:
        try:
            value = _PYTHON[type(value)](value)
        except OverflowError:
            raise _error(what, name, value) from None
    if isinstance(value, np.generic):
        code_of(value.dtype, what)
        return Literal(value, ShapedArray((), value.dtype))
    if isinstance(value, list | tuple):
        kinds = {type(x) for x in value}
        kind = next(iter(kinds), int)
        if len(kinds) > 1 or not (kind in _PYTHON or issubclass(kind, np.generic)):
            raise _error(what, name, value)
        value = np.array(value, _PYTHON.get(kind, kind))
    if not isinstance(value, np.ndarray):
        raise _error(what, name, value)
    code_of(value.dtype, what)
    return "array", value.dtype, value.tobytes().hex()


def _error(what: str, name: str, value: Any) -> ArgumentError:
    return ArgumentError(
        f"{what}: an attribute is a number, a text, an array of NumPy, a list of numbers of one "
        "type, or a dictionary of these",
        got=f"{name}={value!r} of type {type(value).__name__}",
        fix="arrays of functrax are operands; np.float32(x) is a number of 32 bits",
    )


def described(attributes: Attributes, what: str) -> tuple[Any, ...]:
    """Attributes as the runtime takes them: see ``Attributes`` in ``native/foreign.cpp``."""
    return tuple([_described(name, value, what) for name, value in attributes])


def _described(name: str, value: Any, what: str) -> tuple[Any, ...]:
    if isinstance(value, Literal):
        return name, SCALAR, code_of(value.aval.dtype, what), 1, np.asarray(value.val).tobytes()
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogateescape")
        return name, STRING, 0, len(data), data
    if value[0] == "dictionary":
        return name, DICTIONARY, described(value[1], what)
    _, dtype, text = value
    data = bytes.fromhex(text)
    return name, ARRAY, code_of(dtype, what), len(data) // dtype.itemsize, data


def plain(attributes: Attributes) -> dict[str, Any]:
    """Attributes as values of Python and NumPy again."""

    def of(value: Any) -> Any:
        if isinstance(value, Literal):
            return value.val
        if isinstance(value, str):
            return value
        if value[0] == "dictionary":
            return plain(value[1])
        return np.frombuffer(bytes.fromhex(value[2]), value[1])

    return {name: of(value) for name, value in attributes}
