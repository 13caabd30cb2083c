"""Programs of one process: ``distributed``, ``multihost_utils``, guards, and what machines say."""

import logging

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import P, debug, distributed
from functrax.experimental import layout, mesh_utils, multihost_utils
from functrax.sharding import Mesh, NamedSharding, SingleDeviceSharding

DEVICE = functrax.devices()[0]
MESH = functrax.make_mesh((1,), ("x",))
S = NamedSharding(MESH, P("x"))


@pytest.fixture
def one_process():
    distributed.initialize("localhost:1234", 1, 0, [0])
    yield
    distributed.shutdown()


def test_distributed_is_one_process(one_process):
    assert distributed.is_initialized()
    with pytest.raises(RuntimeError, match="before"):
        distributed.initialize()
    distributed.shutdown()
    assert not distributed.is_initialized()
    distributed.shutdown()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"num_processes": 2}, RuntimeError),
        ({"process_id": 1}, RuntimeError),
        ({"local_device_ids": [0, 1]}, RuntimeError),
        ({"cluster_detection_method": "slurm"}, RuntimeError),
        ({"initialization_timeout": -1}, ValueError),
        ({"coordinator_address": 3}, TypeError),
    ],
)
def test_distributed_refuses_several_processes(arguments, error):
    with pytest.raises(error, match=r"distributed\.initialize"):
        distributed.initialize(**arguments)
    assert not distributed.is_initialized()


def test_hosts():
    assert functrax.process_indices() == [0]
    for name, want in (("host_count", 1), ("host_id", 0), ("host_ids", [0])):
        with pytest.warns(UserWarning, match="process_"):
            assert getattr(functrax, name)() == want
    with pytest.raises(RuntimeError, match="Unknown backend"):
        functrax.process_indices("tpu")


def test_environment_info(capsys):
    text = functrax.print_environment_info(return_string=True)
    assert f"functrax: {functrax.__version__}" in text and "numpy:" in text
    assert functrax.print_environment_info() is None
    assert capsys.readouterr().out == text + "\n"


def test_copy_to_host_async():
    tree = [jnp.ones(2), 3, "name"]
    copied = functrax.copy_to_host_async(tree)
    assert copied[0] is tree[0] and copied[1:] == tree[1:]


def test_no_tracing():
    f = functrax.jit(lambda x: x + 7)
    f(jnp.ones(2))
    with functrax.no_tracing():
        assert f(jnp.ones(2)).tolist() == [8, 8]
        with pytest.raises(RuntimeError, match="no_tracing"):
            f(jnp.ones(3))
        with functrax.no_tracing(False):
            assert f(jnp.ones(3)).size == 3


@pytest.mark.parametrize("mode", ["lazy", "immediate"])
def test_no_execution(mode):
    with functrax.eager(mode):
        x, f = jnp.ones(2), functrax.jit(lambda x: x + 7)
        assert f(x).tolist() == [8, 8]
        with functrax.no_execution():
            for call in (lambda: f(x), lambda: x + 1, lambda: functrax.grad(lambda x: x**2)(2.0)):
                with pytest.raises(RuntimeError, match="no_execution"):
                    call()
            assert functrax.make_jaxpr(f)(1.0).out_avals and functrax.eval_shape(f, x).shape == (2,)
        assert f(x).tolist() == [8, 8] and (x + 1).tolist() == [2, 2]


@pytest.mark.parametrize("suffix", ["", "_host_to_device", "_device_to_device", "_device_to_host"])
def test_transfer_guards(suffix):
    name = f"transfer_guard{suffix}"
    guard = getattr(functrax, name)
    assert functrax.config.read(f"jax_{name}") is None
    for value in ("allow", "log", "disallow", "log_explicit", "disallow_explicit"):
        with guard(value):
            assert functrax.config.read(name) == value
            assert float(jnp.ones(3)[0] + np.ones(())) == 2
    with pytest.raises(ValueError, match="does not take"):
        guard("x")


def test_mesh_utils():
    assert mesh_utils.create_device_mesh((1, 1)).tolist() == [[DEVICE]]
    assert Mesh(mesh_utils.create_device_mesh((1,), [DEVICE]), ("x",)).size == 1
    grid = mesh_utils.create_hybrid_device_mesh((1, 1), (1, 1), process_is_granule=True)
    assert grid.tolist() == [[DEVICE]] and mesh_utils.device_kind_handler_dict == {}
    with pytest.raises(ValueError, match="one place for each device"):
        mesh_utils.create_device_mesh((2,))
    with pytest.raises(ValueError, match="slices"):
        mesh_utils.create_hybrid_device_mesh((1,), (1,))
    with pytest.raises(ValueError, match="does not fit"):
        mesh_utils.create_hybrid_device_mesh((1,), (2,), process_is_granule=True)
    with pytest.raises(ValueError, match="sequence of ints"):
        mesh_utils.create_device_mesh(("a",))


