"""What is called in NumPy's library of LAPACK, against NumPy and the values computed without it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.core.prims import lapack, matrix_values
from functrax.core.prims.linear_systems import triangular_solve

pytestmark = pytest.mark.skipif(lapack.library() is None, reason="NumPy brings no LAPACK")


def _matrix(rng: np.random.Generator, char: str, *shape: int) -> Any:
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if char in "FD" else x).astype(char)


def _close(got: Any, want: Any) -> None:
    bound = 2e-4 if want.dtype.itemsize < 8 or want.dtype.char == "F" else 1e-11
    np.testing.assert_allclose(got, want, rtol=bound, atol=bound)
    assert got.dtype == want.dtype
    assert got.flags.c_contiguous


@pytest.mark.parametrize("char", "fdFD")
def test_triangular_solve(char: str) -> None:
    rng = np.random.default_rng(1)
    a = _matrix(rng, char, 7, 7) + 5 * np.eye(7, dtype=char)
    names = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    for flags in itertools.product((True, False), repeat=5):
        how = dict(zip(names, flags, strict=True))
        b = _matrix(rng, char, *((7, 3) if how["left_side"] else (3, 7)))
        kept = b.copy()
        _close(lapack.triangular_solve(a, b, *flags), triangular_solve.reference(a, b, **how))
        np.testing.assert_array_equal(b, kept)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (1, 1)])
@pytest.mark.parametrize("char", "fdFD")
def test_factors(char: str, shape: tuple[int, int]) -> None:
    x = _matrix(np.random.default_rng(2), char, *shape)
    found = lapack.lu(x)
    assert found is not None
    wanted = matrix_values.lu(x)
    _close(found[0], wanted[0])
    np.testing.assert_array_equal(found[1], wanted[1])
    for columns, mode in ((min(x.shape), "reduced"), (x.shape[0], "complete")):
        factors = lapack.qr(x, columns, True)
        alone = lapack.qr(x, columns, False)
        assert factors is not None and alone is not None
        np.testing.assert_array_equal(alone[0], factors[1])
        for got, want in zip(factors, np.linalg.qr(x, mode=mode), strict=True):  # type: ignore[call-overload]
            _close(got, want)


def test_no_matrices_of_a_large_size() -> None:
    none, right = np.zeros((0, 256, 256), "f4"), np.zeros((0, 256, 8), "f4")
    for policy in ("immediate", "lazy"):
        with functrax.eager(policy):
            assert lax.linalg.triangular_solve(none, right, left_side=True).shape == (0, 256, 8)
            shapes = [x.shape for x in lax.linalg.lu(none)]
            assert shapes == [(0, 256, 256), (0, 256), (0, 256)]
            assert [x.shape for x in jnp.linalg.qr(none)] == [(0, 256, 256)] * 2


def test_a_zero_pivot() -> None:
    found = lapack.lu(np.zeros((3, 3), "f4"))
    assert found is not None
    np.testing.assert_array_equal(found[0], 0)
    x = lapack.triangular_solve(np.zeros((2, 2)), np.ones((2, 1)), True, True, *[False] * 3)
    assert not np.isfinite(x).any()


def test_large_matrices_are_solved_and_factored_in_their_precision() -> None:
    rng = np.random.default_rng(3)
    a = rng.normal(size=(2, 160, 160)).astype("f4")
    triangle = np.tril(a) + 20 * np.eye(160, dtype="f4")
    b = rng.normal(size=(2, 160, 96)).astype("f4")
    x = functrax.jit(lambda t, b: lax.linalg.triangular_solve(t, b, left_side=True, lower=True))
    np.testing.assert_allclose(triangle @ x(triangle, b), b, rtol=1e-3, atol=1e-3)
    q, r = functrax.jit(jnp.linalg.qr)(a)
    np.testing.assert_allclose(q @ r, a, rtol=1e-3, atol=1e-3)
    lu, _, order = functrax.jit(lax.linalg.lu)(a)
    lower = np.tril(lu, -1) + np.eye(160, dtype="f4")
    np.testing.assert_allclose(
        lower @ np.triu(lu), np.take_along_axis(a, np.asarray(order)[..., None], 1), atol=1e-3
    )
    spd = a @ a.swapaxes(1, 2) + 160 * np.eye(160, dtype="f4")
    for found, want in (
        (jnp.linalg.solve(spd, b), np.linalg.solve(spd, b)),
        (jnp.linalg.cholesky(spd), np.linalg.cholesky(spd)),
        (jnp.linalg.slogdet(spd)[1], np.linalg.slogdet(spd)[1]),
        (jnp.linalg.eigvalsh(spd), np.linalg.eigvalsh(spd)),
        (jnp.linalg.svd(a, compute_uv=False), np.linalg.svd(a, compute_uv=False)),
    ):
        np.testing.assert_allclose(found, want, rtol=2e-4, atol=2e-4)


def test_without_the_library_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lapack, "library", lambda: None)
    a = np.random.default_rng(4).normal(size=(140, 140)).astype("f4")
    assert lapack.lu(a) is lapack.qr(a, 140, True) is None
    q, r = jnp.linalg.qr(a)
    np.testing.assert_allclose(np.asarray(q) @ np.asarray(r), a, atol=1e-3)
    lower = np.tril(a) + 12 * np.eye(140, dtype="f4")
    x = lax.linalg.triangular_solve(lower, a, left_side=True, lower=True)
    np.testing.assert_allclose(lower @ np.asarray(x), a, atol=1e-2)
