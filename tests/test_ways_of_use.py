"""Ways in which programs written for JAX use it, one test each, with the import line changed."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import pickle
from functools import partial

import numpy as np
import pytest

import functrax as jax
import functrax.numpy as jnp
from functrax import random


def test_jit_as_a_decorator():
    @jax.jit
    def f(x):
        """Doubles."""
        return 2 * x

    assert f(3.0) == 6.0
    assert f.__name__ == "f" and f.__doc__ == "Doubles."


def test_jit_with_partial_and_static_argnums():
    @partial(jax.jit, static_argnums=(1,))
    def repeated(x, n):
        for _ in range(n):
            x = x * 2
        return x

    assert repeated(jnp.array(1.0), 3) == 8.0
    assert repeated(jnp.array(1.0), 5) == 32.0


def test_grad_with_argnums_and_aux():
    def f(x, y, scale):
        return scale * x * y, {"sum": x + y}

    (dx, dy), aux = jax.grad(f, argnums=(0, 1), has_aux=True)(2.0, 3.0, 10.0)
    assert (dx, dy, aux["sum"]) == (30.0, 20.0, 5.0)
    (value, _), gradient = jax.value_and_grad(f, has_aux=True)(2.0, 3.0, 10.0)
    assert (value, gradient) == (60.0, 30.0)


def test_closures_over_arrays():
    w = jnp.array([1.0, 2.0])
    host = np.array([10.0, 20.0])
    f = jax.jit(lambda x: jnp.sum(w * x + host))
    assert f(jnp.ones(2)) == 33.0
    assert jax.grad(f)(jnp.ones(2)).tolist() == [1.0, 2.0]


def test_vmap_of_grad_of_vmap():
    def loss(w, xs):
        return jnp.sum(jax.vmap(lambda x: jnp.dot(w, x) ** 2)(xs))

    ws, xs = jnp.ones((4, 3)), jnp.arange(6.0).reshape(2, 3)
    out = jax.vmap(jax.grad(loss), in_axes=(0, None))(ws, xs)
    one = 2 * (xs @ ws[0]) @ xs
    np.testing.assert_allclose(out, np.tile(one, (4, 1)), rtol=1e-6)


class Model:
    """A class whose methods are jitted."""

    def __init__(self, w):
        self.w = w
        self.calls = 0
        self.step = jax.jit(self._step)

    def _step(self, x):
        self.calls += 1
        return self.w * x

    @partial(jax.jit, static_argnums=0)
    def doubled(self, x):
        return 2 * self.w * x


def test_jit_of_bound_methods():
    model = Model(3.0)
    assert (model.step(2.0), model.step(4.0)) == (6.0, 12.0)
    assert model.calls == 1
    assert jax.jit(model._step)(1.0) == 3.0
    assert model.doubled(1.0) == 6.0


@jax.tree_util.register_pytree_node_class
class Affine:
    """A callable pytree."""

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __call__(self, x):
        return self.a * x + self.b

    def tree_flatten(self):
        return (self.a, self.b), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


def test_callable_pytrees():
    f = Affine(jnp.array(2.0), jnp.array(1.0))
    assert jax.jit(f)(3.0) == 7.0
    assert jax.jit(lambda f, x: f(x))(f, 3.0) == 7.0
    gradient = jax.grad(lambda f: f(3.0))(f)
    assert isinstance(gradient, Affine) and (gradient.a, gradient.b) == (3.0, 1.0)
    bound = jax.tree_util.Partial(jnp.power, 2.0)
    assert jax.jit(lambda f, x: f(x))(bound, 3.0) == 8.0


def test_scan_over_pytrees_without_a_length():
    def step(carry, x):
        carry = {"total": carry["total"] + x["a"] * x["b"]}
        return carry, (carry["total"], x["b"])

    xs = {"a": jnp.arange(3.0), "b": jnp.array([1.0, 10.0, 100.0])}
    carry, (totals, _) = jax.lax.scan(step, {"total": 0.0}, xs, length=None)
    assert carry["total"] == 210.0
    assert totals.tolist() == [0.0, 10.0, 210.0]


def test_custom_vjp_with_nondiff_argnums():
    @partial(jax.custom_vjp, nondiff_argnums=(0,))
    def clipped(limit, x):
        return x

    clipped.defvjp(lambda limit, x: (x, None), lambda limit, _, g: (jnp.clip(g, -limit, limit),))
    assert jax.grad(lambda x: 10 * clipped(2.0, x))(1.0) == 2.0
    assert jax.jit(jax.vmap(jax.grad(lambda x: 10 * clipped(2.0, x))))(jnp.ones(2)).tolist() == [
        2,
        2,
    ]


Pair = collections.namedtuple("Pair", ["first", "second"])


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    x: jax.Array
    label: str = dataclasses.field(metadata={"static": True}, default="state")


def test_namedtuples_and_dataclasses_go_in_and_out():
    @jax.jit
    def f(pair, state):
        return Pair(pair.second, pair.first), dataclasses.replace(state, x=state.x + 1)

    pair, state = f(Pair(1.0, jnp.ones(2)), State(jnp.zeros(3)))
    assert type(pair) is Pair and pair.second == 1.0
    assert state.label == "state" and state.x.tolist() == [1.0, 1.0, 1.0]
    gradient = jax.grad(lambda s: jnp.sum(s.x**2))(State(jnp.ones(2)))
    assert type(gradient) is State and gradient.x.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("x", [np.arange(3), np.float32(2), 2, 2.5, True, 1 + 2j])
def test_numpy_arrays_and_scalars_as_inputs(x):
    assert np.array_equal(jax.jit(lambda x: x + 1)(x), np.asarray(x) + 1)


def test_lists_of_scalars_as_inputs():
    assert jax.jit(lambda xs: xs[0] + xs[1])([1.0, 2]) == 3.0
    assert jnp.array([1, 2.5, True]).tolist() == [1.0, 2.5, 1.0]
    assert jax.grad(lambda xs: xs[0] * xs[1])([2.0, 3.0]) == [3.0, 2.0]


def test_values_come_out():
    x = jnp.array([[1.5, 2.5]])
    assert type(np.asarray(x)) is np.ndarray
    assert float(x[0, 0]) == x[0, 0].item() == x.item(0) == 1.5
    assert int(jnp.array(3)) == 3 and list(range(5))[jnp.array(3)] == 3
    assert complex(jnp.array(1j)) == 1j and bool(jnp.array(True))
    assert x.tolist() == [[1.5, 2.5]] and len(x) == 1
    assert [row.tolist() for row in x] == [[1.5, 2.5]]


def test_tree_map_over_several_trees_with_is_leaf():
    params, masks = {"w": jnp.ones(2), "b": None}, {"w": 2.0, "b": None}
    out = jax.tree.map(
        lambda p, m: None if p is None else p * m, params, masks, is_leaf=lambda x: x is None
    )
    assert out["w"].tolist() == [2.0, 2.0] and out["b"] is None


def test_cached_jitted_functions():
    @functools.lru_cache
    def power(n):
        return jax.jit(lambda x: x**n)

    assert power(3)(2.0) == 8.0
    assert power(3) is power(3)


def test_disable_jit():
    seen = []

    @jax.jit
    def f(x):
        seen.append(float(x))
        return x

    with jax.disable_jit():
        assert f(2.0) == 2.0
    assert seen == [2.0]


def test_debug_print_inside_jit_scan_and_vmap(capsys):
    @jax.jit
    def f(x):
        jax.debug.print("jit {x}", x=x)

        def step(carry, _):
            jax.debug.print("scan {c}", c=carry)
            return carry + 1, None

        return jax.lax.scan(step, x, None, length=2)[0]

    f(1)
    jax.vmap(lambda x: jax.debug.print("vmap {x}", x=x))(jnp.arange(2))
    lines = capsys.readouterr().out.split("\n")
    assert lines[:-1] == ["jit 1", "scan 1", "scan 2", "vmap 0", "vmap 1"]


@pytest.mark.skipif(not hasattr(jnp, "vectorize"), reason="vectorize is not there yet")
def test_vectorize_with_a_signature():
    outer = jnp.vectorize(lambda a, b: a[:, None] * b, signature="(n),(m)->(n,m)")
    assert outer(jnp.ones((5, 2)), jnp.ones(3)).shape == (5, 2, 3)


def test_einsum_with_an_ellipsis():
    x, w = jnp.ones((2, 5, 3)), jnp.arange(12.0).reshape(3, 4)
    out = jnp.einsum("...i,ij->...j", x, w)
    np.testing.assert_allclose(out, np.einsum("...i,ij->...j", x, w))


def test_boolean_masks_outside_jit():
    x = jnp.array([3.0, -1.0, 2.0])
    assert x[x > 0].tolist() == [3.0, 2.0]
    assert x.at[x < 0].set(0.0).tolist() == [3.0, 0.0, 2.0]
    assert jnp.where(x > 0)[0].tolist() == [0, 2]


def test_adding_at_repeated_indices():
    i, j, v = jnp.array([0, 0, 1]), jnp.array([1, 1, 0]), jnp.array([1.0, 2.0, 4.0])
    out = jax.jit(lambda x: x.at[i, j].add(v))(jnp.zeros((2, 2)))
    assert out.tolist() == [[0.0, 3.0], [4.0, 0.0]]
    gradient = jax.grad(lambda v: jnp.sum(jnp.zeros((2, 2)).at[i, j].add(v) ** 2))(v)
    assert gradient.tolist() == [6.0, 6.0, 8.0]


@pytest.mark.parametrize("make", [random.key, random.PRNGKey])
def test_keys_are_split_and_unpacked(make):
    key = make(0)
    key, first, second = random.split(key, 3)
    assert random.normal(first) != random.normal(second)

    @jax.jit
    def f(key):
        a, b = random.split(key)
        return random.uniform(a) + random.uniform(b)

    assert 0 < f(key) < 2


def test_scalar_types_make_arrays():
    x = jnp.float32(3)
    assert isinstance(x, jax.Array) and x.dtype == jnp.float32
    assert jnp.zeros(2, jnp.int32).dtype == "int32"
    assert jnp.ones(1, dtype=float).dtype == jnp.float32
    assert jax.jit(lambda x: x * jnp.bfloat16(2))(jnp.bfloat16(3)).dtype == jnp.bfloat16


def test_array_of_a_list_of_arrays():
    rows = [jnp.arange(2), np.arange(2), [5, 6]]
    assert jnp.array(rows).tolist() == [[0, 1], [0, 1], [5, 6]]
    assert jax.jit(lambda x: jnp.array([x, 2 * x]))(1.0).tolist() == [1.0, 2.0]


def test_type_annotations():
    from functrax.typing import ArrayLike

    def f(x: ArrayLike) -> jax.Array:
        return jnp.asarray(x)

    assert isinstance(f(1.0), jax.Array)
    assert jax.jit(lambda x: isinstance(x, jax.Array) and isinstance(x, jnp.ndarray))(1.0)


def test_users_types_are_arrays():
    class Quantity:
        def __jax_array__(self):
            return jnp.array([1.0, 2.0])

    assert jnp.sum(Quantity()) == 3.0
    assert (jnp.ones(2) + Quantity()).tolist() == [2.0, 3.0]


def test_copies_and_pickles():
    x = {"w": jnp.arange(3, dtype=jnp.bfloat16), "k": random.PRNGKey(1)}
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert other["w"].dtype == jnp.bfloat16
        assert jax.tree.map(np.array_equal, x, other) == {"w": True, "k": True}


def test_a_training_loop():
    @jax.jit
    def update(params, x, y):
        def loss(params):
            for w, b in params[:-1]:
                x_ = jnp.tanh(x @ w + b)
            w, b = params[-1]
            return jnp.mean((x_ @ w + b - y) ** 2)

        value, gradients = jax.value_and_grad(loss)(params)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)

    k1, k2, k3 = random.split(random.PRNGKey(0), 3)
    params = [
        (0.5 * random.normal(k1, (2, 8)), jnp.zeros(8)),
        (0.5 * random.normal(k2, (8, 1)), jnp.zeros(1)),
    ]
    x = random.normal(k3, (16, 2))
    y = x[:, :1] * x[:, 1:]
    values = []
    for _ in range(30):
        value, params = update(params, x, y)
        values.append(float(value))
    assert values[-1] < 0.9 * values[0]


def test_the_methods_of_at():
    x = jnp.array([1.0, 4.0, 9.0])
    at = x.at[1]
    assert at.get() == 4.0
    assert x.at[7].get(mode="fill", fill_value=-1.0) == -1.0
    assert at.set(0).tolist() == [1, 0, 9]
    assert at.add(1).tolist() == [1, 5, 9]
    assert at.subtract(1).tolist() == [1, 3, 9]
    assert at.multiply(2).tolist() == at.mul(2).tolist() == [1, 8, 9]
    assert at.divide(2).tolist() == [1, 2, 9]
    assert at.power(2).tolist() == [1, 16, 9]
    assert at.min(2).tolist() == [1, 2, 9]
    assert at.max(5).tolist() == [1, 5, 9]
    assert at.apply(jnp.sqrt).tolist() == [1, 2, 9]
    assert x.at[5].set(0, mode="drop", unique_indices=True, indices_are_sorted=True).tolist() == [
        1, 4, 9,
    ]  # fmt: skip


def test_updating_the_configuration():
    with pytest.raises(AttributeError, match="enable_x64"):
        jax.config.update("jax_enable_x46", True)
    jax.config.update("jax_debug_nans", True)
    try:
        assert jax.config.jax_debug_nans and jax.config.debug_nans
        with pytest.raises(FloatingPointError):
            jnp.log(-jnp.ones(()))
    finally:
        jax.config.update("debug_nans", False)


@pytest.mark.parametrize("transform", [jax.jit, jax.grad, jax.vmap, jax.make_jaxpr])
def test_no_attribute_of_a_tracer_hides_a_method_of_arrays(transform) -> None:
    seen = []

    def function(x):
        seen.append({name for name in METHODS if callable(getattr(x, name))})
        return x.var() + x.sum()

    transform(function)(jnp.ones((2, 3)) if transform is jax.vmap else jnp.float32(1.0))
    assert seen == [METHODS]


METHODS = {"var", "std", "sum", "mean", "prod", "max", "min", "reshape", "dot", "astype", "take"}
