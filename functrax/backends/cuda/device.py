"""The GPU device: programs are compiled to PTX, which its driver compiles and runs.

Start at :class:`CudaDevice`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.backends.compilation.compiler import CompiledProgram, compile_program
from functrax.backends.cuda.array import DeviceArray
from functrax.backends.cuda.choice import driver
from functrax.backends.cuda.run import DeviceExecutable
from functrax.backends.device import Device, Executable, executable_of, register
from functrax.backends.eager.single_operations import run_compiled
from functrax.backends.reference.reference_device import ReferenceDevice, in_numpy
from functrax.backends.targets import making_for
from functrax.backends.targets.nvptx import target_of
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import compile_context
from functrax.core.process.gc_pause import paused
from functrax.core.tracing.primitive import Primitive

_reference = ReferenceDevice()


class CudaDevice(Device):
    """Compiles programs for a GPU of NVIDIA's."""

    name = "cuda"
    platform = "gpu"

    @property
    def device_kind(self) -> str:
        """The name of the GPU."""
        return driver().name

    @property
    def compiler(self) -> CudaDevice:
        """This device."""
        return self

    def compile(self, jaxpr: Jaxpr) -> Executable:
        return DeviceExecutable(self.compiled(jaxpr).program, driver())

    def compiled(self, jaxpr: Jaxpr) -> CompiledProgram:
        """A program compiled, with all that is known about it; remembered on the program."""
        key = ("compiled for a GPU", driver().capability, compile_context())
        found: CompiledProgram | None = jaxpr.memo.get(key)
        if found is None:
            with paused(), making_for(target_of(driver().capability)):
                found = jaxpr.memo[key] = compile_program(jaxpr)
        return found

    def apply(self, primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
        if primitive.is_call:
            program = primitive.inlines(params)
            assert program is not None
            return executable_of(program)(values)
        found = run_compiled(primitive, values, params, self.compile)
        if found is None:
            out = _reference.apply(primitive, [in_numpy(x) for x in values], params)
            found = [_on_device(x) for x in (out if primitive.multiple_results else [out])]
        return found if primitive.multiple_results else found[0]


def _on_device(x: Any) -> DeviceArray:
    return DeviceArray.of(driver(), np.asarray(in_numpy(x)))


register("cuda", CudaDevice())
