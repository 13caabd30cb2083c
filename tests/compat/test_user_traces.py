"""Interpreters that a user writes as subclasses of ``jax.core.Trace``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def _doubling() -> Any:
    """An interpreter in which every value is accompanied by how many operations it took."""
    import jax
    from jax.extend import core

    class CountTracer(jax.core.Tracer):
        def __init__(self, trace: Any, value: Any, depth: int) -> None:
            super().__init__(trace, jax.typeof(value))
            self.value, self.depth = value, depth

    class CountTrace(jax.core.Trace):
        def __init__(self, parent: Any) -> None:
            super().__init__()
            self.parent_trace = parent
            self.names: list[str] = []

        def both(self, x: Any) -> tuple[Any, int]:
            return (x.value, x.depth) if isinstance(x, CountTracer) else (x, 0)

        def process_primitive(self, primitive: Any, tracers: Any, params: Any) -> Any:
            self.names.append(primitive.name)
            values = [self.both(x)[0] for x in tracers]
            depth = 1 + max(self.both(x)[1] for x in tracers)
            avals = [jax.typeof(x) for x in values]
            out = primitive.bind_with_trace(self.parent_trace, values, avals, params)
            if primitive.multiple_results:
                return [CountTracer(self, x, depth) for x in out]
            return CountTracer(self, out, depth)

        def process_custom_jvp_call(
            self, primitive: Any, fun: Any, jvp: Any, tracers: Any, *, symbolic_zeros: bool
        ) -> Any:
            self.names.append(primitive.name)
            return fun.call_wrapped(*tracers)

    def counted(f: Any) -> Any:
        def run(*args: Any) -> Any:
            with core.take_current_trace() as parent:
                trace = CountTrace(parent)
                with core.set_current_trace(trace):
                    out = f(*[CountTracer(trace, x, 0) for x in args])
                return *trace.both(out), trace.names

        return run

    return counted


def test_operations_go_through_it() -> None:
    import jax.numpy as jnp

    value, depth, names = _doubling()(lambda x, y: jnp.sin(x) * y + 1.0)(2.0, 3.0)
    np.testing.assert_allclose(value, np.sin(2.0) * 3 + 1, rtol=1e-6)
    assert depth == 3 and names == ["sin", "mul", "add"]


def test_calls_are_operations_with_their_programs() -> None:
    import jax

    def f(x: Any) -> Any:
        return jax.jit(lambda y: y * 2 + 1)(x)

    value, depth, names = _doubling()(f)(3.0)
    assert (float(value), depth, names) == (7.0, 1, ["jit"])


def test_it_works_on_tracers_of_other_transformations() -> None:
    import jax

    f = lambda x: _doubling()(lambda y: y * y * y)(x)[0]
    assert float(jax.jit(f)(2.0)) == 8.0
    assert float(jax.grad(f)(2.0)) == 12.0
    np.testing.assert_array_equal(jax.vmap(f)(np.arange(3.0)), [0.0, 1.0, 8.0])


def test_functions_with_forward_rules() -> None:
    import jax

    @jax.custom_jvp
    def square(x: Any) -> Any:
        return x * x

    square.defjvp(lambda primals, tangents: (square(*primals), tangents[0]))
    value, depth, names = _doubling()(lambda x: square(x) + 1)(3.0)
    assert (float(value), depth) == (10.0, 2)
    assert names == ["custom_jvp_call", "mul", "add"]


def test_what_it_does_not_say_is_an_error_that_names_the_method() -> None:
    import jax
    import jax.numpy as jnp
    from jax.extend import core

    from functrax.compat.extension.user_traces import MissingRuleError

    class Silent(jax.core.Trace):
        pass

    with (
        core.set_current_trace(Silent()),
        pytest.raises(MissingRuleError, match="process_primitive"),
    ):
        jnp.sin(1.0)

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return x

    f.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
    with (
        core.set_current_trace(Silent()),
        pytest.raises(MissingRuleError, match="process_custom_vjp_call"),
    ):
        f(1.0)


def test_interpreters_of_functrax_are_instances() -> None:
    import jax
    from jax.extend import core

    seen = []

    def f(x: Any) -> Any:
        seen.append(x._trace)
        return x

    jax.jit(f)(1.0)
    jax.vmap(f)(np.ones(2))
    assert all(isinstance(t, jax.core.Trace) for t in seen)
    assert not issubclass(core.TraceTag, jax.core.Trace)
