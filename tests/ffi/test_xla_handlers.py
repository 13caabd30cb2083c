"""Shared objects that were built against jaxlib's headers load and run."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from functrax.core import native
from functrax.core.foreign import targets
from functrax.core.foreign.attributes import normal
from functrax.core.foreign.calls import call
from functrax.core.foreign.descriptions import description
from functrax.core.foreign.frames import PythonCall, metadata
from functrax.core.types.aval import ShapedArray
from functrax.ffi import ffi_call

pytestmark = pytest.mark.usefixtures("xla")
F32 = functrax.ShapeDtypeStruct((5,), np.float32)
X = np.array([1.0, -2.0, 3.0, -4.0, 5.0], np.float32)


def scaled(x, factor=3.0):
    return ffi_call(
        "xla_scaled", functrax.ShapeDtypeStruct(x.shape, x.dtype), vmap_method="broadcast_all"
    )(x, factor=np.float32(factor))


def both_ways(f, *args):
    """A function's results outside of jit and inside, which must be the same."""
    eager, compiled = f(*args), functrax.jit(f)(*args)
    for a, b in zip(functrax.tree.leaves(eager), functrax.tree.leaves(compiled), strict=True):
        np.testing.assert_array_equal(a, b)
    return compiled


def test_values_and_attributes():
    np.testing.assert_array_equal(both_ways(scaled, X), 3 * X)


def test_fuses_around():
    f = functrax.jit(lambda x: jnp.sin(scaled(x + 1, 2.0)) * 2 + 1)
    np.testing.assert_allclose(f(X), np.sin(2 * (X + 1)) * 2 + 1, rtol=1e-5)
    kernels = functrax.explain(lambda x: jnp.sin(scaled(x + 1, 2.0)) * 2 + 1)(X).kernels
    assert len(kernels) == 3, "what is before, the call, and what is behind"


def test_several_results():
    with functrax.enable_x64():
        types = (
            functrax.ShapeDtypeStruct((5,), np.int32),
            functrax.ShapeDtypeStruct((5,), np.float64),
        )
        signs, sizes = both_ways(ffi_call("xla_split", types), X.astype(np.float64))
        np.testing.assert_array_equal(signs, np.where(X < 0, -1, 1))
        np.testing.assert_array_equal(sizes, np.abs(X))
        assert isinstance(ffi_call("xla_split", list(types))(X.astype(np.float64)), list)


def test_all_kinds_of_attributes():
    with functrax.enable_x64():
        f = ffi_call("xla_attributes", functrax.ShapeDtypeStruct((1,), np.float64))
        given = {
            "flag": True, "i32": np.int32(10), "i64": 100, "f32": np.float32(0.5), "f64": 0.25,
            "text": "grüße", "list": np.array([1000, 2000]), "nested": {"inner": 0.125},
        }  # fmt: skip
        assert both_ways(lambda: f(**given))[0] == 1 + 110 + 0.75 + 7 + 3000 + 0.125
        given["list"] = [5, 6]
        assert both_ways(lambda: f(**given))[0] == 1 + 110 + 0.75 + 7 + 11 + 0.125


@pytest.mark.parametrize("jit", [functrax.jit, lambda f: f], ids=["jit", "eager"])
def test_handlers_error_names_target_message_and_line(jit):
    f = ffi_call("xla_fails", F32)
    with pytest.raises(
        errors.ForeignCallError, match=r"xla_fails.*OUT_OF_RANGE: no ☂ today"
    ) as caught:
        jit(lambda x: f(x, message="no ☂ today") + 1)(X)
    assert "test_xla_handlers.py" in str(caught.value.where)
    assert isinstance(caught.value, RuntimeError)
    np.testing.assert_array_equal(jit(scaled)(X), 3 * X)  # the thread goes on


def test_decoding_errors_are_errors():
    wrong_type = ffi_call("xla_scaled", functrax.ShapeDtypeStruct((5,), np.int32))
    with pytest.raises(errors.ForeignCallError, match=r"(?s)INVALID_ARGUMENT.*expected F32"):
        functrax.jit(lambda x: wrong_type(x, factor=np.float32(1)))(X)
    no_attribute = ffi_call("xla_scaled", F32)
    with pytest.raises(errors.ForeignCallError, match="number of attributes"):
        functrax.jit(no_attribute)(X)
    with pytest.raises(errors.ForeignCallError, match="number of arguments"):
        functrax.jit(lambda x: no_attribute(x, x, factor=np.float32(1)))(X)


