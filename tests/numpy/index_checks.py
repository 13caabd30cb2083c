"""Derivatives against central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import functrax
import functrax.numpy as jnp


def assert_gradient(f: Callable[..., Any], *args: np.ndarray[Any, Any], seed: int = 0) -> None:
    """Reverse and forward mode of a weighted sum of ``f`` agree with central differences."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=np.shape(f(*args))).astype("f4")
    directions = [rng.normal(size=x.shape).astype("f4") for x in args]

    def total(*xs: Any) -> Any:
        return jnp.sum(f(*xs) * weights)

    step = np.float32(2.0**-5)
    ahead = float(total(*[x + step * d for x, d in zip(args, directions, strict=True)]))
    behind = float(total(*[x - step * d for x, d in zip(args, directions, strict=True)]))
    expected = (ahead - behind) / (2 * float(step))
    _, forward = functrax.jvp(total, args, tuple(directions))
    gradients = functrax.grad(total, argnums=tuple(range(len(args))))(*args)
    backward = sum(float(np.vdot(g, d)) for g, d in zip(gradients, directions, strict=True))
    scale = 1 + abs(expected)
    assert abs(float(forward) - expected) < 2e-2 * scale, (float(forward), expected)
    assert abs(backward - float(forward)) < 1e-4 * scale, (backward, float(forward))
