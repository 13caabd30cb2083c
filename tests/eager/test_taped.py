"""Gradients outside of ``jit``: what the tape gives, ordinary interpreters give, bit for bit."""

from __future__ import annotations

import copy
import gc
import inspect
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax, nn
from functrax.core import native
from functrax.core.options.config import Override
from functrax.core.tracing.trace import EVAL, current_trace
from functrax.transforms.differentiation import cached_linearization
from functrax.transforms.interpreters.forward import JVPTracer

needs_extension = pytest.mark.skipif(native.extension is None, reason="there is no tape")


@functrax.custom_jvp
def own_forward(x: Any) -> Any:
    return jnp.sin(x)


@own_forward.defjvp
def _own_forward_rule(primals: Any, tangents: Any) -> Any:
    return own_forward(primals[0]), 2 * tangents[0]


@functrax.custom_vjp
def own_backward(x: Any) -> Any:
    return jnp.sin(x)


own_backward.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (3 * ct * x,))


def _looks(x: Any) -> Any:
    y = x * 2
    return jnp.sum(y * y if float(y[0, 0]) > 0 else jnp.exp(y))


def _loops(x: Any) -> Any:
    while jnp.max(jnp.abs(x)) > 1:
        x = x / 2
    return jnp.sum(x * x)


def _closes_over(x: Any) -> Any:
    inner = functrax.grad(lambda y: jnp.sum(jnp.sin(y) * x))(x * 2)
    return jnp.sum(inner * x)


def _strict_within(x: Any) -> Any:
    with Override("strict", not functrax.config.strict):
        y = jnp.exp(x) * x
    return jnp.sum(y * x)


def _reuses_tangents(x: Any) -> Any:
    y = x + 1.5  # shares its tangent with x
    z = y - 2
    return jnp.sum(y * 0.3 + x * 0.7 + z * y + jnp.positive(x) * 1.1)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: jnp.sum(jnp.tanh(x) * x / (1 + x * x) - x**3 + 2.0 ** (0.1 * x)),
    "products": lambda x: jnp.sum((x @ x.T) @ jnp.dot(x, x.sum(axis=0))),
    "einsum": lambda x: jnp.einsum("ij,kj->", x, x * 2),
    "broadcasting": lambda x: jnp.mean((x - x.mean(axis=0)) ** 2 * x[0] + x[:, 1:2]),
    "choices": lambda x: jnp.where(x > 0, x, jnp.maximum(0.1 * x, -1)).sum(),
    "same operand": lambda x: jnp.sum(jnp.multiply(x, x) + jnp.add(x, x) + jnp.arctan2(x, x)),
    "indexing": lambda x: jnp.sum(x[1:, ::2] * x[:-1, 1::2]) + x.at[0].multiply(2.0)[0, 1],
    "sorted": lambda x: jnp.sum(jnp.sort(x, axis=1) * jnp.arange(x.shape[1])),
    "several results": lambda x: jnp.sum(jnp.linalg.qr(x @ x.T + jnp.eye(4))[1]),
    "cumulative": lambda x: jnp.cumsum(x, axis=0)[-1].prod() + lax.cummax(x, axis=1).sum(),
    "activations": lambda x: jnp.sum(nn.relu(x) * nn.gelu(x) + nn.silu(x) - nn.softplus(x)),
    "softmax": lambda x: jnp.sum(nn.log_softmax(x) * nn.softmax(x * 2, axis=0)),
    "logsumexp": lambda x: nn.logsumexp(x, axis=1).var(),
    "labels": lambda x: -jnp.mean(nn.log_softmax(x)[jnp.arange(4), np.arange(4) % 3]),
    "stopped": lambda x: jnp.sum(lax.stop_gradient(x) * x + jnp.floor(x) * jnp.sign(x)),
    "integers": lambda x: jnp.sum(x * jnp.argmax(x, axis=1, keepdims=True) + (x > 0)),
    "no dependence": lambda x: jnp.sum(jnp.ones(3)),
    "identity": lambda x: x[0, 0],
    "shared tangents": _reuses_tangents,
    "a look": _looks,
    "a loop of Python's": _loops,
    "a jitted function": lambda x: jnp.sum(functrax.jit(lambda y: jnp.sin(y) * y)(x) * x),
    "a scan": lambda x: lax.scan(lambda c, r: (c * 0.5 + r.sum(), c), 0.0, x)[0],
    "a while": lambda x: jnp.sum(lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x)),
    "a checkpoint": lambda x: jnp.sum(functrax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x) * x),
    "custom_jvp": lambda x: jnp.sum(own_forward(x * 2) * x),
    "custom_vjp": lambda x: jnp.sum(own_backward(x * 2) * x),
    "vmap": lambda x: jnp.sum(functrax.vmap(lambda r: r * r.max())(x) * x),
    "second order": lambda x: jnp.sum(functrax.grad(lambda y: jnp.sum(jnp.sin(y) * y))(x) * x),
    "third order": lambda x: functrax.grad(
        lambda y: jnp.sum(functrax.grad(lambda z: jnp.sum(z**4))(y) ** 2)
    )(x).sum(),
    "a closure": _closes_over,
    "forward inside": lambda x: jnp.sum(functrax.jvp(jnp.tanh, (x,), (x * 2,))[1]),
    "memory of NumPy's": lambda x: jnp.sum(x * np.linspace(0, 1, 6, dtype=np.float32)),
    "another mode": _strict_within,
    "complex": lambda x: jnp.sum(jnp.abs(jnp.exp(1j * x) * x)),
    "half": lambda x: jnp.sum(x.astype(jnp.float16) * 2).astype(jnp.float32),
}  # fmt: skip


