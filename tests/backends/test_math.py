"""The errors of the mathematical functions of kernels against the bounds in ``docs/math.md``."""

from __future__ import annotations

import re
from functools import cache, partial
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import functrax
from functrax.backends.kernels.evaluate import evaluate
from functrax.backends.kernels.math import EXPANSIONS, expression
from functrax.backends.runtime.subnormals import in_mode
from functrax.core.options.config import Override
from functrax.core.scalars.scalar import MATH, Builder, Scalar
from functrax.core.tracing.primitive import registry
from tests.backends.exhaustive_math import worst
from tests.backends.llvm.scalar_kernels import Kernel, compile_scalars, load, module_text, write_for
from tests.backends.math_oracles import (
    ARITY,
    HAS_LONG,
    NAMES,
    edges,
    errors_in_ulp,
    exact,
    operands_of,
)

DOCS = Path(__file__).parents[2] / "docs/math.md"
DTYPES = [np.float32, np.float64]
LANES = {np.float32: 16, np.float64: 8}
UNARY = [name for name in NAMES if name not in ARITY]


@cache
def _bounds() -> dict[tuple[str, str], float]:
    rows = re.findall(r"^\| `(\w+)` \| (float\d\d) \| ([\d.]+) \|", DOCS.read_text(), re.M)
    return {(name, dtype): float(bound) for name, dtype, bound in rows}


@cache
def _bounds_without_fma() -> dict[tuple[str, str], float]:
    number = r" ([\d.]+) \| [\d.]+ \|"
    rows = re.findall(rf"^\| `(\w+)` \|{number}{number}$", DOCS.read_text(), re.M)
    dtypes = ("float32", "float64")
    return {(name, d): float(x) for name, *row in rows for d, x in zip(dtypes, row, strict=True)}


def _kernel(name: str, dtype: Any) -> Kernel:
    operands = [dtype] * ARITY.get(name, 1)
    return compile_scalars(EXPANSIONS[name], operands, LANES[dtype])


def _check(name: str, dtype: Any, count: int, seed: int) -> None:
    operands = operands_of(name, dtype, count, seed)
    got = _kernel(name, dtype)(*operands)
    want = exact(name, *operands)
    errors = errors_in_ulp(name, operands, got, want)
    k = int(errors.argmax())
    bounds = _bounds() if expression.target().has_fma else _bounds_without_fma()
    bound = bounds[name, np.dtype(dtype).name]
    assert errors[k] <= bound, f"{name}{[x[k] for x in operands]} = {got[k]!r}, not {want[k]!r}"


def _operand(operands: tuple[Any, ...], node: Scalar) -> Any:
    return operands[node.attr]


def test_every_function_has_an_expansion_and_a_bound() -> None:
    assert set(EXPANSIONS) == set(MATH) == set(NAMES)
    assert set(_bounds()) == {(name, d) for name in NAMES for d in ("float32", "float64")}
    assert max(_bounds().values()) <= 2
    assert _bounds_without_fma().keys() == _bounds().keys()
    assert max(_bounds_without_fma().values()) <= 2


@pytest.mark.parametrize("name", NAMES)
def test_float32(name: str) -> None:
    _check(name, np.float32, 4000, 1)


@pytest.mark.skipif(not HAS_LONG, reason="longdouble has no more bits than float64 here")
@pytest.mark.parametrize("name", NAMES)
def test_float64(name: str) -> None:
    _check(name, np.float64, 2000, 2)


