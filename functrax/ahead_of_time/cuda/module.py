"""C source of a program for a GPU: its PTX, its constants, what drives it, and what callers see.

    int NAME_open(int device, NAME_program **program)
    int NAME_open_in(void *context, NAME_program **program)
    void NAME_close(NAME_program *program)
    int NAME(const NAME_program *program, const void *argument..., void *result..., void *workspace,
             void *stream)
    int NAME_call(const NAME_program *program, const void *const *arguments, void *const *results,
                  const int64_t *sizes, void *workspace, void *stream)

Start at :func:`cuda_module`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from functrax.ahead_of_time.arguments import CArgument
from functrax.ahead_of_time.compiling import lines_of
from functrax.ahead_of_time.cuda.constants import DeviceConstants, literal
from functrax.ahead_of_time.cuda.driver import CudaDriver
from functrax.ahead_of_time.cuda.header import CUDA_ERRORS, cuda_header, typed_parameters
from functrax.ahead_of_time.cuda.kernels import DeviceKernels
from functrax.ahead_of_time.entry import ERRORS
from functrax.ahead_of_time.module import description, sharing
from functrax.backends.compilation.compiler import CompiledProgram
from functrax.backends.executables.memory_plan import ALIGNMENT
from functrax.core.errors.typed import UnavailableError
from functrax.core.records import record
from functrax.core.types.symbolic_sizes import is_symbolic_dim

_SOURCE: Final = """\
/* {name}: a program that functrax compiled, for {processors}.
 *
 * A compiler of C11 makes an object of it; it needs nothing of CUDA's but the driver, when it is
 * opened. */
#include "{name}.h"

#include "functrax_cuda.h"

{tables}

enum {{ functrax_arguments = {arguments}, functrax_results = {results} }};
static const int functrax_argument_masks[] = {{{argument_masks}}};
static const int functrax_result_masks[] = {{{result_masks}}};
static const int functrax_workspace_mask[] = {{{workspace_mask}}};
static const functrax_cuda_code functrax_code = {{
    functrax_modules, {module_count}, functrax_kernels, {kernel_count},
    {constants}, {constant_bytes}u, {capability}}};

{driver}
int {name}_open(int device, {name}_program **program) {{
  return functrax_cuda_open(&functrax_code, device, NULL, (functrax_cuda_program **)program);
}}

int {name}_open_in(void *context, {name}_program **program) {{
  *program = NULL;
  if (context == NULL) return FUNCTRAX_NULL_CONTEXT;
  return functrax_cuda_open(&functrax_code, 0, context, (functrax_cuda_program **)program);
}}

void {name}_close({name}_program *program) {{
  functrax_cuda_close((functrax_cuda_program *)program);
}}

int {name}_call(const {name}_program *program, const void *const *arguments, void *const *results,
    const int64_t *sizes, void *workspace, void *stream) {{
  uint64_t given[functrax_arguments + 1], made[functrax_results + 1];
  void *parameters[{most_places} + 1];
  const functrax_cuda_program *p = (const functrax_cuda_program *)program;
  const uint64_t memory = (uint64_t)(uintptr_t)workspace;
  int code;
  if (p == NULL) return FUNCTRAX_NULL_PROGRAM;
  if (sizes != NULL) return FUNCTRAX_FIXED_SIZES;
  for (int n = 0; n < functrax_arguments; ++n) given[n] = (uint64_t)(uintptr_t)arguments[n];
  for (int n = 0; n < functrax_results; ++n) made[n] = (uint64_t)(uintptr_t)results[n];
  code = functrax_cuda_check(given, functrax_argument_masks, functrax_arguments,
                             FUNCTRAX_NULL_ARGUMENT);
  if (code == 0)
    code = functrax_cuda_check(made, functrax_result_masks, functrax_results,
                               FUNCTRAX_NULL_RESULT);
  if (code == 0)
    code = functrax_cuda_check(&memory, functrax_workspace_mask, 1, FUNCTRAX_NULL_WORKSPACE);
  if (code != 0) return code;
  functrax_cuda_call call = {{p, given, made, memory, p->constants, stream, parameters, 0}};
  return functrax_cuda_run(&call, functrax_run);
}}

int {name}({parameters}) {{
  const void *functrax_given[functrax_arguments + 1] = {{{given}}};
  void *functrax_made[functrax_results + 1] = {{{made}}};
  return {name}_call({first}, functrax_given, functrax_made, NULL, workspace, {last});
}}

