"""Derivatives of ``x[index]`` and ``x.at[index]`` for generated indices.

Reads and additions are linear, so that NumPy's own scatter and gather are the derivatives.  Other
updates are compared with central differences of NumPy's update, in double precision; reverse mode
with forward mode by the inner product.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
from functrax import errors
from tests.numpy.index_cases import bare, cases, clamped, positions

SMOOTH = {
    "multiply": np.multiply, "divide": np.divide, "power": np.power,
    "min": np.minimum, "max": np.maximum,
}  # fmt: skip
STEP = 1e-6


def update(x: Any, where: Any, values: Any, ufunc: Any) -> Any:
    """NumPy's update, by row-major positions; position -1 is outside."""
    flat = np.append(x.reshape(-1), 1.0)
    ufunc.at(flat, where.reshape(-1), values.reshape(-1))
    return flat[:-1].reshape(x.shape)


def integer_valued(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.integers(-8, 9, shape).astype("f4")


@pytest.mark.parametrize("seed", range(4))
def test_a_read_is_transposed_to_an_addition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for shape, index in cases(200 + seed, 75):
        places = positions(shape, clamped(shape, index))
        x, ct = integer_valued(rng, shape), integer_valued(rng, places.shape)
        out, pull = functrax.vjp(lambda x, i=index: x[bare(i)], x)
        want = update(np.zeros(shape), places, ct, np.add)
        np.testing.assert_array_equal(np.asarray(pull(ct)[0]), want, err_msg=f"{shape} {index}")
        _, tangent = functrax.jvp(lambda x, i=index: x[bare(i)], (x,), (2 * x,))
        np.testing.assert_array_equal(np.asarray(tangent), 2 * np.asarray(out))


def test_a_filled_read_is_transposed_to_an_addition() -> None:
    rng = np.random.default_rng(20)
    for shape, index in cases(230, 100):
        places = positions(shape, index)
        x, ct = integer_valued(rng, shape), integer_valued(rng, places.shape)
        _, pull = functrax.vjp(lambda x, i=index: x.at[bare(i)].get(mode="fill"), x)
        want = update(np.zeros(shape), places, ct, np.add)
        np.testing.assert_array_equal(np.asarray(pull(ct)[0]), want, err_msg=f"{shape} {index}")


@pytest.mark.parametrize("mode", [None, "clip"])
@pytest.mark.parametrize("name", ["set", "add", "subtract"])
def test_linear_updates(name: str, mode: str | None) -> None:
    rng = np.random.default_rng(30)
    for shape, index in cases(240 + len(name), 75):
        places = positions(shape, clamped(shape, index) if mode == "clip" else index)
        x, v, ct = (integer_valued(rng, s) for s in (shape, places.shape, shape))

        def changed(x: Any, v: Any, index: Any = index) -> Any:
            return getattr(x.at[bare(index)], name)(v, mode=mode)

        _, pull = functrax.vjp(changed, x, v)
        to_x, to_v = map(np.asarray, pull(ct))
        outer, read = ct, np.append(ct, np.float32(0))[places]
        if name == "set":
            named = np.zeros(int(np.prod(shape)) + 1, bool)
            named[places] = True
            outer = np.where(named[:-1].reshape(shape), 0, ct)
            last = np.full(named.size, -1)  # of several values for one element the last stays
            last[places.reshape(-1)] = np.arange(places.size)
            read = np.where(last[places] == np.arange(places.size).reshape(places.shape), read, 0)
        np.testing.assert_array_equal(to_x, outer, err_msg=f"{shape} {index}")
        sign = -1 if name == "subtract" else 1
        np.testing.assert_array_equal(to_v, sign * read, err_msg=f"{shape} {index}")


@pytest.mark.parametrize("name", SMOOTH)
def test_other_updates(name: str) -> None:
    rng = np.random.default_rng(40)
    for shape, index in cases(250 + len(name), 80):
        places = positions(shape, index)
        x, v = (rng.uniform(0.5, 2, s) for s in (shape, places.shape))
        dx, dv = (rng.normal(size=s) for s in (shape, places.shape))

        inside = places[places >= 0]
        once = len(set(inside.tolist())) == inside.size

        def changed(x: Any, v: Any, index: Any = index, once: bool = once) -> Any:
            return getattr(x.at[bare(index)], name)(v, unique_indices=once)

        if not once and name in ("multiply", "divide", "power"):
            with pytest.raises(errors.DifferentiationError, match="repeated multiplications"):
                functrax.jvp(changed, (x, v), (dx, dv))
            continue
        ahead, behind = (
            update(x + h * dx, places, v + h * dv, SMOOTH[name]) for h in (STEP, -STEP)
        )
        with functrax.enable_x64(True):
            _, tangent = functrax.jvp(changed, (x, v), (dx, dv))
            ct = rng.normal(size=shape)
            _, pull = functrax.vjp(changed, x, v)
            to_x, to_v = pull(ct)
        want = (ahead - behind) / (2 * STEP)
        scale = 1 + np.abs(want).max(initial=0)
        message = f"{shape} {index}"
        np.testing.assert_allclose(tangent, want, atol=1e-7 * scale, err_msg=message)
        product = np.vdot(to_x, dx) + np.vdot(to_v, dv)
        assert abs(product - np.vdot(ct, tangent)) < 1e-9 * scale * (1 + x.size), message
