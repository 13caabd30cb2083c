"""functrax.numpy.linalg and lax.linalg against NumPy, and derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.core.options.contexts import enable_x64
from functrax.errors import ArgumentError, DifferentiationError, DTypeError, ShapeError

la = jnp.linalg


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    with enable_x64():
        yield


def random(*shape: int, seed: int = 0, is_complex: bool = False) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return x + 1j * rng.normal(size=shape) if is_complex else x


def positive(*shape: int, is_complex: bool = False) -> np.ndarray[Any, Any]:
    x = random(*shape, is_complex=is_complex)
    return x @ x.conj().swapaxes(-1, -2) + np.eye(shape[-1])


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(np.asarray(x), -1, -2))


BOTH = pytest.mark.parametrize("is_complex", [False, True])


@BOTH
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (0, 2, 2), (0, 0), (40, 40)])
def test_solutions_equal_numpy(shape: tuple[int, ...], is_complex: bool) -> None:
    a = random(*shape, is_complex=is_complex) + 3 * np.eye(shape[-1])
    b = random(*shape[:-1], 2, seed=1, is_complex=is_complex)
    pairs = [
        (la.solve(a, b), np.linalg.solve(a, b)),
        (la.inv(a), np.linalg.inv(a)),
        (la.det(a), np.linalg.det(a)),
        (la.slogdet(a).logabsdet, np.linalg.slogdet(a)[1]),
        (la.slogdet(a).sign, np.linalg.slogdet(a)[0]),
        (la.cholesky(a @ adjoint(a)), np.linalg.cholesky(a @ adjoint(a))),
    ]
    for got, wanted in pairs:
        assert got.shape == np.shape(wanted)
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)


@BOTH
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 2, 3), (70, 50), (0, 3)])
def test_the_triangle_alone_has_the_same_bits(
    shape: tuple[int, ...], dtype: type, full: bool, is_complex: bool
) -> None:
    a = random(*shape, is_complex=is_complex)
    a = a.astype(np.result_type(dtype, np.complex64) if is_complex else dtype)
    (q, r), alone = (
        functrax.jit(lambda a, k=k: lax.linalg.qr(a, full_matrices=full)[k:])(a) for k in (0, 1)
    )
    np.testing.assert_array_equal(alone[0], r)
    np.testing.assert_allclose(np.asarray(q) @ np.asarray(r), a, atol=1e-5)
    if not full:
        np.testing.assert_array_equal(la.qr(a, "r"), r)


@BOTH
@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 2, 3), (70, 50), (0, 3)])
def test_factorisations_multiply_back(shape: tuple[int, ...], is_complex: bool) -> None:
    a = random(*shape, is_complex=is_complex)
    k = min(shape[-2:])
    q, r = la.qr(a)
    u, s, vh = la.svd(a, full_matrices=False)
    packed, pivots, order = lax.linalg.lu(a)
    np.testing.assert_allclose(np.asarray(q) @ np.asarray(r), a, atol=1e-12)
    np.testing.assert_allclose(
        adjoint(q) @ np.asarray(q), np.eye(k) + 0 * a[..., :k, :k], atol=1e-12
    )
    np.testing.assert_allclose(
        np.asarray(u) * np.asarray(s)[..., None, :] @ np.asarray(vh), a, atol=1e-12
    )
    left = np.tril(np.asarray(packed)[..., :, :k], -1) + np.eye(shape[-2], k)
    right = np.triu(np.asarray(packed)[..., :k, :])
    rows = np.take_along_axis(a, np.asarray(order)[..., None], -2)
    np.testing.assert_allclose(left @ right, rows, atol=1e-12)
    assert np.abs(left).max(initial=0) <= 1 + 1e-12 or is_complex
    again = lax.linalg.lu_pivots_to_permutation(pivots, shape[-2])
    np.testing.assert_array_equal(again, order)
    np.testing.assert_allclose(la.svdvals(a), np.linalg.svd(a, compute_uv=False), atol=1e-12)


@BOTH
def test_spectra(is_complex: bool) -> None:
    a = random(2, 4, 4, is_complex=is_complex)
    h = a + adjoint(a)
    w, v = (np.asarray(x) for x in la.eigh(h))
    np.testing.assert_allclose(v * w[..., None, :] @ adjoint(v), h, atol=1e-12)
    np.testing.assert_allclose(la.eigvalsh(h), np.linalg.eigvalsh(h), atol=1e-12)
    u, s, vh = (np.asarray(x) for x in la.svd(h, hermitian=True))
    np.testing.assert_allclose(u * s[..., None, :] @ vh, h, atol=1e-12)
    np.testing.assert_allclose(s, np.linalg.svd(h, compute_uv=False), atol=1e-12)
    w, left, right = (np.asarray(x) for x in lax.linalg.eig(a))
    np.testing.assert_allclose(a @ right, right * w[..., None, :], atol=1e-12)
    np.testing.assert_allclose(adjoint(left) @ a, w[..., :, None] * adjoint(left), atol=1e-12)
    np.testing.assert_allclose(la.eigvals(a), np.linalg.eigvals(a), atol=1e-12)
    low = lax.linalg.eigh(h, subset_by_index=(0, 2))
    np.testing.assert_allclose(low[1], np.linalg.eigvalsh(h)[..., :2], atol=1e-12)


def test_one_triangle_is_read_without_symmetrizing() -> None:
    h = positive(3, 3)
    lower = np.tril(h) + 100 * np.triu(np.ones((3, 3)), 1)
    wanted = np.linalg.cholesky(h)
    np.testing.assert_allclose(la.cholesky(lower, symmetrize_input=False), wanted)
    upper = la.cholesky(lower.T, upper=True, symmetrize_input=False)
    np.testing.assert_allclose(upper, wanted.T)
    values = la.eigvalsh(lower.T, "U", symmetrize_input=False)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(h))


def test_indefinite_and_singular_matrices_give_nan_for_themselves_only() -> None:
    a = np.stack([np.eye(2), -np.eye(2), np.zeros((2, 2))])
    factor = np.asarray(la.cholesky(a))
    np.testing.assert_array_equal(factor[0], np.eye(2))
    assert np.isnan(factor[1:, [0, 1], [0, 1]]).all()
    inverse = np.asarray(la.inv(a))
    np.testing.assert_array_equal(inverse[:2], a[:2])
    assert np.isnan(inverse[2]).all()
    out = lax.linalg.triangular_solve(np.zeros((1, 1)), np.ones((1, 1)), left_side=True)
    assert np.isinf(np.asarray(out)).all()


@BOTH
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("turn", [True, False])
def test_triangular_solve(left: bool, turn: bool, is_complex: bool) -> None:
    a = random(3, 3, is_complex=is_complex) + 3 * np.eye(3)
    b = random(3, 3, seed=1, is_complex=is_complex)
    for lower in (True, False):
        for unit in (True, False):
            how = {"left_side": left, "lower": lower, "transpose_a": turn, "unit_diagonal": unit}
            x = np.asarray(lax.linalg.triangular_solve(a, b, conjugate_a=turn, **how))
            op = np.tril(a) if lower else np.triu(a)
            op = op - np.diag(np.diag(a)) + np.eye(3) if unit else op
            op = adjoint(op) if turn else op
            np.testing.assert_allclose(op @ x if left else x @ op, b, atol=1e-12)


@pytest.mark.parametrize("entry", [0.0, np.nan, np.inf])
def test_triangles_that_are_not_finite_spoil_only_what_depends_on_them(entry: float) -> None:
    a, b = np.tril(random(20, 20)) + 9 * np.eye(20), random(20, 2)
    good = np.asarray(lax.linalg.triangular_solve(a, b, left_side=True, lower=True))
    np.testing.assert_allclose(a @ good, b, atol=1e-12)
    a[11, 11] = entry
    found = np.asarray(lax.linalg.triangular_solve(a, b, left_side=True, lower=True))
    np.testing.assert_allclose(found[:11], good[:11], atol=1e-12)
    assert not np.isfinite(found[12:]).any() or entry == np.inf
    a[11, 11], a[3, 17] = 9, entry  # which is above the diagonal, and not read
    unread = np.asarray(lax.linalg.triangular_solve(a, b, left_side=True, lower=True))
    assert np.isfinite(unread).all()


def test_remaining_functions_equal_numpy() -> None:
    a, b, tall = random(3, 3), random(2, 3, 3), random(5, 3)
    pairs: list[tuple[Any, Any]] = [
        (la.cond(a), np.linalg.cond(a)),
        (la.cond(a, "fro"), np.linalg.cond(a, "fro")),
        (la.cond(a, -2), np.linalg.cond(a, -2)),
        (la.matrix_power(b, 3), np.linalg.matrix_power(b, 3)),
        (la.matrix_power(a, -2), np.linalg.matrix_power(a, -2)),
        (la.matrix_power(a, 0), np.eye(3)),
        (la.matrix_rank(np.diag([1.0, 0.0, 2.0])), 2),
        (la.matrix_rank(b), [3, 3]),
        (la.pinv(tall), np.linalg.pinv(tall)),
        (la.pinv(b), np.linalg.pinv(b)),
        (la.norm(a, 2), np.linalg.norm(a, 2)),
        (la.norm(a, "nuc"), np.linalg.norm(a, "nuc")),
        (la.norm(b, -2, axis=(1, 2), keepdims=True), np.linalg.norm(b, -2, (1, 2), True)),
        (la.matrix_norm(b, ord=2), np.linalg.norm(b, 2, (1, 2))),
        (la.multi_dot([tall, a, tall.T, tall[:, 0]]), tall @ a @ tall.T @ tall[:, 0]),
        (la.tensorinv(random(4, 6, 8, 3)), np.linalg.tensorinv(random(4, 6, 8, 3))),
        (la.tensorsolve(random(2, 3, 6), a[:2]), np.linalg.tensorsolve(random(2, 3, 6), a[:2])),
        (la.diagonal(b, offset=1), np.diagonal(b, 1, 1, 2)),
        (la.trace(b), np.trace(b, axis1=1, axis2=2)),
        (la.cross(a, a[::-1]), np.cross(a, a[::-1])),
        (la.outer(a[0], a[1]), np.outer(a[0], a[1])),
        (la.vecdot(a, a), np.sum(a * a, -1)),
        (la.matmul(a, a), a @ a),
        (la.tensordot(a, a, axes=1), a @ a),
        (la.matrix_transpose(b), np.swapaxes(b, 1, 2)),
    ]
    for got, wanted in pairs:
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
def test_lstsq_equals_numpy(shape: tuple[int, int]) -> None:
    a, b = random(*shape), random(shape[0], 2, seed=1)
    wanted = np.linalg.lstsq(a, b, rcond=None)
    got = la.lstsq(a, b, numpy_resid=True)
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)
    np.testing.assert_allclose(la.lstsq(a, b[:, 0])[0], wanted[0][:, 0], atol=1e-12)


def test_batches_broadcast_and_vectors_solve() -> None:
    a, b = random(4, 1, 3, 3), random(2, 3, 5, seed=1)
    assert la.solve(a, b).shape == (4, 2, 3, 5)
    np.testing.assert_allclose(la.solve(a, b), np.linalg.solve(a, b), atol=1e-9)
    x = la.solve(a, b[0, :, 0])
    np.testing.assert_allclose(np.einsum("...ij,...j", a, x), np.broadcast_to(b[0, :, 0], x.shape))


def test_dtypes() -> None:
    assert la.inv(np.eye(2, dtype=np.int32)).dtype == np.float32
    assert la.cholesky(np.eye(2, dtype=np.complex64)).dtype == np.complex64
    assert la.eigh(np.eye(2, dtype=np.complex64)).eigenvalues.dtype == np.float32
    assert la.solve(np.eye(2, dtype=np.float32), np.ones(2, np.complex64)).dtype == np.complex64
    assert la.eigvals(np.eye(2, dtype=np.float32)).dtype == np.complex64
    with pytest.raises(DTypeError, match="does not accept dtype float16"):
        la.inv(np.eye(2, dtype=np.float16))


Scalar = Callable[[Any], Any]
SMOOTH: dict[str, Scalar] = {
    "cholesky": lambda a: jnp.sum(jnp.sin(la.cholesky(a))),
    "det": lambda a: la.det(a) / 10,
    "slogdet": lambda a: la.slogdet(a).logabsdet,
    "inv": lambda a: jnp.sum(jnp.sin(la.inv(a))),
    "solve": lambda a: jnp.sum(la.solve(a, a[0] ** 2)),
    "qr": lambda a: jnp.sum(jnp.sin(la.qr(a[:, :2])[0])) + la.qr(a[:2])[1][0, 2] ** 2,
    "eigh": lambda a: jnp.sum(jnp.abs(la.eigh(a).eigenvectors) ** 3) + la.eigvalsh(a)[0] ** 2,
    "svd": lambda a: jnp.sum(jnp.abs(la.svd(a[:, :2], full_matrices=False)[0]) ** 3),
    "svdvals": lambda a: jnp.sum(jnp.sin(la.svdvals(a))),
    "lu": lambda a: jnp.sum(jnp.sin(lax.linalg.lu(a)[0])),
    "pinv": lambda a: jnp.sum(jnp.sin(la.pinv(a[:, :2]))),
    "lstsq": lambda a: jnp.sum(la.lstsq(a[:, :2], a[:, 2])[0] ** 2),
    "norm": lambda a: la.norm(a, "nuc"),
    "power": lambda a: la.matrix_power(a, -2)[0, 1],
}


@pytest.mark.parametrize("name", SMOOTH)
def test_first_and_second_derivatives(name: str) -> None:
    f = SMOOTH[name]
    a, t = positive(3, 3) + 0.1 * random(3, 3, seed=5), random(3, 3, seed=3)
    step = 1e-5
    for order in range(2):
        ahead, behind = (np.asarray(f(jnp.asarray(a + s * t))) for s in (step, -step))
        got = np.sum(np.asarray(functrax.grad(f)(jnp.asarray(a))) * t)
        assert got == pytest.approx((ahead - behind) / (2 * step), rel=1e-6, abs=1e-8), order
        f = _along(f, jnp.asarray(t))


def _along(f: Scalar, t: Any) -> Scalar:
    return lambda a: functrax.jvp(f, (a,), (t,))[1]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_small_determinants_are_written_out(n: int) -> None:
    a = random(5, n, n)
    np.testing.assert_allclose(la.det(a), np.linalg.det(a), atol=1e-14)
    program = functrax.make_jaxpr(la.det)(a).jaxpr
    assert "det" not in [eqn.primitive.name for eqn in program.eqns]
    singular = np.ones((n, n)) if n > 1 else np.zeros((1, 1))
    cofactors = np.array([[1.0]]) if n == 1 else np.array([[1.0, -1.0], [-1.0, 1.0]])
    want = cofactors if n < 3 else np.zeros((3, 3))
    np.testing.assert_allclose(functrax.grad(la.det)(singular), want, atol=1e-15)
    whole = np.round(a * 4)
    assert la.det(whole.astype(int)).dtype == np.dtype(float)


def test_derivative_of_the_determinant_of_a_singular_matrix() -> None:
    a = np.diag([1.0, 2.0, 3.0, 0.0])
    np.testing.assert_allclose(functrax.grad(la.det)(a), np.diag([0.0, 0.0, 0.0, 6.0]), atol=1e-12)


def _projector(a: Any) -> Any:
    v = la.eigh(a).eigenvectors[:, :1]
    return v @ v.conj().T


def _dominant(a: Any) -> Any:
    u, _, vh = la.svd(a, full_matrices=False)
    return u[:, :1] @ vh[:1]


@pytest.mark.parametrize("f", [_projector, lambda a: _dominant(a[:, :2]), _dominant])
def test_complex_vectors_up_to_their_phase(f: Scalar) -> None:
    a, t = (jnp.asarray(random(3, 3, seed=k, is_complex=True)) for k in (1, 2))
    step = 1e-5
    for _ in range(2):
        wanted = (np.asarray(f(a + step * t)) - np.asarray(f(a - step * t))) / (2 * step)
        f = _along(f, t)
        np.testing.assert_allclose(f(a), wanted, rtol=1e-6, atol=1e-7)


def test_ties() -> None:
    eye = jnp.eye(3)
    np.testing.assert_allclose(functrax.grad(lambda a: la.eigvalsh(a).sum())(eye), eye, atol=1e-12)
    np.testing.assert_allclose(functrax.grad(lambda a: la.pinv(a).sum())(eye), -np.ones((3, 3)))


def test_eigenvectors_of_general_matrices_have_no_derivative() -> None:
    with pytest.raises(DifferentiationError, match="eigenvectors"):
        functrax.jvp(la.eig, (jnp.eye(2),), (jnp.ones((2, 2)),))
    with pytest.raises(DifferentiationError, match="full_matrices"):
        functrax.jvp(la.svd, (jnp.ones((3, 2)),), (jnp.ones((3, 2)),))


def test_jit_and_vmap() -> None:
    a, b = random(4, 3, 3) + 3 * np.eye(3), random(4, 3, seed=1)
    wanted = np.linalg.solve(a, b[..., None])[..., 0]
    np.testing.assert_allclose(functrax.jit(functrax.vmap(la.solve))(a, b), wanted)
    shared = functrax.vmap(la.solve, in_axes=(None, 0))(a[0], b)
    np.testing.assert_allclose(shared, np.linalg.solve(a[0], b.T).T)


@pytest.mark.parametrize("name", ["cholesky", "det", "inv", "eigh", "eigvals", "slogdet"])
def test_matrices_must_be_square(name: str) -> None:
    with pytest.raises(ShapeError, match="square") as error:
        getattr(la, name)(jnp.ones((2, 3)))
    assert error.value.got.startswith("f64[2,3]") and error.value.fix and error.value.where


def test_refused_arguments() -> None:
    a = jnp.eye(3)
    with pytest.raises(ShapeError, match="different numbers of rows"):
        la.solve(a, jnp.ones(4))
    with pytest.raises(ShapeError, match="matrices"):
        la.inv(jnp.ones(3))
    with pytest.raises(ArgumentError, match="mode"):
        la.qr(a, "economic")
    with pytest.raises(ArgumentError, match="UPLO"):
        la.eigh(a, "x")
    with pytest.raises(ArgumentError, match="unknown keyword"):
        la.solve(a, a, assume_a="pos")
    with pytest.raises(NotImplementedError, match="not implemented on CPUs"):
        lax.linalg.svd(a, algorithm=lax.linalg.SvdAlgorithm.JACOBI)
    with pytest.raises(NotImplementedError, match="not implemented on CPUs"):
        lax.linalg.eig(a, implementation=lax.linalg.EigImplementation.CUSOLVER)
    with pytest.raises(ArgumentError, match="unknown algorithm"):
        lax.linalg.eigh(a, implementation="qr")
    with pytest.raises(ArgumentError, match="subset_by_index"):
        lax.linalg.eigh(a, subset_by_index=(2, 5))
    with pytest.raises(ArgumentError, match="two arrays"):
        la.multi_dot([a])
    with pytest.raises(ShapeError, match="vectors"):
        la.outer(a, a)
    with pytest.raises(ShapeError, match="square matrix"):
        la.tensorinv(jnp.ones((2, 3)), 1)


@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (0, 0)])
def test_norms_of_nothing_are_zero(shape: tuple[int, int]) -> None:
    for order in (1, 2, np.inf, "fro", "nuc"):
        assert la.matrix_norm(jnp.zeros(shape), ord=order) == 0
    for order in (1, 2, np.inf):
        assert la.vector_norm(jnp.zeros(0), ord=order) == 0


@pytest.mark.parametrize("shape", [(2, 1), (2, 2), (1, 2)])
def test_lstsq_of_zeros_has_rank_zero(shape: tuple[int, int]) -> None:
    x, rest, rank, s = la.lstsq(np.zeros(shape), np.ones(shape), numpy_resid=True)
    assert rank == 0 and not x.any() and not rest.size and not s.any()


def test_two_names_of_one_tolerance_are_refused() -> None:
    for function, names in ((la.pinv, "rcond"), (la.matrix_rank, "tol")):
        with pytest.raises(ArgumentError, match="only one of"):
            function(jnp.eye(2), rtol=0.1, **{names: 0.1})
