"""The texts of errors: what, got, where (a line of this file) and what to do."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax.errors import (
    AxisError,
    ConcretizationError,
    FunctraxError,
    ImmutableError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)


def parts_of(f: Any, *args: Any) -> tuple[dict[str, str], FunctraxError]:
    """The four parts of the error of ``f(*args)``, whose line must be one of ``f``'s."""
    with pytest.raises(FunctraxError) as info:
        f(*args)
    parts: dict[str, str] = {}
    label = "what"
    for line in str(info.value).splitlines():
        for name in ("got", "at", "try"):
            if line.startswith(f"  {name:<5} "):
                label, line = name, line[8:]
        parts[label] = parts[label] + "\n" + line if label in parts else line
    place = parts.pop("at")
    file, rest = place.split(":")
    number, _, function = rest.split(" ", 2)
    code = f.__code__
    assert file == "test_errors.py" and function == code.co_name, place
    assert int(number) in {n for *_, n in code.co_lines()}, place
    return parts, info.value


X = jnp.ones((2, 3))


def test_shapes() -> None:
    def f() -> Any:
        return X + jnp.ones(4)

    parts, error = parts_of(f)
    assert parts["what"] == "add: shapes do not broadcast"
    assert parts["got"] == "(2, 3), (4,)"
    assert isinstance(error, TypeError) and isinstance(error, ValueError)


def test_shapes_inside_jit_name_the_line_inside() -> None:
    def f(x: Any) -> Any:
        y = jnp.sin(x)
        return X @ y

    parts, _ = parts_of(f, jnp.ones(2))
    assert "f32[2,3]" in parts["got"] and "f32[2]" in parts["got"]
    for transform in (functrax.jit, functrax.vmap, functrax.grad, functrax.checkpoint):
        with pytest.raises(FunctraxError) as info:
            transform(f)(jnp.ones((2, 2)) if transform is functrax.vmap else jnp.ones(2))
        line = f.__code__.co_firstlineno + 2
        assert f"\n  at    test_errors.py:{line} in f\n" in str(info.value)


def test_transposes_name_the_line_of_the_forward_pass() -> None:
    def f(x: Any) -> Any:
        return jnp.sum(x * x)

    with pytest.raises(FunctraxError) as info:
        functrax.linear_transpose(f, jnp.ones(2))(1.0)
    line = f.__code__.co_firstlineno + 1
    assert f"test_errors.py:{line} in f" in str(info.value)


def test_static_argument() -> None:
    def f() -> Any:
        return functrax.jit(lambda x, options: x, static_argnums=1)(1.0, {"a": 1})

    parts, _ = parts_of(f)
    assert parts == {
        "what": "jit: Non-hashable static arguments are not supported: a static argument "
        "of <lambda> cannot be hashed",
        "got": "position 1 is {'a': 1} of type dict",
        "try": "a tuple instead of a list, a frozen dataclass instead of a dict; "
        "or leave it out of static_argnums if it is an array",
    }


def test_gradient_of_what_is_not_a_scalar() -> None:
    def f() -> Any:
        return functrax.grad(lambda x: {"a": x, "b": x})(jnp.ones(2))

    parts, _ = parts_of(f)
    assert parts == {
        "what": "Gradient only defined for scalar-output functions. Output was: "
        "PyTreeDef({'a': *, 'b': *}). <lambda> does not return a scalar",
        "got": "f32[2], f32[2] in PyTreeDef({'a': *, 'b': *})",
        "try": "reduce it, as by .sum() or .mean(); functrax.jacrev for a Jacobian; "
        "has_aux=True if it returns (value, aux)",
    }


def test_gradient_by_an_integer() -> None:
    def f() -> Any:
        return functrax.grad(lambda x, n: x * n["steps"], argnums=1)(1.0, {"steps": 2})

    parts, _ = parts_of(f)
    assert parts["got"] == "argument [1]['steps'] of <lambda> is ~i32[]"
    assert "allow_int=True" in parts["try"]


def test_gradient_of_a_complex_number() -> None:
    def f() -> Any:
        return functrax.grad(lambda z: z)(jnp.array(1j))

    parts, _ = parts_of(f)
    assert parts["what"].endswith("returns a scalar that is not a real floating point number")
    assert "c64[]" in parts["got"]
    assert "holomorphic=True" in parts["try"]


