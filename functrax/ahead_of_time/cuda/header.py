"""The header of C of a program for a GPU.

Start at :func:`cuda_header`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from functrax.ahead_of_time.arguments import CArgument
from functrax.ahead_of_time.cuda.constants import ROW
from functrax.ahead_of_time.header import array_texts, common_file
from functrax.backends.executables.program import (
    CondInstruction,
    RuntimeProgram,
    WhileInstruction,
    all_programs,
)

#: Kinds of errors that only programs for GPUs have, by their numbers.
CUDA_ERRORS: Final = {
    64: ("NULL_PROGRAM", "the program is a null pointer"),
    65: ("NULL_CONTEXT", "the context is a null pointer"),
    66: ("NO_MEMORY", "the host has no memory for the program"),
    67: ("NO_CUDA", "there is no driver of NVIDIA's: libcuda cannot be opened"),
    68: ("OLD_CUDA", "NVIDIA's driver is too old: it lacks a function"),
    69: ("LESSER_GPU", "the code is for GPUs of a higher compute capability"),
    70: ("CUDA", "a function of CUDA's driver failed"),
}
_HEADER: Final = """\
/* {name}: a program that functrax compiled, for GPUs of NVIDIA from {processors} on.
 *
{arrays}
 *
 * Arrays lie dense and row-major in the memory of the GPU, as its driver gives it (cuMemAlloc,
 * cudaMalloc): addresses are pointers that the host does not follow.  Results may lie in the memory
 * of no argument, but for those that say so, and of no other result.  A call allocates nothing and
 * keeps nothing: threads may make calls of one program at the same time, each with a workspace of
 * its own.  Subnormal numbers {subnormals}.
 */
#ifndef {guard}
#define {guard}

{common}
/* What programs for GPUs have besides.  Of FUNCTRAX_CUDA the index is what the driver returned, a
 * CUresult; of FUNCTRAX_LESSER_GPU the compute capability of the GPU, 75 for 7.5. */
#ifndef FUNCTRAX_CUDA_ERRORS
#define FUNCTRAX_CUDA_ERRORS
enum {{
{errors}
}};
#endif

#ifdef __cplusplus
extern "C" {{
#endif

/* Bytes of the GPU's memory that a call needs, which begin at a multiple of
 * FUNCTRAX_WORKSPACE_ALIGNMENT.  What is in them before and after has no meaning. */
#define {upper}_WORKSPACE_BYTES {workspace}
#define {upper}_ARGUMENTS {arguments}
#define {upper}_RESULTS {results}
{macros}
/* The program on a GPU: its kernels and constants. */
typedef struct {name}_program {name}_program;

/* Make it ready for the primary context of a device, which the runtime API and other libraries use.
 * The driver compiles the kernels, or finds them in its cache.
 *
 * Returns 0, or what {name}_error_text explains; *program is then NULL. */
int {name}_open(int device, {name}_program **program);

/* The same in a context of the caller's own, a CUcontext. */
int {name}_open_in(void *context, {name}_program **program);

/* Wait for the work of its calls, and give back what it has; nothing for NULL. */
void {name}_close({name}_program *program);

/* Ask the GPU to run the program.
 *
 * workspace: {upper}_WORKSPACE_BYTES bytes of the GPU's memory; NULL if these are 0.
 * stream: a CUstream or cudaStream_t; NULL for the default one.
 *
 * {waits}
 *
 * Returns 0, or what {name}_error_text explains; FUNCTRAX_ERROR_INDEX(code) is then the number of
 * the argument or result, counted from 0, or what the driver returned.  A kernel that fails is an
 * error of what next waits for the stream. */
int {name}({parameters});

/* The same, of arrays of addresses in the order above.  `sizes` is NULL: it is for programs whose
 * sizes are chosen by the caller. */
int {name}_call(const {name}_program *program, const void *const *arguments, void *const *results,
    const int64_t *sizes, void *workspace, void *stream);

/* {upper}_WORKSPACE_BYTES, for who reads no headers. */
size_t {name}_workspace_bytes(void);

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
_GOES_ON: Final = (
    "It returns before the GPU is done: the call only asks for kernels and copies, so a stream\n"
    " * that is being captured takes it into a graph."
)
_WAITS: Final = (
    "The host reads how often a loop runs or which branch does, so the call waits for the stream\n"
    " * there; it returns before the GPU is done with what comes after."
)


@cache
def loader() -> str:
    """The file that drives programs, ``functrax_cuda.h``."""
    return common_file("functrax_cuda.h").replace("VALUE_OF_ROW", str(ROW))


def typed_parameters(
    name: str, arguments: Sequence[CArgument], results: Sequence[CArgument]
) -> tuple[str, str, str]:
    """The parameters of the function of a program, and the names of its first and its last."""
    taken = {x.name for x in (*arguments, *results)}
    first, last = ("functrax_" * (x in taken) + x for x in ("program", "stream"))
    given = [f"const {name}_program *{first}"]
    given += [f"const {x.c_type} *{x.name}" for x in arguments]
    given += [f"{x.c_type} *{x.name}" for x in results]
    given += ["void *workspace", f"void *{last}"]
    return "\n    " + ",\n    ".join(given), first, last


def cuda_header(
    name: str,
    processors: str,
    arguments: Sequence[CArgument],
    results: Sequence[CArgument],
    program: RuntimeProgram,
) -> str:
    """The header of a program.

    Args:
      name: of its functions.
      processors: what it is for.
      arguments: what it takes.
      results: what it gives.
      program: what is run.
    """
    upper = name.upper()
    errors = [
        f"  FUNCTRAX_{word} = {number}, /* {text} */"
        for number, (word, text) in CUDA_ERRORS.items()
    ]
    return _HEADER.format(
        name=name,
        processors=processors,
        **array_texts(name, arguments, results),
        subnormals="count as zero" if program.flushes else "are computed with",
        guard=f"FUNCTRAX_PROGRAM_{name}_H",
        common=common_file("functrax_call.h"),
        errors="\n".join(errors),
        upper=upper,
        workspace=program.arena,
        arguments=len(arguments),
        results=len(results),
        waits=_WAITS if reads_flags(program) else _GOES_ON,
        parameters=typed_parameters(name, arguments, results)[0],
    )


def reads_flags(program: RuntimeProgram) -> bool:
    """Whether the host reads what decides how the program goes on."""
    return any(
        isinstance(x, (CondInstruction, WhileInstruction))
        for p in all_programs(program)
        for x in p.instructions
    )
