"""Resizing and moving images: recorded values, derivatives, and what has to hold for any image."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.errors import ArgumentError, ShapeError
from functrax.image import ResizeMethod, resize, scale_and_translate

RECORDED = json.loads((Path(__file__).parent / "data" / "libraries.json").read_text())["image"]
IMAGE = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4) ** 3
SMOOTH = ["linear", "cubic", "lanczos3", "lanczos5", "area", "cubic-pytorch"]


@pytest.mark.parametrize("case", RECORDED)
def test_recorded_values(case):
    method, *rest = case.split()
    if rest == ["moved"]:
        scale, shift = jnp.array([1.3, 0.6]), jnp.array([0.5, -1.1])
        out = scale_and_translate(IMAGE, (3, 3), (0, 1), scale, shift, method)
    else:
        rows, columns, antialias = map(int, rest)
        out = resize(IMAGE, (rows, columns), method, bool(antialias))
    assert out.dtype == np.float32
    np.testing.assert_allclose(np.ravel(out), RECORDED[case], atol=3e-6)


@pytest.mark.parametrize("method", SMOOTH)
def test_a_constant_image_stays_constant(method):
    out = resize(jnp.full((6, 5), 2.5), (4, 11), method)
    np.testing.assert_allclose(out, np.full((4, 11), 2.5), rtol=1e-5)


@pytest.mark.parametrize("method", ["nearest", *SMOOTH])
def test_the_same_size_is_the_same_image(method):
    assert np.array_equal(resize(IMAGE, (3, 4), method), IMAGE)


def test_dtypes():
    whole = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert resize(whole, (4, 6), "nearest").dtype == np.int32
    assert resize(whole, (4, 6), "linear").dtype == np.float32
    assert resize(jnp.ones((2, 3), jnp.bfloat16), (4, 3), ResizeMethod.CUBIC).dtype == jnp.bfloat16


def test_under_transformations():
    images = jnp.stack([IMAGE, 2 * IMAGE])
    f = functrax.jit(functrax.vmap(lambda x: resize(x, (5, 5), "cubic")))
    np.testing.assert_allclose(f(images)[1], 2 * resize(IMAGE, (5, 5), "cubic"), 1e-5, 1e-6)
    ones = functrax.grad(lambda x: jnp.sum(resize(x, (6, 8), "linear")))(jnp.asarray(IMAGE))
    np.testing.assert_allclose(jnp.sum(ones), 48.0, rtol=1e-5)


@pytest.mark.parametrize("method", ["linear", "cubic", "lanczos3"])
def test_the_place_has_a_derivative(method):
    with functrax.enable_x64():
        x = jnp.asarray(np.sin(np.arange(20.0)).reshape(4, 5))
        scale = jnp.array([1.37, 0.71])

        def f(shift):
            moved = scale_and_translate(x, (4, 4), (0, 1), scale, shift, method)
            return jnp.sum(moved**2)

        at, eps = jnp.array([0.21, -0.43]), 1e-6
        gradient = functrax.grad(f)(at)
        for i in range(2):
            step = jnp.zeros(2).at[i].set(eps)
            numeric = (f(at + step) - f(at - step)) / (2 * eps)
            np.testing.assert_allclose(gradient[i], numeric, rtol=1e-5, atol=1e-6)


def test_pixels_outside_are_zero():
    scale, shift = jnp.ones(1), jnp.array([2.0])
    moved = scale_and_translate(jnp.ones(3), (6,), (0,), scale, shift, "linear")
    assert moved.tolist() == [0.0, 0.0, 1.0, 1.0, 1.0, 0.0]


def test_wrong_arguments():
    with pytest.raises(ShapeError, match="number of axes"):
        resize(IMAGE, (3,), "linear")
    with pytest.raises(ArgumentError, match="no such method"):
        resize(IMAGE, (3, 3), "smooth")
    with pytest.raises(ArgumentError, match="nearest pixel"):
        scale_and_translate(IMAGE, (3, 3), (0,), jnp.ones(1), jnp.ones(1), "nearest")
    with pytest.raises(ShapeError, match="one scale and one translation"):
        scale_and_translate(IMAGE, (3, 3), (0, 1), jnp.ones(1), jnp.ones(1), "linear")


def test_sizes_are_whole():
    with pytest.raises(TypeError, match="a size must be an integer"):
        resize(jnp.ones((3, 4)), [10.5, 17], "bicubic")
    assert resize(jnp.ones((3, 4)), np.array([6, 8]), "nearest").shape == (6, 8)
    assert resize(jnp.ones((3, 4)), jnp.array([6, 8]), "nearest").shape == (6, 8)
