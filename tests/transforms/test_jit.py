"""``jit``: signatures, static and donated arguments, nesting, soundness after exceptions."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import math
import threading
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.errors import ArgumentError, DonatedBufferError, DTypeError, StaticArgumentError


class Counted:
    """A function that counts how often it is traced."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.count = 0
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return self.function(*args, **kwargs)


def test_signature_is_shape_dtype_weak_type_and_structure() -> None:
    traced = Counted(lambda x: functrax.tree_util.tree_map(lambda y: y * 2, x))
    f = functrax.jit(traced)
    x = jnp.ones(3)
    calls: list[tuple[Any, int]] = [
        (x, 1),
        (jnp.zeros(3), 1),
        (np.ones(3, np.float32), 1),
        (jnp.ones(4), 2),
        (jnp.ones((3, 1)), 3),
        (jnp.ones(3, "int32"), 4),
        (1.0, 5),
        (2.0, 5),
        (jnp.array(1.0, "float32"), 6),
        (1, 7),
        (True, 8),
        ((x, x), 9),
        ([x, x], 10),
        ({"a": x}, 11),
        ({"b": x}, 12),
        (None, 13),
        ((x, x), 13),
    ]
    for argument, count in calls:
        f(argument)
        assert traced.count == count, argument
    assert float(f(2.0)) == 4.0 and int(f(True)) == 2
    info = f.cache_info()
    assert (info.misses, info.currsize) == (13, 13) and info.hits == len(calls) + 2 - 13


def test_x64_is_part_of_the_signature() -> None:
    traced = Counted(lambda: jnp.arange(3.0) * np.float64(0.1))
    f = functrax.jit(traced)
    assert f().dtype == np.float32
    with functrax.enable_x64():
        assert f().dtype == np.float64
        assert f().dtype == np.float64
    assert f().dtype == np.float32
    assert traced.count == 2


def test_keyword_arguments_are_part_of_the_structure() -> None:
    traced = Counted(lambda x, y=10.0: x + y)
    f = functrax.jit(traced)
    assert [float(f(1.0)), float(f(1.0, 2.0)), float(f(1.0, y=2.0)), float(f(y=3.0, x=1.0))] == [
        11.0,
        3.0,
        3.0,
        4.0,
    ]
    assert traced.count == 4
    f(x=5.0, y=6.0)
    assert traced.count == 4  # the order of keywords does not matter


def test_static_argnums() -> None:
    traced = Counted(lambda x, n, op: x**n if op == "pow" else x * n)
    f = functrax.jit(traced, static_argnums=(1, 2))
    x = jnp.array(3.0)
    assert float(f(x, 2, "pow")) == 9.0 and float(f(x, 2, "mul")) == 6.0
    assert float(f(x + 1, 2, "pow")) == 16.0
    assert traced.count == 2
    f(x, 2.0, "pow")  # equal, but of another type
    f(x, True, "mul")
    assert traced.count == 4


def test_static_argnums_negative_and_defaults() -> None:
    def power(x: Any, n: int = 2) -> Any:
        assert isinstance(n, int)
        return x**n

    for options in ({"static_argnums": 1}, {"static_argnums": -1}, {"static_argnames": "n"}):
        f = functrax.jit(power, **options)
        x = jnp.array(3.0)
        assert float(f(x)) == 9.0
        assert float(f(x, 3)) == 27.0
        assert float(f(x, n=4)) == 81.0
        assert float(f(n=3, x=x)) == 27.0


def test_static_argnames_with_keyword_only_and_variadic_functions() -> None:
    @functools.partial(functrax.jit, static_argnames=("axis", "mode"))
    def f(x: Any, *rest: Any, axis: int, mode: str = "sum") -> Any:
        reduce = {"sum": jnp.sum, "max": jnp.max}[mode]
        return reduce(x, axis=axis) + sum(rest)

    x = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(np.asarray(f(x, axis=0)), [4.0, 6.0])
    np.testing.assert_array_equal(np.asarray(f(x, 1.0, 2.0, axis=1, mode="max")), [5.0, 7.0])
    g = functrax.jit(lambda *args: args[0] * args[-1], static_argnums=-1)
    assert float(g(2.0, 3)) == 6.0 and float(g(2.0, None, 4)) == 8.0


