"""Sparse arrays, against the dense arrays that they are."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.errors import ConcretizationError
from functrax.experimental import sparse

LAYOUTS = [
    ((4,), 0, 0),
    ((5, 4), 0, 0),
    ((5, 4), 1, 0),
    ((5, 4), 0, 1),
    ((5, 4), 2, 0),
    ((2, 3, 4, 5), 1, 1),
]


def made(shape, seed=0):
    rng = np.random.RandomState(seed)
    values = np.where(rng.rand(*shape) > 0.5, rng.randn(*shape), 0)
    return jnp.asarray(values.astype("float32"))


def close(found, expected):
    dense = found.todense() if isinstance(found, sparse.JAXSparse) else found
    np.testing.assert_allclose(np.asarray(dense), np.asarray(expected), rtol=1e-5, atol=1e-5)


@pytest.fixture(params=LAYOUTS, ids=str)
def pair(request):
    shape, n_batch, n_dense = request.param
    dense = made(shape)
    return sparse.BCOO.fromdense(dense, n_batch=n_batch, n_dense=n_dense), dense


def test_to_dense_and_back(pair):
    mat, dense = pair
    close(mat, dense)
    close(functrax.jit(lambda m: m.todense())(mat), dense)
    close(mat.sum_duplicates(nse=mat.nse), dense)
    close(mat.sort_indices(), dense)
    close(sparse.bcoo_extract(mat, dense), dense)
    assert (mat.shape, mat.dtype, mat.size) == (dense.shape, dense.dtype, dense.size)


def test_elements(pair):
    mat, dense = pair
    close(mat * dense, dense * dense)
    close(mat * mat, dense * dense)
    close(mat + mat, 2 * dense)
    close(mat - 2 * mat, -dense)
    close(mat / (2 + abs(dense)), dense / (2 + abs(dense)))
    close(abs(mat), abs(dense))
    close(mat.astype("float16"), dense.astype("float16"))


def test_parts(pair):
    mat, dense = pair
    close(mat[1], dense[1])
    close(mat[-1], dense[-1])
    close(mat[..., 1:], dense[..., 1:])
    close(mat[..., ::-2], dense[..., ::-2])
    close(mat[None], dense[None])
    close(functrax.jit(lambda m, i: sparse.todense(m[..., i]))(mat, 2), dense[..., 2])
    close(sparse.bcoo_rev(mat, (0,)), dense[::-1])
    starts, sizes = [0] * dense.ndim, list(dense.shape)
    starts[-1], sizes[-1] = 1, 2
    close(sparse.bcoo_dynamic_slice(mat, starts, sizes), lax.dynamic_slice(dense, starts, sizes))


def test_sums_and_joins(pair):
    mat, dense = pair
    for axis in range(dense.ndim):
        close(mat.sum(axis), dense.sum(axis))
        close(
            sparse.bcoo_concatenate([mat, mat], dimension=axis),
            jnp.concatenate([dense, dense], axis),
        )
    close(mat.sum(), dense.sum())
    shape = (3, *dense.shape)
    dims = range(1, dense.ndim + 1)
    close(
        sparse.bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=dims),
        jnp.broadcast_to(dense, shape),
    )


def test_layouts(pair):
    mat, dense = pair
    for n_batch in range(dense.ndim + 1):
        for n_dense in range(dense.ndim + 1 - n_batch):
            other = mat.update_layout(n_batch=n_batch, n_dense=n_dense, on_inefficient=None)
            assert (other.n_batch, other.n_dense) == (n_batch, n_dense)
            close(other, dense)


def test_products():
    a, b = made((3, 4)), made((4, 5), 1)
    sa, sb = sparse.BCOO.fromdense(a), sparse.BCOO.fromdense(b)
    close(sa @ b, a @ b)
    close(a @ sb, a @ b)
    close(sa @ sb, a @ b)
    close(sa.T @ a, a.T @ a)
    close(sa @ b[:, 0], a @ b[:, 0])
    batch, other = made((2, 3, 4)), made((2, 4, 5), 1)
    close(sparse.BCOO.fromdense(batch, n_batch=1) @ other, batch @ other)
    numbers = (((0, 2), (0, 1)), ((), ()))
    close(
        sparse.bcoo_dot_general(
            sparse.BCOO.fromdense(batch, n_batch=1), other, dimension_numbers=numbers
        ),
        lax.dot_general(batch, other, numbers),
    )
    found = sparse.bcoo_dot_general_sampled(
        a, b, jnp.array([[0, 1], [2, 4]]), dimension_numbers=(((1,), (0,)), ((), ()))
    )
    close(found, (a @ b)[jnp.array([0, 2]), jnp.array([1, 4])])


def test_derivatives_stay_in_the_places():
    x = sparse.BCOO.fromdense(jnp.arange(6.0))
    value, gradient = sparse.value_and_grad(lambda x, y: x @ y)(x, jnp.ones(6))
    assert float(value) == 15.0
    assert repr(gradient) == "BCOO(float32[6], nse=5)"
    close(gradient, [0, 1, 1, 1, 1, 1])
    for jacobian in (sparse.jacfwd, sparse.jacrev):
        close(jacobian(lambda x: (x * x).todense()[1:3])(x).todense()[0], [0, 2, 0, 0, 0, 0])
    mat = sparse.BCOO.fromdense(made((3, 4)))
    vector = functrax.jit(functrax.grad(lambda v: (mat @ v).sum()))(jnp.ones(4))
    close(vector, made((3, 4)).sum(0))
    both, aux = sparse.grad(lambda m: ((m @ jnp.ones(4)).sum(), 7), has_aux=True)(mat)
    close(both.data, jnp.ones(mat.nse))
    assert aux == 7


def test_vmap_goes_along_the_batch():
    dense = made((3, 4, 5))
    mat = sparse.BCOO.fromdense(dense, n_batch=1)
    v = made((5,))
    close(functrax.vmap(lambda m: m @ v)(mat), dense @ v)
    doubled = functrax.vmap(lambda m: 2 * m)(mat)
    assert (doubled.shape, doubled.n_batch) == ((3, 4, 5), 1)
    close(doubled, 2 * dense)
    close(functrax.vmap(lambda x: sparse.BCOO.fromdense(x, nse=20))(dense), dense)


def test_rows():
    dense = made((3, 4))
    mat = sparse.BCSR.fromdense(dense)
    close(mat, dense)
    close(mat @ jnp.ones(4), dense.sum(1))
    close(mat.T, dense.T)
    close(3 * mat, 3 * dense)
    close(sparse.BCSR.from_bcoo(mat.to_bcoo()), dense)
    close(sparse.BCSR.fromdense(made((2, 3, 4)), n_batch=1), made((2, 3, 4)))


@pytest.mark.parametrize("kind", ["COO", "CSR", "CSC"])
def test_plain_matrices(kind):
    dense = made((3, 4))
    mat = getattr(sparse, kind).fromdense(dense)
    close(mat, dense)
    close(mat @ jnp.ones(4), dense.sum(1))
    close(mat.T @ made((3, 2)), dense.T @ made((3, 2)))
    close(functrax.jit(lambda m: m.todense())(mat), dense)
    close(sparse.eye(3, 4, 1, sparse_format=kind.lower()), jnp.eye(3, 4, 1))
    close(sparse.empty((3, 4), sparse_format=kind.lower()), jnp.zeros((3, 4)))


def test_made_arrays():
    for k in (-4, -1, 0, 2, 5):
        close(sparse.eye(3, 4, k), jnp.eye(3, 4, k))
    close(sparse.eye(3, n_batch=1), jnp.eye(3))
    mat = sparse.random_bcoo(functrax.random.key(0), (4, 5), nse=0.3, sorted_indices=True)
    assert (mat.nse, mat.unique_indices, mat.indices_sorted) == (6, True, True)
    assert int((mat.todense() != 0).sum()) == 6


def test_sparsify():
    dense, v = made((3, 4)), jnp.array([3.0, 6.0, 5.0])
    mat = sparse.BCOO.fromdense(dense)

    def function(m, v):
        return 2 * jnp.dot(jnp.expm1(m.T), v) + 1

    close(sparse.sparsify(function)(mat, v), function(dense, v))
    close(functrax.jit(sparse.sparsify(function))(mat, v), function(dense, v))
    shapes = sparse.sparsify(
        lambda m: (m.reshape(12), m[1], m[:, 1:3], jnp.concatenate([m, m]), m[:, None], m**2)
    )(mat)
    expected = (dense.reshape(12), dense[1], dense[:, 1:3], jnp.concatenate([dense, dense]))
    for found, wanted in zip(shapes, (*expected, dense[:, None], dense**2), strict=True):
        assert isinstance(found, sparse.BCOO)
        close(found, wanted)
    close(sparse.sparsify(functrax.jit(jnp.matmul))(mat, dense.T), dense @ dense.T)
    exactly = functrax.jit(functools.partial(jnp.matmul, precision="highest"))
    close(sparse.sparsify(exactly)(mat, dense.T), dense @ dense.T)
    assert isinstance(sparse.sparsify(jnp.matmul)(mat, mat.T), sparse.BCOO)


def test_duplicates_and_padding():
    data, indices = jnp.array([1.0, 2.0, 4.0, 8.0]), jnp.array([[1], [3], [1], [9]])
    mat = sparse.BCOO((data, indices), shape=(4,))
    close(mat, [0, 5, 0, 2])
    close(mat.sum(), 7)
    close(mat * mat, [0, 25, 0, 4])
    once = mat.sum_duplicates()
    assert once.nse == 2
    close(once.data, [5, 2])
    assert sparse.bcoo_extract(mat, mat.todense()).data.tolist() == [5, 2, 0, 0]


def test_eigenvalues():
    matrix = np.diag(np.arange(1.0, 51.0)).astype("float32")
    start = np.random.RandomState(0).randn(50, 3).astype("float32")
    for a in (matrix, sparse.BCOO.fromdense(matrix), lambda x: jnp.asarray(matrix) @ x):
        values, vectors, steps = sparse.linalg.lobpcg_standard(a, start)
        np.testing.assert_allclose(values, [50, 49, 48], rtol=1e-4)
        np.testing.assert_allclose(abs(np.asarray(vectors))[[49, 48, 47]], np.eye(3), atol=1e-2)
        assert 0 < int(steps) < 100


def test_systems_of_equations():
    dense = made((4, 4)) + 3 * jnp.eye(4)
    mat, b = sparse.CSR.fromdense(dense), jnp.arange(1.0, 5.0)

    def solved(data, b):
        return sparse.linalg.spsolve(data, mat.indices, mat.indptr, b)

    close(solved(mat.data, b), jnp.linalg.solve(dense, b))
    by_data = functrax.grad(lambda data: solved(data, b).sum())(mat.data)
    by_dense = functrax.grad(lambda a: jnp.linalg.solve(a, b).sum())(dense)
    close(by_data, by_dense[dense != 0])


@pytest.mark.parametrize(
    ("error", "mistake"),
    [
        (ValueError, lambda m: sparse.BCOO((m.data, m.indices), shape=(3,))),
        (ValueError, lambda m: sparse.BCOO((m.data[1:], m.indices), shape=m.shape)),
        (NotImplementedError, lambda m: m + jnp.ones(m.shape)),
        (NotImplementedError, lambda m: m / m),
        (NotImplementedError, lambda m: m[jnp.array([0, 1])]),
        (IndexError, lambda m: m[0, 0, 0]),
        (NotImplementedError, lambda m: sparse.sparsify(jnp.cos)(m)),
        (NotImplementedError, lambda m: sparse.bcoo_transpose(
            m.update_layout(n_dense=1, on_inefficient=None), permutation=(1, 0))),
        (sparse.SparseEfficiencyError, lambda m: m.update_layout(n_batch=1)),
        (ValueError, lambda m: m @ jnp.ones(3)),
        (ValueError, lambda m: m.reshape(5)),
        (ValueError, lambda m: sparse.empty((2, 2), sparse_format="other")),
        (ConcretizationError, lambda m: functrax.jit(sparse.BCOO.fromdense)(m.todense())),
        (ValueError, lambda m: np.asarray(m)),
        (ValueError, lambda m: sparse.linalg.lobpcg_standard(jnp.eye(4), jnp.ones((4, 1)))),
    ],
)  # fmt: skip
def test_mistakes(error, mistake):
    with pytest.raises(error) as found:
        mistake(sparse.BCOO.fromdense(made((3, 4))))
    assert found.value.fix
