"""Arguments and results as C has them: names, types, sizes.

What a program's inputs and results are called in Python (``params['w'][0]``) enters; records leave
with names that C and C++ take.

Start at :class:`CArgument`.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from functrax.core.errors.typed import ArgumentError
from functrax.core.records import record
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.symbolic_sizes import is_symbolic_dim

#: Types of C whose elements dtypes are.  Floats that C has no type for are given as their bits, and
#: integers of fewer than eight bits as the low bits of a byte, as NumPy has them.
_TYPES: Final = {
    "bool": "uint8_t",
    "float16": "functrax_float16",
    "bfloat16": "functrax_bfloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "functrax_complex64",
    "complex128": "functrax_complex128",
    **{f"{u}int{n}": f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)},
}
_WORDS: Final = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t
char32_t char8_t class co_await co_return co_yield compl concept const const_cast consteval
constexpr constinit continue decltype default delete do double dynamic_cast else enum
explicit export extern false float for friend goto if inline int long mutable namespace new
noexcept not not_eq nullptr operator or or_eq private protected public register
reinterpret_cast requires restrict return short signed sizeof static static_assert
static_cast struct switch template this thread_local throw true try typedef typeid typename
typeof union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
#: Of C and of C++, and what their headers define.
_KEYWORDS: Final = frozenset((*_WORDS.split(), "NULL"))
#: Names that every function has beside its arguments.
_OWN: Final = ("workspace", "threads", "sizes")


@record
class CArgument:
    """An argument or a result.

    Args:
      name: in C.
      path: in Python, for people.
      shape: its shape; it lies dense and row-major.  Sizes may have names instead of values.
      dtype: its dtype.
      shares: of a result, the number of the argument whose memory it may have; -1 if there is none.
    """

    name: str
    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    shares: int = -1

    @property
    def c_type(self) -> str:
        """The type of its elements in C."""
        return _TYPES.get(self.dtype.name, "uint8_t" if self._is_unsigned else "int8_t")

    @property
    def _is_unsigned(self) -> bool:
        return self.dtype in dtypes.STORED_FLOATS or self.dtype in dtypes.UNSIGNED

    @property
    def is_sized(self) -> bool:
        """Whether sizes of it have names."""
        return any(map(is_symbolic_dim, self.shape))

    @property
    def elements(self) -> int:
        """How many elements it has, which follows from sizes where these have names."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return self.elements * self.dtype.itemsize

    @property
    def alignment(self) -> int:
        """What its address must be a multiple of."""
        return self.dtype.alignment

    @property
    def dtype_name(self) -> str:
        """Its dtype, as NumPy calls it; what has no values is ``float0``."""
        return "float0" if self.dtype == dtypes.float0 else self.dtype.name

    @property
    def type_text(self) -> str:
        """Its type, for people: ``f32[8,16]``."""
        return ShapedArray(self.shape, self.dtype).str_short()


def identifier(text: str) -> str:
    """A name of C for a name of Python: ``params_w_0`` for ``params['w'][0]``."""
    found = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "x"
    is_type = found.endswith("_t") or found.startswith("functrax_")
    return f"_{found}" if found[0].isdigit() or found in _KEYWORDS or is_type else found


def checked_name(name: str) -> str:
    """A name of a function of C.

    Raises:
      ArgumentError: it is none.
    """
    if identifier(name) != name:
        raise ArgumentError(
            "aot: the name of the program is the name of a function of C",
            got=repr(name),
            fix=f"name={identifier(name)!r}",
        )
    if hasattr(ctypes.CDLL(None), name):
        raise ArgumentError(
            "aot: the C library has a function of this name, which would be replaced",
            got=repr(name),
            fix=f"name={f'{name}_program'!r}",
        )
    return name


def named(paths: Iterable[str], taken: Sequence[str] = ()) -> list[str]:
    """Names for paths, each of its own and none of those that are taken."""
    used, found = {x.lower() for x in (*_OWN, *taken)}, list[str]()
    for path in paths:
        plain = name = identifier(path)
        number = 1
        while name.lower() in used:  # macros are of capitals
            number += 1
            name = f"{plain}_{number}"
        used.add(name.lower())
        found.append(name)
    return found