#: What is compared by default; ``-m slow`` compares all.
BY_DEFAULT = {
    "products", "same operand", "several results", "labels", "stopped", "shared tangents",
    "a look", "a jitted function", "custom_jvp", "custom_vjp", "second order", "a closure",
    "memory of NumPy's",
}  # fmt: skip


def point(side: int = 6) -> Any:
    return jnp.asarray(np.random.default_rng(3).standard_normal((4, side), np.float32))


def without_a_tape(monkeypatch: Any) -> None:
    monkeypatch.setattr(
        cached_linearization, "gradient", lambda wanted, args, kwargs: NotImplemented
    )


def leaves(x: Any) -> list[Any]:
    return [(a.dtype, a.weak_type, np.asarray(a).tobytes()) for a in functrax.tree.leaves(x)]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - {"another mode"}))
def test_the_same_bits_as_at_once(name: str) -> None:
    """pytest -m slow tests/eager/test_taped.py; about half a minute."""
    function = functrax.value_and_grad(FUNCTIONS[name])
    with Override("strict", True):
        with functrax.eager("immediate"):
            expected = leaves(function(point()))
        assert [leaves(function(point())) for _ in range(3)] == [expected] * 3
    found = [leaves(function(point())) for _ in range(3)]
    assert found == [found[0]] * 3
    with functrax.eager("immediate"):
        for (_, _, x), (_, _, y) in zip(leaves(function(point())), found[0], strict=True):
            pair = [np.frombuffer(b, np.float32) for b in (x, y)]
            np.testing.assert_allclose(*pair, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in BY_DEFAULT else pytest.mark.slow) for n in FUNCTIONS],
)
def test_the_same_bits_as_without_a_tape(name: str, monkeypatch: Any) -> None:
    function = functrax.value_and_grad(FUNCTIONS[name])
    with Override("strict", True):
        found = leaves(function(point()))
        assert leaves(function(point())) == found  # what has recipes follows them now
        without_a_tape(monkeypatch)
        assert leaves(function(point())) == found


