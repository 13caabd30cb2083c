"""``pure_callback``, ``debug.callback`` and ``debug.print``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.core.options.config import Override
from functrax.errors import ArgumentError, DifferentiationError, DTypeError, ShapeError
from functrax.experimental import io_callback

X = np.arange(6.0, dtype=np.float32).reshape(3, 2)
SCALAR = functrax.ShapeDtypeStruct((), "float32")


class Recorded:
    """A callback that records the shapes it is called with."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.shapes: list[Any] = []

    def __call__(self, *args: Any) -> Any:
        assert all(isinstance(a, functrax.Array) for a in args)
        self.shapes.append(tuple(a.shape for a in args))
        return self.function(*args)


def test_eager_and_jit() -> None:
    callback = Recorded(lambda x: np.sin(x))
    f = lambda x: functrax.pure_callback(callback, SCALAR, x) * 2
    assert float(f(0.5)) == pytest.approx(2 * np.sin(0.5), rel=1e-6)
    jitted = functrax.jit(f)
    assert callback.shapes == [((),)]
    for x in (0.5, 1.0):
        assert float(jitted(x)) == pytest.approx(2 * np.sin(x), rel=1e-6)
    assert callback.shapes == [((),)] * 3


def test_pytrees_and_dtypes() -> None:
    types = {"s": functrax.ShapeDtypeStruct((2,), "float32"), "n": [jnp.zeros((), "int32")]}

    def callback(d: Any, *, k: Any) -> Any:
        return {"s": (d["a"] * k).astype(np.float64), "n": [len(d)]}

    found = functrax.jit(lambda x: functrax.pure_callback(callback, types, {"a": x}, k=3.0))(
        jnp.array([1.0, 2.0])
    )
    np.testing.assert_array_equal(np.asarray(found["s"]), [3.0, 6.0])
    assert found["s"].dtype == np.float32 and int(found["n"][0]) == 1


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(
    ("method", "shapes"),
    [
        ("sequential", [((2,), ())] * 3),
        ("sequential_unrolled", [((2,), ())] * 3),
        ("expand_dims", [((3, 2), (1,))]),
        ("broadcast_all", [((3, 2), (3,))]),
    ],
)
def test_vmap_methods(method: str, shapes: Any, jit: bool) -> None:
    callback = Recorded(lambda x, y: np.asarray(x * np.asarray(y)[..., None], np.float32))
    struct = functrax.ShapeDtypeStruct((2,), "float32")

    def f(x: Any, y: Any) -> Any:
        return functrax.pure_callback(callback, struct, x, y, vmap_method=method)

    g = functrax.vmap(f, in_axes=(0, None))
    found = (functrax.jit(g) if jit else g)(X, 2.0)
    np.testing.assert_array_equal(np.asarray(found), 2 * X)
    assert callback.shapes == shapes


def test_nested_vmap() -> None:
    callback = Recorded(lambda x: np.float32(x.sum()))
    f = lambda x: functrax.pure_callback(callback, SCALAR, x, vmap_method="sequential")
    found = functrax.vmap(functrax.vmap(f))(X.reshape(3, 2, 1))
    np.testing.assert_array_equal(np.asarray(found), X)
    assert callback.shapes == [((1,),)] * 6


def test_unmapped_arguments_call_once() -> None:
    callback = Recorded(lambda x: np.float32(x))
    found = functrax.vmap(lambda x: x + functrax.pure_callback(callback, SCALAR, 2.0))(X)
    np.testing.assert_array_equal(np.asarray(found), X + 2)
    assert callback.shapes == [((),)]


def test_derivatives_by_custom_jvp() -> None:
    @functrax.custom_jvp
    def sine(x: Any) -> Any:
        struct = functrax.ShapeDtypeStruct(x.shape, x.dtype)
        return functrax.pure_callback(np.sin, struct, x, vmap_method="expand_dims")

    sine.defjvp(lambda p, t: (sine(p[0]), t[0] * jnp.cos(p[0])))
    x = jnp.asarray(X)
    for f in (sine, functrax.jit(sine), functrax.vmap(sine), functrax.checkpoint(sine)):
        found = functrax.jit(functrax.grad(lambda x, f=f: jnp.sum(f(x))))(x)
        np.testing.assert_allclose(np.asarray(found), np.cos(X), rtol=1e-6)


