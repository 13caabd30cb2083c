"""Tracing a function with arrays of about a number of elements, and what it costs.

A case is a function with arguments.  Those are letters of a string, one for each array:

    v  float32[n]     i  int32[n]     b  bool[n]     u  uint8[n]     c  complex64[n]
    m  float32[r,r]   o  complex64[r,r]              h  int32[r,r]   with r * r about n
    l  float32[8,n/8] t  float32[n/8,8]
    s  float32[]      j  int32[]      e  float32[5]  g  a key        d  float32[3,3]
    y  int32[5]       x  float32[5,5]
"""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
import math
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import functrax
import functrax.numpy as jnp
from functrax import ShapeDtypeStruct

_MODULES = (
    "numpy lax nn nn.initializers numpy.fft numpy.linalg scipy.special scipy.linalg scipy.signal "
    "scipy.stats scipy.ndimage scipy.fft scipy.integrate scipy.cluster.vq random image ops"
)
_OF_DISTRIBUTIONS = "cdf isf logcdf logpdf logpmf logsf pdf pmf ppf sf"


class Cost(NamedTuple):
    """Of one call: seconds, and the most bytes that were allocated at a time."""

    seconds: float
    bytes: int


def public_functions() -> list[str]:
    """The names of all public functions, ``"numpy.roll"``."""
    found = []
    for name in _MODULES.split() + [f"scipy.stats.{s}" for s in distributions()]:
        module = importlib.import_module(f"functrax.{name}")
        names = getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"]
        for n in names:
            x = getattr(module, n)
            if name.startswith("scipy.stats.") and n not in _OF_DISTRIBUTIONS.split():
                continue
            if callable(x) and not inspect.isclass(x) and _is_own(x, name):
                found.append(f"{name}.{n}")
    return sorted(found)


def distributions() -> list[str]:
    """The modules of probability distributions."""
    stats = importlib.import_module("functrax.scipy.stats")
    modules = [n for n, x in vars(stats).items() if inspect.ismodule(x)]
    return [n for n in modules if {"logpdf", "logpmf"} & set(dir(getattr(stats, n)))]


def _is_own(function: Any, module: str) -> bool:
    """Whether a module defines a function, or gives what is another's as its own."""
    of = getattr(function, "__module__", None) or ""
    top = module.split(".")[0]
    return of.startswith(f"functrax.{top}") or (
        of.startswith("functrax.") and module in ("lax", "numpy", "numpy.linalg", "random")
    )


def lookup(name: str) -> Callable[..., Any]:
    module, _, function = name.rpartition(".")
    return getattr(importlib.import_module(f"functrax.{module}"), function)


def arguments(letters: str, n: int) -> list[Any]:
    """Abstract arrays, of about ``n`` elements those that have many."""
    r = math.isqrt(n)
    shapes = {
        "v": ((n,), "float32"), "i": ((n,), "int32"), "b": ((n,), "bool"), "u": ((n,), "uint8"),
        "c": ((n,), "complex64"), "m": ((r, r), "float32"), "o": ((r, r), "complex64"),
        "h": ((r, r), "int32"), "l": ((8, n // 8), "float32"), "t": ((n // 8, 8), "float32"),
        "s": ((), "float32"), "j": ((), "int32"), "e": ((5,), "float32"),
        "d": ((3, 3), "float32"), "y": ((5,), "int32"), "x": ((5, 5), "float32"),
    }  # fmt: skip
    key = functools.partial(functrax.eval_shape, lambda: functrax.random.key(0))
    return [key() if letter == "g" else ShapeDtypeStruct(*shapes[letter]) for letter in letters]


def gradient(function: Callable[..., Any], args: list[Any]) -> Callable[..., Any] | None:
    """The gradient of the sum of the results, by all arguments that have one; None if none does."""
    wanted = [k for k, x in enumerate(args) if jnp.issubdtype(x.dtype, jnp.inexact)]
    out = functrax.tree.leaves(functrax.eval_shape(function, *args))
    if not wanted or not any(jnp.issubdtype(x.dtype, jnp.inexact) for x in out):
        return None

    def total(*args: Any) -> Any:
        leaves = functrax.tree.leaves(function(*args))
        return sum(jnp.sum(jnp.real(x)) for x in leaves if jnp.issubdtype(x.dtype, jnp.inexact))

    return functrax.grad(total, tuple(wanted), allow_int=True)


def cost(call: Callable[[], Any]) -> Cost:
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        start = time.perf_counter()
        call()
        taken = time.perf_counter() - start
        return Cost(taken, tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
