"""Operations of the user's own with JAX's interface, in files; derivative rules without end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.compat.extension import lowering, rules
from functrax.compat.extension.user_primitives import Primitive
from functrax.errors import DifferentiationError


def _operation(name: str, function: Any, aval: Any = lambda x: x) -> Primitive:
    made = Primitive(name)
    made.def_impl(function)
    made.def_abstract_eval(aval)
    rules.register_lowering(made, lowering.lower_fun(function, False))
    return made


def _loaded(path: Path, function: Any, *specs: Any) -> Any:
    functrax.save(path, function, *specs)
    return functrax.load(path)


def test_an_operation_has_its_derivative(tmp_path: Path) -> None:
    cube = _operation("cube", lambda x: x * x * x)
    # Not the derivative, so that it is seen which one is used.
    rules.primitive_jvps[cube] = lambda xs, ts: (cube.bind(*xs), 5 * cube.bind(*xs) * ts[0])

    def f(xs: Any) -> Any:
        return lax.scan(lambda c, x: (c + cube.bind(x), cube.bind(c)), xs.sum(), xs)

    x = jnp.arange(1.0, 4.0)
    loaded = _loaded(tmp_path / "cube", f, x)
    for ours, theirs in zip(loaded(x), f(x), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    total = lambda g: lambda x: g(x)[0] + (g(x)[1] ** 2).sum()
    for order in (functrax.grad, lambda g: functrax.jacfwd(functrax.grad(g))):
        np.testing.assert_allclose(order(total(loaded))(x), order(total(f))(x), 1e-6)


def test_an_operation_without_derivative_of_truth_values(tmp_path: Path) -> None:
    some = _operation("some", lambda x: jnp.any(x), lambda x: x.update(shape=()))

    def f(x: Any) -> Any:
        return jnp.where(some.bind(x > 2), x * 2, x)

    x = jnp.arange(4.0)
    loaded = _loaded(tmp_path / "some", f, x)
    np.testing.assert_array_equal(loaded(x), 2 * x)
    slope = functrax.grad(lambda x: loaded(x).sum())(x)
    np.testing.assert_array_equal(slope, [2, 2, 2, 2])


def test_what_cannot_be_differentiated_cannot_be_after_loading(tmp_path: Path) -> None:
    without = _operation("without", lambda x: x + 1)

    @functrax.custom_jvp
    def refuses(x: Any) -> Any:
        return x * 2

    @refuses.defjvp
    def _rule(primals: Any, tangents: Any) -> Any:
        raise RuntimeError("not this one")

    x = jnp.ones(2)
    for name, f, said in (
        ("without", without.bind, "Differentiation rule for 'without' not implemented"),
        ("refuses", refuses, "RuntimeError: not this one"),
    ):
        loaded = _loaded(tmp_path / name, f, x)
        np.testing.assert_array_equal(loaded(x), [2, 2])
        with pytest.raises(DifferentiationError, match=f"no such derivative of {name}") as caught:
            functrax.grad(lambda x, f=loaded: f(x).sum())(x)
        assert said in str(caught.value)


def _waves(order: int) -> Any:
    """sin and its derivatives, each with a rule that makes a function with a rule again."""

    @functrax.custom_jvp
    def wave(x: Any) -> Any:
        return jnp.sin(x + order * jnp.pi / 2)

    wave.defjvp(lambda xs, ts: (wave(*xs), _waves(order + 1)(*xs) * ts[0]))
    return wave


def test_rules_without_end_are_kept_for_some_orders(tmp_path: Path) -> None:
    x = jnp.float32(0.3)
    loaded = _loaded(tmp_path / "waves", _waves(0), x)
    derivative, found = loaded, []
    for _ in range(4):
        found.append(float(derivative(x)))
        derivative = functrax.grad(derivative)
    np.testing.assert_allclose(found, [np.sin(0.3 + n * np.pi / 2) for n in range(4)], 1e-5)
    with pytest.raises(DifferentiationError, match="no such derivative of wave"):
        for _ in range(8):
            derivative = functrax.grad(derivative)
        derivative(x)
