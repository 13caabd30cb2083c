"""Names of targets, and what is refused when they are registered and called."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

import functrax
from functrax import errors
from functrax.ffi import ffi_call, pycapsule, register_ffi_target

SOURCE = """
#include <functrax/ffi.h>

static functrax_ffi_error* filled(functrax_ffi_frame* frame, float value) {
  if (functrax_ffi_wants_metadata(frame)) return functrax_ffi_metadata(frame);
  functrax_ffi_error* error = functrax_ffi_expect(frame, 1, 1);
  float* out = NULL;
  if (!error) error = functrax_ffi_result(frame, 0, FUNCTRAX_FFI_F32, (void**)&out);
  if (error) return error;
  int64_t n = functrax_ffi_elements(functrax_ffi_result_buffer(frame, 0));
  for (int64_t i = 0; i < n; ++i) out[i] = value;
  return NULL;
}
functrax_ffi_error* ones(functrax_ffi_frame* frame) { return filled(frame, 1); }
functrax_ffi_error* twos(functrax_ffi_frame* frame) { return filled(frame, 2); }

functrax_ffi_error* attribute(functrax_ffi_frame* frame) {
  if (functrax_ffi_wants_metadata(frame)) return functrax_ffi_metadata(frame);
  double a = 0;
  functrax_ffi_error* error = functrax_ffi_number(frame, "a", FUNCTRAX_FFI_F64, &a, sizeof a);
  if (error) return error;
  *(float*)functrax_ffi_result_buffer(frame, 0)->data = (float)a;
  return NULL;
}

