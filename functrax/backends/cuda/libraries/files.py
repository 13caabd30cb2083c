"""The files of NVIDIA's libraries, which are looked for when one is first needed.

The loader knows those of an installed CUDA.  Others come in packages of the namespace ``nvidia``
(``nvidia-cufft``, ``nvidia-cufft-cu12`` and the like), which are looked for in the folders of
``sys.path`` without an import.

Start at :func:`open_library`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from functrax.backends.cuda.libraries.table import SIGNATURES, LibraryTable
from functrax.backends.libraries.device_calls import TITLES

#: Their names, of CUDA 13 and of CUDA 12.
NAMES: Final[dict[str, tuple[str, ...]]] = {
    "cufft": ("libcufft.so.12", "libcufft.so.11"),
    "cusolver": ("libcusolver.so.12", "libcusolver.so.11"),
    "cublas": ("libcublas.so.13", "libcublas.so.12"),
}


def open_library(name: str) -> LibraryTable | str:
    """The functions of a library; why there are none."""
    problem = ""
    for file in _files(name):
        try:
            library = ctypes.CDLL(file)
        except OSError as error:
            problem = problem or str(error)
            continue
        missing = [x for x in SIGNATURES[name] if not hasattr(library, x)]
        if not missing:
            functions = {x: getattr(library, x) for x in SIGNATURES[name]}
            return LibraryTable(name, functions, f"{TITLES[name]} ({Path(file).name})", library)
        problem = f"{file} has no {', '.join(missing)}"
    return f"{TITLES[name]} cannot be opened: {problem}"


def _files(name: str) -> Iterator[str]:
    """Where a library may be: where the loader looks, then in packages."""
    yield from NAMES[name]
    for folder in dict.fromkeys(sys.path):
        inside = Path(folder, "nvidia")
        if not inside.is_dir():
            continue
        for file in NAMES[name]:
            yield from map(str, sorted(inside.glob(f"*/lib/{file}")))
