"""Inlining, common subexpressions, dead code: a small program in, the expected one beneath."""

from __future__ import annotations

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax.backends.passes.clean.cse import cse
from functrax.backends.passes.clean.dce import dce
from functrax.backends.passes.clean.inline import inline
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import all_eqns
from functrax.core.syntax.verify import verify
from functrax.core.tracing.stage import close
from tests.backends.passes import pass_checks as check


def program(function, *args):
    """What the compiler is given for a function."""
    return close(functrax.make_jaxpr(function)(*args).jaxpr)


def names(jaxpr):
    return [eqn.primitive.name for eqn in all_eqns(jaxpr)]


# ---- inline ------------------------------------------------------------------------------------


def test_a_call_becomes_its_equations():
    check.expect(
        inline,
        """{ lambda ; x:f32[3]. let
             y:f32[3] = jit[jaxpr={ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }] x
             z:f32[3] = add x y
           in (z,) }""",
        """{ lambda ; x:f32[3]. let y:f32[3] = sin x z:f32[3] = add x y in (z,) }""",
    )


def test_a_call_that_returns_an_argument_or_a_constant():
    check.expect(
        inline,
        """{ lambda ; x:f32[]. let
             y:f32[] z:f32[] = jit[jaxpr={ lambda ; a:f32[]. let in (a, 2.0:f32[]) }] x
           in (z, y) }""",
        """{ lambda ; x:f32[]. let in (2.0:f32[], x) }""",
    )


def test_calls_in_calls_and_in_the_bodies_of_loops():
    inner = functrax.jit(jnp.sin)
    outer = functrax.jit(lambda x: inner(x) + inner(2 * x))

    def loop(x):
        return functrax.lax.scan(lambda c, _: (outer(c), c), x, None, length=3)

    found = inline(program(loop, np.ones(3, np.float32)), Rewrites())
    verify(found)
    assert "jit" not in names(found)
    assert names(found).count("sin") == 2
    assert names(found)[0] == "scan"


def test_one_program_called_twice_gets_variables_of_its_own_each_time():
    check.expect(
        inline,
        """{ lambda ; x:f32[3]. let
             y:f32[3] = jit[jaxpr={ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }] x
             z:f32[3] = jit[jaxpr={ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }] y
           in (z,) }""",
        """{ lambda ; x:f32[3]. let y:f32[3] = sin x z:f32[3] = sin y in (z,) }""",
    )


def test_custom_derivative_calls_are_inlined():
    @functrax.custom_jvp
    def f(x):
        return jnp.sin(x)

    f.defjvp(lambda p, t: (f(*p), t[0]))
    g = functrax.custom_vjp(lambda x: jnp.cos(x))
    g.defvjp(lambda x: (g(x), None), lambda _, ct: (ct,))
    before = program(lambda x: f(x) + g(x), np.ones(3, np.float32))
    assert {"custom_jvp_call", "custom_vjp_call"} <= set(names(before))
    assert names(inline(before, Rewrites())) == ["sin", "cos", "add"]


def test_weak_types_are_left_out():
    check.expect(
        inline,
        """{ lambda ; x:~f32[]. let
             y:~f32[] = mul x 2.0:~f32[]
             z:~f32[] = convert_element_type[dtype=f32, weak_type=True] y
           in (z,) }""",
        """{ lambda ; x:f32[]. let
             y:f32[] = mul x 2.0:f32[]
             z:f32[] = convert_element_type[dtype=f32, weak_type=False] y
           in (z,) }""",
    )


def test_weak_types_are_left_out_of_loops():
    before = program(lambda x: functrax.lax.fori_loop(0, 3, lambda i, c: c * 2.0, x), 1.0)
    found = inline(before, Rewrites())
    verify(found)
    assert "~" not in found.as_text(source=False)


def test_a_program_without_calls_stays_the_same_object():
    check.unchanged(inline, "{ lambda ; x:f32[3]. let y:f32[3] = sin x in (y,) }")


def test_what_a_checkpoint_computes_again_is_not_shared():
    f = functrax.checkpoint(lambda x: jnp.sin(jnp.sin(jnp.sin(x))))
    found = dce(
        cse(inline(program(functrax.value_and_grad(f), 1.0), Rewrites()), Rewrites()), Rewrites()
    )
    verify(found)
    assert names(found).count("optimization_barrier") == 1
    assert names(found).count("sin") == 5  # three forwards, two of them again
    plain = program(functrax.value_and_grad(lambda x: jnp.sin(jnp.sin(jnp.sin(x)))), 1.0)
    assert names(cse(inline(plain, Rewrites()), Rewrites())).count("sin") == 3


def test_one_checkpoint_alone_needs_no_barrier():
    f = functrax.checkpoint(lambda x: jnp.sin(x))
    assert names(inline(program(f, 1.0), Rewrites())) == ["sin"]


