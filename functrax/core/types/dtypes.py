"""Element types: which there are, how a user may name them, and what each is in relation to others.

What enters is anything that names a dtype (``"float32"``, ``np.float32``, ``float``, a dtype);
what leaves is one of the ``np.dtype`` constants below, so that inside functrax dtypes are compared
as they are. bfloat16 and the numbers of at most 8 bits are types of ``ml_dtypes``; NumPy does not
know that they are floats and integers, hence this module's own :func:`issubdtype`, :func:`finfo`,
:func:`iinfo` and predicates. Integers narrower than a byte, and floats of at most a byte, are
*stored* dtypes: arrays hold and move them, and operations compute in :func:`compute_dtype`
(``core/tracing/stored_dtypes.py``).
``float0`` is the dtype of the tangents of integers and booleans: it has no bits, and only zeros.

Start at :func:`as_dtype` and :func:`canonicalize_dtype`.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeAlias

import ml_dtypes
import numpy as np

from functrax.core.errors.typed import DTypeError, HandleError
from functrax.core.options.config import state

DType: TypeAlias = "np.dtype[Any]"

bool_: Final[DType] = np.dtype(np.bool_)
int8: Final[DType] = np.dtype(np.int8)
int16: Final[DType] = np.dtype(np.int16)
int32: Final[DType] = np.dtype(np.int32)
int64: Final[DType] = np.dtype(np.int64)
uint8: Final[DType] = np.dtype(np.uint8)
uint16: Final[DType] = np.dtype(np.uint16)
uint32: Final[DType] = np.dtype(np.uint32)
uint64: Final[DType] = np.dtype(np.uint64)
float16: Final[DType] = np.dtype(np.float16)
bfloat16: Final[DType] = np.dtype(ml_dtypes.bfloat16)
float32: Final[DType] = np.dtype(np.float32)
float64: Final[DType] = np.dtype(np.float64)
complex64: Final[DType] = np.dtype(np.complex64)
complex128: Final[DType] = np.dtype(np.complex128)
float0: Final[DType] = np.dtype([("float0", np.void, 0)])


def _of_ml_dtypes(*names: str) -> tuple[DType, ...]:
    """The dtypes of these names that the installed ml_dtypes has (int1 and uint1 are of 0.6)."""
    return tuple([np.dtype(getattr(ml_dtypes, n)) for n in names if hasattr(ml_dtypes, n)])


STORED_FLOATS: Final = frozenset(
    _of_ml_dtypes(
        *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
        *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
        *("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
    )
)
_STORED_SIGNED: Final = frozenset(_of_ml_dtypes("int1", "int2", "int4"))
_STORED_UNSIGNED: Final = frozenset(_of_ml_dtypes("uint1", "uint2", "uint4"))
STORED_INTEGERS: Final = _STORED_SIGNED | _STORED_UNSIGNED
STORED: Final = STORED_FLOATS | STORED_INTEGERS  # what arrays hold, and nothing computes with

BOOL: Final[frozenset[DType]] = frozenset({bool_})
SIGNED: Final[frozenset[DType]] = frozenset({int8, int16, int32, int64}) | _STORED_SIGNED
UNSIGNED: Final[frozenset[DType]] = frozenset({uint8, uint16, uint32, uint64}) | _STORED_UNSIGNED
INTEGER: Final[frozenset[DType]] = SIGNED | UNSIGNED
FLOATING: Final[frozenset[DType]] = frozenset({float16, bfloat16, float32, float64}) | STORED_FLOATS
HALF: Final[frozenset[DType]] = frozenset({float16, bfloat16})  # added up in float32
NARROW: Final[frozenset[DType]] = HALF | STORED_FLOATS  # floats of fewer than 32 bits
COMPLEX: Final[frozenset[DType]] = frozenset({complex64, complex128})
INEXACT: Final[frozenset[DType]] = FLOATING | COMPLEX
NUMERIC: Final[frozenset[DType]] = INTEGER | INEXACT
ALL: Final[frozenset[DType]] = BOOL | NUMERIC  # what an array can hold; float0 only zeros can
SCALAR: Final[frozenset[DType]] = ALL - STORED - COMPLEX  # what kernels compute with

_NAMED: Final[dict[str, DType]] = {
    d.name: d
    for d in (
        *(bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64),
        *(float16, bfloat16, float32, float64, complex64, complex128),
        *sorted(STORED, key=str),
    )
} | {"float0": float0}
_NARROWED: Final[dict[DType, DType]] = {
    int64: int32,
    uint64: uint32,
    float64: float32,
    complex128: complex64,
}
_NUMPY_KINDS: Final[dict[Any, frozenset[DType]]] = {
    np.floating: FLOATING,
    np.inexact: INEXACT,
    np.number: NUMERIC,
    np.integer: INTEGER,
    np.signedinteger: SIGNED,
    np.unsignedinteger: UNSIGNED,
}
_ABSTRACT: Final[frozenset[Any]] = frozenset(
    {np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger}
    | {np.inexact, np.floating, np.complexfloating, np.flexible, np.character}
)
# ml_dtypes has no annotations for it
_finfo: Final[Any] = ml_dtypes.finfo
_iinfo: Final[Any] = ml_dtypes.iinfo

# Specs seen before, except Python's own types, whose width depends on the x64 switch.
_known: dict[Any, DType] = {}


class SupportsDType(Protocol):
    """Something that has a dtype."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""


