"""Linear algebra and Fourier transforms as launches of library functions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends import disk_cache
from functrax.backends.cache import program_cache
from functrax.backends.compilation.compiler import compile_program
from functrax.backends.cpu import CpuDevice
from functrax.backends.executables import library_functions as library
from functrax.backends.executables.program import HostCall, Launch, all_programs
from functrax.backends.libraries.calls import PRIMITIVES
from functrax.backends.runtime.choice import NATIVE, PYTHON
from functrax.backends.targets import making_for, target
from functrax.core.native import extension
from functrax.core.options.config import config
from functrax.core.options.contexts import enable_x64
from functrax.core.prims import matrix_values
from functrax.core.prims.determinants import cofactor
from functrax.core.prims.linear_systems import triangular_solve

pytestmark = pytest.mark.skipif(extension is None, reason="the extension has the functions")


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    with enable_x64():
        yield


def random(*shape: int, char: str = "f", seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if char in "FD" else x).astype(char)


def results(function: Callable[..., Any], *args: Any) -> list[np.ndarray[Any, Any]]:
    """What a jitted function gives, by library functions where there are any."""
    jaxpr = functrax.jit(function).lower(*args).jaxpr
    programs = all_programs(compile_program(jaxpr).program)
    called = {x.name for p in programs for x in p.instructions if isinstance(x, HostCall)}
    assert not called & PRIMITIVES
    return [np.asarray(x) for x in functrax.tree.leaves(functrax.jit(function)(*args))]


SAME_BITS = {
    "det": np.linalg.det,
    "slogdet": np.linalg.slogdet,
    "eigvalsh": lambda x: np.linalg.eigh(x)[0],
    "svd": lambda x: np.linalg.svd(x[..., :3]),
    "svd_values": lambda x: np.linalg.svd(x, compute_uv=False),
    "qr": np.linalg.qr,
    "qr_complete": lambda x: np.linalg.qr(x[..., :3], mode="complete"),
}
OURS = {
    "eigvalsh": lambda x: jnp.linalg.eigh(x, symmetrize_input=False)[0],
    "svd": lambda x: jnp.linalg.svd(x[..., :3]),
    "svd_values": lambda x: jnp.linalg.svd(x, compute_uv=False),
    "qr_complete": lambda x: jnp.linalg.qr(x[..., :3], mode="complete"),
}


@pytest.mark.parametrize("char", "fdFD")
@pytest.mark.parametrize("name", SAME_BITS)
def test_numpys_loops_give_numpys_bits(name: str, char: str) -> None:
    x = random(5, 4, 4, char=char)
    wanted = SAME_BITS[name](x)
    got = results(OURS.get(name) or getattr(jnp.linalg, name), x)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    single = ("svd", "svd_values", "qr", "qr_complete")  # not in double precision, as NumPy has it
    own_precision = {"eigvalsh": "fd", **dict.fromkeys(single, "fF")}
    by_lapack = char in own_precision.get(name, "")
    close = 64 * np.finfo(char).eps * np.abs(wanted[0]).max() if by_lapack else 0
    for ours, theirs in zip(got, wanted, strict=True):
        assert ours.dtype == theirs.dtype
        if by_lapack and name == "svd":  # the column that makes u square has any sign
            ours, theirs = ours[..., :3], theirs[..., :3]
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=close)


@pytest.mark.parametrize("char", "FD")
def test_solutions_have_numpys_bits(char: str) -> None:
    for shape in ((6, 6), (70, 3, 3)):  # all at once, and in parts
        a, b = random(*shape, char=char), random(*shape[:-1], 2, char=char, seed=1)
        (got,) = results(jnp.linalg.solve, a, b)
        np.testing.assert_array_equal(got, np.linalg.solve(a, b))


@pytest.mark.parametrize("char", "fdFD")
def test_triangles_of_every_kind(char: str) -> None:
    wide = "D" if char in "FD" else "d"
    flags = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    for n, values in enumerate(itertools.product((True, False), repeat=5)):
        how = dict(zip(flags, values, strict=True))
        a = random(2, 7, 7, char=char) / 7 + 2 * np.eye(7, dtype=char)
        b = random(2, *((7, 1 + n % 3) if how["left_side"] else (1 + n % 3, 7)), char=char, seed=1)
        (got,) = results(lambda a, b, how=how: triangular_solve(a, b, **how), a, b)
        wanted = triangular_solve.reference(a.astype(wide), b.astype(wide), **how)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-6 if char in "fF" else 4e-15)


def test_a_zero_on_the_diagonal_divides() -> None:
    a = np.array([[0, 0], [1, 1]], np.float32)
    (got,) = results(lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), a,
                     np.ones((2, 1), np.float32))  # fmt: skip
    np.testing.assert_array_equal(got[:, 0], [np.inf, -np.inf])


@pytest.mark.parametrize("char", "fdFD")
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 6, 3), (2, 3, 6), (40, 40)])
def test_elimination(shape: tuple[int, ...], char: str) -> None:
    x = random(*shape, char=char)
    x[..., 0, 0] = 0
    got = results(lax.linalg.lu, x)
    wanted = matrix_values.lu(x)
    np.testing.assert_allclose(got[0], wanted[0], rtol=0, atol=5e-5 if char in "fF" else 1e-13)
    np.testing.assert_array_equal(got[1], wanted[1])
    np.testing.assert_array_equal(got[2], wanted[2])


def test_elimination_of_zeros_and_nans() -> None:
    x = np.array([[[0, 1], [0, 2]], [[1, 2], [np.nan, 1]]], np.float32)
    for ours, theirs in zip(results(lax.linalg.lu, x), matrix_values.lu(x), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("char", "fdFD")
@pytest.mark.parametrize("n", [1, 2, 4, 7, 20])
def test_cofactors_of_any_rank(n: int, char: str) -> None:
    for rank in range(max(n - 2, 0), n + 1):
        x = (random(2, n, rank, char=char) @ random(2, rank, n, char=char, seed=1)).astype(char)
        x = (x / max(float(np.abs(x).max()), 1)).astype(char)
        (got,) = results(cofactor, x)
        wanted = matrix_values.cofactors(x.astype("D" if char in "FD" else "d"))
        np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-5 if char in "fF" else 1e-13)


def test_the_derivative_of_a_determinant() -> None:
    x = random(5, 5, char="d")
    (got,) = results(functrax.grad(jnp.linalg.det), x)
    np.testing.assert_allclose(got, np.linalg.det(x) * np.linalg.inv(x).T, rtol=1e-11)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_permutations_take_any_pivots(dtype: type) -> None:
    pivots = np.array([[2, 1, 2], [-1, 9, -9]], dtype)
    (got,) = results(lambda p: lax.linalg.lu_pivots_to_permutation(p, 4), pivots)
    np.testing.assert_array_equal(got, matrix_values.permutation_of_pivots(pivots, 4))
    np.testing.assert_array_equal(got[0], [2, 1, 0, 3])


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("length", [1, 2, 5, 12, 97])
def test_transforms_along_axes(length: int, char: str) -> None:
    tolerance = {"rtol": 0, "atol": 3e-5 if char == "f" else 1e-12}
    x = random(3, length, 4, char=char)
    z = random(3, length, 4, char=char.upper())
    for axes in ((0,), (1,), (2,), (1, 2), (0, 1, 2)):
        for name in ("fftn", "ifftn"):
            (got,) = results(lambda v, n=name, a=axes: getattr(jnp.fft, n)(v, axes=a), z)
            wanted = getattr(np.fft, name)(z.astype("D"), axes=axes)
            assert got.dtype == z.dtype
            np.testing.assert_allclose(got, wanted, **tolerance)
        half = np.fft.rfftn(x, axes=axes)
        (got,) = results(lambda v, a=axes: jnp.fft.rfftn(v, axes=a), x)
        np.testing.assert_allclose(got, half, **tolerance)
        sizes = [x.shape[a] for a in axes]
        (got,) = results(
            lambda v, s=sizes, a=axes: jnp.fft.irfftn(v, s=s, axes=a), half.astype(z.dtype)
        )
        np.testing.assert_allclose(got, x, **tolerance)


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("length", [3, 4, 15, 50, 64, 135, 2048, 1 << 15])
def test_transforms_of_many_lengths(length: int, char: str) -> None:
    close = {"rtol": 0, "atol": np.finfo(char).eps * 12 * length**0.5}
    x, z = random(3, length, char=char), random(3, length, char=char.upper())
    half = np.fft.rfft(x)
    for got, wanted in (
        (results(jnp.fft.fft, z), np.fft.fft(z.astype("D"))),
        (results(jnp.fft.ifft, z), np.fft.ifft(z.astype("D"))),
        (results(jnp.fft.rfft, x), half),
        (results(lambda v: jnp.fft.irfft(v, n=length), half.astype(z.dtype)), x),
    ):
        np.testing.assert_allclose(got[0], wanted, **close)
    for vector in (0, 2):  # alone, and together with others
        (alone,), (together,) = results(jnp.fft.fft, z[vector]), results(jnp.fft.fft, z)
        np.testing.assert_array_equal(alone, together[vector])


@pytest.mark.parametrize("char", "fd")
def test_transforms_have_the_same_bits_on_all_processors(char: str) -> None:
    """Rows and columns, as many as fill vectors, some more, and few."""
    for shape in ((3, 16), (37, 60), (21, 45), (19, 128), (17, 7)):
        x, z = random(*shape, char=char), random(*shape, char=char.upper())
        half = np.fft.rfft(x).astype(z.dtype)

        def f(x: Any, z: Any, half: Any, n: int = shape[1]) -> Any:
            one = jnp.fft.rfft(x), jnp.fft.irfft(half, n=n), jnp.fft.ifft(z)
            return *one, jnp.fft.fft2(z), jnp.fft.ifft2(z)

        wanted = np.fft.rfft(x), x, np.fft.ifft(z), np.fft.fft2(z), np.fft.ifft2(z)
        found = []
        for nbytes in (16, 32, 64):
            with making_for(replace(target(), vector_bytes=nbytes)):
                jaxpr = functrax.jit(f).lower(x, z, half).jaxpr
                found.append(NATIVE.load(compile_program(jaxpr).program)([x, z, half]))
        for one, expected in zip(map(np.asarray, found[-1]), wanted, strict=True):
            close = np.finfo(char).eps * 8 * max(1, np.abs(expected).max())
            np.testing.assert_allclose(one, expected, rtol=0, atol=close)
        for other in found[:2]:
            for one, expected in zip(other, found[-1], strict=True):
                np.testing.assert_array_equal(one, expected)


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("length", [20000, 3**9, 1 << 17, 25 * 1350])
def test_long_transforms(length: int, char: str) -> None:
    close = {"rtol": 0, "atol": np.finfo(char).eps * 12 * length**0.5}
    z = random(3, length, char=char.upper())
    x = z.real.copy()
    found = []
    for nbytes in (16, 32, 64):
        with making_for(replace(target(), vector_bytes=nbytes)):
            f = lambda x, z: (jnp.fft.rfft(x), jnp.fft.fft(z), jnp.fft.ifft(z))
            program = compile_program(functrax.jit(f).lower(x, z).jaxpr).program
            calls = [i for p in all_programs(program) for i in p.instructions]
            launches = sum(x.name == "fft" and isinstance(x, Launch) for x in calls)
            assert launches == (5 if length == 20000 else 6)  # its half is not long
            found.append(list(map(np.asarray, NATIVE.load(program)([x, z]))))
    wide = z.astype("D")
    for got, wanted in zip(found[0], (np.fft.rfft(wide.real), np.fft.fft(wide), np.fft.ifft(wide))):
        np.testing.assert_allclose(got, wanted, **close)
    for others in found[1:]:
        for got, wanted in zip(others, found[0], strict=True):
            np.testing.assert_array_equal(got, wanted)
    assert not found[0][0][:, 0].imag.any()
    assert length % 2 or not found[0][0][:, -1].imag.any()
    (alone,) = results(jnp.fft.fft, z[1])
    np.testing.assert_array_equal(alone, found[0][1][1])


@pytest.mark.parametrize("char", "FD")
def test_a_transform_has_the_same_bits_among_any_others(char: str) -> None:
    """Alone, few, many, a part of the lanes, along rows and columns."""
    for length in (8, 30, 256, 405):
        z = random(35, length, char=char)
        for name in ("fft", "ifft"):
            f = getattr(jnp.fft, name)
            (expected,) = results(f, z)
            for count in (1, 2, 5, 16, 17):
                np.testing.assert_array_equal(results(f, z[:count])[0], expected[:count])
            (turned,) = results(f, expected.T.copy())
            (both,) = results(getattr(jnp.fft, name + "n"), z)
            np.testing.assert_array_equal(both, turned.T)


def test_inverse_transforms_look_at_real_parts_of_real_elements() -> None:
    for length in (6, 9):
        half = random(length // 2 + 1, char="F")
        (got,) = results(lambda v, n=length: jnp.fft.irfft(v, n=n), half)
        np.testing.assert_allclose(got, np.fft.irfft(half, n=length), rtol=0, atol=1e-6)


def test_matrices_at_fault_alone_are_nan_and_nobody_is_told() -> None:
    one = np.eye(3, dtype=np.float32)
    x = np.stack([np.zeros_like(one), one, one * np.nan])
    with np.errstate(all="raise"):
        (solved,) = results(jnp.linalg.solve, x, x[1:2] + 0 * x)
        (factor,) = results(jnp.linalg.cholesky, x[:2] - one / 2)
        values, _ = results(jnp.linalg.eigh, x)
        assert (np.float32(1) + one).sum() == 12
    np.testing.assert_array_equal(np.isnan(solved).all((1, 2)), [True, False, True])
    np.testing.assert_array_equal(np.isnan(factor[0]), np.tril(one) + np.tri(3) > 0)
    assert factor[0, 0, 2] == 0
    np.testing.assert_allclose(factor[1], one * np.float32(np.sqrt(0.5)))
    np.testing.assert_array_equal(np.isnan(values).any(1), [False, False, True])


def test_bits_do_not_depend_on_threads_or_on_jit() -> None:
    a, b = random(300, 9, 9) + 9 * np.eye(9, dtype="f"), random(300, 9, 2)
    z = random(50, 64, char="F")

    def f(a: Any, b: Any, z: Any) -> Any:
        lower = lax.linalg.triangular_solve(a, b, left_side=True, lower=True)
        return lower, lax.linalg.lu(a)[0], jnp.linalg.eigh(a)[1], jnp.fft.fft(z), jnp.fft.fft(z.T)

    expected = results(f, a, b, z)
    for ours, theirs in zip(f(a, b, z), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for number in (0, 299):
        alone = results(f, a[number], b[number], z)
        for ours, theirs in zip(alone[:3], expected, strict=False):
            np.testing.assert_array_equal(ours, theirs[number])
    before = extension.num_threads()
    try:
        for threads in (1, 3):
            extension.set_num_threads(threads)
            for ours, theirs in zip(results(f, a, b, z), expected, strict=True):
                np.testing.assert_array_equal(ours, theirs)
    finally:
        extension.set_num_threads(before)


def kalman(x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        mean, cov = state
        gain = jnp.linalg.solve(cov + jnp.eye(4, dtype=x.dtype), cov)
        mean = mean + gain @ (row - mean)
        return (mean, cov - gain @ cov), jnp.fft.irfft(jnp.fft.rfft(mean), n=4)

    return lax.scan(step, (x[0], jnp.eye(4, dtype=x.dtype)), x)[1]


def test_programs_with_libraries_are_kept_on_disk(tmp_path: Any) -> None:
    x = random(6, 4)
    before = config.compilation_cache_dir
    config.update("compilation_cache_dir", str(tmp_path))
    config.update("cache_programs", True)
    try:
        assert disk_cache.current().root == str(tmp_path)

        def traced() -> Any:
            return functrax.jit(kalman).lower(x).jaxpr

        made = CpuDevice().compiled(traced()).program
        found = program_cache.find(traced())
        assert found is not None and found is not made
        assert str(found) == str(made)
        for runtime in filter(None, (NATIVE, PYTHON)):
            (expected,), (got,) = runtime.load(made)([x]), runtime.load(found)([x])
            np.testing.assert_array_equal(got, expected)
        library._found.cache_clear()
        with pytest.MonkeyPatch.context() as patch:  # a process without the extension
            patch.setattr(library.native, "extension", None)
            assert program_cache.find(traced()) is None
    finally:
        library._found.cache_clear()
        config.update("compilation_cache_dir", before)
        config.update("cache_programs", False)


def test_only_loops_that_look_as_described_are_called() -> None:
    assert library.numpy_loop(library.LINALG, "solve", "dd->d") is not None
    assert library.numpy_loop(library.LINALG, "solve", "ff->d") is None
    assert library.numpy_loop(library.LINALG, "no such function", "dd->d") is None
    assert library.numpy_loop("no_such_module", "solve", "dd->d") is None
    with pytest.raises(LookupError, match="no function"):
        _ = library.LibraryFunction("", "no such function").address


def test_new_sizes() -> None:
    f = functrax.jit(lambda a, b: jnp.linalg.solve(a, b) * 2 + jnp.fft.rfft(b).real.sum())
    for n in range(5, 13):
        a, b = random(n, n) + n * np.eye(n, dtype="f"), random(n)
        wanted = np.linalg.solve(a, b[:, None])[:, 0] * 2 + np.fft.rfft(b).real.sum()
        np.testing.assert_allclose(f(a, b), wanted, rtol=1e-4, atol=1e-4)


def test_derivatives_of_small_systems() -> None:
    a, b = random(4, 4) + 4 * np.eye(4, dtype="f"), random(4)

    def loss(a: Any, b: Any) -> Any:
        factor = jnp.linalg.cholesky(a @ a.T)
        return jnp.sum(jnp.linalg.solve(a, b) ** 2) + jnp.log(jnp.diagonal(factor)).sum()

    results(functrax.grad(loss, (0, 1)), a, b)
