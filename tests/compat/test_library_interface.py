"""What libraries take of JAX besides its usual interface: partial evaluation, types, versions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def _traced(f: Any, *pvals: Any, instantiate: Any = False) -> Any:
    from jax.extend import linear_util as lu
    from jax.interpreters import partial_eval as pe

    return pe.trace_to_jaxpr_nounits(lu.wrap_init(f), pvals, instantiate)


def test_known_results_are_values_and_unknown_ones_types() -> None:
    import jax.numpy as jnp
    from jax.core import ShapedArray
    from jax.interpreters.partial_eval import PartialVal

    def f(x: Any, y: Any) -> Any:
        return [jnp.sin(x) + 1, x * y, y[0]]

    known = PartialVal.known(jnp.arange(3.0))
    unknown = PartialVal.unknown(ShapedArray((3,), jnp.float32))
    jaxpr, (first, second, third), consts = _traced(f, known, unknown)
    assert known.is_known() and known.get_aval() == unknown.get_aval()
    assert not unknown.is_known() and unknown.get_known() is None
    assert first[0] is None
    np.testing.assert_allclose(first.get_known(), np.sin(np.arange(3.0)) + 1, rtol=1e-6)
    assert [second[0], third[0]] == [ShapedArray((3,), jnp.float32), ShapedArray((), jnp.float32)]

    from jax.core import eval_jaxpr

    outs = eval_jaxpr(jaxpr, consts, jnp.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(outs[0], [0.0, 2.0, 6.0])
    np.testing.assert_array_equal(outs[1], 1.0)


def test_known_results_can_be_results_of_the_program() -> None:
    import jax.numpy as jnp
    from jax.core import ShapedArray, eval_jaxpr
    from jax.interpreters.partial_eval import PartialVal

    unknown = PartialVal.unknown(ShapedArray((), jnp.float32))
    jaxpr, outs, consts = _traced(lambda x: [x + 1, jnp.ones(2)], unknown, instantiate=[True, True])
    assert [pv[0].shape for pv in outs] == [(), (2,)]
    first, second = eval_jaxpr(jaxpr, consts, 2.0)
    assert float(first) == 3.0 and second.shape == (2,)


def test_calls_and_custom_derivatives_are_split() -> None:
    import jax
    import jax.numpy as jnp
    from jax.core import ShapedArray
    from jax.interpreters.partial_eval import PartialVal

    @jax.jit
    def inner(x: Any, y: Any) -> Any:
        return x * 2, jax.nn.relu(y) + x

    known = PartialVal.known(jnp.array(3.0))
    unknown = PartialVal.unknown(ShapedArray((), jnp.float32))
    _, (first, second), _ = _traced(lambda x, y: list(inner(x, y)), known, unknown)
    assert float(first.get_known()) == 6.0
    assert not second.is_known()


def test_inside_jit_what_is_known_is_traced() -> None:
    import jax
    import jax.numpy as jnp
    from jax.core import ShapedArray
    from jax.interpreters.partial_eval import PartialVal

    @jax.jit
    def f(x: Any) -> Any:
        unknown = PartialVal.unknown(ShapedArray((), jnp.float32))
        _, (out, _), _ = _traced(lambda x, y: [x + 1, x + y], PartialVal.known(x), unknown)
        return out.get_known()

    assert float(f(2.0)) == 3.0


def test_types_take_the_sharding_of_a_type_and_no_other() -> None:
    import jax
    import jax.numpy as jnp

    aval = jnp.ones((2, 3)).aval
    assert jax.core.ShapedArray(aval.shape, aval.dtype, sharding=aval.sharding) is aval
    assert type(aval) is jax.core.ShapedArray and isinstance(aval, jax.core.AbstractValue)
    mesh = jax.sharding.AbstractMesh((2,), ("x",))
    with pytest.raises(ValueError, match="several devices"):
        jax.core.ShapedArray((2,), jnp.float32, sharding=jax.NamedSharding(mesh, jax.P("x")))


def test_modules_say_which_jax_they_are() -> None:
    import jax.lib
    import jax.version

    assert jax.version.__version_info__ == jax.__version_info__ == (0, 10, 2)
    assert jax.lib.__version__ == jax.version.__version__ == jax.__version__


def test_packages_for_saving_can_be_imported_and_not_used() -> None:
    from jax.experimental.array_serialization import serialization
    from jax.extend import ifrt_programs

    from functrax.compat import MissingNameError

    with pytest.raises(MissingNameError, match=r"numpy\.savez"):
        serialization.GlobalAsyncCheckpointManager()
    with pytest.raises(MissingNameError):
        ifrt_programs.ifrt_programs.make_hlo_program()


def test_typed_keys_are_known_and_unknown_inputs() -> None:
    import jax
    from jax.core import AbstractValue, ShapedArray
    from jax.interpreters.partial_eval import PartialVal

    key = jax.random.key(3)
    type_of_keys = ShapedArray((2,), key.dtype)
    assert isinstance(type_of_keys, AbstractValue) and type_of_keys.shape == (2,)
    assert not hasattr(key, "aval") and jax.numpy.result_type(key) == key.dtype

    def f(known: Any, unknown: Any) -> Any:
        return [jax.random.split(known), unknown[0], jax.random.bits(known)]

    inputs = PartialVal.known(key), PartialVal.unknown(type_of_keys)
    jaxpr, (pair, single, bits), consts = _traced(f, *inputs)
    assert (pair.get_known() == jax.random.split(key)).all()
    assert single[0].dtype == key.dtype and single[0].shape == ()
    assert int(bits.get_known()) == int(jax.random.bits(key))
    words = jax.random.key_data(jax.random.split(jax.random.key(4)))
    (first,) = jax.core.eval_jaxpr(jaxpr, consts, words)
    np.testing.assert_array_equal(first, words[0])


def test_a_traced_function_of_flat_values() -> None:
    import jax
    import jax.numpy as jnp
    from jax.core import ShapedArray, eval_jaxpr
    from jax.extend import linear_util as lu
    from jax.interpreters.partial_eval import trace_to_jaxpr_dynamic

    weights = jnp.arange(3.0)
    aval = ShapedArray((3,), jnp.float32)
    jaxpr, avals, consts = trace_to_jaxpr_dynamic(
        lu.wrap_init(lambda x, y: [x * weights, jnp.sum(y)]), [aval, aval]
    )
    assert avals == [aval, ShapedArray((), jnp.float32)]
    (constant,) = consts
    assert constant is weights
    outs = eval_jaxpr(jaxpr, consts, jnp.ones(3), jnp.ones(3))
    np.testing.assert_array_equal(outs[0], weights)
    assert isinstance(outs[1], jax.Array) and outs[1] == 3


def test_a_program_whose_inner_program_was_traced_anew() -> None:
    """Scalars in it are constants of what a user traces, but numbers in an equation."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    @jax.checkpoint
    def f(which: Any, x: Any) -> Any:
        return lax.cond(which, lambda y: y * 2, lambda y: y + 1, x)

    def again(closed: Any) -> Any:
        def run(*args: Any) -> Any:
            env = dict(zip(closed.jaxpr.invars, args, strict=True))
            env.update(zip(closed.jaxpr.constvars, closed.consts, strict=True))

            def read(v: Any) -> Any:
                return v.val if isinstance(v, jax.extend.core.Literal) else env[v]

            for eqn in closed.jaxpr.eqns:
                params = {
                    k: again(v)
                    if isinstance(v, jax.extend.core.ClosedJaxpr)
                    else tuple(map(again, v))
                    if isinstance(v, tuple) and v and isinstance(v[0], jax.extend.core.ClosedJaxpr)
                    else v
                    for k, v in eqn.params.items()
                }
                out = eqn.primitive.bind(*map(read, eqn.invars), **params)
                outs = out if eqn.primitive.multiple_results else [out]
                env.update(zip(eqn.outvars, outs, strict=True))
            return [read(v) for v in closed.jaxpr.outvars]

        types = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in closed.jaxpr.invars]
        return jax.make_jaxpr(run)(*types)

    made = again(jax.make_jaxpr(f)(True, 1.0))
    run = jax.extend.core.jaxpr_as_fun(made)
    assert run(jnp.array(True), jnp.array(5.0)) == [10.0]
    assert run(jnp.array(False), jnp.array(5.0)) == [6.0]
