"""What programs are in HLO: exact texts of small ones, and that equal programs have equal texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import grad, jit, lax, vmap
from functrax.errors import ArgumentError, UnavailableError

X = np.zeros((2, 3), np.float32)


def text_of(function: Callable[..., Any], *args: Any) -> str:
    text: str = jit(function).lower(*args).as_text("hlo")
    return text


def instructions(function: Callable[..., Any], *args: Any, opcode: str) -> list[str]:
    """What stands behind an opcode's name, for each instruction that has it."""
    lines = text_of(function, *args).splitlines()
    return [line.split(f" {opcode}(")[1] for line in lines if f" {opcode}(" in line]


def test_elementwise() -> None:
    def f(x):
        return jnp.tanh(x) * 2.0 + 1.0

    assert (
        text_of(f, X)
        == """\
HloModule jit_f, entry_computation_layout={(f32[2,3]{1,0})->f32[2,3]{1,0}}

ENTRY main.1 {
  x.1 = f32[2,3]{1,0} parameter(0)
  tanh.1 = f32[2,3]{1,0} tanh(x.1)
  constant.1 = f32[] constant(2)
  broadcast.1 = f32[2,3]{1,0} broadcast(constant.1), dimensions={}
  multiply.1 = f32[2,3]{1,0} multiply(tanh.1, broadcast.1)
  constant.2 = f32[] constant(1)
  broadcast.2 = f32[2,3]{1,0} broadcast(constant.2), dimensions={}
  ROOT add.1 = f32[2,3]{1,0} add(multiply.1, broadcast.2)
}
"""
    )


def test_reductions_share_a_computation() -> None:
    def f(x):
        return x.sum(axis=1), x.sum()

    assert (
        text_of(f, X)
        == """\
HloModule jit_f, entry_computation_layout={(f32[2,3]{1,0})->(f32[2]{0}, f32[])}

add_float32.1 {
  x.1 = f32[] parameter(0)
  y.1 = f32[] parameter(1)
  ROOT add.1 = f32[] add(x.1, y.1)
}

ENTRY main.1 {
  x.2 = f32[2,3]{1,0} parameter(0)
  constant.1 = f32[] constant(0)
  reduce.1 = f32[2]{0} reduce(x.2, constant.1), dimensions={1}, to_apply=add_float32.1
  reduce.2 = f32[] reduce(x.2, constant.1), dimensions={0,1}, to_apply=add_float32.1
  ROOT tuple.1 = (f32[2]{0}, f32[]) tuple(reduce.1, reduce.2)
}
"""
    )


def test_while() -> None:
    def f(x):
        return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x), (0, x))[1]

    assert (
        text_of(f, X)
        == """\
HloModule jit_f, entry_computation_layout={(f32[2,3]{1,0})->f32[2,3]{1,0}}

condition.1 {
  state.1 = (f32[2,3]{1,0}, s32[], f32[2,3]{1,0}) parameter(0)
  get-tuple-element.1 = s32[] get-tuple-element(state.1), index=1
  constant.1 = s32[] constant(3)
  ROOT compare.1 = pred[] compare(get-tuple-element.1, constant.1), direction=LT
}

body.1 {
  state.2 = (f32[2,3]{1,0}, s32[], f32[2,3]{1,0}) parameter(0)
  get-tuple-element.2 = f32[2,3]{1,0} get-tuple-element(state.2), index=0
  get-tuple-element.3 = s32[] get-tuple-element(state.2), index=1
  constant.2 = s32[] constant(1)
  add.1 = s32[] add(get-tuple-element.3, constant.2)
  get-tuple-element.4 = f32[2,3]{1,0} get-tuple-element(state.2), index=2
  multiply.1 = f32[2,3]{1,0} multiply(get-tuple-element.4, get-tuple-element.2)
  ROOT tuple.1 = (f32[2,3]{1,0}, s32[], f32[2,3]{1,0}) tuple(get-tuple-element.2, add.1, multiply.1)
}

ENTRY main.1 {
  x.1 = f32[2,3]{1,0} parameter(0)
  constant.3 = s32[] constant(0)
  tuple.2 = (f32[2,3]{1,0}, s32[], f32[2,3]{1,0}) tuple(x.1, constant.3, x.1)
  while.1 = (f32[2,3]{1,0}, s32[], f32[2,3]{1,0}) while(tuple.2), condition=condition.1, body=body.1
  ROOT get-tuple-element.5 = f32[2,3]{1,0} get-tuple-element(while.1), index=2
}
"""
    )