# ---- cse ---------------------------------------------------------------------------------------


def test_equal_equations_are_computed_once():
    check.expect(
        cse,
        """{ lambda ; x:f32[3]. let
             a:f32[3] = sin x b:f32[3] = sin x c:f32[3] = add a b
           in (c, b) }""",
        "{ lambda ; x:f32[3]. let a:f32[3] = sin x c:f32[3] = add a a in (c, a) }",
    )


def test_operands_that_may_change_places():
    check.expect(
        cse,
        """{ lambda ; x:f32[3] y:f32[3]. let
             a:f32[3] = mul x y b:f32[3] = mul y x c:f32[3] = sub x y d:f32[3] = sub y x
           in (a, b, c, d) }""",
        """{ lambda ; x:f32[3] y:f32[3]. let
             a:f32[3] = mul x y c:f32[3] = sub x y d:f32[3] = sub y x
           in (a, a, c, d) }""",
    )


def test_complex_products_are_not_turned_around():
    check.unchanged(
        cse,
        """{ lambda ; x:c64[3] y:c64[3]. let
             a:c64[3] = mul x y b:c64[3] = mul y x
           in (a, b) }""",
    )


def test_equal_constants_become_one():
    check.expect(
        cse,
        """{ lambda ; . let
             a:f32[3] = broadcast_in_dim[shape=(3,), dims=()] 1.0:f32[]
             b:f32[3] = broadcast_in_dim[shape=(3,), dims=()] 1.0:f32[]
             c:f32[3] = broadcast_in_dim[shape=(3,), dims=()] -1.0:f32[]
           in (a, b, c) }""",
        """{ lambda ; . let
             a:f32[3] = broadcast_in_dim[shape=(3,), dims=()] 1.0:f32[]
             c:f32[3] = broadcast_in_dim[shape=(3,), dims=()] -1.0:f32[]
           in (a, a, c) }""",
    )


def test_equal_equations_in_a_loop_and_equal_loops():
    def twice(x):
        def body(c, _):
            return functrax.jit(jnp.sin)(c) + jnp.sin(c), None

        one = functrax.lax.scan(body, x, None, length=3)[0]
        return one + functrax.jit(lambda y: functrax.lax.scan(body, y, None, length=3)[0])(x)

    found = cse(inline(program(twice, np.ones(3, np.float32)), Rewrites()), Rewrites())
    verify(found)
    assert names(found).count("scan") == 1
    assert names(found).count("sin") == 1


def test_barriers_are_not_shared():
    check.unchanged(
        cse,
        """{ lambda ; x:f32[3]. let
             a:f32[3] = optimization_barrier x b:f32[3] = optimization_barrier x
           in (a, b) }""",
    )


# ---- dce ---------------------------------------------------------------------------------------


def test_what_nothing_needs_goes():
    check.expect(
        dce,
        """{ lambda ; x:f32[3]. let
             a:f32[3] = sin x b:f32[3] = cos a c:f32[3] = exp x
           in (c,) }""",
        "{ lambda ; x:f32[3]. let c:f32[3] = exp x in (c,) }",
    )


def test_a_primitive_that_can_do_less_does():
    text = """{ lambda ; x:f32[3,2]. let
                 q:f32[3,2] r:f32[2,2] = qr[full_matrices=False, compute_q=True] x
               in (RESULTS,) }"""
    less = "r:f32[2,2] = qr[full_matrices=False, compute_q=False] x"
    check.expect(
        dce, text.replace("RESULTS", "r"), f"{{ lambda ; x:f32[3,2]. let {less} in (r,) }}"
    )
    for results in ("q", "q, r"):
        assert "compute_q=True" in check.after(dce, text.replace("RESULTS", results))


def test_side_effects_stay():
    def f(x):
        functrax.debug.print("{}", jnp.sin(x))
        jnp.cos(x)
        return x

    found = dce(program(f, 1.0), Rewrites())
    assert "sin" in names(found)
    assert "cos" not in names(found)


def test_dead_code_in_a_loop():
    text = """{ lambda ; x:f32[3]. let
                 y:f32[3] = scan[
                   jaxpr={ lambda ; c:f32[3]. let d:f32[3] = sin c e:f32[3] = cos c in (d,) },
                   length=2, num_consts=0, num_carry=1, reverse=False
                 ] x
               in (y,) }"""
    assert "cos" not in check.after(dce, text)


def test_the_limit_stops_rewrites():
    text = """{ lambda ; x:f32[3]. let
                 a:f32[3] = sin x b:f32[3] = sin x c:f32[3] = sin x
               in (a, b, c) }"""
    for limit, left in ((0, 3), (1, 2), (2, 1), (5, 1)):
        assert check.after(cse, text, limit).count("sin") == left