@pytest.mark.skipif(native.extension is None, reason="ctypes knows no exceptions of C++")
@pytest.mark.parametrize(
    ("target", "message"),
    [("xla_throws", "thrown in C.."), ("xla_throws_number", "no std::exception")],
)
def test_exceptions_of_c_plus_plus_are_errors(target, message):
    f = functrax.jit(ffi_call(target, F32))
    for _ in range(2):
        with pytest.raises(errors.ForeignCallError, match=message):
            f(X)


def test_errors_end_loops_and_branches():
    f = ffi_call("xla_fails", F32)

    def loop(x):
        def body(c):
            i, x = c
            y = functrax.lax.cond(i == 3, lambda x: f(x, message="in a loop"), lambda x: x + 1, x)
            return i + 1, y

        return functrax.lax.while_loop(lambda c: c[0] < 10, body, (0, x))[1]

    with pytest.raises(errors.ForeignCallError, match="in a loop") as caught:
        functrax.jit(loop)(X)
    assert "test_xla_handlers.py" in str(caught.value.where)


def test_runs_in_loops():
    def f(x):
        return functrax.lax.scan(lambda c, _: (scaled(c, 2.0) + 1, c.sum()), x, None, length=4)

    last, sums = both_ways(f, X)
    want = X
    for k in range(4):
        np.testing.assert_allclose(sums[k], want.sum())
        want = 2 * want + 1
    np.testing.assert_allclose(last, want)


def test_eight_threads():
    f = functrax.jit(lambda x: functrax.lax.fori_loop(0, 50, lambda _, c: scaled(c, 1.0) + 1, x))
    f(X)
    found = [None] * 8

    def run(k):
        for _ in range(20):
            found[k] = np.asarray(f(X + k))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(8):
        np.testing.assert_allclose(found[k], X + k + 50)


def test_states_are_of_one_call_and_freed(xla):
    def f():
        count = ffi_call("xla_count", functrax.ShapeDtypeStruct((), np.int32), has_side_effect=True)
        return count(), count()

    g = functrax.jit(f)
    if functrax.config.backend == "interp":  # equal calls are one there
        assert sorted(map(int, (*g(), *g()))) == [1, 2, 3, 4]
        return
    assert [tuple(map(int, g())) for _ in range(3)] == [(1, 1), (2, 2), (3, 3)]
    before = xla.counters_freed()
    made = call(targets.find("xla_count", "cpu"), (), [ShapedArray((), np.int32)], (), (), None)
    out = np.zeros((), np.int32)
    made.run([out.ctypes.data])
    assert out == 1
    del made
    gc.collect()
    assert xla.counters_freed() == before + 1


def test_results_that_come_later():
    later = functrax.jit(ffi_call("xla_later", F32))
    np.testing.assert_array_equal(later(X), X + 1)
    with pytest.raises(errors.ForeignCallError, match="too late"):
        later(-X)


def test_what_the_runtime_offers():
    services = ffi_call("xla_services", functrax.ShapeDtypeStruct((5,), np.int32))
    np.testing.assert_array_equal(both_ways(lambda: services()), [1, 1, 1, 1, 0])


@pytest.mark.parametrize(
    ("target", "message"), [("xla_unavailable", "no stream"), ("xla_newer", "newer than")]
)
def test_what_the_runtime_lacks_is_an_error(target, message):
    f = ffi_call(target, functrax.ShapeDtypeStruct((5,), np.int32))
    with pytest.raises(errors.ForeignCallError, match=message):
        functrax.jit(lambda: f())()


def test_handlers_of_later_versions_are_refused(xla):
    with pytest.raises(errors.UnavailableError, match="another version") as caught:
        functrax.ffi.register_ffi_target("future", functrax.ffi.pycapsule(xla.of_the_future))
    assert "0.99" in str(caught.value)