def test_static_positions_and_names_stand_for_themselves() -> None:
    def inner(x: Any, y: Any, mode: str) -> Any:
        return x

    @functools.partial(functrax.jit, static_argnums=0, static_argnames="mode")
    @functools.wraps(inner)
    def f(key: Any, x: Any, y: Any, *rest: Any, mode: str) -> Any:
        assert isinstance(y, functrax.Array)  # though "mode" is third in the signature
        return x + y + len(mode) + len(key)

    assert float(f("k", 1.0, jnp.array(2.0), mode="ab")) == 6.0


def test_static_arguments_that_do_not_work() -> None:
    f = functrax.jit(lambda x, n: x, static_argnums=1)
    with pytest.raises(StaticArgumentError, match=r"cannot be hashed\n  got   position 1 is \[1\]"):
        f(1.0, [1])
    with pytest.raises(StaticArgumentError, match="cannot be hashed"):
        f(1.0, jnp.ones(2))
    with pytest.raises(StaticArgumentError, match="static_argnums 2 is out of range"):
        functrax.jit(lambda x, n: x, static_argnums=2)
    with pytest.raises(StaticArgumentError, match=r"static_argnames.*'m'"):
        functrax.jit(lambda x, n: x, static_argnames=("n", "m"))
    with pytest.raises(ArgumentError, match="static_argnums holds 'n'"):
        functrax.jit(lambda x, n: x, static_argnums=("n",))
    with pytest.raises(StaticArgumentError, match="both static and donated"):
        functrax.jit(lambda x, n: x, static_argnums=0, donate_argnames="x")


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_donation_deletes_and_reuse_is_an_error() -> None:
    f = functrax.jit(lambda x, y: x[:, None] * y, donate_argnums=0)
    x, y = jnp.arange(4.0), jnp.arange(3.0)
    result = f(x, y)
    assert x.is_deleted() and not y.is_deleted()
    np.testing.assert_array_equal(np.asarray(result), np.outer(np.arange(4.0), np.arange(3.0)))
    for use in (lambda: x + 1, lambda: np.asarray(x), lambda: f(x, y), lambda: float(x[0])):
        with pytest.raises(DonatedBufferError) as info:
            use()
        lines = str(info.value).splitlines()
        assert (
            lines[0] == "Array has been deleted: an array was used after it was deleted or donated"
        )
        assert lines[1] == "  got   f32[4]"
        assert lines[2].startswith("  at    test_jit.py:")
        assert lines[3].startswith("  try   use the result of the call that it was donated to")
    assert isinstance(info.value, RuntimeError)


def test_donation_by_name_of_pytrees_and_inside_other_calls() -> None:
    update = functrax.jit(
        lambda params, grads: functrax.tree_util.tree_map(lambda p, g: p - g, params, grads),
        donate_argnames="params",
    )
    params = {"w": jnp.ones(3), "b": [jnp.ones(2)]}
    fresh = update(params=params, grads=params)
    assert params["w"].is_deleted() and params["b"][0].is_deleted()
    np.testing.assert_array_equal(np.asarray(fresh["w"]), np.zeros(3))
    kept = jnp.ones(3)
    outer = functrax.jit(lambda x: update({"w": x}, {"w": x})["w"] + x)
    np.testing.assert_array_equal(np.asarray(outer(kept)), np.ones(3))
    assert not kept.is_deleted()


def test_donated_argument_that_is_returned_stays() -> None:
    f = functrax.jit(lambda x, y: (x, x + y), donate_argnums=0)
    x = jnp.ones(3)
    same, total = f(x, 1.0)
    np.testing.assert_array_equal(np.asarray(same), np.ones(3))
    np.testing.assert_array_equal(np.asarray(total), 2 * np.ones(3))


def test_nested_jit_stays_a_call_and_inline_does_not() -> None:
    inner = functrax.jit(lambda x: jnp.sin(x) * 2)
    closed = functrax.make_jaxpr(lambda x: inner(x) + inner(x + 1))(1.0)
    names = [e.primitive.name for e in closed.eqns]
    assert names.count("jit") == 2 and "sin" not in names
    first, second = (e.params["jaxpr"] for e in closed.eqns if e.primitive.name == "jit")
    assert first is second
    inlined = functrax.jit(lambda x: jnp.sin(x) * 2, inline=True)
    closed = functrax.make_jaxpr(lambda x: inlined(x))(1.0)
    assert [e.primitive.name for e in closed.eqns] == ["sin", "mul"]
    assert float(inlined(1.0)) == pytest.approx(2 * np.sin(1.0), rel=1e-6)
    assert float(functrax.grad(inlined)(1.0)) == pytest.approx(2 * np.cos(1.0), rel=1e-6)


