"""Composition of reindexes: a chain in, the one that it is beneath."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
from functrax.backends.passes.clean.compose import compose
from functrax.backends.passes.clean.dce import dce
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.syntax.parsing import parse_jaxpr
from tests.backends.passes import pass_checks as check


def clean(jaxpr, rewrites):
    return dce(compose(jaxpr, rewrites), Rewrites())


#: name -> (input, equations, the one equation), results in z; no equation: the input itself.
CHAINS = {
    "transposes that undo each other": (
        "f32[2,3]",
        "a:f32[3,2] = transpose[perm=(1, 0)] x z:f32[2,3] = transpose[perm=(1, 0)] a",
        "",
    ),
    "transposes": (
        "f32[2,3,4]",
        "a:f32[3,2,4] = transpose[perm=(1, 0, 2)] x z:f32[4,3,2] = transpose[perm=(2, 0, 1)] a",
        "z:f32[4,3,2] = transpose[perm=(2, 1, 0)] x",
    ),
    "reshapes": (
        "f32[2,6]",
        "a:f32[3,4] = reshape[shape=(3, 4)] x z:f32[12] = reshape[shape=(12,)] a",
        "z:f32[12] = reshape[shape=(12,)] x",
    ),
    "reshapes that undo each other": (
        "f32[2,6]",
        "a:f32[3,4] = reshape[shape=(3, 4)] x z:f32[2,6] = reshape[shape=(2, 6)] a",
        "",
    ),
    "a reshape before a broadcast": (
        "f32[3]",
        """a:f32[1,3] = reshape[shape=(1, 3)] x
           z:f32[5,3] = broadcast_in_dim[shape=(5, 3), dims=(0, 1)] a""",
        "z:f32[5,3] = broadcast_in_dim[shape=(5, 3), dims=(1,)] x",
    ),
    "broadcasts": (
        "f32[3]",
        """a:f32[3,2] = broadcast_in_dim[shape=(3, 2), dims=(0,)] x
           z:f32[2,4,3] = broadcast_in_dim[shape=(2, 4, 3), dims=(2, 0)] a""",
        "z:f32[2,4,3] = broadcast_in_dim[shape=(2, 4, 3), dims=(2,)] x",
    ),
    "a transpose before a broadcast": (
        "f32[2,3]",
        """a:f32[3,2] = transpose[perm=(1, 0)] x
           z:f32[3,5,2] = broadcast_in_dim[shape=(3, 5, 2), dims=(0, 2)] a""",
        "z:f32[3,5,2] = broadcast_in_dim[shape=(3, 5, 2), dims=(2, 0)] x",
    ),
    "a transpose after a broadcast": (
        "f32[2,3]",
        """a:f32[2,5,3] = broadcast_in_dim[shape=(2, 5, 3), dims=(0, 2)] x
           z:f32[3,2,5] = transpose[perm=(2, 0, 1)] a""",
        "z:f32[3,2,5] = broadcast_in_dim[shape=(3, 2, 5), dims=(1, 0)] x",
    ),
    "slices": (
        "f32[20]",
        """a:f32[8] = slice[start=(2,), limit=(18,), strides=(2,)] x
           z:f32[3] = slice[start=(1,), limit=(8,), strides=(3,)] a""",
        "z:f32[3] = slice[start=(4,), limit=(17,), strides=(6,)] x",
    ),
    "a slice of one element of a broadcast": (
        "f32[3]",
        """a:f32[4,3] = broadcast_in_dim[shape=(4, 3), dims=(1,)] x
           b:f32[1,3] = slice[start=(2, 0), limit=(3, 3), strides=(1, 1)] a
           z:f32[3] = reshape[shape=(3,)] b""",
        "",
    ),
    "reversals": ("f32[3]", "a:f32[3] = rev[axes=(0,)] x z:f32[3] = rev[axes=(0,)] a", ""),
    "paddings": (
        "f32[3]",
        """a:f32[5] = pad[low=(1,), high=(1,), interior=(0,), fill=0.0:f32[]] x
           z:f32[8] = pad[low=(0,), high=(3,), interior=(0,), fill=0.0:f32[]] a""",
        "z:f32[8] = pad[low=(1,), high=(4,), interior=(0,), fill=0.0:f32[]] x",
    ),
    "a slice that takes a padding off again": (
        "f32[3]",
        """a:f32[5] = pad[low=(1,), high=(1,), interior=(0,), fill=0.0:f32[]] x
           z:f32[3] = slice[start=(1,), limit=(4,), strides=(1,)] a""",
        "",
    ),
    "a general reindex that is a transpose": (
        "f32[2,3]",
        "z:f32[3,2] = reindex[map={[3,2] -> [2,3]: (d1, d0)}, fill=0.0:f32[]] x",
        "z:f32[3,2] = transpose[perm=(1, 0)] x",
    ),
    "windows of a padded array": (
        "f32[6]",
        """a:f32[8] = pad[low=(1,), high=(1,), interior=(0,), fill=0.0:f32[]] x
           z:f32[6,3] = reindex[map={[6,3] -> [8]: (d0 + d1)}, fill=0.0:f32[]] a""",
        "z:f32[6,3] = reindex[map={[6,3] -> [6]: (d0 + d1 - 1)}, fill=0.0:f32[]] x",
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chain(name):
    given, before, after = CHAINS[name]
    text = f"{{ lambda ; x:{given}. let {before} in (z,) }}"
    result = "z" if after else "x"
    check.expect(clean, text, f"{{ lambda ; x:{given}. let {after} in ({result},) }}")
    check.check_values(clean, text)


def test_a_gather_of_transposed_rows():
    text = """{ lambda ; x:f32[3,5] i:i32[4]. let
        a:f32[5,3] = transpose[perm=(1, 0)] x
        b:f32[4,3] = reindex[map={[4,3] -> [5,3]: (e0(d0), d1)}, fill=7.0:f32[]] a i
        z:f32[3,4] = transpose[perm=(1, 0)] b
      in (z,) }"""
    check.expect(
        clean,
        text,
        """{ lambda ; x:f32[3,5] i:i32[4]. let
             z:f32[3,4] = reindex[map={[3,4] -> [3,5]: (d0, e0(d1))}, fill=7.0:f32[]] x i
           in (z,) }""",
    )
    jaxpr = parse_jaxpr(text)
    values = [np.arange(15, dtype=np.float32).reshape(3, 5), np.array([0, -1, 9, 4], np.int32)]
    found = check.run_reference(compose(jaxpr, Rewrites()), values)
    assert check.same_bits(found, check.run_reference(jaxpr, values))


def test_paddings_with_different_numbers_stay_two():
    text = """{ lambda ; x:f32[3]. let
        a:f32[4] = pad[low=(1,), high=(0,), interior=(0,), fill=1.0:f32[]] x
        b:f32[5] = pad[low=(1,), high=(0,), interior=(0,), fill=0.0:f32[]] a
      in (b,) }"""
    check.unchanged(compose, text)


def test_reshapes_that_would_need_divisions_stay_two():
    text = """{ lambda ; x:f32[4,6]. let
        a:f32[6,4] = transpose[perm=(1, 0)] x
        b:f32[8,3] = reshape[shape=(8, 3)] a
      in (b,) }"""
    check.unchanged(compose, text)


def test_a_slice_of_one_part_of_a_concatenation():
    check.expect(
        clean,
        """{ lambda ; x:f32[2] y:f32[3]. let
             a:f32[5] = concatenate[axis=0] x y
             b:f32[3] = slice[start=(2,), limit=(5,), strides=(1,)] a
             c:f32[1] = slice[start=(1,), limit=(2,), strides=(1,)] a
             d:f32[2] = slice[start=(1,), limit=(3,), strides=(1,)] a
           in (b, c, d) }""",
        """{ lambda ; x:f32[2] y:f32[3]. let
             a:f32[5] = concatenate[axis=0] x y
             c:f32[1] = slice[start=(1,), limit=(2,), strides=(1,)] x
             d:f32[2] = slice[start=(1,), limit=(3,), strides=(1,)] a
           in (y, c, d) }""",
    )


def test_a_value_with_other_users_is_kept_for_them():
    check.expect(
        clean,
        """{ lambda ; x:f32[2,3]. let
             a:f32[3,2] = transpose[perm=(1, 0)] x
             b:f32[3,2] = exp a
             c:f32[2,3] = transpose[perm=(1, 0)] a
           in (b, c) }""",
        """{ lambda ; x:f32[2,3]. let
             a:f32[3,2] = transpose[perm=(1, 0)] x
             b:f32[3,2] = exp a
           in (b, x) }""",
    )


def test_empty_arrays():
    text = """{ lambda ; x:f32[0,3]. let
        a:f32[3,0] = reshape[shape=(3, 0)] x
        b:f32[0,7] = reshape[shape=(0, 7)] a
      in (b,) }"""
    check.check_values(compose, text)


def test_what_is_looked_up_and_repeated_stays_a_value():
    """A product with it is a sum of products then; an element is looked up once."""
    looked_up = "a:f32[4,3] = reindex[map={[4,3] -> [7,3]: (e0(d0), d1)}, fill=0.0:f32[]] x n"
    text = f"""{{ lambda ; x:f32[7,3] n:i32[4]. let
        {looked_up}
        b:f32[4,5,3] = broadcast_in_dim[shape=(4, 5, 3), dims=(0, 2)] a
      in (b,) }}"""
    check.expect(clean, text, text)
    renamed = f"""{{ lambda ; x:f32[7,3] n:i32[4]. let
        {looked_up}
        b:f32[4,1,3] = broadcast_in_dim[shape=(4, 1, 3), dims=(0, 2)] a
      in (b,) }}"""
    (eqn,) = clean(parse_jaxpr(renamed), Rewrites()).eqns
    assert eqn.primitive.name == "reindex"


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_rows_that_are_looked_up_are_a_side_of_a_product(dtype):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(dtype) for s in ((300, 64), (64, 64)))
    n = rng.integers(-300, 300, 2000)
    found = functrax.explain(lambda x, w: x[n] @ w)(x, w)
    assert [k.name for k in found.kernels if "mul" in k.name] == []
    np.testing.assert_allclose(functrax.jit(lambda x, w: x[n] @ w)(x, w), x[n] @ w, atol=2e-4)
