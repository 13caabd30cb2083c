"""Derivatives that the author gives: ``custom_jvp`` and ``custom_vjp``, and what they are good for.

    python examples/custom_rules.py

1. ``log1pexp``: the chain rule is right on paper, and ∞/∞ in floating point.
2. ``root``: the inverse of a function, found by Newton's loop; its derivative needs no loop.
3. ``clipped``: the identity, whose cotangents are cut to an interval.
4. ``arctan2`` of two arguments, with one rule for each (``defjvps``).
5. ``straight_through``: rounding, which has slope 0 everywhere, trained as if it had slope 1.

A rule is made of functions that are differentiable themselves, so second derivatives need nothing
more: the tables below compare first and second ones with the exact answers, in float64.
"""

from __future__ import annotations

import functools
import math

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax import lax

# ---- a rule for numbers: log(1 + eˣ) ------------------------------------------------------------


def naive_log1pexp(x):
    return jnp.log(1 + jnp.exp(x))


@functrax.custom_jvp
def log1pexp(x):
    """log(1 + eˣ), with a derivative that does not overflow: the logistic function."""
    return jnp.logaddexp(x, 0.0)


@log1pexp.defjvp
def _log1pexp_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return log1pexp(x), dx / (1 + jnp.exp(-x))


# ---- a rule for a loop: an inverse function -----------------------------------------------------


@functools.partial(functrax.custom_jvp, nondiff_argnums=(0,))
def root(f, y, guess):
    """The x with f(x) = y, by Newton's method; f is increasing."""

    def unfinished(state):
        x, step, count = state
        return (jnp.abs(step) > 1e-14 * (1 + jnp.abs(x))) & (count < 100)

    def newton(state):
        x, _, count = state
        step = (f(x) - y) / functrax.grad(f)(x)
        return x - step, step, count + 1

    return lax.while_loop(unfinished, newton, (guess, jnp.ones_like(guess), 0))[0]


@root.defjvp
def _root_jvp(f, primals, tangents):
    """dx = dy / f'(x); the guess has no say in the answer."""
    y, guess = primals
    x = root(f, y, guess)
    return x, tangents[0] / functrax.grad(f)(x)


def lambert(y):
    """Lambert's W, the inverse of x eˣ, for y > 0."""
    return root(lambda x: x * jnp.exp(x), y, jnp.log1p(y))


# ---- rules for the way back ---------------------------------------------------------------------


@functools.partial(functrax.custom_vjp, nondiff_argnums=(0, 1))
def clipped(low, high, x):
    """x; the cotangent that arrives is kept within [low, high]."""
    return x


clipped.defvjp(
    lambda low, high, x: (x, None),
    lambda low, high, _, ct: (jnp.clip(ct, low, high),),
)


@functrax.custom_vjp
def straight_through(x):
    """The nearest integer; the cotangent passes as if nothing had been done."""
    return jnp.round(x)


straight_through.defvjp(lambda x: (jnp.round(x), None), lambda _, ct: (ct,))

# ---- one rule for each argument -----------------------------------------------------------------


@functrax.custom_jvp
def angle(y, x):
    return jnp.arctan2(y, x)


angle.defjvps(
    lambda dy, out, y, x: dy * x / (x * x + y * y),
    lambda dx, out, y, x: -dx * y / (x * x + y * y),
)

# ---- the tables ---------------------------------------------------------------------------------


def numbers():
    """Rows (what, found, exact)."""
    first, second = functrax.grad(log1pexp), functrax.grad(functrax.grad(log1pexp))
    s = 1 / (1 + math.exp(-1.0))
    yield "log1pexp'(1)", first(1.0), s
    yield "log1pexp''(1)", second(1.0), s * (1 - s)
    yield "log1pexp'(1000)", first(1000.0), 1.0
    yield "log1pexp''(1000)", second(1000.0), 0.0

    w = 0.5671432904097838  # the omega constant: W(1)
    slope = 1 / (math.exp(w) * (1 + w))
    bend = -(2 + w) * math.exp(-2 * w) / (1 + w) ** 3
    yield "W(1)", lambert(1.0), w
    yield "W'(1)", functrax.grad(lambert)(1.0), slope
    yield "W''(1)", functrax.grad(functrax.grad(lambert))(1.0), bend
    yield "W''(1), forward twice", functrax.jacfwd(functrax.jacfwd(lambert))(1.0), bend
    w3 = functrax.jit(functrax.vmap(functrax.grad(lambert)))(jnp.array([1.0, math.e]))
    yield "W' of an array, jit and vmap", w3, [slope, 1 / (2 * math.e)]

    def steep(x):
        return jnp.sum(clipped(-1.0, 1.0, x) ** 3)

    x = jnp.array([0.1, 2.0])
    yield "Σ x³ with clipped cotangents", functrax.grad(steep)(x), [0.03, 1.0]
    by_hand = functrax.jacrev(functrax.grad(steep))(x)
    yield "its second derivatives", by_hand, [[0.6, 0.0], [0.0, 0.0]]
    yield "angle' at (y, x) = (1, 2)", functrax.grad(angle, (0, 1))(1.0, 2.0), [0.4, -0.2]
    mixed = functrax.hessian(lambda p: angle(p[0], p[1]))(jnp.array([1.0, 2.0]))
    yield "angle''", mixed, [[-4 / 25, -3 / 25], [-3 / 25, 4 / 25]]


def quantised_fit(steps=50):
    """Fit round(a) · x to data of slope 3: the loss before and after, and the slope found."""
    x = jnp.linspace(0.0, 1.0, 20)
    y = 3.0 * x

    def loss(a):
        return jnp.mean((straight_through(a) * x - y) ** 2)

    step = functrax.jit(lambda a: a - 0.3 * functrax.grad(loss)(a))
    a = jnp.array(-4.2)
    for _ in range(steps):
        a = step(a)
    return float(loss(-4.2)), float(loss(a)), float(jnp.round(a))


def main():
    with functrax.enable_x64(True):
        naive = functrax.grad(naive_log1pexp)(1000.0)
        print(f"log(1 + eˣ) by the chain rule at 1000: slope {naive}; with a rule of its own:")
        for what, found, exact in numbers():
            found = np.asarray(found)
            error = np.max(np.abs(found - np.asarray(exact)))
            shown = np.array2string(found, precision=6, suppress_small=True).replace("\n", "")
            print(f"  {what:30} {shown:34} error {error:.0e}")
        before, after, slope = quantised_fit()
        print(f"a rounded slope, trained straight through: {slope:.0f}")
        print(f"loss: {before:.6f} -> {after:.6f}")


if __name__ == "__main__":
    main()
