"""Programs that are compiled ahead of time in tests: functions, and arguments for them.

Start at :data:`PROGRAMS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.core.options.config import Override


def _normal(seed: int, *shapes: tuple[int, ...]) -> list[Any]:
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


# ---- a perceptron ------------------------------------------------------------------------------


def loss(params: dict[str, Any], x: Any, y: Any) -> Any:
    """The mean square of what a perceptron is off."""
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    return jnp.mean((hidden @ params["w2"] + params["b2"] - y) ** 2)


def perceptron(width: int = 32, batch: int = 8) -> tuple[Any, ...]:
    """Arguments of :func:`loss`."""
    w1, b1, w2, b2, x, y = _normal(
        0, (16, width), (width,), (width, 4), (4,), (batch, 16), (batch, 4)
    )
    return {"w1": w1, "b1": b1, "w2": w2, "b2": b2}, x, y


# ---- a step of a WGAN-GP ------------------------------------------------------------------------


def critic(params: Any, x: Any) -> Any:
    """How real a sample is."""
    (w1, b1), (w2, b2) = params
    return jnp.squeeze(jnp.tanh(x @ w1 + b1) @ w2 + b2, -1)


def wgan_step(params: Any, moments: Any, real: Any, fake: Any, key: Any) -> Any:
    """A step of the critic's: the gradient of a loss that has a gradient in it, and momentum."""

    def objective(params: Any) -> Any:
        t = functrax.random.uniform(key, (real.shape[0], 1))
        mixed = t * real + (1 - t) * fake
        slopes = functrax.vmap(functrax.grad(critic, argnums=1), (None, 0))(params, mixed)
        penalty = jnp.mean((jnp.sqrt(jnp.sum(slopes**2, -1) + 1e-12) - 1) ** 2)
        return jnp.mean(critic(params, fake)) - jnp.mean(critic(params, real)) + 10 * penalty

    value, slopes = functrax.value_and_grad(objective)(params)
    moments = functrax.tree.map(lambda m, g: 0.9 * m + g, moments, slopes)
    return functrax.tree.map(lambda p, m: p - 1e-3 * m, params, moments), moments, value


def wgan() -> tuple[Any, ...]:
    """Arguments of :func:`wgan_step`."""
    w1, b1, w2, b2, real, fake = _normal(1, (6, 24), (24,), (24, 1), (1,), (16, 6), (16, 6))
    params = ((w1, b1), (w2, b2))
    return params, functrax.tree.map(np.zeros_like, params), real, fake, functrax.random.PRNGKey(3)


# ---- loops --------------------------------------------------------------------------------------


def lstm(params: Any, xs: Any) -> Any:
    """The last state and all outputs of an LSTM over a sequence."""
    w, u, b = params
    size = u.shape[0]

    def step(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x @ w + h @ u + b, 4, axis=-1)
        c = functrax.nn.sigmoid(f) * c + functrax.nn.sigmoid(i) * jnp.tanh(g)
        h = functrax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((xs.shape[1], size), xs.dtype)
    return lax.scan(step, (zero, zero), xs)


def lstm_slopes(params: Any, xs: Any) -> Any:
    """Its gradient."""
    return functrax.grad(lambda p: jnp.sum(lstm(p, xs)[1] ** 2))(params)


def lstm_args() -> tuple[Any, ...]:
    """Arguments of :func:`lstm`."""
    w, u, b, xs = _normal(2, (5, 32), (8, 32), (32,), (11, 3, 5))
    return (w, u, b), xs


def newton(a: Any) -> Any:
    """Square roots, until all are exact enough; and how many rounds that took."""

    def goes_on(state: Any) -> Any:
        x, n = state
        return (jnp.max(jnp.abs(x * x - a)) > 1e-3) & (n < 50)

    def step(state: Any) -> Any:
        x, n = state
        return 0.5 * (x + a / x), n + 1

    return lax.while_loop(goes_on, step, (a, jnp.int32(0)))


