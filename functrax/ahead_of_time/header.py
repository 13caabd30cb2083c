"""The header of C: what a program's functions take, and how large it is.

It stands alone: what all headers have in common is in each of them, behind a guard.

Start at :func:`header_text`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final

from functrax.ahead_of_time.arguments import CArgument
from functrax.ahead_of_time.entry import ERRORS, INDEX_SHIFT
from functrax.ahead_of_time.module import ObjectModule
from functrax.ahead_of_time.sizes.interface import SizedProgram
from functrax.ahead_of_time.sizes.texts import declarations, parameters
from functrax.backends.executables.memory_plan import ALIGNMENT
from functrax.backends.targets import PORTABLE
from functrax.core.types.symbolic_sizes import is_symbolic_dim

_HEADER: Final = """\
/* {name}: a program that functrax compiled, for {processors}.
 *
@ARRAYS@
 *
 * Arrays lie dense and row-major.  Results may lie in the memory of no argument, but for those that
 * say so, and of no other result.  A call allocates nothing and keeps nothing: threads may make
 * calls at the same time, each with a workspace of its own.  Subnormal numbers {subnormals} during
 * a call; the mode of the thread is as it was when the call returns.
 */
#ifndef {guard}
#define {guard}

{common}
#ifdef __cplusplus
extern "C" {{
#endif

{workspace}#define {upper}_ARGUMENTS {arguments}
#define {upper}_RESULTS {results}
{macros}
/* Run the program.
 *
 * workspace: {bytes} bytes; NULL if these are 0.
 * threads: who takes part; NULL for the calling thread alone.
 *
 * Returns 0, or what {name}_error_text explains; FUNCTRAX_ERROR_INDEX(code) is then the number of
 * the argument or result, counted from 0.  Nothing was computed if it is not 0. */
int {name}({parameters});

/* The same, of arrays of addresses in the order above.  {sizes} */
int {name}_call(const void *const *arguments, void *const *results, const int64_t *sizes,
    void *workspace, const functrax_threads *threads);

/* {what_bytes} */
size_t {name}_workspace_bytes({of_sizes});
{declarations}
/* What a code means. */
const char *{name}_error_text(int code);

/* The arguments and results as JSON. */
const char *{name}_description(void);

#ifdef __cplusplus
}}
#endif

{tables}
#endif /* {guard} */
"""


@cache
def common_file(name: str) -> str:
    """A file that programs have in common, with its numbers."""
    text = files("functrax.ahead_of_time").joinpath("include", name).read_text(encoding="utf-8")
    errors = [
        f"FUNCTRAX_{word} = {number}, /* {what} */" for number, (word, what) in ERRORS.items()
    ]
    text = text.replace("{ VALUE_OF_ERRORS }", "{\n  VALUE_OF_ERRORS\n}")
    values = {
        "ERRORS": "\n  ".join(errors),
        "SHIFT": str(INDEX_SHIFT),
        "ALIGNMENT": str(ALIGNMENT),
        "WAKE_NS": str(PORTABLE.wake_ns),
    }
    for word, value in values.items():
        text = text.replace(f"VALUE_OF_{word}", value)
    return text


def header_text(name: str, module: ObjectModule, processors: str) -> str:
    """The header of a program.

    Args:
      name: of its functions.
      module: its code.
      processors: what it is for, for people.
    """
    arguments, results, upper = module.arguments, module.results, name.upper()
    sized = module.sized
    text = _HEADER.format(
        name=name,
        processors=_comment(processors),
        subnormals="count as zero" if module.flushes else "are computed with",
        guard=f"FUNCTRAX_PROGRAM_{name}_H",
        common=common_file("functrax_call.h"),
        upper=upper,
        **(_fixed(upper, module.workspace) if sized is None else _of_sizes(sized)),
        arguments=len(arguments),
        results=len(results),
        macros="".join(_macros(upper, x) for x in (*arguments, *results)),
        parameters=_parameters([] if sized is None else parameters(sized), arguments, results),
        tables=_table(name, "arguments", arguments) + _table(name, "results", results),
    )
    return text.replace("@ARRAYS@", "\n".join(_listed(arguments, results)))


_BYTES: Final = """\
/* Bytes of memory that a call needs, which begin at a multiple of FUNCTRAX_WORKSPACE_ALIGNMENT.
 * What is in them before and after has no meaning. */
