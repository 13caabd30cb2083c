"""Programs with loops and branches that a GPU decides by itself, which tests of graphs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax import lax
from tests.backends.cuda.graphs.programs import barrier, looped
from tests.backends.cuda.runtimes import X


def mixed(x: Any) -> Any:
    """Two kernels, of which the second needs all of the first."""
    return jnp.tanh(x @ x.T) @ x


def changing_places(x: Any) -> Any:
    """A loop with parts of its carry that change places, one that stays, and a counter."""

    def step(s: Any) -> Any:
        a, b, fixed, n = s
        return b, mixed(a) + fixed, fixed, n + 1

    return lax.while_loop(lambda s: s[-1] < 5, step, (x, x * 2, x * 3, 0))


def even(x: Any) -> Any:
    """As before, with an even number of steps."""

    def step(s: Any) -> Any:
        a, b, n = s
        return b * 0.5, mixed(a) + b, n + 1

    return lax.while_loop(lambda s: s[-1] < 4, step, (x, x * 2, 0))


def until(x: Any) -> Any:
    """A loop whose end follows from what is computed; its test has a kernel that reduces."""

    def step(s: Any) -> Any:
        return mixed(s[0]) * 1.5, s[1] + 1

    return lax.while_loop(lambda s: (jnp.abs(s[0]).sum() < 300) & (s[1] < 9), step, (x, 0))


def never(x: Any) -> Any:
    """A loop without a step, whose carry is given back."""
    return lax.while_loop(lambda s: s[1] < 0, lambda s: (mixed(s[0]), s[1] + 1), (x, 0))


def nested(x: Any) -> Any:
    """A loop in a loop, which takes as many steps as the outer one has taken."""

    def outer(s: Any) -> Any:
        def inner(t: Any) -> Any:
            return mixed(t[0]), t[1] + 1

        y, _ = lax.while_loop(lambda t: t[1] < s[1], inner, (s[0], 0))
        return y + s[0].max(), s[1] + 1

    return lax.while_loop(lambda s: s[1] < 4, outer, (x, 0))


def branches(x: Any, n: Any) -> Any:
    """Branches, one of which does nothing, and the number of one that may be out of bounds."""
    y = lax.switch(n, [mixed, lambda x: x, lambda x: mixed(x) + mixed(x * 2)], x)
    return lax.cond(y.sum() > 0, mixed, lambda x: x - x.max(), y), y


def looped_branches(x: Any) -> Any:
    """Branches in a loop, and a loop in one of them."""

    def inside(x: Any) -> Any:
        return lax.while_loop(lambda s: s[1] < 2, lambda s: (mixed(s[0]), s[1] + 1), (x, 0))[0]

    def step(s: Any) -> Any:
        y, n = s
        return lax.switch(n % 3, [inside, lambda x: x * 0.5, mixed], y), n + 1

    return lax.while_loop(lambda s: s[1] < 5, step, (x, 0))


def scanned_branches(x: Any) -> Any:
    """Branches in the body of a scan."""

    def body(c: Any, row: Any) -> Any:
        c = lax.cond(c.sum() > row.sum(), mixed, lambda c: c * 0.5 + row, c)
        return c, c.max()

    return lax.scan(body, x, x)


def slope(x: Any) -> Any:
    """The gradient of a scan with branches."""
    return functrax.grad(lambda x: scanned_branches(x)[1].sum())(x)


def around(x: Any) -> Any:
    """Kernels before a loop and after it, and some that do not need it."""
    a, b = barrier(x * 2), barrier(jnp.sin(x))
    y, _ = lax.while_loop(lambda s: s[1] < 3, lambda s: (mixed(s[0]) + b, s[1] + 1), (a, 0))
    return barrier(y - a), barrier(b.sum(0))


_PLACES = [np.int8(-3), np.int16(1), np.uint8(2), np.int32(99)]
#: A function, its arguments, and how many conditional nodes its graph has, with copies of carries.
DECIDED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "a loop": (looped, (X,), 1),
    "parts that change places": (changing_places, (X,), 1),
    "an even number of steps": (even, (X,), 1),
    "an end that is computed": (until, (X,), 1),
    "no step": (never, (X,), 1),
    "a loop in a loop": (nested, (X,), 2),
    **{f"branch {n!r}": (branches, (X, n), 2) for n in _PLACES},
    "branches in a loop": (looped_branches, (X,), 3),
    "branches in a scan": (scanned_branches, (X,), 3),
    "a gradient": (slope, (X,), 6),
    "before and after": (around, (X,), 1),
}
