"""A tour of derivatives: each transformation once, beside the answer found with a pencil.

    python examples/autodiff_tour.py

Every stop of the tour is a function that returns rows ``(what, found, exact)``; ``main`` prints
them.  Start with ``gradients``: ``grad`` makes a function of a function, so whatever it makes can
be differentiated, vectorised, or compiled again.  All numbers are float64.
"""

from __future__ import annotations

import math

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax import lax


def gradients():
    """``grad`` of scalars, as often as one likes; of parts of a tree; with the value beside it."""
    slope = functrax.grad(jnp.tanh)
    third = functrax.grad(functrax.grad(slope))
    t = math.tanh(0.5)
    yield "tanh'(0.5)", slope(0.5), 1 - t * t
    yield "tanh'''(0.5)", third(0.5), (1 - t * t) * (6 * t * t - 2)

    def energy(state, stiffness):
        return 0.5 * stiffness * jnp.sum(state["x"] ** 2) + 0.5 * jnp.sum(state["v"] ** 2)

    state = {"x": jnp.array([1.0, 2.0]), "v": jnp.array([3.0])}
    value, (by_state, by_stiffness) = functrax.value_and_grad(energy, argnums=(0, 1))(state, 4.0)
    yield "energy", value, 0.5 * 4 * 5 + 0.5 * 9
    yield "d energy / dx", by_state["x"], [4.0, 8.0]
    yield "d energy / dv", by_state["v"], [3.0]
    yield "d energy / d stiffness", by_stiffness, 2.5


def polar(p):
    """(r, θ) -> (x, y)."""
    r, angle = p
    return jnp.array([r * jnp.cos(angle), r * jnp.sin(angle)])


def jacobians():
    """Forward (``jvp``: a column) and reverse (``vjp``: a row), whole, and a linear map to keep."""
    p = jnp.array([2.0, 0.6])
    c, s = math.cos(0.6), math.sin(0.6)
    exact = np.array([[c, -2 * s], [s, 2 * c]])
    value, column = functrax.jvp(polar, (p,), (jnp.array([0.0, 1.0]),))
    yield "polar(2, 0.6)", value, [2 * c, 2 * s]
    yield "jvp along θ", column, exact[:, 1]
    _, pull = functrax.vjp(polar, p)
    yield "vjp of y", pull(jnp.array([0.0, 1.0]))[0], exact[1]
    yield "jacfwd", functrax.jacfwd(polar)(p), exact
    yield "jacrev", functrax.jacrev(polar)(p), exact
    yield "area element det J = r", jnp.linalg.det(functrax.jacfwd(polar)(p)), 2.0
    _, push = functrax.linearize(polar, p)  # runs polar once; push may be used many times
    yield "vmap of linearize", functrax.vmap(push)(jnp.eye(2)).T, exact


def second_derivatives():
    """``hessian``, and Laplace's operator of a harmonic function."""

    def rosenbrock(x):
        return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    yield "Hessian at (1, 1)", functrax.hessian(rosenbrock)(jnp.ones(2)), [[802, -400], [-400, 200]]

    def potential(x):
        return 1 / jnp.linalg.norm(x)

    x = jnp.array([1.0, -2.0, 0.5])
    yield "Laplacian of 1/|x|", jnp.trace(functrax.hessian(potential)(x)), 0.0


def through_programs():
    """Loops and branches: Python's where the values are known, ``lax``'s under ``jit`` too."""

    def power(x, n):
        result = 1.0
        for _ in range(n):
            result = result * x
        return result

    yield "a Python loop: d x^5 at 2", functrax.grad(power)(2.0, 5), 80.0

    def babylonian(a):
        """√a by Heron's rule, until two steps agree."""

        def unfinished(pair):
            return jnp.abs(pair[0] - pair[1]) > 1e-12

        def step(pair):
            return pair[1], 0.5 * (pair[1] + a / pair[1])

        return lax.while_loop(unfinished, step, (a, 0.5 * (1 + a)))[1]

    root = functrax.jit(functrax.jacfwd(babylonian))
    yield "forward mode through while_loop", root(9.0), 1 / 6
    root = functrax.jit(functrax.grad(babylonian))  # JAX has no reverse mode of while_loop
    yield "reverse mode through while_loop", root(9.0), 1 / 6

    def collatz_like(x):
        return lax.cond(x > 1, lambda x: 3 * x + x**2, lambda x: x / 2, x)

    yield (
        "both branches",
        functrax.vmap(functrax.grad(collatz_like))(jnp.array([0.5, 2.0])),
        [0.5, 7],
    )

    def geometric(x):
        return lax.fori_loop(0, 200, lambda _, total: 1 + x * total, 0.0)

    yield "1 + x + x² + … at 0.5", functrax.grad(geometric)(0.5), 4.0


def constants_and_signs():
    """What is held constant, complex numbers, and slopes at kinks."""
    yield "stop_gradient", functrax.grad(lambda x: x * lax.stop_gradient(x))(3.0), 3.0
    derivative = functrax.grad(lambda z: z**3, holomorphic=True)
    yield "holomorphic", derivative(1 + 2j), 3 * (1 + 2j) ** 2
    safe = functrax.grad(lambda x: jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0))
    yield "√ kept from 0 by two wheres", safe(0.0), 0.0


def vectorised():
    """Derivatives at many points in one program; eˣ is its own derivative."""
    points = jnp.linspace(-1.0, 1.0, 5)
    nth = jnp.exp
    for order in range(4):
        name = "exp" + "'" * order + " of five points"
        yield name, functrax.jit(functrax.vmap(nth))(points), np.exp(points)
        nth = functrax.grad(nth)


STOPS = gradients, jacobians, second_derivatives, through_programs, constants_and_signs, vectorised


def text(value):
    return np.array2string(np.asarray(value), precision=4, suppress_small=True).replace("\n", "")


def main():
    with functrax.enable_x64(True):
        for stop in STOPS:
            print(stop.__doc__.replace("``", ""))
            for what, found, exact in stop():
                error = np.max(np.abs(np.asarray(found) - np.asarray(exact)))
                print(f"  {what:32} {text(found):44} error {error:.0e}")
        print("\nWhat is traced: the program of tanh'")
        print(functrax.make_jaxpr(functrax.grad(jnp.tanh))(0.5))


if __name__ == "__main__":
    main()
