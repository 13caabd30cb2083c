"""``numpy``: making arrays, dtypes, constants and questions about arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tier1.sample import BF16, TABLE, draw

for _args in ((5,), (2, 7), (1, 9, 3), (5, 0, -2), (0,), (2.5,), (1, 2, 0.25), (3, 1)):
    TABLE("numpy.arange", *_args)
TABLE("numpy.arange", 4, dtype="float32")
TABLE("numpy.arange", 0, 6, 2, dtype="uint8")
for _name in ("array", "asarray"):
    for _value in (2, 2.5, True, 1j, [1, 2], [1.5, 2], [[1, 2], [3, 4]], [], (1, True), [True]):
        TABLE(
            "numpy." + _name,
            want=lambda v=_value: np.array(v),
            run=lambda j, v=_value, n=_name: getattr(j.numpy, n)(v),
        )
    for _dtype in ("f4", "i4", "u1", "c8", "?", "f2", BF16):
        TABLE("numpy." + _name, draw((2, 3), 0, 9, _dtype))
    TABLE("numpy." + _name, draw((3,), 0, 9), dtype="int32", diff=False)
    TABLE("numpy." + _name, [draw((2,)), draw((2,))])
    TABLE("numpy." + _name, [1, 2], dtype="float16", diff=False)
TABLE("numpy.array", draw((3,)), ndmin=3)
TABLE("numpy.copy", draw((2, 3)))
TABLE("numpy.copy", 2)
for _name in ("zeros", "ones"):
    for _shape in ((), 3, (2, 3), (0, 2), [2, 1]):
        TABLE(
            "numpy." + _name,
            want=lambda s=_shape, n=_name: getattr(np, n)(s),
            run=lambda j, s=_shape, n=_name: getattr(j.numpy, n)(s),
        )
    for _dtype in ("int32", "bool", "complex64", "float16"):
        TABLE(
            "numpy." + _name,
            (2,),
            dtype=_dtype,
            run=lambda j, s, dtype, n=_name: getattr(j.numpy, n)(tuple(s), dtype),
        )
    TABLE(f"numpy.{_name}_like", draw((2, 3)), diff=False)
    TABLE(f"numpy.{_name}_like", draw((2, 3)), shape=(4,), dtype="int32", diff=False)
    TABLE(f"numpy.{_name}_like", 2)
TABLE("numpy.empty", (2, 3), want=lambda s: np.zeros(s))
TABLE("numpy.empty", (0,), dtype="int32", want=lambda s, dtype: np.zeros(s, dtype))
for _shape, _value in (((), 3), ((2, 3), 1.5), ((2,), True), ((0,), 1)):
    TABLE("numpy.full", _shape, _value)
    TABLE("numpy.full", _shape, _value, dtype="float16")
TABLE("numpy.full", (2, 3), draw((3,)))
TABLE("numpy.full_like", draw((2, 3)), 4.5, diff=False)
TABLE("numpy.full_like", draw((2, 3), 0, 9, "i4"), 4.5, want=lambda x, v: np.full_like(x, v))
TABLE("numpy.full_like", draw((2,)), 4, dtype="int32", shape=(3, 1), diff=False)
for _args, _options in (
    ((3,), {}),
    ((3, 4), {}),
    ((2, 4), {"k": 1}),
    ((3,), {"k": -1}),
    ((0,), {}),
    ((2,), {"dtype": "int32"}),
):
    TABLE("numpy.eye", *_args, **_options)
for _args, _options in (
    ((0, 1), {}),
    ((2, 5, 7), {}),
    ((0, 1, 4), {"endpoint": False}),
    ((0, 1, 1), {}),
    ((0, 1, 0), {}),
    ((3, 3, 4), {}),
    ((0, 1, 5), {"retstep": True}),
    ((0, 5, 3), {"dtype": "int32"}),
):
    TABLE("numpy.linspace", *_args, **_options)
TABLE("numpy.linspace", draw((2,)), draw((2,)), 4)
TABLE("numpy.linspace", draw((2,)), draw((2, 1)), 3, axis=-1)
TABLE("numpy.logspace", 0.0, 2.0, 5)
TABLE("numpy.logspace", 0, 3, 4, base=2.0, endpoint=False)
TABLE("numpy.logspace", draw((2,)), draw((2,)), 4, tol=1e-4)
TABLE("numpy.geomspace", 1.0, 100.0, 5)
TABLE("numpy.geomspace", draw((2,), 1, 2), draw((2,), 3, 4), 4, tol=1e-4)
TABLE("numpy.geomspace", 1, 8, 3, endpoint=False)
for _options in ({}, {"indexing": "ij"}, {"sparse": True}, {"indexing": "ij", "sparse": True}):
    TABLE("numpy.meshgrid", draw((2,)), draw((3,)), **_options)
    TABLE("numpy.meshgrid", draw((2,)), draw((3,), 0, 9, "i4"), draw((1,)), **_options)

# Dtypes and constants.
for _name in (
    "bool_",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint32",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
):
    TABLE("numpy." + _name, 1)
    TABLE(
        "numpy." + _name,
        [0, 1],
        run=lambda j, x, n=_name: getattr(j.numpy, n)(x),
        want=lambda x, n=_name: np.array(x, n.rstrip("_")),
    )
    TABLE(
        "numpy." + _name,
        run=lambda j, n=_name: str(j.numpy.dtype(getattr(j.numpy, n))),
        want=lambda n=_name: n.rstrip("_"),
    )
TABLE("numpy.bfloat16", 1.00390625, want=lambda x: np.float32(1))
TABLE(
    "numpy.bfloat16",
    draw((3,)),
    run=lambda j, x: j.numpy.bfloat16(x),
    want=lambda x: x.astype(BF16).astype("f4"),
    diff=False,
)
TABLE("numpy.astype", draw((3,)), "float64", want=lambda x, _: x)
TABLE("numpy.dtype", "float32", run=lambda j, x: j.numpy.dtype(x).name, want=lambda x: x)
for _name in ("inf", "nan", "pi", "newaxis"):
    TABLE(
        "numpy." + _name,
        run=lambda j, n=_name: repr(getattr(j.numpy, n)),
        want=lambda n=_name: repr(getattr(np, n)),
    )
for _name in ("floating", "integer", "complexfloating"):
    for _dtype in ("float32", "int8", "complex64", "bool", "bfloat16"):
        TABLE(
            "numpy." + _name,
            run=lambda j, n=_name, d=_dtype: j.numpy.issubdtype(
                j.numpy.dtype(d), getattr(j.numpy, n)
            ),
            want=lambda n=_name, d=_dtype: (
                n == "floating" if d == "bfloat16" else bool(np.issubdtype(d, getattr(np, n)))
            ),
        )
for _pair in (("float32", "floating"), ("int8", "signedinteger"), ("uint8", "signedinteger")):
    TABLE(
        "numpy.issubdtype",
        run=lambda j, p=_pair: j.numpy.issubdtype(p[0], getattr(j.numpy, p[1])),
        want=lambda p=_pair: bool(np.issubdtype(p[0], getattr(np, p[1]))),
    )


def limits(info: Any) -> dict[str, Any]:
    return {k: float(getattr(info, k)) for k in ("eps", "max", "min", "tiny", "bits")}


for _dtype in ("float16", "float32", "float64"):
    TABLE(
        "numpy.finfo",
        _dtype,
        run=lambda j, d: limits(j.numpy.finfo(d)),
        want=lambda d: limits(np.finfo(d)),
    )
TABLE("numpy.finfo", run=lambda j: float(j.numpy.finfo(j.numpy.bfloat16).eps), want=lambda: 2.0**-7)
TABLE(
    "numpy.ndarray",
    draw((2,)),
    diff=False,
    want=lambda x: True,
    run=lambda j, x: isinstance(j.numpy.asarray(x), j.numpy.ndarray),
)
for _name in ("ndim", "shape", "size"):
    TABLE("numpy." + _name, draw((2, 3)), diff=False)
    TABLE("numpy." + _name, 3)
    TABLE(
        "numpy." + _name,
        run=lambda j, n=_name: getattr(j.numpy, n)(j.numpy.zeros((0, 4))),
        want=lambda n=_name: getattr(np, n)(np.zeros((0, 4))),
    )
TABLE("numpy.size", draw((2, 3)), 1, diff=False)

#: operands, and the dtype that they have together
JOINED = [
    (("int8", "uint8"), "int16"),
    (("int32", "float16"), "float16"),
    (("bfloat16", "float16"), "float32"),
    (("float32", "complex64"), "complex64"),
    (("bool", "int8"), "int8"),
    ((1, "int8"), "int8"),
    ((1.0, "int8"), "float32"),
    ((1.0, "float16"), "float16"),
    ((True, 1), "int32"),
    ((1j, "float32"), "complex64"),
]
for _operands, _joined in JOINED:
    TABLE(
        "numpy.result_type",
        run=lambda j, xs=_operands: str(
            j.numpy.result_type(*(j.numpy.dtype(x) if isinstance(x, str) else x for x in xs))
        ),
        want=lambda d=_joined: d,
    )

# Questions about arrays.
_x = draw((2, 3))
for _name in ("allclose", "array_equal"):
    for _y in (_x, _x + 1, _x[:1], _x[:, :2] if _name == "array_equal" else _x):
        TABLE("numpy." + _name, _x, _y, diff=False)
    TABLE(
        "numpy." + _name,
        np.float32([np.nan, 1]),
        np.float32([np.nan, 1]),
        equal_nan=True,
        diff=False,
    )
TABLE("numpy.allclose", _x, _x + 0.1, atol=0.2, diff=False)
TABLE("numpy.allclose", np.zeros((0,), "f4"), np.zeros((0,), "f4"), diff=False)
for _dtype in ("float16", "int32", "complex64", "bool", "float32"):
    TABLE("numpy.astype", draw((2, 3), 0, 9), _dtype, diff=False)
    TABLE("numpy.astype", draw((3,), 0, 9, "i4"), _dtype)
