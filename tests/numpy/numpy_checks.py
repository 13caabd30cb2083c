"""One call, made with NumPy, with functrax, and with functrax under ``jit``: the results agree."""

from __future__ import annotations

from typing import Any

import numpy as np

import functrax
import functrax.numpy as jnp


def leaves(x: Any) -> list[Any]:
    """The arrays of a result that may be a tuple or a list."""
    return [np.asarray(leaf) for leaf in (x if isinstance(x, (tuple, list)) else [x])]


def agree(got: Any, wanted: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """The same shapes and values; dtypes may be narrower than NumPy's."""
    mine, theirs = leaves(got), leaves(wanted)
    assert len(mine) == len(theirs)
    for x, y in zip(mine, theirs, strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(x.astype(y.dtype), y, rtol=rtol, atol=atol)


def check(name: str, *args: Any, under_jit: bool = True, **kwargs: Any) -> None:
    """Compare ``functrax.numpy.name`` with ``numpy.name``; NumPy arrays are what jit traces."""
    wanted = getattr(np, name)(*args, **kwargs)
    function = getattr(jnp, name)
    agree(function(*args, **kwargs), wanted)
    if not under_jit:
        return
    traced = [isinstance(x, np.ndarray) for x in args]

    def call(*arrays: Any) -> Any:
        given = iter(arrays)
        return function(
            *(next(given) if t else x for x, t in zip(args, traced, strict=True)), **kwargs
        )

    arrays = [x for x, t in zip(args, traced, strict=True) if t]
    agree(functrax.jit(call)(*arrays), wanted)
