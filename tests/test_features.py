"""The feature ledger, one small test for each row that holds, under the row's name.

J: Hu et al., "Jittor", 2020.  T: the TorchScript JIT's technical overview.  P: Paszke et al.,
"PyTorch", 2019.  N: what none of them has.  ``test_compiler_features.py`` and
``test_new_features.py`` have more rows.
"""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors, lax
from functrax.core.index.map_text import parse_index_expr
from functrax.core.ir.jaxpr import Eqn, Jaxpr, Var, all_eqns
from functrax.core.prims.arithmetic import add, mul
from functrax.extend import (
    Elementwise,
    Primitive,
    ShapedArray,
    dtypes,
    jaxpr_as_fun,
    like,
    meta_only,
    registry,
    verify,
)

META = ("elementwise", "reindex", "reindex_reduce")
F32 = ShapedArray((3,), dtypes.float32)


@pytest.fixture(autouse=True)
def wide_types() -> Iterator[None]:
    with functrax.enable_x64():
        yield


def array(*shape: int, seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def program(function: Callable[..., Any], *args: Any) -> Jaxpr:
    jaxpr: Jaxpr = functrax.make_jaxpr(function)(*args).jaxpr
    return jaxpr


def names(jaxpr: Jaxpr) -> list[str]:
    return [eqn.primitive.name for eqn in jaxpr.eqns]


def assert_is_gradient(function: Callable[[Any], Any], x: Any, rtol: float = 1e-6) -> None:
    """The gradient, against central differences along one direction."""
    t = array(*x.shape, seed=99)
    step = 1e-6
    wanted = (function(x + step * t) - function(x - step * t)) / (2 * step)
    got = jnp.sum(functrax.grad(function)(x) * t)
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=1e-8)


def conv(x: Any, p: Any) -> Any:
    """Listing 1 of the Jittor paper."""
    N, _, H, W = x.shape
    o, i, h, w = p.shape
    xx = lax.reindex(x, (N, o, H, W, i, h, w), ("i0", "i4", "i2-i5", "i3-i6"))
    pp = lax.broadcast(p, xx.shape, dims=(0, 2, 3))
    return (xx * pp).sum((4, 5, 6))


def naive_conv(x: Any, p: Any) -> np.ndarray:
    x, p = np.asarray(x), np.asarray(p)
    y = np.zeros((x.shape[0], p.shape[0], *x.shape[2:]))
    for h, w in np.ndindex(*p.shape[2:]):
        shifted = x[:, :, : x.shape[2] - h, : x.shape[3] - w]
        y[:, :, h:, w:] += np.einsum("nixy,oi->noxy", shifted, p[:, :, h, w])
    return y


def test_J1_reindex_with_fill_out_of_bounds() -> None:
    x = np.arange(5)
    got = lax.reindex(x, (4, 3), ("2*i0 - i1",), fill_value=-1)
    wanted = [[x[2 * i - j] if 0 <= 2 * i - j < 5 else -1 for j in range(3)] for i in range(4)]
    np.testing.assert_array_equal(got, wanted)