def test_pytrees_that_do_not_match() -> None:
    def f() -> Any:
        return functrax.jvp(lambda d: d["a"], ({"a": 1.0},), ({"a": 1.0, "b": 2.0},))

    parts, _ = parts_of(f)
    assert parts["what"].endswith("must have the same tree structure")
    assert parts["got"] == "PyTreeDef(({'a': *, 'b': *},)), where PyTreeDef(({'a': *},)) is needed"

    def g() -> Any:
        return functrax.tree_util.tree_map(
            lambda x, y: x, {"a": [1, {"k": 2}]}, {"a": [1, {"j": 2}]}
        )

    parts, _ = parts_of(g)
    assert "['a'][1]" in "".join(parts.values())


def test_axis_out_of_range() -> None:
    def f() -> Any:
        return jnp.sum(X, axis=2)

    parts, error = parts_of(f)
    assert parts["what"].startswith("sum: axis 2 is out of range")
    assert isinstance(error, AxisError) and isinstance(error, (ValueError, IndexError))

    def g(x: Any) -> Any:
        return functrax.vmap(lambda x: x, in_axes=-3)(x)

    parts, _ = parts_of(g, X)
    assert parts["got"] == "argument x of <lambda> is f32[2,3]"


@pytest.mark.parametrize("transform", ["jit", "vmap", "checkpoint"])
def test_condition_on_a_traced_value(transform: str) -> None:
    def f(x: Any) -> Any:
        if jnp.all(x > 0):
            return x
        return -x

    with pytest.raises(TracerBoolConversionError) as info:
        getattr(functrax, transform)(f)(X)
    what, got, at, fix = str(info.value).splitlines()
    assert what.endswith("`if`, `while`, `and`, `or` and `assert` cannot look at it")
    assert "Traced<bool[]>" in got and got.endswith("while tracing f")
    assert at == f"  at    test_errors.py:{f.__code__.co_firstlineno + 1} in f"
    for alternative in ("numpy.where", "lax.cond", "lax.while_loop", "static_argnums"):
        assert alternative in fix
    assert isinstance(info.value, ConcretizationError) and isinstance(info.value, TypeError)


