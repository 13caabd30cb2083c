"""Statistics: sampling, filtering, variational inference."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Workload, faster

# ---- regression ---------------------------------------------------------------------------------


def patients() -> tuple[np.ndarray, ...]:
    """Features of 500 patients (8), whether each is ill, and a seed."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 8), np.float32)
    logits = x @ rng.standard_normal(8).astype(np.float32)
    return x, (rng.uniform(size=500) < 1 / (1 + np.exp(-logits))).astype(np.float32), np.int32(0)


def log_posterior(jax: Any) -> Any:
    """Of weights of a logistic regression with a normal prior."""
    jnp = jax.numpy

    def log_p(w: Any, x: Any, y: Any) -> Any:
        logits = x @ w
        return jnp.sum(y * logits - jax.nn.softplus(logits)) - 0.5 * jnp.sum(w**2)

    return log_p


def hamiltonian(jax: Any) -> Any:
    """50 moves of Hamiltonian Monte Carlo, ten leapfrog steps each, eight chains."""
    jnp = jax.numpy
    log_p = log_posterior(jax)

    def run(x: Any, y: Any, seed: Any) -> Any:
        slope = jax.grad(lambda w: log_p(w, x, y))

        def leapfrog(state: Any, _: Any) -> Any:
            w, p = state
            p = p + 0.02 * slope(w)
            w = w + 0.04 * p
            return (w, p + 0.02 * slope(w)), None

        def move(w: Any, key: Any) -> Any:
            a, b = jax.random.split(key)
            p = jax.random.normal(a, w.shape)
            (to, q), _ = jax.lax.scan(leapfrog, (w, p), None, length=10)
            energy = log_p(to, x, y) - 0.5 * q @ q - log_p(w, x, y) + 0.5 * p @ p
            accept = jnp.log(jax.random.uniform(b)) < energy
            w = jax.lax.cond(accept, lambda: to, lambda: w)
            return w, (w, accept)

        def chain(key: Any) -> Any:
            _, (path, accepted) = jax.lax.scan(move, jnp.zeros(8), jax.random.split(key, 50))
            return path.mean(0), accepted.mean()

        return jax.vmap(chain)(jax.random.split(jax.random.key(seed), 8))

    return run


def variational(jax: Any) -> Any:
    """100 steps of Adam on the evidence bound of a normal posterior, by reparametrisation."""
    jnp = jax.numpy
    log_p = log_posterior(jax)

    def run(x: Any, y: Any, seed: Any) -> Any:
        def bound(q: Any, key: Any) -> Any:
            noise = jax.random.normal(key, (16, 8))
            draws = q["mean"] + jnp.exp(q["log_scale"]) * noise
            return -jax.vmap(log_p, (0, None, None))(draws, x, y).mean() - q["log_scale"].sum()

        def step(state: Any, key: Any) -> Any:
            q, m, v, t = state
            value, g = jax.value_and_grad(bound)(q, key)
            tree = jax.tree_util.tree_map
            m = tree(lambda m, g: 0.9 * m + 0.1 * g, m, g)
            v = tree(lambda v, g: 0.99 * v + 0.01 * g**2, v, g)
            t = t + 1

            def change(q: Any, m: Any, v: Any) -> Any:
                return q - 0.05 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.99**t)) + 1e-8)

            return (tree(change, q, m, v), m, v, t), value

        q = {"mean": jnp.zeros(8), "log_scale": jnp.zeros(8)}
        zeros = jax.tree_util.tree_map(jnp.zeros_like, q)
        keys = jax.random.split(jax.random.key(seed), 100)
        (q, *_), bounds = jax.lax.scan(step, (q, zeros, zeros, 0.0), keys)
        return q, bounds

    return run


# ---- Gaussian processes -------------------------------------------------------------------------


def measurements() -> tuple[np.ndarray, ...]:
    """100 points in the plane, and what was measured there."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (100, 2)).astype(np.float32)
    return x, (np.sin(x).sum(1) + 0.1 * rng.standard_normal(100)).astype(np.float32)


def marginal_likelihood(jax: Any) -> Any:
    """20 steps of gradient ascent on a Gaussian process's marginal likelihood, by Cholesky."""
    jnp = jax.numpy

    def kernel(theta: Any, a: Any, b: Any) -> Any:
        return jnp.exp(2 * theta[0] - 0.5 * jnp.sum(((a - b) * jnp.exp(-theta[1:3])) ** 2))

    def loss(theta: Any, x: Any, y: Any) -> Any:
        row = jax.vmap(kernel, (None, None, 0))
        k = jax.vmap(row, (None, 0, None))(theta, x, x) + jnp.exp(2 * theta[3]) * jnp.eye(100)
        root = jnp.linalg.cholesky(k)
        alpha = jax.scipy.linalg.solve_triangular(root, y, lower=True)
        return 0.5 * alpha @ alpha + jnp.log(jnp.diag(root)).sum()

    def run(x: Any, y: Any) -> Any:
        def step(theta: Any, _: Any) -> Any:
            value, gradient = jax.value_and_grad(loss)(theta, x, y)
            return theta - 0.005 * gradient, value

        start = jnp.array([0.0, 0.0, 0.0, -1.0])
        return jax.lax.scan(step, start, None, length=20)

    return run


