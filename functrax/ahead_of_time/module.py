"""One LLVM module of a whole program, and its object file.

Start at :func:`object_module`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrax.ahead_of_time.arguments import CArgument
from functrax.ahead_of_time.compiling import lines_of
from functrax.ahead_of_time.constants import Constants
from functrax.ahead_of_time.debug_lines import DebugLines
from functrax.ahead_of_time.driver import Driver
from functrax.ahead_of_time.entry import entry_functions, helpers
from functrax.ahead_of_time.kernel_functions import KernelFunctions
from functrax.backends.compilation.compiler import CompiledProgram
from functrax.backends.executables.program import RuntimeProgram
from functrax.core.records import record
from functrax.core.types.symbolic_sizes import is_symbolic_dim

if TYPE_CHECKING:
    from functrax.ahead_of_time.sizes.interface import SizedProgram


@record
class ObjectModule:
    """A module, and what its functions take and give.

    Args:
      text: LLVM IR.
      arguments: what the program takes.
      results: what it gives.
      workspace: bytes of memory that a call needs besides.
      flushes: whether subnormal numbers count as zero.
      constants: the arrays that belong into an object file of it.
      sized: what a program with named sizes has besides; None if all have values.
    """

    text: str
    arguments: tuple[CArgument, ...]
    results: tuple[CArgument, ...]
    workspace: int
    flushes: bool
    constants: Constants
    sized: SizedProgram | None = None


def object_module(
    name: str,
    compiled: CompiledProgram,
    values: Sequence[np.ndarray[Any, Any]],
    arguments: Sequence[CArgument],
    results: Sequence[CArgument],
    debug: bool,
) -> ObjectModule:
    """The module of a compiled program.

    Args:
      name: of its functions.
      compiled: the compiler's record.
      values: the first inputs of the program, arrays that the function closes over.
      arguments: the other inputs.
      results: the results.
      debug: whether the users' lines are in it.
    """
    program, target = compiled.program, compiled.target
    results = sharing([program], results, len(values))
    lines, constants = DebugLines(name, debug), Constants()
    kernels = KernelFunctions(lines)
    driver = Driver(name, kernels, constants, target, lines_of(compiled), lines)
    driver.whole(program, values)
    entries = entry_functions(
        name, arguments, results, program.arena, description(arguments, results), constants
    )
    parts = [
        *kernels.definitions(),
        *helpers(program.flushes, target.dialect.floats),
        *driver.definitions(),
        *entries,
        *constants.definitions(),
        *lines.definitions(),
    ]
    text = "\n".join(parts) + "\n"
    flushes = program.flushes and target.dialect.floats is not None
    both = tuple(arguments), tuple(results)
    return ObjectModule(text, *both, program.arena, flushes, constants)


def sharing(
    programs: Sequence[RuntimeProgram], results: Sequence[CArgument], consts: int
) -> list[CArgument]:
    """The results, with the arguments whose memory they may have, whichever program runs."""
    pairs = set.intersection(*[set(program.aliases) for program in programs])
    shares = {j: i - consts for j, i in pairs}
    return [
        CArgument(x.name, x.path, x.shape, x.dtype, max(shares.get(n, -1), -1))
        for n, x in enumerate(results)
    ]


def description(
    arguments: Sequence[CArgument],
    results: Sequence[CArgument],
    sizes: Sequence[str] = (),
    constraints: Sequence[str] = (),
) -> str:
    """The arguments and the results as JSON, for languages that do not read headers.

    Args:
      arguments: what the program takes.
      results: what it gives.
      sizes: the names of sizes.
      constraints: what these must satisfy.
    """

    def shown(x: CArgument) -> dict[str, object]:
        found: dict[str, object] = {
            "name": x.name,
            "path": x.path,
            "dtype": x.dtype_name,
            "shape": [str(n) if is_symbolic_dim(n) else n for n in x.shape],
            "bytes": None if x.is_sized else x.nbytes,
            "alignment": x.alignment,
        }
        return found if x.shares < 0 else found | {"shares": x.shares}

    both = {"arguments": arguments, "results": results}
    found: dict[str, object] = {key: [shown(x) for x in some] for key, some in both.items()}
    if sizes:
        found |= {"sizes": list(sizes), "constraints": list(constraints)}
    return json.dumps(found)
