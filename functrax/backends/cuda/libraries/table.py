"""The functions of NVIDIA's libraries that functrax calls, as one table for each library.

A table has a library's own functions, by their documented names and signatures, whoever offers
them: NVIDIA's file (``files.py``), or a simulated library (``simulated.py``).  What calls them
(``fourier.py``, ``matrices.py``) knows only the table.

Start at :class:`LibraryTable`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, Final

INT: Final = ctypes.c_int
LONG: Final = ctypes.c_longlong
P: Final = ctypes.c_void_p

_COMPLEX: Final = (INT, P, P, INT)
_HALF: Final = (INT, P, P)
#: The arguments of the functions of each library; each returns a status.  Addresses of the device
#: and handles are pointers, as are places of the host that something is written to.
SIGNATURES: Final[dict[str, dict[str, tuple[Any, ...]]]] = {
    # https://docs.nvidia.com/cuda/cufft/
    "cufft": {
        "cufftCreate": (P,),
        "cufftDestroy": (INT,),
        "cufftSetAutoAllocation": (INT, INT),
        "cufftMakePlanMany64": (INT, INT, P, P, LONG, LONG, P, LONG, LONG, INT, LONG, P),
        "cufftSetStream": (INT, P),
        "cufftSetWorkArea": (INT, P),
        "cufftExecC2C": _COMPLEX,
        "cufftExecZ2Z": _COMPLEX,
        "cufftExecR2C": _HALF,
        "cufftExecD2Z": _HALF,
        "cufftExecC2R": _HALF,
        "cufftExecZ2D": _HALF,
    },
    # https://docs.nvidia.com/cuda/cusolver/
    "cusolver": {
        "cusolverDnCreate": (P,),
        "cusolverDnSetStream": (P, P),
        "cusolverDnSlaswp": (P, INT, P, INT, INT, INT, P, INT),
    },
    # https://docs.nvidia.com/cuda/cublas/
    "cublas": {
        "cublasCreate_v2": (P,),
        "cublasSetStream_v2": (P, P),
    },
}
_LETTERS: Final = "SDCZ"
for _t in _LETTERS:
    SIGNATURES["cusolver"] |= {
        f"cusolverDn{_t}potrf_bufferSize": (P, INT, INT, P, INT, P),
        f"cusolverDn{_t}potrf": (P, INT, INT, P, INT, P, INT, P),
        f"cusolverDn{_t}potrfBatched": (P, INT, INT, P, INT, P, INT),
        f"cusolverDn{_t}getrf_bufferSize": (P, INT, INT, P, INT, P),
        f"cusolverDn{_t}getrf": (P, INT, INT, P, INT, P, P, P),
        f"cusolverDn{_t}getrs": (P, INT, INT, INT, P, INT, P, P, INT, P),
        f"cusolverDn{_t}geqrf_bufferSize": (P, INT, INT, P, INT, P),
        f"cusolverDn{_t}geqrf": (P, INT, INT, P, INT, P, P, INT, P),
    }
    SIGNATURES["cublas"] |= {
        f"cublas{_t}trsm_v2": (P, INT, INT, INT, INT, INT, INT, P, P, INT, P, INT),
        f"cublas{_t}trsmBatched": (P, INT, INT, INT, INT, INT, INT, P, P, INT, P, INT, INT),
        f"cublas{_t}getrfBatched": (P, INT, P, INT, P, P, INT),
        f"cublas{_t}getrsBatched": (P, INT, INT, INT, P, INT, P, P, INT, P, INT),
    }
for _t in ("Sor", "Dor", "Cun", "Zun"):  # orthogonal and unitary
    SIGNATURES["cusolver"] |= {
        f"cusolverDn{_t}gqr_bufferSize": (P, INT, INT, INT, P, INT, P, P),
        f"cusolverDn{_t}gqr": (P, INT, INT, INT, P, INT, P, P, INT, P),
    }
SUCCESS: Final = 0
#: What functions return (``cufftResult``, ``cusolverStatus_t``, ``cublasStatus_t``).
STATUSES: Final[dict[str, dict[int, str]]] = {
    "cufft": {
        1: "CUFFT_INVALID_PLAN",
        2: "CUFFT_ALLOC_FAILED",
        3: "CUFFT_INVALID_TYPE",
        4: "CUFFT_INVALID_VALUE",
        5: "CUFFT_INTERNAL_ERROR",
        6: "CUFFT_EXEC_FAILED",
        7: "CUFFT_SETUP_FAILED",
        8: "CUFFT_INVALID_SIZE",
        9: "CUFFT_UNALIGNED_DATA",
        11: "CUFFT_INVALID_DEVICE",
        13: "CUFFT_NO_WORKSPACE",
        14: "CUFFT_NOT_IMPLEMENTED",
        16: "CUFFT_NOT_SUPPORTED",
        17: "CUFFT_MISSING_DEPENDENCY",
        18: "CUFFT_NVRTC_FAILURE",
        19: "CUFFT_NVJITLINK_FAILURE",
        20: "CUFFT_NVSHMEM_FAILURE",
    },
    "cusolver": {
        1: "CUSOLVER_STATUS_NOT_INITIALIZED",
        2: "CUSOLVER_STATUS_ALLOC_FAILED",
        3: "CUSOLVER_STATUS_INVALID_VALUE",
        4: "CUSOLVER_STATUS_ARCH_MISMATCH",
        6: "CUSOLVER_STATUS_EXECUTION_FAILED",
        7: "CUSOLVER_STATUS_INTERNAL_ERROR",
    },
    "cublas": {
        1: "CUBLAS_STATUS_NOT_INITIALIZED",
        3: "CUBLAS_STATUS_ALLOC_FAILED",
        7: "CUBLAS_STATUS_INVALID_VALUE",
        8: "CUBLAS_STATUS_ARCH_MISMATCH",
        13: "CUBLAS_STATUS_EXECUTION_FAILED",
        14: "CUBLAS_STATUS_INTERNAL_ERROR",
        15: "CUBLAS_STATUS_NOT_SUPPORTED",
    },
}
#: Kinds of transforms (``cufftType``), and the directions of complex ones.
KINDS: Final = {"R2C": 0x2A, "C2R": 0x2C, "C2C": 0x29, "D2Z": 0x6A, "Z2D": 0x6C, "Z2Z": 0x69}
FORWARD: Final = -1
INVERSE: Final = 1
#: Triangles, sides, forms of a matrix, and diagonals (``cublasFillMode_t`` and the like).
LOWER: Final = 0
UPPER: Final = 1
LEFT: Final = 0
RIGHT: Final = 1
AS_IT_IS: Final = 0
TRANSPOSED: Final = 1
ADJOINT: Final = 2


class LibraryError(Exception):
    """A function of a library returned another status than success."""


class LibraryTable:
    """Functions of a library.

    Args:
      name: of the library, a key of ``SIGNATURES``.
      functions: by name, each of the type ``prototype(name, function)``, or an address.
      title: what to call it, with its version or its file.
      owner: what keeps them there.

    Raises:
      KeyError: a function is missing.
    """

    def __init__(self, name: str, functions: Mapping[str, Any], title: str, owner: Any) -> None:
        self.name, self.title, self.owner = name, title, owner
        self._kept = dict(functions)
        self._functions = {
            f: prototype(name, f)(ctypes.cast(functions[f], P).value) for f in SIGNATURES[name]
        }

    def __call__(self, function: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
          LibraryError: it did not succeed.
        """
        status = self._functions[function](*arguments)
        if status != SUCCESS:
            text = STATUSES[self.name].get(status, "an unknown status")
            raise LibraryError(f"{function}: {text} ({status})")


def prototype(library: str, function: str) -> Any:
    """The C type of a function."""
    return ctypes.CFUNCTYPE(INT, *SIGNATURES[library][function])
