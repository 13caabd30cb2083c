"""The GPU device: programs are compiled to PTX, which its driver compiles and runs.

Start at :class:`CudaDevice`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.backends.compilation.compiler import CompiledProgram, compile_program
from functrax.backends.cuda import choice
from functrax.backends.cuda.runtime import CURRENT, DeviceArray
from functrax.backends.device import Device, Executable, device_of, executable_of, register
from functrax.backends.eager.single_operations import compile_rounded, run_compiled
from functrax.backends.places import transfer
from functrax.backends.reference import nan_check
from functrax.backends.reference.reference_device import ReferenceDevice, in_numpy
from functrax.backends.targets import making_for
from functrax.backends.targets.facts import Target
from functrax.backends.targets.nvptx import target_of
from functrax.core.arrays.array import Borrowed
from functrax.core.arrays.dlpack import CUDA, MEMORY, GpuMemory
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import compile_context, strict_was_chosen
from functrax.core.process.gc_pause import paused
from functrax.core.tracing.primitive import Primitive
from functrax.core.tracing.trace import current_source

_reference = ReferenceDevice()


class CudaDevice(Device):
    """Compiles programs for a GPU of NVIDIA's."""

    name = "cuda"
    platform = "gpu"
    is_recorded = True

    @property
    def device_kind(self) -> str:
        """The name of the GPU."""
        return str(choice.gpu().name)

    @property
    def name_of_kind(self) -> str:
        return "cuda"

    def open(self) -> None:
        """Open the driver, and make sure that programs can run on the GPU.

        Raises:
          FunctraxError: they cannot.
        """
        target_of(choice.gpu().capability)

    def hold(self, value: Any) -> Any:
        if type(value) is Borrowed:
            value = value.materialize()
        if type(value) is DeviceArray or not hasattr(value, "shape"):
            return value
        array = np.asarray(in_numpy(value))
        with transfer(array, device_of("llvm"), self):
            return DeviceArray.of(choice.gpu(), array)

    def operands(self, values: Sequence[Any]) -> list[Any]:
        # Numbers of the host become a part of the program.
        return [x if type(x) is np.ndarray and not x.shape else self.hold(x) for x in values]

    def copied(self, value: Any) -> Any:
        return value.copy()

    def adopted(self, shown: np.ndarray[Any, Any]) -> Any:
        address, strides = shown.__array_interface__["data"][0], shown.strides
        if not shown.size or shown.flags.c_contiguous:
            return DeviceArray.adopt(choice.gpu(), shown.shape, shown.dtype, address, shown)
        reach = [(n - 1) * s for n, s in zip(shown.shape, strides)]
        begin = sum([r for r in reach if r < 0])
        nbytes = sum(map(abs, reach)) + shown.itemsize
        bytes_ = DeviceArray.adopt(choice.gpu(), (nbytes,), np.uint8, address + begin, shown)
        with transfer(shown, self, device_of("llvm")):
            span = bytes_.materialize()
        dense = np.ascontiguousarray(np.ndarray(shown.shape, shown.dtype, span, -begin, strides))
        return DeviceArray.of(choice.gpu(), dense)

    def memory_stats(self) -> dict[str, int]:
        """Bytes in use, how many allocations there are, and the bytes of the largest."""
        sizes = choice.gpu().sizes()
        return {
            "bytes_in_use": sum(sizes),
            "num_allocs": len(sizes),
            "largest_alloc_size": max(sizes, default=0),
        }

    @property
    def compiler(self) -> CudaDevice:
        """This device."""
        return self

    def compile(self, jaxpr: Jaxpr) -> Executable:
        loaded: Executable = CURRENT.executable(self.compiled(jaxpr).program, choice.gpu())
        return loaded

    def _compile_one(self, jaxpr: Jaxpr) -> Executable:
        """A program of one operation, with the bits that it has where it is recorded."""
        return compile_rounded(self, jaxpr)

    def compiled(self, jaxpr: Jaxpr) -> CompiledProgram:
        """A program compiled, with all that is known about it; remembered on the program."""
        guarded = nan_check.enabled()
        key = ("compiled for a GPU", choice.gpu().capability, guarded, compile_context())
        found: CompiledProgram | None = jaxpr.memo.get(key)
        if found is None:
            with paused(), making_for(self._target()):
                found = jaxpr.memo[key] = compile_program(jaxpr, guarded=guarded)
        return found

    def _target(self) -> Target:
        """What programs are compiled for."""
        return target_of(choice.gpu().capability, strict_was_chosen(), choice.uses_libraries())

    def apply(self, primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
        if primitive.is_call:
            program = primitive.inlines(params)
            assert program is not None
            return executable_of(program)([self.hold(x) for x in values])
        found = run_compiled(primitive, values, params, self._compile_one)
        if found is None:
            out = _reference.apply(primitive, [in_numpy(x) for x in values], params)
            found = [self.hold(x) for x in (out if primitive.multiple_results else [out])]
        if nan_check.enabled():
            _look_at(primitive, values, found, params)
        return found if primitive.multiple_results else found[0]


def _look_at(
    primitive: Primitive, values: Sequence[Any], results: Sequence[Any], params: dict[str, Any]
) -> None:
    """Raise for a NaN or an infinity that the options forbid."""
    operands, outs = [in_numpy(x) for x in values], [in_numpy(x) for x in results]
    out = outs if primitive.multiple_results else outs[0]
    nan_check.blame(primitive, operands, out, params, _reference.apply)
    nan_check.check(primitive, operands, out, current_source())


def wait_for_all(gpu: Any) -> None:
    """Wait for all that a GPU was asked for."""
    gpu.synchronize()


def _memory_of(array: Any) -> GpuMemory:
    return GpuMemory(
        (CUDA, 0), array.address, array.shape, array.dtype, array, lambda: wait_for_all(array.gpu)
    )


register("cuda", CudaDevice(), DeviceArray)
MEMORY[DeviceArray] = _memory_of