def test_scan() -> None:
    def f(xs):
        return lax.scan(lambda c, x: (c + x, c), jnp.float32(0), xs)[0]

    body = text_of(f, X[0]).split("body.1 {\n")[1].split("}\n\nENTRY")[0]
    assert (
        body
        == """\
  state.2 = (s32[], f32[], f32[3]{0}, f32[3]{0}) parameter(0)
  get-tuple-element.2 = s32[] get-tuple-element(state.2), index=0
  constant.2 = s32[] constant(1)
  add.1 = s32[] add(get-tuple-element.2, constant.2)
  get-tuple-element.3 = f32[] get-tuple-element(state.2), index=1
  get-tuple-element.4 = f32[3]{0} get-tuple-element(state.2), index=2
  dynamic-slice.1 = f32[1]{0} dynamic-slice(get-tuple-element.4, get-tuple-element.2), \
dynamic_slice_sizes={1}
  reshape.1 = f32[] reshape(dynamic-slice.1)
  add.2 = f32[] add(get-tuple-element.3, reshape.1)
  get-tuple-element.5 = f32[3]{0} get-tuple-element(state.2), index=3
  reshape.2 = f32[1]{0} reshape(get-tuple-element.3)
  dynamic-update-slice.1 = f32[3]{0} dynamic-update-slice(get-tuple-element.5, reshape.2, \
get-tuple-element.2)
  ROOT tuple.1 = (s32[], f32[], f32[3]{0}, f32[3]{0}) tuple(add.1, add.2, get-tuple-element.4, \
dynamic-update-slice.1)
"""
    )


def test_choices_and_calls_are_computations() -> None:
    double = jit(lambda v: v + v)

    def f(i, x):
        return double(lax.switch(i, [lambda x: x * x, lambda x: -x], double(x)))

    text = text_of(f, np.int32(0), X)
    assert "branch_computations={branch__lambda.1, branch__lambda.2}" in text
    assert text.count("to_apply=lambda.1") == 2
    assert len(re.findall(r"^lambda", text, re.MULTILINE)) == 1


@pytest.mark.parametrize(
    ("function", "args", "wanted"),
    [
        (
            lambda x, y: x @ y,
            (X, X.T),
            ["x.1, y.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"],
        ),
        (
            lambda x, y: jnp.dot(x, y, precision="highest"),
            (X, X.T),
            [
                "x.1, y.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
                "operand_precision={highest,highest}"
            ],
        ),
        (
            grad(lambda x, y: jnp.dot(x, y, precision=("high", "default")).sum()),
            (X, X.T),
            ["broadcast.1, y.1), lhs_contracting_dims={1}, rhs_contracting_dims={1}"],
        ),
        (
            vmap(lambda x, y: x @ y),
            (np.zeros((5, 2, 3), "f"), np.zeros((5, 3, 4), "f")),
            [
                "x.1, y.1), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, "
                "rhs_contracting_dims={1}"
            ],
        ),
        (lambda x, y: (x * y).sum(), (X, X), []),
        (
            lambda x: jnp.vdot(x, x, precision="high"),
            (X,),
            [
                "reshape.1, reshape.1), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
                "operand_precision={high,high}"
            ],
        ),
    ],
)
def test_products(function, args, wanted) -> None:
    assert instructions(function, *args, opcode="dot") == wanted


def test_the_option_for_precision() -> None:
    with functrax.default_matmul_precision("float32"):
        (found,) = instructions(lambda x: x @ x.T, X, opcode="dot")
    assert found.endswith("operand_precision={highest,highest}")


IMAGE, KERNEL = np.zeros((2, 7, 6, 4), "f"), np.zeros((3, 2, 4, 6), "f")
LAYOUT = ("NHWC", "HWIO", "NHWC")


