"""Optimisation and inverse problems: transport, sparse codes, pictures, geometry."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from benchmarks.workload import Workload, faster, floats

# ---- optimisation -------------------------------------------------------------------------------


def sinkhorn(jax: Any) -> Any:
    """Entropic transport between 200 and 200 points: 50 iterations in logarithms, its gradient."""
    jnp = jax.numpy
    logsumexp = jax.scipy.special.logsumexp

    def distance(x: Any, y: Any) -> Any:
        cost = ((x[:, None] - y) ** 2).sum(-1)
        log_k, log_weight = -cost / 0.5, -jnp.log(200.0)

        def iteration(state: Any, _: Any) -> Any:
            _, g = state
            f = log_weight - logsumexp(log_k + g, axis=1)
            g = log_weight - logsumexp(log_k + f[:, None], axis=0)
            return (f, g), None

        start = jnp.zeros(200), jnp.zeros(200)
        (f, g), _ = jax.lax.scan(iteration, start, None, length=50)
        return jnp.sum(jnp.exp(f[:, None] + log_k + g) * cost)

    return jax.value_and_grad(distance)


def ista(jax: Any) -> Any:
    """Sparse codes of 64 signals in a dictionary of 256 atoms: 100 iterations of FISTA."""
    jnp = jax.numpy

    def run(signals: Any, atoms: Any) -> Any:
        atoms = atoms / jnp.linalg.norm(atoms, axis=0)
        step = 1 / jnp.linalg.norm(atoms, 2) ** 2

        def shrink(x: Any) -> Any:
            return jnp.sign(x) * jnp.maximum(jnp.abs(x) - 0.1 * step, 0)

        def iteration(state: Any, _: Any) -> Any:
            x, z, t = state
            new = shrink(z - step * (z @ atoms.T - signals) @ atoms)
            after = (1 + jnp.sqrt(1 + 4 * t**2)) / 2
            return (new, new + (t - 1) / after * (new - x), after), None

        zeros = jnp.zeros((64, 256))
        (x, _, _), _ = jax.lax.scan(iteration, (zeros, zeros, 1.0), None, length=100)
        return x, (x != 0).mean()

    return run


def transport_programme() -> tuple[np.ndarray, ...]:
    """A linear programme of 80 constraints and 160 unknowns that has a solution."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((80, 160), np.float32)
    b = a @ rng.uniform(0, 1, 160).astype(np.float32)
    return a, b, rng.uniform(0, 1, 160).astype(np.float32)


def linear_programme(jax: Any) -> Any:
    """300 steps of the primal-dual hybrid gradient method on a linear programme."""
    jnp = jax.numpy

    def run(a: Any, b: Any, c: Any) -> Any:
        step = 0.9 / jnp.sqrt(jnp.linalg.eigvalsh(a @ a.T)[-1])

        def iteration(_: Any, state: Any) -> Any:
            x, y = state
            new = jnp.maximum(x - step * (c - a.T @ y), 0)
            return new, y + step * (b - a @ (2 * new - x))

        x, y = jax.lax.fori_loop(0, 300, iteration, (jnp.zeros(160), jnp.zeros(80)))
        return x, y, c @ x

    return run


def nearest_neighbours(jax: Any) -> Any:
    """The ten nearest of 2,000 vectors to each of 100, and a vote of their classes."""
    jnp = jax.numpy

    def run(known: Any, asked: Any) -> Any:
        classes = (known[:, 0] > 0).astype(jnp.int32) + 2 * (known[:, 1] > 0)

        def one(query: Any) -> Any:
            d2, index = jax.lax.top_k(-((known - query) ** 2).sum(-1), 10)
            votes = jnp.bincount(classes[index], length=4)
            return -d2, votes.argmax()

        return jax.vmap(one)(asked)

    return run


# ---- pictures -----------------------------------------------------------------------------------


def slices() -> tuple[np.ndarray, ...]:
    """A picture (64 × 64) and 30 angles."""
    y, x = np.mgrid[-1:1:64j, -1:1:64j]
    picture = ((x**2 / 0.5 + y**2 / 0.8) < 1) - 0.5 * (((x - 0.2) ** 2 + y**2) < 0.05)
    return picture.astype(np.float32), np.linspace(0, np.pi, 30, endpoint=False, dtype=np.float32)


