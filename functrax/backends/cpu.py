"""The CPU device: programs are compiled to machine code.

Operations outside ``jit`` run one by one on the reference device's rules.  Start at
:class:`CpuDevice`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.backends import nan_check
from functrax.backends.compiler import CompiledProgram, compile_program
from functrax.backends.deferred import Deferred
from functrax.backends.device import Device, Executable, register
from functrax.backends.reference import ReferenceDevice
from functrax.backends.runtime import load
from functrax.core.jaxpr import Jaxpr
from functrax.core.primitive import Primitive

_reference = ReferenceDevice()


class CpuDevice(Device):
    """Compiles programs for this machine's processor."""

    name = "cpu"

    def compile(self, jaxpr: Jaxpr) -> Executable:
        return load(self.compiled(jaxpr).program)

    def compiled(self, jaxpr: Jaxpr) -> CompiledProgram:
        """A program compiled, with all that is known about it; remembered on the program."""
        key = ("compiled", nan_check.enabled())
        found: CompiledProgram | None = jaxpr.memo.get(key)
        if found is None:
            found = jaxpr.memo[key] = compile_program(jaxpr, guarded=key[1])
        return found

    def apply(self, primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
        return _reference.apply(primitive, [_known(x) for x in values], params)


def _known(x: Any) -> Any:
    """A raw value as the reference device knows them."""
    if type(x) is np.ndarray or type(x) is Deferred or not hasattr(x, "materialize"):
        return x
    return x.materialize()


register("llvm", CpuDevice())
