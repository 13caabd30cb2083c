"""Contractions: sums of products become one equation, and no product is stored."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.backends.reference.reference_device as reference
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.passes.clean.dce import dce
from functrax.backends.passes.clean.inline import inline
from functrax.backends.passes.contractions import recognise as recognition
from functrax.backends.passes.contractions.orientation import orient
from functrax.backends.passes.contractions.recognise import recognise
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import all_eqns
from functrax.core.syntax.verify import verify
from functrax.core.tracing.stage import close
from tests.backends.passes import pass_checks as check


def recognised(jaxpr):
    found = dce(recognise(jaxpr, Rewrites()), Rewrites())
    verify(found)
    return found


def oriented(jaxpr):
    found = orient(recognised(jaxpr), Rewrites())
    verify(found)
    return found


def program(function, *args):
    return inline(close(functrax.make_jaxpr(function)(*args).jaxpr), Rewrites())


def names(jaxpr):
    return [eqn.primitive.name for eqn in jaxpr.eqns]


def largest(jaxpr):
    """The size of the largest value that is stored."""
    return max(v.aval.size for eqn in jaxpr.eqns for v in eqn.outvars)


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_a_matrix_product():
    check.expect(
        lambda jaxpr, rewrites: dce(recognise(jaxpr, rewrites), rewrites),
        """{ lambda ; x:f32[32,16] w:f32[16,64]. let
             a:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(0, 2)] x
             b:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(2, 1)] w
             c:f32[32,64,16] = mul a b
             d:f32[32,64] = reduce_sum[axes=(2,)] c
             e:f32[32,64] = exp d
           in (e,) }""",
        """{ lambda ; x:f32[32,16] w:f32[16,64]. let
             d:f32[32,64] = contraction[jaxpr={ lambda ; x:f32[32,16] w:f32[16,64]. let
                 a:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(0, 2)] x
                 b:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(2, 1)] w
                 c:f32[32,64,16] = mul a b
                 d:f32[32,64] = reduce_sum[axes=(2,)] c
               in (d,) }, name="sum_of_products"] x w
             e:f32[32,64] = exp d
           in (e,) }""",
    )


def test_a_transpose_after_a_product_is_part_of_it():
    check.expect(
        lambda jaxpr, rewrites: orient(dce(recognise(jaxpr, rewrites), rewrites), rewrites),
        """{ lambda ; x:f32[32,16] w:f32[16,64]. let
             a:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(0, 2)] x
             b:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(2, 1)] w
             c:f32[32,64,16] = mul a b
             d:f32[32,64] = reduce_sum[axes=(2,)] c
             e:f32[64,32] = transpose[perm=(1, 0)] d
           in (e,) }""",
        """{ lambda ; x:f32[32,16] w:f32[16,64]. let
             e:f32[64,32] = contraction[jaxpr={ lambda ; x:f32[32,16] w:f32[16,64]. let
                 a:f32[64,32,16] = broadcast_in_dim[shape=(64, 32, 16), dims=(1, 2)] x
                 b:f32[64,32,16] = broadcast_in_dim[shape=(64, 32, 16), dims=(2, 0)] w
                 c:f32[64,32,16] = mul a b
                 d:f32[64,32] = reduce_sum[axes=(2,)] c
               in (d,) }, name="sum_of_products"] x w
           in (e,) }""",
    )


def test_a_transpose_of_a_product_with_other_users_stays():
    def f(x, w):
        y = x @ w
        return y, y.T

    assert "transpose" in names(oriented(program(f, array(32, 16), array(16, 64))))


def test_gradients_of_products_need_no_transposes():
    found = oriented(program(functrax.grad(mlp), LAYERS, array(32, 48)))
    assert "transpose" not in names(found)


def test_a_convolution_in_another_order_of_axes():
    def f(x, w):
        y = lax.conv_general_dilated(x, w, (2, 2), "SAME", rhs_dilation=(1, 2))
        return jnp.transpose(y, (2, 0, 3, 1))

    jaxpr = program(f, array(2, 3, 16, 16), array(5, 3, 3, 3))
    found = oriented(jaxpr)
    assert "transpose" not in names(found)
    values = check.draw(jaxpr)
    (wanted,), (have,) = (check.run_reference(j, values) for j in (jaxpr, found))
    np.testing.assert_allclose(have, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stride", [1, 2])
def test_a_convolution_of_a_product_with_a_mask(stride):
    """A product no larger than one of its factors is an array, of which windows are read."""

    def f(x, mask, w):
        y = x * mask[:, :, None, None]
        y = lax.conv_general_dilated(y, w, (stride, stride), "SAME")
        return jnp.sum(y**2)

    jaxpr = program(functrax.grad(f, (0, 2)), array(4, 8, 32, 32), array(4, 8), array(8, 8, 3, 3))
    found = recognised(jaxpr)
    assert names(found).count("contraction") == 3
    assert largest(found) <= 2 * 4 * 8 * 32 * 32
    values = check.draw(jaxpr)
    for have, wanted in zip(*(check.run_reference(j, values) for j in (found, jaxpr))):
        np.testing.assert_allclose(have, wanted, rtol=1e-4, atol=1e-2)


def test_an_outer_product_that_is_multiplied_again_is_contracted_in_another_order():
    def function(w, g, v):  # as the derivative of tanh(x @ w) @ v by x
        return jnp.einsum("nih,ho->nio", w[None] * g[:, None], v)

    found = recognised(program(function, array(4, 64), array(128, 64), array(64, 4)))
    sizes = [e.outvars[0].aval.size for e in found.eqns if e.primitive.name == "mul"]
    assert sizes == [4 * 64 * 4], found  # of w and v
    args = [array(4, 64), array(128, 64, seed=1), array(64, 4, seed=2)]
    wanted = np.einsum("ih,nh,ho->nio", *map(np.float64, args))
    np.testing.assert_allclose(functrax.jit(function)(*args), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "part",
    [
        jnp.triu,
        jnp.tril,
        lambda x: jnp.triu(jnp.tril(x, 3), -3),
        lambda x: jnp.roll(jnp.triu(x), 3),
    ],
    ids=["triu", "tril", "band", "rolled"],
)
def test_a_part_of_a_matrix_is_a_side(part):
    """Also behind the pass ``compose``, which makes one view of a mask and a broadcast."""
    x, y = array(96, 96), array(96, 96, seed=1)

    def product(x, y):
        return part(x) @ y.T

    found = functrax.explain(product)(x, y)
    assert "sum_of_products" in [k.name for k in found.kernels], found
    wanted = np.asarray(part(jnp.asarray(x)), np.float64) @ y.T
    np.testing.assert_allclose(functrax.jit(product)(x, y), wanted, rtol=1e-4, atol=1e-4)


def test_rows_that_are_scaled_are_one_side():
    def function(x, s, v):
        return jnp.einsum("nh,ho->no", x * s, v)

    found = recognised(program(function, array(128, 64), array(64), array(64, 32)))
    assert names(found).count("contraction") == 1
    assert largest(found) == 128 * 64


def test_a_reindex_with_other_users_is_copied():
    def f(x, w):
        wide = jnp.broadcast_to(x[:, None, :], (32, 64, 16))
        return jnp.sum(wide * w.T[None], -1), jnp.exp(wide)

    found = recognised(program(f, array(32, 16), array(16, 64)))
    assert names(found).count("contraction") == 1
    assert "broadcast_in_dim" in names(found)


def test_a_product_with_other_users_is_computed_twice():
    def f(x, w):
        product = x[:, None, :] * w.T[None]
        return jnp.sum(product, -1), jnp.exp(product)

    found = recognised(program(f, array(32, 16), array(16, 64)))
    assert names(found).count("contraction") == names(found).count("mul") == 1


def test_a_matrix_times_a_vector_is_left_to_fusion():
    found = recognised(program(jnp.dot, array(96, 64), array(64)))
    assert "contraction" not in names(found)


def test_sums_of_repeated_values_and_of_dense_products_are_no_contractions():
    def f(x, y):
        return jnp.sum(x * y), jnp.sum(jnp.broadcast_to(x[0], (99, 64)) + 1.0)

    assert "contraction" not in names(recognised(program(f, array(96, 64), array(96, 64))))


def test_contractions_in_the_body_of_a_loop():
    def f(x, w):
        return lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=2)[0]

    found = recognised(program(f, array(32, 32), array(32, 32)))
    assert [e.primitive.name for e in all_eqns(found)].count("contraction") == 1


def test_the_limit():
    jaxpr = program(lambda x: x @ x @ x, array(32, 32))
    for limit in range(3):
        found = recognise(jaxpr, Rewrites(limit))
        assert names(found).count("contraction") == limit


def mlp(params, x):
    for w, b in params:
        x = jnp.tanh(jnp.dot(x, w) + b)
    return jnp.mean(x**2)


def attention(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 4.0
    return jnp.sum(jnp.einsum("bhqk,bhkd->bhqd", functrax.nn.softmax(scores), v) ** 2)


def conv(x, w):
    y = lax.conv_general_dilated(x, w, (2, 2), "SAME", rhs_dilation=(1, 2))
    return jnp.sum(jnp.tanh(y))


LAYERS = [(array(48, 48, seed=i), array(48, seed=9 + i)) for i in range(3)]
PROGRAMS = {
    "mlp": (functrax.grad(mlp), (LAYERS, array(32, 48))),
    "mlp twice": (
        lambda p, x: functrax.jvp(functrax.grad(mlp), (p, x), (p, x))[1],
        (LAYERS[:2], array(32, 48)),
    ),
    "attention": (
        functrax.grad(attention, (0, 1, 2)),
        tuple(array(2, 3, 16, 16, seed=i) for i in range(3)),
    ),
    "convolution": (functrax.grad(conv, (0, 1)), (array(2, 3, 16, 16), array(5, 3, 3, 3))),
    "batched": (
        functrax.vmap(functrax.grad(lambda w, x: jnp.sum(jnp.tanh(x @ w) ** 2)), (None, 0)),
        (array(24, 24), array(4, 16, 24)),
    ),
    "half precision": (
        lambda x, w: (x.astype("bfloat16") @ w.astype("bfloat16")).astype("float32"),
        (array(32, 48), array(48, 32)),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_reference_device_contracts_is_recognised(name, monkeypatch):
    """Every sum of products that the device puts off."""
    function, args = PROGRAMS[name]
    jaxpr = program(function, *args)
    contracted = []

    def contract(x, kept):
        contracted.append(x)
        return original(x, kept)

    original = reference.contract
    monkeypatch.setattr(reference, "contract", contract)
    monkeypatch.setattr(recognition.Cone, "outgrows_each", True)
    values = check.draw(jaxpr)
    before = check.run_reference(jaxpr, values)
    wanted = len(contracted)
    rewrites = Rewrites()
    found = recognise(jaxpr, rewrites)
    assert rewrites.count >= wanted > 0
    assert check.nearly_equal(check.run_reference(dce(found, Rewrites()), values), before)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_product_is_stored(name):
    function, args = PROGRAMS[name]
    jaxpr = program(function, *args)
    found = recognised(jaxpr)
    sizes = [v.aval.size for v in (*jaxpr.invars, *jaxpr.outvars)]
    assert largest(jaxpr) > 3 * largest(found)
    assert largest(found) <= 2 * max(sizes)


def test_a_sum_by_index_arrays_is_an_update():
    """No kernel of contractions adds to where index arrays say."""
    at = jnp.array([0, 3, 3, 1] * 8)

    def f(x, w):
        return jnp.zeros((4, 6)).at[at].add(x[:, None] * w)

    jaxpr = program(f, array(32), array(6))
    assert "sum_of_products" not in str(recognised(jaxpr))
