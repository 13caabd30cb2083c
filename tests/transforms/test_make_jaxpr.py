"""``make_jaxpr`` and ``eval_shape``: programs as written down, small and shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.core.ir.jaxpr import all_eqns
from functrax.errors import ArgumentError, DTypeError, ShapeError

Struct = functrax.ShapeDtypeStruct


def names(closed: Any) -> list[str]:
    return [e.primitive.name for e in closed.eqns]


def test_eval_shape_computes_nothing() -> None:
    def callback(x: Any) -> Any:
        raise AssertionError("ran")

    def f(x: Any, *, d: Any) -> Any:
        functrax.debug.callback(callback, x)
        return {"y": x @ d["m"], "none": None, "n": jnp.argmax(x), "c": 1.0}

    found = functrax.eval_shape(f, Struct((2, 3), "float32"), d={"m": jnp.ones((3, 4))})
    assert found == {
        "y": Struct((2, 4), "float32"),
        "none": None,
        "n": Struct((), "int32"),
        "c": Struct((), "float32", weak_type=True),
    }


def test_eval_shape_of_a_function_that_returns_types() -> None:
    """Results that are types already stay, beside arrays whose types are asked for."""
    given = Struct((2, 3), "float32")
    found = functrax.eval_shape(lambda x: {"a": given, "b": x + 1, "c": [given, 2]}, given)
    assert found == {"a": given, "b": given, "c": [given, Struct((), "int32", weak_type=True)]}


def test_eval_shape_of_huge_arrays() -> None:
    f = functrax.grad(lambda x: jnp.sum(jnp.sin(x) @ x.T))
    assert functrax.eval_shape(f, Struct((10**6, 10**6), "float32")).shape == (10**6, 10**6)


def test_shape_dtype_struct() -> None:
    s = Struct([2, 3], np.float32)
    assert (s.shape, s.dtype, s.ndim, s.size, len(s)) == ((2, 3), np.float32, 2, 6, 2)
    assert s == Struct((2, 3), "float32") != Struct((2, 3), "float16")
    assert hash(s) == hash(Struct((2, 3), "float32"))
    assert s != Struct((2, 3), "float32", weak_type=True)
    with pytest.raises(TypeError, match="rank 0"):
        len(Struct((), "float32"))


def test_errors_in_traced_functions_are_the_same_as_eager_ones() -> None:
    with pytest.raises(ShapeError):
        functrax.eval_shape(lambda x, y: x + y, Struct((2,), "float32"), Struct((3,), "float32"))
    with pytest.raises(DTypeError, match="an argument of"):
        functrax.make_jaxpr(lambda x: x)("text")


def test_arguments_constants_and_return_shape() -> None:
    c = jnp.array([1.0, 2.0])
    program = functrax.make_jaxpr(
        lambda x, n, y: x * c * n + y, static_argnums=1, return_shape=True
    )
    closed, shape = program(Struct((2,), "float32"), 3, y=1.0)
    assert shape == Struct((2,), "float32")
    assert len(closed.jaxpr.invars) == 2 and len(closed.consts) == 1
    np.testing.assert_array_equal(np.asarray(closed.consts[0]), [1.0, 2.0])


def test_equal_operations_are_shared() -> None:
    closed = functrax.make_jaxpr(lambda x: jnp.sin(x) * jnp.sin(x) + jnp.sin(x))(1.0)
    assert names(closed) == ["sin", "mul", "add"]
    closed = functrax.make_jaxpr(lambda x, y: (jnp.sin(x), jnp.sin(y), jnp.sin(x)))(1.0, 2.0)
    assert names(closed) == ["sin", "sin"]
    assert closed.jaxpr.outvars[0] is closed.jaxpr.outvars[2]


def test_literals_differ_by_dtype_and_value() -> None:
    closed = functrax.make_jaxpr(lambda x: (x + 1.0, x + 2.0, x + 1.0, x * 0.0 + -0.0))(
        Struct((2,), "float32")
    )
    assert names(closed).count("add") >= 2
    closed = functrax.make_jaxpr(lambda x, n: (x * 2, n * 2))(1.0, 1)
    assert names(closed) == ["mul", "mul"]


def test_dead_code_is_dropped_but_effects_are_kept() -> None:
    def f(x: Any) -> Any:
        unused = jnp.exp(jnp.sin(x))
        functrax.debug.callback(lambda _: None, unused * 0 + jnp.cos(x))
        functrax.jit(jnp.tanh)(x)
        return x + 1

    closed = functrax.make_jaxpr(f)(1.0)
    assert "tanh" not in {e.primitive.name for e in all_eqns(closed.jaxpr)}
    assert "jit" not in names(closed)
    assert names(closed).count("debug_callback") == 1 and "cos" in names(closed)
    assert names(functrax.make_jaxpr(lambda x: (jnp.sin(x), 2.0)[1])(1.0)) == []


def test_programs_equal_up_to_names() -> None:
    one = functrax.make_jaxpr(lambda x: jnp.sin(x) * x)(1.0)
    same = functrax.make_jaxpr(lambda renamed: jnp.sin(renamed) * renamed)(2.0)
    other = functrax.make_jaxpr(lambda x: x * jnp.sin(x))(1.0)
    assert one == same and hash(one) == hash(same)
    assert one != other
    assert one != functrax.make_jaxpr(lambda x: jnp.sin(x) * x)(jnp.ones(()))


def test_equations_name_the_lines_that_made_them() -> None:
    def f(x: Any) -> Any:
        y = jnp.sin(x)
        return y * 2

    first = f.__code__.co_firstlineno
    closed = functrax.make_jaxpr(f)(1.0)
    assert [e.source.line for e in closed.eqns] == [first + 1, first + 2]
    assert {e.source.function for e in closed.eqns} == {"f"}
    derived = functrax.make_jaxpr(functrax.grad(functrax.jit(f)))(1.0)
    lines = {e.source.line for e in all_eqns(derived.jaxpr) if e.primitive.name in ("cos", "sin")}
    assert lines == {first + 1}


def tanh_sin(order: int) -> Any:
    f: Any = lambda x: jnp.tanh(x) * jnp.sin(x)
    for _ in range(order):
        f = functrax.grad(f)
    return f


@pytest.mark.parametrize("order", range(1, 9))
def test_nested_gradients_grow_quadratically(order: int) -> None:
    count = sum(1 for _ in all_eqns(functrax.make_jaxpr(tanh_sin(order))(1.0).jaxpr))
    assert count <= 12 * order**2


def test_high_orders_are_right() -> None:
    # The Taylor series of tanh(x) sin(x) has only even powers: x^2 - x^4/2 + ...
    with functrax.enable_x64():
        assert float(tanh_sin(7)(0.0)) == pytest.approx(0.0, abs=1e-9)
        assert float(tanh_sin(4)(0.0)) == pytest.approx(-12.0, rel=1e-9)


def test_gradient_of_a_loop_is_linear_in_its_length() -> None:
    def count(length: int) -> int:
        def f(x: Any) -> Any:
            for _ in range(length):
                x = jnp.sin(x) * 1.5
            return jnp.sum(x)

        return len(functrax.make_jaxpr(functrax.grad(f))(jnp.ones(3)).eqns)

    assert count(40) - count(20) == count(60) - count(40) <= 5 * 20


def test_not_a_function() -> None:
    with pytest.raises(ArgumentError, match="make_jaxpr: the first argument is not a function"):
        functrax.make_jaxpr(3)


def test_constants_do_not_depend_on_what_is_known_inside_of_a_transformation() -> None:
    known = jnp.array(2.0)
    counts = []

    @functrax.jit
    def outer(x: Any) -> Any:
        for scalar in (known, x):
            inner = functrax.jit(lambda y: y * scalar)  # noqa: B023
            program = functrax.make_jaxpr(lambda y: inner(y) + scalar)(x)  # noqa: B023
            counts.append(len(program.consts))
        return x

    outer(1.0)
    assert counts == [1, 1]
    alone = functrax.make_jaxpr(lambda y: y * known)(1.0)
    assert not alone.consts and "2.0" in str(alone)
