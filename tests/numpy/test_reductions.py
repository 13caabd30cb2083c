"""Reductions, running results, statistics and quantiles against NumPy; their options and errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import enable_x64
from functrax.core.errors.typed import ArgumentError, AxisError, DTypeError, ShapeError

AXES = [None, 0, -1, (0, 2), (1,), ()]
PLAIN = ["sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "ptp", "median"]
WITH_NAN = ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nanmedian"]


@pytest.fixture
def x():
    return np.random.default_rng(0).uniform(-2, 2, (3, 4, 2)).astype(np.float32)


def close(ours, theirs, tolerance=2e-6):
    assert ours.shape == np.shape(theirs)
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", PLAIN)
def test_axes_and_keepdims(name, axis, x):
    if axis == () and name in ("median", "ptp"):
        pytest.skip("NumPy has no such thing")
    for keepdims in (False, True):
        ours = getattr(jnp, name)(x, axis=axis, keepdims=keepdims)
        close(ours, getattr(np, name)(x, axis=axis, keepdims=keepdims))
        jitted = functrax.jit(lambda v: getattr(jnp, name)(v, axis, keepdims=keepdims))(x)  # noqa: B023
        np.testing.assert_array_equal(np.asarray(jitted), np.asarray(ours))


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("name", WITH_NAN)
def test_nan_is_left_out(name, axis, x):
    x[0, 0, 0] = x[1, :, 1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = getattr(np, name)(x, axis=axis)
    close(getattr(jnp, name)(x, axis=axis), theirs)


def test_nan_alone():
    x = jnp.array([[jnp.nan, jnp.nan], [1.0, jnp.nan]])
    for name in ("nanmax", "nanmin", "nanmean", "nanmedian"):
        found = getattr(jnp, name)(x, axis=1)
        assert np.isnan(found[0])
        assert found[1] == 1
    assert jnp.nanargmax(x, axis=1).tolist() == [-1, 0]
    assert jnp.nanargmin(x, axis=1).tolist() == [-1, 0]
    assert jnp.nansum(x).tolist() == 1
    assert jnp.nancumsum(x).tolist() == [0, 0, 1, 1]
    assert jnp.nancumprod(x).tolist() == [1, 1, 1, 1]
    assert np.isnan(jnp.max(x))
    assert np.isnan(jnp.median(x))


def test_where_and_initial(x):
    mask = x > 0
    for name in ("sum", "prod", "mean", "var", "std", "any", "all"):
        ours = getattr(jnp, name)(x, axis=1, where=mask)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            close(ours, getattr(np, name)(x, axis=1, where=mask))
    close(jnp.max(x, axis=0, where=mask, initial=-1), np.max(x, axis=0, where=mask, initial=-1))
    close(jnp.sum(x, axis=0, initial=3), np.sum(x, axis=0, initial=3))
    close(jnp.prod(x, initial=3), np.prod(x, initial=3))
    close(jnp.sum(x, where=np.array([True, False])), np.sum(x, where=np.array([True, False])))
    assert jnp.max(jnp.zeros((0,)), initial=-5) == -5
    assert jnp.min(jnp.array([3, 4], jnp.int8), initial=100).dtype == jnp.int8


def test_dtypes_of_sums():
    assert jnp.sum(jnp.ones(300, jnp.int8)) == 300
    assert jnp.sum(jnp.ones(3, jnp.uint8)).dtype == jnp.uint32
    assert jnp.sum(jnp.array([True, True])).dtype == jnp.int32
    assert jnp.sum(jnp.ones(3, jnp.int8), promote_integers=False).dtype == jnp.int8
    assert jnp.sum(jnp.ones(3), dtype=jnp.int8).dtype == jnp.int8
    assert jnp.prod(jnp.ones(3, jnp.int16)).dtype == jnp.int32
    assert jnp.cumsum(jnp.ones(3, jnp.int8)).dtype == jnp.int8
    assert jnp.cumulative_sum(jnp.ones(3, jnp.int8)).dtype == jnp.int32
    assert jnp.mean(jnp.arange(3)).dtype == jnp.float32
    assert jnp.sum(2.0).weak_type is False
    with enable_x64():
        assert jnp.sum(jnp.ones(3, jnp.int32)).dtype == jnp.int64


def test_half_precision_is_accumulated_in_single():
    x = jnp.full(4096, 1.0, jnp.float16)
    assert jnp.sum(x) == 4096
    assert jnp.mean(jnp.full(4096, 60000.0, jnp.float16)) == 60000
    assert jnp.sum(jnp.ones(1000, jnp.bfloat16)).tolist() == 1000
    assert jnp.var(jnp.array([60000.0, -60000.0], jnp.float16)) == np.inf
    assert jnp.std(jnp.array([200.0, -200.0], jnp.float16)) == 200


def test_nothing():
    assert jnp.sum(jnp.zeros((0, 3))) == 0
    assert jnp.prod(jnp.zeros((0, 3)), axis=0).tolist() == [1, 1, 1]
    assert jnp.all(jnp.zeros((0,)))
    assert not jnp.any(jnp.zeros((0,)))
    assert np.isnan(jnp.mean(jnp.zeros((0,))))
    assert jnp.max(jnp.zeros((0, 3)), axis=1).shape == (0,)
    assert np.isnan(jnp.var(jnp.ones(2), ddof=2))
    with pytest.raises(ShapeError, match="no elements"):
        jnp.max(jnp.zeros((0, 3)), axis=0)
    with pytest.raises(ShapeError, match="no elements"):
        jnp.median(jnp.zeros((0,)))


def test_positions(x):
    for name in ("argmax", "argmin"):
        for axis in (None, 0, -1):
            for keepdims in (False, True):
                ours = getattr(jnp, name)(x, axis, keepdims=keepdims)
                np.testing.assert_array_equal(
                    np.asarray(ours), getattr(np, name)(x, axis, keepdims=keepdims)
                )
    assert jnp.argmax(jnp.array([1.0, jnp.nan, 3])) == 1
    assert jnp.argmax(jnp.array([2, 5, 5])) == 1
    assert jnp.argmax(3.0) == 0
    assert jnp.argmax(jnp.array([True, False])).dtype == jnp.int32


def test_complex_numbers():
    z = np.array([[1 + 2j, 1 + 3j], [0 - 1j, 2j]], np.complex64)
    for name in ("sum", "prod", "mean", "max", "min", "var", "std"):
        close(getattr(jnp, name)(z), getattr(np, name)(z))
        close(getattr(jnp, name)(z, axis=0), getattr(np, name)(z, axis=0))
    assert jnp.var(z).dtype == jnp.float32


def test_running_results(x):
    for name in ("cumsum", "cumprod"):
        for axis in (None, 0, 1, -1):
            close(getattr(jnp, name)(x, axis), getattr(np, name)(x, axis), 1e-5)
    made = jnp.cumulative_sum(jnp.array([1, 2]), include_initial=True)
    assert made.tolist() == [0, 1, 3]
    assert jnp.cumulative_prod(jnp.array([[2, 3]]), axis=1, include_initial=True).tolist() == [
        [1, 2, 6]
    ]
    assert jnp.cumsum(jnp.array([True, True])).tolist() == [1, 2]
    with pytest.raises(ArgumentError, match="axis="):
        jnp.cumulative_sum(jnp.ones((2, 2)))


def test_averages(x):
    weights = np.array([1.0, 2.0, 3.0, 0.5], np.float32)
    close(jnp.average(x, axis=1, weights=weights), np.average(x, axis=1, weights=weights))
    close(jnp.average(x, weights=np.abs(x)), np.average(x, weights=np.abs(x)))
    mean, total = jnp.average(x, axis=1, weights=weights, returned=True)
    assert mean.shape == total.shape == (3, 2)
    assert total[0, 0] == 6.5
    assert jnp.average(jnp.arange(4), returned=True)[1] == 4
    with pytest.raises(ShapeError, match="need axis="):
        jnp.average(x, weights=weights)
    with pytest.raises(ShapeError, match="one weight for each"):
        jnp.average(x, axis=0, weights=weights)


def test_weights_over_several_axes(x):
    weights = np.random.default_rng(1).uniform(0, 1, (4, 2)).astype(np.float32)
    for axis, own in (((1, 2), weights), ((2, 1), weights.T)):
        expected = np.average(x, axis=(1, 2), weights=np.broadcast_to(weights, x.shape))
        close(jnp.average(x, axis=axis, weights=own), expected)
        close(functrax.jit(lambda v, a=axis, w=own: jnp.average(v, a, w))(x), expected)
    with pytest.raises(ShapeError, match="one weight for each"):
        jnp.average(x, axis=(2, 1), weights=weights)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "mean", "var", "nansum", "nanvar", "any"])
def test_where_of_lower_rank(name, x):
    mask = np.array([True, False])
    initial = {"initial": 0} if name == "max" else {}
    subject = x if name != "any" else x > 0
    with functrax.numpy_rank_promotion("raise"):
        ours = getattr(jnp, name)(subject, axis=(1, 2), where=mask, **initial)
    close(ours, getattr(np, name)(subject, axis=(1, 2), where=mask, **initial), 1e-5)
    with pytest.raises(ValueError, match=f"{name}: where must be None or a boolean"):
        getattr(jnp, name)(subject, where=np.array([1, 0]), **initial)


def test_initial_is_one_value_in_the_dtype_of_the_result(x):
    with pytest.raises(ValueError, match="initial value must be a scalar"):
        jnp.sum(x, axis=0, initial=np.ones((1, 4, 2), np.float32))
    with functrax.numpy_dtype_promotion("strict"):
        assert jnp.max(np.array([False, False]), initial=1) == np.True_
        assert jnp.sum(np.arange(3, dtype=np.int32), initial=np.float32(2)) == 5


def test_sums_of_truth():
    small = np.array([0.25, -0.5, 0.0], np.float32)
    assert jnp.sum(small, dtype=bool).dtype == bool
    assert bool(jnp.sum(small, dtype=bool))
    assert jnp.cumsum(small, dtype=bool).tolist() == [True, True, True]
    assert jnp.cumprod(small, dtype=bool).tolist() == [True, True, False]
    for function in (jnp.sum, jnp.prod):
        assert function(np.array([True, True]), promote_integers=False).dtype == np.int32


def test_dtype_of_complex_variances():
    z = np.array([1 + 1j, 2, 3 - 1j], np.complex64)
    assert jnp.var(z).dtype == np.float32
    assert jnp.var(z, dtype=np.complex64).dtype == np.complex64
    assert jnp.nanstd(z.real, dtype=np.complex64).dtype == np.complex64
    close(jnp.var(z, dtype=np.complex64), np.var(z).astype(np.complex64))
    with pytest.raises(ValueError, match="real dtype"):
        jnp.nanvar(z, dtype=np.float16)


def test_derivatives_of_what_leaves_nan_out():
    holes = np.array([np.nan, 1, 2, 3, 4], np.float32)
    close(functrax.grad(jnp.nanvar)(holes), np.array([0, -0.75, -0.25, 0.25, 0.75]))
    assert not np.isnan(functrax.grad(jnp.nanstd)(holes)).any()


def test_covariances_of_columns_and_their_dtype():
    for shape in ((1, 3), (3, 1)):
        rows = np.arange(3, dtype=np.float32).reshape(shape)
        for rowvar in (True, False):
            variables = rows if rowvar else rows.T  # what NumPy does from 2.2 on, for one row too
            close(jnp.cov(rows, rowvar=rowvar, ddof=0), np.cov(variables, ddof=0))
    with pytest.raises(ValueError, match="subclass of float or complex"):
        jnp.cov(rows, dtype=int)
    weights = np.array([1, 2, 1])
    with functrax.numpy_rank_promotion("raise"):
        close(jnp.cov(rows.T, fweights=weights), np.cov(rows.T, fweights=weights))


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles(method, x):
    for axis in (None, 1, (0, 2)):
        for q in (0.33, np.array([0.0, 0.23, 0.9, 1.0])):
            for keepdims in (False, True):
                ours = jnp.quantile(x, q, axis=axis, method=method, keepdims=keepdims)
                theirs = np.quantile(
                    x.astype(np.float64), q, axis=axis, method=method, keepdims=keepdims
                )
                close(ours, theirs)
    close(jnp.percentile(x, 30, method=method), np.percentile(x.astype(float), 30, method=method))


@pytest.mark.parametrize("name", ["quantile", "nanquantile", "percentile", "nanpercentile"])
def test_weighted_quantiles(name, x):
    weights = np.random.default_rng(2).uniform(0.1, 1, x.shape).astype(np.float32)
    q = np.array([0.2, 0.5, 0.8], np.float32) * (100 if "percentile" in name else 1)
    holes = np.where(x > 1.5, np.nan, x) if "nan" in name else x
    ours = getattr(jnp, name)

    def theirs(values, q, weights=None, axis=None, keepdims=False, method=""):
        """By the definition: NumPy 2.1 has other numbers for several axes and for NaNs."""
        weights = np.broadcast_to(1.0 if weights is None else weights, values.shape)
        axes = np.arange(values.ndim)[
            list(np.atleast_1d(axis)) if axis is not None else slice(None)
        ]
        kept = [n for i, n in enumerate(values.shape) if i not in axes]
        last = range(-len(axes), 0)
        rows, shares = (
            np.moveaxis(a, axes, last).reshape(-1, a.size // max(int(np.prod(kept)), 1))
            for a in (values, weights)
        )
        found = []
        for row, share in zip(rows, shares):
            order = np.argsort(row)[: np.count_nonzero(~np.isnan(row))]
            parts = np.cumsum(share[order], dtype=np.float64)
            level = np.asarray(q, np.float64) / (100 if "percentile" in name else 1)
            found.append(row[order][np.searchsorted(parts, level * parts[-1])])
        whole = [1 if i in axes else n for i, n in enumerate(values.shape)]
        return np.moveaxis(np.array(found), 0, -1).reshape(
            np.shape(q) + tuple(whole if keepdims else kept)
        )

    for axis in (None, 0, -1, (0, 1)):
        options = {"axis": axis, "method": "inverted_cdf", "keepdims": axis == 0}
        expected = theirs(holes, q, weights=weights, **options)
        close(ours(holes, q, weights=weights, **options), expected)
        close(functrax.jit(lambda v, o=options: ours(v, q, weights=weights, **o))(holes), expected)
    several = functrax.vmap(lambda v: ours(v, q[1], weights=weights[0], method="inverted_cdf"))
    expected = [theirs(v, q[1], weights=weights[0], method="inverted_cdf") for v in holes]
    close(several(holes), np.array(expected, np.float32))
    plain = ours(holes, q, axis=1, method="inverted_cdf")
    close(plain, theirs(holes, q, axis=1, method="inverted_cdf"))
    with pytest.raises(ShapeError, match="weight"):
        ours(x, q, weights=weights[0], axis=0, method="inverted_cdf")
    with pytest.raises(NotImplementedError, match="no weights"):
        ours(x, q, weights=weights)


def test_quantiles_without_nan():
    x = np.array([[3.0, np.nan, 1.0, 2.0], [np.nan, np.nan, -1.0, 4.0]], np.float32)
    for q in (0.0, 0.4, 1.0):
        close(jnp.nanquantile(x, q, axis=1), np.nanquantile(x, q, axis=1))
        close(jnp.nanpercentile(x, 100 * q), np.nanpercentile(x, 100 * q))
    assert np.isnan(jnp.quantile(x, 0.5, axis=1)).all()
    assert jnp.median(jnp.array([5, 1, 2, 9])).tolist() == 3.5
    assert jnp.quantile(jnp.array([1, 2], jnp.bfloat16), 0.5).dtype == jnp.bfloat16
    with pytest.raises(ArgumentError, match="no such method"):
        jnp.quantile(x, 0.5, method="cubic")
    with pytest.raises(ShapeError, match="more than one axis"):
        jnp.quantile(x, x)


def test_comparisons_of_arrays():
    x = jnp.array([1.0, 2.0])
    assert jnp.allclose(x, x + 1e-7)
    assert not jnp.allclose(x, x + 1)
    assert jnp.array_equal(x, [1, 2])
    assert not jnp.array_equal(x, jnp.ones((2, 1)))
    assert jnp.array_equal(jnp.array([jnp.nan]), jnp.array([jnp.nan]), equal_nan=True)
    assert jnp.array_equiv(jnp.array([[1, 1], [1, 1]]), 1)
    assert not jnp.array_equiv(jnp.ones(3), jnp.ones(2))
    assert jnp.count_nonzero(jnp.array([[0, 2], [3, 4]]), axis=0).tolist() == [1, 2]


def test_derivatives():
    x = jnp.array([1.0, 3.0, 3.0])
    assert functrax.grad(jnp.sum)(x).tolist() == [1, 1, 1]
    assert functrax.grad(jnp.max)(x).tolist() == [0, 0.5, 0.5]
    assert functrax.grad(jnp.prod)(jnp.array([0.0, 2.0, 3.0])).tolist() == [6, 0, 0]
    assert functrax.grad(jnp.median)(jnp.array([1.0, 5.0, 2.0, 3.0])).tolist() == [0, 0, 0.5, 0.5]
    assert functrax.grad(lambda v: jnp.sum(jnp.cumprod(v)))(jnp.array([0.0, 2.0])).tolist() == [
        3,
        0,
    ]
    mean_of = functrax.grad(lambda v: jnp.mean(v, where=v > 2))
    assert mean_of(x).tolist() == [0, 0.5, 0.5]
    with enable_x64():
        v = np.random.default_rng(1).normal(size=5)
        centered = v - v.mean()
        np.testing.assert_allclose(np.asarray(functrax.grad(jnp.var)(v)), centered * 2 / 5)
        np.testing.assert_allclose(
            np.asarray(functrax.grad(lambda v: jnp.std(v, ddof=1))(v)),
            centered / 4 / v.std(ddof=1),
        )
        batched = functrax.vmap(lambda r: jnp.quantile(r, 0.3))(np.stack([v, -v]))
        np.testing.assert_allclose(np.asarray(batched), np.quantile([v, -v], 0.3, axis=1))


@pytest.mark.parametrize(
    "axes", [range(2), {0, 1}, np.array([0, 1]), dict.fromkeys((1, 0)), (1, 0)]
)
def test_axes_are_any_iterable(axes):
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    assert jnp.sum(x, axis=axes) == 15
    assert jnp.expand_dims(x, axes).shape == (1, 1, 2, 3)
    assert jnp.flip(x, axes)[0, 0] == 5
    np.testing.assert_array_equal(jnp.roll(x, 1, axes), np.roll(x, 1, (0, 1)))
    assert jnp.squeeze(x[None, None], axes).shape == (2, 3)


def test_errors():
    x = jnp.ones((2, 3))
    with pytest.raises(AxisError, match="sum: axis 5 is out of range for an array of rank 2"):
        jnp.sum(x, axis=5)
    with pytest.raises(AxisError, match="repeated axis"):
        jnp.sum(x, axis=(0, -2))
    with pytest.raises(ArgumentError, match="axis must be an integer"):
        jnp.sum(x, axis=1.0)
    with pytest.raises(ArgumentError, match=r"out= is not supported(.|\n)*x\.at"):
        jnp.sum(x, out=np.zeros(()))
    with pytest.raises(ArgumentError, match="where= needs initial="):
        jnp.max(x, where=x > 0)
    with pytest.raises(ArgumentError, match="two names"):
        jnp.var(x, ddof=1, correction=1)
    with pytest.raises(DTypeError, match="lists are not arrays"):
        jnp.sum([1, 2])
    with pytest.raises(DTypeError, match="complex"):
        jnp.median(jnp.array([1j]))


def test_variance_is_few_equations():
    jaxpr = functrax.make_jaxpr(lambda x: jnp.var(x, axis=1))(jnp.ones((2, 3)))
    assert len(jaxpr.eqns) == 7
    assert len(functrax.make_jaxpr(lambda x: jnp.mean(x))(jnp.ones((2, 3))).eqns) == 2


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_a_mean_that_is_known(name):
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4) ** 2
    if name.startswith("nan"):
        x[1, 2] = np.nan
    mean = np.nanmean(x, 1, keepdims=True) + 1  # another than the true one shows that it is used
    for more in ({}, {"ddof": 1, "keepdims": True}):
        ours = getattr(jnp, name)(x, 1, mean=mean, **more)
        ddof = more.get("ddof", 0)
        squares = (x - mean) ** 2
        wanted = np.nansum(squares, 1, keepdims=True) / ((~np.isnan(x)).sum(1)[:, None] - ddof)
        wanted = np.sqrt(wanted) if name.endswith("std") else wanted
        np.testing.assert_allclose(ours, wanted if more else wanted[:, 0], rtol=1e-6)
    with pytest.raises(ShapeError, match="the mean does not broadcast to the array"):
        getattr(jnp, name)(x, 1, mean=np.ones(3))
