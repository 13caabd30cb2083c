"""Ahead-of-time programs: ``lower``, ``compile``, their analyses; and the history of traces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors, lax
from functrax.core.options.config import Override
from functrax.core.syntax.parsing import parse_jaxpr

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    with functrax.backend("llvm"), Override("cache", False):
        yield


@functrax.jit
def layer(params: Any, x: Any) -> Any:
    return {"out": jnp.sqrt(x * params["w"] + 1).sum(1)}


PARAMS = {"w": np.float32(2)}


def test_lowered_tells_types_and_text() -> None:
    lowered = layer.lower(PARAMS, functrax.ShapeDtypeStruct((3, 4), "float32"))
    assert lowered.out_info == {"out": functrax.ShapeDtypeStruct((3,), "float32")}
    assert lowered.args_info[0][1]._aval == functrax.ShapedArray((3, 4), np.dtype("float32"))
    assert lowered.out_tree == functrax.tree_util.tree_structure({"out": 0})
    assert parse_jaxpr(lowered.as_text()) == lowered.jaxpr
    assert "#" not in lowered.as_text(debug_info=False)


def test_compiled_is_called_and_checks_its_arguments() -> None:
    compiled = layer.lower(PARAMS, X).compile()
    np.testing.assert_array_equal(compiled(PARAMS, X)["out"], layer(PARAMS, X)["out"])
    with pytest.raises(errors.ShapeError, match="Argument 'x' compiled with"):
        compiled(PARAMS, X[:2])
    with pytest.raises(errors.ShapeError, match=r"Argument 'params\['w'\]' compiled"):
        compiled({"w": np.int32(1)}, X)
    with pytest.raises(errors.PyTreeError, match="does not match the input pytree"):
        compiled(PARAMS)


def test_static_arguments_are_left_out_of_compiled_calls() -> None:
    f = functrax.jit(lambda n, x: x * n, static_argnums=0)
    assert f.lower(3, X).compile()(X)[0, 1] == 3


def test_lowering_and_calling_share_traces() -> None:
    f = functrax.jit(lambda x: x * 2)
    f.lower(X)
    f(X)
    info = f.cache_info()
    assert (info.traces, info.hits) == (1, 1)


def test_cost_analysis_counts_bytes_that_fusion_saves() -> None:
    lowered = layer.lower(PARAMS, X)
    before, after = lowered.cost_analysis(), lowered.compile().cost_analysis()
    assert after["bytes accessed"] == 12 * 4 + 4 + 3 * 4
    assert before["bytes accessed"] > after["bytes accessed"]
    assert after["flops"] == before["flops"] == 3 * 12 + 9
    looped = functrax.jit(lambda x: lax.scan(lambda c, a: (c + a, None), x[0], x)[0]).lower(X)
    assert looped.cost_analysis()["flops"] == 12


def test_memory_analysis() -> None:
    def f(x: Any) -> Any:
        return jnp.cumsum(jnp.cumsum(x, 0), 0)

    memory = functrax.jit(f).lower(X).compile().memory_analysis()
    assert memory.argument_size_in_bytes == memory.output_size_in_bytes == X.nbytes
    assert memory.temp_size_in_bytes >= memory.peak_temp_size_in_bytes >= X.nbytes
    assert memory.alias_size_in_bytes == X.nbytes  # where the result lies if x is donated


def test_new_sizes_need_no_compilation() -> None:
    f = functrax.jit(lambda x: x * 1.75 - 0.625)
    f(np.ones(64, np.float32))
    first = f.cache_info().compiles
    f(np.ones(128, np.float32))
    assert first == 1 and f.cache_info().compiles == first
    assert f.cache_info().history[1].compiles == 0


def differences(f: Any) -> list[tuple[str, str, str, str]]:
    return [(d.argument, d.kind, d.before, d.after) for d in f.cache_info().history[-1].differences]


def test_history_says_what_differed() -> None:
    f = functrax.jit(lambda p, x, n=1: p["w"] * x, static_argnames="n")
    f(PARAMS, X)
    assert f.cache_info().history[0].nearest == 0
    f(PARAMS, X[:2])
    assert differences(f) == [("x", "shape", "(3, 4)", "(2, 4)")]
    f({"w": np.int32(2)}, X)
    assert differences(f) == [("p['w']", "dtype", "float32", "int32")]
    f({"w": 2.0}, X)
    assert differences(f) == [("p['w']", "weak type", "an array", "a Python number")]
    f(PARAMS, X, n=2)
    assert differences(f) == [("n", "static value", "not given", "2")]
    with functrax.enable_x64():
        f(PARAMS, X)
    assert differences(f) == [("enable_x64", "option", "False", "True")]
    f({"w": np.float32(1), "b": 0}, X)
    assert [d[1] for d in differences(f)] == ["structure"]
    where = f.cache_info().history[-1].where
    assert where is not None and where.function == "test_history_says_what_differed"
    assert len(f.cache_info().history) == f.cache_info().traces == 7


def test_history_compares_with_the_nearest_trace() -> None:
    f = functrax.jit(lambda x, y: x + y)
    f(X, X)
    f(X[0], X[0])
    f(X[0], X)
    assert f.cache_info().history[2].nearest == 2
    assert differences(f) == [("y", "shape", "(4,)", "(3, 4)")]


def test_programs_over_traced_values_are_not_kept() -> None:
    made = []

    def outer(x: Any) -> Any:
        inner = functrax.jit(lambda y: y * x)
        made.append(inner)
        return inner(1.0) + inner(1.0)

    functrax.make_jaxpr(outer)(2.0)
    assert differences(made[0])[0][1] == "not kept"
    assert "being traced" in str(made[0].cache_info().history[-1])
