"""Operations outside of ``jit`` on the simulated GPU: recorded there, cut, and run as programs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax, random
from functrax.backends import internal_errors
from functrax.backends.cuda import choice
from functrax.backends.cuda.device import CudaDevice
from functrax.backends.cuda.runtime import DeviceArray
from functrax.backends.eager import MAX_NODES, pending_program, run as eager_run
from functrax.backends.places import Committed
from functrax.core import native
from functrax.core.arrays.array import Pending
from functrax.core.errors.typed import DonatedBufferError
from functrax.core.options.config import Override

pytestmark = pytest.mark.skipif(native.extension is None, reason="the extension records")


@pytest.fixture(autouse=True)
def on_a_simulated_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(choice.VARIABLE, "simulated")
    with functrax.backend("cuda"):
        yield


def size_of(x: Any) -> int:
    """How many operations are to be run for an array."""
    program = pending_program(x)
    return 0 if program is None else len(program.eqns)


def test_operations_are_one_program_that_runs_when_a_value_is_looked_at() -> None:
    x = jnp.arange(6.0)
    y = jnp.sin(x) * 2 + 1
    assert size_of(y) >= 4 and str(y.device) == "cuda:0" and not y.is_ready()
    np.testing.assert_allclose(y, np.sin(np.arange(6, dtype=np.float32)) * 2 + 1, rtol=1e-6)
    assert type(y.buffer) is DeviceArray and size_of(y) == 0


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "softmax": functrax.nn.softmax,
    "products and sums": lambda x: (x * x + x * 0.3 - x).sum(0),
    "functions": lambda x: jnp.tanh(x) * jnp.exp(-x) + jnp.log1p(x * x),
    "sorted": lambda x: jnp.sort(x * 3, axis=1)[:, ::-1],
    "matrices": lambda x: (x @ x.T) @ x,
    "gradient": functrax.grad(lambda x: (jnp.cos(x) @ x.T).sum()),
    "second derivative": functrax.vmap(functrax.vmap(functrax.grad(functrax.grad(jnp.sin)))),
    "random": lambda x: x + random.normal(random.key(3), x.shape),
    "loop": lambda x: lax.fori_loop(0, 3, lambda k, a: a * 1.5 + k, x) - 1,
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_the_cpu(name: str, strict: bool) -> None:
    numbers = np.linspace(-2, 2, 35, dtype=np.float32).reshape(5, 7)
    with Override("strict", strict):
        found = FUNCTIONS[name](jnp.asarray(numbers))
        with functrax.backend("llvm"):
            expected = FUNCTIONS[name](jnp.asarray(numbers))
        assert str(found.device) == "cuda:0"
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def test_what_else_is_recorded_changes_no_bit() -> None:
    x = jnp.asarray(np.linspace(0.1, 3, 1000, dtype=np.float32))
    product = x * x
    product.block_until_ready()
    looked_at = product + x  # two programs
    together = x * x + x  # one, which must not contract the product and the sum
    assert np.asarray(looked_at).tobytes() == np.asarray(together).tobytes()


def test_a_long_loop_is_run_in_pieces_and_finds_its_programs_again() -> None:
    losses, w = [], jnp.ones(8)
    data = jnp.asarray(np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8))
    step = functrax.value_and_grad(lambda w: jnp.mean((jnp.tanh(data @ w) - 0.5) ** 2))
    largest = 0
    for _ in range(60):
        loss, slope = step(w)
        w = w - 0.1 * slope
        losses.append(loss)
        largest = max(largest, size_of(w))
    assert 0 < largest <= MAX_NODES  # nothing waits longer because nobody looks
    values = [float(x) for x in losses]
    assert values == sorted(values, reverse=True) and values[-1] < values[0]


def test_settings_are_mixed_where_the_default_device_changes() -> None:
    x = jnp.arange(4.0) + 1
    with functrax.backend("llvm"):
        y = x * 2  # x is pending on the GPU: it is computed, and copied
        assert str(y.device) == "cpu:0"
        z = jnp.ones(4) * 3
    total = z + x
    assert str(total.device) == "cuda:0"
    assert y.tolist() == [2, 4, 6, 8] and total.tolist() == [4, 5, 6, 7]


def test_committed_arrays_run_at_once_and_their_results_are_committed() -> None:
    (gpu,) = functrax.devices("gpu")
    x = jnp.arange(3.0) * 2
    placed = functrax.device_put(x, gpu)
    y = placed + x
    assert type(y._buffer) is Committed and y.committed and not x.committed
    assert y.tolist() == [0, 4, 8]


def test_a_donated_array_is_read_before_by_what_is_recorded() -> None:
    x = jnp.ones(5) * 2
    x.block_until_ready()
    y = x * 5
    assert type(y._buffer) is Pending
    z = functrax.jit(lambda a: a + 1, donate_argnums=0)(x)
    assert y.tolist() == [10] * 5 and z.tolist() == [3] * 5
    with pytest.raises(DonatedBufferError):
        x.tolist()


def test_jitted_functions_take_what_is_pending() -> None:
    x = jnp.arange(5.0) * 2
    assert functrax.jit(lambda a: a + 1)(x + 1).tolist() == [2, 4, 6, 8, 10]


def test_threads_wait_for_what_is_theirs() -> None:
    @functrax.jit
    def f(x: Any) -> Any:
        for _ in range(3):
            x = functrax.nn.relu(x @ x * 0.1) + jnp.sin(x)
        return x, x.sum()

    x = jnp.asarray(np.linspace(-1, 1, 25, dtype=np.float32).reshape(5, 5))
    expected = np.asarray(f(x)[0])
    found: list[Any] = []

    def work() -> None:
        try:
            for _ in range(60):
                found.append(np.array_equal(f(x)[0], expected))
        except Exception as error:  # of the simulator, which sees what is in no order
            found.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 240


def test_other_libraries_get_the_memory_of_what_is_pending() -> None:
    x = jnp.arange(4.0) + 0.5
    assert x.__dlpack_device__() == (2, 0)
    assert x.__cuda_array_interface__["shape"] == (4,)
    y = jnp.from_dlpack(jnp.arange(4.0) + 1.5)
    assert y.tolist() == [1.5, 2.5, 3.5, 4.5]


def test_memory_that_others_write_to_is_read_at_once() -> None:
    memory = np.ones(4, np.float32)
    shared = jnp.from_dlpack(memory)
    y = jnp.arange(4.0) * shared
    memory[:] = 7
    assert y.tolist() == [0, 1, 2, 3]
    assert (jnp.arange(4.0) * shared).tolist() == [0, 7, 14, 21]


def test_where_a_program_cannot_be_made_numpy_computes_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    eager_run.forget()
    monkeypatch.setattr(CudaDevice, "compiled", None)  # an error of functrax's own code
    monkeypatch.setattr(internal_errors, "observers", [])
    x = jnp.arange(3.0) * 7
    with pytest.warns(RuntimeWarning, match="computed by NumPy"):
        assert x.tolist() == [0, 7, 14]
    assert str(x.device) == "cuda:0" and type(x.buffer) is DeviceArray
