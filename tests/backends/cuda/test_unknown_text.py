"""Text that is no PTX, or not known, is an error with its line."""

from __future__ import annotations

import numpy as np
import pytest

from functrax.backends.cuda.simulator.errors import PtxError
from functrax.backends.cuda.simulator.module import Module
from tests.backends.cuda.simulated import HEADER, each, kernel_text

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("frobnicate.u32 %r1, %r2;", "unknown instruction 'frobnicate'"),
        ("add.u33 %r1, %r2, %r3;", "unknown type .u33"),
        ("add.fancy.u32 %r1, %r2, %r3;", "unknown modifier .fancy"),
        ("add.u32 %r1, %r2;", "2 operands, not 3"),
        ("add.u32 %r1, %r2, %nothing;", "unknown register %nothing"),
        ("add.u32 %r1, %rd2, %r3;", "%rd2 of 64 bits as .u32"),
        ("add.f32 %f1, %f2, 3;", "an integer as .f32"),
        ("setp.lt.u32 %r1, %r2, %r3;", "%r1 of type .b32 as .pred"),
        ("bra NOWHERE;", "unknown label 'NOWHERE'"),
        ("ld.global.u32 %r1, [nothing];", "unknown name 'nothing'"),
        ("call missing, ();", "which the text does not define"),
        ("add.u32 %r1 %r2;", "expected ',' or ';'"),
        ("ld.global.v2.u32 %r1, [%rd1];", "1 registers for 2 elements"),
        ("mov.u32 %r1, #;", "unknown character '#'"),
    ],
)
def test_text_that_is_not_known(body, message):
    text = kernel_text(body)
    with pytest.raises(PtxError) as caught:
        Module(text)
    assert message in str(caught.value)
    assert body.split()[0].rstrip(";") in text.splitlines()[caught.value.line - 1]


def test_addresses_of_32_bits_are_not_supported():
    with pytest.raises(PtxError, match="32 bits"):
        Module(HEADER.replace("64", "32"))


def test_undefined_registers_of_llvm():
    x = np.arange(4, dtype="u4")
    body = "// implicit-def: %r30\n mov.b32 {%h1, %h2}, %r30; mov.b32 <d>, <a>;"
    np.testing.assert_array_equal(each(body, x, out="u4"), x)
