"""Cases at the edge of NumPy's functions in which JAX, or NumPy itself, says what is right."""

from __future__ import annotations

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors


def test_a_matrix_stands_for_its_eigenvalues() -> None:
    matrix = np.array([[1.0, 2.0], [3.0, 4.0]], "f4")
    np.testing.assert_allclose(np.real(jnp.poly(matrix)), np.poly(matrix), rtol=1e-5)
    with pytest.raises(errors.ShapeError, match="non-empty square"):
        jnp.poly(np.ones((2, 3), "f4"))


def test_a_line_padded_by_a_function() -> None:
    x = np.arange(24).reshape(2, 3, 4)

    def in_place(line, width, axis, options):
        line[: width[0]] = options.get("value", 10) + axis
        line[-width[1] :] = 7

    def pure(line, width, axis, options):
        line = line.at[: width[0]].set(options.get("value", 10) + axis)
        return line.at[-width[1] :].set(7)

    for options in ({}, {"value": 100}):
        want = np.pad(x, 2, in_place, **options)  # type: ignore[call-overload]
        np.testing.assert_array_equal(jnp.pad(x, 2, pure, **options), want)


def test_complex_numbers_padded_with_the_largest() -> None:
    x = np.array([1 + 1j, 2, 1 + 5j], "c8")
    for mode in ("maximum", "minimum"):
        np.testing.assert_array_equal(jnp.pad(x, 1, mode), np.pad(x, 1, mode))


def test_nothing_is_taken_from_an_empty_axis() -> None:
    with pytest.raises(IndexError, match="empty axis"):
        jnp.take(jnp.zeros((0, 3)), jnp.array([0]), axis=0)
    assert jnp.take(jnp.zeros((0, 3)), jnp.zeros(0, int), axis=0).shape == (0, 3)


def test_lists_are_joined() -> None:
    np.testing.assert_array_equal(jnp.r_[[1, 2], 3, (4, 5)], [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(jnp.c_[[1, 2], [3, 4]], [[1, 3], [2, 4]])


def test_diagonals_far_outside() -> None:
    assert not np.any(jnp.eye(2, 3, k=1 << 100))
    assert not np.any(jnp.eye(2, 3, k=-(1 << 100)))
    np.testing.assert_array_equal(jnp.tri(2, 3, k=-1), np.tri(2, 3, -1))


def test_results_are_arrays() -> None:
    assert isinstance(jnp.resize(jnp.zeros((0, 4)), ()), jnp.ndarray)
    fit = jnp.polyfit(jnp.arange(6.0), jnp.arange(6.0), 2, full=True, rcond=1e-4)
    assert all(isinstance(x, jnp.ndarray) for x in fit)
    step = jnp.linspace(0, jnp.ones((2, 2)), 1, retstep=True)[1]
    assert step.shape == () and np.isnan(step)
    assert jnp.bincount(jnp.array([1, 2]), minlength=20, length=8).shape == (8,)
    assert jnp.iscomplexobj([1j]) and jnp.isrealobj([1])


def test_a_list_on_either_side_of_an_operator() -> None:
    x = jnp.ones(2)
    with pytest.raises(TypeError, match=r"for \+: 'Array' and 'dict'"):
        x + {}
    with pytest.raises(TypeError, match="for %: 'list' and 'Array'"):
        [1] % x


def test_a_reshaped_numpy_array_stays_one() -> None:
    """So what libraries check of known arrays is known while they are traced, as in JAX."""
    seen = []

    @functrax.jit
    def f() -> None:
        seen.append(jnp.reshape(np.arange(6), (2, -1)))

    f()
    assert type(seen[0]) is np.ndarray
    np.testing.assert_array_equal(seen[0], np.arange(6).reshape(2, 3))
    with pytest.raises(errors.ShapeError):
        jnp.reshape(np.arange(6), (4,))
