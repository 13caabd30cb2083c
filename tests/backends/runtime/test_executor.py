"""Programs run as Python would run them, on both implementations."""

from __future__ import annotations

import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from functrax.backends.executables.program import (
    CondInstruction,
    CopyInstruction,
    HostCall,
    RuntimeProgram,
    ScanInstruction,
    WhileInstruction,
    all_programs,
)
from functrax.backends.executables.program_builder import ProgramBuilder
from functrax.backends.runtime.choice import Runtime
from functrax.core.errors.typed import ArgumentError, DonatedBufferError
from tests.backends.runtime.kernels import kernels
from tests.backends.runtime.programs import F32, I32, Type, counted, function_program, host

VEC = ((4,), F32)
SCALAR = ((), I32)
BOOL = ((), np.dtype(np.bool_))
X = np.arange(4, dtype=F32)


def run(runtime: Runtime, program: RuntimeProgram, *values: Any) -> list[Any]:
    return [np.asarray(v) for v in runtime.load(program)(values)]


def double(type_: Type = VEC) -> RuntimeProgram:
    return function_program([type_], [(lambda x: x + x, type_)])


@pytest.mark.parametrize("others", [0, 1])
def test_a_launch_takes_arrays_from_somewhere_on(runtime: Runtime, others: int) -> None:
    """Alone, and in a run with others."""
    b = ProgramBuilder("parts")
    x, y = b.input((6,), F32), b.value((4,), F32)
    launch = kernels().launch
    b.add(launch("affine", (x,), (y,), units=2, begins=(8, 4)))
    results = [b.value((4,), F32) for _ in range(others)]
    for z in results:
        b.add(launch("affine", (x,), (z,), units=4))
    b.add(launch("affine", (x,), (y,), units=1))
    b.add(launch("affine", (x,), (y,), units=1, begins=(20, 12)))
    values = np.arange(6, dtype=F32)
    found = run(runtime, b.build((y, *results)), values)
    np.testing.assert_array_equal(found[0], [1, 5, 7, 11])
    for z in found[1:]:
        np.testing.assert_array_equal(z, [1, 3, 5, 7])


class Deferred:
    def materialize(self) -> np.ndarray[Any, Any]:
        return X


def test_inputs_of_all_kinds(runtime: Runtime) -> None:
    unaligned = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(F32)
    wide = np.zeros((4, 3), F32)
    wide[:, 1] = X
    buffer = runtime.load(double())([X / 2])[0]
    assert isinstance(buffer, runtime.buffer)
    for value in (X, unaligned, wide[:, 1], X[::-1][::-1], Deferred(), buffer):
        np.testing.assert_array_equal(run(runtime, double(), value)[0], 2 * X)
    repeated = np.broadcast_to(np.float32(3), (4,))
    np.testing.assert_array_equal(run(runtime, double(), repeated)[0], [6, 6, 6, 6])


