"""Which driver there is: ``libcuda``, which NVIDIA's driver brings, or a simulated one.

The latter (``FUNCTRAX_CUDA_DRIVER=simulated``) executes PTX on the CPU.

Start at :func:`gpu`.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any, Final

from functrax.backends.cuda import runtime
from functrax.backends.cuda.driver import Table
from functrax.backends.cuda.gpu import Gpu, gpu_count
from functrax.core.errors.typed import ArgumentError, UnavailableError
from functrax.core.options.config import state as options, strict_was_chosen

VARIABLE: Final = "FUNCTRAX_CUDA_DRIVER"


@cache
def table() -> Table:
    """The driver of this process.

    Raises:
      ArgumentError: the variable ``FUNCTRAX_CUDA_DRIVER`` names none.
      UnavailableError: there is no driver.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted == "simulated":
        from functrax.backends.cuda.simulated import SimulatedDriver

        return SimulatedDriver().table
    if wanted not in ("", "libcuda"):
        raise ArgumentError(
            f"{VARIABLE}: an unknown driver", got=repr(wanted), fix="'libcuda' or 'simulated'"
        )
    from functrax.backends.cuda.libcuda import open_libcuda

    return open_libcuda()


def uses_libraries() -> bool:
    """Whether NVIDIA's libraries compute what has no kernel: see the option ``cuda_libraries``.

    Not in strict mode, which has the bits of the host's functions.
    """
    return not strict_was_chosen() and table().has_switched_on(options.cuda_libraries)


def count() -> int:
    """How many GPUs there are."""
    return gpu_count(table())


@cache
def gpu(ordinal: int = 0) -> Any:
    """A GPU of this process.

    Raises:
      UnavailableError: there is no driver, or no such GPU.
    """
    if ordinal >= count():
        raise UnavailableError(
            "NVIDIA's driver knows no such GPU",
            got=f"number {ordinal} of {count()}",
            fix="CUDA_VISIBLE_DEVICES says which GPUs a process sees",
        )
    return runtime.CURRENT.gpu(table(), ordinal)


@cache
def observed_gpu() -> Gpu:
    """The first GPU of this process as the twin in Python has it, which lets observers look."""
    return Gpu(gpu().table)
