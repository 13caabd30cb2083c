"""A training step with Adam (Kingma and Ba 2015), as one function of its whole state.

``train_step`` returns the loss, the new parameters and both moments.  The benchmarks call it with
the state of the first step again and again: the work is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.trees import map_leaves


def state(params: Any) -> tuple[Any, Any, Any]:
    """Parameters and zero moments."""
    zeros = map_leaves(np.zeros_like, params)
    return params, zeros, zeros


def update(
    jax: Any,
    params: Any,
    mean: Any,
    square: Any,
    grads: Any,
    rate: float,
    betas: tuple[float, float],
) -> tuple[Any, Any, Any]:
    """New parameters and moments after Adam's first step."""
    tree_map, sqrt = jax.tree_util.tree_map, jax.numpy.sqrt
    b1, b2 = betas
    mean = tree_map(lambda m, g: b1 * m + (1 - b1) * g, mean, grads)
    square = tree_map(lambda s, g: b2 * s + (1 - b2) * g * g, square, grads)
    params = tree_map(
        lambda p, m, s: p - rate / (1 - b1) * m / (sqrt(s / (1 - b2)) + 1e-8), params, mean, square
    )
    return params, mean, square


def train_step(
    jax: Any, loss: Callable[..., Any], rate: float, betas: tuple[float, float]
) -> Callable[..., Any]:
    """``step(params, mean, square, *batch)`` for a loss of the parameters and the batch."""

    def step(params: Any, mean: Any, square: Any, *batch: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, *batch)
        params, mean, square = update(jax, params, mean, square, grads, rate, betas)
        return value, params, mean

    return step