@pytest.mark.parametrize("name", ["float32", "int8", "bfloat16", "complex64", "bool", "float64"])
def test_scalars_and_dtypes(runtime: Runtime, name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    (out,) = run(runtime, double(((), dtype)), dtype.type(1))
    assert out.dtype == dtype and out.shape == () and out == dtype.type(1) + dtype.type(1)
    (out,) = run(runtime, double(((), dtype)), np.asarray(1, dtype))
    assert out == dtype.type(1) + dtype.type(1)


def test_python_numbers_are_literals(runtime: Runtime) -> None:
    assert run(runtime, double(((), F32)), 1.5)[0] == 3
    assert run(runtime, double(SCALAR), 4)[0] == 8


@pytest.mark.parametrize(
    "value", [X.astype(np.float64), X[:3], X.astype(">f4"), "text", np.float32(1), X[None]]
)
def test_other_inputs_are_refused(runtime: Runtime, value: Any) -> None:
    with pytest.raises(ArgumentError, match="as input 0"):
        run(runtime, double(), value)


def test_a_wrong_number_of_inputs_is_refused(runtime: Runtime) -> None:
    with pytest.raises(ArgumentError, match="wrong number of inputs"):
        run(runtime, double(), X, X)
    with pytest.raises(TypeError):
        runtime.load(double())()


def test_results_are_the_callers(runtime: Runtime) -> None:
    call = runtime.load(double())
    first = np.asarray(call([X])[0])
    second = np.asarray(call([X + 1])[0])
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(second, 2 * X + 2)
    assert not first.flags.writeable


def test_results_may_be_inputs_constants_and_each_other(runtime: Runtime) -> None:
    b = ProgramBuilder("same")
    x = b.input(*VEC)
    s = b.input(*SCALAR)
    c = b.const(np.float32([7, 8]))
    y = host(b, np.negative, (x,), VEC)
    program = b.build((x, c, y, y, s))
    buffer = runtime.load(double())([X])[0]
    out = runtime.load(program)([buffer, np.int32(5)])
    assert out[0] is buffer and out[2] is out[3]
    np.testing.assert_array_equal(np.asarray(out[1]), [7, 8])
    assert np.asarray(out[4]) == 5


def test_a_branch_gives_its_input_back(runtime: Runtime) -> None:
    branches = tuple(
        function_program([VEC, VEC], r)
        for r in ([0, 0], [1, (lambda x, y: x + y, VEC)], [(lambda x, y: x * y, VEC), 0])
    )
    for index_type in (SCALAR, BOOL, ((), np.dtype(np.int64))):
        b = ProgramBuilder("cond")
        i, x, y = b.input(*index_type), b.input(*VEC), b.input(*VEC)
        outs = (b.value(*VEC), b.value(*VEC))
        b.add(CondInstruction(i, branches, (x, y), outs))
        program = b.build(outs)
        expected = [(X, X), (X + 1, 2 * X + 1), (X * (X + 1), X)]
        for index in (-3, 0, 1, 2, 9) if index_type is not BOOL else (False, True):
            value = index_type[1].type(index)
            got = run(runtime, program, value, X, X + 1)
            want = expected[min(max(int(index), 0), 2)]
            np.testing.assert_array_equal(got, want)


def while_program(*, in_place: bool) -> RuntimeProgram:
    """``while n < limit: n, x = n + 1, x * n``."""
    cond = function_program([SCALAR, SCALAR, VEC], [(lambda m, n, x: n < m, BOOL)])
    aliases = ((1, 1),) if in_place else ()
    b = ProgramBuilder("body")
    n, x = b.input(*SCALAR), b.input(*VEC)
    product = host(b, lambda n, x: x * n, (n, x), VEC)
    body = b.build((host(b, lambda n: n + 1, (n,), SCALAR), product), aliases)
    b = ProgramBuilder("loop")
    limit, n, x = b.input(*SCALAR), b.input(*SCALAR), b.input(*VEC)
    outs = (b.value(*SCALAR), b.value(*VEC))
    b.add(WhileInstruction(cond, body, (limit,), (), (n, x), outs))
    return b.build(outs)


@pytest.mark.parametrize("in_place", [False, True])
def test_while(runtime: Runtime, in_place: bool) -> None:
    for limit in range(5):
        n, x, start = 1, X.copy(), X.copy()
        while n < limit:
            n, x = n + 1, x * np.float32(n)
        got = run(runtime, while_program(in_place=in_place), np.int32(limit), np.int32(1), start)
        assert got[0] == max(n, 1)
        np.testing.assert_array_equal(got[1], x)
        np.testing.assert_array_equal(start, X)  # the caller's array stays


def counting(results: list[Any], carry: int, numbers: range) -> RuntimeProgram:
    body = function_program([VEC] * carry + [SCALAR], results)
    b = ProgramBuilder("loop")
    xs = tuple(b.input(*VEC) for _ in range(carry))
    outs = tuple(b.value(*VEC) for _ in range(carry))
    counted(b, body, numbers, (), xs, outs)
    return b.build(outs)


@pytest.mark.parametrize("count", range(5))
def test_parts_that_change_places(runtime: Runtime, count: int) -> None:
    numbers = range(-1, -1 + count)
    program = counting([1, 0, (lambda a, b, c, i: c + i * a, VEC)], 3, numbers)
    a, b, c = X, X + 1, X * 0
    for i in numbers:
        a, b, c = b, a, c + np.float32(i) * a
    got = run(runtime, program, X, X + 1, X * 0)
    np.testing.assert_array_equal(got, (a, b, c))


def test_a_part_of_the_carry_that_stays_is_not_copied(runtime: Runtime) -> None:
    seen = []

    def look(table: Any, x: Any, i: Any) -> Any:
        seen.append(table.ctypes.data)
        return x + table

    got = run(runtime, counting([0, (look, VEC)], 2, range(4)), X, X)
    np.testing.assert_array_equal(got, (X, 5 * X))
    assert len(set(seen)) == 1


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 5])
def test_scan(runtime: Runtime, length: int, reverse: bool) -> None:
    row = ((3,), F32)
    b = ProgramBuilder("body")
    w, c, x = b.input(*row), b.input(*row), b.input(*row)
    total = host(b, lambda w, c, x: c * w + x, (w, c, x), row)
    body = b.build((total, c, x))
    b = ProgramBuilder("scan")
    w, c, xs = b.input(*row), b.input(*row), b.input((length, 3), F32)
    outs = (b.value(*row), b.value((length, 3), F32), b.value((length, 3), F32))
    b.add(ScanInstruction(body, length, (w,), (c,), (xs,), outs, reverse=reverse))
    rng = np.random.default_rng(0)
    w_, c_, xs_ = (rng.normal(size=s).astype(F32) for s in ((3,), (3,), (length, 3)))
    before, carry = np.zeros((length, 3), F32), c_
    for t in reversed(range(length)) if reverse else range(length):
        before[t] = carry
        carry = carry * w_ + xs_[t]
    got = run(runtime, b.build(outs), w_, c_, xs_)
    np.testing.assert_array_equal(got[0], carry)
    np.testing.assert_array_equal(got[1], before)
    np.testing.assert_array_equal(got[2], xs_)


