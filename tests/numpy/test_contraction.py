"""Contractions give what NumPy gives, are built of four equations, and have right derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors, lax
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


def test_einsum_by_other_characters_than_letters() -> None:
    x, y = arrays((2, 3), (3, 4))
    assert_close(jnp.einsum("a1,1ß->ßa", x, y), (x @ y).T)
    assert_close(jnp.einsum("...1,1b", x, y), x @ y)


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


def random_network(seed: int, most: int) -> tuple[str, list[np.ndarray[Any, Any]]]:
    """An einsum of up to so many operands, whose labels join two or three of them, or none."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, most + 1))
    terms = [""] * count
    for letter in "abcdefghijklm"[: count + 2]:
        for k in rng.permutation(count)[: rng.integers(1, 4)]:
            terms[k] += letter
    terms = [term or "n" for term in terms]
    letters = sorted(set("".join(terms)))
    sizes = {x: int(n) for x, n in zip(letters, rng.integers(1, 9, len(letters)), strict=True)}
    out = "".join(x for x in letters if rng.random() < 0.3)
    shapes = [tuple(sizes[x] for x in term) for term in terms]
    return ",".join(terms) + "->" + out, [np.broadcast_to(np.float32(1), s) for s in shapes]


def operations(report: str) -> int:
    return int(report.split()[0])


def test_orders_of_einsums_cost_no_more_than_opt_einsum() -> None:
    opt_einsum = pytest.importorskip("opt_einsum")
    logs = []
    for seed in range(60):
        subscripts, operands = random_network(seed, 6)
        ours = {k: jnp.einsum_path(subscripts, *operands, optimize=k)
                for k in ("optimal", "auto", "greedy")}  # fmt: skip
        cost = {k: operations(report) for k, (_, report) in ours.items()}
        best = opt_einsum.contract_path(subscripts, *operands, optimize="optimal")[1].opt_cost
        greedy = opt_einsum.contract_path(subscripts, *operands, optimize="greedy")[1].opt_cost
        assert cost["optimal"] <= best and cost["auto"] == cost["optimal"] <= cost["greedy"]
        logs.append(np.log(cost["greedy"] / float(greedy)))
        theirs = opt_einsum.contract_path(subscripts, *operands, optimize=ours["optimal"][0])
        assert float(theirs[1].opt_cost) == cost["optimal"], "both count alike"
    assert np.mean(logs) < 0.05


def test_orders_of_einsums_give_one_result() -> None:
    for seed in range(12):
        subscripts, operands = random_network(seed, 5)
        drawn = arrays(*(x.shape for x in operands), seed=seed)
        want = np.einsum(subscripts, *drawn)
        for kind in ("auto", "greedy", True, False):
            path, report = jnp.einsum_path(subscripts, *drawn, optimize=kind)
            assert len(report.splitlines()) == 1 + len(path)
            assert_close(jnp.einsum(subscripts, *drawn, optimize=path), want)


def test_many_operands_are_ordered_soon() -> None:
    """A chain of 40 matrices, whose cheapest order no search of all could find."""
    text = ",".join(chr(97 + k) + chr(98 + k) for k in range(25)) + ",zA,AB,BC->aC"
    operands = [np.ones((2, 2), np.float32)] * 28
    path, report = jnp.einsum_path(text, *operands)
    assert len(path) == 27 and operations(report) == 27 * 16


def test_orders_that_are_none_are_refused() -> None:
    x = jnp.ones((2, 2))
    with pytest.raises(errors.ArgumentError, match="no such order"):
        jnp.einsum("ij,jk,kl", x, x, x, optimize="fastest")
    for path in ([(0, 1)], [(0, 1), (0, 2)], [(0, 0), (0, 1)], [(0, 1), (0, 1), (0, 1)], [()]):
        with pytest.raises(errors.ArgumentError, match="does not contract each operand once"):
            jnp.einsum("ij,jk,kl", x, x, x, optimize=path)


def test_only_einsum_and_multi_dot_choose_an_order() -> None:
    """A product that is written in an order is computed in it: other sums have other bits."""
    a, b, v = jnp.ones((64, 64)), jnp.ones((64, 64)), jnp.ones((64, 1))
    two, one = 2 * 64**3 - 64**2, 2 * 64**2 - 64  # operations of a product
    with functrax.backend("llvm"):
        flops = [functrax.explain(f)(a, b, v).flops for f in (
            lambda a, b, v: a @ b @ v,
            lambda a, b, v: a @ (b @ v),
            lambda a, b, v: jnp.einsum("ij,jk,kl->il", a, b, v),
            lambda a, b, v: jnp.linalg.multi_dot([a, b, v]),
        )]  # fmt: skip
    assert flops == [two + one, 2 * one, 2 * one, 2 * one]


