"""Numerical oracles: functions written once for functrax and for NumPy, and finite differences.

:data:`FUNCTIONS` are functions of ``(xp, x)``, where ``xp`` is ``functrax.numpy`` or ``numpy`` and
``x`` a vector of :data:`SIZE` numbers.  :data:`TRANSFORMS` pairs each transformation with what it
means for a NumPy function, so that any nesting of transformations has an independent answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import functrax
import functrax.numpy as jnp

SIZE = 4
STEP = 1e-3
POINT = np.array([0.3, -0.7, 1.1, 0.6])
DIRECTION = np.array([0.5, 1.0, -0.25, 0.8])

MATRIX = np.arange(12.0).reshape(3, 4) / 10 - 0.5


def elementwise(xp: Any, x: Any) -> Any:
    return xp.sin(x) * xp.exp(0.3 * x) + xp.tanh(x) / (2.0 + x * x)


def matrix(xp: Any, x: Any) -> Any:
    y = xp.asarray(MATRIX) @ xp.tanh(x)
    return xp.concatenate([y * y, xp.dot(y, y).reshape(1) * x[:1]])


def indexing(xp: Any, x: Any) -> Any:
    y = x[::-1] * x[xp.asarray(np.array([2, 0, 2, 1]))]
    return xp.concatenate([y[1:] * x[0], (xp.cos(x[2]) * y[-1]).reshape(1)])


def products(xp: Any, x: Any) -> Any:
    m = x.reshape(2, 2)
    return xp.concatenate([xp.prod(m, axis=0), xp.max(m * m, axis=1) * xp.prod(x)])


def branches(xp: Any, x: Any) -> Any:
    return xp.where(x > 0.0, xp.sin(x) * x, xp.exp(x) - x * x * x)


def outer(xp: Any, x: Any) -> Any:
    m = xp.sin(x[:, None] * x[None, :])
    return xp.sum(m, axis=0) + xp.max(m, axis=1) * m[1]


def scalar(xp: Any, x: Any) -> Any:
    return xp.sum(xp.sin(x) * x[::-1]) ** 2


FUNCTIONS = (elementwise, matrix, indexing, products, branches, outer, scalar)


def weights(shape: tuple[int, ...]) -> Any:
    """Fixed weights, so that a sum of results has no accidental symmetry."""
    return np.cos(1.0 + np.arange(float(np.prod(shape)))).reshape(shape)


def directional(f: Callable[[Any], Any], x: Any, v: Any) -> Any:
    """The derivative of a NumPy function along ``v``, by central differences."""
    return (f(x + STEP * v) - f(x - STEP * v)) / (2 * STEP)


def jacobian(f: Callable[[Any], Any], x: Any) -> Any:
    """The Jacobian of a NumPy function of a vector, by central differences."""
    return np.stack([directional(f, x, e) for e in np.eye(x.size)], axis=-1)


def _gradient(f: Any) -> Any:
    def weighted(x: Any) -> Any:
        y = f(x)
        return jnp.sum(y * weights(y.shape))

    return functrax.grad(weighted)


def _numeric_gradient(f: Any) -> Any:
    return lambda x: np.tensordot(weights(f(x).shape), jacobian(f, x), f(x).ndim)


def _linearized(f: Any) -> Any:
    return lambda x: functrax.linearize(f, x)[1](jnp.asarray(DIRECTION))


def _with_custom_jvp(f: Any) -> Any:
    @functrax.custom_jvp
    def wrapped(x: Any) -> Any:
        return f(x)

    wrapped.defjvp(lambda primals, tangents: functrax.jvp(f, primals, tangents))
    return wrapped


def _with_custom_vjp(f: Any) -> Any:
    @functrax.custom_vjp
    def wrapped(x: Any) -> Any:
        return f(x)

    wrapped.defvjp(lambda x: (f(x), x), lambda x, ct: functrax.vjp(f, x)[1](ct))
    return wrapped


def _same(f: Any) -> Any:
    return f


#: name -> (the transformation, what it does to a NumPy function)
TRANSFORMS: dict[str, tuple[Any, Any]] = {
    "jit": (functrax.jit, _same),
    "named_call": (functrax.named_call, _same),
    "checkpoint": (functrax.checkpoint, _same),
    "custom_jvp": (_with_custom_jvp, _same),
    "custom_vjp": (_with_custom_vjp, _same),
    "grad": (_gradient, _numeric_gradient),
    "jacfwd": (functrax.jacfwd, lambda f: lambda x: jacobian(f, x)),
    "jvp": (
        lambda f: lambda x: functrax.jvp(f, (x,), (jnp.asarray(DIRECTION),))[1],
        lambda f: lambda x: directional(f, x, DIRECTION),
    ),
    "linearize": (_linearized, lambda f: lambda x: directional(f, x, DIRECTION)),
    "vmap": (
        lambda f: lambda x: functrax.vmap(f)(jnp.stack([x, 0.4 * x + 0.15])),
        lambda f: lambda x: np.stack([f(x), f(0.4 * x + 0.15)]),
    ),
}
FORWARD = {"jvp", "linearize", "jacfwd"}


def forward_over_custom_vjp(names: tuple[str, ...]) -> bool:
    """Whether forward mode meets a custom_vjp function; ``names`` goes from the inside out."""
    for i, name in enumerate(names):
        if name == "custom_vjp":
            for outer_name in names[i + 1 :]:
                if outer_name in FORWARD:
                    return True
                if outer_name in ("grad", "custom_vjp"):
                    break
    return False