def tomography(jax: Any) -> Any:
    """Ten steps of gradient descent to find a picture from 30 projections by map_coordinates."""
    jnp = jax.numpy

    def run(true: Any, angles: Any) -> Any:
        line = jnp.linspace(-31.5, 31.5, 64)
        s, t = jnp.meshgrid(line, line, indexing="ij")

        def projection(picture: Any, angle: Any) -> Any:
            y = s * jnp.cos(angle) + t * jnp.sin(angle) + 31.5
            x = -s * jnp.sin(angle) + t * jnp.cos(angle) + 31.5
            return jax.scipy.ndimage.map_coordinates(picture, [y, x], order=1).sum(1)

        project = jax.vmap(projection, (None, 0))
        seen = project(true, angles)

        def loss(picture: Any) -> Any:
            edges = jnp.abs(jnp.diff(picture, axis=0)).sum() + jnp.abs(jnp.diff(picture)).sum()
            return 0.5 * ((project(picture, angles) - seen) ** 2).sum() + 0.01 * edges

        def step(picture: Any, _: Any) -> Any:
            value, slope = jax.value_and_grad(loss)(picture)
            return picture - 2e-4 * slope, value

        return jax.lax.scan(step, jnp.zeros_like(true), None, length=10)

    return run


def video() -> tuple[np.ndarray, ...]:
    """Two smooth frames (96 × 96), of which the second is moved a little."""
    y, x = np.mgrid[:96, :96]

    def frame(dx: float, dy: float) -> np.ndarray:
        a, b = (x - dx) / 7, (y - dy) / 9
        return (np.sin(a) * np.cos(b) + 0.5 * np.sin(0.7 * a + b)).astype(np.float32)

    return frame(0, 0), frame(0.6, -0.4)


def optical_flow(jax: Any) -> Any:
    """100 iterations of Horn and Schunck's method."""
    jnp = jax.numpy
    kernel = np.array([[1, 2, 1], [2, 0, 2], [1, 2, 1]], np.float32) / 12

    def run(first: Any, second: Any) -> Any:
        fy, fx = jnp.gradient(0.5 * (first + second))
        ft = second - first

        def mean(a: Any) -> Any:
            return jax.scipy.signal.convolve2d(a, kernel, mode="same")

        def iteration(state: Any, _: Any) -> Any:
            u, v = (mean(a) for a in state)
            share = (fx * u + fy * v + ft) / (0.1 + fx**2 + fy**2)
            return (u - fx * share, v - fy * share), None

        zeros = jnp.zeros_like(first)
        return jax.lax.scan(iteration, (zeros, zeros), None, length=100)[0]

    return run


def camera() -> tuple[np.ndarray, ...]:
    """Where the camera stands, and the light."""
    return np.array([0, 0.5, -3], np.float32), np.array([0.5, 0.8, -0.4], np.float32)


def ray_marching(jax: Any) -> Any:
    """A picture of 96 × 96 rays to a scene of distances, by sphere tracing; normals by grad."""
    jnp = jax.numpy

    def scene(p: Any) -> Any:
        ball = jnp.linalg.norm(p - jnp.array([0.0, 0.3, 0.0])) - 0.6
        ring = jnp.stack([jnp.linalg.norm(p[jnp.array([0, 2])]) - 1.0, p[1]])
        torus = jnp.linalg.norm(ring) - 0.2
        h = jnp.clip(0.5 + 0.5 * (torus - ball) / 0.2, 0, 1)
        blend = torus * (1 - h) + ball * h - 0.2 * h * (1 - h)
        return jnp.minimum(blend, p[1] + 0.5)

    def run(eye: Any, light: Any) -> Any:
        light = light / jnp.linalg.norm(light)

        def march(start: Any, ray: Any, steps: int) -> Any:
            return jax.lax.fori_loop(0, steps, lambda _, t: t + scene(start + t * ray), 0.02)

        def pixel(y: Any, x: Any) -> Any:
            ray = jnp.stack([x, y, 1.5])
            ray = ray / jnp.linalg.norm(ray)
            t = march(eye, ray, 40)
            point = eye + t * ray
            normal = jax.grad(scene)(point)
            lit = jnp.clip(normal @ light, 0, 1)
            shadow = jnp.where(march(point + 0.02 * normal, light, 20) < 5.0, 0.3, 1.0)
            return jnp.where(t < 20.0, 0.1 + 0.9 * lit * shadow, 0.0)

        line = jnp.linspace(-1, 1, 96)
        return jax.vmap(jax.vmap(pixel, (None, 0)), (0, None))(-line, line)

    return run


def splats() -> tuple[np.ndarray, ...]:
    """128 flat normal spots: places, logarithms of sizes, colours, depths; a picture (64 × 64)."""
    rng = np.random.default_rng(0)
    places = rng.uniform(0, 64, (128, 2)).astype(np.float32)
    sizes = rng.uniform(0.5, 2, (128, 2)).astype(np.float32)
    colours = rng.uniform(size=(128, 4)).astype(np.float32)
    picture = rng.uniform(size=(64, 64, 3)).astype(np.float32)
    return places, sizes, colours, rng.uniform(size=128).astype(np.float32), picture


