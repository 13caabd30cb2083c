"""Programs with a planted fault, which the simulator must find, beside the same without it."""

from __future__ import annotations

import numpy as np
import pytest

from functrax.backends.cuda.simulator.errors import (
    DataRace,
    LaunchError,
    OutOfBounds,
    UninitializedRead,
    UseAfterFree,
)
from functrax.backends.cuda.simulator.launch import launch
from functrax.backends.cuda.simulator.memory import DeviceMemory
from functrax.backends.cuda.simulator.module import Module
from tests.backends.cuda.fault_cases import CASES
from tests.backends.cuda.fault_programs import COPY
from tests.backends.cuda.simulated import kernel_text, run


def launched(case, text):
    x = np.arange(case.words, dtype=np.uint32)
    return run(text, x, (case.words, np.uint32), block=case.block, grid=case.grid, step_limit=2000)


@pytest.mark.parametrize("name", CASES)
def test_a_planted_fault_is_found(name):
    case = CASES[name]
    assert case.old in case.body
    broken = case.body.replace(case.old, case.new, 1)
    text = kernel_text(broken, shared=case.shared)
    with pytest.raises(case.error) as caught:
        launched(case, text)
    fault = caught.value
    assert type(fault) is case.error
    assert fault.kernel == "k"
    assert fault.block is not None
    assert case.at in fault.instruction
    assert case.at in text.splitlines()[fault.line - 1]
    if case.thread is not None:
        assert fault.thread == (case.thread, 0, 0)


@pytest.mark.parametrize("name", CASES)
def test_the_program_without_it_is_silent(name):
    case = CASES[name]
    launched(case, kernel_text(case.body, shared=case.shared))


def test_a_freed_buffer():
    memory = DeviceMemory()
    k = Module(kernel_text(COPY)).kernels["k"]
    x, y = memory.allocate(1024), memory.allocate(1024)
    memory.write(x, np.zeros(256, np.uint32))
    launch(k, (1, 1, 1), (64, 1, 1), [x, y], memory)
    memory.free(x)
    again = memory.allocate(1024)
    memory.write(again, np.zeros(256, np.uint32))
    with pytest.raises(UseAfterFree) as caught:
        launch(k, (1, 1, 1), (64, 1, 1), [x, y], memory)
    assert caught.value.address == x
    with pytest.raises(ValueError, match="freed"):
        memory.read(x, 4)
    with pytest.raises(ValueError, match="freed before"):
        memory.free(x)


def test_a_buffer_that_nobody_wrote():
    memory = DeviceMemory()
    k = Module(kernel_text(COPY)).kernels["k"]
    x, y = memory.allocate(1024), memory.allocate(1024)
    memory.write(x, np.zeros(59, np.uint32))
    with pytest.raises(UninitializedRead) as caught:
        launch(k, (1, 1, 1), (64, 1, 1), [x, y], memory)
    assert caught.value.thread == (59, 0, 0)
    assert caught.value.address == x + 4 * 59
    launch(k, (1, 1, 1), (64, 1, 1), [x, y], memory, checks=False)


def test_the_source_line_is_named():
    body = COPY.replace("ld.global.u32 %r1, [%rd1]", ".loc 1 42 7\n ld.global.u32 %r1, [%rd1+4096]")
    text = kernel_text(body).replace(".visible", '.file 1 "model.py"\n.visible')
    with pytest.raises(OutOfBounds, match=r"model\.py:42") as caught:
        run(text, np.zeros(256, np.uint32), (256, np.uint32), block=64)
    assert caught.value.source == "model.py:42"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block": 128}, "maxntid"),
        ({"block": 2048}, "block"),
        ({"block": (32, 32, 2)}, "1024"),
        ({"grid": 0}, "grid"),
        ({"shared_bytes": 1 << 20}, "shared"),
    ],
)
def test_launches_that_a_driver_refuses(options, message):
    bound = ".maxntid 64, 1, 1" if "maxntid" in message else ""
    text = kernel_text(COPY, bound=bound)
    with pytest.raises(LaunchError, match=message):
        run(text, np.zeros(256, np.uint32), (256, np.uint32), **options)


def test_wrong_arguments():
    text = kernel_text(COPY)
    with pytest.raises(LaunchError, match="2 arguments, not 1"):
        run(text, np.zeros(256, np.uint32))
    module = Module(text)
    with pytest.raises(LaunchError, match="does not fit"):
        launch(module.kernels["k"], (1, 1, 1), (1, 1, 1), [1 << 70, 0], DeviceMemory())


def test_a_fence_orders_blocks():
    """A block writes, makes a fence and sets a flag; the next waits for it."""
    body = """
        mov.u32 %r0, %ctaid.x;
        setp.eq.u32 %p0, %r0, 0;
        @!%p0 bra READ;
        mov.u32 %r1, 17;
        st.global.u32 [%rd41], %r1;
        membar.gl;
        mov.u32 %r2, 1;
        st.volatile.global.u32 [%rd40], %r2;
        bra END;
    READ:
        ld.volatile.global.u32 %r3, [%rd40];
        setp.eq.u32 %p1, %r3, 0;
        @%p1 bra READ;
        membar.gl;
        ld.global.u32 %r4, [%rd41];
        st.global.u32 [%rd41+4], %r4;
    END:
    """
    flag = np.zeros(1, np.uint32)
    (_, y), _ = run(kernel_text(body), flag, (2, np.uint32), grid=2, block=1)
    assert y.tolist() == [17, 17]
    with pytest.raises(DataRace, match="block \\(0, 0, 0\\)"):
        run(kernel_text(body.replace("membar.gl;", "")), flag, (2, np.uint32), grid=2, block=1)
