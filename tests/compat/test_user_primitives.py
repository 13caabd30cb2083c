"""Primitives made with JAX's interface, under every transformation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import functrax


@pytest.fixture
def jax() -> Any:
    import jax
    import jax.extend.core
    import jax.numpy
    from jax.interpreters import ad, batching, mlir

    return SimpleNamespace(
        **{n: getattr(jax, n) for n in ("grad", "jit", "jvp", "vmap", "vjp", "make_jaxpr", "lax")},
        linearize=jax.linearize, numpy=jax.numpy, hessian=jax.hessian, core=jax.core,
        checkpoint=jax.checkpoint, Primitive=jax.extend.core.Primitive,
        ad=ad, batching=batching, mlir=mlir,
    )  # fmt: skip


def make_square_add(jax: Any, calls: list[str] | None = None) -> Any:
    """``x * x + y``, with every rule."""
    p = jax.Primitive("square_add")

    def impl(x: Any, y: Any) -> Any:
        if calls is not None:
            calls.append("impl")
        return x * x + y

    @p.def_abstract_eval
    def abstract(x: Any, y: Any) -> Any:
        assert x.shape == y.shape
        return jax.core.ShapedArray(x.shape, x.dtype)

    def jvp(primals: Any, tangents: Any) -> Any:
        (x, y), (tx, ty) = primals, tangents
        out = p.bind(x, y)
        terms = [] if type(ty) is jax.ad.Zero else [ty]
        if type(tx) is not jax.ad.Zero:
            terms.append(2 * x * tx)
        return out, sum(terms[1:], terms[0])

    def batch(args: Any, dims: Any) -> Any:
        x, y = (a if d is None else jax.numpy.moveaxis(a, d, 0) for a, d in zip(args, dims))
        size = next(a.shape[0] for a, d in zip((x, y), dims) if d is not None)
        x, y = (
            jax.numpy.broadcast_to(a, (size, *a.shape)) if d is None else a
            for a, d in zip((x, y), dims)
        )
        return p.bind(x, y), 0

    p.def_impl(impl)
    jax.ad.primitive_jvps[p] = jvp
    jax.batching.primitive_batchers[p] = batch
    lowered = jax.mlir.lower_fun(lambda x, y: x * x + y, multiple_results=False)
    jax.mlir.register_lowering(p, lowered)
    return p


def test_every_transformation(jax: Any) -> None:
    p = make_square_add(jax)
    x, y = np.arange(3.0, dtype="f4"), np.ones(3, "f4")
    want = x * x + y
    np.testing.assert_array_equal(p.bind(x, y), want)
    np.testing.assert_array_equal(jax.jit(p.bind)(x, y), want)
    out, tangent = jax.jvp(p.bind, (x, y), (y, y))
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(tangent, 2 * x + 1)

    def loss(x: Any) -> Any:
        return p.bind(x, y).sum()

    for f in (jax.grad(loss), jax.jit(jax.grad(loss)), jax.grad(jax.jit(loss))):
        np.testing.assert_array_equal(f(x), 2 * x)
    np.testing.assert_array_equal(jax.hessian(loss)(x), 2 * np.eye(3))
    np.testing.assert_array_equal(jax.grad(jax.checkpoint(loss))(x), 2 * x)
    np.testing.assert_array_equal(jax.linearize(loss, x)[1](y), (2 * x).sum())
    xs = np.arange(6.0, dtype="f4").reshape(2, 3)
    for f in (jax.vmap(p.bind, (0, None)), jax.jit(jax.vmap(p.bind, (0, None)))):
        np.testing.assert_array_equal(f(xs, y), xs * xs + y)
    np.testing.assert_array_equal(jax.vmap(p.bind, (1, 0))(xs.T, xs), xs * xs + xs)
    np.testing.assert_array_equal(jax.vmap(jax.grad(loss))(xs), 2 * xs)
    np.testing.assert_array_equal(jax.grad(lambda x: jax.vmap(loss)(x).sum())(xs), 2 * xs)


def test_in_control_flow(jax: Any) -> None:
    p = make_square_add(jax)

    def loop(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda i, c: p.bind(c, x), x)

    def scanned(x: Any) -> Any:
        return jax.lax.scan(lambda c, _: (p.bind(c, x),) * 2, x, None, length=3)[0]

    def plain(x: Any) -> Any:
        for c in [x]:
            for _ in range(3):
                c = c * c + x
        return c

    x = np.float32(0.3)
    np.testing.assert_allclose(loop(x), plain(x), rtol=1e-6)
    for f in (jax.grad(scanned), jax.jit(jax.grad(scanned))):
        np.testing.assert_allclose(f(x), jax.grad(plain)(x), rtol=1e-6)
    chosen = jax.jit(lambda x: jax.lax.cond(x > 0, lambda: p.bind(x, x), lambda: x))
    np.testing.assert_allclose(chosen(x), x * x + x, rtol=1e-6)


def test_impl_runs_eagerly_and_the_lowering_compiled(jax: Any) -> None:
    calls: list[str] = []
    p = make_square_add(jax, calls)
    p.bind(1.0, 2.0)
    assert calls == ["impl"]
    jax.jit(p.bind)(1.0, 2.0)
    assert calls == ["impl"]


def test_it_stands_in_the_program(jax: Any) -> None:
    p = make_square_add(jax)
    program = jax.make_jaxpr(lambda x: p.bind(x, x) + 1)(1.0)
    first = program.eqns[0]
    assert first.primitive is p
    assert first.params == {}
    assert list(first.invars) == [program.jaxpr.invars[0]] * 2
    assert jax.core.eval_jaxpr(program.jaxpr, program.consts, 3.0)[0] == 13


def test_a_linear_primitive_is_transposed_by_its_rule(jax: Any) -> None:
    p = jax.Primitive("halve_and_turn")
    p.def_impl(lambda x, *, by: x[::-1] * by)
    p.def_abstract_eval(lambda x, *, by: x)
    seen = []

    def transpose(ct: Any, x: Any, *, by: float) -> Any:
        seen.append(jax.ad.is_undefined_primal(x))
        return [p.bind(ct, by=by)]

    jax.ad.deflinear2(p, transpose)
    jax.mlir.register_lowering(p, jax.mlir.lower_fun(lambda x, *, by: x[::-1] * by, False))
    x = np.arange(3.0, dtype="f4")
    w = np.array([1, 10, 100], "f4")

    def loss(x: Any) -> Any:
        return (w * p.bind(x, by=0.5)).sum()

    want = 0.5 * w[::-1]
    np.testing.assert_array_equal(jax.grad(loss)(x), want)
    np.testing.assert_array_equal(jax.jit(jax.grad(loss))(x), want)
    np.testing.assert_array_equal(jax.grad(jax.jit(loss))(x), want)
    assert all(seen)
    assert len(seen) >= 3


def test_the_ways_to_give_a_derivative(jax: Any) -> None:
    ad = jax.ad

    def made(name: str, f: Any) -> Any:
        p = jax.Primitive(name)
        p.def_impl(f)
        p.def_abstract_eval(lambda x, *rest: x)
        jax.mlir.register_lowering(p, jax.mlir.lower_fun(f, multiple_results=False))
        return p

    times = made("times", lambda x, y: x * y)
    ad.defbilinear(times, lambda ct, x, y: times.bind(ct, y), lambda ct, x, y: times.bind(x, ct))
    assert jax.grad(lambda x: times.bind(x, x))(3.0) == 6
    assert jax.grad(jax.jit(lambda x: times.bind(x, x)))(3.0) == 6
    tenfold = made("tenfold", lambda x: 10 * x)
    ad.deflinear(tenfold, lambda ct: [tenfold.bind(ct)])
    assert jax.grad(tenfold.bind)(1.0) == 10
    exp = made("my_exp", jax.numpy.exp)
    ad.defjvp2(exp, lambda t, out, x: t * out)
    np.testing.assert_allclose(jax.grad(exp.bind)(1.0), np.exp(1), rtol=1e-6)
    cube = made("my_cube", lambda x: x**3)
    ad.defjvp(cube, lambda t, x: 3 * x * x * t)
    assert jax.grad(cube.bind)(2.0) == 12
    assert ad.get_primitive_transpose(times) is ad.primitive_transposes[times]
    with pytest.raises(NotImplementedError, match="Transpose rule"):
        ad.get_primitive_transpose(cube)


def test_several_results_some_not_batched(jax: Any) -> None:
    p = jax.Primitive("with_count")
    p.multiple_results = True
    f = lambda x: [x + 1, jax.numpy.float32(7)]
    p.def_impl(f)
    p.def_abstract_eval(lambda x: [x, jax.core.ShapedArray((), "float32")])
    jax.mlir.register_lowering(p, jax.mlir.lower_fun(f))
    jax.batching.primitive_batchers[p] = lambda args, dims: (p.bind(*args), [dims[0], None])
    x = np.arange(4.0, dtype="f4")
    assert isinstance(p.bind(x), list)
    first, second = jax.jit(jax.vmap(p.bind, out_axes=[0, None]))(x)
    np.testing.assert_array_equal(first, x + 1)
    assert second == 7


def test_a_batching_rule_may_ask_for_the_axis(jax: Any) -> None:
    p = jax.Primitive("times_size")
    p.def_impl(lambda x: x)
    p.def_abstract_eval(lambda x: x)
    jax.batching.axis_primitive_batchers[p] = lambda size, name, kind, args, dims: (
        args[0] * size + (name == "i"), dims[0],
    )  # fmt: skip
    np.testing.assert_array_equal(jax.vmap(p.bind)(np.ones(3, "f4")), np.full(3, 3))
    np.testing.assert_array_equal(jax.vmap(p.bind, axis_name="i")(np.ones(3, "f4")), np.full(3, 4))
    q = jax.Primitive("fancy")
    q.def_impl(lambda x: x)
    jax.batching.fancy_primitive_batchers[q] = lambda axis, args, dims: (args[0] + axis.size, 0)
    np.testing.assert_array_equal(jax.vmap(q.bind)(np.zeros(3, "f4")), np.full(3, 3))


def test_shorthands_of_batching(jax: Any) -> None:
    batching = jax.batching

    def made(name: str, f: Any) -> Any:
        p = jax.Primitive(name)
        p.def_impl(f)
        return p

    sin = made("my_sin", jax.numpy.sin)
    batching.defvectorized(sin)
    x = np.arange(6.0, dtype="f4").reshape(2, 3)
    np.testing.assert_array_equal(jax.vmap(sin.bind, 1, 1)(x), jax.numpy.sin(x))
    add = made("my_add", lambda x, y: x + y)
    batching.defbroadcasting(add)
    got = jax.vmap(add.bind, (0, 1))(x, x.T)
    np.testing.assert_array_equal(got, x + x)
    np.testing.assert_array_equal(jax.vmap(add.bind, (0, None))(x, x[0]), x + x[0])
    total = made("my_total", lambda x, *, axes: x.sum(axes))
    batching.defreducer(total)
    got = jax.vmap(lambda x: total.bind(x, axes=(0,)), 1)(x)
    np.testing.assert_array_equal(got, x.sum(0))
    assert batching.bdim_at_front(x, None, 4).shape == (4, 2, 3)
    assert batching.bdim_at_front(x, 1, 3).shape == (3, 2)
    assert batching.broadcast(x, 4, 1).shape == (2, 4, 3)


def test_a_lowering_may_hold_arrays(jax: Any) -> None:
    table = np.arange(5.0, dtype="f4")
    p = jax.Primitive("looked_up")
    f = lambda x: x + jax.numpy.asarray(table)
    p.def_impl(f)
    p.def_abstract_eval(lambda x: x)
    jax.mlir.register_lowering(p, jax.mlir.lower_fun(f, multiple_results=False))
    jax.batching.defvectorized(p)
    x = np.ones(5, "f4")
    np.testing.assert_array_equal(jax.jit(lambda x: p.bind(p.bind(x)))(x), x + 2 * table)
    body = jax.jit(lambda x: jax.lax.scan(lambda c, _: (p.bind(c), None), x, None, length=3)[0])
    np.testing.assert_array_equal(body(x), x + 3 * table)


def test_unhashable_parameters(jax: Any) -> None:
    p = jax.Primitive("with_a_list")
    f = lambda x, *, factors: x * sum(factors)
    p.def_impl(f)
    p.def_abstract_eval(lambda x, *, factors: x)
    jax.mlir.register_lowering(p, jax.mlir.lower_fun(f, multiple_results=False))
    run = jax.jit(lambda x: p.bind(x, factors=[1, 2]) + p.bind(x, factors=[1, 2]))
    assert run(2.0) == 12
    assert run(3.0) == 18


def test_what_is_missing_is_said(jax: Any) -> None:
    p = jax.Primitive("bare")
    with pytest.raises(NotImplementedError, match="bare: evaluation rule not implemented"):
        p.bind(1.0)
    with pytest.raises(NotImplementedError, match="bare: abstract evaluation rule"):
        jax.make_jaxpr(p.bind)(1.0)
    p.def_impl(lambda x: x)
    p.def_abstract_eval(lambda x: x)
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'bare'"):
        jax.grad(p.bind)(1.0)
    with pytest.raises(NotImplementedError, match="Batching rule for 'bare'"):
        jax.vmap(p.bind)(np.ones(3))
    assert jax.make_jaxpr(p.bind)(1.0).eqns[0].primitive is p  # which compiles nothing
    with pytest.raises(NotImplementedError, match=r"bare cannot be compiled: it has no lowering"):
        jax.jit(p.bind)(1.0)
    jax.ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), p.bind(*tangents))
    with pytest.raises(NotImplementedError, match=r"Transpose rule.* for 'bare'"):
        jax.grad(lambda x: p.bind(x).sum())(np.ones(3, "f4"))


def test_a_lowering_that_writes_mlir_is_refused_by_name(jax: Any) -> None:
    p = make_square_add(jax)

    def writes_mlir(ctx: Any, x: Any, y: Any) -> Any:
        raise AssertionError("never called")

    jax.mlir.register_lowering(p, writes_mlir)
    with pytest.raises(NotImplementedError, match=r"square_add.*writes_mlir.*writes MLIR"):
        jax.jit(p.bind)(1.0, 2.0)
    assert p.bind(1.0, 2.0) == 3


def test_a_lowering_that_passes_its_values_on_is_traced(jax: Any) -> None:
    p = make_square_add(jax)
    seen = []

    def calls_back(ctx: Any, x: Any, y: Any) -> Any:
        def callback(x: Any, y: Any) -> Any:
            seen.append(np.shape(x))
            return (np.asarray(x * x + y),)

        squared, token, keepalive = jax.mlir.emit_python_callback(
            ctx, callback, None, [x, y], ctx.avals_in, ctx.avals_out, has_side_effect=False
        )
        ctx.module_context.add_keepalive(keepalive)
        assert token is None
        function = jax.mlir.lower_fun(lambda x: x + 0, multiple_results=False)
        return function(ctx, *squared)

    jax.mlir.register_lowering(p, calls_back)
    assert jax.jit(p.bind)(3.0, 2.0) == 11 and seen == [()]
    assert jax.jit(jax.vmap(p.bind, (0, None)))(np.arange(3, dtype="f4"), 2.0).tolist() == [2, 3, 6]


def test_a_lowering_for_another_platform_is_not_used(jax: Any) -> None:
    p = make_square_add(jax)
    wrong = jax.mlir.lower_fun(lambda x, y: x, multiple_results=False)
    jax.mlir.register_lowering(p, wrong, platform="cuda")
    assert jax.jit(p.bind)(3.0, 2.0) == 11


def test_a_lowering_of_another_type_is_an_error(jax: Any) -> None:
    p = make_square_add(jax)
    wrong = jax.mlir.lower_fun(lambda x, y: x > y, multiple_results=False)
    jax.mlir.register_lowering(p, wrong)
    with pytest.raises(ValueError, match="another type than its abstract evaluation"):
        jax.jit(p.bind)(3.0, 2.0)


def test_rules_of_functraxs_own_primitives_are_not_changed(jax: Any) -> None:
    with pytest.raises(ValueError, match="only a primitive of your own"):
        jax.ad.primitive_jvps[jax.lax.add_p] = None


def test_zeros_are_pytrees_without_leaves(jax: Any) -> None:
    from jax.interpreters import ad

    zero = ad.Zero(functrax.typeof(np.ones(2, "f4")))
    leaves, tree = functrax.tree.flatten(zero)
    again = functrax.tree.unflatten(tree, leaves)
    assert leaves == [] and type(again) is ad.Zero and again.aval == zero.aval
    out = functrax.vmap(lambda x: (2 * x, zero))(np.arange(3.0))
    assert out[0].tolist() == [0, 2, 4] and type(out[1]) is ad.Zero