@pytest.mark.parametrize(
    "method",
    ["sequential", "sequential_unrolled", "broadcast_all", "expand_dims", "legacy_vectorized"],
)
def test_vmap(method):
    f = ffi_call("xla_scaled", functrax.ShapeDtypeStruct((5,), np.float32), vmap_method=method)
    xs = np.arange(15, dtype=np.float32).reshape(3, 5)

    def g(x):
        return f(x, factor=np.float32(2))

    np.testing.assert_array_equal(both_ways(functrax.vmap(g), xs), 2 * xs)
    np.testing.assert_array_equal(both_ways(functrax.vmap(g, 1), xs.T.copy()), 2 * xs)
    nested = xs.reshape(1, 3, 5)
    np.testing.assert_array_equal(both_ways(functrax.vmap(functrax.vmap(g)), nested), 2 * nested)


def test_vmap_without_a_method_is_refused():
    f = ffi_call("xla_scaled", F32)
    with pytest.raises(NotImplementedError, match="vmap_method"):
        functrax.vmap(lambda x: f(x, factor=np.float32(1)))(np.stack([X, X]))


def test_side_effects_stay(xla):
    types = functrax.ShapeDtypeStruct((), np.int32)

    def f(has_side_effect):
        count = ffi_call("xla_count", types, has_side_effect=has_side_effect)
        return functrax.make_jaxpr(lambda x: (count(), x)[1])(1.0)

    assert "ffi_call" in str(f(True))
    jaxpr = functrax.jit(lambda x: (ffi_call("xla_count", types)(), x)[1])
    assert not functrax.explain(jaxpr)(1.0).kernels


def test_derivatives():
    with pytest.raises(errors.DifferentiationError, match=r"xla_scaled.*cannot be differentiated"):
        functrax.grad(lambda x: scaled(x).sum())(X)

    @functrax.custom_jvp
    def cube(x):
        return scaled(x * x * x, 2.0)

    cube.defjvp(lambda xs, ts: (cube(*xs), scaled(xs[0] * xs[0], 6.0) * ts[0]))
    slope = functrax.grad(lambda x: cube(x).sum())
    np.testing.assert_allclose(both_ways(slope, X), 6 * X * X)

    @functrax.custom_vjp
    def square(x):
        return scaled(x * x, 1.0)

    square.defvjp(lambda x: (square(x), x), lambda x, ct: (scaled(x, 2.0) * ct,))
    np.testing.assert_allclose(both_ways(functrax.grad(lambda x: square(x).sum()), X), 2 * X)


