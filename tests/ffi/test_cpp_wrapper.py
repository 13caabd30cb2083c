"""Handlers in C++ by ``functrax/ffi.hpp``."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import functrax
from functrax import errors
from functrax.ffi import ffi_call, pycapsule, register_ffi_target

SOURCE = """
#include <functrax/ffi.hpp>

FUNCTRAX_FFI_HANDLER(weighted, frame) {
  const auto x = frame.argument<float>(0);
  const auto y = frame.result<float>(0);
  const auto weights = frame.attribute<functrax::ffi::Span<const double>>("weights");
  const auto mode = frame.attribute<std::string_view>("mode");
  const auto shift = frame.attribute<std::int64_t>("shift");
  if (mode != "sum" || x.rank() != 2 || x.dim(1) != weights.size()) {
    throw functrax::ffi::Error("sizes differ", FUNCTRAX_FFI_OUT_OF_RANGE);
  }
  std::int64_t k = 0;
  for (float& out : y) {
    double sum = static_cast<double>(shift);
    for (const double w : weights) sum += w * x[k++];
    out = static_cast<float>(sum);
  }
}

FUNCTRAX_FFI_HANDLER(half, frame) {
  const auto x = frame.argument<std::uint16_t>(0, FUNCTRAX_FFI_BF16);
  const auto y = frame.result<std::uint16_t>(0, FUNCTRAX_FFI_BF16);
  for (std::int64_t k = 0; k < x.size(); ++k) y[k] = static_cast<std::uint16_t>(x[k] ^ 0x8000);
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def library(build: Any) -> ctypes.CDLL:
    flags = ("-Wall", "-Wextra", "-Werror", "-pedantic")
    found: ctypes.CDLL = build(SOURCE, ".cc", flags=flags)
    for name in ("weighted", "half"):
        register_ffi_target(f"cpp_{name}", pycapsule(getattr(found, name)))
    return found


def test_arrays_and_attributes(library):
    f = ffi_call("cpp_weighted", functrax.ShapeDtypeStruct((2,), np.float32))

    def weighted(x, **changes):
        return f(x, **{"weights": [1.0, 2.0, 3.0], "mode": "sum", "shift": 1, **changes})

    np.testing.assert_array_equal(functrax.jit(weighted)(X), X @ [1, 2, 3] + 1)
    wrong = (
        (lambda x: weighted(x, mode="max"), "OUT_OF_RANGE: sizes differ"),
        (lambda x: weighted(x, weights=[1, 2, 3]), "weights is of type 5, not 12"),
        (lambda x: weighted(x, shift="a"), "no attribute shift of kind 3"),
        (lambda x: weighted(x.astype(np.int32)), "argument 0 is of type 4, not 11"),
        (lambda x: f(weights=[1.0], mode="sum", shift=1), "there is no argument 0"),
    )
    for call, message in wrong:
        with pytest.raises(errors.ForeignCallError, match=message):
            functrax.jit(call)(X)


def test_elements_that_cpp_lacks(library):
    x = functrax.numpy.asarray([1.0, -2.0], "bfloat16")
    f = ffi_call("cpp_half", functrax.ShapeDtypeStruct((2,), x.dtype))
    np.testing.assert_array_equal(functrax.jit(f)(x), -x)