# ---- filters ------------------------------------------------------------------------------------


def radar() -> tuple[np.ndarray, ...]:
    """200 noisy positions of a target that drifts in the plane, and a seed."""
    rng = np.random.default_rng(0)
    velocity = np.cumsum(0.05 * rng.standard_normal((200, 2)), 0) + 0.5
    path = np.cumsum(velocity, 0) + 0.5 * rng.standard_normal((200, 2))
    return path.astype(np.float32), np.int32(0)


def kalman(jax: Any) -> Any:
    """A Kalman filter, Rauch, Tung and Striebel's smoother, the gradient by the two noises."""
    jnp = jax.numpy
    moves = np.kron(np.array([[1, 1], [0, 1]], np.float32), np.eye(2, dtype=np.float32))
    sees = np.eye(2, 4, dtype=np.float32)

    def run(path: Any, _: Any) -> Any:
        def filtered(logs: Any) -> Any:
            q = jnp.exp(logs[0]) * jnp.diag(jnp.array([0.01, 0.01, 1.0, 1.0]))
            r = jnp.exp(logs[1]) * jnp.eye(2)

            def step(state: Any, z: Any) -> Any:
                m, p = state
                m, p = moves @ m, moves @ p @ moves.T + q
                s = sees @ p @ sees.T + r
                gain = jnp.linalg.solve(s, sees @ p).T
                e = z - sees @ m
                _, logdet = jnp.linalg.slogdet(s)
                score = -0.5 * (e @ jnp.linalg.solve(s, e) + logdet)
                new = m + gain @ e, p - gain @ sees @ p
                return new, (*new, m, p, score)

            start = jnp.zeros(4), 10 * jnp.eye(4)
            _, out = jax.lax.scan(step, start, path)
            return out[-1].sum(), out[:-1]

        (value, parts), slope = jax.value_and_grad(filtered, has_aux=True)(jnp.zeros(2))
        m, p, ahead_m, ahead_p = parts

        def back(state: Any, row: Any) -> Any:
            ms, ps = state
            m, p, ahead_m, ahead_p = row
            gain = jnp.linalg.solve(ahead_p, moves @ p).T
            new = m + gain @ (ms - ahead_m), p + gain @ (ps - ahead_p) @ gain.T
            return new, new[0]

        rows = m[:-1], p[:-1], ahead_m[1:], ahead_p[1:]
        _, smooth = jax.lax.scan(back, (m[-1], p[-1]), rows, reverse=True)
        return value, slope, smooth

    return run