def test_J2_overflow_conditions() -> None:
    y, p = array(2, 2), array(3, 3, seed=1)
    up = lax.reindex(
        y,
        (5, 5, 3, 3),
        ("(i0-i2)/2", "(i1-i3)/2"),
        overflow_conditions=("(i0-i2)%2", "(i1-i3)%2"),
    )
    got = (up * p).sum((2, 3))
    wanted = np.zeros((5, 5))
    for i, j in np.ndindex(2, 2):
        wanted[2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += np.asarray(y)[i, j] * np.asarray(p)
    np.testing.assert_allclose(got, wanted)


def test_J3_division_rounds_down_and_bad_expressions_are_named() -> None:
    got = lax.reindex(np.arange(4), (2, 3), ("(i0-i1)/2",), fill_value=-7)
    np.testing.assert_array_equal(got, [[0, -7, -7], [0, 0, -7]])
    assert str(parse_index_expr("(i0-i1)/2", 2)) == "(d0 - d1)//2"
    with pytest.raises(errors.ArgumentError) as info:
        program(lambda x: lax.reindex(x, (3,), ("i0 +* 2",)), np.arange(4))
    assert "i0 +* 2" in str(info.value)


def test_J4_index_arrays_and_no_gradient_to_them() -> None:
    x, index = array(3, 4), jnp.array([[3, 0], [1, 1], [2, 0]])
    got = lax.reindex(x, (3, 2), ("i0", "@e0(i0,i1)"), extras=[index])
    np.testing.assert_array_equal(got, np.take_along_axis(np.asarray(x), np.asarray(index), 1))
    to_index = functrax.grad(
        lambda x, i: jnp.take_along_axis(x, i, 1).sum(), argnums=1, allow_int=True
    )(x, index)
    assert to_index.dtype == functrax.float0


@pytest.mark.parametrize("op", ["add", "mul", "max", "min"])
def test_J5_pooling_by_reindex_reduce(op: str) -> None:
    x = array(6, 4)

    def pool(x: Any) -> Any:
        return lax.reindex_reduce(x, op, (3, 2), ("i0/2", "i1/2"))

    blocks = np.asarray(x).reshape(3, 2, 2, 2)
    numpy_op = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[op]
    wanted = numpy_op.reduce(numpy_op.reduce(blocks, axis=3), axis=1)
    np.testing.assert_allclose(pool(x), wanted, rtol=1e-12)
    assert_is_gradient(lambda x: (pool(x) ** 2).sum(), x)


def test_J6_elementwise_at_special_values() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 2.5])
    for name in ("sin", "exp", "sqrt", "floor", "abs", "tanh", "isnan", "log1p"):
        with np.errstate(all="ignore"):
            wanted = getattr(np, name)(x)
            got = np.asarray(getattr(jnp, name)(x))
        np.testing.assert_allclose(got, wanted, 4e-16, 0, err_msg=name)
        np.testing.assert_array_equal(np.signbit(got[3:]), np.signbit(wanted[3:]), name)
    with pytest.raises(errors.ShapeError):
        lax.add(jnp.ones(3), jnp.ones(4))


def test_J7_specialisations_are_meta_operators() -> None:
    def function(x: Any) -> Any:
        x = jnp.flip(jnp.transpose(jnp.pad(jnp.broadcast_to(x, (4, 3)), 1)))[1:]
        return x.sum(0) + x.prod(0) * x.max(0)

    found = program(function, array(3))
    assert not meta_only(found)
    assert {eqn.primitive.family for eqn in found.eqns} == set(META)


def test_J8_backward_closure() -> None:
    def function(x: Any) -> Any:
        y = jnp.tanh(x) * lax.reindex(x, (4,), ("3-i0",))
        return jnp.max(y) + jnp.prod(y) + jnp.sum(lax.reindex_reduce(y, "add", (2,), ("i0/2",)))

    derivative = function
    x, t = array(4), array(4, seed=1)
    for _ in range(4):
        lower = derivative
        assert_is_gradient(lower, x, rtol=1e-5)
        derivative = lambda x, lower=lower: jnp.sum(functrax.grad(lower)(x) * t)
        assert not meta_only(program(derivative, x))


@pytest.mark.usefixtures("no_collection")
def test_J9_no_value_of_rank_seven_is_stored() -> None:
    x, p = array(2, 4, 16, 16), array(8, 4, 3, 3)
    expanded = 2 * 8 * 16 * 16 * 4 * 3 * 3 * 8  # bytes of the product
    compiled = functrax.jit(conv)
    got = compiled(x, p)
    np.testing.assert_allclose(got, naive_conv(x, p), rtol=1e-10, atol=1e-12)
    tracemalloc.start()
    compiled(x, p).block_until_ready()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < expanded / 2


