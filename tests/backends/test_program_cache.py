"""Whole programs on disk: what comes back is what was compiled, or nothing."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends import disk_cache
from functrax.backends.cache import program_cache, program_key
from functrax.backends.cpu import CpuDevice
from functrax.backends.executables.program import Launch, RuntimeProgram, all_programs
from functrax.backends.runtime.choice import NATIVE, PYTHON
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import config
from functrax.core.tracing.stage import program_observers
from functrax.extend import Elementwise, dtypes

ROOT = str(Path(functrax.__file__).parents[1])
X = np.linspace(-2, 2, 60, dtype=np.float32).reshape(5, 12)


@pytest.fixture
def cache(tmp_path):
    """A cache of the test's own, with whole programs in it."""
    before = config.compilation_cache_dir
    config.update("compilation_cache_dir", str(tmp_path))
    config.update("cache_programs", True)
    yield disk_cache.current()
    config.update("compilation_cache_dir", before)
    config.update("cache_programs", False)


def traced(function, *args) -> Jaxpr:
    """The program of a function, which is nobody else's."""
    return functrax.jit(function).lower(*args).jaxpr


def loop(x):
    return lax.fori_loop(0, 5, lambda i, c: jnp.sin(c) + i, x)


def until(x):
    return lax.while_loop(lambda c: jnp.sum(c) < 100.0, lambda c: c * 1.5 + 1.0, x)


def steps(x):
    return lax.scan(lambda c, row: (c @ jnp.outer(row, row), jnp.max(c)), x, x)


def branch(x):
    return lax.cond(x[0, 0] > 0, lambda v: v * 2, lambda v: jnp.exp(v), x)


@functrax.custom_jvp
def with_rule(x):
    return jnp.sin(x) * 2


with_rule.defjvp(lambda primals, tangents: (with_rule(*primals), tangents[0] * 3))


@functrax.custom_vjp
def with_another_rule(x):
    return jnp.sin(x) * 2 + 1


with_another_rule.defvjp(lambda x: (with_another_rule(x), None), lambda _, ct: (ct,))


FUNCTIONS = {
    "elementwise": lambda x: jnp.tanh(x) * 2.5 - x,
    "several results": lambda x: (x, jnp.sum(x), x + 1, jnp.flip(x, 1)),
    "product": lambda x: jnp.tanh(x @ x.T),
    "gradient": functrax.grad(lambda x: jnp.sum(jax_like(x) ** 2)),
    "cumsum": lambda x: jnp.cumsum(x, 1),
    "update": lambda x: x.at[2].set(1.0).at[:, 3].add(x[:, 0]),
    "gather": lambda x: x[:, jnp.abs(x[:, 0]).astype(np.int32)],
    "bfloat16": lambda x: (x.astype(jnp.bfloat16) * 3).sum(),
    "integers": lambda x: (x * 10).astype(np.int8) // 3,
    "vmap": functrax.vmap(lambda row: jnp.outer(row, row).sum(0) / 3),
    "loop": loop,
    "while": until,
    "scan": steps,
    "cond": branch,
    "nothing": lambda x: x,
    "constant": lambda x: jnp.zeros((3, 4)),
    "derivative rule": lambda x: with_rule(x) + with_rule(x[:1]),
    "another rule": with_another_rule,
    "rule in a loop": lambda x: lax.scan(lambda c, row: (with_rule(c + row), c.sum()), x[0], x),
    "checkpoint": functrax.grad(lambda x: functrax.checkpoint(lambda y: jnp.sin(y).sum())(x)),
}


def jax_like(x):
    return jnp.maximum(x, 0) / (1 + jnp.exp(-x))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_comes_back_is_what_was_compiled(name, cache):
    made = CpuDevice().compiled(traced(FUNCTIONS[name], X)).program
    found = program_cache.find(traced(FUNCTIONS[name], X))
    assert found is not None and found is not made
    assert str(found) == str(made)
    for ours, theirs in zip(all_programs(found), all_programs(made), strict=True):
        assert (ours.workspaces, ours.arena, ours.peak) == (
            theirs.workspaces,
            theirs.arena,
            theirs.peak,
        )
        assert [s.shares for s in ours.slots] == [s.shares for s in theirs.slots]
    for runtime in filter(None, (NATIVE, PYTHON)):
        expected = [np.asarray(x) for x in runtime.load(made)([X])]
        for a, b in zip(runtime.load(found)([X]), expected, strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)