def test_named_call_names_what_is_in_it() -> None:
    f = functrax.named_call(lambda g, x: g(x) * 2, name="doubling")
    closed = functrax.make_jaxpr(lambda x: f(jnp.sin, x) + 1)(1.0)
    lines = [line for line in str(closed).splitlines() if "doubling" in line]
    assert len(lines) == 2 and "sin" in lines[0] and "mul" in lines[1]
    assert functrax.named_call(math.hypot)(3, 4) == 5


def test_methods_partials_callable_objects_and_closures() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @functools.partial(functrax.jit, static_argnums=0)
        def apply(self, x: Any) -> Any:
            return x * self.scale

        def __call__(self, x: Any) -> Any:
            return x + self.scale

    model = Model(3.0)
    assert float(model.apply(2.0)) == 6.0 and float(Model(5.0).apply(2.0)) == 10.0
    assert float(functrax.jit(model)(2.0)) == 5.0
    assert float(functrax.jit(model.__call__)(2.0)) == 5.0
    assert float(functrax.jit(functools.partial(lambda a, b: a - b, b=1.0))(3.0)) == 2.0
    assert float(functrax.jit(functools.partial(lambda a, b: a - b, 1.0))(3.0)) == -2.0
    c = jnp.array([1.0, 2.0])
    np.testing.assert_array_equal(np.asarray(functrax.jit(lambda x: x * c)(2.0)), [2.0, 4.0])


def test_derivatives_of_nested_jits() -> None:
    inner = functrax.jit(lambda x: jnp.sin(x) * x)
    f = functrax.jit(lambda x: inner(x) ** 2)
    x = 0.7
    s, c = np.sin(x), np.cos(x)
    first = 2 * s * x * (c * x + s)
    second = 2 * (c * x + s) ** 2 + 2 * s * x * (2 * c - s * x)
    with functrax.enable_x64():
        assert float(functrax.jit(functrax.grad(f))(x)) == pytest.approx(first, rel=1e-12)
        twice = functrax.jit(functrax.grad(functrax.jit(functrax.grad(f))))
        assert float(twice(x)) == pytest.approx(second, rel=1e-12)
        assert float(functrax.jacfwd(functrax.jit(functrax.grad(f)))(x)) == pytest.approx(second)


def test_outputs_of_every_kind() -> None:
    c = jnp.array([1.0, 2.0])

    def f(x: Any, y: Any) -> Any:
        z = x + 1
        return x, y, z, z, c, 3.0, None, (), {"x": x, "list": [c, c]}, np.float32(2.5), True

    found = functrax.jit(f)(jnp.array(1.0), jnp.array([5.0]))
    assert [float(v) for v in found[:4] if v.shape == ()] == [1.0, 2.0, 2.0]
    np.testing.assert_array_equal(np.asarray(found[4]), [1.0, 2.0])
    assert float(found[5]) == 3.0 and found[6] is None and found[7] == ()
    np.testing.assert_array_equal(np.asarray(found[8]["list"][1]), [1.0, 2.0])
    assert float(found[9]) == 2.5 and bool(found[10]) is True
    assert all(isinstance(v, functrax.Array) for v in (found[5], found[9], found[10]))
    assert functrax.jit(lambda: None)() is None
    assert functrax.jit(lambda: ())() == ()
    assert functrax.jit(dict)() == {}


def test_result_that_is_not_an_array() -> None:
    with pytest.raises(DTypeError, match="a result of words is not an array"):

        def words(x: Any) -> Any:
            return "text"

        functrax.jit(words)(1.0)


