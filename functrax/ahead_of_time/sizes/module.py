"""One LLVM module of a program for all values of its sizes.

Start at :func:`sized_module`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.ahead_of_time.arguments import CArgument
from functrax.ahead_of_time.compiling import compiled_for, lines_of
from functrax.ahead_of_time.constants import Constants
from functrax.ahead_of_time.debug_lines import DebugLines
from functrax.ahead_of_time.driver import Driver
from functrax.ahead_of_time.entry import helpers
from functrax.ahead_of_time.kernel_functions import KernelFunctions
from functrax.ahead_of_time.module import ObjectModule, description, sharing
from functrax.ahead_of_time.sizes.interface import SizedProgram, sized_functions
from functrax.ahead_of_time.sizes.numbers import HELPERS, SizeTable
from functrax.ahead_of_time.sizes.regions import constraints_of, names_in, variants_of
from functrax.backends.targets import Target
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.types.symbolic_scopes import SymbolicScope
from functrax.core.types.symbolic_sizes import Recorded


def scope_of(avals: Sequence[Any]) -> SymbolicScope | None:
    """The scope of named sizes in types; None if there are none."""
    for aval in avals:
        for n in aval.shape:
            if type(n) is Recorded and isinstance(n.recording, SymbolicScope):
                return n.recording
    return None


def sized_module(
    name: str,
    jaxpr: Jaxpr,
    scope: SymbolicScope,
    target: Target,
    values: Sequence[np.ndarray[Any, Any]],
    arguments: Sequence[CArgument],
    results: Sequence[CArgument],
    debug: bool,
) -> ObjectModule:
    """The module of a program.

    Args:
      name: of its functions.
      jaxpr: the program, with sizes of a scope.
      scope: of the sizes.
      target: what it is compiled for.
      values: the first inputs of the program, arrays that the function closes over.
      arguments: the other inputs.
      results: the results.
      debug: whether the users' lines are in it.

    Raises:
      UnavailableError: it cannot be compiled for all values of the sizes.
    """
    constraints = constraints_of(scope, [x.shape for x in (*arguments, *results)])
    variants = variants_of(jaxpr, scope, constraints, lambda x: compiled_for(x, target))
    results = sharing([x.compiled.program for x in variants], results, len(values))
    names = names_in(scope, [x.shape for x in arguments])
    lines, constants = DebugLines(name, debug), Constants()
    kernels, parts, tables = KernelFunctions(lines), list[str](), list[SizeTable]()
    for n, variant in enumerate(variants):
        table = SizeTable(f"@numbers.v{n}", variant.case, names)
        of_user = lines_of(variant.compiled)
        driver = Driver(name, kernels, constants, target, of_user, lines, f"@run.v{n}", table)
        driver.whole(variant.compiled.program, values)
        parts += [*driver.definitions(), *table.definitions()]
        tables.append(table)
    program = SizedProgram(
        name, scope, names, tuple(constraints), tuple(arguments), tuple(results),
        tuple(variants), tuple(tables),
    )  # fmt: skip
    flushes = variants[0].compiled.program.flushes
    texts_of_sizes = names, [x.text for x in constraints]
    entries = sized_functions(program, description(arguments, results, *texts_of_sizes), constants)
    texts = [
        *kernels.definitions(),
        *helpers(flushes, target.dialect.floats),
        HELPERS,
        *dict.fromkeys(parts),  # some are of all variants
        *entries,
        *constants.definitions(),
        *lines.definitions(),
    ]
    text = "\n".join(texts) + "\n"
    flushes = flushes and target.dialect.floats is not None
    both = tuple(arguments), tuple(results)
    return ObjectModule(text, *both, 0, flushes, constants, program)