def test_differentiation_is_refused_unless_the_tangent_is_zero() -> None:
    f = lambda x: functrax.pure_callback(np.sin, SCALAR, x)
    for g in (functrax.grad(f), functrax.grad(functrax.jit(f))):
        with pytest.raises(DifferentiationError, match=r"the callback sin(.|\n)*custom_jvp"):
            g(1.0)
    stopped = lambda x: x * f(functrax.lax.stop_gradient(x))
    assert float(functrax.grad(stopped)(1.0)) == pytest.approx(np.sin(1.0), rel=1e-6)


def test_wrong_results_and_options() -> None:
    with pytest.raises(ShapeError, match="another shape than declared"):
        functrax.pure_callback(lambda x: np.ones(3, np.float32), SCALAR, 1.0)
    with pytest.raises(ShapeError, match=r"another number of arrays\n  got   2, where 1"):
        functrax.jit(lambda x: functrax.pure_callback(lambda x: (x, x), SCALAR, x))(1.0)
    with pytest.raises(ArgumentError, match="unknown vmap_method"):
        functrax.pure_callback(np.sin, SCALAR, 1.0, vmap_method="loop")
    with pytest.raises(ArgumentError, match="has no vmap_method"):
        functrax.vmap(lambda x: functrax.pure_callback(np.sin, SCALAR, x))(jnp.ones(2))
    with pytest.raises(DTypeError, match="an argument of pure_callback"):
        functrax.pure_callback(np.sin, SCALAR, "text")


def test_exceptions_of_callbacks_come_through() -> None:
    def broken(x: Any) -> Any:
        raise KeyError("inside")

    f = functrax.jit(lambda x: functrax.pure_callback(broken, SCALAR, x))
    for _ in range(2):
        with pytest.raises(KeyError, match="inside"):
            float(f(1.0))
    assert float(functrax.jit(lambda x: x + 1)(1.0)) == 2.0


def test_callbacks_may_use_functrax() -> None:
    inner = functrax.jit(lambda x: jnp.sum(jnp.sin(x)))

    def callback(x: Any) -> Any:
        return np.asarray(functrax.grad(inner)(x))

    struct = functrax.ShapeDtypeStruct((2,), "float32")
    f = lambda x: functrax.pure_callback(callback, struct, x, vmap_method="sequential")
    for g in (functrax.vmap(f), functrax.jit(functrax.vmap(functrax.jit(f)))):
        np.testing.assert_allclose(np.asarray(g(X)), np.cos(X), rtol=1e-6)


def test_debug_callbacks_may_use_functrax_and_run_in_order() -> None:
    seen: list[Any] = []
    slope = functrax.jit(functrax.grad(lambda x: x**3))

    def record(tag: str, x: Any) -> None:
        seen.append((tag, float(slope(jnp.asarray(x)))))

    def f(x: Any) -> Any:
        functrax.debug.callback(record, "before", x)
        y = x * 2
        functrax.debug.callback(record, "after", y)
        return y

    functrax.jit(f)(1.0)
    functrax.grad(functrax.jit(f))(1.0)
    functrax.grad(f)(1.0)
    assert seen == [("before", 3.0), ("after", 12.0)] * 3
    seen.clear()
    functrax.vmap(f)(jnp.array([1.0, 2.0]))
    assert seen == [("before", 3.0), ("before", 12.0), ("after", 12.0), ("after", 48.0)]