def test_exceptions_leave_everything_as_it_was() -> None:
    broken = [True]

    @functrax.jit
    def inner(x: Any) -> Any:
        y = jnp.sin(x)
        if broken[0]:
            raise RuntimeError("midway")
        return y

    transforms: list[Any] = [
        inner,
        functrax.jit(lambda x: inner(x) * 2),
        functrax.grad(lambda x: inner(x) * 2),
        functrax.vmap(lambda x: functrax.grad(inner)(x) + x),
        functrax.jit(functrax.vmap(functrax.jit(functrax.grad(inner)))),
        functrax.checkpoint(lambda x: inner(x)),
        lambda x: functrax.linearize(inner, x)[0],
        functrax.jacfwd(lambda x: inner(x)),
        lambda x: functrax.jvp(inner, (x,), (x,))[0],
    ]
    arguments = [jnp.ones(3) if i in (3, 4) else jnp.array(1.0) for i in range(len(transforms))]
    for f, x in zip(transforms, arguments):
        with pytest.raises(RuntimeError, match="midway"):
            f(x)
        assert float(jnp.array(2.0) * 3) == 6.0
        assert float(functrax.jit(lambda x: x + 1)(1.0)) == 2.0
    broken[0] = False
    assert inner.cache_info().currsize == 0
    for f, x in zip(transforms, arguments):
        f(x)
    assert float(inner(jnp.array(1.0))) == pytest.approx(np.sin(1.0), rel=1e-6)


def test_recursion() -> None:
    @functools.partial(functrax.jit, static_argnums=1)
    def power(x: Any, n: int) -> Any:
        return x if n == 1 else x * power(x, n - 1)

    assert float(power(2.0, 6)) == 64.0
    assert float(functrax.grad(power)(2.0, 6)) == 6 * 32.0

    @functrax.jit
    def total(x: Any) -> Any:
        half = x.shape[0] // 2
        return x[0] if half == 0 else total(x[:half]) + total(x[half:])

    assert float(total(jnp.arange(8.0))) == 28.0
    endless = functrax.jit(lambda x: endless(x) + 1)
    with pytest.raises(RecursionError):
        endless(1.0)
    assert float(power(3.0, 2)) == 9.0


def test_disable_jit_runs_python() -> None:
    seen: list[Any] = []

    @functrax.jit
    def f(x: Any) -> Any:
        seen.append(x)
        return x * 2 if x > 0 else x

    with functrax.disable_jit():
        assert float(f(jnp.array(3.0))) == 6.0
        assert float(f(jnp.array(4.0))) == 8.0
    assert [float(x) for x in seen] == [3.0, 4.0]


def test_clear_caches() -> None:
    traced = Counted(lambda x: x * 2)
    f = functrax.jit(traced)
    f(1.0)
    f.clear_cache()
    f(1.0)
    functrax.clear_caches()
    f(1.0)
    assert traced.count == 3 and f.cache_info().currsize == 1


def test_threads() -> None:
    f = functrax.jit(lambda x: jnp.sum(jnp.sin(x) * x))
    g = functrax.jit(functrax.vmap(functrax.grad(f)))
    inputs = [np.full((2, 5), 0.1 * k, np.float32) for k in range(24)]
    wanted = [np.cos(x) * x + np.sin(x) for x in inputs]
    errors: list[BaseException] = []
    start = threading.Barrier(8)

    def work() -> None:
        try:
            start.wait()
            for _ in range(5):
                for x, w in zip(inputs, wanted):
                    np.testing.assert_allclose(np.asarray(g(x)), w, rtol=1e-5)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert g.cache_info().currsize == 1


def test_captured_tracers_of_outer_transformations_are_not_kept() -> None:
    inners: list[Any] = []

    def outer(y: Any) -> Any:
        inner = functrax.jit(lambda x: x * y)
        inners.append(inner)
        return inner(2.0) + inner(3.0)

    assert float(functrax.grad(outer)(7.0)) == 5.0
    assert float(functrax.jit(outer)(7.0)) == 35.0
    found = functrax.vmap(outer)(jnp.array([1.0, 2.0]))
    np.testing.assert_array_equal(np.asarray(found), [5.0, 10.0])
    assert all(inner.cache_info().currsize == 0 for inner in inners)


def test_one_inner_function_closes_over_different_outer_values() -> None:
    box: list[Any] = [None]
    inner = functrax.jit(lambda x: x * box[0])

    def outer(y: Any) -> Any:
        box[0] = y
        return inner(2.0)

    assert float(functrax.grad(outer)(3.0)) == 2.0
    assert float(functrax.grad(functrax.grad(lambda y: outer(y) * y))(3.0)) == 4.0
    assert float(functrax.jit(outer)(5.0)) == 10.0
    box[0] = None


