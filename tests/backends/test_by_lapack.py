"""Factorisations and solutions of more than a few rows, by functions of LAPACK itself."""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.compilation.compiler import compile_program
from functrax.backends.executables import library_functions as library
from functrax.backends.executables.program import HostCall, Launch, all_programs
from functrax.backends.libraries.site import ALONE, BLOCK, Site
from functrax.core import native
from functrax.core.options.contexts import enable_x64
from functrax.core.prims import lapack, matrix_values
from functrax.core.prims.factorisations import factored_solve
from functrax.core.prims.linear_systems import triangular_solve

pytestmark = pytest.mark.skipif(
    native.extension is None or lapack.library() is None, reason="NumPy's LAPACK has no address"
)

N = BLOCK + 13


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    with enable_x64():
        yield


@pytest.fixture(autouse=True)
def without_strips(monkeypatch: Any) -> Iterator[None]:
    """Real matrices go to LAPACK as they do where vectors are short."""
    monkeypatch.setattr(Site, "is_dense", False)
    functrax.clear_caches()
    yield
    functrax.clear_caches()


@pytest.fixture(params=["LAPACK", "NumPy's loops"])
def without_lapack(request: Any, monkeypatch: Any) -> Iterator[bool]:
    """Whether there is no LAPACK to be called."""
    lacks = request.param != "LAPACK"
    if lacks:
        monkeypatch.setattr(lapack, "library", lambda: None)
        library._found.cache_clear()
        functrax.clear_caches()
    yield lacks
    library._found.cache_clear()
    functrax.clear_caches()


def random(*shape: int, char: str = "f", seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if char in "FD" else x).astype(char)


def positive(*shape: int, char: str = "f") -> np.ndarray[Any, Any]:
    x = random(*shape, char=char)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + shape[-1] * np.eye(shape[-1])).astype(char)


def results(function: Any, *args: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(x) for x in functrax.tree.leaves(functrax.jit(function)(*args))]


def assert_close(x: Any, y: Any, char: str) -> None:
    bound = 2e-4 if char in "fF" else 1e-12
    np.testing.assert_allclose(x, y, rtol=bound, atol=bound * max(float(np.abs(y).max()), 1))


@pytest.mark.parametrize("char", "fdFD")
def test_cholesky(char: str, without_lapack: bool) -> None:
    for lead in ((), (3,)):
        x = positive(*lead, N, N, char=char)
        wrong_above = x + np.triu(random(N, N, char=char), 1)  # which nobody reads
        (got,) = results(
            lambda x: lax.linalg.cholesky(x, symmetrize_input=False), wrong_above.astype(char)
        )
        assert_close(got, np.linalg.cholesky(x), char)
        assert not np.triu(got, 1).any()


def test_what_is_not_positive_definite_is_nan(without_lapack: bool) -> None:
    x = positive(2, N, N)
    x[1, 5, 5] = -1
    (got,) = results(jnp.linalg.cholesky, x)
    assert np.isfinite(got[0]).all()
    assert np.isnan(np.tril(got[1])[np.tril_indices(N)]).all() and not np.triu(got[1], 1).any()


@pytest.mark.parametrize("char", "fdFD")
def test_solutions(char: str, without_lapack: bool) -> None:
    for lead, columns in itertools.product(((), (2,)), (1, 2, 70)):
        a = (random(*lead, N, N, char=char) + 3 * np.eye(N)).astype(char)  # which exchanges rows
        b = random(*lead, N, columns, char=char, seed=1)
        (got,) = results(jnp.linalg.solve, a, b)
        wide = "D" if char in "FD" else "d"
        assert_close(got, np.linalg.solve(a.astype(wide), b.astype(wide)), char)


def test_a_singular_system_has_no_solution(without_lapack: bool) -> None:
    a = np.stack([random(N, N), np.zeros((N, N), np.float32)])
    (got,) = results(jnp.linalg.solve, a, random(2, N, 3))
    assert np.isfinite(got[0]).all() and np.isnan(got[1]).all()


@pytest.mark.parametrize("char", "fdFD")
def test_triangles_of_every_kind(char: str, without_lapack: bool) -> None:
    wide = "D" if char in "FD" else "d"
    flags = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    for n, values in enumerate(itertools.product((True, False), repeat=5)):
        how = dict(zip(flags, values, strict=True))
        for count in (1, 2 + n % 3):
            a = (random(2, N, N, char=char) / N + 2 * np.eye(N)).astype(char)
            shape = (2, N, count) if how["left_side"] else (2, count, N)
            b = random(*shape, char=char, seed=1)
            (got,) = results(lambda a, b, how=how: triangular_solve(a, b, **how), a, b)
            assert_close(
                got, triangular_solve.reference(a.astype(wide), b.astype(wide), **how), char
            )


@pytest.mark.parametrize("char", "fdFD")
@pytest.mark.parametrize("shape", [(N, N), (2, N, N + 30), (2, N + 30, N)])
def test_elimination(shape: tuple[int, ...], char: str) -> None:
    x = random(*shape, char=char)
    x[..., 0, 0] = 0
    x[..., :, 3] = 0  # a pivot of zero
    wide = "D" if char in "FD" else "d"
    got, wanted = results(lax.linalg.lu, x), matrix_values.lu(x.astype(wide))
    assert_close(got[0], wanted[0], char)
    np.testing.assert_array_equal(got[1], wanted[1])
    np.testing.assert_array_equal(got[2], wanted[2])