def test_a_jitted_function_takes_it(cache, monkeypatch):
    expected = functrax.jit(FUNCTIONS["gradient"])(X)
    monkeypatch.setattr("functrax.backends.compilation.compiler.compile_program", None)
    np.testing.assert_array_equal(functrax.jit(FUNCTIONS["gradient"])(X), expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sort(x),  # the reference runs it
        lambda x: functrax.pure_callback(np.sin, functrax.ShapeDtypeStruct(x.shape, x.dtype), x),
    ],
)
def test_programs_that_call_python_are_not_kept(function, cache):
    CpuDevice().compiled(traced(function, X))
    assert program_cache.find(traced(function, X)) is None


# ---- keys ---------------------------------------------------------------------------------------


def key_of(function, *args):
    return program_key.program_key(traced(function, *args))


def test_equal_programs_have_one_key():
    for function in FUNCTIONS.values():
        assert key_of(function, X) == key_of(function, X) is not None


def test_different_programs_have_different_keys():
    def scaled(number):
        return lambda x: x * np.float32(number)

    keys = [key_of(f, X) for f in FUNCTIONS.values()]
    numbers = (0.0, -0.0, 1.0, np.nextafter(np.float32(1), np.float32(2)), np.nan, np.inf)
    keys += [key_of(scaled(number), X) for number in numbers]
    keys += [key_of(scaled(2), x) for x in (X, X[:4], X.astype(np.float16), 2.0, np.float32(2))]
    keys += [key_of(partial(jnp.sum, axis=k), X) for k in (0, 1)]
    keys += [key_of(partial(jnp.reshape, shape=s), X) for s in ((60,), (12, 5), (5, 12, 1))]
    keys += [key_of(partial(jnp.roll, shift=k, axis=1), X) for k in (1, 2)]
    assert len(set(keys)) == len(keys)


def test_keys_depend_on_options_and_on_the_compiler(monkeypatch):
    jaxpr = traced(FUNCTIONS["product"], X)
    keys = [program_key.program_key(jaxpr)]
    for option, value in (("opt", False), ("schedule_off", "tiles"), ("strict_tiles", True)):
        before = getattr(config, option)
        config.update(option, value)
        keys.append(program_key.program_key(jaxpr))
        config.update(option, before)
    monkeypatch.setattr(program_key, "compiler", lambda: "another")
    keys.append(program_key.program_key(jaxpr))
    monkeypatch.setattr(program_key, "circumstances", lambda: "another")
    keys.append(program_key.program_key(jaxpr))
    assert None not in keys and len(set(keys)) == len(keys)


def test_a_changed_source_is_another_compiler(monkeypatch, tmp_path):
    for folder in ("backends/cache", "backends/passes", "core"):
        (tmp_path / folder).mkdir(parents=True)
    source = tmp_path / "backends" / "passes" / "fuse.py"
    source.write_text("x = 1")
    (tmp_path / "core" / "config.py").write_text("")
    monkeypatch.setattr(program_key, "__file__", str(tmp_path / "backends" / "cache" / "x.py"))
    found = []
    for text in ("x = 1", "x = 22"):
        source.write_text(text)
        found.append(program_key.compiler.__wrapped__())
    (tmp_path / "core" / "new.py").write_text("")
    found.append(program_key.compiler.__wrapped__())
    assert len(set(found)) == 3


def test_what_only_this_process_knows_has_no_key():
    class Twice(Elementwise):
        name = "test_program_cache_twice"
        accepts = dtypes.FLOATING

        def reference(self, x):
            return 2 * x

    twice = Twice()
    assert key_of(lambda x: twice(x) + 1, X) is None
    assert key_of(lambda x: jnp.sin(x) + 1, X) is not None


# ---- what is damaged, or gone -------------------------------------------------------------------


