"""What is computed again has a price in operations; how often a kernel computes an equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.backends.compilation.pipeline import run_pipeline
from functrax.backends.kernels.math import FUNCTION_OPERATIONS
from functrax.backends.kernels.operations import operations_of
from functrax.backends.passes.fusion.evaluations import evaluations
from functrax.backends.passes.groups import fused
from functrax.core.ir.jaxpr import Eqn, Jaxpr
from functrax.core.scalars.scalar import THREEFRY, WORK

# ---- operations ---------------------------------------------------------------------------------


def eqns_of(function: Callable[..., Any], *args: Any) -> list[Eqn]:
    return list(functrax.make_jaxpr(function)(*args).jaxpr.eqns)


def counted(function: Callable[..., Any], *args: Any) -> dict[str, float]:
    return {e.primitive.name: operations_of(e) for e in eqns_of(function, *args)}


def test_functions_count_as_what_they_are_written_with() -> None:
    assert counted(jnp.add, 1.0, 2.0) == {"add": 1}
    assert counted(jnp.exp, 1.0) == {"exp": FUNCTION_OPERATIONS["exp"]}
    assert counted(jnp.tanh, 1.0)["tanh"] == FUNCTION_OPERATIONS["tanh"]
    assert counted(lambda x: x / 3, 1.0)["div"] > 1


def test_random_bits_count_their_rounds() -> None:
    key = jnp.zeros(2, "uint32")
    found = counted(lambda k: functrax.random.bits(k, (3,)), key)
    assert found["threefry2x32"] == WORK[THREEFRY] > 100


def test_wide_elements_take_more_registers() -> None:
    with functrax.enable_x64():
        assert counted(jnp.exp, np.float64(1)) == {"exp": 2 * FUNCTION_OPERATIONS["exp"]}
    assert counted(jnp.multiply, 1j, 2j)["mul"] > 4  # of the parts


@pytest.mark.parametrize("by", [2, 3, 1000])
def test_numbers_of_a_program_do_not_matter(by: int) -> None:
    assert counted(lambda x: x // by, 7) == counted(lambda x: x // 5, 7)


# ---- evaluations --------------------------------------------------------------------------------


def program_of(function: Callable[..., Any], *args: Any) -> Jaxpr:
    return run_pipeline(functrax.make_jaxpr(function)(*args).jaxpr).program


def often(function: Callable[..., Any], *args: Any) -> list[dict[str, float]]:
    """For each kernel the equations that it computes more often than once, or less."""
    found = []
    for eqn in program_of(function, *args).eqns:
        assert eqn.primitive is fused
        inner = eqn.params["jaxpr"]
        times = zip(inner.eqns, evaluations(inner), strict=True)
        found.append({e.primitive.name: n for e, n in times if n != 1})
    return found


def neighbours(x: Any) -> Any:
    return sum(jnp.roll(x, shift, axis) for shift in (-1, 1) for axis in (0, 1))


def test_a_stencil_computes_at_each_place_that_it_reads() -> None:
    x = jnp.ones((64, 64))
    assert often(lambda x: neighbours(x * 3), x) == [{"mul": 8}]  # both pieces of each of four
    assert often(lambda x: neighbours(x * 3) + x * 3, x) == [{"mul": 9}]
    assert often(lambda x: neighbours(jnp.exp(x)), x) == [{}, {}]  # which is stored
    assert often(neighbours, x) == [{}]


def test_a_large_space_is_split_where_pieces_meet() -> None:
    assert often(lambda x: neighbours(x * 3), jnp.ones((512, 512))) == [{"mul": 4}]


def test_what_is_spread_or_cut() -> None:
    spread = often(lambda x, y: (x * 3)[None] + y, jnp.ones(100), jnp.ones((50, 100)))
    assert spread == [{"mul": 50}]
    assert often(lambda x: (x * 3)[:10], jnp.ones(100)) == [{"mul": 0.1}]


def test_numbers_of_rows_are_computed_once() -> None:
    x = jnp.ones((64, 100))
    assert often(lambda x: x - x.mean(1, keepdims=True) * 2, x) == [{}]
    assert often(functrax.nn.softmax, x) == [{}]


def test_both_words_of_a_key_come_from_one_place() -> None:
    """A stack of the two words is read at one place, so they are one evaluation."""

    def rows(k: Any) -> Any:
        first = functrax.random.split(k, 3)
        return functrax.random.bits(first[1], (5,))

    for kernel in often(rows, jnp.zeros(2, "uint32")):
        assert kernel.get("threefry2x32", 1) <= 5  # for each of the points, not for each word


# ---- what is stored -----------------------------------------------------------------------------


def half(key: Any, spins: Any, parity: int) -> Any:
    i, j = (jnp.arange(n) for n in spins.shape)
    u = functrax.random.uniform(key, spins.shape)
    flips = (u < jnp.exp(-0.88 * spins * neighbours(spins))) & ((i[:, None] + j) % 2 == parity)
    return jnp.where(flips, -spins, spins)


def sweep(keys: Any, spins: Any) -> Any:
    return half(keys[1], half(keys[0], spins, 0), 1)


@pytest.mark.parametrize("n", [2, 16, 64, 100, 128, 300, 500])
def test_a_half_of_a_checkerboard_is_computed_once(n: int) -> None:
    rng = np.random.default_rng(n)
    spins = np.where(rng.random((n, n)) < 0.5, -1, 1).astype("f")
    keys = rng.integers(0, 2**32, (2, 2), dtype="u4")
    kernels = [e for e in program_of(sweep, keys, spins).eqns if e.primitive is fused]
    for kernel in kernels:
        inner = kernel.params["jaxpr"]
        for eqn, times in zip(inner.eqns, evaluations(inner), strict=True):
            if eqn.outvars[0].aval.shape == (n, n) and n > 2:
                assert times == 1 or eqn.primitive.name not in ("threefry2x32", "exp"), eqn
    both = functrax.jit(sweep)(keys, spins)
    one = functrax.jit(half, static_argnums=2)
    np.testing.assert_array_equal(both, one(keys[1], one(keys[0], spins, 0), 1))


VELOCITIES = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]


def stream(f: Any, lib: Any = jnp) -> Any:
    return lib.stack([lib.roll(f[k], v, (0, 1)) for k, v in enumerate(VELOCITIES)])


def collide(f: Any, lib: Any = jnp) -> Any:
    c = lib.asarray(VELOCITIES, "float32")
    u = lib.einsum("kxy,kd->dxy", f, c) / f.sum(0)
    return f - (f - f.sum(0) * (1 + 3 * lib.einsum("kd,dxy->kxy", c, u))) / 2


def collide_sums(f: Any, lib: Any = jnp) -> Any:
    right, left = f[1] + f[5] + f[8], f[3] + f[6] + f[7]
    return f - (f - (right - left) / f.sum(0)) / 2


def pieces(program: Jaxpr) -> list[int]:
    """In each kernel how many arrays are put together."""
    inner = [e.params["jaxpr"].eqns for e in program.eqns if "jaxpr" in e.params]
    return [sum(e.primitive.name == "concatenate" for e in eqns) for eqns in inner]


@pytest.mark.parametrize("after", [collide, collide_sums])
@pytest.mark.parametrize("shape", [(80, 200), (13, 1), (1, 7)])
def test_a_view_of_many_pieces_is_put_together_once(after: Any, shape: tuple[int, int]) -> None:
    f = np.random.default_rng(0).random((9, *shape)).astype("f") + 1
    if shape == (80, 200):
        found = pieces(program_of(lambda f: after(stream(f)), jnp.asarray(f)))
        alone = pieces(program_of(after, jnp.asarray(f)))
        assert sum(n > 8 for n in found) == 1 + sum(n > 8 for n in alone), found
    wanted = after(stream(f.astype("d"), np), np)
    np.testing.assert_allclose(functrax.jit(lambda f: after(stream(f)))(f), wanted, rtol=2e-5)


def test_a_view_of_few_pieces_is_part_of_each_kernel() -> None:
    def function(x: Any) -> Any:
        y = jnp.roll(x, 1)
        return jnp.sin(y), y.sum()

    assert sorted(pieces(program_of(function, jnp.ones(1 << 16)))) == [1]

    def two(x: Any) -> Any:
        y = jnp.roll(x, 1, 0)
        return y.sum(0), y.sum(1)

    assert pieces(program_of(two, jnp.ones((300, 300)))) == [1, 1]


def test_the_gradient_and_the_batch_of_a_stored_view() -> None:
    f = np.random.default_rng(0).random((9, 12, 10)).astype("f") + 1

    def loss(f: Any) -> Any:
        return (collide_sums(stream(f)) ** 2).sum()

    g = functrax.jit(functrax.grad(loss))(f)
    with functrax.disable_jit():
        np.testing.assert_allclose(g, functrax.grad(loss)(jnp.asarray(f)), rtol=1e-4)
    batch = functrax.jit(functrax.vmap(lambda f: collide(stream(f))))(np.stack([f, 2 * f]))
    np.testing.assert_allclose(
        batch[1], functrax.jit(lambda f: collide(stream(f)))(2 * f), rtol=1e-5
    )