#: What names a dtype: a string, a scalar type, a dtype, something with one.
DTypeLike: TypeAlias = str | type[Any] | np.dtype | SupportsDType


def as_dtype(spec: Any) -> DType:
    """The dtype that ``spec`` names, not narrowed by the x64 switch.

    Args:
      spec: a dtype, its name (``"bfloat16"``, ``"f4"``), a NumPy scalar type, a scalar type of
        ``functrax.numpy``, or one of Python's ``bool``, ``int``, ``float``, ``complex``, which
        mean the default width: 32 bits (64 for ``complex``), twice that when x64 is on.

    Raises:
      DTypeError: for anything else, among it ``None``, arrays, strings and objects.

    >>> as_dtype("bfloat16"), as_dtype(float)
    (dtype(bfloat16), dtype('float32'))
    """
    try:
        found = _known.get(spec)
    except TypeError:
        found = None
    if found is not None:
        return found
    if spec is bool or spec is int or spec is float or spec is complex:
        return _default_of(spec)
    dtype = _work_out(spec)
    if isinstance(spec, (np.dtype, str, type)):
        _known[spec] = dtype
    return dtype


def _default_of(python_type: type) -> DType:
    if python_type is bool:
        return bool_
    if python_type is int:
        return default_int()
    return default_float() if python_type is float else default_complex()


def _work_out(spec: Any) -> DType:
    if spec is None:
        raise _unsupported(spec, "None")
    if isinstance(spec, np.dtype):
        dtype = spec
    elif isinstance(getattr(spec, "dtype", None), np.dtype):
        if hasattr(spec, "shape") and not isinstance(spec, type):
            raise DTypeError(
                "dtype: an array is not one",
                got=f"{type(spec).__name__} of dtype {spec.dtype}",
                fix="pass its .dtype",
            )
        dtype = spec.dtype
    elif isinstance(spec, str) and spec in _NAMED:
        return _NAMED[spec]
    elif isinstance(spec, type) and spec in _ABSTRACT:
        raise _unsupported(spec, repr(spec))  # NumPy 2.2 takes it, with a warning
    else:
        try:
            dtype = np.dtype(spec)
        except (TypeError, ValueError, SyntaxError):
            raise _unsupported(spec, repr(spec)) from None
    if dtype == float0:
        return float0
    found = _NAMED.get(dtype.name)
    if found is None:
        raise _unsupported(spec, repr(spec))
    return found