def test_a_dead_jitted_function_frees_its_constants() -> None:
    def use(c: Any) -> None:
        f = functrax.jit(lambda x: x + c)
        f(1.0)
        functrax.grad(lambda x: jnp.sum(f(x)))(1.0)
        functrax.vmap(f)(jnp.ones(2))

    c = jnp.ones(1000)
    alive = weakref.ref(c)
    use(c)
    del c
    gc.collect()
    assert alive() is None


def test_jit_of_jit_and_decorator_forms() -> None:
    @functrax.jit
    @functools.partial(functrax.jit, static_argnames="n")
    def f(x: Any, n: int = 3) -> Any:
        """Adds."""
        return x + n

    assert float(f(1.0)) == 4.0
    assert f.__name__ == "f" and f.__doc__ == "Adds." and repr(f) == "<jit of f>"

    @functrax.jit(static_argnames="n")
    def g(x: Any, n: int = 3) -> Any:
        return x * n

    assert float(g(2.0)) == 6.0
    with pytest.raises(ArgumentError, match="jit: the first argument is not a function"):
        functrax.jit(3)


def test_no_arguments_and_many_arguments() -> None:
    assert float(functrax.jit(lambda: jnp.array(2.0) * 3)()) == 6.0
    many = functrax.jit(lambda *xs: sum(xs[1:], xs[0]))
    assert float(many(*[1.0] * 200)) == 200.0
    tree = {f"k{i}": [jnp.array(float(i)), (None, i)] for i in range(500)}
    doubled = functrax.jit(lambda t: functrax.tree_util.tree_map(lambda x: x * 2, t))(tree)
    assert float(doubled["k499"][0]) == 998.0 and int(doubled["k499"][1][1]) == 998


@pytest.mark.parametrize(
    "copied", [jnp.array, jnp.copy, lambda x: x.copy(), lambda x: jnp.asarray(x, copy=True)]
)
def test_a_copy_stays_when_the_first_is_donated(copied: Any) -> None:
    for x in (jnp.arange(4.0), jnp.arange(4.0) + 0):
        kept = copied(x)
        y = functrax.jit(lambda a: a.at[0].set(77.0), donate_argnums=0)(x)
        assert x.is_deleted() and not kept.is_deleted()
        assert y.tolist() == [77, 1, 2, 3] and kept.tolist() == [0, 1, 2, 3]
        with pytest.raises(DonatedBufferError):
            copied(x)


def test_generators_and_static_methods_are_refused() -> None:
    def generator(x: Any) -> Any:
        yield x

    with pytest.raises(TypeError, match="Expected a function, got a generator function"):
        functrax.jit(generator)
    with pytest.raises(TypeError, match="staticmethod arguments are not supported"):
        functrax.jit(staticmethod(lambda x: x))


def test_a_result_that_is_no_array_is_named_by_its_place() -> None:
    with pytest.raises(TypeError, match=r"returned a value of type .*str.* component \[1\]\['k'\]"):
        functrax.jit(lambda x: (x, {"k": "text"}))(1.0)


def test_the_signature_is_the_function_s_own() -> None:
    def f(x: Any, *, y: int = 1) -> Any:
        return x

    for follow_wrapped in (True, False):
        found = inspect.signature(functrax.jit(f), follow_wrapped=follow_wrapped)
        assert found == inspect.signature(f)


def test_a_traced_value_is_its_own_copy() -> None:
    @functrax.jit
    def f(x: Any) -> Any:
        assert copy.copy(x) is x
        return copy.deepcopy({"x": x})["x"] + 1

    assert float(f(1.0)) == 2.0


@pytest.mark.parametrize(("size", "said"), [(0, "an empty array"), (2, "more than one element")])
def test_arrays_without_one_element_have_no_truth_value(size: int, said: str) -> None:
    for run in (bool, functrax.jit(bool)):
        with pytest.raises(ValueError, match=said):
            run(jnp.zeros(size))


def test_donated_arrays_that_no_result_can_take_are_named_once() -> None:
    f = functrax.jit(lambda x, y: x + jnp.sum(y), donate_argnums=(0, 1))
    with pytest.warns(UserWarning, match=r"donated buffers were not usable: f32\[10\]"):
        f(jnp.array(1.0), jnp.ones(10))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(jnp.array(1.0), jnp.ones(10))
        functrax.jit(lambda x, y: (y, x + 1), donate_argnums=(0, 1))(jnp.ones(2), jnp.ones(3))
