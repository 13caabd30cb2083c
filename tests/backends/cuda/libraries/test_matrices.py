"""Factorisations and linear systems by simulated libraries, in both halves of the runtime."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax
from functrax.backends.cuda import choice
from functrax.backends.cuda.runtime import GpuRuntime
from functrax.core.options.config import Override
from functrax.core.options.contexts import enable_x64
from tests.backends.cuda.libraries.machines import Machine
from tests.backends.cuda.runtimes import RUNTIMES

both = pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda x: x.name)
each_dtype = pytest.mark.parametrize("char", "fdFD")
each_batch = pytest.mark.parametrize("lead", [(), (1,), (2, 2)], ids=str)
RNG = np.random.default_rng(1)


@pytest.fixture(autouse=True)
def on_the_simulated_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(choice.VARIABLE, "simulated")
    with enable_x64():
        yield


def numbers(char: str, *shape: int) -> Any:
    x = RNG.normal(size=shape)
    if char in "FD":
        x = x + 1j * RNG.normal(size=shape)
    return x.astype(char)


def positive(char: str, *lead: int, n: int = 4) -> Any:
    x = numbers(char, *lead, n, n)
    return (x @ x.conj().swapaxes(-1, -2) + 3 * np.eye(n)).astype(char)


def expected(f: Callable[..., Any], *args: Any) -> list[Any]:
    with functrax.backend("interp"):
        return [np.asarray(x) for x in functrax.tree.leaves(functrax.jit(f)(*args))]


def agree(machine: Machine, f: Callable[..., Any], *args: Any) -> list[Any]:
    """Compare what the machine computes with the references; its results."""
    found = machine.run(f, *args)
    for ours, theirs in zip(found, expected(f, *args), strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        bound = 2e-4 if ours.dtype in (np.float32, np.complex64) else 1e-11
        np.testing.assert_allclose(ours, theirs, rtol=bound, atol=bound)
    return found


@both
@each_dtype
@each_batch
def test_cholesky(runtime: GpuRuntime, char: str, lead: tuple[int, ...]) -> None:
    machine = Machine(runtime)
    x = positive(char, *lead)
    (factor,) = agree(machine, lax.linalg.cholesky, x)
    assert not np.triu(factor, 1).any()
    x[..., 2, 2] = -1
    if len(lead) > 1:
        x[0] = positive(char)
    (factor,) = agree(machine, lax.linalg.cholesky, x)
    assert np.isnan(factor).any() and not np.triu(factor, 1).any()
    batched = [name for name in machine.simulated.calls if "potrfBatched" in name]
    assert len(batched) == (len(lead) > 1)


@both
@each_dtype
@each_batch
def test_linear_systems(runtime: GpuRuntime, char: str, lead: tuple[int, ...]) -> None:
    machine = Machine(runtime)
    a = numbers(char, *lead, 4, 4)
    for sides in (1, 3):
        agree(machine, jnp.linalg.solve, a, numbers(char, *lead, 4, sides))
    agree(machine, jnp.linalg.inv, a)
    a[..., 2] = 0
    if len(lead) > 1:
        a[0] = positive(char)
    (x,) = agree(machine, jnp.linalg.solve, a, numbers(char, *lead, 4, 2))
    assert np.isnan(x).any()


@both
@each_dtype
@each_batch
def test_triangular_systems(runtime: GpuRuntime, char: str, lead: tuple[int, ...]) -> None:
    a, b = positive(char, *lead), numbers(char, *lead, 4, 3)
    for left, lower, turn, conj, unit in itertools.product([False, True], repeat=5):
        how = {
            "left_side": left,
            "lower": lower,
            "transpose_a": turn,
            "conjugate_a": conj,
            "unit_diagonal": unit,
        }
        if conj and not turn and char in "FD":
            continue  # which cuBLAS does not have
        side = b if left else b.swapaxes(-1, -2).copy()
        machine = Machine(runtime)
        agree(machine, lambda a, b, how=how: lax.linalg.triangular_solve(a, b, **how), a, side)
        assert any("trsm" in name for name in machine.simulated.calls)


@both
@each_dtype
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (1, 4, 4)], ids=str)
def test_elimination(runtime: GpuRuntime, char: str, shape: tuple[int, ...]) -> None:
    agree(Machine(runtime), lax.linalg.lu, numbers(char, *shape))


@both
@each_dtype
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (1, 4, 4), (5, 1), (1, 3)], ids=str)
def test_orthogonal_factors(runtime: GpuRuntime, char: str, shape: tuple[int, ...]) -> None:
    for full, compute in itertools.product([False, True], repeat=2):

        def f(x: Any, full: bool = full, compute: bool = compute) -> Any:
            mode = ("complete" if full else "reduced") if compute else "r"
            return jnp.linalg.qr(x, mode=mode)

        machine = Machine(runtime)
        agree(machine, f, numbers(char, *shape))
        assert any("geqrf" in name for name in machine.simulated.calls)


@both
@pytest.mark.parametrize("lead", [(), (1,)], ids=str)
def test_derivatives(runtime: GpuRuntime, lead: tuple[int, ...]) -> None:
    a, b = positive("d", *lead), numbers("d", *lead, 4, 3)

    def f(a: Any, b: Any) -> Any:
        return (jnp.linalg.solve(a, b) ** 2).sum() + jnp.linalg.cholesky(a).sum()

    agree(Machine(runtime), functrax.grad(f, argnums=(0, 1)), a, b)
    agree(Machine(runtime), lambda a, b: functrax.jvp(lambda a: f(a, b), (a,), (a,))[1], a, b)


@both
@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_streams_and_the_same_bits(runtime: GpuRuntime, seed: int) -> None:
    a, b = positive("f", 3), numbers("f", 3, 4, 2)

    def f(a: Any, b: Any) -> Any:
        return jnp.linalg.cholesky(a * 2) + 1, jnp.linalg.solve(a + a, b * 2), jnp.linalg.inv(a[0])

    machine = Machine(runtime, seed)
    executable = machine.executable(f, a, b)
    runs = [[np.asarray(x) for x in executable([a, b])] for _ in range(4)]
    for run in runs[1:]:
        assert [x.tobytes() for x in run] == [x.tobytes() for x in runs[0]]
    assert machine.driver.fault is None
    before = machine.gpu.stats()
    executable([a, b])
    after = machine.gpu.stats()
    assert (after.in_use, after.allocations) == (before.in_use, before.allocations)


@both
def test_a_status_is_told_once_and_the_host_goes_on(runtime: GpuRuntime) -> None:
    a = positive("f")
    for function, name in (
        (lax.linalg.cholesky, "cusolverDnSpotrf"),
        (lax.linalg.lu, "cusolverDnSlaswp"),
        (jnp.linalg.inv, "cusolverDnCreate"),
    ):
        machine = Machine(runtime)
        machine.simulated.statuses[name] = 6
        executable = machine.executable(function, a)
        with pytest.warns(RuntimeWarning, match=f"cuSOLVER failed.*{name}: CUSOLVER_.*6"):
            found = [np.asarray(x) for x in executable([a])]
        for _ in range(2):
            for ours, theirs in zip(found, expected(function, a), strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
            found = [np.asarray(x) for x in executable([a])]


@both
def test_what_libraries_lack_is_the_hosts(runtime: GpuRuntime) -> None:
    a = numbers("F", 2, 4, 4)
    how = {"left_side": True, "lower": True, "conjugate_a": True}

    def f(a: Any) -> Any:
        return lax.linalg.lu(a), lax.linalg.triangular_solve(a, a, **how), jnp.linalg.svd(a)[1]

    machine = Machine(runtime)
    found = [np.asarray(x) for x in machine.executable(f, a)([a])]
    for ours, theirs in zip(found, expected(f, a), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    assert machine.simulated.calls == {}
    with functrax.backend("cuda"):
        text = str(functrax.explain(f)(a))
    assert "lu on the host, because cuSOLVER has it for one matrix alone" in text
    assert "triangular_solve on the host, because cuBLAS has no conjugated" in text
    assert "svd on the host, because no library is used for it" in text
    with functrax.backend("cuda"), Override("cuda_libraries", "off"):
        text = str(functrax.explain(jnp.linalg.inv)(a))
    assert "linear_solve on the host, because the option cuda_libraries is 'off'" in text


@both
@pytest.mark.parametrize(("option", "value"), [("strict", True), ("cuda_libraries", "off")])
def test_options_leave_it_to_the_host(runtime: GpuRuntime, option: str, value: Any) -> None:
    a = positive("d")
    machine = Machine(runtime)
    with Override(option, value):
        found = machine.executable(lambda a: jnp.linalg.inv(jnp.linalg.cholesky(a)), a)([a])
    np.testing.assert_allclose(
        np.asarray(found[0]), np.linalg.inv(np.linalg.cholesky(a)), rtol=1e-9, atol=1e-12
    )
    assert machine.simulated.calls == {}
