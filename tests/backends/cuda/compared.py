"""Functions on the simulated GPU beside the CPU: values, dtypes, and the same bits on each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import functrax
from functrax.backends.cuda import choice


@contextmanager
def on_the_gpu() -> Iterator[None]:
    """Programs are compiled for the simulated GPU, and run there."""
    with pytest.MonkeyPatch.context() as patch, functrax.backend("cuda"):
        patch.setenv(choice.VARIABLE, "simulated")
        yield


def results(f: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
    """The arrays that a jitted function gives."""
    found = functrax.jit(lambda *x: f(*x))(*args)
    return [np.asarray(x) for x in functrax.tree.leaves(found)]


def check(f: Callable[..., Any], *args: Any, close: float = 1e-5) -> None:
    """Compare a function on the GPU with the CPU; what is no float has to be equal."""
    with on_the_gpu():
        ours, again = results(f, args), results(f, args)
    with functrax.backend("llvm"):
        theirs = results(f, args)
    for x, y, z in zip(ours, theirs, again, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert x.tobytes() == z.tobytes()
        if x.dtype.kind in "biu":
            np.testing.assert_array_equal(x, y)
        else:
            wide = np.complex128 if x.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(x.astype(wide), y.astype(wide), rtol=close, atol=close)


def kernels(f: Callable[..., Any], *args: Any) -> list[Any]:
    """The kernels of a function on the GPU."""
    with on_the_gpu():
        return list(functrax.explain(f)(*args).kernels)


def numbers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    """Small numbers of a dtype."""
    found = np.random.default_rng(seed).normal(size=shape) * 2
    return np.asarray(found > 0 if np.dtype(dtype) == np.bool_ else found).astype(dtype)