size_t {name}_workspace_bytes(void) {{ return {workspace}u; }}

const char *{name}_error_text(int code) {{
  const char *text = NULL;
  switch (FUNCTRAX_ERROR_KIND(code)) {{
{cases}
    case FUNCTRAX_CUDA:
      text = functrax_cuda_text(FUNCTRAX_ERROR_INDEX(code));
      return text == NULL ? "a function of CUDA's driver failed" : text;
    default:
      return "no such error";
  }}
}}

const char *{name}_description(void) {{
  static const char text[] = {description};
  return text;
}}
"""


@record
class CudaModule:
    """A program's source, and what its functions take and give.

    Args:
      source: C.
      ptx: the modules of PTX that are in it.
      header: the header of C.
      arguments: what the program takes.
      results: what it gives.
      workspace: bytes of the GPU's memory that a call needs besides.
    """

    source: str
    ptx: tuple[str, ...]
    header: str
    arguments: tuple[CArgument, ...]
    results: tuple[CArgument, ...]
    workspace: int


def cuda_module(
    name: str,
    compiled: CompiledProgram,
    values: Sequence[np.ndarray[Any, Any]],
    arguments: Sequence[CArgument],
    results: Sequence[CArgument],
    debug: bool,
) -> CudaModule:
    """The source of a compiled program.

    Args:
      name: of its functions.
      compiled: the compiler's record.
      values: the first inputs of the program, arrays that the function closes over.
      arguments: the other inputs.
      results: the results.
      debug: whether the users' lines are in it.

    Raises:
      UnavailableError: sizes have names instead of values.
    """
    _check_sizes((*arguments, *results))
    program, target = compiled.program, compiled.target
    results = sharing([program], results, len(values))
    kernels, constants = DeviceKernels(), DeviceConstants()
    driver = CudaDriver(kernels, constants, lines_of(compiled) if debug else {})
    driver.whole(program, values)
    modules, rows = kernels.modules(), constants.rows()
    tables = kernels.definitions()
    if rows:
        size = f"[{len(rows)}][FUNCTRAX_CUDA_ROW + 1]"
        tables.append(f"static const char functrax_constants{size} = {{")
        tables += [*[f"    {row}," for row in rows], "};"]
    names = [*[x.name for x in arguments], *[x.name for x in results]]
    parameters, first, last = typed_parameters(name, arguments, results)
    cases = [
        f"    case FUNCTRAX_{word}:\n      return {literal(text.encode())};"
        for word, text in (ERRORS | CUDA_ERRORS).values()
        if word != "CUDA"
    ]
    source = _SOURCE.format(
        name=name,
        processors=target.cpu,
        tables="\n".join(tables),
        arguments=len(arguments),
        results=len(results),
        argument_masks=_masks([x.alignment if x.nbytes else 0 for x in arguments]),
        result_masks=_masks([x.alignment if x.nbytes else 0 for x in results]),
        workspace_mask=_masks([ALIGNMENT if program.arena else 0]),
        module_count=len(modules),
        kernel_count=kernels.count,
        constants="functrax_constants[0]" if rows else "NULL",
        constant_bytes=constants.nbytes,
        capability=int(re.sub(r"\D", "", target.cpu)),
        driver="\n".join(driver.definitions()),
        most_places=kernels.most_places,
        parameters=parameters,
        given=", ".join([*names[: len(arguments)], "NULL"]),
        made=", ".join([*names[len(arguments) :], "NULL"]),
        first=first,
        last=last,
        workspace=program.arena,
        cases="\n".join(cases),
        description=_characters(description(arguments, results)),
    )
    header = cuda_header(name, target.cpu, arguments, results, program)
    return CudaModule(source, modules, header, tuple(arguments), tuple(results), program.arena)


def _check_sizes(arrays: Sequence[CArgument]) -> None:
    sizes = {str(n) for x in arrays for n in x.shape if is_symbolic_dim(n)}
    if sizes:
        raise UnavailableError(
            "aot: code for a GPU is made for certain sizes, and some have names",
            got=", ".join(sorted(sizes)),
            fix="a ShapeDtypeStruct with a number for each size",
        )


def _masks(alignments: Sequence[int]) -> str:
    return ", ".join([*[str(x - 1) for x in alignments], "-1"])


def _characters(text: str) -> str:
    """The initial value of an array of characters; literals may be 4095 bytes long."""
    data = text.encode()
    if len(data) < 4095:
        return literal(data)
    return "{" + ", ".join([*map(str, data), "0"]) + "}"
