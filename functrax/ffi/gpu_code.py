"""Kernels of a GPU of the user's own: PTX, or CUDA C that NVIDIA's NVRTC makes PTX of.

Start at :func:`kernel_of`.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import glob
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from functrax.backends import disk_cache
from functrax.core.errors.typed import ArgumentError, CompilerError, UnavailableError
from functrax.core.records import record

_MOST_THREADS: Final = 1024


@record(eq=False)
class GpuKernel:
    """A kernel, and how it is launched.

    Args:
      name: of the entry.
      ptx: the module that it is in.
      block: how many threads a block has.
      blocks: gives the number of blocks, from the types of the results; None for as many as the
        first result has elements, by the threads of a block.
    """

    name: str
    ptx: str
    block: int
    blocks: Callable[..., int] | None

    @property
    def own_ptx(self) -> str:
        """The module, for those who look at it."""
        return self.ptx

    def grid(self, units: int) -> int:
        """How many blocks so many units of work take: a unit is a block."""
        return units

    def units(self, results: Sequence[Any]) -> int:
        """How many blocks results of these types take.

        Raises:
          ArgumentError: ``blocks`` gives no number.
        """
        if self.blocks is None:
            return -(-int(results[0].size) // self.block)
        found = self.blocks(*results)
        if not 0 <= found < 1 << 31:
            raise ArgumentError(
                f"code: blocks= of {self.name} gives the number of blocks",
                got=repr(found),
                fix="blocks=lambda y: -(-y.size // 256)",
            )
        return found


def kernel_of(
    source: str,
    language: str,
    flags: Sequence[str],
    name: str,
    threads: int,
    blocks: Callable[..., int] | None,
) -> GpuKernel:
    """A kernel made of text; arguments as :func:`functrax.code`.

    Raises:
      ArgumentError: the text has no kernel of the name, or a block has too many threads.
      UnavailableError: CUDA C needs NVRTC, which is not there.
      CompilerError: NVRTC does not take the text.
    """
    if not 1 <= threads <= _MOST_THREADS:
        raise ArgumentError(
            f"code: a block of {name} has between 1 and {_MOST_THREADS} threads",
            got=f"threads={threads}",
            fix="threads=256",
        )
    ptx = source if language == "ptx" else _ptx_of(source, tuple(flags), name)
    if re.search(rf"\.entry\s+{name}\b", ptx) is None:
        found = re.findall(r"\.entry\s+(\w+)", ptx)
        raise ArgumentError(
            f"code: the text has no kernel {name!r}",
            got=f"kernels {', '.join(found)}" if found else "no .entry",
            fix='name=, as the kernel is called in the text; extern "C" __global__ in CUDA C',
        )
    return GpuKernel(name, ptx, threads, blocks)


def _ptx_of(source: str, flags: tuple[str, ...], name: str) -> str:
    """CUDA C as PTX, which the disk cache keeps."""
    library = _nvrtc()
    if library is None:
        raise UnavailableError(
            "code: CUDA C needs NVIDIA's compiler NVRTC",
            got="no libnvrtc.so",
            fix="pip install nvidia-cuda-nvrtc-cu12, or language='ptx'",
        )
    if not any(flag.startswith(("-arch", "--gpu-architecture")) for flag in flags):
        flags = (*flags, f"--gpu-architecture=compute_{_capability()}")
    version = (ctypes.c_int(), ctypes.c_int())
    library.nvrtcVersion(ctypes.byref(version[0]), ctypes.byref(version[1]))
    key = disk_cache.content_key("cuda", source, *flags, str([x.value for x in version]))
    cache_ = disk_cache.current()
    entry = cache_.get(key)
    if entry is not None:
        return entry.payload.decode()
    ptx = _compiled(library, source, flags, name)
    cache_.put(key, ptx.encode(), f"CUDA C {name}")
    return ptx


def _compiled(library: ctypes.CDLL, source: str, flags: tuple[str, ...], name: str) -> str:
    program = ctypes.c_void_p()
    _call(library, "nvrtcCreateProgram", ctypes.byref(program), source.encode(),
          f"{name}.cu".encode(), 0, None, None)  # fmt: skip
    try:
        given = (ctypes.c_char_p * len(flags))(*[x.encode() for x in flags])
        if library.nvrtcCompileProgram(program, len(flags), given):
            raise CompilerError(
                f"code: NVRTC does not take {name}",
                got=_text(library, "nvrtcGetProgramLog", program),
                fix=f"the text is compiled with {' '.join(flags)}",
            )
        return _text(library, "nvrtcGetPTX", program)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _call(library: ctypes.CDLL, function: str, *args: Any) -> None:
    code = getattr(library, function)(*args)
    if code:
        raise CompilerError(f"code: {function} failed", got=f"code {code}", fix="another NVRTC")


def _text(library: ctypes.CDLL, function: str, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    _call(library, f"{function}Size", program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    _call(library, function, program, buffer)
    return buffer.value.decode("utf-8", "replace").strip()


def _capability() -> int:
    from functrax.backends.cuda.choice import gpu

    return int(gpu().capability)


@cache
def _nvrtc() -> ctypes.CDLL | None:
    """NVRTC, of the system or of NVIDIA's package for Python."""
    found = ctypes.util.find_library("nvrtc")
    places = [*([found] if found else []), "libnvrtc.so", "libnvrtc.so.12", "libnvrtc.so.13"]
    for folder in sys.path:
        pattern = os.path.join(glob.escape(folder), "nvidia", "*", "lib", "libnvrtc.so*")
        places += sorted(glob.glob(pattern))
    for place in places:
        try:
            return ctypes.CDLL(place)
        except OSError:
            continue
    return None