@pytest.mark.parametrize("name", NAMES)
def test_without_fma(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_for("x86-64-v2", monkeypatch)
    _check(name, np.float32, 4000, 7)
    if HAS_LONG:
        _check(name, np.float64, 2000, 8)


@pytest.mark.parametrize("name", NAMES)
def test_numpy_gives_the_same_bits_without_fma(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_for("x86-64-v2", monkeypatch)
    test_numpy_gives_the_same_bits(name)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_zero_keeps_its_sign(name: str, dtype: Any) -> None:
    odd = {"expm1", "log1p", "sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh"}
    if name not in odd | {"erf", "erf_inv", "cbrt"}:
        return
    got = _kernel(name, dtype)(np.array([0.0, -0.0], dtype))
    np.testing.assert_array_equal(got, 0)
    assert np.signbit(got).tolist() == [False, True]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_nan_stays_nan(name: str, dtype: Any) -> None:
    words = {
        np.float32: np.array([0x7FC00000, 0x7FC00001, 0x7FFFFFFF, 0xFFC01234], np.uint32),
        np.float64: np.array([0x7FF8 << 48, (0x7FF8 << 48) + 5, 2**63 - 1, 2**64 - 1], np.uint64),
    }
    nan = words[dtype].view(dtype)
    other = np.full(4, 0.75, dtype)
    kernel = _kernel(name, dtype)
    if name not in ARITY:
        assert np.isnan(kernel(nan)).all()
        return
    assert np.isnan(kernel(nan, other)).all()
    assert np.isnan(kernel(other, nan)).all()


@pytest.mark.parametrize("name", NAMES)
def test_numpy_gives_the_same_bits(name: str) -> None:
    """The expression means the same in the emulator of kernels."""
    for dtype in DTYPES:
        operands = tuple(x[:300] for x in operands_of(name, dtype, 40, 5))
        b = Builder()
        loads = [load(b, dtype, k) for k in range(len(operands))]
        (got,) = evaluate([EXPANSIONS[name](b, *loads)], partial(_operand, operands))
        want = _kernel(name, dtype)(*operands)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", NAMES)
def test_one_lane_gives_the_same_bits(name: str) -> None:
    for dtype in DTYPES:
        operands = operands_of(name, dtype, 100, 6)
        alone = compile_scalars(EXPANSIONS[name], [dtype] * len(operands), 1)
        np.testing.assert_array_equal(alone(*operands), _kernel(name, dtype)(*operands))


@pytest.mark.parametrize("name", [name for name in NAMES if name in registry])
def test_programs_give_the_bits_of_the_expansion(name: str) -> None:
    """Whatever becomes of sums and products of the program, a function's are left alone."""
    function = registry[name]
    for dtype in DTYPES:
        operands = tuple(x[:2000] for x in operands_of(name, dtype, 400, 9))
        kernel = _kernel(name, dtype)
        for strict, want in ((True, kernel(*operands)), (False, in_mode(True, kernel, *operands))):
            with functrax.enable_x64(), Override("strict", strict):
                got = functrax.jit(lambda *x, p=function: p.bind(*x))(*operands)
            np.testing.assert_array_equal(got, want)


llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
_TARGETS = [
    ("x86_64-unknown-linux-gnu", "x86-64-v2"),
    ("x86_64-unknown-linux-gnu", "x86-64-v3"),
    ("x86_64-unknown-linux-gnu", "x86-64-v4"),
    ("aarch64-unknown-linux-gnu", "neoverse-n1"),
]


@pytest.mark.parametrize(("triple", "cpu"), _TARGETS)
def test_no_function_calls_a_library(
    triple: str, cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_for(cpu, monkeypatch)
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=1)
    for name in NAMES:
        for dtype in DTYPES:
            b = Builder()
            loads = [load(b, dtype, k) for k in range(ARITY.get(name, 1))]
            text = module_text([EXPANSIONS[name](b, *loads)], len(loads), 8)
            module = llvm.parse_assembly(text)
            module.triple, module.data_layout = triple, str(machine.target_data)
            assembly = machine.emit_assembly(module)
            assert not re.search(r"\n\s+(callq?|bl|blr)\s", assembly), name


def test_edges_of_pow() -> None:
    x, y = (v.ravel() for v in np.meshgrid(edges(np.float32), edges(np.float32)))
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    got = _kernel("pow", np.float32)(x, y)
    exact_ones = np.isnan(want) | np.isinf(want) | (want == 0) | (want == 1)
    np.testing.assert_array_equal(got[exact_ones], want[exact_ones])
    zeros = want == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


@pytest.mark.slow
@pytest.mark.parametrize("name", UNARY)
def test_every_float32(name: str) -> None:
    found = worst(name)
    bounds = _bounds() if expression.target().has_fma else _bounds_without_fma()
    assert found.error <= bounds[name, "float32"], found


@pytest.mark.slow
@pytest.mark.skipif(not HAS_LONG, reason="longdouble has no more bits than float64 here")
@pytest.mark.parametrize("name", NAMES)
def test_many_float64(name: str) -> None:
    for seed in range(10, 20):
        _check(name, np.float64, 50_000, seed)
