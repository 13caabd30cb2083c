"""Functions that are recorded from their recipes record what calling them records."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import random
from functrax.backends.eager.cached_traces import with_recipe
from functrax.core import native
from functrax.core.options.config import Override
from functrax.random import cipher, continuous, discrete, keys

needs_extension = pytest.mark.skipif(native.extension is None, reason="calls are all that there is")

SAMPLERS: dict[str, Callable[[Any], Any]] = {
    "split": lambda key: random.key_data(random.split(key, 3)),
    "fold_in": lambda key: random.key_data(random.fold_in(key, jnp.int32(7))),
    "bits": lambda key: random.bits(key, (3, 4), "uint8"),
    "uniform": lambda key: random.uniform(key, (5,), minval=-2.0, maxval=3.0),
    "normal": lambda key: random.normal(key, (4, 6)),
    "complex": lambda key: random.normal(key, (3,), "complex64"),
    "bernoulli": lambda key: random.bernoulli(key, 0.3, (40,)),
    "permutation": lambda key: random.permutation(key, 12),
    "gamma": lambda key: random.gamma(key, 2.5, (3,)),
    "categorical": lambda key: random.categorical(key, jnp.arange(3.0), shape=(8,)),
}  # fmt: skip


RECIPES: list[Any] = [
    keys.split, keys.split_words, keys._folded_in, cipher.random_bits,
    continuous.uniform, continuous.uniform_sample, continuous.normal, continuous.normal_sample,
    discrete.bernoulli, discrete.categorical,
]  # fmt: skip


def bits(x: Any) -> bytes:
    return np.asarray(x).tobytes()


@pytest.mark.parametrize("name", SAMPLERS)
def test_samples_have_the_same_bits_however_they_are_recorded(name: str) -> None:
    sample, key = SAMPLERS[name], random.key(11)
    for made in RECIPES if native.extension is not None else ():
        made.forget()
    expected = bits(sample(key))  # by the functions themselves
    assert [bits(sample(key)) for _ in range(4)] == [expected] * 4
    within = functrax.value_and_grad(lambda x: (x * 2, sample(key)), has_aux=True)
    assert bits(within(1.0)[0][1]) == expected


@pytest.mark.parametrize("name", ["split", "bits", "uniform", "normal"])
def test_strict_samples_are_those_of_immediate_mode(name: str) -> None:
    sample, key = SAMPLERS[name], random.key(12)
    with Override("strict", True):
        with functrax.eager("immediate"):
            expected = bits(sample(key))
        assert [bits(sample(key)) for _ in range(3)] == [expected] * 3


def counted(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[int]]:
    calls: list[int] = []

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return function(*args, **kwargs)

    return with_recipe(wrapped), calls


@needs_extension
def test_the_function_is_called_twice_for_each_kind_of_arguments() -> None:
    offset = np.arange(4, dtype=np.float32)
    function, calls = counted(lambda x, n, scale=1.0: (x, jnp.sin(x) * n + scale + offset))
    for k in range(5):
        x = jnp.full((4,), k, jnp.float32)
        same, out = function(x, 3, scale=0.5)
        np.testing.assert_array_equal(same, x)
        np.testing.assert_allclose(out, np.sin(np.float32(k)) * 3 + 0.5 + offset, rtol=1e-6)
    assert len(calls) == 2
    function(jnp.zeros(4), 3, scale=0.25)
    function(jnp.zeros(4), True, scale=0.25)
    function(jnp.zeros(5)[:4], 3, scale=0.25)
    assert len(calls) == 5  # the last kind for the second time


@needs_extension
def test_numbers_that_only_look_equal_are_kept_apart() -> None:
    function, _ = counted(lambda x, n: x * n if isinstance(n, float) else x + n)
    x = jnp.arange(3.0)
    for _ in range(4):
        assert function(x, 1.0).tolist() == [0, 1, 2]
        assert function(x, 1).tolist() == [1, 2, 3]
        assert function(x, True).tolist() == [1, 2, 3]
        assert np.signbit(np.asarray(function(x, -0.0))).tolist() == [True] * 3
        assert np.signbit(np.asarray(function(x, 0.0))).tolist() == [False] * 3


@needs_extension
def test_keys_go_in_and_come_out() -> None:
    function, calls = counted(lambda key, n: random.KeyArray(random.key_data(key) + n))
    key = random.key(5)
    for _ in range(4):
        made = function(key, 2)
        assert type(made) is random.KeyArray
        np.testing.assert_array_equal(random.key_data(made), [2, 7])
    assert len(calls) == 2
    whole, calls = counted(lambda key, *rest: random.key_data(key) + sum(rest))
    words = random.key_data(key)
    for _ in range(3):  # kinds of their own, though the arrays are of the same types
        for given in ((key,), (words,), (key, words), (words, words)):
            np.testing.assert_array_equal(whole(*given), np.array([0, 5]) * len(given))
    assert len(calls) == 8


def test_keys_that_a_transformation_holds_reach_the_function() -> None:
    many = random.split(random.key(1), 3)
    for _ in range(3):
        expected = [random.normal(key, (2,)).tolist() for key in many]
        assert functrax.vmap(lambda key: random.normal(key, (2,)))(many).tolist() == expected
        scaled = functrax.grad(lambda x: (random.uniform(many[0], (), maxval=x) * 2.0).sum())(3.0)
        assert 0 <= float(scaled) <= 2


def test_any_number_is_folded_in() -> None:
    key = random.key(3)
    jitted = functrax.jit(lambda n: random.key_data(random.fold_in(key, n)))
    for n in (0, 7, 2**32 - 1, True, np.int32(7), jnp.uint32(9), np.array(11)):
        expected = jitted(np.uint32(int(n)))
        for _ in range(3):
            np.testing.assert_array_equal(random.key_data(random.fold_in(key, n)), expected)
    for n in (-1, 2**32):
        with pytest.raises(functrax.errors.FunctraxError, match="does not fit 32 bits"):
            random.fold_in(key, n)
    with pytest.raises(functrax.errors.ShapeError, match="a single number"):
        random.fold_in(key, jnp.arange(2))
    with pytest.raises(functrax.errors.DTypeError, match="not a key"):
        random.fold_in(2.0, 3)


def test_a_function_that_looks_at_values_is_called() -> None:
    function, calls = counted(lambda x: x + 1 if x[0] > 0 else x - 1)
    for k in (1.0, -1.0, 2.0, -2.0, 3.0):
        assert function(jnp.array([k])).tolist() == [k + np.sign(k)]
    assert len(calls) >= 5


def test_errors_are_those_of_the_function() -> None:
    function, _ = counted(lambda x, y: x + y)
    for _ in range(4):
        with pytest.raises(functrax.errors.ShapeError, match="add"):
            function(jnp.zeros(3), jnp.zeros(4))


def test_tracers_reach_the_function() -> None:
    function, _ = counted(lambda x: jnp.sin(x) * 2)
    x = jnp.linspace(0, 1, 5)
    for _ in range(3):
        function(x)
        np.testing.assert_allclose(functrax.jit(function)(x), np.sin(x) * 2, rtol=1e-6)
        slopes = functrax.vmap(functrax.grad(function))(x)
        np.testing.assert_allclose(slopes, np.cos(x) * 2, rtol=1e-6)


@pytest.mark.parametrize("name", ["sum", "max", "mean", "any"])
def test_arrays_with_names_keep_their_places(name: str) -> None:
    function = getattr(jnp, name)
    x = np.array([[0.5, -1, 2, 0.25], [1, 2, 3, 4]], np.float32)
    mask = np.array([[True, False, True, True], [False, True, True, False]])
    options = {"initial": 0.0} if name == "max" else {}
    expected = getattr(np, name)(x, axis=1, where=mask, **options)
    for where in (mask, jnp.asarray(mask)):
        for _ in range(3):
            np.testing.assert_allclose(function(x, axis=1, where=where, **options), expected)
            np.testing.assert_allclose(
                function(jnp.asarray(x), where=where, axis=1, **options), expected
            )


def test_types_and_options_are_part_of_what_a_call_is() -> None:
    function, _ = counted(lambda x: x * 2)
    assert [function(jnp.float32(2.0)).weak_type for _ in range(3)] == [False] * 3
    assert [function(jnp.sin(2.0)).weak_type for _ in range(3)] == [True] * 3
    total, _ = counted(lambda x: jnp.sum(x > 1))
    assert [total(jnp.arange(3)).dtype for _ in range(3)] == [np.int32] * 3
    with functrax.enable_x64():
        assert [total(jnp.arange(3)).dtype for _ in range(3)] == [np.int64] * 3


@pytest.mark.usefixtures("usual_cuts")
@needs_extension
def test_operations_have_the_line_of_the_call() -> None:
    function, _ = counted(lambda x: jnp.sin(x) + 1)
    x = jnp.asarray(np.ones(3, np.float32))
    for _ in range(3):
        out = function(x)
    text = str(functrax.pending_program(out))
    assert text.count("in test_operations_have_the_line_of_the_call") == 2, text


def test_threads_share_recipes() -> None:
    function, _ = counted(lambda x, n: jnp.cumsum(x) * n)
    x = jnp.arange(6.0)
    failures: list[Any] = []

    def work() -> None:
        for n in range(40):
            found = np.asarray(function(x, n % 5))
            if not np.array_equal(found, np.cumsum(np.arange(6.0)) * (n % 5)):
                failures.append(found)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=300)
    assert not any(t.is_alive() for t in threads)
    assert not failures


@pytest.mark.usefixtures("usual_cuts")
@needs_extension
@pytest.mark.parametrize("operator", ["@", "+", "*", "/", "<"])
def test_operators_are_recorded_without_python(operator: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def apply(x, y): return x {operator} y", namespace)
    apply, x = namespace["apply"], jnp.ones((3, 3))
    called: list[str] = []

    def differentiated(y: Any) -> Any:
        sys.setprofile(lambda frame, event, _: called.append(event))
        out = apply(y, x)
        sys.setprofile(None)
        return jnp.sum(out) * 1.0

    for _ in range(3):
        called.clear()
        functrax.grad(differentiated)(x)
    assert called.count("call") == 1  # of `apply` itself
    with pytest.raises(TypeError, match="list"):
        apply(x, [1.0])
    assert type(apply(x, _Answers())) is str


class _Answers:
    def _answer(self, _: Any) -> str:
        return "mine"

    __rmatmul__ = __radd__ = __rmul__ = __rtruediv__ = __gt__ = _answer