def test_multihost_utils(one_process):
    one = np.ones(2, np.float32)
    assert multihost_utils.process_allgather(jnp.ones(2)).tolist() == [[1, 1]]
    assert multihost_utils.process_allgather(one, tiled=True).shape == (2,)
    assert multihost_utils.process_allgather(jnp.ones(()), tiled=True).shape == (1,)
    assert type(multihost_utils.broadcast_one_to_all({"a": jnp.ones(2)})["a"]) is np.ndarray
    multihost_utils.sync_global_devices("here")
    multihost_utils.assert_equal({"a": one}, "different")
    assert multihost_utils.reached_preemption_sync_point(1) is False
    whole = multihost_utils.host_local_array_to_global_array({"a": one}, MESH, P("x"))["a"]
    assert whole.sharding == S and whole.tolist() == [1, 1]
    back = multihost_utils.global_array_to_host_local_array(whole, MESH, P("x"))
    assert back.tolist() == [1, 1]
    with multihost_utils.live_devices(functrax.devices()) as alive:
        assert alive == [DEVICE]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: multihost_utils.broadcast_one_to_all(1.0, is_source=False), "no process"),
        (lambda: multihost_utils.sync_global_devices(3), "no text"),
        (lambda: multihost_utils.assert_equal("text"), "not an array"),
        (
            lambda: multihost_utils.host_local_array_to_global_array(1.0, MESH, P("x")),
            "more entries",
        ),
        (lambda: multihost_utils.host_local_array_to_global_array(1.0, MESH, 3), "PartitionSpec"),
        (lambda: multihost_utils.live_devices([DEVICE]).__enter__(), "not told"),
    ],
)
def test_multihost_utils_refuse_what_does_not_fit(call, words):
    with pytest.raises((ValueError, TypeError, RuntimeError), match=words):
        call()


def test_layouts():
    rows = layout.Layout((0, 1))
    assert rows == rows.update(tiling=None) and rows != layout.Layout((1, 0)) and hash(rows)
    form = layout.Format(rows, S)
    assert form == layout.Format(rows, S) and "sharding=NamedSharding" in repr(form)
    x = jnp.ones((2, 3))
    assert x.format == layout.Format(rows, SingleDeviceSharding(DEVICE))
    assert functrax.device_put(x, form).sharding == S
    assert functrax.jit(lambda x: x + 1, out_shardings=form)(x).sharding == S
    assert layout.with_layout_constraint([x], rows)[0] is x
    assert functrax.jit(lambda x: layout.with_layout_constraint(x, rows) + 1)(x).sum() == 12
    assert functrax.ShapeDtypeStruct((2, 3), "float32", sharding=form).sharding == S


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: layout.Format(layout.Layout((0,))), ValueError, "needs a sharding"),
        (lambda: layout.Format(3), TypeError, "not a layout"),
        (lambda: layout.Format(None, 3), TypeError, "not a sharding"),
        (
            lambda: layout.with_layout_constraint(jnp.ones((2, 3)), layout.Layout((1, 0))),
            RuntimeError,
            "row by row",
        ),
        (
            lambda: layout.with_layout_constraint(jnp.ones(2), layout.Layout((0, 1))),
            ValueError,
            "one entry for each axis",
        ),
        (
            lambda: functrax.device_put(jnp.ones(2), layout.Format(layout.Layout.AUTO)),
            ValueError,
            "the compiler chooses",
        ),
        (
            lambda: functrax.jit(jnp.sin, in_shardings=layout.Format(layout.Layout((0, 1)), S))(
                jnp.ones(2)
            ),
            ValueError,
            "one entry for each axis",
        ),
        (lambda: layout.with_layout_constraint(jnp.ones(2), 3), ValueError, "not a layout"),
        (
            lambda: functrax.device_put(jnp.ones((2, 3)), layout.Format(layout.Layout((1, 0)), S)),
            RuntimeError,
            "row by row",
        ),
    ],
)
def test_wrong_layouts_are_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_debug_shows_shardings(capsys):
    seen = []
    placed = functrax.device_put(jnp.ones((4, 4)), S)
    debug.inspect_array_sharding({"a": placed, "b": 1.0}, callback=seen.append)
    functrax.jit(lambda x: debug.inspect_array_sharding(x, callback=seen.append))(jnp.ones(2))
    assert seen == [S, SingleDeviceSharding(DEVICE), SingleDeviceSharding(DEVICE)]
    debug.visualize_sharding((4,), S)
    debug.visualize_sharding((4,), S, min_width=11)
    box = ["┌───────┐", "│ CPU 0 │", "└───────┘"]
    wide = ["┌─────────┐", "│  CPU 0  │", "└─────────┘"]
    assert capsys.readouterr().out.splitlines() == box + wide
    debug.visualize_array_sharding(placed)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "┌" + "─" * 23 + "┐" and len(lines) == 11
    assert lines[5] == "│" + "CPU 0".center(23) + "│"
    for wrong in ({"shape": (2, 2, 2)}, {"scale": 0}, {"max_width": 1}, {"color_map": print}):
        with pytest.raises(ValueError, match="visualize_sharding"):
            debug.visualize_sharding(**{"shape": (4,), "sharding": S, **wrong})


def test_debug_log(caplog):
    with caplog.at_level(logging.INFO, "functrax.debug"):
        functrax.jit(lambda x: debug.log("x is {x}", x=x))(3)
    assert caplog.messages == ["x is 3"]
    with pytest.raises(ValueError, match=r"debug\.log"):
        debug.log("{}")
    assert [str(debug.DebugEffect()), str(debug.OrderedDebugEffect())] == ["Debug", "OrderedDebug"]


def test_callbacks_take_a_sharding():
    one = SingleDeviceSharding(DEVICE)
    result = functrax.ShapeDtypeStruct((), "float32")
    assert functrax.pure_callback(np.sin, result, 0.0, sharding=one) == 0
    with pytest.raises(ValueError, match="not a sharding"):
        functrax.pure_callback(np.sin, result, 0.0, sharding=3)
    with pytest.raises(ValueError, match="not a sharding"):
        functrax.experimental.io_callback(np.sin, result, 0.0, sharding="cpu")


def test_dlpack_dtypes():
    names = ("bool", "int8", "uint64", "float16", "bfloat16", "float64", "complex64", "complex128")
    assert all(map(functrax.dlpack.is_supported_dtype, names))
    with pytest.raises(TypeError):
        functrax.dlpack.is_supported_dtype("text")