def _unsupported(spec: Any, shown: str) -> DTypeError:
    kind = "" if spec is None or isinstance(spec, type) else f" ({type(spec).__name__})"
    names = [name for name in _NAMED if name != "float0"]
    near: list[str] = []
    if isinstance(spec, str):
        import difflib  # for errors only

        near = difflib.get_close_matches(spec, names, 1)
    # The dtype of keys: where the array is one of keys, there is a rule for it.
    kind_of_error = HandleError if getattr(spec, "type", None) is prng_key else DTypeError
    return kind_of_error(
        "dtype: not one that arrays can have",
        got=shown + kind,
        fix=near[0] if near else "one of " + ", ".join(names),
    )


def canonicalize_dtype(dtype: DType) -> DType:
    """The dtype that arrays get for ``dtype``: its 32-bit relative while x64 is off.

    >>> canonicalize_dtype(float64)
    dtype('float32')
    """
    return dtype if state.enable_x64 else _NARROWED.get(dtype, dtype)


def follows_x64(dtype: DType) -> bool:
    """Whether arrays get ``dtype`` as it is only while x64 is on."""
    return dtype in _NARROWED


def compute_dtype(dtype: DType) -> DType:
    """The dtype that operations compute in: float32, int8 or uint8 for a stored one, else itself.

    >>> compute_dtype(np.dtype(ml_dtypes.float8_e4m3fn)), compute_dtype(int16)
    (dtype('float32'), dtype('int16'))
    """
    if dtype not in STORED:
        return dtype
    if dtype in STORED_FLOATS:
        return float32
    return int8 if dtype in _STORED_SIGNED else uint8


_MOST_OF_INT32: Final = 2**31 - 1


def default_int() -> DType:
    """int32, or int64 when x64 is on."""
    return int64 if state.enable_x64 else int32


def position_dtype(size: int) -> DType:
    """The dtype of positions along ``size`` elements, which holds ``size`` itself, too.

    int32 where that is enough, also when x64 is on.

    >>> position_dtype(2**31 - 1), position_dtype(2**31)
    (dtype('int32'), dtype('int64'))
    """
    return int32 if size <= _MOST_OF_INT32 else int64


def default_float() -> DType:
    """float32, or float64 when x64 is on."""
    return float64 if state.enable_x64 else float32


def default_complex() -> DType:
    """complex64, or complex128 when x64 is on."""
    return complex128 if state.enable_x64 else complex64


def is_bool(dtype: DType) -> bool:
    """Whether ``dtype`` is the boolean dtype."""
    return dtype in BOOL


def is_integer(dtype: DType) -> bool:
    """Whether ``dtype`` is a signed or unsigned integer (booleans are not)."""
    return dtype in INTEGER


def is_float(dtype: DType) -> bool:
    """Whether ``dtype`` is a real floating point dtype, bfloat16 among them (float0 is not)."""
    return dtype in FLOATING


def is_complex(dtype: DType) -> bool:
    """Whether ``dtype`` is complex."""
    return dtype in COMPLEX


def is_inexact(dtype: DType) -> bool:
    """Whether ``dtype`` is floating point or complex: the dtypes that can be differentiated."""
    return dtype in INEXACT


def tangent_dtype(dtype: DType) -> DType:
    """The dtype of tangents of values of ``dtype``: itself if inexact, else float0."""
    return dtype if dtype in INEXACT else float0


def real_dtype(dtype: DType) -> DType:
    """The dtype of the real part: float32 for complex64; any other dtype itself."""
    if dtype not in COMPLEX:
        return dtype
    return float32 if dtype == complex64 else float64


def complex_dtype(dtype: DType) -> DType:
    """The dtype of complex numbers with parts of ``dtype``, which is float32 or float64."""
    return complex64 if dtype == float32 else complex128


def parts_of(dtype: DType) -> tuple[DType, ...]:
    """The dtypes of the real numbers that one of ``dtype`` is made of: itself, or two floats."""
    return (real_dtype(dtype),) * 2 if dtype in COMPLEX else (dtype,)


class extended(np.generic):  # noqa: N801  # an abstract type of elements, as np.number
    """The kind of dtypes that NumPy does not have; a dtype says by its ``type`` that it is one."""


class prng_key(extended):  # noqa: N801
    """The kind of the dtype of typed random keys."""