def convolution(**how: Any) -> Callable[..., Any]:
    how = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": LAYOUT, **how}
    return lambda x, k: lax.conv_general_dilated(x, k, **how)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (
            convolution(window_strides=(2, 1), rhs_dilation=(1, 2)),
            [
                "x.1, k.1), window={size=3x2 stride=2x1 pad=1_1x1_1 rhs_dilate=1x2}, "
                "dim_labels=b01f_01io->b01f"
            ],
        ),
        (
            convolution(lhs_dilation=(1, 2), padding=((2, 1), (0, 3)), precision="high"),
            [
                "x.1, k.1), window={size=3x2 pad=2_1x0_3 lhs_dilate=1x2}, "
                "dim_labels=b01f_01io->b01f, operand_precision={high,high}"
            ],
        ),
        (
            grad(lambda *a: convolution(window_strides=(2, 1))(*a).sum(), (0, 1)),
            [
                "broadcast.1, args_1.1), window={size=3x2 pad=1_1x1_0 lhs_dilate=2x1 "
                "rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f",
                "args_0.1, broadcast.1), window={size=4x6 pad=1_1x0_1 rhs_dilate=2x1}, "
                "dim_labels=f01b_i01o->fb01",
            ],
        ),
        (
            lambda x, k: vmap(convolution(), (None, 0))(x, jnp.stack([k, k])),
            [
                "x.1, reshape.2), window={size=3x2 pad=1_1x0_1}, dim_labels=b01f_io01->bf01",
            ],
        ),
        (
            lambda x, k: convolution(feature_group_count=2)(x, k[:, :, :2]),
            [
                "x.1, reshape.2), window={size=3x2 pad=1_1x0_1}, dim_labels=b01f_io01->bf01, "
                "feature_group_count=2"
            ],
        ),
    ],
)
def test_convolutions(function, wanted) -> None:
    assert instructions(function, IMAGE, KERNEL, opcode="convolution") == wanted


def test_pooling() -> None:
    def pool(x):
        return lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")

    (found,) = instructions(pool, IMAGE, opcode="reduce-window")
    assert "window={size=1x2x2x1 stride=1x2x2x1 pad=0_0x0_1x0_0x0_0}" in found


def test_one_result_is_the_root_and_several_are_a_tuple() -> None:
    assert "->f32[2,3]{1,0}}" in text_of(lambda x: [x + 1], X)
    assert "->(f32[2,3]{1,0}, pred[2,3]{1,0})}" in text_of(lambda x: {"a": x, "b": x > 0}, X)
    assert "->()}" in text_of(lambda x: None, X)
    many = text_of(lambda x: [x] * 7, X[0, 0])
    assert "(f32[], f32[], f32[], f32[], f32[], /*index=5*/f32[], f32[])" in many


def test_what_the_root_does_not_need_is_left_out() -> None:
    def f(x):
        return lax.scan(lambda c, v: (c + v, jnp.sin(v)), x[0], x)[0]

    text = text_of(f, X)
    assert text.count("get-tuple-element(while.1)") == 1


def test_arrays_that_a_function_closes_over_are_literals() -> None:
    table = np.arange(6, dtype=np.int8).reshape(2, 3)
    text = text_of(lambda x: x + jnp.asarray(table), X)
    assert "s8[2,3]{1,0} constant({ { 0, 1, 2 }, { 3, 4, 5 } })" in text
    assert text.count("parameter(") == 1


def test_equal_programs_have_equal_texts() -> None:
    def make() -> str:
        return text_of(grad(lambda x: jnp.sort(jnp.tanh(x @ x.T) ** 3, axis=0).sum()), X)

    assert make() == make()


def test_names_are_those_of_arguments() -> None:
    text = text_of(lambda params, *rest: params["w"] + rest[0], {"w": X}, X)
    assert "  params_w.1 = f32[2,3]{1,0} parameter(0)" in text
    assert "  args_1.1 = f32[2,3]{1,0} parameter(1)" in text


def test_the_program_as_an_object() -> None:
    lowered = jit(jnp.sin).lower(X)
    program = lowered.compiler_ir(dialect="hlo")
    assert program.as_hlo_text() == str(program) == lowered.as_text(dialect="hlo")
    assert repr(program) == "<HloProgram jit_sin: 2 instructions>"
    assert lowered.compiler_ir() is lowered.compiler_ir("jaxpr") is lowered.jaxpr


def test_other_dialects_are_refused() -> None:
    lowered = jit(jnp.sin).lower(X)
    for call in (lowered.as_text, lowered.compiler_ir):
        with pytest.raises(ArgumentError, match="'jaxpr' or 'hlo'"):
            call("stablehlo")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (jnp.linalg.eigvalsh, "eigh cannot be written: XLA has no instruction"),
        (lambda x: functrax.pure_callback(np.sin, x, x), "pure_callback cannot be written"),
        (lambda x: jnp.fft.fftn(x[None, None]), "at most 3 axes"),
        (lambda x: x.astype("float6_e2m3fn").T, "no arrays of float6_e2m3fn"),
    ],
)
def test_what_xla_lacks_is_refused_with_the_line(function, words) -> None:
    lowered = jit(function).lower(np.eye(3, dtype=np.float32))
    with pytest.raises(UnavailableError, match=words) as caught:
        lowered.as_text("hlo")
    assert "test_text.py" in str(caught.value.where)
    assert caught.value.fix