def test_J10_fused_backward_of_the_convolution() -> None:
    x, p = array(1, 2, 5, 4), array(3, 2, 2, 2)
    assert_is_gradient(lambda x: (conv(x, p) ** 2).sum(), x)
    assert_is_gradient(lambda p: (conv(x, p) ** 2).sum(), p)


def test_J11_convolutions_of_every_kind() -> None:
    x, p = array(1, 4, 9, 9), array(6, 2, 3, 3)
    got = lax.conv_general_dilated(
        x, p, (2, 1), [(1, 2), (2, 2)], rhs_dilation=(1, 2), feature_group_count=2
    )
    padded = np.pad(np.asarray(x), ((0, 0), (0, 0), (1, 2), (2, 2)))
    wanted = np.zeros((1, 6, 5, 9))
    for o, a, b in np.ndindex(6, 5, 9):
        group = padded[0, 2 * (o // 3) : 2 * (o // 3) + 2]
        wanted[0, o, a, b] = (group[:, 2 * a : 2 * a + 3, b : b + 5 : 2] * np.asarray(p)[o]).sum()
    np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)
    up = lax.conv_transpose(
        array(1, 2, 3, 3),
        array(4, 2, 2, 2),
        (2, 2),
        "VALID",
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
    )
    assert up.shape == (1, 4, 6, 6)


def test_J12_gradient_penalty() -> None:
    x = array(5)

    def penalty(w: Any) -> Any:
        slope = functrax.grad(lambda x: jnp.sum(jnp.tanh(w @ x)))(x)
        return (jnp.linalg.norm(slope) - 1) ** 2

    assert_is_gradient(penalty, array(3, 5, seed=2))


def test_J13_stop_gradient_leaves_no_backward_equation() -> None:
    def function(x: Any) -> Any:
        return jnp.sum(jnp.sin(lax.stop_gradient(x))) * 2.0

    gradient = program(functrax.grad(function), array(3))
    assert set(names(gradient)) <= {"broadcast_in_dim"}, "nothing but the zeros"
    np.testing.assert_array_equal(functrax.grad(function)(array(3)), np.zeros(3))
    half = program(functrax.grad(lambda x: jnp.sum(x * jnp.exp(lax.stop_gradient(x)))), array(3))
    assert sorted(names(half)) == ["broadcast_in_dim", "exp", "mul", "stop_gradient"]


def test_J15_variables_carry_shape_and_dtype() -> None:
    jaxpr = program(lambda x: (x > 0).sum(), array(3))
    types = [v.aval for eqn in jaxpr.eqns for v in eqn.outvars]
    assert all(isinstance(t, ShapedArray) for t in types)
    assert types[0] == ShapedArray((3,), dtypes.bool_)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_J16_custom_operator_has_all_derivatives(dtype: str) -> None:
    x, p = array(1, 1, 4, 4).astype(dtype), array(1, 1, 2, 2).astype(dtype)
    assert conv(x, p).dtype == dtype
    loss = lambda x: (conv(x, p) ** 3).sum()
    second = functrax.hessian(loss)(x)
    assert second.dtype == dtype
    assert not meta_only(program(functrax.hessian(loss), x))


def wrong_programs() -> Iterator[tuple[str, Jaxpr]]:
    a, b, c = Var(F32), Var(F32), Var(F32)
    twice = [Eqn(add, (a, a), (b,), {}), Eqn(mul, (a, a), (b,), {})]
    yield "defined twice", Jaxpr((), (a,), (b,), twice)
    early = [Eqn(add, (a, c), (b,), {}), Eqn(mul, (a, a), (c,), {})]
    yield "before it is defined", Jaxpr((), (a,), (b,), early)
    yield "not defined", Jaxpr((), (a,), (c,), [Eqn(add, (a, a), (b,), {})])
    inner = Jaxpr((), (b,), (a,), [])
    call = Eqn(registry["jit"], (a,), (c,), {"jaxpr": inner})
    yield "not defined", Jaxpr((), (a,), (c,), [call])


@pytest.mark.parametrize(("text", "wrong"), list(wrong_programs()))
def test_T4_checker_refuses(text: str, wrong: Jaxpr) -> None:
    with pytest.raises(errors.VerificationError, match=text):
        verify(wrong)


class Cube(Elementwise):
    """The third power, registered as a user would."""

    name = "test_cube"
    accepts = dtypes.FLOATING

    def reference(self, x: Any) -> Any:
        return x * x * x

    def partial(self, i: int, operands: Any, out: Any) -> Any:
        return mul(mul(operands[0], operands[0]), like(out, 3))


class SumAndDifference(Primitive):
    """Two results at once."""

    name = "test_sum_and_difference"
    family = "opaque"
    multiple_results = True

    def shape_rule(self, a: ShapedArray, b: ShapedArray) -> Any:
        return add.shape_rule(a, b), add.shape_rule(a, b)

    def reference(self, a: Any, b: Any) -> Any:
        return a + b, a - b

    def jvp(self, primals: Any, tangents: Any) -> Any:
        given = [p * 0.0 if t is None else t for p, t in zip(primals, tangents, strict=True)]
        return self.bind(*primals), self.bind(*given)

    def transpose(self, cts: Any, a: Any, b: Any) -> Any:
        s, d = (jnp.zeros(a.aval.shape, a.aval.dtype) if ct is None else ct for ct in cts)
        return self.bind(s, d)

    def batch(self, size: int, args: Any, batched: Any) -> Any:
        assert all(batched)
        return self.bind(*args), [True, True]


cube, sum_and_difference = Cube(), SumAndDifference()


def test_T5_users_register_primitives() -> None:
    x = array(3)
    np.testing.assert_allclose(functrax.vmap(functrax.grad(cube))(x), 3 * np.asarray(x) ** 2)
    assert_is_gradient(functrax.jit(lambda x: jnp.sum(cube(x) ** 2)), x)
    text = str(functrax.make_jaxpr(cube)(x))
    assert functrax.parse(text) == functrax.make_jaxpr(cube)(x)


def test_T6_equations_with_several_results() -> None:
    def function(x: Any) -> Any:
        a, b = sum_and_difference(x, jnp.sin(x))
        return jnp.sum(a * b)

    x = array(4)
    (eqn,) = (e for e in program(function, x).eqns if e.primitive is sum_and_difference)
    assert len(eqn.outvars) == 2
    np.testing.assert_allclose(function(x), np.sum(np.asarray(x) ** 2 - np.sin(x) ** 2))
    assert_is_gradient(functrax.jit(function), x)
    functrax.vmap(function)(array(2, 4))


def test_T7_parameters_are_not_operands() -> None:
    (eqn,) = program(lambda x: x.sum(0), array(3, 2)).eqns
    assert eqn.params == {"axes": (0,)}
    assert len(eqn.invars) == 1
    (scaled,) = program(lambda x: x * 2.0, array(3)).eqns
    assert scaled.invars[1].val == 2.0


def test_T8_ill_typed_equations_are_not_made() -> None:
    def function(x: Any) -> Any:
        return add(x, jnp.ones(4, x.dtype))

    with pytest.raises(errors.ShapeError, match="add"):
        program(function, array(3))


def test_T12_types_in_print() -> None:
    assert [str(ShapedArray(s, d).str_short()) for s, d in [
        ((), dtypes.float32), ((2, 3), dtypes.bfloat16), ((0,), dtypes.bool_),
    ]] == ["f32[]", "bf16[2,3]", "bool[0]"]  # fmt: skip
    text = functrax.make_jaxpr(lambda x, y: x + y)(jnp.ones((2, 3)), 1.0).as_text(source=False)
    assert text.splitlines()[0] == "{ lambda ; a:f64[2,3] b:~f64[]. let"


def test_T13_source_lines_in_print_and_errors() -> None:
    def function(x: Any) -> Any:
        return jnp.sin(x)

    line = function.__code__.co_firstlineno + 1
    assert f"# test_features.py:{line} in function" in str(functrax.make_jaxpr(function)(1.0))
    with pytest.raises(errors.ShapeError) as info:
        jnp.ones(3) + jnp.ones(4)
    assert "test_features.py" in str(info.value)


def test_T14_text_reads_back_and_runs() -> None:
    gradient = functrax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2))
    printed = functrax.make_jaxpr(gradient)(array(3))
    again = functrax.parse(str(printed))
    assert again == printed
    got = jaxpr_as_fun(again)(array(3))
    np.testing.assert_array_equal(got[0], gradient(array(3)))


