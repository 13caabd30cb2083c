"""Programs as JAX shows them: read, interpreted, taken apart and put together."""

from __future__ import annotations

from functools import wraps
from typing import Any

import numpy as np
import pytest


def test_a_custom_interpreter() -> None:
    """The interpreter of JAX's page on custom interpreters, which inverts functions."""
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.extend import core

    inverses = {lax.exp_p: jnp.log, lax.tanh_p: jnp.arctanh}

    def inverse(fun: Any) -> Any:
        @wraps(fun)
        def wrapped(*args: Any) -> Any:
            closed = jax.make_jaxpr(fun)(*args)
            return inverse_jaxpr(closed.jaxpr, closed.literals, *args)[0]

        return wrapped

    def inverse_jaxpr(jaxpr: Any, consts: Any, *args: Any) -> Any:
        env: dict[Any, Any] = {}

        def read(var: Any) -> Any:
            return var.val if type(var) is core.Literal else env[var]

        env.update(zip(jaxpr.outvars, args))
        env.update(zip(jaxpr.constvars, consts))
        for eqn in reversed(jaxpr.eqns):
            invals = [read(v) for v in eqn.outvars]
            assert eqn.primitive in inverses
            env[eqn.invars[0]] = inverses[eqn.primitive](*invals)
        return [read(v) for v in jaxpr.invars]

    f = lambda x: jnp.exp(jnp.tanh(x))
    back = inverse(f)
    np.testing.assert_allclose(back(f(0.5)), 0.5, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(back)(f(0.5)), 0.5, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(back)(f(jnp.arange(3.0))), jnp.arange(3.0), atol=1e-6)
    np.testing.assert_allclose(jax.grad(back)(f(0.5)), 1 / jax.grad(f)(0.5), rtol=1e-5)


def _interpret(jaxpr: Any, consts: Any, *args: Any) -> Any:
    from jax.extend import core

    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    for eqn in jaxpr.eqns:
        given = [v.val if isinstance(v, core.Literal) else env[v] for v in eqn.invars]
        params = eqn.primitive.get_bind_params(eqn.params)
        out = eqn.primitive.bind(*given, **params)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))
    return [v.val if isinstance(v, core.Literal) else env[v] for v in jaxpr.outvars]


def _programs() -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    @jax.custom_jvp
    def doubled(x: Any) -> Any:
        return 2 * x

    doubled.defjvp(lambda p, t: (doubled(*p), 2 * t[0]))
    weights = np.arange(9.0, dtype="f4").reshape(3, 3)
    return {
        "arithmetic": lambda x: 3 * x + jnp.exp(-x) / 2,
        "matrices": lambda x: jnp.dot(weights, x) + x[::-1],
        "reductions": lambda x: (x - x.max()) / x.sum(),
        "jit": jax.jit(lambda x: jnp.sin(x) + 1),
        "cond": lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
        "while": lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, x),
        "scan": lambda x: lax.scan(lambda c, y: (c + y, c * y), x[0], x),
        "custom": lambda x: doubled(x) * x,
        "sort": lambda x: jnp.sort(-x),
        "gradient": jax.grad(lambda x: (jax.jit(jnp.tanh)(x) ** 2).sum()),
        "constant": lambda x: (x, jnp.float32(3)),
    }


NAMES = ("arithmetic", "matrices", "reductions", "jit", "cond", "while", "scan", "custom",
         "sort", "gradient", "constant")  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_interpreting_a_program_gives_its_values(name: str) -> None:
    import jax

    function = _programs()[name]
    x = np.array([0.5, -1.0, 2.0], "f4")
    want = jax.tree.leaves(function(x))
    program = jax.make_jaxpr(function)(x)
    run = lambda x: _interpret(program.jaxpr, program.consts, x)
    for got in (
        run(x),
        jax.jit(run)(x),
        jax.core.eval_jaxpr(program.jaxpr, program.consts, x),
        jax.jit(jax.extend.core.jaxpr_as_fun(program))(x),
    ):
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_inner_programs_are_closed_and_have_jaxs_names() -> None:
    import jax
    from jax.extend.core import ClosedJaxpr, Jaxpr, jaxprs_in_params, primitives, subjaxprs

    found = {n: jax.make_jaxpr(f)(np.ones(3, "f4")) for n, f in _programs().items()}
    jit = found["jit"].eqns[0]
    assert jit.primitive is primitives.jit_p
    assert isinstance(jit.params["jaxpr"], ClosedJaxpr)
    assert jit.params["jaxpr"].consts == []
    assert [type(j) for j in jaxprs_in_params(jit.params)] == [Jaxpr]
    loop = found["while"].eqns[-1]
    assert loop.primitive is jax.lax.while_p
    assert {"cond_jaxpr", "body_jaxpr", "cond_nconsts", "body_nconsts"} <= set(loop.params)
    cond = next(e for e in found["cond"].eqns if e.primitive is jax.lax.cond_p)
    assert all(isinstance(b, ClosedJaxpr) for b in cond.params["branches"])
    assert len(list(subjaxprs(found["cond"].jaxpr))) == 2
    custom = next(e for e in found["custom"].eqns if e.primitive.name == "custom_jvp_call")
    assert isinstance(custom.params["call_jaxpr"], ClosedJaxpr)


