"""The libraries that a driver's GPUs use, and the calls of them in programs.

A library is opened when a program is loaded that calls it: NVIDIA's own beside NVIDIA's driver, a
simulated one beside a simulated driver.  Where there is none, or where one of its functions fails,
the host computes what was asked for; a failure is told once, in a warning, and from then on that
call is the host's.

Start at :func:`on_device`.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from functrax.backends.cuda.driver import Table
from functrax.backends.cuda.libraries import matrices
from functrax.backends.cuda.libraries.fourier import FourierCall
from functrax.backends.cuda.libraries.site import DeviceSite
from functrax.backends.cuda.libraries.table import LibraryError, LibraryTable
from functrax.backends.executables.program import HostCall
from functrax.backends.libraries.device_calls import TITLES, DeviceCall
from functrax.core.process.locks import new_rlock

#: Asks for a call, with the addresses of operands and results.  It gives the memory that the
#: library works in, which nobody else may have before the next mark, or None if it does not do it.
OnDevice = Callable[[Sequence[int]], "list[Any] | None"]
#: What makes a call, by the function of :class:`DeviceCall`.
_CALLS: Final[dict[str, Callable[..., Callable[[Sequence[int]], list[Any]]]]] = {
    "fft": FourierCall,
    "cholesky": matrices.CholeskyCall,
    "triangular_solve": matrices.TriangularSolveCall,
    "solve": matrices.SolveCall,
    "solve_each": matrices.SolveEachCall,
    "lu": matrices.LuCall,
    "qr": matrices.QrCall,
    "row_exchanges": matrices.RowExchangesCall,
}


class Libraries:
    """The libraries beside one driver.

    Args:
      open_: the functions of a library, by its name; why there are none.

    Attributes:
      failures: calls that failed, and why.
    """

    def __init__(self, open_: Callable[[str], LibraryTable | str]) -> None:
        self._open = open_
        self._opened: dict[str, LibraryTable | str] = {}
        self._made: dict[Hashable, Any] = {}
        #: Plans and handles may not be used by two threads at once.
        self.lock = new_rlock()
        self.failures: dict[DeviceCall, str] = {}

    def library(self, name: str) -> LibraryTable | str:
        """A library, or why there is none."""
        with self.lock:
            if name not in self._opened:
                self._opened[name] = self._open(name)
            return self._opened[name]

    def bound(self, call: DeviceCall, gpu: Any, array: Callable[..., Any]) -> OnDevice | None:
        """What asks a GPU for a call; None where the host computes."""
        table = self.library(call.library)
        if isinstance(table, str):
            return None
        site = DeviceSite(gpu, array, self._made)
        asked = _CALLS[call.function](table, site, *call.params)

        def run(addresses: Sequence[int]) -> list[Any] | None:
            with self.lock:
                if call in self.failures:
                    return None
                try:
                    return asked(addresses)
                except LibraryError as error:
                    self._failed(call, error)
                    return None

        return run

    def _failed(self, call: DeviceCall, error: LibraryError) -> None:
        self.failures[call] = str(error)
        warnings.warn(
            f"{TITLES[call.library]} failed, and the host computes what it was asked for: {error}",
            RuntimeWarning,
            stacklevel=2,
        )

    def who(self, call: DeviceCall | str) -> str:
        """Which library does a call, or why the host does."""
        if isinstance(call, str):
            return f"on the host, because {call}"
        table = self.library(call.library)
        reason = table if isinstance(table, str) else self.failures.get(call)
        if reason is None:
            assert isinstance(table, LibraryTable)
            return f"by {table.title}"
        return f"on the host, because {reason}"


def libraries_of(table: Table) -> Libraries:
    """The libraries beside a driver."""
    if table.libraries is None:
        table.libraries = Libraries(_opening(table.owner))
    found: Libraries = table.libraries
    return found


def on_device(x: HostCall, gpu: Any, array: Callable[..., Any]) -> OnDevice | None:
    """What asks a GPU for a call; None where the host computes.

    Args:
      x: the call.
      gpu: a GPU of either twin of the runtime.
      array: the class of arrays in its memory.
    """
    if not isinstance(x.device, DeviceCall):
        return None
    return libraries_of(gpu.table).bound(x.device, gpu, array)


def _opening(driver: Any) -> Callable[[str], LibraryTable | str]:
    """What opens libraries beside a driver."""
    if isinstance(driver, ctypes.CDLL):
        from functrax.backends.cuda.libraries.files import open_library

        return open_library
    from functrax.backends.cuda.simulated import SimulatedDriver

    if isinstance(driver, SimulatedDriver):
        from functrax.backends.cuda.libraries.simulated import SimulatedLibraries

        return SimulatedLibraries(driver).open
    return lambda name: f"there is no {TITLES[name]} beside this driver"
