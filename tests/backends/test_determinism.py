"""The same call gives the same bits: in every history, number of threads, cache and way of running.

By default a program gives the same bits whenever and wherever it runs.  In strict mode it gives the
bits that its operations give one by one, whatever shares a kernel.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrax as fx
import functrax.numpy as jnp
from functrax import lax, nn
from functrax.backends.runtime import choice
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Literal
from functrax.core.options.config import Override
from functrax.core.tracing.inputs import as_value
from functrax.core.tracing.stage import eval_jaxpr
from functrax.tree_util import tree_leaves
from tests.backends.random_checks import RandomFunction, derived, traced
from tests.thinning import one_in

ROOT = Path(fx.__file__).parents[1]


def normal(seed: int, *shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def step(carry: Any, x: Any) -> Any:
    carry = jnp.tanh(carry + 0.3 * x)
    return carry, carry.sum()


def layer_norm(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def perceptron(x: Any, w: Any, v: Any) -> Any:
    return jnp.sum(jnp.tanh(x @ w) @ v)


def convolved(x: Any, w: Any) -> Any:
    return jnp.sum(jnp.sin(lax.conv(x, w, (1, 1), "SAME")))


TABLE, ROW = normal(0, 33, 77), normal(1, 33)
LONG = normal(2, 50_000)
IMAGES, FILTERS = normal(3, 2, 3, 12, 12), normal(4, 4, 3, 3, 3)

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "elementwise": (lambda x: jnp.exp(x) * x + jnp.log1p(x * x) / 3.0, (TABLE,)),
    "softmax": (nn.softmax, (TABLE,)),
    "softmax of columns": (lambda x: nn.softmax(x, axis=0), (TABLE,)),
    "softmax of a long row": (nn.softmax, (LONG,)),
    "log-sum-exp of long rows": (lambda x: nn.logsumexp(x.reshape(5, -1), 1) / 3, (LONG,)),
    "layer norm": (layer_norm, (TABLE,)),
    "variance": (lambda x: jnp.var(x, axis=0) * x.mean(0), (TABLE,)),
    "sum of all": (lambda x: jnp.sum(jnp.sin(x) * x + 0.1), (LONG,)),
    "value and sum": (lambda x: (x * 2.5 + 1, (x * 2.5 + 1).sum()), (LONG,)),
    "sum of a transpose": (lambda x: (jnp.exp(x) + 1).T.sum((0, 1)), (TABLE,)),
    "sum of a reshape": (
        lambda x: (x.reshape(11, 3, 77).transpose(2, 0, 1) * 2.5).sum((0, 2)),
        (TABLE,),
    ),
    "sum along short axes": (lambda x: (x * x).reshape(-1, 11, 3).sum((0, 2)), (TABLE,)),
    "sum of copies": (lambda x: jnp.broadcast_to(x, (10, 33)).sum(0), (ROW,)),
    "functions of constants": (lambda x: x + jnp.exp(jnp.full(33, 0.3)), (ROW,)),
    "float16": (lambda x: (x.astype("float16") * 1.3 + 0.1).sum(0), (TABLE,)),
    "bfloat16": (lambda x: jnp.tanh(x.astype("bfloat16") * 1.3).sum(1), (TABLE,)),
    "complex": (lambda x: jnp.abs(jnp.sum((x + 2j * x) * (x - 1j), 0)), (TABLE,)),
    "sum of joined arrays": (
        lambda x: jnp.concatenate([x, jnp.pad(x * 3, 1)[:, :77], x[::-1]]).sum(0),
        (TABLE,),
    ),
    "matrix products": (
        lambda x, w: (jnp.sin(x @ w) @ w.T, x.T @ x),
        (normal(7, 100, 90), normal(8, 90, 80)),
    ),
    "matrix product": (lambda x: jnp.tanh(x @ x.T), (TABLE,)),
    "gradients of a perceptron": (
        fx.grad(perceptron, (0, 1, 2)),
        (TABLE, normal(5, 77, 20), normal(6, 20, 3)),
    ),
    "gradients of a convolution": (fx.grad(convolved, (0, 1)), (IMAGES, FILTERS)),
    "scatter": (lambda x: jnp.zeros(10).at[jnp.arange(33) % 10].add(jnp.sin(x)), (ROW,)),
    "cumulative sum": (lambda x: jnp.cumsum(x * 1.1, axis=1), (TABLE,)),
    "scan": (lambda x: lax.scan(step, x[0], x), (TABLE,)),
    "while": (
        lambda x: lax.while_loop(lambda c: jnp.sum(c) < 1e4, lambda c: c * 1.3 + 1, jnp.abs(x)),
        (ROW,),
    ),
}
programs = pytest.mark.parametrize(("function", "args"), PROGRAMS.values(), ids=PROGRAMS.keys())


def bits(values: Any) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in tree_leaves(values)]


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = choice.CURRENT.num_threads()
    yield choice.CURRENT.set_num_threads
    choice.CURRENT.set_num_threads(before)


def ways_of_running(
    function: Callable[..., Any], args: Any, set_threads: Callable[[int], None]
) -> Iterator[tuple[str, list[bytes]]]:
    """Runs of a program that have to give the same bits by default."""
    jitted = fx.jit(function)
    for number in (2, 1, 3):
        set_threads(number)
        yield f"{number} threads", bits(jitted(*args))
    fx.jit(lambda *xs: tree_leaves(function(*xs))[0] + 1.0)(*args)  # another program with its parts
    yield "after another program", bits(jitted(*args))
    fx.clear_caches()
    yield "after clearing the caches", bits(jitted(*args))
    yield "another function", bits(fx.jit(lambda *xs: function(*xs))(*args))


@programs
def test_runs_give_the_same_bits(
    function: Callable[..., Any], args: Any, threads: Callable[[int], None]
) -> None:
    first = bits(fx.jit(function)(*args))
    for way, found in ways_of_running(function, args, threads):
        assert found == first, way


@programs
def test_strict_programs_give_the_bits_of_their_operations(
    function: Callable[..., Any], args: Any, threads: Callable[[int], None]
) -> None:
    with Override("strict", True):
        eager = bits(function(*args))
        assert bits(function(*args)) == eager
        for way, found in ways_of_running(function, args, threads):
            assert found == eager, way
        for merges in (0, 1, 3):
            with Override("opt_limit", f"fuse={merges}"):
                found = bits(fx.jit(lambda *xs: function(*xs))(*args))
            assert found == eager, f"{merges} merges"


@pytest.mark.skipif(not target().has_fma, reason="the processor rounds every product")
def test_strict_mode_makes_a_difference() -> None:
    """Else the tests above would show nothing."""
    function, args = PROGRAMS["elementwise"]
    with Override("strict", True):
        strict = bits(fx.jit(function)(*args))
    assert bits(fx.jit(function)(*args)) != strict
    assert bits(function(*args)) == strict  # outside jit every operation is rounded


@pytest.mark.skipif(not target().has_fma, reason="the processor rounds every product")
def test_strict_mode_may_change_between_calls() -> None:
    function, args = PROGRAMS["elementwise"]
    jitted = fx.jit(function)
    loose = bits(jitted(*args))
    with Override("strict", True):
        strict = bits(jitted(*args))
    assert strict != loose == bits(jitted(*args))


@pytest.mark.parametrize("size", [1, 5, 31, 32, 33, 1000, 32_769, 100_001])
@pytest.mark.parametrize("fewer", ["rows", "columns", "both"])
def test_strict_sums_of_all_sizes(size: int, fewer: str) -> None:
    x = normal(size, 3, size)
    axes = {"rows": 0, "columns": 1, "both": (0, 1)}[fewer]
    with Override("strict", True):
        alone = bits(jnp.sum(x * 1.1, axes))
        assert bits(fx.jit(lambda x: jnp.sum(x * 1.1, axes))(x)) == alone
        assert bits(fx.jit(lambda x: jnp.sum((x.T * 1.1).T, axes))(x)) == alone
        both = fx.jit(lambda x: (jnp.sum(x * 1.1, axes), jnp.max(jnp.sin(x), axes), x * 3))
        assert bits(both(x)[0]) == alone


def digest() -> str:
    """Of the bits of all programs; run in a process of its own."""
    found = hashlib.sha256()
    for function, args in PROGRAMS.values():
        for part in bits(fx.jit(function)(*args)):
            found.update(part)
    return found.hexdigest()


def test_processes_and_caches_give_the_same_bits(tmp_path: Path) -> None:
    """Compiled now or loaded from the disk, in this process or another, on one thread or two."""
    code = "from tests.backends.test_determinism import digest; print(digest())"
    expected = digest()
    cache = {"FUNCTRAX_CACHE_DIR": str(tmp_path)}
    one = {"FUNCTRAX_NUM_THREADS": "1"}
    for name, extra in {"fresh": cache, "from disk": cache | one}.items():
        env = {**os.environ, "PYTHONPATH": str(ROOT), **extra}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
        assert done.stdout.strip() == expected, f"{name}: {done.stderr}"
    assert any((tmp_path / "kernels").iterdir())


# ---- accuracy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("shape", [(10**8,), (10**4, 10**4), (2, 5 * 10**7), (2 * 10**7, 8)])
def test_the_sum_of_many_ones(shape: tuple[int, ...], strict: bool) -> None:
    """The ones are made where they are added up, so they take no memory."""
    axis = shape.index(max(shape))

    def total(x: Any) -> Any:
        index = lax.broadcasted_iota(jnp.int32, shape, axis)
        return jnp.sum(jnp.where(index >= 0, x, 0), axis)

    with Override("strict", strict):
        found = fx.jit(total)(jnp.ones((), jnp.float32))
    np.testing.assert_array_equal(np.asarray(found), float(shape[axis]))


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
def test_the_sum_of_many_ones_in_memory(strict: bool) -> None:
    ones = jnp.ones(10**8, jnp.float32)
    with Override("strict", strict):
        assert float(jnp.sum(ones)) == 1e8
        assert float(fx.jit(jnp.sum)(ones)) == 1e8


@pytest.mark.parametrize("run", [lambda f: f, fx.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("strict", [False, True])
def test_the_mean_of_ones(run: Callable[..., Any], strict: bool) -> None:
    with Override("strict", strict):
        assert float(run(jnp.mean)(jnp.ones((1, 3, 321, 481), jnp.float32))) == 1.0


# ---- contraction to fma -------------------------------------------------------------------------


def test_strict_kernels_round_products() -> None:
    x = jnp.asarray([1 + 2.0**-12], jnp.float32)
    y = jnp.asarray([-1 - 2.0**-11], jnp.float32)
    with Override("strict", True):
        assert float(fx.jit(lambda x, y: x * x + y)(x, y)[0]) == 0.0
        assert float(fx.jit(lambda x, y: y + x * x)(x, y)[0]) == 0.0
        assert float(fx.jit(lambda x, y: x * x - -y)(x, y)[0]) == 0.0
    rounded_once = 2.0**-24 if target().has_fma else 0.0
    assert float(fx.jit(lambda x, y: x * x + y)(x, y)[0]) == rounded_once


def test_functions_keep_their_fused_products() -> None:
    """What is written as one fma in the expansion of a function stays one."""

    def fused_products(function: Callable[..., Any], strict: bool) -> int:
        with Override("strict", strict):
            return str(fx.explain(fx.jit(function))(TABLE).assembly).count("fmadd")

    if fused_products(lambda x: jnp.sin(x) + x * x, False) == 0:
        pytest.skip("the processor has no fma")
    assert fused_products(lambda x: x * x + x, True) == 0
    assert fused_products(lambda x: x * x + x, False) > 0
    assert fused_products(jnp.exp, True) > 0


def test_operands_that_lie_across_are_copied_once() -> None:
    """In strict mode a matrix product reads both operands along what is summed."""
    x, w = normal(0, 64, 64), normal(1, 64, 64)

    def function(x: Any, w: Any) -> Any:
        return x @ w, jnp.sin(x) @ w

    with Override("strict", True):
        record = fx.explain(fx.jit(function))(x, w)
        names = [eqn.primitive.name for kernel in record.kernels for eqn in kernel.eqns]
        assert names.count("transpose") == 1 and len(record.kernels) <= 3
        found = fx.jit(function)(x, w)
        assert bits(found) == bits(function(x, w))
    np.testing.assert_allclose(found[0], np.asarray(x) @ np.asarray(w), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", one_in(2, range(24)))
def test_strict_random_programs(seed: int) -> None:
    with fx.enable_x64(seed % 4 == 3), Override("strict", True):
        found = derived(RandomFunction(seed, "smooth"), seed // 4 % 3)
        if found is None:
            pytest.skip("nothing to compare")
        jaxpr, values = traced(*found)
        operands = [as_value(v) for v in values]
        outs = eval_jaxpr(jaxpr, (), *operands)
        one_by_one = [x.val if isinstance(x, Literal) else x for x in outs]
        jitted = fx.jit(lambda *xs: eval_jaxpr(jaxpr, (), *xs))(*operands)
        for got, wanted in zip(jitted, one_by_one, strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted))
