"""What runs programs on GPUs: the C++ extension where there is one, or its Python twins.

``NATIVE`` and ``PYTHON`` are the two, with the same names and the same behaviour; ``CURRENT`` is
the one in use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from functrax.backends.cuda import array, gpu, run
from functrax.backends.cuda.graphs import conditions_of, parts_of
from functrax.backends.cuda.libraries.opened import on_device
from functrax.backends.executables.program import HostCall, Launch, RuntimeProgram
from functrax.backends.executables.program_encoding import encode
from functrax.backends.ptx.code import DeviceCode
from functrax.core import native
from functrax.core.records import record


@record
class GpuRuntime:
    """One implementation.

    Args:
      name: ``"native"`` or ``"python"``.
      gpu: the class of GPUs, ``gpu(table, ordinal)``.
      array: the class of arrays in their memory, ``array(gpu, shape, dtype)``.
      executable: makes a program callable, ``executable(program, gpu)(values, donated=())``.
    """

    name: str
    gpu: Callable[..., Any]
    array: type[Any]
    executable: Callable[..., Any]


PYTHON: Final = GpuRuntime("python", gpu.Gpu, array.DeviceArray, run.DeviceExecutable)


def _native() -> GpuRuntime | None:
    extension = native.extension
    if extension is None:
        return None

    def load(program: RuntimeProgram, gpu: Any) -> Any:
        def launching(x: Launch) -> tuple[Any, ...]:
            code: DeviceCode = x.owner
            kernel = gpu.load(code.ptx, code.name)
            grid = code.grid(x.units) if x.units else 0
            return kernel, x.params or (0,), grid, x.cost, code.block, x.begins, False

        def calling(x: HostCall) -> Any:
            return on_device(x, gpu, extension.DeviceArray)

        encoded, parts = encode(program, launching, calling), parts_of(program, gpu)
        conditions = conditions_of(program, gpu, parts)
        return extension.DeviceExecutable(encoded, program, gpu, parts, conditions)

    return GpuRuntime("native", extension.Gpu, extension.DeviceArray, load)


NATIVE: Final = _native()
CURRENT: Final = NATIVE or PYTHON
DeviceArray: Final = CURRENT.array
