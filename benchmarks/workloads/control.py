"""Loops, random numbers, sorting and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.models import recurrent
from benchmarks.workload import Target, Workload, faster, floats

TITLE = "Control flow, random numbers, ordering"
LONG = recurrent.LONG


def count(jax: Any) -> Any:
    """100,000 dependent steps on one float."""
    return lambda x: jax.lax.fori_loop(0, 100_000, lambda i, v: v * 0.999 + 1.0, x)


def numba_count(numba: Any) -> Any:
    @numba.njit
    def steps(v):
        for _ in range(100_000):
            v = v * np.float32(0.999) + np.float32(1.0)
        return v

    return lambda x: np.float32(steps(x[()]))


def lorenz(jax: Any) -> Any:
    """1024 trajectories of 500 RK4 steps of dt = 0.01; the end points."""
    jnp = jax.numpy

    def slope(v):
        x, y, z = v[0], v[1], v[2]
        return jnp.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - (8.0 / 3.0) * z])

    def rk4(v, _):
        k1 = slope(v)
        k2 = slope(v + 0.005 * k1)
        k3 = slope(v + 0.005 * k2)
        k4 = slope(v + 0.01 * k3)
        return v + (0.01 / 6) * (k1 + 2 * k2 + 2 * k3 + k4), None

    return jax.vmap(lambda v: jax.lax.scan(rk4, v, None, length=500)[0])


def mandelbrot(jax: Any) -> Any:
    """How many of 100 iterations each of 512² points stays within |z| < 2."""
    jnp = jax.numpy

    def run(re, im):
        def body(_, state):
            x, y, n = state
            inside = x * x + y * y < 4
            new_x, new_y = x * x - y * y + re, 2 * x * y + im
            return (
                jnp.where(inside, new_x, x),
                jnp.where(inside, new_y, y),
                n + inside.astype(jnp.int32),
            )

        zeros = jnp.zeros_like(re)
        return jax.lax.fori_loop(0, 100, body, (zeros, zeros, zeros.astype(jnp.int32)))[2]

    return run


def numba_mandelbrot(numba: Any) -> Any:
    @numba.njit(parallel=True)
    def counts(re, im, out):
        for i in numba.prange(re.shape[0]):
            for j in range(re.shape[1]):
                x = y = np.float32(0)
                n = 0
                while n < 100 and x * x + y * y < np.float32(4):
                    x, y = x * x - y * y + re[i, j], np.float32(2) * x * y + im[i, j]
                    n += 1
                out[i, j] = n

    def run(re, im):
        out = np.empty(re.shape, np.int32)
        counts(re, im, out)
        return out

    return run


def mandelbrot_inputs() -> tuple[np.ndarray, ...]:
    re, im = np.meshgrid(np.linspace(-2, 0.6, 512), np.linspace(-1.3, 1.3, 512))
    return re.astype(np.float32), im.astype(np.float32)


def per_step(
    name: str,
    inputs: Callable[[], tuple[np.ndarray, ...]],
    scalar: Callable[[Any], Any],
    targets: tuple[Target, ...],
    **options: Any,
) -> tuple[Workload, Workload]:
    """A scan of many steps, forward and its gradient by all inputs, each stated per step."""
    count = len(inputs())

    def gradient(jax: Any) -> Any:
        return jax.grad(scalar(jax), argnums=tuple(range(count)))

    steps = len(inputs()[-1])
    shared = {"targets": targets, "per": steps, **options}
    return (
        Workload(f"scan of {name}, a step", inputs, scalar, **shared),
        Workload(f"scan of {name}, gradient, a step", inputs, gradient, **shared),
    )


def add_at(jax: Any) -> Any:
    """Adds into a carried array at one place per step."""

    def run(start, places):
        body = lambda carry, i: (carry.at[i].add(1.0), None)  # noqa: E731
        return jax.lax.scan(body, start, places)[0]

    return run


def numba_add_at(numba: Any) -> Any:
    @numba.njit
    def run(start, places):
        carry = start.copy()
        for i in places:
            carry[i] += np.float32(1)
        return carry

    return run


def place_inputs() -> tuple[np.ndarray, ...]:
    places = np.random.default_rng(0).integers(0, 1000, 10_000).astype(np.int32)
    return np.zeros(1000, np.float32), places


LOOPS = (
    Workload(
        "fori_loop, 100,000 scalar steps",
        lambda: (np.full((), 0.5, np.float32),),
        count,
        (faster(1.0),),
        {"numba": numba_count},
    ),
    Workload(
        "Lorenz RK4, vmap 1024 × 500 steps",
        floats((1024, 3)),
        lorenz,
        (faster(1.5),),
        tolerance=0.2,  # chaos: rounding grows by e^0.9 in a unit of time
    ),
    Workload(
        "Mandelbrot 512², 100 iterations",
        mandelbrot_inputs,
        mandelbrot,
        (faster(4),),
        {"numba": numba_mandelbrot},
        tolerance=2e-2,
    ),
    *per_step(
        "40×(sin, roll, add) on 32 floats",
        floats((32,), (50, 32)),
        recurrent.rolled,
        (faster(15),),
        tolerance=1e-2,
    ),
    *per_step(
        "LSTM-64", lambda: recurrent.lstm_inputs(LONG, 1, 64), recurrent.lstm, (faster(1.2),)
    ),
    *per_step(
        "RNN-64", floats((64, 64), (64, 64), (LONG, 64), scale=0.1), recurrent.rnn, (faster(1.2),)
    ),
    *per_step(
        "3×3 matmul", recurrent.product_inputs, recurrent.products, (faster(1.2),), tolerance=1e-2
    ),
    Workload(
        ".at[i].add into a carried [1000], a step",
        place_inputs,
        add_at,
        (faster(1.5),),
        {"numba": numba_add_at},
        per=10_000,
    ),
)

# ---- random numbers and ordering ----------------------------------------------------------------


def numpy_normal(np: Any) -> Any:
    rng = np.random.default_rng(0)
    return lambda _: rng.standard_normal((1024, 1000), np.float32)


def ordering(name: str, peers: dict[str, Any]) -> Workload:
    """``sort`` or ``argsort`` of a million floats without ties."""
    return Workload(
        f"{name} 1M",
        lambda: (np.random.default_rng(0).permutation(1_000_000).astype(np.float32),),
        lambda jax: getattr(jax.numpy, name),
        (faster(15), faster(0.8, "numpy")),
        peers,
        bytes=8e6,
    )


ORDERS = (
    Workload(
        "random.normal 1024×1000",
        lambda: (np.array([0, 42], np.uint32),),
        lambda jax: lambda key: jax.random.normal(key, (1024, 1000)),
        (faster(3),),
        {
            "torch": lambda torch, staged: staged(lambda _: torch.randn(1024, 1000)),
            "numpy": numpy_normal,
        },
        bytes=4 * 1024 * 1000,
        not_compared=frozenset({"torch", "inductor", "numpy"}),
    ),
    ordering(
        "sort",
        {
            "torch": lambda torch, staged: staged(lambda x: torch.sort(x).values),
            "numpy": lambda np: np.sort,
        },
    ),
    ordering(
        "argsort",
        {"torch": lambda torch, staged: staged(torch.argsort), "numpy": lambda np: np.argsort},
    ),
    Workload(
        "cumsum 1M",
        floats((1_000_000,)),
        lambda jax: jax.numpy.cumsum,
        (faster(5),),
        {
            "torch": lambda torch, staged: staged(lambda x: torch.cumsum(x, 0)),
            "numpy": lambda np: np.cumsum,
        },
        bytes=8e6,
    ),
)

ROWS = (*LOOPS, *ORDERS)