def test_loops_in_loops_update_one_array(runtime: Runtime) -> None:
    """A table filled by two loops stays where it is, in the caller's donated memory too."""
    table = ((3, 4), F32)
    addresses = set()

    def put(i: Any, j: Any, out: Any) -> None:
        addresses.add(out.ctypes.data)
        out[i, j] = 10 * i + j

    b = ProgramBuilder("inner")
    i, t, j = b.input(*SCALAR), b.input(*table), b.input(*SCALAR)
    out = b.value(*table)
    b.add(CopyInstruction(t, out))
    b.add(HostCall(put, "put", (i, j), (out,), into=True))
    inner = b.build((out,), aliases=((0, 1),))

    b = ProgramBuilder("outer")
    t, i = b.input(*table), b.input(*SCALAR)
    out = b.value(*table)
    counted(b, inner, range(4), (i,), (t,), (out,))
    outer = b.build((out,), aliases=((0, 0),))

    b = ProgramBuilder("whole")
    t, out = b.input(*table), b.value(*table)
    counted(b, outer, range(3), (), (t,), (out,))
    call = runtime.load(b.build((out,), aliases=((0, 0),)))
    start = runtime.load(double(table))([np.zeros((3, 4), F32)])[0]
    place = start.address
    result = call([start], (0,))[0]
    del start
    expected = 10 * np.arange(3)[:, None] + np.arange(4)
    np.testing.assert_array_equal(np.asarray(result), expected)
    assert addresses == {place} and result.address == place


def test_arrays_without_elements(runtime: Runtime) -> None:
    empty = ((0, 3), F32)
    (out,) = run(runtime, double(empty), np.zeros((0, 3), F32))
    assert out.shape == (0, 3) and out.dtype == F32
    (total,) = run(runtime, function_program([empty], [(np.sum, ((), F32))]), np.zeros((0, 3), F32))
    assert total == 0
    b = ProgramBuilder("chain")
    x = b.input(*empty)
    for _ in range(3):
        x = host(b, np.copy, (x,), empty)
    assert run(runtime, b.build((x,)), np.zeros((0, 3), F32))[0].shape == (0, 3)


def donating() -> RuntimeProgram:
    b = ProgramBuilder("donate")
    x = b.input(*VEC)
    return b.build((host(b, lambda x: x + 1, (x,), VEC),), aliases=((0, 0),))


def test_donated_memory_is_used_again(runtime: Runtime) -> None:
    call = runtime.load(donating())
    x = call([X])[0]
    place = x.address
    y = call([x], donated=(0,))[0]
    assert y.address == place and x.deleted
    np.testing.assert_array_equal(np.asarray(y), X + 2)
    with pytest.raises(DonatedBufferError):
        x.materialize()
    with pytest.raises(DonatedBufferError):
        call([x])