def test_trees_aux_weak_types_and_integers() -> None:
    def f(p: Any, k: Any, scale: float) -> Any:
        out = jnp.sum(p["w"] * scale) * p["b"] + k
        return out, {"twice": out * 2, "scale": scale, "w": p["w"]}

    p = {"w": point(), "b": 2.5, "n": 3}
    for _ in range(2):
        taken = functrax.value_and_grad(f, argnums=(0, 2), has_aux=True, allow_int=True)
        (value, aux), (gp, gs) = taken(p, 3, 1.5)
        np.testing.assert_allclose(value, float(p["w"].sum()) * 1.5 * 2.5 + 3, rtol=1e-5)
        assert aux["w"] is p["w"] or np.array_equal(aux["w"], p["w"])
        assert type(aux["twice"]) is type(value)
        assert gp["b"].weak_type and gs.weak_type and not gp["w"].weak_type
        assert gp["n"].dtype == functrax.float0
        np.testing.assert_allclose(gp["w"], np.full((4, 6), 3.75))


def _weighted(x: Any, pair: Any, scale: Any = 1.0, *, bias: Any = 0.0) -> Any:
    value = jnp.sum(x * pair["a"]) * scale + pair["b"][0] * bias
    return value, [value * 2, {"x": x, "n": jnp.ones(2)}]


@pytest.mark.parametrize("argnums", [0, 1, -1, -2, (0, 1), [1, 0], (0, 2), (0, 0), (1, -2), ()])
def test_any_arguments_as_without_a_tape(argnums: Any, monkeypatch: Any) -> None:
    given = (point(), {"a": np.full((4, 6), 2.0, np.float32), "b": (3.0, None)}, jnp.ones(()) * 4)
    functions = [
        functrax.value_and_grad(_weighted, argnums, has_aux=True),
        functrax.grad(_weighted, argnums, has_aux=True),
        functrax.value_and_grad(lambda *args, bias: _weighted(*args, bias=bias)[0], argnums),
        functrax.grad(lambda *args, bias: _weighted(*args, bias=bias)[0], argnums),
    ]

    def results() -> list[Any]:
        found = [f(*given, bias=2.5) for f in functions]
        return [(functrax.tree.structure(x), leaves(x)) for x in found]

    with Override("strict", True):
        found = results()
        without_a_tape(monkeypatch)
        assert found == results()


@needs_extension
def test_what_is_put_on_a_tape() -> None:
    seen: list[type] = []

    def f(x: Any, *more: Any) -> Any:
        seen.append(type(x))
        return jnp.sum(x) * 1.0

    cases: list[tuple[Callable[[], Any], type]] = [
        (lambda: functrax.grad(f)(point()), cached_linearization.GradTracer),
        (lambda: functrax.grad(f)(np.ones(3, np.float32)), cached_linearization.GradTracer),
        (lambda: functrax.grad(f, (0, 1))(1.0, 2.0), cached_linearization.GradTracer),
        (lambda: functrax.grad(f)(1.0), JVPTracer),  # computed forwards
        (lambda: functrax.jit(functrax.grad(f))(point()), JVPTracer),
        (lambda: functrax.vmap(functrax.grad(f))(point()), JVPTracer),
    ]
    for case, expected in cases:
        case()
        assert seen.pop() is expected
    with functrax.eager("immediate"):
        functrax.grad(f)(point())
    with functrax.check_tracer_leaks():
        functrax.grad(f)(point())
    assert seen == [JVPTracer] * 2


def test_a_tape_ends_with_its_function_and_the_interpreter_is_put_back() -> None:
    kept: list[Any] = []

    def fails(x: Any) -> Any:
        kept.append(x)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        functrax.grad(fails)(point())
    assert current_trace() is EVAL
    with pytest.raises(functrax.errors.LeakedTracerError, match="fails"):
        kept[0] + 1

    def passes(x: Any) -> Any:
        kept[0] = x
        return jnp.sum(x)

    functrax.grad(passes)(point())
    assert current_trace() is EVAL and not kept[0]._trace.alive
    with pytest.raises(functrax.errors.LeakedTracerError, match="passes"):
        jnp.sin(kept[0])


def test_a_function_that_is_given_arrays_of_others() -> None:
    class Wrapped:
        def __jax_array__(self) -> Any:
            return point()

    found = functrax.grad(lambda x: jnp.sum(x * x))(Wrapped())
    np.testing.assert_array_equal(found, 2 * point())


