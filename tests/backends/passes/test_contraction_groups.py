"""What is around a contraction becomes part of its kernel, or says why not."""

from __future__ import annotations

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.compilation.compiler import compile_program
from functrax.backends.compilation.pipeline import PIPELINE, run_pipeline
from functrax.backends.compilation.stage import as_pass
from functrax.backends.executables.program import all_programs
from functrax.backends.passes.fusion import fuse as fusion
from functrax.backends.passes.fusion.fuse import fuse
from functrax.core.syntax.verify import verify
from functrax.core.tracing.stage import close
from functrax.scipy.linalg import cho_solve
from tests.backends.passes import pass_checks as check


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


X, W, B, R = array(32, 48), array(48, 64, seed=1), array(64, seed=2), array(32, 64, seed=3)


def grouped(function, *args, takes=lambda jaxpr: True):
    """The program of groups, if there are kernels for all contractions; it keeps its values."""
    passes = [
        as_pass(p.name, lambda jaxpr, rewrites: fuse(jaxpr, rewrites, takes))
        if p.name == "fuse"
        else p
        for p in PIPELINE
    ]
    jaxpr = close(functrax.make_jaxpr(function)(*args).jaxpr)
    found = run_pipeline(jaxpr, passes).program
    verify(found)
    values = check.draw(jaxpr)
    assert check.nearly_equal(
        check.run_reference(found, values), check.run_reference(jaxpr, values)
    )
    return found


def kinds(jaxpr):
    return [e.primitive.name for e in jaxpr.eqns]


def inside(eqn):
    return [e.primitive.name for e in eqn.params["jaxpr"].eqns]


def reasons(function, *args):
    return {edge.code for edge in functrax.explain(function)(*args).edges}


def test_bias_activation_and_residual_are_an_epilogue():
    found = grouped(lambda x, w, b, r: jnp.tanh(x @ w + b) + r, X, W, B, R)
    assert kinds(found) == ["contraction"]
    (group,) = found.eqns
    assert inside(group)[-5:] == ["reduce_sum", "broadcast_in_dim", "add", "tanh", "add"]
    assert group.params["name"] == "contraction_add_tanh"


def test_a_sum_that_is_needed_as_well_is_one_more_result():
    found = grouped(lambda x, w, b: ((y := x @ w + b), jnp.where(y > 0, y, 0.01 * y)), X, W, B)
    assert kinds(found) == ["contraction"]
    assert len(found.eqns[0].outvars) == 2


def test_the_second_product_of_a_sum_takes_the_first_as_epilogue():
    found = grouped(lambda x, w, r, v: jnp.tanh(x @ w + r @ v), X, W, R, array(64, 64))
    assert kinds(found) == ["contraction"] * 2
    assert inside(found.eqns[1])[-2:] == ["add", "tanh"]


def test_cheap_operations_on_a_side_are_a_prologue():
    found = grouped(lambda x, w: (2 * x + 1) @ w, X, W)
    assert kinds(found) == ["contraction"]
    assert inside(found.eqns[0])[0] == "fma"


def test_what_is_many_times_larger_than_what_it_is_computed_of_stays_apart():
    """The gradient of a solution is a product of vectors, which the factor's gradient reads."""

    def loss(x, y):
        factor = jnp.linalg.cholesky(x)
        return y @ cho_solve((factor, True), y)

    x, y = np.eye(100, dtype=np.float32) + 0.1, array(100)
    gradient = functrax.jit(functrax.grad(loss))
    programs = all_programs(compile_program(gradient.lower(x, y).jaxpr).program)
    names = [type(step).__name__ for program in programs for step in program.instructions]
    assert "Launch" in names and "HostCall" not in names
    z = np.linalg.solve(x, y)
    np.testing.assert_allclose(gradient(x, y), -np.outer(z, z), rtol=1e-3, atol=1e-4)


def test_conversions_of_half_precision_are_part_of_the_contraction():
    def f(x, w, r):
        return jnp.maximum(x @ w + r, 0)

    found = grouped(f, *(jnp.asarray(v, "bfloat16") for v in (X, W, R)))
    assert kinds(found) == ["contraction"]


def test_dear_operations_on_a_side_stay_apart():
    found = grouped(lambda x, w: jnp.exp(x) @ w, X, W)
    assert kinds(found) == ["fused", "contraction"]
    edges = functrax.explain(lambda x, w: jnp.exp(x) @ w)(X, W).edges
    assert [e.reason for e in edges] == [
        "contraction: a side is packed more than once, and this is dear"
    ]


def test_what_two_contractions_read_stays():
    def f(x, w, v):
        y = 2 * x
        return y @ w, y @ v

    found = grouped(f, X, W, array(48, 32))
    assert kinds(found) == ["fused", "contraction", "contraction"]


def test_a_reduction_of_the_result_stays_apart():
    found = grouped(lambda x, w: jnp.sum(jnp.tanh(x @ w), 0), X, W)
    assert kinds(found) == ["contraction", "fused"]
    edges = functrax.explain(lambda x, w: jnp.sum(jnp.tanh(x @ w), 0))(X, W).edges
    assert [e.reason for e in edges] == ["contraction: a reduction has a kernel of its own"]


def test_nothing_that_depends_on_a_detour_is_an_epilogue():
    """The centred result needs the sum of all: they would wait for one another."""
    found = grouped(lambda x, w: (y := x @ w) - jnp.mean(y, 0), X, W)
    assert kinds(found) == ["contraction", "fused"]


def test_results_at_other_points_are_no_epilogue():
    found = grouped(lambda x, w, r: (x @ w)[::-1] + r, X, W, R)
    assert kinds(found) == ["contraction", "fused"]