functrax_ffi_error* silent(functrax_ffi_frame* frame) { (void)frame; return NULL; }
"""
F32 = functrax.ShapeDtypeStruct((3,), np.float32)
X = np.zeros(3, np.float32)


@pytest.fixture(scope="module")
def library(build: Any) -> ctypes.CDLL:
    found: ctypes.CDLL = build(SOURCE, flags=("-Wall", "-Wextra", "-Werror"))
    return found


def test_handlers_in_c(library):
    register_ffi_target("c_ones", pycapsule(library.ones))
    register_ffi_target("c_attribute", pycapsule(library.attribute))
    np.testing.assert_array_equal(functrax.jit(ffi_call("c_ones", F32))(X), 1)
    scalar = ffi_call("c_attribute", functrax.ShapeDtypeStruct((), np.float32))
    assert functrax.jit(lambda: scalar(a=2.5))() == 2.5
    with pytest.raises(errors.ForeignCallError, match="no attribute a"):
        functrax.jit(lambda: scalar(b=2.5))()
    with pytest.raises(errors.ForeignCallError, match="attribute a is of type 11, not 12"):
        functrax.jit(lambda: scalar(a=np.float32(1)))()
    with pytest.raises(
        errors.ForeignCallError, match="wrong number of arrays: 2 and 1, not 1 and 1"
    ):
        functrax.jit(ffi_call("c_ones", F32))(X, X)
    integers = ffi_call("c_ones", functrax.ShapeDtypeStruct((3,), np.int32))
    with pytest.raises(errors.ForeignCallError, match="result 0 has elements of type 4, not 11"):
        functrax.jit(integers)(X)


def test_a_name_stands_for_one_function(library):
    register_ffi_target("c_name", pycapsule(library.ones))
    register_ffi_target("c_name", pycapsule(library.ones))  # the same again
    f = functrax.jit(ffi_call("c_name", F32))
    np.testing.assert_array_equal(f(X), 1)
    with pytest.raises(errors.ArgumentError, match="another function has this name"):
        register_ffi_target("c_name", pycapsule(library.twos))
    register_ffi_target("c_name", pycapsule(library.twos), replace=True)
    np.testing.assert_array_equal(f(X), 2)  # programs from before, too
    np.testing.assert_array_equal(ffi_call("c_name", F32)(X), 2)


def test_what_is_not_registered():
    with pytest.raises(errors.UnavailableError, match="'nobody' is not registered") as caught:
        functrax.make_jaxpr(ffi_call("nobody", F32))(X)
    assert "test_registration.py" in str(caught.value.where)


def test_other_platforms(library):
    register_ffi_target("c_for_gpus", pycapsule(library.ones), platform="CUDA")
    f = ffi_call("c_for_gpus", F32)
    functrax.make_jaxpr(f)(X)  # a program for other platforms
    for transform in (functrax.jit, lambda f: f):
        with pytest.raises(errors.UnavailableError, match="not registered for the platform 'cpu'"):
            np.asarray(transform(f)(X))


def test_wrong_registrations(library):
    with pytest.raises(errors.ArgumentError, match="not the address"):
        register_ffi_target("c_wrong", "ones")
    with pytest.raises(errors.ArgumentError, match="api_version"):
        register_ffi_target("c_wrong", pycapsule(library.ones), api_version=2)
    with pytest.raises(errors.ArgumentError, match="has 'execute'"):
        register_ffi_target("c_wrong", {"prepare": pycapsule(library.ones)})
    with pytest.raises(errors.ArgumentError, match="the name is empty"):
        register_ffi_target("", pycapsule(library.ones))
    with pytest.raises(errors.ArgumentError, match="unknown keyword 'trait'"):
        register_ffi_target("c_wrong", pycapsule(library.ones), trait=1)
    with pytest.raises(errors.UnavailableError, match="another version"):
        register_ffi_target("c_wrong", pycapsule(library.silent))
    with pytest.raises(errors.UnavailableError):
        functrax.ffi.register_ffi_type_id("c_type", None)
    with pytest.raises(errors.ArgumentError, match="has 'type_id'"):
        functrax.ffi.register_ffi_type("c_type", {})
    with pytest.raises(errors.UnavailableError):
        functrax.ffi.ffi_lowering("c_wrong")
    with pytest.raises(errors.UnavailableError):
        functrax.ffi.register_ffi_target_as_batch_partitionable("c_wrong")


def test_wrong_calls(library):
    register_ffi_target("c_ones", pycapsule(library.ones))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"vmap_method": "loop"}, "vmap_method"),
        ({"custom_call_api_version": 3}, "version 4"),
        ({"legacy_backend_config": "x"}, "version 4"),
        ({"input_layouts": [(0,), (0,)]}, "number of input arrays"),
        ({"input_output_aliases": {1: 0}}, "input index 1"),
        ({"input_output_aliases": {0: 1}}, "output index 1"),
    ]
    for keywords, message in wrong:
        with pytest.raises(errors.ArgumentError, match=message):
            ffi_call("c_ones", F32, **keywords)(X)
    with pytest.raises(errors.ArgumentError, match="different abstract value"):
        ffi_call("c_ones", F32, input_output_aliases={0: 0})(np.zeros(3, np.int32))
    square = functrax.ShapeDtypeStruct((2, 2), np.float32)
    with pytest.raises(errors.ArgumentError, match="arrays are row-major"):
        ffi_call("c_ones", square, output_layouts=(1, 0))(X)
    ffi_call("c_ones", square, output_layouts=(0, 1), input_layouts=[None])(X)
    with pytest.raises(errors.ArgumentError, match="'shape' and 'dtype'"):
        ffi_call("c_ones", (3,))
    with pytest.raises(errors.ArgumentError, match="64-bit types"):
        ffi_call("c_ones", functrax.ShapeDtypeStruct((3,), np.float64))
    with pytest.raises(errors.DTypeError, match="whole bytes"):
        ffi_call("c_ones", F32)(functrax.numpy.zeros(3, "int4"))
    for value in (functrax.numpy.ones(3), [1, 2.0], object(), 1 << 70):
        with pytest.raises(errors.ArgumentError, match="an attribute is a number"):
            ffi_call("c_ones", F32)(X, a=value)


def test_disk_does_not_keep_programs_that_call(library, tmp_path):
    """Another process may have another function under the name."""
    script = textwrap.dedent(
        f"""
        import ctypes, sys, functrax, numpy as np
        library = ctypes.CDLL({library._name!r})
        symbol = getattr(library, sys.argv[1])
        functrax.ffi.register_ffi_target("kept", functrax.ffi.pycapsule(symbol))
        f = functrax.ffi.ffi_call("kept", functrax.ShapeDtypeStruct((3,), np.float32))
        print(functrax.jit(lambda x: f(x) + x)(np.zeros(3, np.float32)))
        """
    )
    environment = {**os.environ, "FUNCTRAX_CACHE": "1", "FUNCTRAX_CACHE_DIR": str(tmp_path)}
    said = [
        subprocess.run(
            [sys.executable, "-c", script, symbol],
            env=environment, capture_output=True, text=True, check=True,
        ).stdout.strip()
        for symbol in ("ones", "twos", "ones")
    ]  # fmt: skip
    assert said == ["[1. 1. 1.]", "[2. 2. 2.]", "[1. 1. 1.]"]


@pytest.mark.parametrize("native", ["0", "1"])
def test_without_the_extension_and_with_the_python_executor(library, native):
    script = textwrap.dedent(
        f"""
        import ctypes, functrax, numpy as np
        from functrax.backends.runtime import choice, executor
        library = ctypes.CDLL({library._name!r})
        for name in ("ones", "attribute"):
            functrax.ffi.register_ffi_target(name, functrax.ffi.pycapsule(getattr(library, name)))
        type_ = functrax.ShapeDtypeStruct((3,), np.float32)
        f = functrax.jit(lambda x: functrax.ffi.ffi_call("ones", type_)(x) + 1)
        print(f(np.zeros(3, np.float32)))
        scalar = functrax.ffi.ffi_call("attribute", functrax.ShapeDtypeStruct((), np.float32))
        jaxpr = functrax.make_jaxpr(lambda: scalar(b=1.0))().jaxpr
        from functrax.backends.device import current_device
        try:
            executor.Executable(current_device().compiled(jaxpr).program)([])
        except functrax.errors.ForeignCallError as error:
            print(error.what)
        """
    )
    environment = {**os.environ, "FUNCTRAX_NATIVE": native, "FUNCTRAX_CACHE": "0"}
    environment.pop("FUNCTRAX_BACKEND", None)
    said = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    first, second = said.stdout.splitlines()
    assert first == "[2. 2. 2.]"
    assert "INVALID_ARGUMENT: no attribute a" in second