def test_T15_nested_jit_is_a_call() -> None:
    outer = program(lambda x: functrax.jit(jnp.sin)(x) * 2, array(3))
    assert names(outer) == ["jit", "mul"]
    inlined = program(lambda x: functrax.jit(jnp.sin, inline=True)(x) * 2, array(3))
    assert names(inlined) == ["sin", "mul"]


def test_T16_parser_imports_no_user_code() -> None:
    printed = str(functrax.make_jaxpr(functrax.grad(lambda x: jnp.sum(jnp.sin(x))))(array(2)))
    code = (
        "import functrax, sys; functrax.config.update('enable_x64', True);"
        f"p = functrax.parse({printed!r}); print(p.as_text(source=False));"
        "assert 'test_features' not in ' '.join(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == functrax.parse(printed).as_text(source=False)


def test_T17_in_place_assignment_is_refused() -> None:
    x = jnp.zeros(3)
    with pytest.raises(errors.ImmutableError, match=r"\.at\[index\]\.set"):
        x[0] = 1.0
    with pytest.raises(errors.ImmutableError, match=r"\.at\[index\]\.set"):
        functrax.jit(lambda x: x.__setitem__(0, 1.0))(x)


def test_T24_constants_are_folded_and_everything_is_typed() -> None:
    two = lax.full((), 2.0)
    jaxpr = program(lambda x: x * (jnp.sin(two) + two * two), 1.5)
    assert names(jaxpr) == ["mul"]
    assert all(v.aval.dtype is not None for eqn in jaxpr.eqns for v in eqn.outvars)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: [jnp.exp(x), jnp.sin(x)][1], ["sin"]),
        (lambda x: jnp.sin(x) * jnp.sin(x), ["sin", "mul"]),
        (lambda x: jnp.sin(x * 1.0 + 0.0) ** 1, ["add", "sin"]),
        (lambda x: jnp.transpose(x, (0, 1)).reshape(2, 3), []),
    ],
    ids=["dead code", "common subexpressions", "neutral elements", "reindexes by the identity"],
)
def test_T25_programs_are_simplified_as_they_are_built(function: Any, wanted: list[str]) -> None:
    assert names(program(function, array(2, 3))) == wanted