def test_donated_memory_that_somebody_looks_at_is_not(runtime: Runtime) -> None:
    call = runtime.load(donating())
    x = call([X])[0]
    view = np.asarray(x)
    y = call([x], (0,))[0]
    np.testing.assert_array_equal(view, X + 1)
    np.testing.assert_array_equal(np.asarray(y), X + 2)
    z = call([X])[0]
    owners = [z, z]
    call([z], (0,))
    assert not owners[0].deleted
    np.testing.assert_array_equal(np.asarray(owners[0]), X + 1)


def test_a_donated_array_of_numpy_stays(runtime: Runtime) -> None:
    x = X.copy()
    (y,) = runtime.load(donating())([x], (0,))
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(np.asarray(y), X + 1)


def test_python_functions_get_what_they_may_look_at(runtime: Runtime) -> None:
    def check(x: Any) -> Any:
        assert not x.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 1
        return x

    np.testing.assert_array_equal(run(runtime, function_program([VEC], [(check, VEC)]), X)[0], X)


def test_views_that_are_kept_all_the_same_stay_valid_memory(runtime: Runtime) -> None:
    kept: list[Any] = []
    b = ProgramBuilder("keep")
    x = b.input(*VEC)
    t = host(b, lambda v: v + 1, (x,), VEC)
    program = b.build((host(b, lambda v: kept.append(v) or v, (t,), VEC),))
    call = runtime.load(program)
    call([X])
    for k in range(20):
        call([X + k])
    np.testing.assert_array_equal(kept[0], X + 1)


@pytest.mark.parametrize("result", [X[:2], X.astype(np.float64), (X, X), None])
def test_a_wrong_result_of_a_python_function_is_refused(runtime: Runtime, result: Any) -> None:
    b = ProgramBuilder("wrong")
    x, y = b.input(*VEC), b.value(*VEC)
    b.add(HostCall(lambda v: result, "bad", (x,), (y,)))
    with pytest.raises(ArgumentError, match="bad: the function returned"):
        runtime.load(b.build((y,)))([X])


@pytest.mark.usefixtures("no_collection")
def test_an_exception_leaves_nothing_behind(runtime: Runtime) -> None:
    last = 3

    def fail(x: Any, i: Any) -> Any:
        if i == last:
            raise LookupError("three")
        return x + 1

    call = runtime.load(counting([(fail, VEC)], 1, range(5)))
    before = runtime.pool_stats().in_use
    with pytest.raises(LookupError, match="three") as caught:
        call([X])
    caught.value.__traceback__ = None
    del caught
    assert runtime.pool_stats().in_use == before
    last = 5
    np.testing.assert_array_equal(np.asarray(call([X])[0]), X + 5)


def test_a_python_function_may_run_programs(runtime: Runtime) -> None:
    inside = runtime.load(double())

    def again(x: Any) -> Any:
        return np.asarray(inside([x])[0])

    np.testing.assert_array_equal(
        run(runtime, function_program([VEC], [(again, VEC)]), X)[0], 2 * X
    )


def test_a_profile_tells_when_each_instruction_ran(runtime: Runtime) -> None:
    b = ProgramBuilder("body")
    x, i = b.input(*VEC), b.input(*SCALAR)
    body = b.build((host(b, lambda x, i: x + i, (x, i), VEC),))
    b = ProgramBuilder("profiled")
    x = b.input(*VEC)
    y, z = host(b, np.negative, (x,), VEC), b.value(*VEC)
    counted(b, body, range(3), (), (y,), (z,))
    program = b.build((z,))
    assert all_programs(program) == (program, body)
    begin = time.perf_counter_ns()
    results, events = runtime.load(program).profile([X])
    end = time.perf_counter_ns()
    np.testing.assert_array_equal(np.asarray(results[0]), 3 - X)
    assert [e[:2] for e in events] == [(0, 0), (1, 0), (1, 0), (1, 0), (0, 1)]
    assert all(begin <= e[2] <= e[3] <= end for e in events)
    assert events[4][2] <= events[1][2] and events[3][3] <= events[4][3]