@pytest.mark.parametrize("backend", ["llvm", "cuda"])
def test_callbacks_outside_of_jit_in_strict_mode(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUNCTRAX_CUDA_DRIVER", "simulated")
    seen: list[float] = []
    with functrax.backend(backend), Override("strict", True):
        functrax.debug.callback(lambda x: seen.append(float(x)), jnp.float32(2.0) * 2)
    assert seen == [4.0]


def test_print_eager_jit_grad(capsys: Any) -> None:
    def f(x: Any) -> Any:
        functrax.debug.print("x={x} {} {n}", x * 2, x=x, n="text")
        return jnp.sum(x * x)

    f(jnp.array(3.0))
    assert capsys.readouterr().out == "x=3.0 6.0 text\n"
    jitted = functrax.jit(f)
    assert capsys.readouterr().out == ""
    jitted(3.0)
    jitted(4.0)
    assert capsys.readouterr().out == "x=3.0 6.0 text\nx=4.0 8.0 text\n"
    for g in (functrax.grad(f), functrax.grad(jitted), functrax.jit(functrax.grad(jitted))):
        assert float(g(3.0)) == 6.0
        assert capsys.readouterr().out == "x=3.0 6.0 text\n"
    functrax.value_and_grad(functrax.checkpoint(f))(3.0)
    assert capsys.readouterr().out.startswith("x=3.0 6.0 text\n")


def test_print_under_vmap(capsys: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        functrax.debug.print("{x} {y}", x=x, y=y)
        return x

    for g in (functrax.vmap(f, (0, None)), functrax.jit(functrax.vmap(f, (0, None)))):
        g(jnp.array([1.0, 2.0]), 7.0)
        assert capsys.readouterr().out == "1.0 7.0\n2.0 7.0\n"
    functrax.vmap(functrax.grad(lambda x: f(x, 1.0) * x))(jnp.array([1.0, 2.0]))
    assert capsys.readouterr().out == "1.0 1.0\n2.0 1.0\n"


def test_print_is_not_shared_and_not_dropped(capsys: Any) -> None:
    @functrax.jit
    def f(x: Any) -> Any:
        for _ in range(3):
            functrax.debug.print("same")
        functrax.jit(lambda y: functrax.debug.print("inner {}", y))(x)
        return 1.0

    f(2.0)
    assert capsys.readouterr().out == "same\nsame\nsame\ninner 2.0\n"


def test_print_checks_its_format() -> None:
    for arguments, options in (
        (("{}",), {}),
        (("{x}",), {}),
        (("no field", 1.0), {}),
        (("{}", 1, 2), {}),
    ):
        with pytest.raises(ArgumentError, match="do not go together"):
            functrax.debug.print(*arguments, **options)


def test_io_callbacks_run_once_each_and_in_order() -> None:
    seen: list[float] = []
    shape = functrax.ShapeDtypeStruct((), "float32")

    def count(x: Any) -> Any:
        seen.append(float(x))
        return np.float32(len(seen))

    def f(x: Any) -> Any:
        first, second = io_callback(count, shape, x), io_callback(count, shape, x, ordered=True)
        io_callback(count, shape, x + 1)
        return 10 * first + second

    for g in (f, functrax.jit(f), functrax.jit(f)):
        seen.clear()
        assert (float(g(1.0)), seen) == (12.0, [1, 1, 2])
    seen.clear()
    assert functrax.jit(functrax.vmap(f))(jnp.arange(2.0)).tolist() == [13.0, 24.0]
    assert seen == [0, 1, 0, 1, 1, 2]
    seen.clear()
    loop = functrax.jit(
        lambda n: lax.fori_loop(0, n, lambda i, c: c + io_callback(count, shape, i), 0.0)
    )
    assert (float(loop(3)), seen) == (6.0, [0, 1, 2])
    assert functrax.jit(lambda x: io_callback(lambda _: None, None, x))(1.0) is None
    with pytest.raises(DifferentiationError, match="io_callback"):
        functrax.grad(f)(1.0)


def test_choices_by_element_do_not_call_for_all() -> None:
    def chosen(pred: Any) -> Any:
        yes, no = (lambda: io_callback(print, None) for _ in range(2))
        return functrax.lax.cond(pred, yes, no)

    with pytest.raises(NotImplementedError, match="IO effect not supported in vmap-of-cond"):
        functrax.vmap(chosen)(np.array([True, False]))

    def looped(i: Any) -> Any:
        def body(i: Any) -> Any:
            io_callback(print, None, i)
            return i + 1

        return functrax.lax.while_loop(lambda i: i < 5, body, i)

    with pytest.raises(NotImplementedError, match="while_loop with batched predicate"):
        functrax.vmap(looped)(np.arange(2))
