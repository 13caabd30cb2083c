"""Plain C functions, by their address: of ctypes, of numba, of any shared library.

What is called is ``void f(arguments...)``, where an argument is the address of an array, an integer
or a floating-point number, in the order that ``arguments`` gives; or ``int f(arguments...)``, where
0 says that all went well.  Addresses and integers are passed in 64 bits, which is how C passes
narrower integers too, and numbers as ``double``, or as ``float`` where they are ``np.float32``.

Start at :func:`c_function`.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from functrax.core.errors.typed import ArgumentError, DTypeError
from functrax.core.foreign import targets
from functrax.core.foreign.targets import Check, ForeignTarget, Placed
from functrax.core.types.aval import ShapedArray
from functrax.ffi.calling import ffi_call
from functrax.ffi.registration import address_of
from functrax.ffi.rules import types_of, with_rules

_numbers: Final = itertools.count(1)
_INTEGERS: Final = (
    *(ctypes.c_bool, ctypes.c_int8, ctypes.c_int16, ctypes.c_int32, ctypes.c_int64),
    *(ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64),
    *(ctypes.c_long, ctypes.c_longlong, ctypes.c_ulong, ctypes.c_ulonglong),
)


def c_function(
    function: Any,
    results: Any,
    *,
    arguments: Callable[..., Sequence[Any]] | None = None,
    status: bool = False,
    name: str | None = None,
    has_side_effect: bool = False,
    jvp: Callable[..., Any] | None = None,
    vjp: Callable[..., Any] | None = None,
    vmap: str | Callable[..., Any] | None = "sequential",
) -> Callable[..., Any]:
    """A C function as a function of arrays, which programs call without Python.

    Args:
      function: numba's ``@cfunc``, a function of ``ctypes.CDLL``, a capsule, or an address.  What
        it belongs to is kept.  Where it knows the types of its arguments (``argtypes``), they are
        compared with those of the arrays.
      results: the type of the result (``functrax.ShapeDtypeStruct``), a tuple of types, or a
        function of the operands' types, and of the attributes by name, that gives these.
      arguments: a function of the operands, then of the results, and of the attributes by name,
        that gives the arguments of the C function in its order: an operand or a result stands for
        its address, and has ``shape``, ``dtype``, ``ndim`` and ``size``; ints and floats are
        themselves.  Left out, they are the operands, the results, and the number of elements of
        the first result.
      status: whether it returns an ``int``, which is 0 unless it failed.
      name: by which programs call it; one of its own if left out.
      has_side_effect: whether it is called even if nobody uses its results.
      jvp: ``(operands, tangents, **attributes) -> (result, tangent of the result)``.
      vjp: ``(operands, results, cotangents, **attributes) -> cotangents of the operands``.
      vmap: what ``vmap`` does: a ``vmap_method`` of :func:`functrax.ffi.ffi_call`, or
        ``(size, batched, *operands, **attributes) -> (results, whether they are batched)``.

    Returns:
      A function of arrays, and of attributes by name.

    Raises:
      ArgumentError: ``function`` is none; when it is called: the arguments do not fit it.
      DTypeError: when it is called: an array's elements are not those of the C function's type.

    Example:
      >>> import ctypes, functrax, functrax.numpy as jnp
      >>> libc = ctypes.CDLL(None)
      >>> first = functrax.ffi.c_function(
      ...     libc.memcpy, lambda x: functrax.ShapeDtypeStruct((2,), x.dtype),
      ...     arguments=lambda x, out: (out, x, 2 * x.dtype.itemsize))
      >>> functrax.jit(first)(jnp.arange(4.0))
      Array([0., 1.], dtype=float32)
    """
    address = address_of(function, "c_function")
    typed = getattr(function, "ctypes", function)  # numba's cfunc has a function of ctypes
    argtypes = getattr(typed, "argtypes", None)
    plain = getattr(function, "__name__", None) or "function"
    target = name or f"{plain}#{next(_numbers)}"
    order = arguments or _all_and_size

    def ordered(
        operands: Sequence[Placed], outs: Sequence[Placed], attributes: dict[str, Any]
    ) -> Sequence[Any]:
        return order(*operands, *outs, **attributes)

    check = None if argtypes is None else _checking(target, ordered, list(argtypes))
    stages = (0, 0, 0, address)
    made = ForeignTarget(target, "cpu", "plain", stages, function, ordered, bool(status), check)
    targets.register(made, "c_function")

    def call(args: Sequence[Any], named: dict[str, Any], method: str | None) -> Any:
        out = results(*types_of(args, target), **named) if callable(results) else results
        given = ffi_call(target, out, has_side_effect=has_side_effect, vmap_method=method)
        return given(*args, **named)

    return with_rules("c_function", target, call, jvp, vjp, vmap)


def _all_and_size(*arrays: Placed, **attributes: Any) -> Sequence[Any]:
    if attributes:
        raise ArgumentError(
            "c_function: attributes go where arguments= puts them",
            got=", ".join(attributes),
            fix="arguments=lambda x, out, a: (x, out, x.size, a)",
        )
    return *arrays, arrays[-1].size


def _checking(target: str, ordered: Callable[..., Sequence[Any]], argtypes: list[Any]) -> Check:
    """What compares arrays and numbers with the types of a C function's arguments."""

    def check(
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        attributes: dict[str, Any],
    ) -> None:
        placed = [Placed(k, a) for k, a in enumerate((*in_avals, *out_avals))]
        given = list(
            ordered(placed[: len(in_avals)], placed[len(in_avals) :], attributes),
        )
        if len(given) != len(argtypes):
            raise ArgumentError(
                f"c_function: {target} takes another number of arguments",
                got=f"{len(given)}, where its argtypes are {len(argtypes)}",
                fix="arguments=lambda x, out: (...), in the order of the C function",
            )
        for k, (x, wanted) in enumerate(zip(given, argtypes, strict=True)):
            _check_argument(target, k, x, wanted)

    return check


def _check_argument(target: str, number: int, x: Any, wanted: Any) -> None:
    if isinstance(x, Placed):
        element = getattr(wanted, "_type_", None) if wanted is not ctypes.c_void_p else None
        element = getattr(wanted, "_dtype_", element)  # of numpy.ctypeslib.ndpointer
        pointer = wanted is ctypes.c_void_p or (
            element is not None and not isinstance(element, str)
        )
        if not pointer:
            raise _wrong_type(target, number, f"an array {x.aval.str_short()}", wanted)
        if element is None or element is ctypes.c_void_p:
            return
        dtype = np.dtype(element)
        if dtype != x.dtype:
            raise DTypeError(
                f"c_function: argument {number} of {target} points to other elements",
                got=f"{x.aval.str_short()} for {dtype.name}",
                fix=f"convert with .astype({dtype.name!r})",
            )
    elif isinstance(x, float | np.floating):
        if wanted is not (ctypes.c_float if isinstance(x, np.float32) else ctypes.c_double):
            raise _wrong_type(target, number, f"{x!r} of type {type(x).__name__}", wanted)
    elif wanted not in _INTEGERS:
        raise _wrong_type(target, number, f"{x!r} of type {type(x).__name__}", wanted)


def _wrong_type(target: str, number: int, got: str, wanted: Any) -> ArgumentError:
    return ArgumentError(
        f"c_function: argument {number} of {target} is of another type",
        got=f"{got} for {getattr(wanted, '__name__', wanted)}",
        fix="arrays for pointers, ints for integers, floats for double, np.float32(x) for float",
    )