def issubdtype(dtype: Any, kind: Any) -> bool:
    """``np.issubdtype`` that knows the dtypes of ml_dtypes under NumPy's abstract types.

    Args:
      dtype: a dtype, its name, or a scalar type.
      kind: an abstract type such as ``np.floating``, or another dtype.

    Returns:
      A bool; dtypes of random keys are under ``prng_key`` and ``extended``, and under nothing of
      NumPy's.

    Raises:
      DTypeError: if one of them names no dtype.

    >>> issubdtype(bfloat16, np.floating)
    True
    """
    element = dtype if isinstance(dtype, type) else getattr(dtype, "type", None)
    if isinstance(element, type) and issubclass(element, extended):
        return isinstance(kind, type) and issubclass(element, kind)
    if isinstance(kind, type) and issubclass(kind, extended):
        return False
    if isinstance(dtype, type) and dtype in _ABSTRACT:
        return kind in _ABSTRACT and issubclass(dtype, kind)
    exact = _numpy_meaning(dtype)
    if not isinstance(kind, type) or kind not in _ABSTRACT:
        return exact == _numpy_meaning(kind)
    known = _NUMPY_KINDS.get(kind)
    return exact in known if known is not None else issubclass(exact.type, kind)


def _numpy_meaning(spec: Any) -> DType:
    """``np.dtype(spec)``, for any dtype of NumPy's, where Python's ``float`` is float64."""
    try:
        return _NAMED[spec] if isinstance(spec, str) and spec in _NAMED else np.dtype(spec)
    except TypeError:
        return as_dtype(spec)


def _own_dtype(x: Any) -> DType:
    """The dtype of an array, or the one that is given."""
    own = getattr(x, "dtype", None)
    return as_dtype(own if isinstance(own, np.dtype) else x)


def finfo(dtype: DTypeLike) -> np.finfo[Any]:
    """Limits of a floating point dtype (of its parts, for a complex one), as ``np.finfo``.

    Args:
      dtype: a dtype, or an array of it.

    Returns:
      An object with ``eps``, ``max``, ``min``, ``tiny``, ``bits`` and others, as NumPy's.

    Raises:
      DTypeError: if ``dtype`` is not inexact.

    Example:
      >>> float(finfo("bfloat16").eps)
      0.0078125
    """
    exact = _own_dtype(dtype)
    if exact not in INEXACT:
        raise DTypeError(
            "finfo: takes floating point and complex dtypes",
            got=exact.name,
            fix="iinfo, for integers",
        )
    return _finfo(real_dtype(exact))  # type: ignore[no-any-return]


def iinfo(dtype: DTypeLike) -> np.iinfo[Any]:
    """Limits of an integer dtype, as ``np.iinfo``.

    Args:
      dtype: a dtype, or an array of it.

    Returns:
      An object with ``min``, ``max`` and ``bits``, as NumPy's.

    Raises:
      DTypeError: if ``dtype`` is not an integer dtype.

    Example:
      >>> int(iinfo("uint8").max)
      255
    """
    exact = _own_dtype(dtype)
    if exact not in INTEGER:
        raise DTypeError(
            "iinfo: takes integer dtypes",
            got=exact.name,
            fix="finfo, for floating point" if exact in INEXACT else "",
        )
    return _iinfo(exact) if exact in STORED else np.iinfo(exact)


def itemsize_bits(dtype: DType) -> int:
    """Bits of one element: 8 for booleans, 4 for int4 (which takes a byte), 0 for float0."""
    if dtype in STORED_INTEGERS:
        return int(_iinfo(dtype).bits)
    return int(_finfo(dtype).bits) if dtype in STORED_FLOATS else 8 * dtype.itemsize


def scalar_type_of(dtype: DType) -> type[bool | int | float | complex]:
    """The Python type of one element: bool, int, float or complex.

    Raises:
      DTypeError: for float0, which has no values of its own.
    """
    if dtype in FLOATING:
        return float
    if dtype in INTEGER:
        return int
    if dtype in COMPLEX:
        return complex
    if dtype in BOOL:
        return bool
    raise DTypeError(
        "scalar_type_of: no Python type has its values",
        got=str(dtype),
        fix="a dtype of numbers or truth values",
    )