@pytest.mark.parametrize("char", "fdFD")
@pytest.mark.parametrize("shape", [(N, N), (2, N, N + 60), (2, N + 60, N), (9 * N, 30)])
def test_rotations(shape: tuple[int, ...], char: str, without_lapack: bool) -> None:
    x = random(*shape, char=char)
    for mode in ("reduced", "complete"):
        q, r = results(lambda x, mode=mode: jnp.linalg.qr(x, mode=mode), x)
        wanted = np.linalg.qr(x, mode=mode)
        assert_close(r, wanted.R, char)
        assert_close(q, wanted.Q, char)
    assert_close(
        results(lambda x: jnp.linalg.qr(x, mode="r"), x)[0], np.linalg.qr(x, mode="r"), char
    )


def test_all_of_it_is_launched() -> None:
    def function(x: Any) -> Any:
        a = jnp.linalg.cholesky(x)
        return jnp.linalg.solve(x, a), lax.linalg.lu(x), jnp.linalg.qr(x), jnp.linalg.inv(a)

    jaxpr = functrax.jit(function).lower(positive(300, 300)).jaxpr
    programs = all_programs(compile_program(jaxpr).program)
    steps = [x for p in programs for x in p.instructions]
    assert not [x for x in steps if isinstance(x, HostCall)]
    names = {x.name for x in steps if isinstance(x, Launch)}
    assert {"cholesky", "linear_solve", "lu", "qr"} <= names


# ---- threads ------------------------------------------------------------------------------------


@pytest.fixture
def asked() -> Iterator[list[int]]:
    """How many threads a library of 7 was asked to take, in turn."""
    found: list[int] = []
    get = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 7)
    set_ = ctypes.CFUNCTYPE(None, ctypes.c_int)(found.append)
    library._know_threads()
    addresses = [library._address(f) for f in (get, set_)]
    native.extension.configure_blas_threads(*addresses)
    yield found
    native.extension.configure_blas_threads(*map(library._address, lapack.thread_control() or ()))


@pytest.mark.parametrize("name", ["cholesky", "eigvalsh", "det"])
def test_middle_matrices_have_one_thread(name: str, asked: list[int]) -> None:
    function = functrax.jit(getattr(jnp.linalg, name))
    function(positive(100, 100)).block_until_ready()
    assert asked == [1, 7]
    function(positive(20, 20)).block_until_ready()  # eigenvalues of which LAPACK has as well
    assert asked == [1, 7] * (2 if name == "eigvalsh" else 1)


def test_large_matrices_have_all_threads(asked: list[int]) -> None:
    n = round(ALONE ** (1 / 3)) + 1
    functrax.jit(jnp.linalg.cholesky)(positive(n, n)).block_until_ready()
    assert not asked


def test_the_number_of_threads_is_as_before() -> None:
    get, set_ = lapack.thread_control() or (None, None)
    assert get is not None and set_ is not None
    before, x = get(), positive(4, 120, 120)
    function = functrax.jit(jnp.linalg.cholesky)
    wanted = np.asarray(function(x))
    wrong: list[Any] = []

    def often() -> None:
        for _ in range(50):
            if not np.array_equal(function(x), wanted):
                wrong.append(1)

    threads = [threading.Thread(target=often) for _ in range(4)]
    set_(before + 1)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert get() == before + 1 and not wrong
    finally:
        set_(before)


@pytest.mark.parametrize("char", "fdFD")
@pytest.mark.parametrize("n", [1, 5, N])
@pytest.mark.parametrize("count", [1, 3])
def test_systems_of_an_eliminated_matrix(n: int, count: int, char: str) -> None:
    a, b = random(2, n, n, char=char), random(2, n, count, char=char, seed=1)
    factors, _, order = results(lax.linalg.lu, a)
    for transposed in (False, True):
        wide = (a.swapaxes(-1, -2) if transposed else a).astype("D")
        (got,) = results(partial(factored_solve, transposed=transposed), a, factors, order, b)
        size = np.abs(wide).max() * n * max(1, np.abs(got).max())
        assert np.abs(wide @ got - b).max() < 16 * np.finfo(char).eps * size
    (got,) = results(partial(factored_solve, transposed=True), a * 0, factors * 0, order, b)
    assert np.isnan(got).all()


def test_the_gradient_of_a_solution_eliminates_once() -> None:
    a, b = random(N, N, char="d"), random(N, char="d", seed=1)
    program = functrax.make_jaxpr(functrax.grad(lambda a, b: jnp.linalg.solve(a, b).sum()))(a, b)
    names = [eqn.primitive.name for eqn in program.jaxpr.eqns]
    assert names.count("lu") == 1 and names.count("factored_solve") == 2
    assert "linear_solve" not in names
    (got,) = results(functrax.grad(lambda a, b: jnp.linalg.solve(a, b).sum()), a, b)
    ones = np.linalg.solve(a.T, np.ones(N))
    np.testing.assert_allclose(got, -np.outer(ones, np.linalg.solve(a, b)), rtol=1e-9, atol=1e-9)
