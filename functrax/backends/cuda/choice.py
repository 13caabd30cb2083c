"""Which driver there is: ``libcuda``, which NVIDIA's driver brings, or a simulated one.

The latter (``FUNCTRAX_CUDA_DRIVER=simulated``) executes PTX on the CPU.

Start at :func:`driver`.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Final

from functrax.backends.cuda.driver import Driver
from functrax.core.errors.typed import ArgumentError

VARIABLE: Final = "FUNCTRAX_CUDA_DRIVER"


@cache
def driver() -> Driver:
    """The driver of this process.

    Raises:
      ArgumentError: the variable ``FUNCTRAX_CUDA_DRIVER`` names none.
      RuntimeError: there is no driver, or no GPU.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted == "simulated":
        from functrax.backends.cuda.simulated import SimulatedDriver

        return SimulatedDriver()
    if wanted not in ("", "libcuda"):
        raise ArgumentError(
            f"{VARIABLE}: an unknown driver", got=repr(wanted), fix="'libcuda' or 'simulated'"
        )
    from functrax.backends.cuda.libcuda import LibCuda

    return LibCuda()
