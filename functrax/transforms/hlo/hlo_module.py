"""Programs as HLO: what ``jit(f).lower(x).compiler_ir(dialect="hlo")`` returns.

A program without constants enters, with the arrays that its first inputs stand for; a
:class:`HloProgram` leaves.

Start at :func:`hlo_program`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.records import record
from functrax.core.tracing.primitive import Value
from functrax.transforms.hlo import (  # noqa: F401  (the modules register their rules)
    control,
    elementwise,
    movement,
    reductions,
    solvers,
    sorting,
)
from functrax.transforms.hlo.computations.computation import Computation
from functrax.transforms.hlo.computations.hlo_text import module_text
from functrax.transforms.hlo.equations import tuple_of_results, write_jaxpr


@record
class HloProgram:
    """A program in XLA's language.

    Args:
      name: of the module.
      text: the module, as XLA prints it and reads it.
    """

    name: str
    text: str

    def as_hlo_text(self) -> str:
        """The module as text."""
        return self.text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        count = sum(" = " in line for line in self.text.splitlines())
        return f"<HloProgram {self.name}: {count} instructions>"


def hlo_program(
    jaxpr: Jaxpr, consts: Sequence[Value], arg_names: Sequence[str], name: str
) -> HloProgram:
    """A program in XLA's language.

    Args:
      jaxpr: the program.
      consts: the values of its first inputs, which become literals.
      arg_names: what the other inputs are called.
      name: of the module; letters that XLA does not take become underscores.

    Raises:
      UnavailableError: if XLA has no instruction for an operation.
    """
    entry = Computation("main", {})
    constants = [entry.constant(np.asarray(c)) for c in consts]
    inputs = zip(jaxpr.invars[len(consts) :], arg_names, strict=True)
    parameters = [entry.parameter(v.aval, n) for v, n in inputs]
    results = write_jaxpr(entry, jaxpr, [*constants, *parameters])
    entry.root = tuple_of_results(entry, results)
    title = re.sub(r"[^\w.-]", "_", name)
    return HloProgram(title, module_text(entry, title))