def test_structures_have_the_layout_of_the_interface(build, include):
    """Sizes, and where members are, by both headers."""
    pairs = {
        "frame": "CallFrame", "buffer": "Buffer", "values": "Args", "attributes": "Attrs",
        "string": "ByteSpan", "scalar": "Scalar", "array": "Array", "api": "Api",
        "version": "Api_Version", "about": "Metadata", "about_extension": "Metadata_Extension",
        "type_info": "TypeInfo", "type_id": "TypeId", "extension": "Extension_Base",
        "new_error": "Error_Create_Args", "error_message": "Error_GetMessage_Args",
        "old_error": "Error_Destroy_Args", "new_type": "Type_Register_Args",
        "context_data": "ExecutionContext_Get_Args", "state": "State_Set_Args",
        "stream": "Stream_Get_Args", "new_memory": "DeviceMemory_Allocate_Args",
        "old_memory": "DeviceMemory_Free_Args", "task": "ThreadPool_Schedule_Args",
        "threads": "ThreadPool_NumThreads_Args", "future_args": "Future_SetError_Args",
        "run": "RunId_Get_Args", "device": "DeviceOrdinal_Get_Args",
    }  # fmt: skip
    members = {
        ("frame", "context"): "ctx", ("frame", "stage"): "stage", ("frame", "arguments"): "args",
        ("frame", "results"): "rets", ("frame", "attributes"): "attrs",
        ("frame", "future"): "future",
        ("buffer", "data"): "data", ("buffer", "rank"): "rank", ("buffer", "dims"): "dims",
        ("attributes", "names"): "names", ("attributes", "values"): "attrs",
        ("state", "id"): "type_id", ("state", "state"): "state", ("new_memory", "data"): "data",
        ("about", "version"): "api_version", ("about", "traits"): "traits",
        ("about", "state"): "state_type_id", ("device", "ordinal"): "device_ordinal",
        ("new_type", "id"): "type_id", ("new_type", "info"): "type_info",
    }  # fmt: skip
    functions = {
        "new_error": "Error_Create", "error_message": "Error_GetMessage",
        "free_error": "Error_Destroy", "register_handler": "Handler_Register",
        "stream": "Stream_Get", "register_type": "Type_Register",
        "context_data": "ExecutionContext_Get", "set_state": "State_Set", "get_state": "State_Get",
        "allocate": "DeviceMemory_Allocate", "deallocate": "DeviceMemory_Free",
        "schedule": "ThreadPool_Schedule", "threads": "ThreadPool_NumThreads",
        "new_future": "Future_Create", "finish_future": "Future_SetAvailable",
        "fail_future": "Future_SetError", "run": "RunId_Get", "device": "DeviceOrdinal_Get",
    }  # fmt: skip
    lines = ["#include <functrax/ffi.h>", '#include "xla/ffi/api/c_api.h"']
    for ours, theirs in pairs.items():
        lines.append(f"static_assert(sizeof(functrax_ffi_{ours}) == sizeof(XLA_FFI_{theirs}));")
    members |= {("api", ours): f"XLA_FFI_{theirs}" for ours, theirs in functions.items()}
    for (structure, ours), theirs in members.items():
        here = f"offsetof(functrax_ffi_{structure}, {ours})"
        lines.append(f"static_assert({here} == offsetof(XLA_FFI_{pairs[structure]}, {theirs}));")
    for ours, theirs in (("BF16", "BF16"), ("C128", "C128"), ("F8E8M0FNU", "F8E8M0FNU")):
        lines.append(f"static_assert(FUNCTRAX_FFI_{ours} == (int)XLA_FFI_DataType_{theirs});")
    build("\n".join(lines), ".cc", include, ("-w", f"-I{functrax.ffi.include_dir()}"))


def test_text_of_programs_reads_back():
    jaxpr = functrax.make_jaxpr(lambda x: scaled(x, 2.5) + 1)(X)
    text = str(jaxpr)
    assert "xla_scaled" in text
    again = functrax.parse(text)
    assert str(again) == text


def test_python_twin_runs_them():
    def run(name, operands, results, **attributes):
        target = targets.find(name, "cpu")
        of = [[ShapedArray(x.shape, x.dtype) for x in xs] for xs in (operands, results)]
        found = description(target, *of, (), normal("test", attributes), None)
        PythonCall(found).run([x.ctypes.data for x in (*operands, *results)])
        return results

    (y,) = run("xla_scaled", [X], [np.zeros_like(X)], factor=np.float32(2))
    np.testing.assert_array_equal(y, 2 * X)
    (out,) = run(
        "xla_attributes", [], [np.zeros(1)], flag=True, i32=np.int32(10), i64=100,
        f32=np.float32(0.5), f64=0.25, text="abc", list=[1, 2], nested={"inner": 0.5},
    )  # fmt: skip
    assert out[0] == 111 + 0.75 + 3 + 3 + 0.5
    with pytest.raises(errors.ForeignCallError, match="OUT_OF_RANGE: twin"):
        run("xla_fails", [X], [np.zeros_like(X)], message="twin")
    (found,) = run("xla_services", [], [np.zeros(5, np.int32)])
    np.testing.assert_array_equal(found, [1, 1, 1, 1, 0])
    (y,) = run("xla_later", [X], [np.zeros_like(X)])
    np.testing.assert_array_equal(y, X + 1)
    with pytest.raises(errors.ForeignCallError, match="too late"):
        run("xla_later", [-X], [np.zeros_like(X)])
    for target, message in (("xla_unavailable", "no stream"), ("xla_newer", "newer than")):
        with pytest.raises(errors.ForeignCallError, match=message):
            run(target, [], [np.zeros(5, np.int32)])
    stages = targets.find("xla_scaled", "cpu").stages
    assert metadata(stages[3])[1:3] == (0, 3)
