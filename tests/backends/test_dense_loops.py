"""Real matrices by strips of columns (``native/dense_loops.cpp``)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.executables.library_functions import own_function
from functrax.backends.libraries.site import Site
from functrax.core import native
from functrax.core.options.config import Override
from functrax.core.options.contexts import enable_x64
from functrax.core.prims import matrix_values
from functrax.core.prims.determinants import cofactor
from functrax.core.prims.factorisations import factored_solve
from functrax.core.prims.linear_systems import triangular_solve

pytestmark = pytest.mark.skipif(
    own_function("dense_lu_f") is None, reason="vectors are shorter than 64 bytes"
)

#: One column, some of a vector, whole vectors, whole strips, and one more than these.
SIZES = (1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33, 65, 100)
COUNTS = (1, 2, 16, 17, 33, 70)


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    with enable_x64():
        yield


def random(*shape: int, char: str = "d", seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(char)


def positive(*shape: int, char: str = "d") -> np.ndarray[Any, Any]:
    x = random(*shape)
    return (x @ np.swapaxes(x, -1, -2) / shape[-1] + np.eye(shape[-1])).astype(char)


def results(function: Any, *args: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(x) for x in functrax.tree.leaves(functrax.jit(function)(*args))]


def assert_close(x: Any, y: Any) -> None:
    bound = 64 * np.finfo(x.dtype).eps * max(1, y.shape[-1])
    np.testing.assert_allclose(x, y, rtol=bound, atol=bound * max(float(np.abs(y).max()), 1))


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("n", SIZES)
def test_cholesky_reads_the_lower_triangle_alone(n: int, char: str) -> None:
    x = positive(3, n, n, char=char)
    above = np.where(np.tri(n, dtype=bool), x, np.nan).astype(char)
    (got,) = results(lambda x: lax.linalg.cholesky(x, symmetrize_input=False), above)
    assert_close(got, np.linalg.cholesky(x.astype("d")))
    assert not np.triu(got, 1).any()
    (alone,) = results(lambda x: lax.linalg.cholesky(x, symmetrize_input=False), above[1])
    np.testing.assert_array_equal(alone, got[1])


@pytest.mark.parametrize("n", [1, 4, 40])
@pytest.mark.parametrize("wrong", [-1.0, 0.0, np.nan])
def test_what_is_not_positive_definite_is_nan(n: int, wrong: float) -> None:
    x = positive(3, n, n)
    x[1, n - 1, n - 1] = wrong
    (got,) = results(lambda x: lax.linalg.cholesky(x, symmetrize_input=False), x)
    assert np.isfinite(got[[0, 2]]).all()
    assert np.isnan(got[1][np.tril_indices(n)]).all() and not np.triu(got[1], 1).any()


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("shape", [(n, n) for n in SIZES] + [(5, 40), (40, 5), (33, 70), (70, 33)])
def test_elimination(shape: tuple[int, int], char: str) -> None:
    x = random(2, *shape, char=char)
    x[1, 0, 0] = 0
    got = results(lax.linalg.lu, x)
    wanted = matrix_values.lu(x.astype("d"))
    assert_close(got[0], wanted[0])
    np.testing.assert_array_equal(got[1], wanted[1])
    np.testing.assert_array_equal(got[2], wanted[2])


@pytest.mark.parametrize("strict", [False, True])
def test_columns_of_zeros_and_infinite_reciprocals(strict: bool) -> None:
    x = random(36, 36)
    x[:, 3] = 0  # nothing is divided
    if strict:  # else it is a column of zeros, too
        x[:, 34] *= 1e-310  # the reciprocal of whose pivot is infinite
    with Override("strict", strict):
        got, wanted = results(lax.linalg.lu, x), matrix_values.lu(x)
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-9, atol=1e-322)
    np.testing.assert_array_equal(got[2], wanted[2])
    tiny = np.diag([2.0, 5e-310])
    with Override("strict", strict):
        (got_x,) = results(
            lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), tiny,
            np.array([[2.0, 4.0], [1e-300, 0.0]]),
        )  # fmt: skip
    wanted_x = [[1, 2], [1e-300 / 5e-310, 0]] if strict else [[1, 2], [np.inf, np.nan]]
    np.testing.assert_allclose(got_x, wanted_x, rtol=1e-6)


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("n", SIZES)
def test_systems(n: int, char: str) -> None:
    a = (random(2, n, n) + 2 * np.eye(n)[::-1]).astype(char)  # whose rows are exchanged
    for count in COUNTS:
        b = random(2, n, count, char=char, seed=1)
        (got,) = results(jnp.linalg.solve, a, b)
        wide = a.astype("d")
        size = np.abs(wide).max() * n * max(1, np.abs(got).max())
        assert np.abs(wide @ got - b).max() < 16 * np.finfo(char).eps * size
        (alone,) = results(jnp.linalg.solve, a[1], b[1])
        np.testing.assert_array_equal(alone, got[1])


@pytest.mark.parametrize("count", [1, 3])
def test_a_singular_system_has_no_solution(count: int) -> None:
    a = np.stack([random(20, 20), np.ones((20, 20)), random(20, 20, seed=2)])
    (got,) = results(jnp.linalg.solve, a, random(3, 20, count))
    assert np.isfinite(got[[0, 2]]).all() and np.isnan(got[1]).all()


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("n", [1, 4, 7, 33, 66])
def test_triangles_of_every_kind(n: int, char: str) -> None:
    flags = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    for number, values in enumerate(itertools.product((True, False), repeat=5)):
        how = dict(zip(flags, values, strict=True))
        count = COUNTS[number % len(COUNTS)]
        a = (random(2, n, n) / n + 2 * np.eye(n)).astype(char)
        b = random(2, *((n, count) if how["left_side"] else (count, n)), char=char, seed=1)
        (got,) = results(lambda a, b, how=how: triangular_solve(a, b, **how), a, b)
        assert_close(got, triangular_solve.reference(a.astype("d"), b.astype("d"), **how))


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("n", [1, 2, 4, 17, 80])
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigenvalues_of_one_triangle(n: int, uplo: str, char: str) -> None:
    x = random(2, n, n, char=char)
    w, v = results(lambda x: jnp.linalg.eigh(x, uplo, symmetrize_input=False), x)
    half = np.tril(x) if uplo == "L" else np.triu(x).swapaxes(-1, -2)
    full = (half + np.tril(half, -1).swapaxes(-1, -2)).astype("d")
    assert_close(w, np.linalg.eigvalsh(full).astype(char))
    assert_close(v @ (w[..., None] * v.swapaxes(-1, -2)), full)
    assert_close(v @ v.swapaxes(-1, -2), np.broadcast_to(np.eye(n), v.shape))


def test_bits_do_not_depend_on_threads() -> None:
    assert native.extension is not None
    a, b = positive(40, 50, 50), random(40, 50, 50, seed=1)

    def function(a: Any, b: Any) -> Any:
        lower = jnp.linalg.cholesky(a)
        solved = lax.linalg.triangular_solve(lower, b, left_side=True, lower=True)
        return lower, solved, jnp.linalg.solve(b, a), lax.linalg.lu(b)

    expected = results(function, a, b)
    before = native.extension.num_threads()
    try:
        for threads in (1, 3):
            native.extension.set_num_threads(threads)
            for ours, theirs in zip(results(function, a, b), expected, strict=True):
                np.testing.assert_array_equal(ours, theirs)
    finally:
        native.extension.set_num_threads(before)


def test_gradients_are_those_of_the_general_code(monkeypatch: Any) -> None:
    def loss(x: Any, y: Any) -> Any:
        factor = jnp.linalg.cholesky(x)
        solved = functrax.scipy.linalg.cho_solve((factor, True), y)
        other = jnp.linalg.solve(x + 0.1 * y @ y.T, y) + jnp.linalg.inv(x) @ y
        w, v = jnp.linalg.eigh(x)
        return jnp.sum(jnp.sin(solved)) + jnp.sum(other**2) + jnp.sum(w**3) + jnp.sum(v**4)

    args = positive(40, 40), random(40, 3, seed=1)
    ours = results(functrax.grad(loss, (0, 1)), *args)
    monkeypatch.setattr(Site, "is_dense", False)
    functrax.clear_caches()
    general = results(functrax.grad(loss, (0, 1)), *args)
    functrax.clear_caches()
    for x, y in zip(ours, general, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9 * np.abs(y).max())


@pytest.mark.parametrize("lead", [(), (0,), (2,)])
def test_empty_matrices(lead: tuple[int, ...]) -> None:
    for n in (0, 3):
        a = np.broadcast_to(np.eye(n), (*lead, n, n))
        lower, solved = results(
            lambda a: (jnp.linalg.cholesky(a), jnp.linalg.solve(a, a[..., :0])), a
        )
        assert lower.shape == a.shape and solved.shape == (*lead, n, 0)
        np.testing.assert_array_equal(lower, a)


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("n", SIZES)
def test_systems_of_an_eliminated_matrix(n: int, char: str) -> None:
    a = (random(2, n, n) + 2 * np.eye(n)[::-1]).astype(char)
    factors, _, order = results(lax.linalg.lu, a)
    for count, transposed in itertools.product((1, 3, 40), (False, True)):
        b = random(2, n, count, char=char, seed=1)
        (got,) = results(partial(factored_solve, transposed=transposed), a, factors, order, b)
        wide = (a.swapaxes(-1, -2) if transposed else a).astype("d")
        size = np.abs(wide).max() * n * max(1, np.abs(got).max())
        assert np.abs(wide @ got - b).max() < 16 * np.finfo(char).eps * size


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("n", [1, 2, 5, 17, 40, 70])
def test_cofactors_of_any_rank(n: int, char: str) -> None:
    for rank in range(max(n - 2, 0), n + 1):
        x = (random(2, n, rank) @ random(2, rank, n, seed=1) / n).astype(char)
        x[1] = x[1][:, ::-1]
        (got,) = results(cofactor, x)
        wanted = matrix_values.cofactors(x.astype("d"))
        sizes = np.linalg.svd(x.astype("d"), compute_uv=False)
        scale = sizes[:, 0] * np.prod(sizes[:, : max(n - 2, 0)], axis=-1)
        bound = 16 * n * np.finfo(char).eps * max(float(scale.max()), 1e-30)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=bound)


def test_cofactors_whose_zero_pivot_is_not_the_last() -> None:
    x = random(2, 40, 40)
    x[0, :, 0] = 0
    x[1, :, 20] = x[1, :, 3]
    (got,) = results(cofactor, x)
    wanted = matrix_values.cofactors(x)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-10 * np.abs(wanted).max())


@pytest.mark.parametrize("power", [9, -9])
def test_cofactors_of_pivots_whose_products_leave_the_range(power: int) -> None:
    """The first sixteen pivots have a product of 2**144 or 2**-144."""
    pivots = 2.0 ** np.repeat([power, -power + np.sign(power) * 2], 16)
    (got,) = results(cofactor, np.diag(pivots).astype("f"))
    np.testing.assert_array_equal(got, np.diag(np.prod(pivots) / pivots).astype("f"))