def particles(jax: Any) -> Any:
    """A particle filter of 1,000 particles over 200 steps, resampled systematically at each."""
    jnp = jax.numpy

    def run(path: Any, seed: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            key, z = row
            noise_key, choice_key = jax.random.split(key)
            noise = jax.random.normal(noise_key, (1000, 2))
            velocity = state[:, 2:] + 0.1 * noise
            place = state[:, :2] + velocity
            log_w = -0.5 * ((place - z) ** 2).sum(1) / 0.25
            weights = jax.nn.softmax(log_w)
            even = (jnp.arange(1000) + jax.random.uniform(choice_key)) / 1000
            chosen = jnp.searchsorted(jnp.cumsum(weights), even)
            state = jnp.concatenate([place, velocity], 1)[jnp.minimum(chosen, 999)]
            return state, (weights @ place, jax.scipy.special.logsumexp(log_w))

        start_key, key = jax.random.split(jax.random.key(seed))
        start = jax.random.normal(start_key, (1000, 4))
        keys = jax.random.split(key, path.shape[0])
        return jax.lax.scan(step, start, (keys, path))[1]

    return run


# ---- mixtures -----------------------------------------------------------------------------------


def clusters() -> tuple[np.ndarray, ...]:
    """2,000 points in four dimensions about eight centres, and first guesses of the centres."""
    rng = np.random.default_rng(0)
    centres = 4 * rng.standard_normal((8, 4))
    points = centres[rng.integers(0, 8, 2000)] + rng.standard_normal((2000, 4))
    return points.astype(np.float32), (centres + rng.standard_normal((8, 4))).astype(np.float32)


def mixture(jax: Any) -> Any:
    """20 iterations of expectation and maximisation, normal parts with full covariances."""
    jnp = jax.numpy
    normal = jax.scipy.stats.multivariate_normal

    def run(x: Any, means: Any) -> Any:
        def iteration(state: Any, _: Any) -> Any:
            weights, means, covariances = state
            each = jax.vmap(normal.logpdf, (None, 0, 0), 1)(x, means, covariances)
            joint = jnp.log(weights) + each
            total = jax.scipy.special.logsumexp(joint, axis=1, keepdims=True)
            share = jnp.exp(joint - total)
            count = share.sum(0)
            means = (share.T @ x) / count[:, None]
            d = x[:, None] - means
            covariances = jnp.einsum("nk,nki,nkj->kij", share, d, d) / count[:, None, None]
            covariances = covariances + 1e-3 * jnp.eye(4)
            return (count / 2000, means, covariances), total.mean()

        start = jnp.full(8, 1 / 8), means, jnp.broadcast_to(jnp.eye(4), (8, 4, 4))
        return jax.lax.scan(iteration, start, None, length=20)

    return run


def k_means(jax: Any) -> Any:
    """Lloyd's algorithm with segment sums, until no point changes its cluster."""
    jnp = jax.numpy

    def run(x: Any, centres: Any) -> Any:
        def nearest(centres: Any) -> Any:
            return ((x[:, None] - centres) ** 2).sum(-1).argmin(1)

        def unfinished(state: Any) -> Any:
            _, old, new, count = state
            return (old != new).any() & (count < 100)

        def iteration(state: Any) -> Any:
            _, _, labels, count = state
            total = jax.ops.segment_sum(x, labels, 8)
            size = jax.ops.segment_sum(jnp.ones(2000), labels, 8)
            centres = total / jnp.maximum(size, 1)[:, None]
            return centres, labels, nearest(centres), count + 1

        labels = nearest(centres)
        start = centres, jnp.full_like(labels, -1), labels, 0
        centres, _, labels, count = jax.lax.while_loop(unfinished, iteration, start)
        return centres, labels, count

    return run


# ---- finance ------------------------------------------------------------------------------------


def market() -> tuple[np.ndarray, ...]:
    """Spot, strike, volatility and rate; a seed."""
    return np.array([100, 105, 0.2, 0.03], np.float32), np.int32(0)


def asian_option(jax: Any) -> Any:
    """An Asian option by 10,000 paths of 64 steps, and its sensitivities by the gradient."""
    jnp = jax.numpy

    def price(market: Any, key: Any) -> Any:
        spot, strike, volatility, rate = market
        dt = 1 / 64
        noise = jax.random.normal(key, (10_000, 64))
        steps = (rate - 0.5 * volatility**2) * dt + volatility * jnp.sqrt(dt) * noise
        paths = spot * jnp.exp(jnp.cumsum(steps, axis=1))
        gain = jnp.maximum(paths.mean(1) - strike, 0)
        return jnp.exp(-rate) * gain.mean()

    return lambda market, seed: jax.value_and_grad(price)(market, jax.random.key(seed))


def heston(jax: Any) -> Any:
    """A call in Heston's model: 4,096 paths of 128 steps in a scan, put by Euler, and its delta."""
    jnp = jax.numpy

    def price(market: Any, key: Any) -> Any:
        spot, strike, volatility, rate = market
        dt = 1 / 128

        def step(state: Any, key: Any) -> Any:
            log_s, v = state
            a, b = jax.random.normal(key, (2, 4096))
            b = -0.7 * a + jnp.sqrt(1 - 0.49) * b
            root = jnp.sqrt(jnp.maximum(v, 1e-6) * dt)
            log_s = log_s + (rate - 0.5 * v) * dt + root * a
            v = v + 2.0 * (volatility**2 - v) * dt + 0.3 * root * b
            return (log_s, v), None

        start = jnp.full(4096, jnp.log(spot)), jnp.full(4096, volatility**2)
        (log_s, _), _ = jax.lax.scan(step, start, jax.random.split(key, 128))
        return jnp.exp(-rate) * jnp.maximum(jnp.exp(log_s) - strike, 0).mean()

    return lambda market, seed: jax.value_and_grad(price)(market, jax.random.key(seed))


ROWS = (
    Workload("Hamiltonian Monte Carlo", patients, hamiltonian, (faster(1),)),
    Workload("variational inference", patients, variational, (faster(1),)),
    Workload("Gaussian process", measurements, marginal_likelihood, (faster(1),)),
    Workload("Kalman smoother", radar, kalman, (faster(1),)),
    Workload("particle filter", radar, particles, (faster(1),), tolerance=0.1),
    Workload("mixture of normals", clusters, mixture, (faster(1),)),
    Workload("k-means", clusters, k_means, (faster(1),)),
    Workload("Asian option", market, asian_option, (faster(1),)),
    Workload("Heston's model", market, heston, (faster(1),)),
)
