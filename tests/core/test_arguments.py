"""Calls that do not fit a signature, of every public namespace: the error names what would."""

from __future__ import annotations

import copy
import inspect
import pickle
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors, lax, nn, random
from functrax.core.boundaries import arguments


def identity(x: Any) -> Any:
    return x


@pytest.mark.parametrize(
    ("call", "what", "fix"),
    [
        (lambda: functrax.grad(jnp.sin, argnum=1), "grad: unknown keyword 'argnum'", "argnums="),
        (lambda: functrax.vmap(), "vmap: missing 1 required", "vmap(fun, in_axes=0"),
        (lambda: lax.reduce_sum(jnp.ones(3), axis=0), "unknown keyword 'axis'", "axes="),
        (lambda: jnp.sum(jnp.ones(3), axes=0), "sum: unknown keyword 'axes'", "axis="),
        (lambda: random.normal(random.key(0), shap=()), "unknown keyword 'shap'", "shape="),
        (lambda: nn.softmax(jnp.ones(3), axes=0), "softmax: unknown keyword 'axes'", "axis="),
        (lambda: nn.relu(), "relu: missing a required argument: 'x'", "relu(x)"),
        (lambda: nn.relu(1.0, 2.0), "relu: too many positional arguments", "relu(x)"),
        (
            lambda: functrax.jit(identity, static_argnames="y"),
            "static_argnames names no parameter of identity: 'y'",
            "one of these names",
        ),
        (
            lambda: functrax.custom_jvp(identity, nondiff_argnames=("y",)),
            "nondiff_argnames names an argument that identity does not have",
            "one of x",
        ),
    ],
)
def test_wrong_arguments_are_explained(call: Callable[[], Any], what: str, fix: str) -> None:
    with pytest.raises(errors.FunctraxError) as info:
        call()
    assert what in info.value.what
    assert fix in info.value.fix
    assert str(info.value.where).startswith("test_arguments.py:")


def test_errors_of_the_function_itself_are_left_alone() -> None:
    def fails(x: Any) -> Any:
        raise TypeError("its own")

    with pytest.raises(TypeError, match="its own") as info:
        functrax.jit(fails)(1.0)
    assert not isinstance(info.value, errors.FunctraxError)


@pytest.mark.parametrize("function", [lax.sin, jnp.sin, random.normal, functrax.grad])
def test_functions_keep_their_names(function: Any) -> None:
    module = __import__(function.__module__, fromlist=[function.__name__])
    assert getattr(module, function.__name__) is function
    assert function.__doc__


@pytest.mark.parametrize("function", [lax.sin, jnp.sum, random.normal, functrax.grad, nn.softmax])
def test_functions_are_functions_to_others(function: Any) -> None:
    assert inspect.isroutine(function) and inspect.signature(function).parameters
    assert isinstance(inspect.unwrap(function), types.FunctionType)
    assert repr(function).startswith(f"<function {function.__qualname__} at ")
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.copy(function) is function and copy.deepcopy(function) is function
    assert weakref.ref(function)() is function
    function.note = "a user's"
    assert function.__dict__.pop("note") == "a user's"


def test_functions_of_namespaces_are_methods_of_classes() -> None:
    class Owner:
        itself = arguments.explained(identity, __name__)

    owner = Owner()
    assert owner.itself() is owner
    assert Owner.itself(3) == 3
    with pytest.raises(errors.ArgumentError, match="identity: takes 1 positional argument"):
        owner.itself(1)


def test_an_explained_function_is_explained_once() -> None:
    once = arguments.explained(identity, "one")
    twice = arguments.explained(once, "two")
    assert arguments.is_function(twice) and twice(3) == 3
    assert (once.__module__, twice.__module__) == ("one", "two")
    with pytest.raises(errors.ArgumentError, match="identity: unknown keyword 'y'") as info:
        twice(1, y=2)
    assert info.value.__cause__ is None and info.value.__suppress_context__


@pytest.mark.parametrize("error", [TypeError, ValueError])
def test_what_a_function_raises_is_left_alone(error: type[Exception]) -> None:
    def fails(x: Any) -> Any:
        raise error("its own")

    with pytest.raises(error, match="its own") as info:
        arguments.explained(fails, __name__)(1)
    assert not isinstance(info.value, errors.FunctraxError)
    assert info.traceback[-1].name == "fails"