def test_the_gradient_is_named_as_its_function() -> None:
    def f(x: float) -> float:
        """Of mine."""
        return x

    f.more = 3  # type: ignore[attr-defined]
    for g in (functrax.grad(f), functrax.value_and_grad(f)):
        assert (g.__name__, g.__doc__, g.more) == ("f", "Of mine.", 3)  # type: ignore[attr-defined]
        assert inspect.signature(g) == inspect.signature(f)


@needs_extension
def test_a_library_function_is_followed_and_the_users_is_called_each_time() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(type(x))
        return jnp.sum(nn.relu(x) * 2)

    entries = []
    apply = cached_linearization._Entry.call

    def counting(self: Any, call: Any) -> Any:
        entries.append(call)
        return apply(self, call)

    try:
        cached_linearization._Entry.call = counting  # type: ignore[method-assign]
        for _ in range(5):
            functrax.grad(f)(point())
    finally:
        cached_linearization._Entry.call = apply  # type: ignore[method-assign]
    assert calls == [cached_linearization.GradTracer] * 5
    assert len(entries) <= 1  # from the second call of its kind on relu is recorded by its recipe


def test_numbers_that_change_give_their_own_gradients() -> None:
    for k in range(70):
        rate = 1 + k / 7

        def f(x: Any, rate: float = rate) -> Any:
            return jnp.sum(x * rate + jnp.power(x * x, rate))

        found = functrax.grad(f)(jnp.ones(3))
        np.testing.assert_allclose(found, np.full(3, rate + 2 * rate), rtol=1e-5)


@pytest.mark.usefixtures("usual_cuts")
def test_lines_of_operations_are_the_users() -> None:
    def f(x: Any) -> Any:
        y = jnp.sin(x)  # the line
        return jnp.sum(y)

    functrax.grad(f)(point())
    found = functrax.grad(f)(point())
    program = functrax.pending_program(found)
    line = f.__code__.co_firstlineno + 1
    assert program is not None
    cosine = next(e for e in program.eqns if e.primitive.name == "cos")
    assert cosine.source is not None and cosine.source.line == line


def test_errors_are_those_of_the_ordinary_way() -> None:
    def message(function: Callable[[], Any], lazy: bool) -> str:
        mode = functrax.eager("lazy" if lazy else "immediate")
        with mode, pytest.raises(Exception) as caught:
            function()
        return f"{type(caught.value).__name__} {caught.value}"

    leaked: list[Any] = []

    def leaks(x: Any) -> Any:
        leaked.append(jnp.sin(x))
        return jnp.sum(x)

    def after() -> Any:
        functrax.grad(leaks)(point())
        return leaked.pop() + 1

    cases: list[Callable[[], Any]] = [
        lambda: functrax.grad(lambda x: x * 2)(point()),
        lambda: functrax.grad(lambda x: jnp.sum(x).astype(int))(point()),
        lambda: functrax.grad(lambda x: np.asarray(x))(point()),
        lambda: functrax.grad(lambda x: jnp.sum(x + jnp.ones(5)))(point()),
        lambda: functrax.grad(lambda x: 1 if x else 2)(point()),
        lambda: functrax.grad(lambda x: jnp.sum(x), argnums=1)(point()),
        lambda: functrax.grad(jnp.sum)(jnp.arange(3)),
        lambda: functrax.grad(lambda x: jnp.sum(x), argnums=(0, -2))(point()),
        lambda: functrax.grad(lambda x: jnp.sum(x), argnums="x")(point()),
        lambda: functrax.grad(lambda x: {"a": jnp.sum(x)})(point()),
        lambda: functrax.grad(lambda x: None)(point()),
        lambda: functrax.grad(lambda x: "text")(point()),
        lambda: functrax.grad(lambda x: jnp.sum(x), has_aux=True)(point()),
        lambda: functrax.grad(lambda x: (jnp.sum(x), 1, 2), has_aux=True)(point()),
        lambda: functrax.grad(lambda x: (x, 1), has_aux=True)(point()),
        lambda: functrax.grad(lambda x: (jnp.sum(x), {1: 1, "a": 2}), has_aux=True)(point()),
        lambda: functrax.grad(lambda x: jnp.sum(x), holomorphic=True)(point()),
        lambda: functrax.grad(lambda x: jnp.sum(x.real), holomorphic=True)(point() * 1j),
        lambda: functrax.grad(lambda x: jnp.sum(x))(point() * 1j),
        lambda: functrax.grad(jnp.sum)({1: point(), "a": point()}),
        lambda: functrax.grad(lambda p: 1.0)({"a": [point(), "text"]}),
        lambda: functrax.grad(lambda p: 1.0)({"a": [point(), jnp.arange(3)]}),
        lambda: functrax.grad(lambda p: jnp.sum(p))(point(), point()),
        lambda: functrax.grad(lambda p: jnp.sum(p))(p=point()),
        after,
    ]  # fmt: skip
    for case in cases:
        assert message(case, lazy=True) == message(case, lazy=False)


