"""The stages of a jitted function, and its shardings."""

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import P, jit
from functrax.errors import ShardingError
from functrax.sharding import NamedSharding, SingleDeviceSharding
from functrax.stages import ArgInfo, Compiled, Lowered, Traced, Wrapped

MESH = functrax.make_mesh((1,), ("x",))
S = NamedSharding(MESH, P("x"))
DEVICE = functrax.devices()[0]
ONES = np.ones(3, np.float32)


def staged(**options):
    f = jit(lambda x, n: {"a": x["w"] + n}, static_argnums=1, donate_argnums=0, **options)
    traced = f.trace({"w": ONES}, 2)
    lowered = traced.lower()
    return f, traced, lowered, lowered.compile()


def test_stages_have_types():
    f, traced, lowered, compiled = staged()
    assert isinstance(f, Wrapped) and not isinstance(lambda x: x, Wrapped)
    assert isinstance(functrax.pmap(jnp.sin), Wrapped)
    kinds = (Traced, Lowered, Compiled)
    assert tuple(map(type, (traced, lowered, compiled))) == kinds


def test_stages_know_the_arguments_and_results():
    _, traced, lowered, compiled = staged()
    for stage in (traced, lowered, compiled):
        assert stage.donate_argnums == (0,)
        ((info,), named) = stage.args_info
        assert isinstance(info["w"], ArgInfo) and info["w"].donated and named == {}
        assert (info["w"].shape, info["w"].dtype) == ((3,), np.float32)
        assert stage.in_avals[0][0]["w"].shape == (3,)
        assert stage.in_tree == functrax.tree.structure((({"w": 0},), {}))
        assert stage.out_tree == functrax.tree.structure({"a": 0})
        assert stage.out_info == {"a": functrax.ShapeDtypeStruct((3,), "float32")}
    assert compiled.memory_analysis().output_size_in_bytes == 12
    assert compiled.cost_analysis()["flops"] == lowered.cost_analysis()["flops"] == 3.0
    assert compiled.runtime_executable() is compiled.compiled


def test_donation_is_counted_by_arrays():
    f = jit(lambda x, y, *, z: x[0] + y + z, donate_argnums=1, donate_argnames="z")
    lowered = f.lower((1.0, 2.0), 3.0, z=4.0)
    assert lowered.donate_argnums == (2, 3)
    assert not lowered.args_info[0][0][1].donated and lowered.args_info[1]["z"].donated


def test_compiled_programs_know_their_shardings():
    compiled = staged()[3]
    single = SingleDeviceSharding(DEVICE)
    assert compiled.input_shardings == (({"w": single},), {})
    assert compiled.output_shardings == {"a": single}
    assert compiled.output_formats["a"].layout.major_to_minor == (0,)
    assert compiled.input_formats[0][0]["w"].sharding == single
    struct = functrax.ShapeDtypeStruct((3,), "float32", sharding=S)
    assert jit(jnp.sin).lower(struct).compile().input_shardings == ((S,), {})
    placed = jit(jnp.sin, in_shardings=(S,), out_shardings=S).lower(ONES)
    assert placed.compile().input_shardings == ((S,), {}) and placed.out_info.sharding == S
    assert placed.compile()(ONES).sharding == S


def test_jit_puts_results_where_they_shall_be():
    f = jit(lambda x: (x + 1, {"b": x}), out_shardings=(S, None))
    for _ in range(3):
        y, rest = f(ONES)
        assert y.sharding == S and not rest["b"].committed
    assert f.cache_info().misses == 1
    assert functrax.eval_shape(f, ONES)[0].shape == (3,)
    assert f.eval_shape(ONES)[0].sharding == S
    with functrax.set_mesh(MESH):
        assert jit(lambda x: x, out_shardings=P("x"))(ONES).sharding == S
    assert functrax.grad(lambda x: f(x)[0].sum())(jnp.ones(3)).tolist() == [1, 1, 1]
    assert functrax.vmap(f)(jnp.ones((2, 3)))[0].shape == (2, 3)


