"""Attributes and methods of arrays, and what Python makes of arrays."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from tests.tier1.sample import TABLE, distinct, draw

X = distinct((3, 4)) / 4


def method(
    name: str, *args: Any, x: Any = X, want: Any = None, diff: bool = True, **options: Any
) -> None:
    """``x.name(...)`` on an array, and on what it is while it is traced."""
    answer = want if want is not None else lambda x, *a: getattr(x, name)(*a, **options)
    TABLE(
        "Array." + name,
        x,
        *args,
        want=answer,
        diff=diff,
        run=lambda j, x, *a: getattr(j.numpy.asarray(x), name)(*a, **options),
    )


def attribute(name: str, want: Any = None, diff: bool = True, x: Any = X, show: Any = None) -> None:
    shown = show if show is not None else lambda y: y
    TABLE(
        "Array." + name,
        x,
        want=want if want is not None else lambda x: getattr(x, name),
        diff=diff,
        run=lambda j, x: shown(getattr(j.numpy.asarray(x), name)),
    )


for _name in ("sum", "prod", "mean", "std", "var", "max", "min", "any", "all"):
    for _options in ({}, {"axis": 0}, {"axis": (0, 1), "keepdims": True}):
        method(_name, **_options)
        method(_name, x=draw((2, 3), 0, 9, "i4"), **_options)
for _name in ("argmax", "argmin"):
    for _options in ({}, {"axis": 1}, {"axis": 0, "keepdims": True}):
        method(_name, **_options)
for _name in ("cumsum", "cumprod"):
    for _options in ({}, {"axis": 1}):
        method(_name, **_options)
for _axis in (0, 1):
    method("sort", want=lambda x, a=_axis: np.sort(x, a), axis=_axis)
    method("argsort", want=lambda x, a=_axis: np.argsort(x, a), axis=_axis)
for _args in ((2, 6), ((4, 3),), (-1,), (1, 12, -1)):
    method("reshape", *_args)
for _name, _args in (
    ("ravel", ()),
    ("flatten", ()),
    ("transpose", ()),
    ("transpose", (1, 0)),
    ("transpose", ((1, 0),)),
    ("swapaxes", (0, 1)),
    ("repeat", (2, 1)),
    ("trace", ()),
    ("trace", (1,)),
    ("diagonal", ()),
    ("diagonal", (-1,)),
    ("take", (np.array([[0, 5], [-1, 2]]),)),
    ("take", (np.array([0, 1]), 1)),
    ("dot", (draw((4, 2)),)),
    ("dot", (draw((4,)),)),
    ("copy", ()),
    ("conj", ()),
    ("conjugate", ()),
    ("clip", (-0.3, 0.3)),
):
    method(_name, *_args)
method("round", 1, diff=False)
method("nonzero", diff=False)
method("conj", x=draw((2,), dtype="c8"))
method("conjugate", x=draw((2,), dtype="c8"))
method("squeeze", x=draw((1, 3, 1)))
method("squeeze", x=draw((1, 3, 1)), axis=0)
method("searchsorted", np.float32([0.5, 9]), x=np.float32([0, 1, 2]))
method("searchsorted", 1.0, x=np.float32([0, 1, 2]), side="right")
for _dtype in ("int32", "float16", "complex64", "bool"):
    method("astype", _dtype, diff=False)
method("astype", "float64", want=lambda x, _: x)
method("view", "int32", diff=False)
method(
    "view",
    "uint16",
    x=draw((2, 3), dtype="f2"),
    want=lambda x, d: x.astype("f2").view(d),
    diff=False,
)
for _value in (np.float32(2.5), np.int32(3), np.array([[7]], "i4"), np.array(True)):
    method("item", x=_value)
method("item", 1, x=np.array([4, 5], "i4"))
for _value in (X, np.int32(3), np.array([True]), draw((0, 2))):
    method("tolist", x=_value, diff=False)
for _name in ("T", "mT"):
    attribute(_name)
    attribute(_name, x=draw((2, 3, 4)))
for _name in ("real", "imag"):
    attribute(_name)
    attribute(_name, x=draw((3,), dtype="c8"))
for _name in ("ndim", "size", "nbytes", "itemsize"):
    attribute(_name)
attribute("shape", show=tuple)
attribute("dtype", show=str, want=lambda x: "float32", diff=False)
for _value in (2.0, 2, True, np.float32(1)):
    attribute("weak_type", x=_value, want=lambda x: type(x) in (int, float))
attribute("is_fully_addressable", want=lambda x: True, diff=False)
attribute("is_fully_replicated", want=lambda x: True, diff=False)
attribute("committed", want=lambda x: False, diff=False)
attribute("traceback", want=lambda x: None, diff=False)
attribute("flat", want=np.ravel, diff=False)
for _name in ("addressable_shards", "global_shards"):
    attribute(_name, show=lambda s: [y.data for y in s], want=lambda x: [x], diff=False)
method("tobytes", diff=False)
method("byteswap", x=draw((2, 3), 0, 9, "i4"), diff=False)
TABLE(
    "Array.to_device",
    X,
    run=lambda j, x: j.numpy.asarray(x).to_device(j.numpy.asarray(x).device),
    want=lambda x: x,
    diff=False,
)
TABLE(
    "Array.unsafe_buffer_pointer",
    X,
    run=lambda j, x: type(j.jit(lambda y: y + 1)(x).unsafe_buffer_pointer()).__name__,
    want=lambda x: "int",
    diff=False,
)
attribute("sharding", show=lambda s: len(s.device_set), want=lambda x: 1, diff=False)
attribute("device", show=lambda d: d is not None, want=lambda x: True, diff=False)
TABLE(
    "Array.devices",
    X,
    run=lambda j, x: [type(d).__name__ != "" for d in j.numpy.asarray(x).devices()],
    want=lambda x: [True],
    diff=False,
)
method("block_until_ready", want=lambda x: x, diff=False)
method("copy_to_host_async", want=lambda x: None, diff=False)
method("on_device_size_in_bytes", want=lambda x: x.nbytes, diff=False)
method("addressable_data", 0, want=lambda x, _: x, diff=False)


def deleted(j: Any, x: Any) -> Any:
    y = j.numpy.array(x)
    before = y.is_deleted()
    y.delete()
    return before, y.is_deleted()


for _name in ("delete", "is_deleted"):
    TABLE("Array." + _name, X, run=deleted, want=lambda x: (False, True), diff=False)


def set_at(x: Any, value: Any) -> Any:
    out = np.array(x)
    out[np.array([0, 2])] = value
    return out


TABLE(
    "Array.at",
    X,
    draw((4,)),
    run=lambda j, x, v: j.numpy.asarray(x).at[np.array([0, 2])].set(v),
    want=set_at,
)
TABLE(
    "Array.at",
    X,
    run=lambda j, x: j.numpy.asarray(x).at[np.array([1, 1]), :2].add(3.0),
    want=lambda x: x + 6.0 * np.outer([0, 1, 0], [1, 1, 0, 0]),
)
TABLE(
    "Array.at",
    X,
    run=lambda j, x: j.numpy.asarray(x).at[5].get(mode="fill", fill_value=7),
    want=lambda x: np.full(4, 7.0),
    diff=False,
)

# Python's protocols.
SPECIAL: dict[str, tuple[Any, list[Any]]] = {
    "__bool__": (bool, [np.float32(0), np.array([[2]], "i4"), True]),
    "__int__": (int, [np.float32(2.7), np.array(3)]),
    "__float__": (float, [np.float32(0.5), 3]),
    "__complex__": (complex, [np.complex64(1 + 2j), 2.0]),
    "__index__": (range, [np.int32(3), np.array(2, "u1")]),
    "__len__": (len, [X, draw((0, 2))]),
    "__array__": (np.asarray, [X, np.int32(3)]),
    "__iter__": (list, [X, np.arange(3)]),
    "__format__": (lambda x: f"{x:.3f}", [np.float32(2.5)]),
    "__reduce__": (lambda x: pickle.loads(pickle.dumps(x)), [X, draw((2,), 0, 9, "i4")]),
    "__dlpack__": (lambda x: np.array(np.from_dlpack(x)), [X]),
    "__array_namespace__": (lambda x: True, []),
}
for _name, (_call, _values) in SPECIAL.items():
    for _value in _values:
        TABLE(
            "Array." + _name,
            _value,
            diff=_name == "__iter__",
            want=_call,
            run=lambda j, x, f=_call: f(j.numpy.asarray(x)),
        )
TABLE(
    "Array.__array_namespace__",
    X,
    diff=False,
    want=lambda x: True,
    run=lambda j, x: j.numpy.asarray(x).__array_namespace__() is j.numpy,
)
TABLE(
    "Array.__repr__",
    run=lambda j: repr(j.numpy.asarray(np.float32([1.5, 2]))),
    want=lambda: "Array([1.5, 2. ], dtype=float32)",
)
TABLE(
    "Array.__repr__",
    run=lambda j: repr(j.numpy.arange(4).reshape(2, 2)),
    want=lambda: "Array([[0, 1],\n       [2, 3]], dtype=int32)",
)
