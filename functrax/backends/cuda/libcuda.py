"""NVIDIA's driver, ``libcuda.so.1``, which is opened when it is needed.

Start at :func:`open_libcuda`.
"""

from __future__ import annotations

import ctypes

from functrax.backends.cuda.driver import CONDITIONS, GRAPHS, SIGNATURES, Table
from functrax.core.errors.typed import UnavailableError

_SIMULATED = "FUNCTRAX_CUDA_DRIVER=simulated, which runs programs on the CPU"


def open_libcuda(name: str = "libcuda.so.1") -> Table:
    """The functions of NVIDIA's driver.

    Raises:
      UnavailableError: there is no driver, or it is too old.
    """
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise UnavailableError(
            f"no driver of NVIDIA's: {name} cannot be opened",
            got=str(error),
            fix=f"install the driver, or set {_SIMULATED}",
        ) from error
    needed = SIGNATURES.keys() - GRAPHS - CONDITIONS
    missing = [x for x in SIGNATURES if x in needed and not hasattr(library, x)]
    if missing:
        raise UnavailableError(
            "NVIDIA's driver is too old",
            got=f"it has no {', '.join(missing)}",
            fix=f"install a newer one (of CUDA 11.8 or later), or set {_SIMULATED}",
        )
    return Table({x: getattr(library, x) for x in SIGNATURES if hasattr(library, x)}, library)