def splatting(jax: Any) -> Any:
    """A picture of normal spots, sorted by depth and blended, and the gradient of its error."""
    jnp = jax.numpy

    def run(places: Any, sizes: Any, colours: Any, depths: Any, picture: Any) -> Any:
        order = jnp.argsort(depths)
        grid = jnp.stack(jnp.mgrid[:64, :64], -1).astype(jnp.float32)

        def loss(places: Any, sizes: Any, colours: Any) -> Any:
            d = (grid[:, :, None] - places[order]) * jnp.exp(-sizes[order])
            opaque = 0.99 * colours[order, 3] * jnp.exp(-0.5 * (d**2).sum(-1))
            passed = jnp.cumprod(1 - opaque, axis=-1)
            before = jnp.concatenate([jnp.ones((64, 64, 1)), passed[..., :-1]], -1)
            shown = jnp.einsum("yxn,nc->yxc", opaque * before, colours[order, :3])
            return jnp.mean((shown - picture) ** 2)

        return jax.value_and_grad(loss, (0, 1, 2))(places, sizes, colours)

    return run


# ---- geometry -----------------------------------------------------------------------------------


def cameras() -> tuple[np.ndarray, ...]:
    """Six cameras (rotation vectors and places), 60 points, and where each camera sees each."""
    rng = np.random.default_rng(0)
    poses = np.concatenate([0.1 * rng.standard_normal((6, 3)), rng.standard_normal((6, 3))], 1)
    poses[:, 5] += 8
    points = rng.uniform(-1, 1, (60, 3))
    moved = points + poses[:, None, 3:] + np.cross(poses[:, None, :3], points)
    seen = moved[..., :2] / moved[..., 2:] + 1e-3 * rng.standard_normal((6, 60, 2))
    return tuple(a.astype(np.float32) for a in (poses, points, seen))


def bundle_adjustment(jax: Any) -> Any:
    """Three damped Gauss-Newton steps on cameras and points: jacobian, normal equations, solve."""
    jnp = jax.numpy
    ravel_pytree = importlib.import_module(f"{jax.__name__}.flatten_util").ravel_pytree

    def rotate(w: Any, p: Any) -> Any:
        angle = jnp.sqrt(w @ w + 1e-12)
        axis = w / angle
        turned = p * jnp.cos(angle) + jnp.cross(axis, p) * jnp.sin(angle)
        return turned + axis * (axis @ p) * (1 - jnp.cos(angle))

    def project(pose: Any, point: Any) -> Any:
        moved = rotate(pose[:3], point) + pose[3:]
        return moved[:2] / moved[2]

    def run(poses: Any, points: Any, seen: Any) -> Any:
        everyone = jax.vmap(jax.vmap(project, (None, 0)), (0, None))
        start, unravel = ravel_pytree((poses, points))

        def residuals(flat: Any) -> Any:
            return (everyone(*unravel(flat)) - seen).reshape(-1)

        def step(flat: Any, _: Any) -> Any:
            r, j = residuals(flat), jax.jacfwd(residuals)(flat)
            normal = j.T @ j + 1e-2 * jnp.eye(flat.shape[0])
            change = jax.scipy.linalg.solve(normal, j.T @ r, assume_a="pos")
            return flat - change, r @ r

        flat, errors = jax.lax.scan(step, start, None, length=3)
        return unravel(flat), errors

    return run


def registration(jax: Any) -> Any:
    """Ten iterations of closest points: pairs by distance, the rotation by a singular value
    decomposition."""
    jnp = jax.numpy

    def run(x: Any, noise: Any) -> Any:
        angle = 0.2
        turn = jnp.array(
            [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]]
        )
        y = x @ turn.T + 0.1 + 0.01 * noise

        def iteration(moved: Any, _: Any) -> Any:
            d2 = ((moved[:, None] - y) ** 2).sum(-1)
            pairs = y[d2.argmin(1)]
            a, b = moved - moved.mean(0), pairs - pairs.mean(0)
            u, _, vt = jnp.linalg.svd(a.T @ b)
            sign = jnp.sign(jnp.linalg.det(u @ vt))
            r = (u * jnp.stack([1.0, 1.0, sign])) @ vt
            return a @ r + pairs.mean(0), d2.min(1).mean()

        return jax.lax.scan(iteration, x, None, length=10)

    return run


ROWS = (
    Workload("Sinkhorn", floats((200, 3), (200, 3)), sinkhorn, (faster(1),)),
    Workload("sparse coding", floats((64, 64), (64, 256)), ista, (faster(1),)),
    Workload("linear programme", transport_programme, linear_programme, (faster(1),)),
    Workload("nearest neighbours", floats((2000, 16), (100, 16)), nearest_neighbours, (faster(1),)),
    Workload("tomography", slices, tomography, (faster(1),)),
    Workload("optical flow", video, optical_flow, (faster(1),)),
    Workload("ray marching", camera, ray_marching, (faster(1),)),
    Workload("splatting", splats, splatting, (faster(1),)),
    Workload("bundle adjustment", cameras, bundle_adjustment, (faster(1),)),
    Workload("registration", floats((300, 3), (300, 3)), registration, (faster(1),)),
)
