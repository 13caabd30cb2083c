"""The overlap of pairs of boxes over their union: eight arrays of (100, 1000), all point-wise."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.models.torch_steps import gradients

SHAPE = (100, 1000)


def inputs() -> tuple[np.ndarray, ...]:
    """Corners and sizes of two sets of boxes, all positive."""
    rng = np.random.default_rng(0)
    return tuple(np.exp(rng.standard_normal(SHAPE, np.float32)) for _ in range(8))


def forward(jax: Any) -> Any:
    jnp = jax.numpy

    def ratio_iou(x1, y1, w1, h1, x2, y2, w2, h2):
        xi, yi = jnp.maximum(x1, x2), jnp.maximum(y1, y2)
        wi = jnp.maximum(jnp.minimum(x1 + w1, x2 + w2) - xi, 0)
        hi = jnp.maximum(jnp.minimum(y1 + h1, y2 + h2) - yi, 0)
        area_i = wi * hi
        area_u = w1 * h1 + w2 * h2 - wi * hi
        return area_i / jnp.maximum(area_u, 1e-5)

    return ratio_iou


def gradient(jax: Any) -> Any:
    f = forward(jax)
    return jax.grad(lambda *boxes: jax.numpy.sum(f(*boxes)), argnums=tuple(range(8)))


def torch_forward(torch: Any, staged: Any) -> Any:
    def ratio_iou(x1, y1, w1, h1, x2, y2, w2, h2):
        xi, yi = torch.max(x1, x2), torch.max(y1, y2)
        wi = torch.clamp(torch.min(x1 + w1, x2 + w2) - xi, min=0)
        hi = torch.clamp(torch.min(y1 + h1, y2 + h2) - yi, min=0)
        area_i = wi * hi
        area_u = w1 * h1 + w2 * h2 - wi * hi
        return area_i / torch.clamp(area_u, min=1e-5)

    return staged(ratio_iou)


def torch_gradient(torch: Any, staged: Any) -> Any:
    f = torch_forward(torch, lambda g: g)
    return gradients(torch, staged(lambda *boxes: f(*boxes).sum()), 8)


def numpy_forward(np: Any) -> Any:
    f32 = np.float32

    def ratio_iou(x1, y1, w1, h1, x2, y2, w2, h2):
        xi, yi = np.maximum(x1, x2), np.maximum(y1, y2)
        wi = np.maximum(np.minimum(x1 + w1, x2 + w2) - xi, f32(0))
        hi = np.maximum(np.minimum(y1 + h1, y2 + h2) - yi, f32(0))
        area_i = wi * hi
        area_u = w1 * h1 + w2 * h2 - wi * hi
        return area_i / np.maximum(area_u, f32(1e-5))

    return ratio_iou


def numba_forward(numba: Any) -> Any:
    @numba.njit(parallel=True, fastmath=False)
    def over_elements(x1, y1, w1, h1, x2, y2, w2, h2, out):
        for i in numba.prange(out.size):
            xi, yi = max(x1[i], x2[i]), max(y1[i], y2[i])
            wi = max(min(x1[i] + w1[i], x2[i] + w2[i]) - xi, np.float32(0))
            hi = max(min(y1[i] + h1[i], y2[i] + h2[i]) - yi, np.float32(0))
            area_i = wi * hi
            area_u = w1[i] * h1[i] + w2[i] * h2[i] - area_i
            out[i] = area_i / max(area_u, np.float32(1e-5))

    def ratio_iou(*boxes):
        out = np.empty(SHAPE, np.float32)
        over_elements(*[box.ravel() for box in boxes], out.ravel())
        return out

    return ratio_iou


def _drjit_function(dr: Any) -> Any:
    def ratio_iou(x1, y1, w1, h1, x2, y2, w2, h2):
        xi, yi = dr.maximum(x1, x2), dr.maximum(y1, y2)
        wi = dr.maximum(dr.minimum(x1 + w1, x2 + w2) - xi, 0)
        hi = dr.maximum(dr.minimum(y1 + h1, y2 + h2) - yi, 0)
        area_i = wi * hi
        area_u = w1 * h1 + w2 * h2 - wi * hi
        return area_i / dr.maximum(area_u, 1e-5)

    return ratio_iou


def drjit_forward(dr: Any) -> Any:
    return dr.freeze(_drjit_function(dr))


def drjit_gradient(dr: Any) -> Any:
    f = _drjit_function(dr)

    @dr.freeze
    def run(*boxes):
        boxes = [type(box)(dr.detach(box)) for box in boxes]
        dr.enable_grad(*boxes)
        dr.backward(dr.sum(f(*boxes)))
        return [dr.grad(box) for box in boxes]

    return run