def test_a_damaged_program_is_compiled_again(cache):
    def function(x):
        return jnp.cos(x) * 3.75

    expected = np.asarray(functrax.jit(function)(X))
    file = Path(cache.root) / "kernels" / key_of(function, X).hex()
    file.write_bytes(file.read_bytes()[:-3] + b"abc")
    assert program_cache.find(traced(function, X)) is None
    functrax.clear_caches()  # another jit of the same function shares what the first one compiled
    np.testing.assert_array_equal(functrax.jit(function)(X), expected)
    assert program_cache.find(traced(function, X)) is not None


def test_options_switch_it_off(cache):
    def function(x):
        return jnp.cos(x) * 4.75

    for option, value in (("cache_programs", False), ("cache", False), ("dump", "groups")):
        before = getattr(config, option)
        config.update(option, value)
        assert program_cache._key(traced(function, X)) is None
        config.update(option, before)
    assert program_cache._key(traced(function, X)) is not None


# ---- other processes ----------------------------------------------------------------------------

PROGRAM = """
import sys
import numpy as np
import functrax
import functrax.numpy as jnp
from functrax import lax
x = np.linspace(-1, 1, 4096, dtype=np.float32).reshape(64, 64)
def f(x):
    return jnp.sum(jnp.tanh(x @ x) / lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x))
y = np.asarray(functrax.jit(functrax.grad(f))(x))
from functrax.backends.machine_code import kernel_jit as jit
print(y.tobytes().hex()[::999], jit.machine().count)
"""


def results(folder, native="1") -> list[str]:
    """What the program computes in a new process, and how many kernels LLVM made there."""
    environment = {
        **os.environ,
        "PYTHONPATH": ROOT,
        "FUNCTRAX_CACHE_DIR": str(folder),
        "FUNCTRAX_CACHE_PROGRAMS": "1",
        "FUNCTRAX_NATIVE": native,
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert not done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("native", ["1", "0"])
def test_another_process_compiles_nothing(tmp_path, native):
    values, count = results(tmp_path, native)
    assert int(count) > 0
    assert results(tmp_path, native) == [values, "0"]


def test_kernels_that_are_gone_are_compiled_again(tmp_path):
    values, _ = results(tmp_path)
    for file in (tmp_path / "kernels").iterdir():
        if b"\x7fELF" in file.read_bytes():
            file.unlink()
            break
    assert results(tmp_path) == [values, "1"]
    assert results(tmp_path) == [values, "0"]


# ---- what is known of it ------------------------------------------------------------------------


def test_a_profile_knows_as_much_of_it(cache):
    from functrax.profiler.instructions import facts_of

    def function(x):
        return jnp.tanh(x @ x.T).sum(0)

    first, again = traced(function, X), traced(function, X)
    made = CpuDevice().compiled(first).program
    found = program_cache.find(again)
    assert any(type(x) is Launch for x in found.instructions)
    assert facts_of(found) == facts_of(made)


# ---- how long it lives --------------------------------------------------------------------------


@pytest.fixture
def unobserved():
    """Nobody looks at the programs that are traced: whoever checks those of the test keeps them."""
    observers = program_observers.copy()
    program_observers.clear()
    yield
    program_observers.extend(observers)


def programs_left() -> int:
    gc.collect()
    return sum(type(x) is RuntimeProgram for x in gc.get_objects())


def test_what_comes_from_disk_goes_with_the_function(cache, unobserved):
    def run() -> None:
        functrax.jit(lambda x: jnp.tanh(x @ x.T).sum(0))(X)

    run()
    before, found = programs_left(), cache.stats.hits
    for _ in range(5):
        run()
    assert cache.stats.hits > found
    assert programs_left() <= before


def test_what_a_plan_makes_goes_with_the_function(cache, unobserved):
    def run(size: int) -> None:
        functrax.jit(lambda x: jnp.tanh(x * 3).sum(0) - x)(np.ones((size, 7), np.float32))

    for size in range(2, 12):
        run(size)
    before = programs_left()
    for size in range(12, 32):
        run(size)
    assert programs_left() <= before