def test_P3_custom_vjp_is_differentiable_again() -> None:
    @functrax.custom_vjp
    def cubed(x: Any) -> Any:
        return x**3

    cubed.defvjp(lambda x: (cubed(x), x), lambda x, ct: (3 * x * x * ct,))

    @functrax.custom_jvp
    def squared(x: Any) -> Any:
        return x * x

    squared.defjvp(lambda primals, tangents: (squared(*primals), 2 * primals[0] * tangents[0]))
    assert functrax.grad(functrax.grad(cubed))(2.0) == 12.0
    assert functrax.grad(functrax.grad(squared))(5.0) == 2.0


def test_P6_every_mode_agrees() -> None:
    def function(x: Any) -> Any:
        return jnp.stack([jnp.sin(x[0]) * x[1], x[1] ** 3])

    x, t = array(2), array(2, seed=1)
    jacobian = functrax.jacfwd(function)(x)
    np.testing.assert_allclose(functrax.jacrev(function)(x), jacobian)
    np.testing.assert_allclose(functrax.jvp(function, (x,), (t,))[1], jacobian @ t)
    np.testing.assert_allclose(functrax.vjp(function, x)[1](t)[0], jacobian.T @ t)
    np.testing.assert_allclose(functrax.linearize(function, x)[1](t), jacobian @ t)
    hessian = functrax.hessian(lambda x: jnp.sum(function(x)))(x)
    hvp = functrax.jvp(functrax.grad(lambda x: jnp.sum(function(x))), (x,), (t,))[1]
    np.testing.assert_allclose(hvp, hessian @ t)


