"""The normal form of sums of products: contractions of two sides, whatever was differentiated."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.passes.algebra.simplify import simplify
from functrax.backends.passes.clean.compose import compose
from functrax.backends.passes.clean.cse import cse
from functrax.backends.passes.clean.dce import dce
from functrax.backends.passes.clean.inline import inline
from functrax.backends.passes.contractions import normal_form
from functrax.backends.passes.contractions.recognise import recognise
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.syntax.verify import verify
from functrax.core.tracing.stage import close
from tests.backends.passes import pass_checks as check


def recognised(jaxpr, rewrites):
    found = dce(recognise(jaxpr, rewrites), rewrites)
    verify(found)
    return found


def program(function, *args):
    jaxpr = close(functrax.make_jaxpr(function)(*args).jaxpr)
    for run in (inline, simplify, compose, cse):
        jaxpr = run(jaxpr, Rewrites())
    return jaxpr


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def contractions(jaxpr):
    return [e.params["jaxpr"] for e in jaxpr.eqns if e.primitive.name == "contraction"]


def is_normal(jaxpr):
    """Whether a group is views, conversions, one product, one sum."""
    names = [e.primitive.name for e in jaxpr.eqns if e.primitive.family != "reindex"]
    names = [n for n in names if n != "convert_element_type"]
    return names in (["mul", "reduce_sum"], ["mul", "reindex_reduce"])


# ---- text to text -------------------------------------------------------------------------------


def test_a_sum_of_two_products_is_two_contractions():
    check.expect(
        recognised,
        """{ lambda ; x:f32[32,16] w:f32[16,64] t:f32[32,16] u:f32[16,64]. let
             a:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(0, 2)] x
             b:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(2, 1)] u
             c:f32[32,64,16] = mul a b
             d:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(0, 2)] t
             e:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(2, 1)] w
             f:f32[32,64,16] = mul d e
             g:f32[32,64,16] = sub c f
             h:f32[32,64] = reduce_sum[axes=(2,)] g
           in (h,) }""",
        """{ lambda ; x:f32[32,16] w:f32[16,64] t:f32[32,16] u:f32[16,64]. let
             c:f32[32,64] = contraction[jaxpr={ lambda ; x:f32[32,16] w:f32[16,64]. let
                 a:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(0, 2)] x
                 b:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(2, 1)] w
                 c:f32[32,64,16] = mul a b
                 d:f32[32,64] = reduce_sum[axes=(2,)] c
               in (d,) }, name="sum_of_products"] x u
             f:f32[32,64] = contraction[jaxpr={ lambda ; x:f32[32,16] w:f32[16,64]. let
                 a:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(0, 2)] x
                 b:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(2, 1)] w
                 c:f32[32,64,16] = mul a b
                 d:f32[32,64] = reduce_sum[axes=(2,)] c
               in (d,) }, name="sum_of_products"] t w
             h:f32[32,64] = sub c f
           in (h,) }""",
    )


def test_products_that_share_a_factor_are_one():
    check.expect(
        recognised,
        """{ lambda ; x:f32[32,16] w:f32[16,64] u:f32[16,64]. let
             a:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(0, 2)] x
             b:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(2, 1)] w
             c:f32[32,64,16] = mul a b
             d:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(2, 1)] u
             e:f32[32,64,16] = mul d a
             f:f32[32,64,16] = add c e
             g:f32[32,64] = reduce_sum[axes=(2,)] f
           in (g,) }""",
        """{ lambda ; x:f32[32,16] w:f32[16,64] u:f32[16,64]. let
             v:f32[16,64] = add w u
             g:f32[32,64] = contraction[jaxpr={ lambda ; x:f32[32,16] w:f32[16,64]. let
                 a:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(0, 2)] x
                 b:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(2, 1)] w
                 c:f32[32,64,16] = mul a b
                 d:f32[32,64] = reduce_sum[axes=(2,)] c
               in (d,) }, name="sum_of_products"] x v
           in (g,) }""",
    )


def test_factors_go_to_the_side_or_behind_the_sum():
    """``s`` has the axes of ``x`` and goes there; ``r`` is not summed and goes behind, as -3."""
    check.expect(
        recognised,
        """{ lambda ; x:f32[32,16] w:f32[16,64] s:f32[16] r:f32[32,64]. let
             a:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(0, 2)] x
             b:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(2, 1)] w
             c:f32[32,64,16] = mul a b
             d:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(2,)] s
             e:f32[32,64,16] = mul c d
             f:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(0, 1)] r
             g:f32[32,64,16] = mul e f
             h:f32[32,64,16] = mul g -3.0:f32[]
             i:f32[32,64] = reduce_sum[axes=(2,)] h
           in (i,) }""",
        """{ lambda ; x:f32[32,16] w:f32[16,64] s:f32[16] r:f32[32,64]. let
             d:f32[32,16] = broadcast_in_dim[shape=(32, 16), dims=(1,)] s
             e:f32[32,16] = mul x d
             f:f32[32,64] = contraction[jaxpr={ lambda ; x:f32[32,16] w:f32[16,64]. let
                 a:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(0, 2)] x
                 b:f32[32,64,16] = broadcast_in_dim[shape=(32, 64, 16), dims=(2, 1)] w
                 c:f32[32,64,16] = mul a b
                 d:f32[32,64] = reduce_sum[axes=(2,)] c
               in (d,) }, name="sum_of_products"] e w
             g:f32[32,64] = mul f r
             i:f32[32,64] = mul g -3.0:f32[]
           in (i,) }""",
    )


def test_a_sum_that_scatters_gathers():
    check.expect(
        recognised,
        """{ lambda ; x:f32[8,16,32] w:f32[32,24,3]. let
             a:f32[8,16,32,24,3] = broadcast_in_dim[shape=(8, 16, 32, 24, 3), dims=(0, 1, 2)] x
             b:f32[8,16,32,24,3] = broadcast_in_dim[shape=(8, 16, 32, 24, 3), dims=(2, 3, 4)] w
             c:f32[8,16,32,24,3] = mul a b
             d:f32[8,18,24] = reindex_reduce[map={[8,16,32,24,3] -> [8,18,24]: (d0, d1 + d4, d3)},
             op="add"] c
           in (d,) }""",
        """{ lambda ; x:f32[8,16,32] w:f32[32,24,3]. let
             d:f32[8,18,24] = contraction[jaxpr={ lambda ; x:f32[8,16,32] w:f32[32,24,3]. let
                 a:f32[8,18,24,3,32] = reindex[map={[8,18,24,3,32] -> [8,16,32]: (d0, d1 - d3, d4)},
                 fill=0.0:f32[]] x b:f32[8,18,24,3,32] = broadcast_in_dim[shape=(8, 18, 24, 3, 32),
                 dims=(4, 2, 3)] w c:f32[8,18,24,3,32] = mul a b
                 d:f32[8,18,24] = reduce_sum[axes=(3, 4)] c
               in (d,) }, name="sum_of_products"] x w
           in (d,) }""",
    )


# ---- what is left over --------------------------------------------------------------------------


def conv(strides=(1, 1), padding="SAME", base=None, window=None, layout=None, groups=1, batches=1):
    def run(x, w):
        return lax.conv_general_dilated(
            x, w, strides, padding, base, window, layout, groups, batches
        )

    return run


X, W = array(2, 4, 8, 9), array(6, 4, 3, 3, seed=1)
#: Functions of two arrays, whose sums are large enough to be recognised.
FUNCTIONS = {
    "matmul": (jnp.matmul, array(24, 16), array(16, 20)),
    "batched": (jnp.matmul, array(3, 24, 16), array(3, 16, 20)),
    "attention": (lambda x, w: jnp.einsum("bhqd,bhkd->bhqk", x, w), array(2, 2, 16, 8),
                  array(2, 2, 16, 8, seed=1)),
    "diagonal": (lambda x, w: jnp.einsum("iij,jk->ik", x, w), array(24, 24, 16), array(16, 20)),
    "summed out": (lambda x, w: jnp.einsum("ijl,jk->ik", x, w), array(24, 16, 3), array(16, 20)),
    "three factors": (lambda x, w: jnp.einsum("ij,jk,ki->ik", x, w, jnp.cos(x @ w).T,
                                              optimize=False), array(24, 16), array(16, 20)),
    "convolution": (conv(), X, W),
    "stride": (conv((2, 2)), X, W),
    "stride above the window": (conv((3, 4), ((1, 0), (2, 1))), X, W),
    "dilated window": (conv((1, 2), "SAME", None, (2, 3)), X, W),
    "dilated array": (conv((1, 1), ((1, 2), (1, 2)), (2, 3)), X, W),
    "all dilated": (conv((2, 1), ((1, 2), (1, 2)), (3, 2), (1, 2)), X, W),
    "negative padding": (conv((1, 1), ((-1, 0), (2, -1))), X, W),
    "groups": (conv(groups=2), X, array(6, 2, 3, 3)),
    "batch groups": (conv(batches=2), array(4, 4, 8, 9), W),
    "NHWC": (conv(layout=("NHWC", "HWIO", "NHWC")), array(2, 8, 9, 4), array(3, 3, 4, 6)),
    "points": (conv((2, 2)), X, array(24, 4, 1, 1)),
    "one axis": (conv((2,)), array(4, 8, 32), array(12, 8, 5)),
    "three axes": (conv((2, 1, 2)), array(2, 3, 6, 5, 6), array(4, 3, 3, 2, 3)),
    "transposed": (lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), array(2, 6, 6, 8),
                   array(4, 4, 8, 6)),
}  # fmt: skip


def first(function):
    return functrax.grad(lambda x, w: jnp.sum(jnp.tanh(function(x, w))), (0, 1))


def second(function):
    def loss(x, w):
        return sum(jnp.sum(jnp.sin(g)) for g in first(function)(x, w))

    return functrax.grad(loss, (0, 1))


def forward(function):
    return lambda x, w: functrax.jvp(function, (x, w), (jnp.sin(x), jnp.cos(w)))


def forward_over_reverse(function):
    return lambda x, w: functrax.jvp(first(function), (x, w), (jnp.sin(x), jnp.cos(w)))


DERIVATIVES = {
    "itself": lambda function: function,
    "forward": forward,
    "gradient": first,
    "forward over reverse": forward_over_reverse,
    "reverse over reverse": second,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing_is_left_over(name):
    """Every sum of products of a function and its derivatives is made of contractions.

    No other equation runs over a space that is much larger than all arrays together.
    """
    function, *args = FUNCTIONS[name]
    for derivative in DERIVATIVES.values():
        before = program(derivative(function), *args)
        found = recognised(before, Rewrites())
        assert all(map(is_normal, contractions(found)))
        arrays = sum(v.aval.size for v in (*before.invars, *before.outvars))
        large = [v for e in found.eqns for v in e.outvars if v.aval.size > 8 * arrays]
        assert not large, [v.aval.str_short() for v in large]
        values = check.draw(before)
        wanted = check.run_reference(before, values)
        assert check.nearly_equal(check.run_reference(found, values), wanted)


def test_counts():
    """Derivatives of a matrix product: three for the gradient, nine for second derivatives."""
    function, *args = FUNCTIONS["matmul"]
    counts = {
        name: len(contractions(recognised(program(d(function), *args), Rewrites())))
        for name, d in DERIVATIVES.items()
    }
    assert counts == {
        "itself": 1,
        "forward": 3,
        "gradient": 3,
        "forward over reverse": 9,
        "reverse over reverse": 9,
    }


def test_half_precision_is_added_up_in_single_precision():
    def product(x, w):
        wide = x[:, None, :] * w.T[None]  # in half precision
        return jnp.sum(wide, -1)

    x, w = array(64, 48), array(48, 40, seed=1)
    before = program(product, *(jnp.asarray(v, "bfloat16") for v in (x, w)))
    (group,) = contractions(recognised(before, Rewrites()))
    total = group.eqns[-1]
    assert total.primitive.name == "reduce_sum"
    assert total.outvars[0].aval.dtype == np.float32


def test_long_chains_on_repeated_values_are_read_once():
    def function(x, y):
        wide = jnp.broadcast_to(x[:, None, :], (40, 40, 40))
        for _ in range(400):
            wide = jnp.sin(wide * wide)
        return jnp.sum(wide * y[None], -1)

    before = program(function, array(40, 40), array(40, 40, seed=1))
    found = recognised(before, Rewrites())
    names = [e.primitive.name for e in found.eqns]
    assert names.count("sin") == 400 and len(contractions(found)) == 1


def test_strided_sums_stay_where_no_kernel_takes_them(monkeypatch):
    monkeypatch.setattr(normal_form, "contraction_kernels_take", lambda jaxpr: False)
    function, *args = FUNCTIONS["stride"]
    before = program(first(function), *args)
    found = recognised(before, Rewrites())
    names = [e.primitive.name for group in contractions(found) for e in group.eqns]
    assert names.count("reindex_reduce") == 1
    assert all(map(is_normal, contractions(found)))