def ode(theta: Any, y0: Any) -> Any:
    """How the end of a pendulum's way depends on its parameters: Runge-Kutta, by a scan."""

    def final(theta: Any) -> Any:
        def slope(y: Any) -> Any:
            return jnp.stack([y[1], -theta[0] * jnp.sin(y[0]) - theta[1] * y[1]])

        def step(y: Any, _: Any) -> Any:
            h = 0.02
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + h / 2 * k2)
            k4 = slope(y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            return y, y

        end, way = lax.scan(step, y0, None, length=101)
        return jnp.sum(end**2) + jnp.mean(way)

    return functrax.value_and_grad(final)(theta)


def chosen(k: Any, x: Any) -> Any:
    """One of three functions, which is a loop for one of them; and of two."""
    many = lax.switch(
        k,
        [
            lambda x: jnp.sin(x) + jnp.sum(x),
            lambda x: lax.fori_loop(0, 7, lambda n, x: jnp.roll(x, 1) * 0.5 + n, x),
            lambda x: x,
        ],
        x,
    )
    return lax.cond(jnp.sum(x) > 0, lambda x: (x * 2, x), lambda x: (x, x + 1), many)


def nested(x: Any) -> Any:
    """A loop that ends by a condition inside of one that is counted, backwards."""

    def outer(carry: Any, row: Any) -> Any:
        total, kept = carry
        total, n = lax.while_loop(
            lambda s: (jnp.sum(s[0]) < 50) & (s[1] < 9),
            lambda s: (s[0] + jnp.abs(row) + jnp.roll(s[0], 1) * 0.1, s[1] + 1),
            (total * 0.1, jnp.int32(0)),
        )
        return (total, kept), (n, jnp.outer(total, row))

    return lax.scan(outer, (x[0] * 0, x[1]), x, reverse=True)


# ---- types and shapes ---------------------------------------------------------------------------


def kinds(half: Any, brain: Any, flags: Any, z: Any, n: Any, key: Any) -> Any:
    """All kinds of elements, arrays without elements, results that are arguments or constants."""
    fresh = functrax.random.normal(key, (5,))
    return {
        "half": half * 2 + 1,
        "brain": jnp.cumsum(brain),
        "flags": ~flags,
        "z": z * jnp.conj(z) + 1j,
        "n": n // 3,
        "same": half,
        "again": (n, n),
        "fresh": fresh,
        "nothing": jnp.sum(jnp.zeros((0, 3)) * n[0], 0) + jnp.zeros(3),
        "empty": jnp.zeros((0, 3)) + 1,
        "constant": jnp.asarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
    }


def kinds_args() -> tuple[Any, ...]:
    """Arguments of :func:`kinds`."""
    half, brain, re, im = _normal(4, (7,), (9,), (4, 3), (4, 3))
    return (
        half.astype(np.float16),
        jnp.asarray(brain, jnp.bfloat16),
        np.arange(5) % 2 == 0,
        (re + 1j * im).astype(np.complex64),
        np.arange(-4, 4, dtype=np.int32),
        functrax.random.PRNGKey(1),
    )


def tiny(x: Any) -> Any:
    """What comes out as a subnormal number, or goes in as one."""
    return x * 1e-5, x * 1e5


def swapped(x: Any, y: Any) -> Any:
    """Results that are arguments, beside such as may be in their memory."""
    return x, x + 1, y * 2, y + x


def products(x: Any) -> Any:
    """Large enough for threads to share."""
    return jnp.sum(jnp.tanh(x @ x), 0), x @ x.T, jnp.exp(x) + 1


#: Functions and arguments by name.
PROGRAMS: Final[dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]]] = {
    "loss": (loss, perceptron),
    "slopes": (functrax.value_and_grad(loss), perceptron),
    "curvature": (
        lambda p, x, y: functrax.jvp(
            functrax.grad(lambda p: loss(p, x, y)), (p,), (functrax.tree.map(jnp.ones_like, p),)
        ),
        perceptron,
    ),
    "wgan_step": (wgan_step, wgan),
    "lstm": (lstm, lstm_args),
    "lstm_slopes": (lstm_slopes, lstm_args),
    "newton": (newton, lambda: (np.linspace(0.5, 30, 10, dtype=np.float32),)),
    "ode": (ode, lambda: (np.float32([9.8, 0.1]), np.float32([0.5, 0.0]))),
    "chosen": (chosen, lambda: (np.int32(1), _normal(5, (6,))[0])),
    "chosen_last": (chosen, lambda: (np.int32(9), _normal(5, (6,))[0])),
    "chosen_first": (chosen, lambda: (np.int32(-3), -np.ones(6, np.float32))),
    "nested": (nested, lambda: (_normal(6, (5, 4))[0],)),
    "kinds": (kinds, kinds_args),
    "tiny": (tiny, lambda: (np.float32([1e-37, 1e-40, 1.0]),)),
    "swapped": (swapped, lambda: (np.arange(4.0, dtype=np.float32), np.ones(4, np.float32))),
    "products": (products, lambda: (_normal(7, (200, 200))[0] / 20,)),
}


def compiled_results(function: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
    """The leaves of what a jitted function gives, compiled, whatever the backend of the tests."""
    with Override("backend", "llvm"):
        return [np.asarray(x) for x in functrax.tree.leaves(functrax.jit(function)(*args))]


def reference_results(function: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
    """The same by the reference, which defines what programs mean."""
    with Override("backend", "interp"):
        return [np.asarray(x) for x in functrax.tree.leaves(functrax.jit(function)(*args))]
