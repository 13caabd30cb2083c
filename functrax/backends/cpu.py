"""The CPU device: programs are compiled to machine code.

Operations outside ``jit`` are recorded and run together (``backends/eager.py``).  One that is run
by itself is run by the reference device's rules, and in strict mode as a program of one equation
(``backends/single_operations.py``).  The compiler is imported with the first program, for
``import functrax`` is a part of the start of programs that need none.

Start at :class:`CpuDevice`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrax.backends import eager as eager, nan_check, single_operations
from functrax.backends.device import Device, Executable, register
from functrax.backends.reference import ReferenceDevice, in_numpy
from functrax.backends.runtime import load
from functrax.core.config import compile_context, state as options
from functrax.core.jaxpr import Jaxpr
from functrax.core.primitive import Primitive
from functrax.core.trace import current_source

if TYPE_CHECKING:
    from functrax.backends.compiler import CompiledProgram

_reference = ReferenceDevice()


class CpuDevice(Device):
    """Compiles programs for this machine's processor."""

    name = "cpu"

    def compile(self, jaxpr: Jaxpr) -> Executable:
        if self._memo_key() not in jaxpr.memo and not nan_check.enabled():
            from functrax.backends import program_cache

            program = program_cache.find(jaxpr)
            if program is not None:
                return load(program)
        return load(self.compiled(jaxpr).program)

    def compiled(self, jaxpr: Jaxpr) -> CompiledProgram:
        """A program compiled, with all that is known about it; remembered on the program."""
        guarded = nan_check.enabled()
        key = self._memo_key()
        found: CompiledProgram | None = jaxpr.memo.get(key)
        if found is None:
            from functrax.backends.compiler import compile_program

            found = jaxpr.memo[key] = compile_program(jaxpr, guarded=guarded)
            if not guarded:
                from functrax.backends import program_cache

                program_cache.keep(jaxpr, found.program)
        return found

    def _memo_key(self) -> tuple[Any, ...]:
        return ("compiled", nan_check.enabled(), compile_context())

    def apply(self, primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
        values = [in_numpy(x) for x in values]
        if not options.strict:
            return _reference.apply(primitive, values, params)
        compile_ = self._compiled_once
        with np.errstate(all="ignore"):
            out = single_operations.run(primitive, values, params, compile_, _reference.apply)
        if nan_check.enabled():
            nan_check.check(primitive, values, out, current_source())
        return out

    def _compiled_once(self, jaxpr: Jaxpr) -> Executable:
        """A program of one operation; its results are checked by the caller."""
        from functrax.backends.compiler import compile_program

        return load(compile_program(jaxpr).program)


register("llvm", CpuDevice())
