"""``grad`` and ``value_and_grad``."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.errors import ArgumentError, DifferentiationError
from tests.transforms.numeric import FUNCTIONS, POINT, jacobian, weights


class Layer(NamedTuple):
    w: Any
    b: Any


@functrax.tree_util.register_dataclass
@dataclasses.dataclass
class Model:
    layers: list[Layer]
    scale: Any


def model() -> Model:
    return Model([Layer(jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([0.5, -0.5]))], 2.0)


def loss(m: Model, x: Any) -> Any:
    for layer in m.layers:
        x = layer.w @ x + layer.b
    return m.scale * jnp.sum(x)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_agrees_with_finite_differences(function: Any) -> None:
    ct = weights(function(np, POINT).shape)
    with functrax.enable_x64():
        found = functrax.grad(lambda x: jnp.sum(function(jnp, x) * ct))(jnp.asarray(POINT))
    wanted = np.tensordot(ct, jacobian(lambda x: function(np, x), POINT), ct.ndim)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-5)


def test_argnums() -> None:
    f = lambda x, y, z: x * y * y * z
    args = (2.0, 3.0, 5.0)
    assert float(functrax.grad(f)(*args)) == 45.0
    assert float(functrax.grad(f, argnums=1)(*args)) == 60.0
    assert float(functrax.grad(f, argnums=-1)(*args)) == 18.0
    assert [float(g) for g in functrax.grad(f, argnums=(2, 0))(*args)] == [18.0, 45.0]
    assert [float(g) for g in functrax.grad(f, argnums=(-3,))(*args)] == [45.0]
    assert [float(g) for g in functrax.grad(f, argnums=[0, 1])(*args)] == [45.0, 60.0]


def test_pytrees_of_all_kinds() -> None:
    g = functrax.grad(loss)(model(), jnp.array([1.0, 10.0]))
    assert isinstance(g, Model) and isinstance(g.layers[0], Layer)
    np.testing.assert_array_equal(np.asarray(g.layers[0].w), [[2.0, 20.0], [2.0, 20.0]])
    np.testing.assert_array_equal(np.asarray(g.layers[0].b), [2.0, 2.0])
    assert float(g.scale) == 21.0 + 43.0 + 0.5 - 0.5


def test_none_and_empty_containers_keep_their_place() -> None:
    g = functrax.grad(lambda d: d["x"] * 2)({"x": 1.0, "none": None, "empty": (), "list": []})
    assert float(g.pop("x")) == 2.0
    assert g == {"none": None, "empty": (), "list": []}


def test_value_and_grad() -> None:
    value, g = functrax.value_and_grad(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0]))
    assert float(value) == 9.0
    np.testing.assert_array_equal(np.asarray(g), [3.0, 12.0])


def test_has_aux() -> None:
    def f(x: Any) -> Any:
        y = jnp.sin(x)
        return y * y, {"y": y, "twice": (y + y, None), "text": "kept", "number": 3}

    g, aux = functrax.grad(f, has_aux=True)(0.5)
    assert float(g) == pytest.approx(2 * np.sin(0.5) * np.cos(0.5))
    assert float(aux["y"]) == pytest.approx(np.sin(0.5))
    assert aux["text"] == "kept" and aux["number"] == 3 and aux["twice"][1] is None
    (value, again), g2 = functrax.value_and_grad(f, has_aux=True)(0.5)
    assert float(value) == pytest.approx(np.sin(0.5) ** 2) and float(g2) == float(g)
    assert float(again["twice"][0] + 1.0) == pytest.approx(1 + 2 * np.sin(0.5))


def test_aux_of_nested_grads_belongs_to_the_outer_function() -> None:
    def outer(x: Any) -> Any:
        g, aux = functrax.grad(lambda y: (y * y * x, y * x), has_aux=True)(3.0)
        return g * aux  # 6 x * 3 x

    assert float(functrax.grad(outer)(2.0)) == 2 * 18 * 2.0


def test_aux_under_jit_and_vmap() -> None:
    f = lambda x: (x * x, x + 1.0)
    g, aux = functrax.jit(functrax.grad(f, has_aux=True))(3.0)
    assert (float(g), float(aux)) == (6.0, 4.0)
    g, aux = functrax.vmap(functrax.grad(f, has_aux=True))(jnp.array([1.0, 2.0]))
    np.testing.assert_array_equal(np.asarray(g), [2.0, 4.0])
    np.testing.assert_array_equal(np.asarray(aux), [2.0, 3.0])


def test_keyword_arguments_are_not_differentiated() -> None:
    def f(x: Any, *, power: int, shift: Any = 0.0) -> Any:
        return (x + shift) ** power

    assert float(functrax.grad(f)(2.0, power=3)) == 12.0
    assert float(functrax.grad(f)(2.0, power=3, shift=jnp.array(1.0))) == 27.0


def test_allow_int_gives_float0() -> None:
    f = lambda x, n: jnp.sum(x * n)
    n = jnp.array([1, 2])
    gx, gn = functrax.grad(f, argnums=(0, 1), allow_int=True)(jnp.array([1.0, 1.0]), n)
    np.testing.assert_array_equal(np.asarray(gx), [1.0, 2.0])
    assert gn.dtype == functrax.float0 and gn.shape == (2,)


def test_holomorphic() -> None:
    z = jnp.array(0.3 + 0.4j)
    g = functrax.grad(lambda z: jnp.exp(z) * z, holomorphic=True)(z)
    z0 = 0.3 + 0.4j
    assert complex(g) == pytest.approx(complex(np.exp(z0) * (1 + z0)), rel=1e-6)
    vector = jnp.array([1.0 + 1.0j, 2.0])
    g = functrax.grad(lambda z: jnp.sum(z * z * z), holomorphic=True)(vector)
    np.testing.assert_allclose(np.asarray(g), 3 * np.array([1 + 1j, 2]) ** 2, rtol=1e-6)


def test_closures_over_arrays_and_outer_tracers() -> None:
    c = jnp.array([1.0, 2.0])

    def outer(a: Any) -> Any:
        def inner(x: Any) -> Any:
            return jnp.sum(x * a * c)

        return jnp.sum(functrax.grad(inner)(jnp.array([3.0, 4.0])) ** 2)

    # inner gradient is a * c, its squared norm a^2 * 5.
    assert float(functrax.grad(outer)(3.0)) == 30.0
    assert float(functrax.jit(functrax.grad(outer))(3.0)) == 30.0
    batch = functrax.vmap(functrax.grad(outer))(jnp.array([1.0, 2.0]))
    np.testing.assert_array_equal(np.asarray(batch), [10.0, 20.0])


def test_integer_intermediates() -> None:
    def f(x: Any) -> Any:
        k = jnp.argmax(x)
        mask = (x > 1.0).astype("float32")
        return jnp.sum(x * mask) * k.astype("float32")

    np.testing.assert_array_equal(
        np.asarray(functrax.grad(f)(jnp.array([0.5, 2.0, 3.0]))), [0.0, 2.0, 2.0]
    )


def test_python_control_flow_follows_the_value() -> None:
    def f(x: Any) -> Any:
        if x > 1.0:
            for _ in range(int(x)):
                x = x * x
            return x
        return -x

    assert float(functrax.grad(f)(2.0)) == 4 * 8.0
    assert float(functrax.grad(f)(0.5)) == -1.0
    assert float(functrax.grad(functrax.grad(f))(2.0)) == 12 * 4.0


def test_zero_sizes() -> None:
    g = functrax.grad(lambda x: jnp.sum(jnp.sin(x) * 2))(jnp.zeros((0, 3)))
    assert g.shape == (0, 3) and g.dtype == np.float32
    a, b = functrax.grad(lambda x, y: jnp.sum(x) * y, (0, 1))(jnp.zeros(0), 2.0)
    assert a.shape == (0,) and float(b) == 0.0


def test_unused_arguments_and_constant_functions_have_zero_gradients() -> None:
    a, b = functrax.grad(lambda x, y: x * 3, (0, 1))(1.0, jnp.ones((2, 3)))
    assert float(a) == 3.0
    np.testing.assert_array_equal(np.asarray(b), np.zeros((2, 3)))
    g = functrax.grad(lambda x: jnp.array(7.0))(jnp.ones(3))
    np.testing.assert_array_equal(np.asarray(g), np.zeros(3))
    g = functrax.grad(lambda x: 7.0)(jnp.ones(3))
    np.testing.assert_array_equal(np.asarray(g), np.zeros(3))
    assert float(functrax.grad(lambda x: lax.stop_gradient(x * x))(3.0)) == 0.0


def test_identity_and_same_array_twice() -> None:
    assert float(functrax.grad(lambda x: x)(3.0)) == 1.0
    x = jnp.array(3.0)
    assert [float(g) for g in functrax.grad(lambda x, y: x * y + x, (0, 1))(x, x)] == [4.0, 3.0]


def test_gradient_does_not_touch_its_argument() -> None:
    x = np.array([1.0, 2.0], np.float32)
    g = functrax.grad(lambda x: jnp.sum(x * x))(x)
    x[0] = 100.0
    np.testing.assert_array_equal(np.asarray(g), [2.0, 4.0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_dtype_of_the_gradient_is_that_of_the_argument(dtype: str) -> None:
    x = jnp.ones(3, dtype)
    assert functrax.grad(lambda x: jnp.sum(x * 2).astype("float32"))(x).dtype == x.dtype
    scalar = jnp.array(1.0, dtype)
    for result in ("float16", "float32"):
        g = functrax.grad(lambda x, result=result: (x * x).astype(result))(scalar)
        assert g.dtype == scalar.dtype and float(g) == 2.0


def test_weak_type_of_a_python_number() -> None:
    g = functrax.grad(lambda x: x * x)(3.0)
    assert g.weak_type and g.dtype == np.float32


def test_deep_and_wide_pytrees() -> None:
    wide = {f"k{i}": jnp.array(float(i)) for i in range(300)}
    g = functrax.grad(lambda d: sum((x * x for x in d.values()), jnp.array(0.0)))(wide)
    assert [float(g[f"k{i}"]) for i in range(300)] == [2.0 * i for i in range(300)]
    deep: Any = 1.0
    for _ in range(60):
        deep = [deep]

    def innermost(tree: Any) -> Any:
        while isinstance(tree, list):
            (tree,) = tree
        return tree * 5

    assert float(innermost(functrax.grad(innermost)(deep))) == 25.0


def test_seventh_derivative() -> None:
    f: Any = lambda x: jnp.sin(2.0 * x)
    for _ in range(7):
        f = functrax.grad(f)
    assert float(f(0.3)) == pytest.approx(-(2.0**7) * np.cos(0.6), rel=1e-5)


def test_generators_as_helpers() -> None:
    def powers(x: Any) -> Any:
        y = x
        while True:
            yield y
            y = y * x

    def f(x: Any) -> Any:
        steps = powers(x)
        return next(steps) + next(steps) + next(steps)

    assert float(functrax.grad(f)(2.0)) == 1 + 4 + 12


def test_interleaved_generators_of_two_transformations() -> None:
    # A generator that outlives its transformation gives a typed error, and nothing else breaks.
    kept: list[Any] = []

    def f(x: Any) -> Any:
        steps = (x * k for k in (1.0, 2.0, 3.0))
        kept.append(steps)
        return next(steps)

    assert float(functrax.grad(f)(2.0)) == 1.0
    with pytest.raises(functrax.errors.LeakedTracerError, match="leaked out of f"):
        next(kept[0])
    assert float(functrax.grad(f)(2.0)) == 1.0


@pytest.mark.parametrize(
    ("function", "args", "options", "match"),
    [
        (lambda x: x, (jnp.ones(2),), {}, r"does not return a scalar\n  got   f32\[2\]"),
        (lambda x: (x, x), (1.0,), {}, "does not return a scalar"),
        (lambda x: None, (1.0,), {}, "does not return a scalar\n  got   nothing"),
        (lambda x: x, (1,), {}, r"only floating point arguments.*\n.*argument \[0\] of"),
        (lambda x: x, (True,), {}, "only floating point arguments"),
        (lambda x, y: y["k"], (1.0, {"k": 2}), {"argnums": 1}, r"argument \[1\]\['k'\] of"),
        (lambda x: x, (1j,), {}, "not a real floating point number"),
        (abs, (1j,), {"holomorphic": True}, "holomorphic=True, but abs returns a real number"),
        (lambda x: x, (1.0,), {"holomorphic": True}, "holomorphic=True needs complex"),
        (lambda x: x.astype("int32"), (1.0,), {}, "not a real floating point number"),
        (lambda x: x * 1j, (1.0,), {}, "not a real floating point number"),
    ],
)
def test_refusals(function: Any, args: Any, options: Any, match: str) -> None:
    with pytest.raises(DifferentiationError, match=match):
        functrax.grad(function, **options)(*args)


def test_refuses_argnums_out_of_range() -> None:
    with pytest.raises(ArgumentError, match="argnums 2 is out of range"):
        functrax.grad(lambda x, y: x, argnums=2)(1.0, 2.0)
    with pytest.raises(ArgumentError, match="argnums -3 is out of range"):
        functrax.grad(lambda x, y: x, argnums=(0, -3))(1.0, 2.0)


def test_has_aux_without_a_pair() -> None:
    with pytest.raises(functrax.errors.PyTreeError, match="must return a pair"):
        functrax.grad(lambda x: x, has_aux=True)(1.0)
