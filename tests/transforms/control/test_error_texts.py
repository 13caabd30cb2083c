"""The errors of loops, branches, indices, axis names and static arguments, all their parts."""

from __future__ import annotations

import re
from typing import Any

import pytest

import functrax
import functrax.numpy as jnp
from functrax import errors, lax

X = jnp.ones(3)
HASHABLE = (
    "a tuple instead of a list, a frozen dataclass instead of a dict; or leave it out of "
    "static_argnums if it is an array"
)

#: What is wrong: the kind of error, the call; and what, got and try of the text.
CASES: dict[str, tuple[str, Any, str, str, str]] = {
    "carry changes its dtype": (
        "DTypeError",
        lambda: lax.scan(
            lambda c, x: ({"total": c["total"] + x}, None), {"total": jnp.int32(0)}, X
        ),
        "scan: <lambda> changes the dtype of a carry",
        "carry['total'] was i32[] and becomes f32[]",
        "start from an array of dtype float32, or convert the result with .astype('int32')",
    ),
    "carry changes its shape": (
        "ShapeError",
        lambda: lax.fori_loop(0, 3, lambda i, c: (c[0], c[1][:2]), (X, X)),
        "fori_loop: <lambda> changes the shape of a carry",
        "carry[1] was f32[3] and becomes f32[2]",
        "carries keep their shapes; stack results of each step instead",
    ),
    "branches of different shapes": (
        "DTypeError",
        lambda: lax.cond(True, lambda: {"a": X}, lambda: {"a": X[:2]}),
        "cond: the branches return different types",
        "true_fun <lambda> and false_fun <lambda>: result['a'] is f32[3] and f32[2]",
        "return arrays of the same shapes and dtypes from every branch",
    ),
    "branches of different structures": (
        "PyTreeError",
        lambda: lax.cond(True, lambda: (X,), lambda: [X]),
        "cond: cond branch outputs must have the same pytree structure",
        "true_fun <lambda> and false_fun <lambda>: PyTreeDef((*,)) and PyTreeDef([*])",
        "return the same containers from every branch",
    ),
    "third branch of another type": (
        "DTypeError",
        lambda: lax.switch(0, [lambda: X, lambda: X, lambda: X > 0]),
        "switch: the branches return different types",
        "branches[2] <lambda> and branches[0] <lambda>: result is bool[3] and f32[3]",
        "return arrays of the same shapes and dtypes from every branch",
    ),
    "predicate of many elements": (
        "DTypeError",
        lambda: lax.cond(X > 0, lambda: 1, lambda: 2),
        "cond: the predicate is not a real scalar",
        "bool[3]",
        "pred.all() or pred.any(); functrax.numpy.where or vmap to choose by element",
    ),
    "predicate that is no array": (
        "DTypeError",
        lambda: lax.cond("a", lambda: 1, lambda: 2),
        "the predicate of cond is not an array or a scalar",
        "Value 'a' of type <class 'str'> is not a valid JAX type",
        "give arrays, NumPy arrays or numbers",
    ),
    "condition of many elements": (
        "ShapeError",
        lambda: lax.while_loop(lambda c: c > 0, lambda c: c, X),
        "while_loop: <lambda> does not return one scalar of bool",
        "bool[3]",
        "a comparison, or .all() or .any() of one",
    ),
    "condition that is no bool": (
        "ShapeError",
        lambda: lax.while_loop(lambda c: c, lambda c: c, 3),
        "while_loop: <lambda> does not return one scalar of bool",
        "~i32[]",
        "a comparison, or .all() or .any() of one",
    ),
    "index of a switch is a float": (
        "DTypeError",
        lambda: lax.switch(1.5, [lambda: 1, lambda: 2]),
        "switch: the index is not a scalar integer",
        "~f32[]",
        "index.astype('int32')",
    ),
    "index of a switch is a bool": (
        "DTypeError",
        lambda: lax.switch(True, [lambda: 1, lambda: 2]),
        "switch: the index is not a scalar integer",
        "bool[]",
        "index.astype('int32')",
    ),
    "index of a switch is an array": (
        "DTypeError",
        lambda: lax.switch(jnp.arange(2), [lambda: 1, lambda: 2]),
        "switch: the index is not a scalar integer",
        "i32[2]",
        "index.astype('int32')",
    ),
    "index is a float": (
        "IndexingError",
        lambda: X[1.5],
        "indexing: Indexer must have integer or boolean type, got indexer with type float",
        "1.5 of type float",
        "an integer or an array",
    ),
    "index is an array of floats": (
        "IndexingError",
        lambda: X[jnp.array([1.0, 2.0])],
        "indexing: Indexer must have integer or boolean type, got indexer with type float32",
        "an array of float32",
        "index.astype('int32')",
    ),
    "index of an update is a float": (
        "IndexingError",
        lambda: X.at[1.5].set(2.0),
        "indexing: Indexer must have integer or boolean type, got indexer with type float",
        "1.5 of type float",
        "an integer or an array",
    ),
    "indices of take are floats": (
        "DTypeError",
        lambda: jnp.take(X, jnp.array([1.5])),
        "take indices must be of integer type, got float32",
        "f32[1]",
        "indices.astype('int32')",
    ),
    "start of a slice is a float": (
        "DTypeError",
        lambda: lax.dynamic_slice(X, (1.5,), (2,)),
        "dynamic_slice: a start is not an integer scalar",
        "~f32[]",
        "an integer for each axis",
    ),
    "indices of gather are floats": (
        "DTypeError",
        lambda: lax.gather(X, jnp.array([[1.5]]), lax.GatherDimensionNumbers((), (0,), (0,)), (1,)),
        "gather: the indices are not integers",
        "f32[1,1]",
        "lax.convert_element_type(indices, 'int32')",
    ),
    "slice of floats": (
        "IndexingError",
        lambda: X[0.5:2],
        "indexing: not a slice: slice indices must be integers or None or have an __index__ method",
        "slice(0.5, 2, None)",
        "integers, and no step of 0",
    ),
    "another axis name": (
        "AxisNameError",
        lambda: functrax.vmap(lambda x: lax.psum(x, "j"), axis_name="i")(X),
        "axis name 'j' is not bound here",
        "bound axis names: 'i'",
        "functrax.vmap(f, axis_name='j') around the function that uses it",
    ),
    "no axis name is bound": (
        "AxisNameError",
        lambda: functrax.jit(lambda x: lax.pmean(x, "batch"))(X),
        "axis name 'batch' is not bound here",
        "bound axis names: none",
        "functrax.vmap(f, axis_name='batch') around the function that uses it",
    ),
    "index of another axis": (
        "AxisNameError",
        lambda: functrax.vmap(lambda x: lax.axis_index("j"), axis_name="i")(X),
        "axis name 'j' is not bound here",
        "bound axis names: 'i'",
        "functrax.vmap(f, axis_name='j') around the function that uses it",
    ),
    "static list": (
        "StaticArgumentError",
        lambda: functrax.jit(lambda x, o: x, static_argnums=1)(X, [1]),
        "jit: Non-hashable static arguments are not supported: a static argument of <lambda> "
        "cannot be hashed",
        "position 1 is [1] of type list",
        HASHABLE,
    ),
    "static dict by name": (
        "StaticArgumentError",
        lambda: functrax.jit(lambda x, o: x, static_argnames="o")(X, o={"a": 1}),
        "jit: Non-hashable static arguments are not supported: a static argument of <lambda> "
        "cannot be hashed",
        "o is {'a': 1} of type dict",
        HASHABLE,
    ),
    "static array": (
        "StaticArgumentError",
        lambda: functrax.jit(lambda x, o: x, static_argnums=1)(X, X),
        "jit: Non-hashable static arguments are not supported: a static argument of <lambda> "
        "cannot be hashed",
        "position 1 is Array([1., 1., 1.], dtype=float32) of type Array",
        HASHABLE,
    ),
    "static position out of range": (
        "StaticArgumentError",
        lambda: functrax.jit(lambda x, o: x, static_argnums=2),
        "jit: static_argnums 2 is out of range",
        "<lambda> has the positional parameters ['x', 'o']",
        "a position from 0 to 1",
    ),
    "negative static position out of range": (
        "StaticArgumentError",
        lambda: functrax.jit(lambda x, o: x, static_argnums=-3),
        "jit: static_argnums -3 is out of range",
        "<lambda> has the positional parameters ['x', 'o']",
        "a position from 0 to 1",
    ),
    "static name of no parameter": (
        "StaticArgumentError",
        lambda: functrax.jit(lambda x, o: x, static_argnames="oo"),
        "jit: static_argnames names no parameter of <lambda>: 'oo'",
        "<lambda> has the parameters ['x', 'o']",
        "one of these names",
    ),
    "static position is a string": (
        "ArgumentError",
        lambda: functrax.jit(lambda x, o: x, static_argnums="o"),
        "jit: static_argnums holds 'o'",
        "str",
        "ints in argnums, strings in argnames",
    ),
    "static position is a float": (
        "ArgumentError",
        lambda: functrax.jit(lambda x, o: x, static_argnums=1.0),
        "jit: static_argnums holds 1.0",
        "float",
        "ints in argnums, strings in argnames",
    ),
    "static name is an int": (
        "ArgumentError",
        lambda: functrax.jit(lambda x, o: x, static_argnames=1),
        "jit: static_argnames holds 1",
        "int",
        "ints in argnums, strings in argnames",
    ),
    "static and donated": (
        "StaticArgumentError",
        lambda: functrax.jit(lambda x, o: x, static_argnums=1, donate_argnums=1),
        "jit: an argument of <lambda> is both static and donated: static_argnames and "
        "donate_argnames cannot intersect",
        "positions [1]",
        "donate arrays only; static arguments have no buffer",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_text(name: str) -> None:
    kind, call, what, got, fix = CASES[name]
    with pytest.raises(getattr(errors, kind)) as caught:
        call()
    line = call.__code__.co_firstlineno
    parts = re.split(r"\n  (?:got   |at    |try   )", str(caught.value))
    assert parts[:2] + parts[3:] == [what, got, fix]
    place = re.fullmatch(r"test_error_texts\.py:(\d+) in <lambda>", parts[2])
    assert place is not None, parts[2]
    assert line <= int(place[1]) <= line + 8
