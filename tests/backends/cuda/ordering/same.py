"""Functions that sort, on the simulated GPU, the CPU and the reference device: the same bits."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import functrax
from functrax.core.types import dtypes
from tests.backends.cuda.compared import kernels, on_the_gpu, results

#: Of every kind of number that kernels compute with.
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
#: Numbers whose order is easily mistaken: zeros, infinities, and what is taken for 0.
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1e-310, -1e-310, 6e-8, -6e-8, 1.0)


def check(f: Callable[..., Any], *args: Any) -> None:
    """Compare what a function gives on the GPU with the CPU and the reference: bits, but of NaN."""
    with on_the_gpu():
        ours = results(f, args)
    for backend in ("llvm", "interp"):
        with functrax.backend(backend):
            theirs = results(f, args)
        for x, y in zip(ours, theirs, strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            assert bits(x) == bits(y), backend


def bits(x: Any) -> bytes:
    """The bytes of an array in which all NaN are one."""
    parts = np.ravel(x)
    if x.dtype.kind == "c":
        parts = parts.view(f"f{x.dtype.itemsize // 2}")
    return np.where(parts == parts, parts, parts.dtype.type(0)).tobytes()


def numbers(rng: np.random.Generator, shape: Sequence[int], name: str) -> Any:
    """Numbers of a dtype with ties, and special ones among floats."""
    dtype = dtypes.as_dtype(name)
    if dtype.kind == "c":
        real, imag = (numbers(rng, shape, f"float{4 * dtype.itemsize}") for _ in range(2))
        return (real + 1j * np.where(np.isfinite(imag), imag, 0)).astype(dtype)
    found = np.round(rng.normal(size=shape) * 4, 1)
    if dtypes.is_float(dtype):
        found = np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, size=shape), found)
    if dtype.kind in "bu":
        found = np.maximum(found, 0)
    with np.errstate(all="ignore"):
        return found.astype(dtype)


def kinds(f: Callable[..., Any], *args: Any) -> list[str]:
    """The rewrite that each kernel of a sort begins with."""
    loops = [k.loops for k in kernels(f, *args) if k.name in ("sort", "top_k")]
    return re.findall(r"schedule:\s+(\w+)", "\n".join(loops))