def test_N2_derivatives_of_order_k_have_few_equations() -> None:
    function: Any = lambda x: jnp.tanh(x) * jnp.sin(x)
    for order in range(1, 8):
        function = functrax.grad(function)
        assert len(list(all_eqns(program(function, 0.5)))) <= 12 * order**2


def test_N7_subgradients() -> None:
    zero = jnp.zeros(2)
    np.testing.assert_array_equal(functrax.grad(jnp.max)(zero), [0.5, 0.5])
    np.testing.assert_array_equal(functrax.grad(jnp.linalg.norm)(zero), [0, 0])
    np.testing.assert_array_equal(functrax.grad(jnp.prod)(jnp.array([0.0, 2.0, 3.0])), [6, 0, 0])
    assert functrax.grad(lambda x: jnp.power(x, 2))(0.0) == 0.0


def test_N11_a_derivative_as_text_is_edited_and_run() -> None:
    text = functrax.make_jaxpr(functrax.grad(jnp.sin))(1.0).as_text(source=False)
    assert "cos" in text
    edited = functrax.parse(text.replace("cos", "sin"))
    (got,) = functrax.jit(jaxpr_as_fun(edited))(0.5)
    np.testing.assert_allclose(got, np.sin(0.5))


def test_J17_kernels_cover_every_equation_once() -> None:
    with functrax.backend("llvm"):
        e = functrax.explain(functrax.grad(lambda x: jnp.sum(jnp.cumsum(x * x) ** 2)))(array(5))
    inside = [v for k in e.kernels for eqn in k.eqns for v in eqn.outvars]
    computed = [q for q in e.passes[-1].before.eqns if q.primitive.family != "reindex"]
    assert all(inside.count(v) == 1 for eqn in computed for v in eqn.outvars)


def test_J18_cost_is_the_bytes_that_cross_kernels() -> None:
    x = array(8, 100)
    with functrax.backend("llvm"):
        e = functrax.explain(lambda x: jnp.sum(x / jnp.sum(x, 1, keepdims=True), 0))(x)
    between = 8 * 8  # the sums of the rows
    assert e.cost == 2 * x.nbytes + 2 * between + 100 * 8


def norm_and_more(x: Any, gain: Any, shift: Any) -> Any:
    """A batch norm (Listing 5 of the Jittor paper, with the variance of what is centred)."""
    centred = x - x.mean((0, 2, 3), keepdims=True)
    variance = (centred**2).mean((0, 2, 3), keepdims=True)
    return centred / jnp.sqrt(variance + 1e-5) * gain[:, None, None] + shift[:, None, None]


def convolved(x: Any, w: Any) -> Any:
    return lax.conv_general_dilated(x, w, (1, 1), "SAME")


def conv_norm_relu(params: Any, x: Any) -> Any:
    w, gain, shift = params
    return functrax.nn.relu(norm_and_more(convolved(x, w), gain, shift))


def residual_block(params: Any, x: Any) -> Any:
    first, (w, gain, shift) = params
    y = norm_and_more(convolved(conv_norm_relu(first, x), w), gain, shift)
    return functrax.nn.relu(y + x)