"""


def _fixed(upper: str, workspace: int) -> dict[str, str]:
    """What a header says where all sizes have values."""
    macro = f"{upper}_WORKSPACE_BYTES"
    return {
        "workspace": f"{_BYTES}#define {macro} {workspace}\n",
        "bytes": macro,
        "sizes": "`sizes` is NULL: it is for programs whose\n * sizes are chosen by the caller.",
        "what_bytes": f"{macro}, for who reads no headers.",
        "of_sizes": "void",
        "declarations": "",
    }


def _of_sizes(sized: SizedProgram) -> dict[str, str]:
    """What a header says where the caller chooses sizes."""
    return {
        "workspace": "",
        "bytes": f"{sized.name}_workspace_bytes({', '.join(sized.names)})",
        "sizes": f"`sizes` are {', '.join(sized.names)}.",
        "what_bytes": _BYTES[3:-4] + "\n * SIZE_MAX if there is no code for the sizes.",
        "of_sizes": ", ".join(parameters(sized)),
        "declarations": declarations(sized),
    }


def _comment(text: str) -> str:
    """A text inside of a comment."""
    return text.replace("*/", "* /").replace("/*", "/ *")


def _listed(arguments: Sequence[CArgument], results: Sequence[CArgument]) -> list[str]:
    lines = []
    for title, some in (("takes", arguments), ("gives", results)):
        for n, x in enumerate(some):
            path = "" if x.path == x.name else f", {_comment(x.path)}"
            shared = f", maybe in the memory of {arguments[x.shares].name}" if x.shares >= 0 else ""
            lines.append(f" *   {title} {n}: {x.name}, {x.type_text}{path}{shared}")
    return lines or [" *   nothing"]


def _macros(upper: str, x: CArgument) -> str:
    if x.is_sized:
        return ""
    name = f"{upper}_{x.name.upper()}"
    return f"#define {name}_ELEMENTS {x.elements}\n#define {name}_BYTES {x.nbytes}\n"


def _parameters(
    sizes: Sequence[str], arguments: Sequence[CArgument], results: Sequence[CArgument]
) -> str:
    given = [*sizes]
    given += [f"const {x.c_type} *{x.name}" for x in arguments]
    given += [f"{x.c_type} *{x.name}" for x in results]
    given += ["void *workspace", "const functrax_threads *threads"]
    return "\n    " + ",\n    ".join(given)


def _table(name: str, what: str, some: Sequence[CArgument]) -> str:
    """The static table of the arguments or of the results."""
    if not some:
        return ""
    lines, rows = [], []
    for n, x in enumerate(some):
        shape = sizes = "NULL"
        if x.shape:
            shape = f"{name}_shape_of_{what}_{n}"
            values = ", ".join("-1" if is_symbolic_dim(k) else str(k) for k in x.shape)
            lines.append(f"static const int64_t {shape}[] = {{{values}}};")
        if x.is_sized:
            sizes = f"{name}_sizes_of_{what}_{n}"
            words = ", ".join(_quoted(str(k)) for k in x.shape)
            lines.append(f"static const char *const {sizes}[] = {{{words}}};")
        texts = ", ".join(_quoted(y) for y in (x.name, x.path, x.dtype_name))
        many = "0, 0" if x.is_sized else f"{x.elements}, {x.nbytes}"
        rest = f"{many}, {x.alignment}, {x.shares}, {sizes}"
        rows.append(f"    {{{texts}, {len(x.shape)}, {shape}, {rest}}},")
    head = f"static const functrax_array {name}_{what}[] = {{"
    return "\n".join([*lines, head, *rows, "};", ""])


def _quoted(text: str) -> str:
    """A literal of C, whose bytes are those of UTF-8."""
    plain = "".join(
        chr(x) if 32 <= x < 127 and chr(x) not in '"\\?' else f"\\{x:03o}" for x in text.encode()
    )
    return f'"{plain}"'


def array_texts(
    name: str, arguments: Sequence[CArgument], results: Sequence[CArgument]
) -> dict[str, str]:
    """What any header says of a program's arrays: to people, as macros, and as tables.

    Args:
      name: of the program.
      arguments: what it takes.
      results: what it gives.
    """
    return {
        "arrays": "\n".join(_listed(arguments, results)),
        "macros": "".join(_macros(name.upper(), x) for x in (*arguments, *results)),
        "tables": _table(name, "arguments", arguments) + _table(name, "results", results),
    }
