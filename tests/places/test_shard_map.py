"""``shard_map``, ``smap`` and ``pmap`` on one device."""

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import P, lax, pmap, shard_map, smap
from functrax.sharding import AbstractMesh, NamedSharding, get_abstract_mesh

MESH = functrax.make_mesh((1, 1), ("a", "b"))
X = np.arange(4.0, dtype=np.float32)


A = P("a")


def mapped(f, in_specs=A, out_specs=A, **options):
    return shard_map(f, mesh=MESH, in_specs=in_specs, out_specs=out_specs, **options)


@pytest.mark.parametrize(
    ("f", "in_specs", "out_specs", "want"),
    [
        (lambda x: x + 1, P("a"), P("a"), X + 1),
        (lambda x: lax.psum(x, "a"), P("a"), P(), X),
        (lambda x: lax.psum(x, ("a", "b")), P(("a", "b")), P(), X),
        (lambda x: x + lax.axis_index("a"), P(), P("a"), X),
        (lambda x: lax.all_gather(x, "a"), P("a"), P("a"), X[None]),
        (lambda x: lax.all_gather(x, "a", tiled=True), P("a"), P("a"), X),
        (lambda x: lax.ppermute(x, "a", [(0, 0)]), P("a"), P("a"), X),
        (lambda x: lax.pmax(x.max(), "a"), P("a"), P(), np.float32(3)),
        (lambda x: lax.psum_scatter(x, "a", tiled=True), P("a"), P("a"), X),
        (lambda x: lax.all_to_all(x, "a", 0, 0, tiled=True), P("a"), P("a"), X),
        (lambda x: x * lax.axis_size("b"), P("a"), P("a"), X),
        (lambda x: x, P("a"), P(("b", "a")), X),
        (lambda x: lax.pcast(x, ("a", "b"), to="varying"), P(), P(("a", "b")), X),
    ],
)
def test_parts_are_the_whole(f, in_specs, out_specs, want):
    run = mapped(f, in_specs, out_specs)
    for result in (run(X), functrax.jit(run)(X)):
        assert result.dtype == want.dtype and result.shape == want.shape
        np.testing.assert_array_equal(result, want)


def test_results_are_on_the_mesh():
    assert mapped(lambda x: x)(X).sharding == NamedSharding(MESH, P("a"))
    with functrax.set_mesh(MESH):
        by_context = shard_map(lambda x: x, in_specs=P("a"), out_specs=P("a"))(X)
    assert by_context.sharding == NamedSharding(MESH, P("a"))


def test_it_is_a_decorator_of_pytrees():
    @shard_map(mesh=MESH, in_specs=(P("a"), None), out_specs={"sum": P("a"), "y": P()})
    def f(x, y):
        return {"sum": x["w"] + y, "y": y}

    result = f({"w": X}, 2.0)
    assert result["sum"].tolist() == [2, 3, 4, 5] and result["y"] == 2
    assert f.__name__ == "f"
    assert mapped(lambda x: None, out_specs=None)(X) is None


def test_it_can_be_transformed():
    total = mapped(lambda x: lax.psum((x**2).sum(), "a"), out_specs=P())
    grads = functrax.jit(functrax.grad(total))(X)
    assert grads.tolist() == (2 * X).tolist()
    _, tangent = functrax.jvp(total, (X,), (np.ones_like(X),))
    assert tangent == (2 * X).sum()
    rows = functrax.vmap(total)(np.stack([X, 2 * X]))
    assert rows.tolist() == [14.0, 56.0]
    outer = mapped(lambda x: mapped_inner(x) + 1, P("a"), P("a"), axis_names={"a"})
    mapped_inner = mapped(lambda x: x * 2, P("b"), P("b"), axis_names={"b"})
    assert outer(X).tolist() == (2 * X + 1).tolist()


def test_specs_may_be_those_of_the_arrays():
    x = functrax.device_put(X, NamedSharding(MESH, P("a")))
    f = shard_map(lambda x, y: x + y, mesh=MESH, out_specs=P("a"))
    assert f(x, 1.0).tolist() == (X + 1).tolist()
    with pytest.raises(ValueError, match="may differ"):
        shard_map(lambda x: x, mesh=MESH, out_specs=P())(x)


def test_the_axes_are_manual_inside():
    seen = []
    mapped(lambda x: (seen.append(get_abstract_mesh().manual_axes), x)[1])(X)
    mapped(lambda x: (seen.append(get_abstract_mesh().manual_axes), x)[1], axis_names={"a"})(X)
    assert seen == [("a", "b"), ("a",)]


