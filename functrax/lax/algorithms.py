"""The names of algorithms among which factorisations may choose, and which of them there are.

Factorisations are NumPy's, that is LAPACK's, so only its own algorithms can be asked for.
"""

from __future__ import annotations

import enum
from typing import Any

from functrax.core.errors.typed import ArgumentError, UnavailableError


class EigImplementation(enum.Enum):
    """Who computes eigenvalues of matrices that are not Hermitian."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(enum.Enum):
    """How eigenvalues of Hermitian matrices are computed."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class SvdAlgorithm(enum.Enum):
    """How singular values are computed."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def check_algorithm(name: str, given: Any, kind: type[enum.Enum], there: tuple[Any, ...]) -> None:
    """Refuse an algorithm that is none of ``kind``, or not one of those that are ``there``.

    Raises:
      ArgumentError: for what is no member of ``kind``.
      UnavailableError: for a member that no CPU has.
    """
    if given is None or given in there:
        return
    names = ", ".join(str(x) for x in there)
    if not isinstance(given, kind):
        raise ArgumentError(f"{name}: unknown algorithm", got=repr(given), fix=f"None, {names}")
    raise UnavailableError(
        f"{name}: the algorithm is not implemented on CPUs", got=str(given), fix=f"None, {names}"
    )