def test_contractions_that_no_kernel_takes_stay_alone():
    found = grouped(lambda x, w, b: jnp.tanh(x @ w + b), X, W, B, takes=lambda jaxpr: False)
    assert kinds(found) == ["contraction", "fused"]


def test_an_update_of_parameters_is_an_epilogue_of_their_gradient():
    def step(w, x, y):
        return w - 0.1 * functrax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)

    found = grouped(step, W, X, R)
    assert kinds(found) == ["contraction"] * 2
    assert "fma" in inside(found.eqns[1])


def test_joined_contractions_are_computed():
    """As compiled, against the reference device."""

    def f(x, w, b, r):
        y, pull = functrax.vjp(lambda x, w, b: jnp.tanh(x @ w + b) * r, x, w, b)
        return y, pull(y)

    found = functrax.tree_util.tree_leaves(functrax.jit(f)(X, W, B, R))
    with functrax.backend("interp"):
        wanted = functrax.tree_util.tree_leaves(f(X, W, B, R))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


# ---- convolutions in four meta-operators (rows J9, J10) ------------------------------------------


def four_operators(x, w):
    """A convolution as reindex, broadcast, multiply, sum."""
    n, c, height, width = x.shape
    o, _, kh, kw = w.shape
    windows = lax.reindex(
        x,
        (n, o, c, height - kh + 1, width - kw + 1, kh, kw),
        lambda n, o, c, i, j, u, v: (n, c, i + u, j + v),
    )
    return jnp.sum(windows * w[None, :, :, None, None], (2, 5, 6))


def test_a_convolution_of_four_operators_is_one_kernel_and_its_gradients_three():
    x, w = array(2, 3, 12, 12), array(8, 3, 3, 3, seed=1)
    wanted = lax.conv_general_dilated(x, w, (1, 1), "VALID")
    np.testing.assert_allclose(functrax.jit(four_operators)(x, w), wanted, rtol=1e-4, atol=1e-4)
    forward = functrax.explain(four_operators)(x, w)
    assert len(forward.kernels) == 1

    def both(x, w):
        y, pull = functrax.vjp(four_operators, x, w)
        return y, *pull(y)

    found = grouped(both, x, w)
    assert kinds(found) == ["contraction"] * 3
    assert max(v.aval.ndim for e in found.eqns for v in e.outvars) <= 4


def test_what_uses_the_gradient_of_a_strided_convolution_is_apart():
    """Its results come in parts, one for each remainder of their indices: no row is whole."""

    def f(x, w, r):
        y = lax.conv_general_dilated(x, w, (2, 2), "SAME")
        (ct,) = functrax.vjp(lambda x: lax.conv_general_dilated(x, w, (2, 2), "SAME"), x)[1](y)
        return jnp.tanh(ct + r)

    images = array(2, 8, 24, 24)
    found = grouped(f, images, array(8, 8, 3, 3), images)
    assert kinds(found) == ["contraction", "contraction", "fused"]
    assert "tanh" in inside(found.eqns[-1])


def test_an_array_with_holes_is_not_read_around_a_contraction():
    """It would come in parts, one for each remainder; nor is it computed there again."""

    def spread(s):
        return lax.pad(s, np.float32(0), ((0, 0, 0), (0, 1, 1)))

    small = array(32, 32)
    found = grouped(lambda x, w, s: x @ w + spread(s), X, W, small)
    assert kinds(found) == ["contraction", "fused"]

    def twice(x, w, r, s):
        gated = jnp.where(r > 0, r + spread(s), 0)
        return x @ w + gated, jnp.sum(gated, 0)

    found = grouped(twice, X, W, R, small)
    assert sum("pad" in inside(eqn) for eqn in found.eqns) == 1
    assert all("pad" not in inside(e) for e in found.eqns if e.primitive.name == "contraction")


def test_a_dear_value_is_stored_for_several_that_follow_from_it():
    """As the tanh of a gelu for the factors of its derivative, which would be two arrays."""

    def f(x, w, factors):
        t = jnp.tanh(x)
        slope, gate = 1 - t * t, (t + 1) * 0.5
        result = ((x * gate) @ w) @ w.T * slope
        return (result + gate, gate) if factors else result + gate

    x, w = array(64, 48), array(48, 80)
    first, _, last = grouped(lambda x, w: f(x, w, False), x, w).eqns
    assert len(first.outvars) == 2 and "neg" not in inside(first)
    assert "neg" in inside(last) and "tanh" not in inside(last)

    # One of them is a result: to store the other one as well is no more than the tanh.
    first, _, last = grouped(lambda x, w: f(x, w, True), x, w).eqns
    assert len(first.outvars) == 3


def test_products_behind_a_contraction_are_computed_where_they_are_added_up(monkeypatch):
    """The way back of a norm whose rows are long: a first round makes that cheap for a second."""

    def norm(x):
        centred = x - x.mean((0, 2, 3), keepdims=True)
        return centred / jnp.sqrt((centred**2).mean((0, 2, 3), keepdims=True) + 1e-5)

    def loss(x, v, w):
        for kernel in (v, w, v):
            x = functrax.nn.relu(norm(lax.conv_general_dilated(x, kernel, (1, 1), "SAME")))
        return jnp.sum(x)

    args = [
        functrax.ShapeDtypeStruct(s, "float32") for s in ((64, 8, 48, 48), *((8, 8, 3, 3),) * 2)
    ]

    def cost():
        return functrax.explain(functrax.grad(loss, (0, 1, 2)))(*args).cost

    often = cost()
    recompute = fusion.recompute
    done = []
    monkeypatch.setattr(
        fusion, "recompute", lambda f: f not in done and not done.append(f) and recompute(f)
    )
    functrax.clear_caches()
    assert often < cost()