def kernels_of(function: Callable[..., Any], *args: Any) -> list[str]:
    """What each kernel is: ``conv`` for a contraction, else ``rest``; calls are none."""
    with functrax.backend("llvm"):
        e = functrax.explain(function)(*args)
    assert {k.kind for k in e.kernels} == {"kernel"}
    return ["conv" if any(len(q.outvars[0].aval.shape) > 4 for q in k.eqns) else "rest"
            for k in e.kernels]  # fmt: skip


def gradient_of(function: Callable[..., Any]) -> Callable[..., Any]:
    return functrax.grad(lambda params, x, ct: jnp.sum(function(params, x) * ct), (0, 1))


LAYER = (array(16, 16, 3, 3).astype("f4"), jnp.ones(16, "f4"), jnp.zeros(16, "f4"))


def test_J23_convolution_norm_and_activation_are_two_kernels() -> None:
    """One reads what the convolution gives once for mean, variance and result."""
    x = array(4, 16, 24, 24).astype("f4")
    assert kernels_of(conv_norm_relu, LAYER, x) == ["conv", "rest"]
    # again the convolution; all of norm and activation, both ways; the two convolutions of eq. 8
    assert kernels_of(gradient_of(conv_norm_relu), LAYER, x, x) == ["conv", "rest", "conv", "conv"]


def test_J24_point_wise_parts_of_a_residual_block_fuse() -> None:
    """Seven operations are four kernels: norm + ReLU is one, norm + add + ReLU another."""
    x = array(4, 16, 24, 24).astype("f4")
    params = (LAYER, LAYER)
    assert kernels_of(residual_block, params, x) == ["conv", "rest", "conv", "rest"]
    backward = kernels_of(gradient_of(residual_block), params, x, x)
    # six convolutions, of which the one before the first norm does the ReLU's gradient, too; each
    # norm forward and backward, where the second one's way back starts with its way forward
    assert backward.count("conv") == 6 and len(backward) <= 10


def test_B14_gradients_are_explained_like_functions() -> None:
    with functrax.backend("llvm"):
        e = functrax.explain(functrax.grad(lambda x: jnp.sum(x**3)))(array(4))
    assert e.cost == 2 * 4 * 8 and "<svg" in e._repr_svg_() and "1 kernel" in str(e)


def test_N12_compiled_programs_are_validated() -> None:
    with functrax.backend("llvm"):
        report = functrax.check(functrax.grad(lambda x: jnp.sum(jnp.sqrt(x * x + 1))))(array(3, 4))
    assert report.launches == 1 and report.passes


def test_N13_nans_in_compiled_code_are_traced_to_their_line() -> None:
    def f(x: Any) -> Any:
        return jnp.sqrt(x - 2) * 3

    raised = pytest.raises(errors.NonFiniteError, match="sqrt gave a NaN")
    with functrax.backend("llvm"), functrax.debug_nans(), raised as caught:
        functrax.jit(f)(jnp.arange(4.0))
    assert caught.value.where is not None and caught.value.where.function == "f"
    assert "-2.0 gave nan" in caught.value.got


def test_N21_a_trace_says_why_it_was_made() -> None:
    f = functrax.jit(lambda x: x * 2)
    f(array(3))
    f(array(4))
    (difference,) = functrax.explain_misses(f).traces[1].differences
    assert str(difference) == "the shape of x: (3,) became (4,)"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_choices_and_inputs_are_named_where_no_operation_gave_the_value(value: float) -> None:
    option = functrax.debug_nans if np.isnan(value) else functrax.debug_infs
    chosen = functrax.jit(lambda x: functrax.lax.cond(x == 1, lambda: value, lambda: 2.0))
    given = functrax.jit(lambda x: x * 3.0)
    assert float(chosen(2)) == 2.0
    with option(True):
        with pytest.raises(FloatingPointError, match="encountered in cond"):
            chosen(1)
        with pytest.raises(FloatingPointError, match="did not give it: it is a literal, or an inp"):
            given(value)
