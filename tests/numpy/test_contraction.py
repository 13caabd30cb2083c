"""Contractions give what NumPy gives, are built of four equations, and have right derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from tests.numpy.index_checks import assert_gradient


def arrays(*shapes: tuple[int, ...], seed: int = 0) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype("f4") for shape in shapes]


def assert_close(got: Any, want: Any) -> None:
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(np.asarray(got), want, rtol=2e-5, atol=2e-5)


EINSUMS: list[tuple[str, tuple[tuple[int, ...], ...]]] = [
    ("ij,jk", ((2, 3), (3, 4))),
    ("ij,jk->ki", ((2, 3), (3, 4))),
    ("ij, jk -> ik", ((2, 3), (3, 4))),
    ("ji,jk", ((3, 2), (3, 4))),
    ("bij,bjk->bik", ((5, 2, 3), (5, 3, 4))),
    ("bhqd,bhkd->bhqk", ((2, 2, 3, 4), (2, 2, 5, 4))),
    ("ii", ((3, 3),)),
    ("ii->i", ((3, 3),)),
    ("iij->j", ((3, 3, 2),)),
    ("iiij->ij", ((2, 2, 2, 3),)),
    ("aab,bcc->ac", ((2, 2, 3), (3, 4, 4))),
    ("ij->ji", ((2, 3),)),
    ("ij->", ((2, 3),)),
    ("ij->j", ((2, 3),)),
    ("ba", ((2, 3),)),
    ("i,i", ((3,), (3,))),
    ("i,i->i", ((3,), (3,))),
    ("i,j", ((2,), (3,))),
    ("i,j->ji", ((2,), (3,))),
    ("ij,j", ((2, 3), (3,))),
    (",ij", ((), (2, 3))),
    (",", ((), ())),
    ("ij,kl->", ((2, 3), (4, 5))),
    ("ij,kl->ik", ((2, 3), (4, 5))),
    ("ij,jk", ((2, 1), (3, 4))),
    ("...ij,...jk", ((5, 1, 2, 3), (4, 3, 6))),
    ("...ij,jk->...ik", ((5, 2, 3), (3, 6))),
    ("i...->...", ((2, 3, 4),)),
    ("...i->i...", ((2, 3, 4),)),
    ("...", ((2, 3),)),
    ("b...,b...->...", ((2, 3, 4), (2, 3, 4))),
    ("i...j,j...k->...ik", ((2, 3, 4), (4, 3, 5))),
    ("ij,ij,ij->", ((2, 3), (2, 3), (2, 3))),
    ("ij,jk,kl,lm->im", ((2, 3), (3, 4), (4, 5), (5, 2))),
    ("ij,jk,ki", ((2, 3), (3, 4), (4, 2))),
    ("a,b,c,d,e,f->acf", ((2,),) * 6),
    ("abc,cd,de,ef,fa->b", ((2, 3, 4), (4, 2), (2, 3), (3, 2), (2, 2))),
    ("ij,jk->ik", ((0, 3), (3, 4))),
    ("ij,jk->ik", ((2, 0), (0, 4))),
]


@pytest.mark.parametrize(("subscripts", "shapes"), EINSUMS)
def test_einsum(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    operands = arrays(*shapes)
    want = np.einsum(subscripts, *operands)
    assert_close(jnp.einsum(subscripts, *operands), want)
    assert_close(functrax.jit(lambda *xs: jnp.einsum(subscripts, *xs))(*operands), want)
    for optimize in (False, "greedy", "optimal", jnp.einsum_path(subscripts, *operands)[0]):
        assert_close(jnp.einsum(subscripts, *operands, optimize=optimize), want)
    if all(x.size for x in operands):
        assert_gradient(lambda *xs: jnp.einsum(subscripts, *xs), *operands)


@pytest.mark.parametrize(("subscripts", "shapes"), EINSUMS[:14])
def test_batched_einsum(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    operands = arrays(*((3, *shape) for shape in shapes))
    got = functrax.vmap(lambda *xs: jnp.einsum(subscripts, *xs))(*operands)
    want = np.stack([np.einsum(subscripts, *xs) for xs in zip(*operands, strict=True)])
    assert_close(got, want)


def test_random_einsums() -> None:
    rng = np.random.default_rng(11)
    sizes = dict(zip("abcdef", (2, 3, 1, 4, 2, 3), strict=True))
    for _ in range(60):
        terms = [
            "".join(rng.choice(list(sizes), rng.integers(1, 4))) for _ in range(rng.integers(1, 4))
        ]
        letters = sorted(set("".join(terms)))
        out = "".join(rng.permutation(letters)[: rng.integers(len(letters) + 1)])
        subscripts = ",".join(terms) + "->" + out
        operands = arrays(*(tuple(sizes[x] for x in term) for term in terms))
        assert_close(jnp.einsum(subscripts, *operands), np.einsum(subscripts, *operands))


def test_einsum_by_lists_of_axes() -> None:
    x, y = arrays((2, 3), (3, 4))
    assert_close(jnp.einsum(x, [0, 1], y, [1, 2], [2, 0]), (x @ y).T)
    assert_close(jnp.einsum(x, [0, 1], y, [1, 2]), x @ y)
    assert_close(jnp.einsum(x, [Ellipsis, 1], y, [1, 2]), x @ y)


PAIRS = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((4, 2, 3), (4, 3, 2)),
    ((4, 2, 3), (3, 2)), ((5, 1, 2, 3), (4, 3, 6)), ((2, 2), (2, 2)), ((3,), (5, 3, 2)),
    ((5, 2, 3), (3,)), ((), (3,)), ((2, 3), ()), ((), ()), ((2, 0), (0, 3)), ((0, 2), (2, 3)),
    ((2, 3), (4, 5)), ((2, 3, 4), (5, 4, 2)),
]  # fmt: skip


@pytest.mark.parametrize("name", ["dot", "matmul", "inner", "outer", "kron", "vdot", "tensordot"])
def test_products(name: str) -> None:
    for shapes in PAIRS:
        x, y = arrays(*shapes)
        try:
            want = getattr(np, name)(x, y)
        except (ValueError, IndexError):
            with pytest.raises((errors.ShapeError, errors.ArgumentError)):
                getattr(jnp, name)(x, y)
            continue
        assert_close(getattr(jnp, name)(x, y), want)
        assert_close(functrax.jit(getattr(jnp, name))(x, y), want)
        if x.size and y.size:
            assert_gradient(getattr(jnp, name), x, y)


@pytest.mark.parametrize(
    ("axes", "shapes"),
    [
        (0, ((2,), (3, 2))),
        (1, ((4, 2), (2, 3))),
        (2, ((5, 4, 3), (4, 3, 2))),
        (([1], [0]), ((2, 3), (3, 4))),
        ((-1, 0), ((2, 3), (3, 4))),
        (([2, 0], [1, 2]), ((2, 3, 4), (3, 4, 2))),
        (((0, 1), (2, 0)), ((2, 3, 4), (3, 4, 2))),
    ],
)
def test_tensordot(axes: Any, shapes: Any) -> None:
    x, y = arrays(*shapes)
    assert_close(jnp.tensordot(x, y, axes), np.tensordot(x, y, axes))


def test_newer_products() -> None:
    matrices, vectors = arrays((5, 2, 3), (5, 3))
    assert_close(jnp.matvec(matrices, vectors), np.einsum("bij,bj->bi", matrices, vectors))
    rows = vectors[:, :2]
    assert_close(jnp.vecmat(rows, matrices), np.einsum("bi,bij->bj", rows, matrices))
    assert_close(jnp.vecdot(vectors, vectors[0]), vectors @ vectors[0])
    assert_close(jnp.vecdot(vectors, vectors, axis=0), (vectors**2).sum(0))


def test_complex_products_conjugate_the_first_operand() -> None:
    x, y = (a + 1j * b for a, b in zip(arrays((3,), (3,)), arrays((3,), (3,), seed=1), strict=True))
    x, y = x.astype("c8"), y.astype("c8")
    assert_close(jnp.vdot(x, y), np.vdot(x, y))
    assert_close(jnp.vecdot(x, y), np.vdot(x, y))
    assert_close(jnp.dot(x, y), np.dot(x, y))
    assert_close(jnp.vecmat(x, np.eye(3, dtype="c8")), x.conj())


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("bool", "bool", "bool"), ("int8", "int8", "int8"), ("float16", "float16", "float16"),
        ("bfloat16", "float16", "float32"), ("int32", "float16", "float16"),
        ("uint8", "int8", "int16"), ("complex64", "float32", "complex64"),
    ],
)  # fmt: skip
def test_dtypes(left: str, right: str, result: str) -> None:
    x, y = jnp.ones((2, 2), left), jnp.ones((2, 2), right)
    products = [jnp.dot(x, y), jnp.matmul(x, y), jnp.einsum("ij,jk", x, y), jnp.inner(x, y),
                jnp.tensordot(x, y), jnp.vdot(x, y), jnp.kron(x, y), jnp.outer(x, y)]  # fmt: skip
    assert [str(p.dtype) for p in products] == [result] * len(products)
    assert bool((products[0] == (True if result == "bool" else 2)).all())


def test_preferred_element_type() -> None:
    x = jnp.full((2, 2), 100, "int8")
    assert jnp.dot(x, x, preferred_element_type="int32").tolist() == [[20000] * 2] * 2
    y = jnp.ones((2, 2))
    assert jnp.matmul(y, y, preferred_element_type="float16").dtype == "float16"
    assert jnp.einsum("ij->ji", y, preferred_element_type="float16").dtype == "float16"
    assert jnp.dot(2.0, 3).weak_type


MATMUL = ["broadcast_in_dim", "broadcast_in_dim", "mul", "reduce_sum"]


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (jnp.dot, ((2, 3), (3, 4))),
        (jnp.matmul, ((2, 3), (3, 4))),
        (jnp.matmul, ((5, 2, 3), (5, 3, 4))),
        (lambda x, y: jnp.einsum("ij,jk->ki", x, y), ((2, 3), (3, 4))),
        (lambda x, y: jnp.einsum("kji,lkj->il", x, y), ((2, 3, 4), (5, 2, 3))),
        (lambda x, y: jnp.tensordot(x, y, ([0, 1], [1, 0])), ((2, 3, 4), (3, 2))),
        (lambda x, y: jnp.inner(x, y), ((2, 3), (4, 3))),
    ],
)
def test_four_equations(f: Any, shapes: Any) -> None:
    eqns = functrax.make_jaxpr(f)(*arrays(*shapes)).jaxpr.eqns
    assert [e.primitive.name for e in eqns] == MATMUL[-len(eqns) :]
    assert 3 <= len(eqns) <= 4


def test_gradient_of_a_matrix_product_is_two() -> None:
    x, y = arrays((2, 3), (3, 4))
    program = functrax.make_jaxpr(functrax.grad(lambda x, y: jnp.sum(jnp.dot(x, y)), (0, 1)))(x, y)
    names = [e.primitive.name for e in program.jaxpr.eqns]
    assert names.count("reduce_sum") <= 4
    assert not {"reshape", "reindex", "scatter"}.intersection(names)


@pytest.mark.parametrize(
    ("left", "right", "got", "fix"),
    [
        ((8, 3), (4, 5), "lhs f32[8,3] dim 1 = 3, rhs f32[4,5] dim 0 = 4", "same size"),
        ((3, 8), (3, 4), "lhs f32[3,8] dim 1 = 8, rhs f32[3,4] dim 0 = 3", "jnp.dot(a.T, b)"),
        ((8, 3), (5, 3), "lhs f32[8,3] dim 1 = 3, rhs f32[5,3] dim 0 = 5", "jnp.dot(a, b.T)"),
        ((8, 3), (4, 8), "lhs f32[8,3] dim 1 = 3, rhs f32[4,8] dim 0 = 4", "jnp.dot(b, a)"),
        ((3, 4), (3,), "lhs f32[3,4] dim 1 = 4, rhs f32[3] dim 0 = 3", "jnp.dot(a.T, b)"),
    ],
)
def test_sizes_that_differ(left: Any, right: Any, got: str, fix: str) -> None:
    with pytest.raises(errors.ShapeError) as caught:
        jnp.dot(*arrays(left, right))
    message = str(caught.value).splitlines()
    assert message[0] == "dot: contracting sizes differ"
    assert message[1] == f"  got   {got}"
    assert "test_contraction.py" in message[2]
    assert fix in message[-1]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: jnp.matmul(np.ones(3), 3), errors.ShapeError, "operand 1 has too few"),
        (lambda: jnp.matmul(*arrays((4, 2, 3), (5, 3, 2))), errors.ShapeError, "batch axes"),
        (lambda: jnp.matmul(*arrays((4, 2, 3), (4, 2, 3))), errors.ShapeError, "contracting"),
        (lambda: jnp.dot([1.0, 2.0], np.ones(2)), errors.DTypeError, "takes arrays"),
        (lambda: jnp.tensordot(*arrays((2, 3), (3, 2)), axes=3), errors.ArgumentError, "axes"),
        (lambda: jnp.einsum("ij,jk", *arrays((2, 3))), errors.ArgumentError, "one term"),
        (lambda: jnp.einsum("ij,jk", *arrays((2, 3), (4, 5))), errors.ShapeError, "'j' differ"),
        (lambda: jnp.einsum("ij", *arrays((2, 3, 4))), errors.ShapeError, "number of axes"),
        (lambda: jnp.einsum("i1", *arrays((2, 3))), errors.ArgumentError, "letters"),
        (lambda: jnp.einsum("ij->ii", *arrays((2, 3))), errors.ArgumentError, "twice"),
        (lambda: jnp.einsum("ij->k", *arrays((2, 3))), errors.ArgumentError, "no operand"),
        (lambda: jnp.einsum(np.ones(3)), errors.ArgumentError, "subscripts"),
        (lambda: jnp.inner(*arrays((2, 3), (2, 4))), errors.ShapeError, "inner"),
    ],
)  # fmt: skip
def test_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