@pytest.mark.parametrize("f", [lambda x: x, lambda x: x + lax.axis_index("a")])
def test_results_that_vary_are_refused_unless_unchecked(f):
    with pytest.raises(ValueError, match="may differ"):
        mapped(f, P("a"), P())(X)
    assert mapped(f, P("a"), P(), check_vma=False)(X).tolist() == X.tolist()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: mapped(lambda x: x, P("a", "b"))(X), ValueError, "more entries"),
        (lambda: mapped(lambda x: x[0])(X), ValueError, "more entries"),
        (lambda: mapped(lambda x: x, (P("a"), P()))(X), ValueError, "does not fit the arguments"),
        (lambda: mapped(lambda x: x, P("a"), (P(), P()))(X), ValueError, "does not fit the result"),
        (lambda: mapped(lambda x: x, P("a"), None)(X), ValueError, "does not fit the result"),
        (lambda: mapped(lambda x: x, P("c"))(X), ValueError, "not mapped"),
        (lambda: mapped(lambda x: x, P("b"), axis_names={"a"})(X), ValueError, "not mapped"),
        (lambda: mapped(lambda x: x, axis_names={"c"})(X), ValueError, "the mesh lacks"),
        (lambda: mapped(lambda x: x, "a"), TypeError, "something else than PartitionSpecs"),
        (lambda: mapped(lambda x: x, None), TypeError, "in_specs is None"),
        (lambda: mapped(3), TypeError, "not a function"),
        (lambda: mapped(lambda x: x)(k=X), TypeError, "k"),
        (
            lambda: shard_map(lambda x: x, in_specs=P("a"), out_specs=P("a"))(X),
            ValueError,
            "there is no mesh",
        ),
        (
            lambda: shard_map(lambda x: x, mesh=3, in_specs=P(), out_specs=P())(X),
            TypeError,
            "not a mesh",
        ),
        (
            lambda: shard_map(
                lambda x: x, mesh=AbstractMesh((2,), ("a",)), in_specs=P(), out_specs=P()
            )(X),
            ValueError,
            "more devices",
        ),
        (lambda: smap(lambda x: x, in_axes=-1, out_axes=0, axis_name="a"), ValueError, "from 0"),
    ],
)
def test_wrong_calls_are_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_pcast():
    varying = lambda x: lax.pcast(x, "a", to="varying")
    assert mapped(varying, P(), P("a"))(X).tolist() == X.tolist()
    with pytest.raises(ValueError, match="may differ"):
        mapped(varying, P(), P())(X)
    squares = mapped(lambda x: lax.psum((varying(x) ** 2).sum(), "a"), P(), P())
    assert functrax.grad(squares)(X).tolist() == (2 * X).tolist()
    inner = mapped(functrax.grad(lambda x: lax.psum((varying(x) ** 2).sum(), "a")), P(), P())
    assert inner(X).tolist() == (2 * X).tolist()
    rows = functrax.vmap(lambda x, y: lax.pcast(y, "i", to="varying") + x, (0, None), axis_name="i")
    assert rows(X, 1.0).tolist() == (X + 1).tolist()
    with pytest.raises(ValueError, match="kind"):
        mapped(lambda x: lax.pcast(x, "a", to="reduced"))(X)
    with pytest.raises(NameError):
        lax.pcast(X, "a", to="varying")


def test_smap():
    with functrax.set_mesh(MESH):
        assert smap(lambda x: x + 1, in_axes=0, out_axes=0, axis_name="a")(X).tolist() == [
            1,
            2,
            3,
            4,
        ]
        total = smap(
            lambda x, y: lax.psum(x, "a") + y, in_axes=(1, None), out_axes=None, axis_name="a"
        )
        assert total(X[None], 1.0).tolist() == [[1, 2, 3, 4]]
        with pytest.raises(ValueError, match="may differ"):
            smap(lambda x: x, in_axes=0, out_axes=None, axis_name="a")(X)


def test_experimental_shard_map():
    from functrax.experimental.shard_map import shard_map as older

    assert older(lambda x: x + 1, MESH, P("a"), P("a"))(X).tolist() == [1, 2, 3, 4]
    assert older(lambda x: x, MESH, in_specs=P("a"), out_specs=P(), check_rep=False)(X).size == 4


def test_pmap():
    x = np.ones((1, 3), np.float32)
    assert pmap(lambda x: x + 1)(x).tolist() == [[2, 2, 2]]
    assert pmap(lambda x: lax.psum(x, "i"), axis_name="i")(x).tolist() == [[1, 1, 1]]
    assert pmap(lambda x, y: x + y, in_axes=(0, None))(x, 2.0).tolist() == [[3, 3, 3]]
    scaled = pmap(lambda x, n: x * n, static_broadcasted_argnums=1)
    assert scaled(x, 2).tolist() == [[2, 2, 2]]
    both = pmap(lambda x, n: x * n, in_axes=(0, None), static_broadcasted_argnums=(1,))
    assert both(x, 3).tolist() == [[3, 3, 3]]
    assert pmap(lambda x: x, out_axes=1)(x).shape == (3, 1)
    assert pmap(lambda x: x, out_axes=1, in_axes=1)(x.T).shape == (3, 1)
    assert pmap(lambda x, y=0: x + y)(x, y=x).tolist() == [[2, 2, 2]]
    assert pmap(lambda x: (x, x), out_axes=(None, 0))(x)[0].tolist() == [1, 1, 1]
    assert pmap(lambda x: x, out_axes=None)(x).tolist() == [1, 1, 1]
    assert pmap(lambda x: x).lower(x).out_info.shape == (1, 3)
    assert functrax.grad(lambda x: pmap(jnp.sin)(x).sum())(x).shape == (1, 3)
    given = jnp.ones((1, 3))
    pmap(lambda x: x + 1, donate_argnums=0)(given)
    assert given.is_deleted()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: pmap(lambda x: x)(np.ones((2, 3))), ValueError, "one device"),
        (lambda: pmap(lambda x, y: x)(np.ones((1, 3)), np.ones((2, 3))), ValueError, "one device"),
        (lambda: pmap(lambda x: x)(1.0), ValueError, "along axis 0"),
        (lambda: pmap(lambda x: x, in_axes=None), ValueError, "with a mapped axis"),
        (lambda: pmap(lambda x: x, in_axes="q"), TypeError, "must be an int"),
        (lambda: pmap(lambda x: x, axis_size=2), ValueError, "one device"),
        (lambda: pmap(lambda x: x, devices=[]), ValueError, "devices"),
        (lambda: pmap(lambda x: x, backend="x"), RuntimeError, "Unknown backend"),
        (lambda: pmap(3), TypeError, "not a function"),
    ],
)
def test_wrong_pmaps_are_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