def test_in_shardings_are_a_prefix_of_the_arguments():
    assert jit(lambda x: x + 1, in_shardings=S)(ONES).tolist() == [2, 2, 2]
    f = jit(lambda x, n, y: x["a"] + n + y, in_shardings=({"a": S}, None), static_argnums=1)
    assert f({"a": ONES}, 2, 1.0).tolist() == [4, 4, 4]
    assert jit(lambda x: x, in_shardings=[S])(ONES).size == 3


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: jit(jnp.sin, in_shardings=(S, S))(ONES), ValueError, "one entry for each"),
        (lambda: jit(jnp.sin, in_shardings=S)(1.0), ValueError, "more entries"),
        (lambda: jit(jnp.sin, in_shardings=S).lower(1.0), ValueError, "more entries"),
        (lambda: jit(jnp.sin, in_shardings={"a": S})(ONES), ValueError, "must be a tree prefix"),
        (lambda: jit(jnp.sin, out_shardings=(S, S))(ONES), ValueError, "must be a tree prefix"),
        (lambda: jit(jnp.sum, out_shardings=S)(ONES), ValueError, "more entries"),
        (lambda: jit(jnp.sin, in_shardings=3), TypeError, "something else than shardings"),
        (lambda: jit(jnp.sin, out_shardings=DEVICE), TypeError, "something else than shardings"),
        (lambda: jit(jnp.sin, in_shardings=P("x"))(ONES), RuntimeError, "no mesh"),
        (lambda: jit(lambda x, y=1: x, in_shardings=S)(ONES, y=2), ValueError, "by name"),
        (lambda: jit(jnp.sin, device=DEVICE, in_shardings=S), ValueError, "beside shardings"),
        (lambda: jit(jnp.sin, device=DEVICE, backend="cpu"), ValueError, "both a device"),
        (lambda: jit(jnp.sin, device=3), TypeError, "not a device"),
        (lambda: jit(jnp.sin, backend="x"), RuntimeError, "Unknown backend"),
        (lambda: jit(jnp.sin, compiler_options={"foo": 1}), RuntimeError, "No such compile"),
        (lambda: jit(jnp.sin, compiler_options=3), TypeError, "no dict"),
        (lambda: jit(jnp.sin).lower(ONES).compile({"foo": 1}), RuntimeError, "No such compile"),
        (lambda: jit(jnp.sin).lower(ONES).as_text("x"), ValueError, "dialect"),
        (lambda: jit(jnp.sin).lower(ONES).compiler_ir("stablehlo"), ValueError, "dialect"),
        (
            lambda: jit(jnp.sin).lower(ONES).compile(device_assignment=(DEVICE, DEVICE)),
            RuntimeError,
            "one device",
        ),
        (
            lambda: jit(jnp.sin).trace(ONES).lower(lowering_platforms=("tpu",)),
            RuntimeError,
            "platforms",
        ),
    ],
)
def test_wrong_options_are_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_options_that_are_xlas_are_warned_about_once():
    options = {"xla_cpu_enable_fast_math": True}
    with pytest.warns(UserWarning, match="option of XLA"):
        jit(jnp.sin, compiler_options=options)
    jit(jnp.sin, compiler_options=options)
    jit(jnp.sin).lower(ONES).compile(compiler_options=options)


def test_places_that_are_there_are_taken():
    assert jit(jnp.sin, backend="cpu")(0.0) == 0.0 == jit(jnp.sin, device=DEVICE)(0.0)
    traced = jit(jnp.sin).trace(ONES)
    lowered = traced.lower(lowering_platforms=("tpu", "cpu"))
    assert lowered.as_text("jaxpr") == lowered.as_text()
    assert lowered.compiler_ir() is lowered.jaxpr
    assert lowered.compile(device_assignment=(DEVICE,))(ONES).shape == (3,)


def test_in_shardings_of_nested_calls_are_checked_while_tracing():
    inner = jit(lambda x: x * 2, in_shardings=S, out_shardings=S)
    assert jit(lambda x: inner(x) + 1)(ONES).tolist() == [3, 3, 3]
    with pytest.raises(ShardingError, match="more entries"):
        jit(lambda x: inner(x[0]))(ONES)
