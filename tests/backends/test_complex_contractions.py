"""Contractions of complex numbers as kernels (``gemm/complex_parts.py``), against complex128."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.gemm.complex_parts import in_parts
from functrax.backends.kernels.refusal import Refusal
from functrax.core.options.config import Override
from functrax.core.options.contexts import enable_x64
from functrax.core.syntax.verify import verify
from tests.backends.test_contraction_kernels import Array, group

#: Roundings of an element's sum: at most so many ulps of the sum of absolute values, for each term.
EPS = {np.complex64: 2.0**-24, np.complex128: 2.0**-53}


def draw(rng: np.random.Generator, *shape: int, dtype: Any = np.complex64) -> Array:
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def calls(function: Callable[..., Any], *args: Array) -> list[str]:
    """The contractions that are no kernels."""
    found = functrax.explain(function)(*args).kernels
    return [k.name for k in found if k.kind == "call" and "product" in k.name]


def check(
    function: Callable[..., Any], *args: Array, exact: Callable[..., Any] | None = None
) -> None:
    """Whether a function is computed by kernels, and as NumPy computes it in complex128."""
    assert not calls(function, *args)
    got = np.asarray(functrax.jit(function)(*args))
    if exact is not None:
        want = exact(*(x.astype(np.complex128) for x in args))
    else:
        with functrax.backend("interp"), enable_x64():
            want = np.asarray(function(*(jnp.asarray(x.astype(np.complex128)) for x in args)))
    assert got.shape == want.shape
    eps = EPS.get(got.dtype.type, 2.0**-24)
    np.testing.assert_allclose(got, want, rtol=0, atol=400 * eps * np.abs(want).max())


PRODUCTS = (
    *("mk,kn->mn", "km,kn->mn", "mk,nk->mn", "km,nk->nm"),
    *("bmk,bkn->bmn", "mbk,kbn->mnb", "mak,kan->mn"),
)


@pytest.mark.parametrize("text", PRODUCTS)
def test_layouts(text: str) -> None:
    rng = np.random.default_rng(1)
    sizes = {"m": 33, "n": 21, "k": 50, "b": 3, "a": 4}
    args = [draw(rng, *(sizes[a] for a in side)) for side in text.split("->")[0].split(",")]
    check(lambda x, y: jnp.einsum(text, x, y), *args, exact=lambda x, y: np.einsum(text, x, y))


def test_double_precision_and_blocks_of_steps() -> None:
    rng = np.random.default_rng(2)
    with enable_x64():
        x = draw(rng, 19, 700, dtype=np.complex128)
        y = draw(rng, 700, 35, dtype=np.complex128)
        check(lambda x, y: x @ y, x, y, exact=lambda x, y: x @ y)


def test_conjugates_signs_and_conversions_are_part_of_it() -> None:
    rng = np.random.default_rng(3)
    x, y = draw(rng, 40, 30), draw(rng, 40, 50)
    real = rng.standard_normal((30, 50)).astype(np.float32)
    cases: list[tuple[Callable[..., Any], Array, Array]] = [
        (lambda x, y: x.conj().T @ y, x, y),
        (lambda x, y: x.T @ y.conj(), x, y),
        (lambda x, y: (-x).T @ -y.conj(), x, y),
        (lambda x, y: x @ y, x, real),
        (lambda x, y: x @ y, real.T.copy(), x.T.copy()),
    ]
    for function, first, second in cases:
        found = functrax.explain(function)(first, second).kernels
        assert [k.kind for k in found] == ["kernel"], [k.name for k in found]
        check(function, first, second, exact=function)


@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_and_their_gradients(stride: int) -> None:
    rng = np.random.default_rng(4)
    image, taps = draw(rng, 2, 5, 13, 14), draw(rng, 6, 5, 3, 3)

    def convolution(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (stride, stride), "SAME")

    check(convolution, image, taps)
    for argument in (0, 1):
        gradient = functrax.grad(lambda x, w: (abs(convolution(x, w)) ** 2).sum(), argument)
        check(gradient, image, taps)


def test_derivatives_of_a_product() -> None:
    rng = np.random.default_rng(5)
    x, y = draw(rng, 30, 40), draw(rng, 40, 25)

    def loss(x: Any, y: Any) -> Any:
        z = x @ y
        return (z * z.conj()).real.sum() + (z.imag**3).sum()

    check(functrax.grad(loss, 0), x, y)
    check(functrax.grad(loss, 1), x, y)
    check(lambda x, y: functrax.jvp(functrax.grad(loss), (x, y), (x, y))[1], x, y)


def test_infinities_and_nans() -> None:
    """Each product is four of real numbers, as NumPy has it."""
    x = np.zeros((40, 40), np.complex64)
    x[0, 1], x[1, 2], x[2, 3] = np.inf, 1j * np.inf, np.nan
    y = np.full((40, 40), 1 + 2j, np.complex64)
    got = np.asarray(functrax.jit(lambda x, y: x @ y)(x, y))
    with np.errstate(invalid="ignore"):
        want = (x[:, :, None] * y[None]).sum(1)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    known = ~np.isnan(want)
    np.testing.assert_array_equal(got[known], want[known])


def test_program_of_parts_is_a_program() -> None:
    x, y = np.zeros((6, 7), np.complex64), np.zeros((7, 8), np.complex64)
    inner = group(lambda x, y: x.conj() @ y, x, y).eqns[0].params["jaxpr"]
    parts = in_parts(inner)
    verify(parts)
    assert [v.aval.shape for v in (*parts.invars, *parts.outvars)] == [
        (6, 7, 2),
        (7, 8, 2),
        (6, 8, 2),
    ]
    assert in_parts(inner) is parts
    other = group(lambda x, y: jnp.exp(x) @ y, x, y).eqns[0].params["jaxpr"]
    assert in_parts(other) == Refusal("exp of complex numbers")


def test_same_bits_again_and_on_threads() -> None:
    rng = np.random.default_rng(6)
    x, y = draw(rng, 150, 200), draw(rng, 200, 130)
    first = np.asarray(functrax.jit(lambda x, y: x @ y)(x, y))
    for _ in range(3):
        again = np.asarray(functrax.jit(lambda x, y: x @ y)(x, y))
        np.testing.assert_array_equal(again, first)


def test_products_times_complex_numbers_are_added() -> None:
    rng = np.random.default_rng(1)
    x, y, z = (draw(rng, 32, 32) for _ in range(3))
    check(lambda x, y, z: (x @ y) * 2j + (x @ z) * (1 - 1j), x, y, z)


@pytest.mark.parametrize("axis", [0, 2, 4])
def test_gates(axis: int) -> None:
    """Sums of few steps are loops; in strict mode of the same bits outside of jit."""
    rng = np.random.default_rng(2)
    gate, state = draw(rng, 2, 2), draw(rng, *(2, 3, 2, 5, 2))

    def apply(gate: Array, state: Array) -> Any:
        out = jnp.tensordot(gate, state, axes=([1], [axis]))
        return jnp.moveaxis(out, 0, axis)

    check(apply, gate, state)
    with Override("strict", True):
        assert not calls(apply, gate, state)
        inside = np.asarray(functrax.jit(apply)(gate, state))
        assert np.asarray(apply(gate, state)).tobytes() == inside.tobytes()