NUMBERS = {
    "int": int,
    "float": float,
    "complex": complex,
    "range": range,
    "index": lambda x: [1, 2, 3][x],
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "hex": hex,
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("transform", ["jit", "vmap"])
def test_python_numbers_of_traced_values(name: str, transform: str) -> None:
    def f(n: Any) -> Any:
        NUMBERS[name](n)
        return n

    error = (
        TracerIntegerConversionError
        if name in ("int", "range", "index", "hex")
        else (ConcretizationError)
    )
    with pytest.raises(error) as info:
        getattr(functrax, transform)(f)(np.array([1, 2]) if transform == "vmap" else 1)
    text = str(info.value)
    assert "raced value has no known value" in text and "while tracing f" in text
    assert "functrax.lax.fori_loop" in text and "static_argnums" in text
    assert "\n  at    test_errors.py:" in text


def test_shapes_must_be_known() -> None:
    def f(n: Any) -> Any:
        return functrax.jit(lambda n: jnp.zeros(n))(n)

    with pytest.raises(ConcretizationError, match="traced"):
        f(3)


@pytest.mark.parametrize("transform", ["jit", "grad", "vmap", "jvp"])
@pytest.mark.parametrize("use", [np.asarray, np.sin, np.array, lambda x: np.add(x, 1)])
def test_numpy_of_traced_values(transform: str, use: Any) -> None:
    def f(x: Any) -> Any:
        return jnp.sum(jnp.asarray(use(x)))

    apply = {
        "jit": functrax.jit(f),
        "grad": functrax.grad(f),
        "vmap": functrax.vmap(f),
        "jvp": lambda x: functrax.jvp(f, (x,), (x,)),
    }[transform]
    with pytest.raises(TracerArrayConversionError) as info:
        apply(X)
    text = str(info.value)
    assert "traced value cannot become a NumPy array" in text
    assert "functrax.numpy" in text and "pure_callback" in text
    assert "\n  at    test_errors.py:" in text


def test_hashes() -> None:
    assert not isinstance(X, Hashable)
    with pytest.raises(TypeError, match="unhashable type"):
        hash(X)
    with pytest.raises(TypeError, match="unhashable"):
        {jnp.array(1.0)}
    for transform in (functrax.jit, functrax.grad, functrax.vmap):

        def as_key(x: Any) -> Any:
            assert not isinstance(x, Hashable)
            return {x: 1}[x]

        with pytest.raises(TypeError, match="unhashable type"):
            transform(as_key)(jnp.ones(()) if transform is functrax.grad else X)


def test_assignment() -> None:
    def f(x: Any) -> Any:
        x[0] = 1.0
        return x

    parts, error = parts_of(f, X)
    assert isinstance(error, ImmutableError)
    assert parts == {
        "what": "in-place assignment: arrays are immutable",
        "got": "x[0] = ... with x of type f32[2,3]",
        "try": "x = x.at[index].set(value); also .add, .multiply, .min, .max",
    }
    for transform in (functrax.jit, functrax.vmap, functrax.checkpoint):
        with pytest.raises(ImmutableError, match=r"\.at\[index\]\.set\(value\)"):
            transform(f)(X)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(X)[0] = 1.0

    def deletes(x: Any) -> None:
        del x[0]

    with pytest.raises(ImmutableError):
        deletes(X)


def test_augmented_assignment_rebinds() -> None:
    def f(x: Any) -> Any:
        y = x
        y += 1.0
        return x, y

    for g in (f, functrax.jit(f)):
        x, y = g(jnp.zeros(2))
        np.testing.assert_array_equal(np.asarray(x), [0.0, 0.0])
        np.testing.assert_array_equal(np.asarray(y), [1.0, 1.0])


def test_arguments_that_are_not_arrays() -> None:
    def f() -> Any:
        return functrax.jit(lambda x: x)({"a": object()})

    parts, _ = parts_of(f)
    assert parts["what"] == "argument x['a'] of <lambda> is not an array or a scalar"
    assert "of type <class 'object'> is not a valid JAX type" in parts["got"]
    with pytest.raises(FunctraxError, match="is not an array"):
        functrax.grad(lambda x: x)("text")
    with pytest.raises(FunctraxError, match="is not an array"):
        functrax.vmap(lambda x: x)(np)


@dataclasses.dataclass
class Weights:
    w: Any


@pytest.mark.parametrize(
    ("call", "what", "fix"),
    [
        (lambda: functrax.jit(lambda x, mode: x)(1.0, "relu"), "argument mode of", "text is for"),
        (lambda: functrax.jit(lambda x, f=None: f(x))(1.0, f=jnp.sin), "argument f", "Partial"),
        (
            lambda: functrax.jit(lambda n, x, mode: x, static_argnums=0)(3, 1.0, "relu"),
            "argument mode of",
            "static_argnames",
        ),
        (
            lambda: functrax.grad(lambda p: p["layer"].w)({"layer": Weights(1.0)}),
            "argument p['layer'] of",
            "register_dataclass(Weights)",
        ),
        (
            lambda: functrax.vmap(lambda *xs: xs)(jnp.ones(2), [FunctraxError("no")]),
            "argument 1[0] of",
            "register_dataclass for FunctraxError",
        ),
        (
            lambda: functrax.jit(lambda x: x)(np.array([1, None])),
            "argument x of",
            "convert it to a number type",
        ),
    ],
)
def test_which_argument_is_no_array_and_what_to_do(call: Any, what: str, fix: str) -> None:
    parts, _ = parts_of(call)
    assert what in parts["what"] and fix in parts["try"], parts


def test_what_should_have_been_a_pair() -> None:
    parts, _ = parts_of(lambda: functrax.grad(lambda x: x.sum(), has_aux=True)(jnp.ones(3)))
    assert parts["got"] == "an array f32[]"
    parts, _ = parts_of(lambda: functrax.lax.scan(lambda c, _: [c], 0.0, None, 2))
    assert parts["got"] == "list of length 1"


def test_unknown_keywords() -> None:
    for call in (
        lambda: functrax.jit(lambda x: x, static_argument=1),
        lambda: functrax.grad(lambda x: x, argnum=1),
        lambda: functrax.vmap(lambda x: x, axes=1),
        lambda: functrax.jit(lambda x: x)(1.0, unknown=2.0),
    ):
        with pytest.raises(TypeError, match=r"unknown keyword|unexpected keyword argument"):
            call()
    with pytest.raises(FunctraxError, match="no such option") as info:
        functrax.config.update("enable_x46", True)
    assert "enable_x64" in str(info.value)


def test_the_traceback_of_an_error_in_user_code_is_the_users() -> None:
    def f(x: Any) -> Any:
        return x.no_such_method()

    for transform in (functrax.jit, functrax.grad, functrax.vmap):
        try:
            transform(f)(X)
        except AttributeError as error:
            last = error.__traceback__
            while last is not None and last.tb_next is not None:
                last = last.tb_next
            assert last is not None and last.tb_frame.f_code is f.__code__
        else:
            pytest.fail("no error")
    assert sys.exc_info() == (None, None, None)


def test_len_and_iteration() -> None:
    with pytest.raises(TypeError, match="rank 0"):
        len(jnp.array(1.0))
    with pytest.raises(TypeError, match="rank 0"):
        functrax.jit(lambda x: list(x))(1.0)
    rows = functrax.jit(lambda x: [r * 2 for r in x])(X)
    assert len(rows) == 2 and rows[0].shape == (3,)