def test_a_program_is_put_together_from_its_parts() -> None:
    import jax
    import jax.numpy as jnp
    from jax.extend.core import ClosedJaxpr, Jaxpr, check_jaxpr, new_jaxpr_eqn

    program = jax.make_jaxpr(lambda x: jnp.sin(x) + 1)(0.5)
    cos = jax.make_jaxpr(jnp.cos)(0.5).eqns[0].primitive
    sin, *rest = program.eqns
    changed = program.replace(jaxpr=program.jaxpr.replace(eqns=[sin.replace(primitive=cos), *rest]))
    check_jaxpr(changed)
    run = jax.extend.core.jaxpr_as_fun(changed)
    np.testing.assert_allclose(run(0.5)[0], np.cos(0.5) + 1, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(run)(0.5)[0], np.cos(0.5) + 1, rtol=1e-6)
    assert "cos" in str(changed)
    again = Jaxpr(
        [], program.jaxpr.invars, program.jaxpr.outvars,
        [new_jaxpr_eqn(e.invars, e.outvars, e.primitive, e.params) for e in program.eqns],
    )  # fmt: skip
    assert jax.core.eval_jaxpr(again, (), 0.5) == jax.core.eval_jaxpr(program.jaxpr, (), 0.5)
    with pytest.raises(ValueError, match="one value for each constant"):
        ClosedJaxpr(again, [1.0])


def test_a_changed_program_is_an_equations_parameter() -> None:
    import jax
    import jax.numpy as jnp

    program = jax.make_jaxpr(jax.jit(lambda x: jnp.sin(x) * 2))(0.5)
    (call,) = program.eqns
    inner = call.params["jaxpr"]
    cos = jax.lax.cos_p
    changed = inner.map_jaxpr(
        lambda j: j.replace(
            eqns=[e.replace(primitive=cos) if e.primitive.name == "sin" else e for e in j.eqns]
        )
    )
    eqn = call.replace(params={**call.params, "jaxpr": changed})
    outer = program.jaxpr.replace(eqns=[eqn])
    np.testing.assert_allclose(jax.core.eval_jaxpr(outer, (), 0.5)[0], 2 * np.cos(0.5), rtol=1e-6)


def test_types_and_constants() -> None:
    import jax
    from jax.core import ShapedArray

    table = np.arange(3.0, dtype="f4")
    program = jax.make_jaxpr(lambda x: x + table)(np.ones(3, "f4"))
    assert program.in_avals == [ShapedArray((3,), "float32")] == program.out_avals
    assert [np.asarray(c).tolist() for c in program.consts] == [[0, 1, 2]]
    assert program.jaxpr.constvars[0].aval.shape == (3,)
    assert not program.effects
    shown, types = jax.make_jaxpr(lambda x: {"y": x}, return_shape=True)(1.0)
    assert types["y"].shape == ()
    assert "lambda" in str(shown)
    noisy = jax.make_jaxpr(lambda x: jax.debug.print("{}", x))(1.0)
    assert noisy.effects
    assert noisy.eqns[0].effects


def test_which_interpreter_is_current() -> None:
    import jax
    from jax.extend import core

    before = core.get_opaque_trace_state()
    assert before == core.get_opaque_trace_state()
    seen = []

    def f(x: Any) -> Any:
        seen.append(
            (
                core.get_opaque_trace_state() == before,
                core.unsafe_am_i_under_a_jit_DO_NOT_USE(),
                core.unsafe_am_i_under_a_vmap_DO_NOT_USE(),
                core.unsafe_get_axis_names_DO_NOT_USE(),
            )
        )
        return x

    jax.jit(f)(1.0)
    jax.vmap(f, axis_name="i")(np.ones(2))
    assert seen == [(False, True, False, []), (False, False, True, ["i"])]


