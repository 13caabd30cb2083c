"""NaNs and infinities in compiled programs: what the errors name, and that no kernel changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors, lax
from functrax.backends.machine_code.kernel_jit import machine


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    with functrax.backend("llvm"):
        yield


def array(*values: float) -> Any:
    return np.array(values, np.float32)


def chain(x: Any) -> Any:
    y = x * 2
    z = jnp.sqrt(y)  # the line at fault
    return z + 1


def message(function: Any, *args: Any) -> str:
    with functrax.debug_nans(), pytest.raises(errors.NonFiniteError) as caught:
        functrax.jit(function)(*args)
    return str(caught.value)


def test_the_first_equation_at_fault_is_named_with_its_line_and_operands() -> None:
    text = message(chain, array(4.0, -3.0))
    assert text.startswith("debug_nans: sqrt gave a NaN")
    assert f":{chain.__code__.co_firstlineno + 2} in chain" in text
    assert "operand 0: f32[2] from -6 to 8" in text and "index (1,): -6.0 gave nan" in text


def test_finite_programs_give_the_same_bits() -> None:
    x = array(1.0, 2.0, 3.0)
    plain = functrax.jit(chain)(x)
    with functrax.debug_nans(), functrax.debug_infs():
        np.testing.assert_array_equal(functrax.jit(chain)(x), plain)


def test_kernels_are_not_compiled_again() -> None:
    def f(x: Any) -> Any:
        return jnp.sqrt(x * 3.25) - 0.125

    x = array(1.0, 2.0)
    jitted = functrax.jit(f)
    jitted(x)
    before = machine().count
    with functrax.debug_nans():
        jitted(x)
        with pytest.raises(errors.NonFiniteError):
            jitted(-x)
    assert machine().count == before
    assert np.isnan(np.asarray(jitted(-x))).all()  # the unguarded program is still there


def test_infinities_have_their_own_switch() -> None:
    def f(x: Any) -> Any:
        return 1 / x

    with functrax.debug_nans():
        assert np.isinf(np.asarray(functrax.jit(f)(array(0.0, 1.0)))[0])
    with functrax.debug_infs(), pytest.raises(errors.NonFiniteError, match="div gave an inf"):
        functrax.jit(f)(array(0.0, 1.0))


def test_inside_loops_and_branches() -> None:
    def looped(x: Any) -> Any:
        return lax.scan(lambda c, a: (c + jnp.sqrt(a), c), jnp.float32(0), x)

    def branched(x: Any) -> Any:
        return lax.cond(x[0] > 0, lambda v: jnp.sqrt(v), lambda v: v, x)

    assert "sqrt gave a NaN" in message(looped, array(1.0, 2.0, -1.0))
    assert "sqrt gave a NaN" in message(branched, array(1.0, -1.0))


def test_equal_kernels_of_different_lines_name_their_own() -> None:
    def twice(x: Any) -> Any:
        a = jnp.cumsum(jnp.sqrt(x + 1))
        return jnp.cumsum(jnp.sqrt(a - 9))  # -9 makes another kernel

    def same(x: Any) -> Any:
        a = jnp.cumsum(jnp.sqrt(x))
        b = jnp.cumsum(-a)
        return jnp.sqrt(b)

    first = message(same, array(1.0, 2.0))
    assert f":{same.__code__.co_firstlineno + 3} in same" in first
    assert "sqrt gave a NaN" in message(twice, array(1.0, 2.0))


def test_what_is_no_kernel_is_looked_at_too() -> None:
    def f(x: Any) -> Any:
        return jnp.linalg.cholesky(x) + 1

    text = message(f, -np.eye(2, dtype=np.float32))
    assert text.startswith("debug_nans: cholesky gave a NaN")


INDEFINITE = np.array([[4, 1, 1], [1, 2, 3], [1, 3, 1]], np.float32)  # its first two rows are not


@pytest.mark.parametrize(
    ("function", "args", "why", "fix"),
    [
        (jnp.linalg.cholesky, (INDEFINITE,), "not positive definite: row 2 fails first", "add to"),
        (
            jnp.linalg.cholesky,
            (np.stack([np.eye(3, dtype=np.float32), INDEFINITE]),),
            "not positive definite: row 2 of matrix (1,) fails first",
            "add to its diagonal",
        ),
        (jnp.linalg.solve, (np.ones((2, 2), np.float32), array(1, 2)), "singular", "lstsq"),
        (
            functrax.scipy.linalg.solve_triangular,
            (np.zeros((2, 2), np.float32), array(0, 1)),
            "the diagonal is 0 at row 0",
            "without zeros",
        ),
        (
            functrax.grad(lambda x: jnp.sqrt(x * x)),
            (np.float32(0),),
            "operand 1 was infinite already",
            "debug_infs",
        ),
    ],
)
def test_the_advice_is_that_of_the_operation(
    function: Any, args: tuple[Any, ...], why: str, fix: str
) -> None:
    for run in (function, functrax.jit(function)):
        with functrax.debug_nans(), pytest.raises(errors.NonFiniteError) as caught:
            run(*args)
        assert why in caught.value.got.splitlines()[-1] and fix in caught.value.fix


def test_nothing_is_said_of_a_matrix_that_has_nans_already() -> None:
    text = message(jnp.linalg.cholesky, np.full((2, 2), np.nan, np.float32))
    assert "positive definite" not in text


def test_the_operation_that_gave_an_infinity_is_named() -> None:
    text = message(lambda x: x * jnp.log(x), array(1.0, 0.0))
    assert "operand 1 was infinite already, from log, " in text
    assert text.startswith("debug_nans: mul gave a NaN")
