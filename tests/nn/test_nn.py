"""functrax.nn: JAX's values and gradients, transformations, and refusals."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import nn, random
from functrax.core.errors.typed import (
    ArgumentError,
    AxisError,
    DTypeError,
    FunctraxError,
    ShapeError,
)
from functrax.core.options.config import Override
from tests.random import recorded

TABLE = recorded.load(pathlib.Path(__file__).parent / "data" / "nn.json")
KEY = random.key(3)


def case_name(case):
    options = {k: "array" if isinstance(v, dict) else v for k, v in case["kwargs"].items()}
    return f"{case['name']}-{case['args'][0]['dtype']}-{options}"


@pytest.mark.parametrize("case", TABLE["functions"], ids=case_name)
def test_values_and_gradients_are_those_of_jax(case):
    first, *rest = map(recorded.decoded, case["args"])
    kwargs = {k: recorded.decoded(v) for k, v in case["kwargs"].items()}
    function = getattr(nn, case["name"])
    scale = float(np.nanmax(np.abs(np.where(np.isfinite(first), first, 0)).astype(float))) + 1
    jitted = functrax.jit(lambda x: function(x, *rest, **kwargs))
    for value in function(first, *rest, **kwargs), jitted(first):
        recorded.assert_close(value, recorded.decoded(case["out"]), 16, scale=0.1 * scale)
    with Override("strict", True):
        one_by_one = np.asarray(function(first, *rest, **kwargs))
        recorded.assert_close(jitted(first), one_by_one, 0)
    if case["grad"] is None:
        return
    slope = functrax.grad(lambda x: function(x, *rest, **kwargs).sum())(first)
    recorded.assert_close(slope, recorded.decoded(case["grad"]), 16, scale=1.0)


@pytest.mark.parametrize(
    "case", TABLE["initializers"], ids=lambda c: f"{c['name']}-{c['made']}-{c['dtype']}"
)
def test_initializers_are_those_of_jax(case):
    made = {k: recorded.decoded(v) for k, v in (case["made"] or {}).items()}
    make = getattr(nn.initializers, case["name"])
    init = make if case["made"] is None else make(**made)
    assert isinstance(init, nn.initializers.Initializer)
    options = {} if case["dtype"] is None else {"dtype": case["dtype"]}
    got = init(KEY, tuple(case["shape"]), **options)
    recorded.assert_close(got, recorded.decoded(case["out"]), 6)
    jitted = functrax.jit(lambda k: init(k, tuple(case["shape"]), **options))
    recorded.assert_close(jitted(KEY), recorded.decoded(case["out"]), 6)
    with Override("strict", True):
        one_by_one = np.asarray(init(KEY, tuple(case["shape"]), **options))
        recorded.assert_close(jitted(KEY), one_by_one, 0)


@pytest.mark.parametrize(
    "function",
    [
        nn.relu,
        nn.gelu,
        nn.softplus,
        nn.selu,
        nn.softmax,
        nn.log_softmax,
        nn.standardize,
        nn.glu,
        lambda x: nn.logsumexp(x, axis=-1),
        lambda x: nn.softmax(x, where=x > 0),
    ],
)
def test_vmap_equals_a_loop_in_values_and_gradients(function):
    x = np.asarray(random.normal(KEY, (3, 4)))
    together = functrax.vmap(function)(x)
    np.testing.assert_allclose(together, np.stack([function(row) for row in x]), rtol=1e-6)

    def slope(row):
        return functrax.grad(lambda r: jnp.sum(jnp.sin(function(r))))(row)

    expected = np.stack([np.asarray(slope(row)) for row in x])
    np.testing.assert_allclose(functrax.vmap(slope)(x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "function",
    [nn.softmax, nn.log_softmax, nn.gelu, nn.mish, nn.log_sigmoid, nn.standardize, nn.silu],
)
def test_derivatives_match_differences(function):
    with functrax.enable_x64(True):
        x, t = np.float64([0.3, -1.2, 2.1, 0.7]), np.float64([1.0, -0.5, 0.25, 2.0])
        _, tangent = functrax.jvp(function, (x,), (t,))
        step = 1e-6
        numeric = (np.asarray(function(x + step * t)) - np.asarray(function(x - step * t))) / (
            2 * step
        )
        np.testing.assert_allclose(tangent, numeric, rtol=1e-6, atol=1e-8)
        ct = np.float64([1.0, 2.0, -1.0, 0.5])
        (back,) = functrax.vjp(function, x)[1](jnp.asarray(ct))
        np.testing.assert_allclose(np.dot(back, t), np.dot(ct, tangent), rtol=1e-10)


def test_second_derivatives():
    second = functrax.grad(functrax.grad(lambda x: nn.softplus(x)))(0.5)
    s = 1 / (1 + np.exp(-0.5))
    np.testing.assert_allclose(second, s * (1 - s), rtol=1e-5)
    hessian = functrax.hessian(lambda x: nn.logsumexp(x))(np.float32([0.1, 0.2, 0.7]))
    p = np.asarray(nn.softmax(np.float32([0.1, 0.2, 0.7])))
    np.testing.assert_allclose(hessian, np.diag(p) - np.outer(p, p), atol=1e-6)


def test_corners_have_slope_zero():
    assert float(functrax.grad(nn.relu)(0.0)) == 0.0
    assert float(functrax.grad(nn.relu6)(6.0)) == 0.0
    assert np.isnan(np.asarray(nn.relu(np.float32(np.nan))))


def test_large_arguments_have_finite_gradients():
    x = np.float32([-1e4, -90.0, 90.0, 1e4])
    for name in ("elu", "celu", "selu", "softplus", "log_sigmoid", "silu", "mish", "gelu"):
        function = getattr(nn, name)
        slope = functrax.grad(lambda v, f=function: jnp.sum(f(v)))(x)
        assert np.isfinite(np.asarray(slope)).all(), name


def test_masked_gradients_are_finite_and_zero_outside():
    x = np.float32([1.0, np.inf, 2.0, np.nan])
    where = np.array([True, False, True, False])
    for function in (nn.softmax, nn.log_softmax):
        loss = lambda v, f=function: jnp.sum(jnp.where(where, f(v, where=where), 0) ** 2)
        slope = np.asarray(functrax.grad(loss)(x))
        assert np.isfinite(slope).all() and slope[1] == slope[3] == 0
    slope = np.asarray(functrax.grad(lambda v: nn.logsumexp(v, where=where))(x))
    np.testing.assert_allclose(slope, [1 / (1 + np.e), 0, np.e / (1 + np.e), 0], rtol=1e-6)


def test_traced_masks():
    x, where = np.float32([[1, 2], [3, 4]]), np.array([[True, False], [True, True]])
    together = functrax.vmap(lambda a, w: nn.softmax(a, where=w))(x, where)
    np.testing.assert_allclose(together, nn.softmax(x, where=where), rtol=1e-6)
    slopes = functrax.jit(
        functrax.vmap(functrax.grad(lambda a, w: jnp.max(nn.softmax(a, where=w))), (0, 0))
    )(x, where)
    assert np.isfinite(np.asarray(slopes)).all()


def test_logsumexp_with_signs():
    out, sign = nn.logsumexp(np.float32([0.0, 0.0]), b=np.float32([1.0, -3.0]), return_sign=True)
    np.testing.assert_allclose([float(out), float(sign)], [np.log(2.0), -1.0], rtol=1e-6)
    assert np.isnan(float(nn.logsumexp(np.float32([0.0]), b=np.float32([-1.0]))))
    assert float(nn.logsumexp(np.zeros((0,), np.float32))) == -np.inf


def test_attention_residual():
    q = np.asarray(random.normal(KEY, (2, 3, 4, 5)))
    out, residual = nn.dot_product_attention(q, q, q, return_residual=True)
    logits = np.einsum("btnh,bsnh->btns", q, q) / np.sqrt(5)
    np.testing.assert_allclose(residual, np.log(np.exp(logits).sum(-1)), rtol=1e-5)
    weights = np.exp(logits - np.asarray(residual)[..., None])
    np.testing.assert_allclose(out, np.einsum("btns,bsnh->btnh", weights, q), rtol=1e-4, atol=1e-6)


def test_lists_of_classes():
    assert np.asarray(nn.one_hot([1, 0], 2)).tolist() == [[0, 1], [1, 0]]


Q = np.ones((1, 2, 4, 3), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: nn.relu([1.0]), DTypeError, "lists|array"),
        (lambda: nn.glu(np.ones(3)), ShapeError, "halves"),
        (lambda: nn.glu(np.ones(4), axis=1), AxisError, "axis"),
        (lambda: nn.softmax(np.ones(3), axis=1), AxisError, "axis"),
        (lambda: nn.one_hot(np.arange(2), -1), ShapeError, "negative"),
        (lambda: nn.one_hot(np.arange(2), 2.5), ShapeError, "known integer"),
        (lambda: nn.one_hot(np.arange(2), 2, axis=3), AxisError, "axis"),
        (lambda: nn.standardize(np.ones(3), algorithm="x"), ArgumentError, "algorithm"),
        (lambda: nn.dot_product_attention(Q, Q[..., :2], Q), ShapeError, "shapes"),
        (lambda: nn.dot_product_attention(Q, Q[..., :3, :], Q[..., :3, :]), ShapeError, "heads"),
        (
            lambda: nn.dot_product_attention(Q, Q, Q, implementation="x"),
            ArgumentError,
            "implementation",
        ),
        (lambda: nn.dot_product_attention(Q, Q, Q, mask=Q), DTypeError, "bool"),
        (lambda: nn.dot_product_attention(Q, Q, Q.astype(np.float16)), DTypeError, "dtype"),
        (lambda: nn.dot_product_attention(Q[0, 0], Q, Q), ShapeError, "rank"),
        (
            lambda: nn.dot_product_attention(Q, Q, Q, query_seq_lengths=np.int32([1, 1])),
            ShapeError,
            "length",
        ),
        (lambda: nn.initializers.he_normal()(KEY, (3,)), ShapeError, "inputs"),
        (lambda: nn.initializers.he_normal()(KEY, (0, 3)), ShapeError, "elements"),
        (
            lambda: nn.initializers.variance_scaling(1.0, "fan", "normal"),
            ArgumentError,
            "mode",
        ),
        (
            lambda: nn.initializers.variance_scaling(1.0, "fan_in", "x"),
            ArgumentError,
            "distribution",
        ),
        (lambda: nn.initializers.orthogonal()(KEY, (3,)), ShapeError, "rows"),
        (lambda: nn.initializers.orthogonal(column_axis=2)(KEY, (3, 3)), AxisError, "axis"),
        (lambda: nn.initializers.delta_orthogonal()(KEY, (3, 3)), ShapeError, "space"),
        (lambda: nn.initializers.delta_orthogonal()(KEY, (3, 4, 2)), ShapeError, "norms"),
        (lambda: nn.initializers.normal()(0, (3,)), DTypeError, "not a key"),
    ],
)
def test_misuse(call, error, match):
    with pytest.raises(error, match=match) as caught:
        call()
    assert isinstance(caught.value, FunctraxError)
    assert caught.value.got and caught.value.where


@pytest.mark.parametrize("shape", [(4, 4), (2, 6), (6, 2), (2, 3, 4)])
def test_orthogonal_weights_are_orthogonal(shape):
    matrix = np.asarray(nn.initializers.orthogonal(scale=3.0)(KEY, shape)).reshape(-1, shape[-1])
    small = matrix @ matrix.T if len(matrix) <= shape[-1] else matrix.T @ matrix
    np.testing.assert_allclose(small, 9 * np.eye(len(small)), atol=1e-5)


def test_delta_orthogonal_convolutions_preserve_norms():
    kernel = nn.initializers.delta_orthogonal()(KEY, (3, 3, 4, 6))
    image = random.normal(KEY, (1, 5, 5, 4))
    out = functrax.lax.conv_general_dilated(
        image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    np.testing.assert_allclose(jnp.linalg.norm(out), jnp.linalg.norm(image), rtol=1e-5)