def test_an_error_of_a_nan_is_raised_where_it_is_made() -> None:
    def f(x: Any) -> Any:
        with functrax.debug_nans(True):
            return jnp.sum(jnp.log(-1 - x * x))

    with pytest.raises(FloatingPointError, match="log"):
        functrax.grad(f)(point())


def test_options_that_change_within() -> None:
    def f(x: Any) -> Any:
        y = jnp.sin(x) * x
        functrax.config.update("eager", "immediate")
        return jnp.sum(y * y)

    expected = functrax.jit(functrax.grad(lambda x: jnp.sum((jnp.sin(x) * x) ** 2)))(point())
    for _ in range(2):
        try:
            found = functrax.grad(f)(point())
        finally:
            functrax.config.update("eager", "lazy")
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_an_array_that_is_deleted_or_written_to_within() -> None:
    memory = np.ones((4, 6), np.float32)
    shared = jnp.from_dlpack(memory)

    def f(x: Any) -> Any:
        y = x * shared
        memory[:] = 7
        return jnp.sum(y)

    for _ in range(3):
        memory[:] = 2
        value, found = functrax.value_and_grad(f)(jnp.ones((4, 6)))
        assert float(value) == 48
        with functrax.eager("immediate"):
            memory[:] = 2
            np.testing.assert_array_equal(found, functrax.grad(f)(jnp.ones((4, 6))))


def test_threads_have_tapes_of_their_own() -> None:
    def f(x: Any, k: int) -> Any:
        for _ in range(k):
            x = nn.relu(x @ x * 0.1) + jnp.sin(x)
        return jnp.sum(x)

    x = jnp.asarray(np.random.default_rng(0).standard_normal((5, 5), np.float32))
    expected = [np.asarray(functrax.grad(f)(x, k)) for k in range(4)]
    wrong: list[Any] = []

    def work(k: int) -> None:
        for _ in range(40):
            found = np.asarray(functrax.grad(f)(x, k))
            if not np.allclose(found, expected[k], rtol=1e-5, atol=1e-5):
                wrong.append((k, found))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@needs_extension
def test_functions_with_recipes_are_copied_and_described() -> None:
    for function in (nn.relu, jnp.sin, jnp.sum, nn.softmax):
        assert copy.deepcopy({"f": function})["f"] is function
        assert function.__doc__ and inspect.signature(function).parameters
    assert nn.relu.__name__ == "relu" and jnp.sin.__doc__.startswith("The sine.")


@needs_extension
def test_nothing_is_kept_alive() -> None:
    def count() -> int:
        gc.collect()
        return sum(
            type(x) in (cached_linearization.GradTracer, cached_linearization.GradTrace)
            for x in gc.get_objects()
        )

    def fails(x: Any) -> Any:
        raise KeyError(str(jnp.sin(x).shape))

    before = count()
    functrax.grad(FUNCTIONS["custom_vjp"])(point())
    with pytest.raises(KeyError):
        functrax.grad(fails)(point())
    with pytest.raises(functrax.errors.DifferentiationError):
        functrax.grad(lambda x: own_backward(x) * 2)(point())  # not a scalar: never read backwards
    assert count() == before
