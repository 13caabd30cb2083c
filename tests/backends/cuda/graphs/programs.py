"""Programs that tests of graphs share, and what a driver was asked for."""

from __future__ import annotations

from typing import Any

import functrax.numpy as jnp
from functrax import lax

barrier = lax.optimization_barrier


def diamond(x: Any, y: Any) -> Any:
    """Kernels of which some need one another and others do not; temporaries use memory again."""
    a = barrier(x * 2 + y)
    b, c = barrier(jnp.tanh(a)), barrier(a.sum(0))
    d = barrier(b * c)
    e = barrier(d.sum(1))
    return barrier(d - b), e, barrier(jnp.sin(y) * 3)


def step(x: Any, y: Any) -> Any:
    """What may take the memory of its arguments: kernels read ``x`` before another writes it."""
    total = barrier((x @ y.T).sum(0))
    largest = barrier(x.max())
    return jnp.sin(x) * 0.5, barrier(largest * total), barrier(y + largest)


def in_place(x: Any, y: Any) -> Any:
    """Kernels that nothing orders but memory: where ``x`` is donated, the last writes into it."""
    return barrier(x @ x.T), barrier(x.T @ y), jnp.sin(x) * 0.5


def scanned(x: Any) -> Any:
    """A scan whose steps are several kernels, and copies of what changes places."""

    def body(c: Any, row: Any) -> Any:
        a, b = c
        a = jnp.tanh(a @ a.T) @ a + row
        return (b, a), a.sum(0)

    return lax.scan(body, (x, x * 2), x)


def looped(x: Any) -> Any:
    """A loop whose end the host reads; its body has several kernels."""

    def body(s: Any) -> Any:
        x, n = s
        y = barrier(x + x.sum(0))
        return barrier(jnp.tanh(y)) + barrier(y.max()), n + 1

    return lax.while_loop(lambda s: s[1] < 5, body, (x, 0))[0]


def with_the_host(x: Any) -> Any:
    """Kernels before and after a function of the host."""
    a = barrier(jnp.tanh(x * 2))
    b = barrier(a * 0.5 + a.max(1, keepdims=True))
    c = barrier(b * 0.1 + b.max(0))
    d = jnp.fft.fft(c).real * 0.1
    e = barrier(d * 2 + a)
    f = barrier(e.sum(0))
    return barrier(jnp.sin(e) + f), f
