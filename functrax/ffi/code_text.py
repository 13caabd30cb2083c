"""The handler around a piece of C or C++: named arrays, attributes and counts for its text.

A :class:`CodeForm` enters, which has names and types without sizes; the text of a handler of
``functrax/ffi.h`` leaves, whose function is :data:`SYMBOL`.

Start at :func:`handler_text`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from functrax.core.foreign.element_types import code_of
from functrax.core.records import record
from functrax.core.types.dtypes import DType

SYMBOL: Final = "functrax_code"

_C: Final = {
    "bool": "bool",
    **{f"{u}int{n}": f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)},
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
}
_COMPLEX: Final = {"complex64": "float", "complex128": "double"}
_C_HEAD: Final = """#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <functrax/ffi.h>
"""
_CPP_HEAD: Final = """#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functrax/ffi.h>
"""


@record
class ArrayForm:
    """An array by its name, without its sizes.

    Args:
      name: in the text.
      dtype: of its elements.
      rank: how many axes it has; -1 if the text is not to depend on it.
      is_bounded: of a result, whether it has a count of the rows that there are.
    """

    name: str
    dtype: DType
    rank: int
    is_bounded: bool = False


@record
class CodeForm:
    """What a piece of code is compiled for.

    Args:
      language: ``"c"`` or ``"c++"``.
      headers: text in front of its function.
      body: text inside of it.
      title: what compilers call the text.
      operands: the arrays that it reads.
      results: the arrays that it fills.
      attributes: of names, what they are: ``str``, a dtype, or a dtype in a tuple for arrays.
    """

    language: str
    headers: str
    body: str
    title: str
    operands: tuple[ArrayForm, ...]
    results: tuple[ArrayForm, ...]
    attributes: tuple[tuple[str, Any], ...]


def c_type(dtype: DType, language: str) -> str:
    """The type of elements; floats of 16 bits and fewer are the integers of their bits."""
    if dtype.name in _COMPLEX:
        part = _COMPLEX[dtype.name]
        return f"{part} _Complex" if language == "c" else f"std::complex<{part}>"
    return _C.get(dtype.name, "uint8_t")


def handler_text(form: CodeForm) -> str:
    """The text of the handler."""
    is_c = form.language == "c"
    only = "restrict" if is_c else "__restrict__"
    declared, given, fetched, after = [], [], [], []
    for kind, arrays in (("argument", form.operands), ("result", form.results)):
        number = 0
        for x in arrays:
            element = c_type(x.dtype, form.language)
            const = "const " if kind == "argument" else ""
            fetched += _fetched(x, kind, number, const + element)
            declared += [f"{const}{element}* {only} {x.name}", f"const int64_t* {x.name}_shape"]
            declared += [f"int64_t {x.name}_ndim", f"int64_t {x.name}_size"]
            given += [x.name, f"{x.name}_shape", f"{x.name}_ndim", f"{x.name}_size"]
            number += 1
            if x.is_bounded:
                fetched.append(f"  int64_t {x.name}_count = {x.name}_shape[0];")
                declared.append(f"int64_t* {x.name}_count")
                given.append(f"&{x.name}_count")
                after += _cut(x, number)
                number += 1
    for name, kind in form.attributes:
        types, names, lines = _attribute(name, kind, form.language)
        declared += [f"{t} {n}" for t, n in zip(types, names, strict=True)]
        given += names
        fetched += lines
    frame = "const functrax_ffi_frame* functrax_frame"
    unused = " ".join(f"(void){part.split()[-1].lstrip('*')};" for part in declared)
    head = _C_HEAD if is_c else _CPP_HEAD
    accesses = "".join(_access(x) for x in (*form.operands, *form.results))
    linkage = "" if is_c else 'extern "C" '
    lines = [
        f"{head}{form.headers}",
        f"{accesses}#define FAIL(message) \\",
        "  return functrax_ffi_fail(functrax_frame, FUNCTRAX_FFI_INTERNAL, message)",
        f"static functrax_ffi_error* functrax_body({', '.join([frame, *declared])}) {{",
        f"  (void)functrax_frame; {unused}",
        f'#line 1 "{form.title}"',
        form.body,
        '#line 1 "functrax"',
        "  return NULL;",
        "}",
        f"{linkage}functrax_ffi_error* {SYMBOL}(functrax_ffi_frame* functrax_frame) {{",
        "  functrax_ffi_error* functrax_error = NULL;",
        "  if (functrax_ffi_wants_metadata(functrax_frame)) {",
        "    return functrax_ffi_metadata(functrax_frame);",
        "  }",
        *fetched,
        *_guarded(
            f"functrax_error = functrax_body({', '.join(['functrax_frame', *given])});", is_c
        ),
        "  if (functrax_error) return functrax_error;",
        *after,
        "  return NULL;",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _guarded(statement: str, is_c: bool) -> list[str]:
    """A statement whose exceptions are errors."""
    if is_c:
        return [f"  {statement}"]
    return [
        f"  try {{ {statement} }}",
        "  catch (const std::exception& functrax_exception) {",
        "    FAIL(functrax_exception.what());",
        "  }",
    ]


def _fetched(x: ArrayForm, kind: str, number: int, element: str) -> list[str]:
    """The variables of an array, found in the frame."""
    buffer = f"{x.name}_functrax"
    found = f"functrax_ffi_{kind}_buffer(functrax_frame, {number})"
    return [
        f"  const functrax_ffi_buffer* {buffer} = {found};",
        f"  {element}* {x.name} = ({element}*){buffer}->data;",
        f"  const int64_t* {x.name}_shape = {buffer}->dims;",
        f"  const int64_t {x.name}_ndim = {buffer}->rank;",
        f"  const int64_t {x.name}_size = functrax_ffi_elements({buffer});",
    ]


def _access(x: ArrayForm) -> str:
    """The macro that gives an element by its indices."""
    if x.rank < 0:
        return ""
    names = [f"i{k}" for k in range(x.rank)]
    place = f"({names[0]})" if names else "0"
    for k in range(1, x.rank):
        place = f"({place} * {x.name}_shape[{k}] + ({names[k]}))"
    return f"#define {x.name}_at({', '.join(names)}) {x.name}[{place}]\n"


def _cut(x: ArrayForm, number: int) -> list[str]:
    """What checks a count, writes it down, and clears the rows behind it."""
    count, rows = f"{x.name}_count", f"{x.name}_shape[0]"
    return [
        f"  if ({count} < 0 || {count} > {rows}) {{",
        f'    FAIL("{count} is not between 0 and the bound, {rows}");',
        "  }",
        f"  if ({count} < {rows}) {{",
        f"    const int64_t functrax_row = {x.name}_size / {rows};",
        f"    memset({x.name} + {count} * functrax_row, 0,",
        f"           (size_t)(({rows} - {count}) * functrax_row) * sizeof *{x.name});",
        "  }",
        f"  *(int32_t*)functrax_ffi_result_buffer(functrax_frame, {number})->data = "
        f"(int32_t){count};",
    ]


def _attribute(name: str, kind: Any, language: str) -> tuple[list[str], list[str], list[str]]:
    """The types, the names and the lines of an attribute's variables."""
    value, error = f"{name}_functrax", "if (functrax_error) return functrax_error;"
    if kind is str or isinstance(kind, tuple):
        is_text = kind is str
        what = "STRING" if is_text else "ARRAY"
        type_ = c_type(kind[0], language) if isinstance(kind, tuple) else "char"
        form = f"functrax_ffi_{what.lower()}"
        lines = [
            f"  const void* {value} = NULL;",
            f'  functrax_error = functrax_ffi_attribute(functrax_frame, "{name}",',
            f"                                          FUNCTRAX_FFI_ATTRIBUTE_{what}, &{value});",
            f"  {error}",
            f"  const {type_}* {name} = (const {type_}*)((const {form}*){value})->data;",
            f"  const int64_t {name}_size = (int64_t)((const {form}*){value})->size;",
        ]
        return [f"const {type_}*", "int64_t"], [name, f"{name}_size"], lines
    type_ = c_type(kind, language)
    code = code_of(np.dtype(kind), "code")
    lines = [
        f"  {type_} {name} = 0;",
        f'  functrax_error = functrax_ffi_number(functrax_frame, "{name}", {code}, &{name},',
        f"                                       sizeof {name});",
        f"  {error}",
    ]
    return [type_], [name], lines
