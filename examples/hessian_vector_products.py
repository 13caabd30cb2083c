"""Products of a Hessian with vectors, without the Hessian: three ways, and three uses.

    python examples/hessian_vector_products.py [--width 12] [--seed 0]

The Hessian of n parameters has n² numbers, its product with a vector costs about two gradients
(Pearlmutter 1994).  The derivative of the gradient along v, ``jvp(grad(f))``, is forward mode over
reverse; the other two orders give the same numbers at other costs.  The uses here:

1. Newton's method with conjugate gradients: the step solves (H + damping) p = -g by products alone.
2. The trace and the diagonal, from random signs (Hutchinson 1990).
3. The largest eigenvalue, by Lanczos' method.

Everything is compared with the full Hessian of a small network, in float64.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax import lax, random
from functrax.flatten_util import ravel_pytree

# ---- the products -------------------------------------------------------------------------------


def forward_over_reverse(f, x, v):
    return functrax.jvp(functrax.grad(f), (x,), (v,))[1]


def reverse_over_forward(f, x, v):
    return functrax.grad(lambda x: functrax.jvp(f, (x,), (v,))[1])(x)


def reverse_over_reverse(f, x, v):
    return functrax.grad(lambda x: jnp.vdot(functrax.grad(f)(x), v))(x)


PRODUCTS = forward_over_reverse, reverse_over_forward, reverse_over_reverse

# ---- the uses -----------------------------------------------------------------------------------


def conjugate_gradients(product, b, tolerance=1e-8, limit=200):
    """x with product(x) = b, for a positive definite map (Hestenes and Stiefel 1952)."""

    def unfinished(state):
        _, _, _, square, steps = state
        return (square > tolerance**2 * jnp.vdot(b, b)) & (steps < limit)

    def step(state):
        x, r, p, square, steps = state
        q = product(p)
        alpha = square / jnp.vdot(p, q)
        x, r = x + alpha * p, r - alpha * q
        new = jnp.vdot(r, r)
        return x, r, r + new / square * p, new, steps + 1

    start = jnp.zeros_like(b), b, b, jnp.vdot(b, b), 0
    return lax.while_loop(unfinished, step, start)[0]


def newton_step(f, x, damping):
    """x + p, with (H + damping) p = -g; one trace of the gradient serves every product."""
    g, push = functrax.linearize(functrax.grad(f), x)
    return x + conjugate_gradients(lambda v: push(v) + damping * v, -g)


def hutchinson(f, x, key, samples):
    """Estimates of the Hessian's diagonal and of its trace: means of z · Hz over random signs."""
    signs = random.rademacher(key, (samples, len(x)), dtype=x.dtype)
    products = functrax.vmap(lambda z: z * forward_over_reverse(f, x, z))(signs)
    diagonal = jnp.mean(products, axis=0)
    return diagonal, jnp.sum(diagonal)


def lanczos(f, x, key, steps):
    """The largest eigenvalue of the Hessian, from the tridiagonal matrix of a Krylov space.

    Each vector is made orthogonal to all before it, as rounding would otherwise undo it.
    """
    start = random.normal(key, x.shape, dtype=x.dtype)
    basis = jnp.zeros((steps + 1, len(x)), x.dtype).at[0].set(start / jnp.linalg.norm(start))

    def step(basis, k):
        w = forward_over_reverse(f, x, basis[k])
        row = basis @ w
        w = w - row @ basis
        w = w - (basis @ w) @ basis
        norm = jnp.linalg.norm(w)
        return basis.at[k + 1].set(w / norm), (row[k], norm)

    _, (alphas, betas) = lax.scan(step, basis, jnp.arange(steps))
    tridiagonal = jnp.diag(alphas) + jnp.diag(betas[:-1], 1) + jnp.diag(betas[:-1], -1)
    return jnp.linalg.eigvalsh(tridiagonal)[-1]


# ---- a network to try them on -------------------------------------------------------------------


def problem(key, width):
    """The squared error of a network 2-width-width-1 on 64 points, and parameters to start from."""
    keys = random.split(key, 4)
    sizes = (2, width, width, 1)
    params = [
        {"w": random.normal(k, (m, n)) / m**0.5, "b": jnp.zeros(n)}
        for k, m, n in zip(keys, sizes, sizes[1:])
    ]
    x = random.uniform(keys[3], (64, 2), minval=-1, maxval=1)
    y = jnp.sin(3 * x[:, 0]) * x[:, 1]
    flat, unravel = ravel_pytree(params)

    def loss(flat):
        *hidden, last = unravel(flat)
        h = x
        for layer in hidden:
            h = jnp.tanh(h @ layer["w"] + layer["b"])
        return jnp.mean(((h @ last["w"] + last["b"])[:, 0] - y) ** 2)

    return loss, flat


def minimise(f, x, steps, damping=1e-1):
    """Damped Newton steps: less damping after a step that helped, more after one that did not."""
    step = functrax.jit(lambda x, damping: newton_step(f, x, damping))
    value = functrax.jit(f)
    history = [float(value(x))]
    for _ in range(steps):
        candidate = step(x, damping)
        new = float(value(candidate))
        better = new < history[-1]
        x, damping = (candidate, damping / 3) if better else (x, damping * 4)
        history.append(min(new, history[-1]))
    return x, history


def milliseconds(function, *args):
    functrax.block_until_ready(function(*args))  # traces
    begin = time.perf_counter()
    for _ in range(5):
        functrax.block_until_ready(function(*args))
    return 1e3 * (time.perf_counter() - begin) / 5


def show_products(loss, x, v, H):
    rows = [("full Hessian, then a product", lambda x, v: functrax.hessian(loss)(x) @ v)]
    rows += [(p.__name__.replace("_", " "), lambda x, v, p=p: p(loss, x, v)) for p in PRODUCTS]
    print(f"{'way':30} {'ms':>8}  error")
    for name, product in rows:
        product = functrax.jit(product)
        error = np.max(np.abs(product(x, v) - H @ v))
        print(f"{name:30} {milliseconds(product, x, v):8.2f}  {error:.0e}")


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Hessian-vector products with functrax.")
    parser.add_argument("--width", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    with functrax.enable_x64(True):
        key, v_key, sign_key, start_key = random.split(random.key(options.seed), 4)
        loss, x = problem(key, options.width)
        H = np.asarray(functrax.jit(functrax.hessian(loss))(x))
        print(f"a network of {len(x)} parameters: its Hessian has {H.size:,} numbers")
        show_products(loss, x, random.normal(v_key, x.shape), H)

        diagonal, trace = functrax.jit(lambda x: hutchinson(loss, x, sign_key, 200))(x)
        top = functrax.jit(lambda x: lanczos(loss, x, start_key, 25))(x)
        away = np.linalg.norm(diagonal - np.diag(H)) / np.linalg.norm(np.diag(H))
        print(f"trace, 200 random signs:  {trace:.5f}, exact {np.trace(H):.5f}")
        print(f"diagonal from the same:   {away:.1%} off")
        print(f"largest eigenvalue:       {top:.10f}, exact {np.linalg.eigvalsh(H)[-1]:.10f}")
        _, history = minimise(loss, x, 40)
    print("squared error by Newton's method: " + " ".join(f"{h:.1e}" for h in history[::5]))
    print(f"loss: {history[0]:.6f} -> {history[-1]:.6f}")


if __name__ == "__main__":
    main()
