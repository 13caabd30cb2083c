"""The operators of arrays: what ``x + y``, ``-x``, ``x < y``, ``x ** 2`` mean.

A binary operator takes arrays, NumPy arrays, scalars and objects with ``__jax_array__``; of other
things it gives ``NotImplemented``, so that the other operand's type may answer, but lists and
their kin it refuses, for Python would compare with them by identity.  ``methods.py`` installs them.

Start at :func:`operators`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from functrax.backends.eager.cached_traces import with_recipe
from functrax.core import native
from functrax.core.arrays.operators import Array
from functrax.core.boundaries.tracebacks import as_boundary
from functrax.core.errors.typed import DTypeError
from functrax.core.tracing.primitive import registry
from functrax.core.types import dtypes
from functrax.numpy import bits, logic, powers, rounding, ufuncs
from functrax.numpy.creation import astype
from functrax.numpy.filling import full

_TAKEN = (Array, int, float, complex, np.ndarray, np.generic)
_REFUSED = (list, tuple, dict, set)


def binary_operator(symbol: str, function: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """An operator and its reflected form."""

    def forward(self: Any, other: Any) -> Any:
        if isinstance(other, _TAKEN) or hasattr(other, "__jax_array__"):
            return function(self, other)
        return _not_taken(symbol, self, other)

    def reflected(self: Any, other: Any) -> Any:
        if isinstance(other, _TAKEN) or hasattr(other, "__jax_array__"):
            return function(other, self)
        return _not_taken(symbol, other, self)

    return as_boundary(forward), as_boundary(reflected)


def _not_taken(symbol: str, left: Any, right: Any) -> Any:
    names = [type(x).__name__ if type(x) in _REFUSED else "Array" for x in (left, right)]
    refused = next((name for name in names if name != "Array"), None)
    if refused is None:
        return NotImplemented
    raise DTypeError(
        f"unsupported operand type(s) for {symbol}: {names[0]!r} and {names[1]!r}",
        got=f"a {refused}",
        fix=f"functrax.numpy.array(...) around the {refused}",
    )


ARITHMETIC: Mapping[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "add": ("+", ufuncs.add),
    "sub": ("-", ufuncs.subtract),
    "mul": ("*", ufuncs.multiply),
    "truediv": ("/", ufuncs.divide),
    "floordiv": ("//", ufuncs.floor_divide),
    "mod": ("%", ufuncs.remainder),
    "divmod": ("divmod", ufuncs.divmod),
    "and": ("&", bits.bitwise_and),
    "or": ("|", bits.bitwise_or),
    "xor": ("^", bits.bitwise_xor),
    "lshift": ("<<", bits.left_shift),
    "rshift": (">>", bits.right_shift),
}


def _equality(function: Callable[[Any, Any], Any], are_equal: bool) -> Callable[[Any, Any], Any]:
    """``==`` or ``!=``; values of float0, which results of ``jit`` may be, are all equal."""

    def compare(x: Any, y: Any) -> Any:
        if x.aval.dtype != dtypes.float0 or getattr(y, "dtype", None) != dtypes.float0:
            return function(x, y)
        return full(np.broadcast_shapes(x.shape, y.shape), are_equal)

    return compare


COMPARISONS: Mapping[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "eq": ("==", _equality(logic.equal, True)),
    "ne": ("!=", _equality(logic.not_equal, False)),
    "lt": ("<", logic.less),
    "le": ("<=", logic.less_equal),
    "gt": (">", logic.greater),
    "ge": (">=", logic.greater_equal),
}


#: Of other bases integer exponents are looked at.
_power_of_inexact = with_recipe(powers.power)


def _power(self: Any, other: Any, modulus: None = None) -> Any:
    if isinstance(other, _TAKEN) or hasattr(other, "__jax_array__"):
        if self.aval.dtype in dtypes.INEXACT:
            return _power_of_inexact(self, other)
        return powers.power(self, other)
    return _not_taken("**", self, other)


def _reflected_power(self: Any, other: Any, modulus: None = None) -> Any:
    if isinstance(other, _TAKEN) or hasattr(other, "__jax_array__"):
        return (_power_of_inexact if type(other) is float else powers.power)(other, self)
    return _not_taken("**", other, self)


def _round(self: Any, ndigits: int | None = None) -> Any:
    if ndigits is not None:
        return rounding.round(self, ndigits)
    return astype(rounding.round(self), int)


#: The primitive that an operator is, in most cases, where its name is another.
_PRIMITIVES: Mapping[str, str] = {"truediv": "div"}


def _recorded(
    function: Callable[..., Any], name: str, reflected: bool = False
) -> Callable[..., Any]:
    """An operator that C++ records where it is one primitive on its operands as they are."""
    primitive = registry.get(_PRIMITIVES.get(name, name))
    if native.extension is None or primitive is None:
        return function
    otherwise = with_recipe(function)
    made: Callable[..., Any] = native.extension.EagerMethod(otherwise, primitive, reflected)
    return made


def operators() -> dict[str, Callable[..., Any]]:
    """Every operator of Python that arrays have, by the name of its special method."""
    table: dict[str, Callable[..., Any]] = {}
    for name, (symbol, function) in ARITHMETIC.items():
        forward, reflected = binary_operator(symbol, function)
        table[f"__{name}__"] = _recorded(forward, name)
        table[f"__r{name}__"] = _recorded(reflected, name, reflected=True)
    for name, (symbol, function) in COMPARISONS.items():
        table[f"__{name}__"] = _recorded(binary_operator(symbol, function)[0], name)
    table["__pow__"], table["__rpow__"] = _power, _reflected_power
    table["__neg__"] = with_recipe(as_boundary(ufuncs.negative))
    table["__pos__"] = ufuncs.positive
    table["__abs__"] = with_recipe(as_boundary(ufuncs.absolute))
    table["__invert__"] = with_recipe(as_boundary(bits.bitwise_not))
    table["__round__"] = _round
    return table
