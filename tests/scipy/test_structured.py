"""Matrices of a known structure against SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg as wanted

import functrax
import functrax.scipy.linalg as linalg
from functrax.errors import ArgumentError, ShapeError

C, R = np.array([1.0, 2.0, 3.0, 4.0], "float32"), np.array([9.0, 5.0, 6.0], "float32")


@pytest.mark.parametrize("name", ["toeplitz", "hankel"])
@pytest.mark.parametrize("vectors", [(C,), (C, R), (R, C), (C * 1j,), (C[:1],), (C[:1], R)])
def test_diagonals(name: str, vectors: tuple[Any, ...]) -> None:
    got, want = getattr(linalg, name)(*vectors), getattr(wanted, name)(*vectors)
    np.testing.assert_array_equal(got, want)
    if len(vectors) == 1:
        batch = getattr(linalg, name)(np.stack([vectors[0]] * 2))
        np.testing.assert_array_equal(batch, np.stack([want] * 2))


def test_other_structures() -> None:
    np.testing.assert_array_equal(linalg.circulant(C), wanted.circulant(C))
    np.testing.assert_array_equal(linalg.companion(C), wanted.companion(C))
    np.testing.assert_array_equal(linalg.hadamard(8), wanted.hadamard(8))
    np.testing.assert_allclose(linalg.hilbert(5), wanted.hilbert(5), rtol=1e-6)
    for scale in (None, "n", "sqrtn"):
        np.testing.assert_allclose(linalg.dft(5, scale), wanted.dft(5, scale), atol=1e-6)
    with pytest.raises(ShapeError, match="last axis"):
        linalg.companion(C[:1])
    with pytest.raises(ArgumentError, match="power of 2"):
        linalg.hadamard(6)


@pytest.mark.parametrize("side", ["left", "right"])
def test_polar(side: str) -> None:
    a = np.random.default_rng(0).normal(size=(4, 3))
    a = a if side == "right" else a.T
    for got, want in zip(linalg.polar(a, side), wanted.polar(a, side), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5)
    u, _ = functrax.vmap(lambda a: linalg.polar(a, side))(np.stack([a, -a]))
    np.testing.assert_allclose(u[0], -u[1], atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_counting_matrices(n: int) -> None:
    for kind in ("symmetric", "lower", "upper"):
        np.testing.assert_array_equal(linalg.pascal(n, kind), wanted.pascal(n, kind))
        np.testing.assert_array_equal(linalg.invpascal(n, kind), wanted.invpascal(n, kind))
    np.testing.assert_allclose(linalg.invhilbert(n), wanted.invhilbert(n), rtol=1e-6)
    for full in (False, True):
        np.testing.assert_allclose(linalg.helmert(n, full), wanted.helmert(n, full), atol=1e-6)


@pytest.mark.parametrize("n", range(2, 8))
def test_matrices_of_vectors(n: int) -> None:
    a = np.random.default_rng(n).normal(size=(2, n)).astype("float32")
    b = a[:, 1:]
    cases: list[tuple[Any, Any, tuple[Any, ...]]] = [
        (linalg.fiedler, wanted.fiedler, (a,)),
        (linalg.fiedler_companion, wanted.fiedler_companion, (a,)),
        (linalg.leslie, wanted.leslie, (a, b)),
    ]
    for got, want, args in cases:
        each = np.stack([want(*row) for row in zip(*args)])
        np.testing.assert_allclose(got(*args), each, rtol=1e-5)
    for mode in ("full", "same", "valid"):
        for size in (1, 3, 9):
            want = wanted.convolution_matrix(a[0], size, mode)
            np.testing.assert_array_equal(linalg.convolution_matrix(a, size, mode)[0], want)


def test_vectors_and_numbers_that_are_refused() -> None:
    for error, match, call in (
        (ArgumentError, "positive", lambda: linalg.helmert(0)),
        (ArgumentError, "kind", lambda: linalg.pascal(2, "else")),
        (ArgumentError, "complex", lambda: linalg.dft(2, dtype="float32")),
        (ShapeError, "nonzero", lambda: linalg.fiedler_companion(C[:0])),
        (ShapeError, "at least 2", lambda: linalg.leslie(C[:1], C[:0])),
        (ShapeError, "Incorrect lengths", lambda: linalg.leslie(C, C)),
        (ArgumentError, "mode", lambda: linalg.convolution_matrix(C, 2, "else")),
        (ArgumentError, "positive", lambda: linalg.convolution_matrix(C, 0)),
        (ShapeError, "at least 1", lambda: linalg.convolution_matrix(C[:0], 2)),
    ):
        with pytest.raises(error, match=match):
            call()