def test_types_of_elements_and_batches() -> None:
    from jax.extend import core

    aval = core.ClosedJaxpr and core.mapped_aval(3, 0, _aval((3, 4)))
    assert aval == _aval((4,))
    assert core.unmapped_aval(3, 1, aval) == _aval((4, 3))
    assert core.mapped_aval(3, None, aval) == aval
    assert core.valid_jaxtype(1.0)
    assert not core.valid_jaxtype("text")


def _aval(shape: tuple[int, ...]) -> Any:
    from jax.core import ShapedArray

    return ShapedArray(shape, "float32")


def test_calls_with_rules_are_bound_with_the_program_that_they_are_given() -> None:
    import jax
    from jax.extend import core

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return 2 * x

    f.defvjp(lambda x: (2 * x, None), lambda _, ct: (5 * ct,))

    @jax.custom_jvp
    def g(x: Any) -> Any:
        return 2 * x

    g.defjvps(lambda t, out, x: 5 * t)
    other = jax.make_jaxpr(lambda x: [3 * x])(1.0)
    for function in (f, g):
        (eqn,) = jax.make_jaxpr(function)(1.0).eqns
        changed = {**eqn.params, "call_jaxpr": other}
        for params in (changed, eqn.primitive.get_bind_params(changed)):

            def again(x: Any, eqn: Any = eqn, params: Any = params) -> Any:
                return eqn.primitive.bind(x, **params)[0]

            assert float(again(1.0)) == float(jax.jit(again)(1.0)) == 3.0
            assert float(jax.grad(again)(1.0)) == 5.0
            (made,) = jax.make_jaxpr(again)(1.0).eqns
            assert "3.0" in str(made.params["call_jaxpr"])
        (function_of_params,) = eqn.primitive.get_bind_params(changed)["subfuns"]
        assert float(function_of_params.call_wrapped(2.0)[0]) == 6.0
        assert isinstance(eqn.params["call_jaxpr"], core.ClosedJaxpr)


def test_parameters_have_jaxs_names() -> None:
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.extend.core import primitives

    from functrax.core.errors.typed import ArgumentError

    def f(x: Any) -> Any:
        y = jnp.broadcast_to(x.reshape(2, 3)[:, 1:], (4, 2, 2)).astype(jnp.int32)
        return lax.scan(lambda c, _: (c + 1, None), y.sum(), None, length=3)[0]

    closed = jax.make_jaxpr(f)(jnp.arange(6.0))
    found = {e.primitive.name: e.params for e in closed.jaxpr.eqns}
    assert found["reshape"] == {"new_sizes": (2, 3), "dimensions": None, "sharding": None}
    assert found["slice"]["start_indices"] == (0, 1)
    assert found["broadcast_in_dim"]["broadcast_dimensions"] == (1, 2)
    assert found["convert_element_type"]["new_dtype"] == jnp.int32
    assert found["scan"]["unroll"] == 1
    assert closed.invars == closed.jaxpr.invars and closed.constvars == []
    (out,) = _interpret(closed.jaxpr, closed.consts, jnp.arange(6.0))
    assert out == f(jnp.arange(6.0))
    x = jnp.arange(4.0)
    y = primitives.reshape_p.bind(x, new_sizes=(2, 2), dimensions=None, sharding=None)
    assert y.shape == (2, 2)
    with pytest.raises(ArgumentError, match="dimensions is always None"):
        primitives.reshape_p.bind(x, new_sizes=(2, 2), dimensions=(1, 0), sharding=None)


def test_keys_stay_keys_on_their_way_to_numpy() -> None:
    import jax

    key, number = jax.device_get((jax.random.key(0), jax.numpy.ones(2)))
    assert isinstance(key, jax.Array) and type(number) is np.ndarray
    assert jax.random.normal(key).shape == ()


def test_hlo_as_libraries_read_it() -> None:
    import jax
    import jax.numpy as jnp

    precision = jax.lax.Precision.HIGH
    lowered = jax.jit(lambda x: jnp.dot(x, x, precision=precision)).lower(np.ones((3, 3), "f"))
    text = lowered.compiler_ir(dialect="hlo").as_hlo_text()
    (line,) = [line for line in text.split("\n") if "dot(" in line]
    assert f"operand_precision={{{str(precision).lower()},{str(precision).lower()}}}" in line