PRODUCTS: dict[str, Any] = {
    "dot": jnp.dot, "matmul": jnp.matmul, "inner": jnp.inner, "vdot": jnp.vdot,
    "vecdot": jnp.vecdot, "tensordot": jnp.tensordot,
    "einsum": lambda x, y, **options: jnp.einsum("ij,jk", x, y, **options),
    "multi_dot": lambda x, y, **options: jnp.linalg.multi_dot([x, y], **options),
    "dot_general": lambda x, y, **options: lax.dot_general(x, y, (((1,), (0,)), ((), ())),
                                                           **options),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_precision(name: str) -> None:
    product, x = PRODUCTS[name], jnp.asarray(arrays((3, 3))[0], "float32")
    want = product(x, x)
    highest = lax.Precision.HIGHEST
    for precision in (None, "high", "tensorfloat32", "DEFAULT", highest, ("high", highest)):
        np.testing.assert_array_equal(product(x, x, precision=precision), want)
    for wrong in ("hihg", 3):
        with pytest.raises(errors.ArgumentError, match="unknown precision"):
            product(x, x, precision=wrong)


@pytest.mark.parametrize("name", sorted(PRODUCTS.keys() - {"multi_dot"}))
def test_preferred_element_type_is_the_type_of_sums(name: str) -> None:
    product = PRODUCTS[name]
    x = jnp.full((2, 2), 300, "float16")
    assert not np.isfinite(product(x, x)).any(), "the sum is no float16"
    wide = product(x, x, preferred_element_type="float32")
    assert wide.dtype == "float32" and np.unique(wide).item() in (180000, 360000)
    narrow = product(jnp.ones((2, 2)), jnp.ones((2, 2)), preferred_element_type="bfloat16")
    assert narrow.dtype == "bfloat16"
    for dtype, preferred in (("int32", "int8"), ("int8", "bool"), ("complex64", "float16")):
        with pytest.raises(errors.DTypeError, match="narrower than the operands"):
            product(x.astype(dtype), x.astype(dtype), preferred_element_type=preferred)


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
        (lambda: jnp.einsum("i.", *arrays((2, 3))), errors.ArgumentError, "letters"),
        (lambda: jnp.einsum("ij->ii", *arrays((2, 3))), errors.ArgumentError, "twice"),
        (lambda: jnp.einsum("ij->k", *arrays((2, 3))), errors.ArgumentError, "no operand"),
        (lambda: jnp.einsum(np.ones(3)), errors.ArgumentError, "subscripts"),
        (lambda: jnp.inner(*arrays((2, 3), (2, 4))), errors.ShapeError, "inner"),
    ],
)  # fmt: skip
def test_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(
    ("subscripts", "shapes", "orders"),
    [
        ("bij,bjk->bik", ((2, 3, 4), (2, 4, 5)), ["left"]),
        ("bij,bjk->kib", ((2, 3, 4), (2, 4, 5)), ["right"]),
        ("ij,jk->ki", ((3, 4), (4, 5)), ["right"]),
        ("...ij,...jk->...ik", ((1, 3, 4), (2, 4, 5)), ["left"]),
        ("ij,ij->", ((3, 4), (3, 4)), ["left"]),
        ("ijl,jk->ik", ((3, 4, 2), (4, 5)), ["left"]),
        ("ij,jk,k->i", ((3, 4), (4, 5), (5,)), ["left", "left"]),
    ],
)
def test_einsum_by_a_function_for_products(subscripts: str, shapes: Any, orders: list[str]) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) for s in shapes]
    met: list[Any] = []

    def product(lhs: Any, rhs: Any, numbers: Any, precision: Any, **options: Any) -> Any:
        met.append((lhs, rhs, precision, options["preferred_element_type"]))
        return lax.dot_general(lhs, rhs, numbers, precision, **options)

    found = jnp.einsum(subscripts, *arrays, precision="highest", _dot_general=product)
    wanted = np.einsum(subscripts, *arrays)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert len(met) == len(orders)
    assert all(m[2:] == ("highest", np.float32) for m in met)
    if len(arrays) == 2 and orders != ["left"]:
        assert met[0][0].shape == shapes[1]
    jitted = functrax.jit(lambda *a: jnp.einsum(subscripts, *a, _dot_general=product))(*arrays)
    np.testing.assert_allclose(jitted, wanted, rtol=1e-4, atol=1e-5)
    assert len(met) == 2 * len(orders)
    same = jnp.einsum(subscripts, *arrays, _dot_general=lax.dot_general)
    np.testing.assert_array_equal(same, jnp.einsum(subscripts, *arrays))


def test_einsum_by_a_function_takes_two_operands_at_a_time() -> None:
    x = jnp.ones((2, 2))
    with pytest.raises(errors.ArgumentError, match="two operands at a time"):
        jnp.einsum("ij,jk,kl->il", x, x, x, optimize=False, _dot_general=lambda *a, **k: x)
