"""Names of ``functrax`` itself: devices, scopes, what arrays say of their place, old names."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import io
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors
from functrax.core.types.aval import ShapedArray


def test_devices():
    (device,) = functrax.devices("cpu")
    assert isinstance(device, functrax.Device)
    assert (device.platform, device.id, device.process_index) == ("cpu", 0, 0)
    assert device.device_kind == "cpu"
    assert [d.platform for d in functrax.devices()] == [functrax.default_backend()]
    with pytest.raises(ValueError, match="Unknown backend"):
        functrax.devices("tpu")


def test_device_put_and_get():
    host = {"a": np.arange(3), "b": [1.5, jnp.ones(2)]}
    there = functrax.device_put(host, functrax.devices()[0])
    assert all(isinstance(x, functrax.Array) for x in functrax.tree.leaves(there))
    back = functrax.device_get(there)
    assert all(type(x) is np.ndarray for x in functrax.tree.leaves(back))
    assert back["a"].tolist() == [0, 1, 2]
    assert functrax.device_get("text") == "text"
    assert float(functrax.jit(lambda x: functrax.device_get(x) + 1)(1.0)) == 2.0  # as it is
    with pytest.raises(errors.DTypeError, match="device_put"):
        functrax.device_put("text")


def test_device_put_is_the_identity_under_transformations():
    def f(x):
        return jnp.sum(functrax.device_put({"x": x * x})["x"])

    assert functrax.grad(f)(jnp.array([1.0, 2.0])).tolist() == [2.0, 4.0]
    assert functrax.jit(functrax.vmap(f))(jnp.ones((2, 3))).tolist() == [3.0, 3.0]


def test_block_until_ready_takes_pytrees():
    tree = {"a": jnp.ones(2), "b": 3, "c": None}
    assert functrax.block_until_ready(tree) is tree
    assert functrax.effects_barrier() is None


def test_what_an_array_says_of_its_place():
    x = jnp.arange(3.0)
    (device,) = functrax.devices()
    assert x.device is device
    assert x.devices() == x.sharding.device_set == {device}
    assert x.sharding == jnp.ones(2).sharding
    assert x.is_fully_addressable is True
    assert x.on_device_size_in_bytes() == x.nbytes == 12
    assert x.addressable_data(0) is x
    with pytest.raises(IndexError, match="one device"):
        x.addressable_data(1)
    assert x.copy_to_host_async() is None
    assert x.block_until_ready() is x


def test_deleted_arrays():
    x = jnp.arange(3.0)
    assert any(x is y for y in functrax.live_arrays())
    x.delete()
    assert x.is_deleted()
    assert not any(x is y for y in functrax.live_arrays())
    with pytest.raises(RuntimeError, match="deleted"):
        x.tolist()


def test_traced_values_have_no_memory():
    @functrax.jit
    def f(x):
        assert x.block_until_ready() is x
        assert x.copy_to_host_async() is None
        assert not x.is_deleted()
        assert x.is_fully_addressable
        assert x.device in x.devices()
        for ask in (x.delete, x.on_device_size_in_bytes, lambda: x.addressable_data(0)):
            with pytest.raises(errors.ConcretizationTypeError, match="memory of its own"):
                ask()
        return x

    assert f(2.0) == 2.0


def test_arrays_are_protocols_values():
    x = jnp.arange(3.0)
    assert x.__array_namespace__() is jnp
    assert f"{x[1]:.2f} {x}" == "1.00 [0. 1. 2.]"
    here = functrax.device_put(x, functrax.devices("cpu")[0])  # NumPy takes no memory of GPUs
    assert np.from_dlpack(here).tolist() == [0.0, 1.0, 2.0]
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()
    assert repr(x) == "Array([0., 1., 2.], dtype=float32)"


def test_ensure_compile_time_eval():
    @functrax.jit
    def f(x):
        staged = jnp.arange(2) + 1
        assert not hasattr(staged, "value")
        with functrax.ensure_compile_time_eval():
            known = jnp.arange(2) + 1
            assert bool(known[0] == 1)
        return x + known

    assert f(1).tolist() == [2, 3]


@pytest.mark.parametrize(
    "transform", [functrax.jit, functrax.vmap, functrax.grad, functrax.jacfwd, lambda f: f]
)
def test_ensure_compile_time_eval_traces_what_depends_on_arguments(transform):
    @functrax.jit
    def inner(x, y):
        return x * jnp.sum(y)

    @functrax.custom_jvp
    def twice(x):
        return 2 * x

    twice.defjvp(lambda primals, tangents: (2 * primals[0], 2 * tangents[0]))

    def f(x):
        with functrax.ensure_compile_time_eval():
            known = twice(inner(3, jnp.arange(3)))
            size = int(known)
            grown = jnp.sin(x) * known
            in_loop = functrax.lax.fori_loop(0, 3, lambda i, y: y + i, 0)
            assert int(in_loop) == 3
        return jnp.where(size == 18, inner(grown, jnp.ones(2)), 0.0)

    def plain(x):
        return jnp.sin(x) * 36

    x = jnp.array([0.25]) if transform is functrax.vmap else 0.25
    for wrap in (lambda f: f, functrax.jit):
        assert np.allclose(wrap(transform(f))(x), transform(plain)(x))


def test_ensure_compile_time_eval_holds_in_functions_traced_within():
    @functrax.jit
    def inner(x):
        return jnp.full(int(jnp.prod(jnp.array([2, 3]))), x)

    with functrax.ensure_compile_time_eval():
        assert functrax.jit(inner)(1.0).shape == (6,)
        axis = functrax.vmap(lambda x: x + functrax.lax.axis_index("i"), axis_name="i")
        assert axis(jnp.zeros(3)).tolist() == [0, 1, 2]


def test_named_scope():
    @functrax.named_scope("layer")
    def layer(x):
        with functrax.named_scope("inside"):
            return 2 * x

    assert functrax.grad(functrax.jit(layer))(1.0) == 2.0
    with pytest.raises(TypeError, match="named_scope"):
        functrax.named_scope(3)

    def model(x):
        with pytest.raises(ZeroDivisionError), functrax.named_scope("lost"):
            raise ZeroDivisionError
        return layer(jnp.sin(x)) + jnp.cos(x)

    text = str(functrax.make_jaxpr(model)(1.0))
    places = [line.split("  # ")[1] for line in text.splitlines() if "  # test_" in line]
    ends = [place.split(" in ")[1] for place in places]
    assert ends == ["model", "layer, layer/inside", "model", "model"]
    assert "lost" not in text
    assert str(functrax.parse(text)) == text


def test_breakpoint_shows_the_variables_of_the_caller():
    answers = io.StringIO()

    @functrax.jit
    def f(x):
        y = 2 * x
        commands = io.StringIO("p y + 1\nx\n\nnothing\nlocals\nc\n")
        functrax.debug.breakpoint(stdin=commands, stdout=answers)
        return y

    assert f(3) == 6
    said = answers.getvalue()
    assert "Stopped at" in said and "in f" in said
    assert "7" in said and "Array(3" in said
    assert "NameError" in said
    assert "commands x y" in said.replace("answers ", "")


def test_breakpoint_can_end_the_program():
    with pytest.raises(SystemExit):
        functrax.debug.breakpoint(stdin=io.StringIO("q\n"), stdout=io.StringIO())


def test_config_is_an_import_path():
    import functrax.config
    from functrax.config import config

    assert config is functrax.config
    assert config.config is config
    assert config.jax_enable_x64 is False


def test_names_that_moved():
    tree = {"a": (1, 2)}
    assert functrax.tree_map(lambda x: x + 1, tree) == {"a": (2, 3)}
    assert functrax.tree_multimap(lambda x, y: x + y, tree, tree) == {"a": (2, 4)}
    leaves, treedef = functrax.tree_flatten(tree)
    assert leaves == functrax.tree_leaves(tree) == [1, 2]
    assert treedef == functrax.tree_structure(tree)
    assert functrax.tree_unflatten(treedef, leaves) == tree
    inner = functrax.tree_structure([0, 0])
    assert functrax.tree_transpose(treedef, inner, {"a": ([1, 2], [3, 4])}) == [
        {"a": (1, 3)},
        {"a": (2, 4)},
    ]
    from functrax.interpreters.xla import DeviceArray

    assert isinstance(jnp.ones(1), DeviceArray)
    assert jnp.DeviceArray is functrax.Array


def test_x64_under_its_old_name():
    from functrax.experimental import disable_x64, enable_x64

    with enable_x64():
        assert jnp.ones(1).dtype == np.float64
        with disable_x64():
            assert jnp.ones(1).dtype == np.float32


def test_static_fields():
    @functrax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Layer:
        w: functrax.Array
        kind: str = functrax.tree.static(default="dense", metadata={"note": 1})

    layer = Layer(jnp.ones(2))
    assert len(functrax.tree.leaves(layer)) == 1
    assert functrax.jit(lambda layer: layer)(layer).kind == "dense"
    assert dataclasses.fields(Layer)[1].metadata["note"] == 1


def test_dtypes():
    from functrax import dtypes

    assert dtypes.canonicalize_dtype("float64") == np.float32
    assert dtypes.canonicalize_dtype(None) == np.float32
    assert dtypes.itemsize_bits(jnp.bfloat16) == 16
    assert dtypes.scalar_type_of(jnp.ones(1)) is float
    assert dtypes.scalar_type_of("int8") is int
    assert dtypes.bfloat16 == jnp.bfloat16
    assert dtypes.float0 == functrax.float0
    assert dtypes.result_type(1, jnp.float16(1)) == np.float16
    assert int(dtypes.iinfo("int8").max) == 127
    assert dtypes.finfo("float32").bits == 32


def test_the_dtype_of_keys_is_extended():
    from functrax import dtypes

    dtype = functrax.random.key(0).dtype
    assert jnp.issubdtype(dtype, dtypes.prng_key)
    assert jnp.issubdtype(dtype, dtypes.extended)
    assert not jnp.issubdtype(dtype, np.integer)
    assert not jnp.issubdtype(dtype, np.dtype("float32"))
    assert not jnp.issubdtype(np.float32, dtypes.prng_key)
    assert issubclass(dtypes.prng_key, dtypes.extended)
    assert dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True) == dtype


def test_types_for_annotations():
    from functrax.typing import ArrayLike, DTypeLike

    for value in (jnp.ones(1), np.ones(1), np.float32(1), np.bool_(True), 1, 1.5, 1j, True):
        assert isinstance(value, ArrayLike)
    for value in ([1.0], "text", None, ShapedArray((), np.dtype("float32"))):
        assert not isinstance(value, ArrayLike)

    def f(x: ArrayLike, dtype: DTypeLike) -> functrax.Array:
        return jnp.asarray(x, dtype)

    assert f(1, "float32").dtype == np.float32


def test_errors_have_jax_names():
    with pytest.raises(errors.ConcretizationTypeError):
        functrax.jit(lambda x: 1 if x else 2)(True)
    with pytest.raises(errors.TracerArrayConversionError):
        functrax.jit(np.sin)(1.0)
    kept = []
    functrax.jit(kept.append)(1.0)
    with pytest.raises(errors.UnexpectedTracerError):
        kept[0] + 1
    with pytest.raises(errors.JAXIndexError):
        functrax.jit(lambda x, m: x[m])(jnp.ones(2), jnp.array([True, False]))
    with pytest.raises(errors.NonConcreteBooleanIndexError):
        functrax.jit(lambda x, m: x[m])(jnp.ones(2), jnp.array([True, False]))
    assert issubclass(errors.ConcretizationTypeError, errors.JAXTypeError)
    assert issubclass(errors.KeyReuseError, errors.JAXTypeError)


def test_what_is_imported_on_demand():
    """The names that type checkers see are those that are found, and they are not loaded before."""
    for package in (functrax, functrax.scipy, functrax.numpy, functrax.lax):
        tree = ast.parse(inspect.getsource(package))
        *_, block = [x for x in tree.body if isinstance(x, ast.If)]
        imports = [x for x in block.body if isinstance(x, ast.ImportFrom)]
        absent = set() if "int1" in dir(ml_dtypes) else {"int1", "uint1"}  # before ml_dtypes 0.6
        declared = {alias.asname for x in imports for alias in x.names} - absent
        loaded = f"import sys, {package.__name__} as p; print(*vars(p))"
        done = subprocess.run(
            [sys.executable, "-c", loaded], capture_output=True, text=True, check=True
        )
        assert not declared & set(done.stdout.split())
        assert declared <= set(dir(package))
        for x in imports:
            for alias in x.names:
                if alias.name in absent:
                    continue
                found = getattr(package, alias.name)
                if x.module == package.__name__:
                    assert found is importlib.import_module(f"{x.module}.{alias.name}")
                else:
                    there = getattr(importlib.import_module(x.module), alias.name)
                    assert inspect.unwrap(found) is inspect.unwrap(there)
                assert getattr(package, alias.name) is found
        with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
            package.nonsense  # noqa: B018


def test_an_import_of_all_names_has_those_on_demand():
    found = {}
    exec("from functrax.numpy import *", found)
    assert found["interp"] is jnp.interp
    assert found["linalg"] is jnp.linalg
    assert found["sum"] is jnp.sum


def test_import_loads_no_more_of_the_standard_library_than_it_needs():
    heavy = "pathlib statistics concurrent.futures decimal difflib cmd llvmlite scipy asyncio"
    lines = (
        "import numpy, sys",
        "old = set(sys.modules)",
        "import functrax, functrax.numpy",
        f"print(*(set({heavy.split()}) & (sys.modules.keys() - old)))",
    )
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_names_of_programs_that_ask_about_devices_and_the_language():
    assert functrax.local_devices() == functrax.devices()
    assert functrax.device_count() == functrax.local_device_count("cpu") == 1
    assert (functrax.process_index(), functrax.process_count()) == (0, 1)
    traced = []
    functrax.jit(lambda x: traced.append(isinstance(x, functrax.core.Tracer)) or x)(1.0)
    assert traced == [True]
    assert not isinstance(jnp.ones(2), functrax.core.Tracer)
    program = functrax.make_jaxpr(lambda x: jnp.sin(x) * 2)(1.0)
    (out,) = functrax.core.eval_jaxpr(program.jaxpr, program.consts, jnp.float32(0.5))
    assert out == jnp.sin(0.5) * 2


def test_complex_arrays_are_no_real_numbers():
    for kind in (float, int):
        with pytest.raises(TypeError, match="complex"):
            kind(jnp.array(1j))
    assert complex(jnp.array(1j)) == 1j


def test_empty_arrays_show_their_shape():
    assert repr(jnp.zeros((0, 3))) == "Array([], shape=(0, 3), dtype=float32)"
    assert repr(jnp.zeros(0)) == "Array([], dtype=float32)"


def test_files_keep_arrays(tmp_path):
    for x in (jnp.arange(3), jnp.ones((2, 2), jnp.bfloat16), jnp.array(1j)):
        jnp.save(tmp_path / "x.npy", x)
        assert jnp.load(tmp_path / "x.npy").dtype == x.dtype
        assert (jnp.load(tmp_path / "x.npy") == x).all()
    jnp.savez(tmp_path / "all.npz", jnp.arange(2), b=jnp.ones(1))
    with jnp.load(tmp_path / "all.npz") as found:
        assert found["arr_0"].tolist() == [0, 1] and found["b"].tolist() == [1.0]
    np.arange(3, dtype="float32").tofile(tmp_path / "raw")
    assert jnp.fromfile(tmp_path / "raw", "float32").tolist() == [0.0, 1.0, 2.0]


def test_dlpack_and_names_of_checkpoints():
    x = jnp.arange(3.0)
    assert functrax.dlpack.from_dlpack(x).tolist() == [0.0, 1.0, 2.0]
    assert "dltensor" in repr(functrax.dlpack.to_dlpack(x))
    named = functrax.ad_checkpoint.checkpoint_name
    assert functrax.grad(lambda x: named(x * x, "square").sum())(x).tolist() == [0.0, 2.0, 4.0]
