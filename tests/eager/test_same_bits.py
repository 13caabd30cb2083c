"""What ran before does not change a bit: looks, pending operations, how often a call was made.

Operations run one by one by the reference, alone as programs, or together as programs; which of
them depends on what is pending.  Here the same computations are made in all of these ways.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.device import device_of
from functrax.backends.eager import run as eager_run, signature_of
from functrax.backends.eager.settings import current_setting
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Eqn, Jaxpr, Var
from functrax.core.options.config import Override
from functrax.core.prims.arithmetic import mul
from functrax.core.records import replace
from functrax.core.tracing.primitive import Elementwise, registry
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

STEPS: list[Callable[[Any], Any]] = [
    lambda x: x * 1.7 + 0.3,
    jnp.sin,
    lambda x: x * x - 0.5 * x,
    lambda x: x / (1 + jnp.abs(x)),
    lambda x: x - x.mean(axis=0),
    lambda x: jnp.exp(-x * x),
    lambda x: x + jnp.sum(x * x, axis=1, keepdims=True),
    lambda x: x.at[1].set(0.25),
    lambda x: jnp.tanh(x) * jnp.sqrt(jnp.abs(x) + 1e-3),
    lambda x: jnp.where(x > 0, x * 3.1 + 1, x),
    functrax.grad(lambda x: jnp.sum(jnp.cos(x) * x)),
    lambda x: x[jnp.argsort(x[:, 0])] + jnp.argmax(x, axis=1)[:, None],
    lambda x: jnp.sort(jnp.round(x), axis=0) + jnp.cumsum(x > 0, axis=1),
]
EXACT = sorted(n for n, p in registry.items() if isinstance(p, Elementwise) and p.exact)
SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 2.5, 1e-40, 3e38, -129.0, 65504.0)


def chain(seed: int, side: int, look: float) -> bytes:
    """The bits of a random chain of steps, some of whose values are looked at on the way."""
    rng = np.random.default_rng(seed)
    looks = np.random.default_rng(int(look * 100))
    x = jnp.asarray(rng.standard_normal((side, side), np.float32))
    for step in rng.integers(len(STEPS), size=9):
        x = STEPS[step](x)
        if looks.random() < look:
            x.block_until_ready()
    return np.asarray(x).tobytes()


@pytest.mark.usefixtures("usual_cuts")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("side", [3, 40, 300])
def test_looking_changes_nothing(seed: int, side: int) -> None:
    expected = chain(seed, side, 0.0)
    for look in (0.0, 0.3, 0.6, 1.0):
        assert chain(seed, side, look) == expected, f"looks at {look:.0%}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 2100))
def test_looking_changes_nothing_often(seed: int) -> None:
    test_looking_changes_nothing(seed, (2, 7, 33, 128)[seed % 4])


@pytest.mark.usefixtures("usual_cuts")
def test_a_structure_that_is_met_often_gets_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = replace(target(), compile_ns=100_000)
    monkeypatch.setattr(eager_run, "target", lambda: facts)
    eager_run.forget()
    x = jnp.arange(24, dtype=np.float32).reshape(4, 6)
    found = {np.asarray((x[1:, ::2] * 1.1 + x[:-1, 1::2]).T).tobytes() for _ in range(30)}
    assert len(found) == 1
    assert any(type(known) is not int for known in eager_run._programs.values())


def _values(dtype: Any, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return rng.random(512) < 0.5
    if dtype.kind in "iu":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 512, dtype)
    drawn = rng.standard_normal(512) * np.exp(rng.uniform(-20, 20, 512))
    drawn[rng.permutation(512)[: len(SPECIAL)]] = SPECIAL
    with np.errstate(all="ignore"):
        return drawn.astype(dtype)


@pytest.mark.parametrize("name", EXACT)
def test_what_is_exact_has_the_same_bits_in_programs(name: str) -> None:
    primitive, rng = registry[name], np.random.default_rng(0)
    sample = next(iter(primitive.samples()))
    for dtype in (np.bool_, np.int32, np.uint8, np.float16, dtypes.bfloat16, np.float32):
        params = dict(sample.params)
        if params.get("dtype", dtype) is None:
            params["dtype"] = np.dtype(dtype)
        given = sample.dtypes or (None,) * len(sample.shapes)
        values = [_values(dtype if d is None else d, rng) for d in given]
        avals = tuple(ShapedArray(v.shape, v.dtype) for v in values)
        try:
            result = primitive.infer(avals, params)
        except functrax.errors.FunctraxError:
            continue  # of a dtype that it does not take
        if not primitive.lowers(avals, params) or not isinstance(result, ShapedArray):
            continue
        inputs, out = [Var(a) for a in avals], Var(result)
        eqn = Eqn(primitive, inputs, [out], params)
        with Override("strict", True):
            (found,) = device_of("llvm").compile(Jaxpr((), inputs, [out], [eqn], name))(values)
        with np.errstate(all="ignore"):
            expected = np.asarray(primitive.reference(*values, **params))
        found = np.asarray(found)
        differs = found.view(f"u{found.itemsize}") != expected.view(f"u{found.itemsize}")
        if found.dtype.kind not in "iub":
            differs &= ~(np.isnan(found) & np.isnan(expected))
        assert not differs.any(), f"{name} of {np.dtype(dtype).name}"


def test_threads_record_and_run_at_once() -> None:
    shared = jnp.asarray(np.random.default_rng(0).random((60, 60), np.float32))
    common = jnp.sin(shared) * 2 + 1  # pending, and needed by all
    expected = [np.asarray(jnp.sum(common * (1 + k)) + jnp.cos(shared)[0, 0]) for k in range(8)]
    pending = jnp.sin(shared) * 2 + 1
    failures: list[str] = []

    def work(k: int) -> None:
        for _ in range(40):
            value = np.asarray(jnp.sum(pending * (1 + k)) + jnp.cos(shared)[0, 0])
            if value.tobytes() != expected[k].tobytes():
                failures.append(f"thread {k}: {value}, not {expected[k]}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=300)
    assert not any(t.is_alive() for t in threads), "deadlock"
    assert not failures, failures[0]


@pytest.mark.parametrize("step", range(len(STEPS)))
def test_what_is_run_often_keeps_its_bits(step: int) -> None:
    for side in (3, 5):
        x = jnp.asarray(np.random.default_rng(side).standard_normal((side, side), np.float32))
        found = {np.asarray(STEPS[step](x)).tobytes() for _ in range(120)}
        assert len(found) == 1


def test_sums_of_products_that_were_put_off_keep_their_bits() -> None:
    x = jnp.asarray(np.random.default_rng(0).standard_normal((200, 200), np.float32))
    found = set()
    for _ in range(60):  # until the second cut would get a program
        turned = jnp.concatenate([x[1:], x[:1]])
        product = turned * turned.mean(axis=0)
        np.asarray(product)
        found.add(np.asarray(product.mean(axis=0) * x).tobytes())
    assert len(found) == 1


@pytest.mark.usefixtures("usual_cuts")
def test_an_operation_that_is_run_often_gets_a_program() -> None:
    x = jnp.asarray(np.random.default_rng(0).random(37, np.float32))
    for _ in range(target().compile_ns // target().numpy_ns + 2):
        (x * x).block_until_ready()
    assert signature_of(mul, current_setting(), [x.aval, x.aval], {}).alone is True


def special_rows(dtype: Any) -> np.ndarray[Any, Any]:
    """Rows of few values: ties, and for floats both zeros, infinities and not-a-numbers."""
    rng = np.random.default_rng(0)
    values: Any = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan, 0.5]
    if np.dtype(dtype).kind != "f":
        values = [0, 1, 2, 5, 100]
    return rng.choice(np.array(values, dtype), (7, 50))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sort(x, axis=1),
        lambda x: jnp.argsort(x, axis=1),
        lambda x: jnp.argmax(x, axis=1),
        lambda x: jnp.argmin(x, axis=0),
        lambda x: functrax.lax.top_k(x, 5)[0],
        lambda x: functrax.lax.top_k(x, 5)[1],
        lambda x: jnp.sum(x.astype(int), axis=1),
        lambda x: jnp.prod(x.astype(int), axis=0),
        lambda x: jnp.max(x.astype(int), axis=0),
        lambda x: jnp.cumsum(x.astype(int), axis=0),
        lambda x: functrax.lax.cummax(x.astype(int), axis=1),
    ],
)
def test_what_rounds_nothing_has_the_bits_of_programs(function: Any, dtype: Any) -> None:
    x = jnp.asarray(special_rows(dtype))
    compiled = np.asarray(functrax.jit(function)(x))
    with np.errstate(all="ignore"):
        recorded = np.asarray(function(x))
    assert recorded.tobytes() == compiled.tobytes()


@pytest.mark.usefixtures("usual_cuts")
def test_an_order_that_is_needed_often_gets_a_program() -> None:
    eager_run.forget()
    key = functrax.random.key(0)
    expected = np.asarray(functrax.random.permutation(key, 700))
    for _ in range(60):
        np.testing.assert_array_equal(functrax.random.permutation(key, 700), expected)
    assert any(not isinstance(x, int) for x in eager_run._programs.values())
