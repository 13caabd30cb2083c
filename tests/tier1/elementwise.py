"""Elementwise functions of ``numpy``, ``lax``, ``nn`` and ``scipy.special``.

Letters name dtypes: f float32, h float16 and bfloat16, i int32, b int8, u uint8, t bool,
c complex64, s a Python scalar (weakly typed), x special values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special as sp

from tests.tier1.sample import BF16, TABLE, draw

SHAPES: list[tuple[int, ...]] = [(), (4,), (0, 2), (2, 1, 3)]
DTYPES = {"h": ["f2", BF16], "i": ["i4"], "b": ["i1"], "u": ["u1"], "t": ["?"], "c": ["c8"]}
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], "f4")


def unary(name: str, want: Any, low: float, high: float, letters: str, **options: Any) -> None:
    """A function of one array, for shapes and dtypes."""
    for shape in SHAPES:
        TABLE(name, draw(shape, low, high), want=want, **options)
    for letter in letters:
        for dtype in DTYPES.get(letter, []):
            bound = 0 if letter in "ct" else low
            diff = options.get("diff", True) and letter == "c"
            TABLE(
                name,
                draw((2, 3), bound or low, high + (letter in "ib"), dtype),
                want=want,
                **{**options, "diff": diff},
            )
    if "s" in letters:
        TABLE(name, float(draw((), low, high)), want=want, **options)
        TABLE(name, 1, want=want, **options)
        single = lambda x: want(np.float32(x)) if np.result_type(want(x)) == "f2" else want(x)
        TABLE(name, True, want=single, **options)
    if "x" in letters:
        TABLE(name, SPECIAL, want=want, **{**options, "diff": False})


def binary(name: str, want: Any, low: float, high: float, letters: str, **options: Any) -> None:
    """A function of two arrays: shapes that broadcast, dtypes that are promoted."""
    jnp = name.startswith("numpy")
    pairs = [((4,), (4,)), ((), ()), ((0, 2), (0, 2))]
    pairs += [((2, 1, 3), (4, 1)), ((), (3,)), ((1,), (0,))] if jnp else []
    for a, b in pairs:
        TABLE(name, draw(a, low, high), draw(b, low, high), want=want, **options)
    still = {**options, "diff": False}
    dtypes = [d for letter in letters for d in DTYPES.get(letter, [])]
    for dtype in dtypes:
        x, y = draw((3,), low, high + 1, dtype), draw((3,), low, high + 1, dtype)
        TABLE(name, x, y, want=want, **(options if dtype == "c8" else still))
        if jnp and dtype != "c8":
            other = draw((3,), low, high)
            TABLE(name, x, other, want=want, **still)
            TABLE(name, other, x, want=want, **still)
    if jnp and "i" in letters and "u" in letters:
        TABLE(name, draw((3,), low, high, "i1"), draw((3,), low, high, "u1"), want=want, **still)
        TABLE(name, draw((3,), low, high, "i4"), draw((3,), low, high, "i2"), want=want, **still)
    if "s" in letters:
        x = draw((3,) if jnp else (), low, high)
        TABLE(name, x, 2.0, want=want, **options)
        TABLE(name, 2, x, want=want, **options)
        TABLE(name, 1.5, 2, want=want, **options) if jnp else None
    if "x" in letters:
        TABLE(name, np.repeat(SPECIAL, 7), np.tile(SPECIAL, 7), want=want, **still)


def remainder(x: Any, y: Any) -> Any:
    return np.fmod(x, y)


def divide(x: Any, y: Any) -> Any:
    """``lax.div``: towards zero for integers."""
    if np.result_type(x, y).kind in "iu":
        return np.trunc(np.true_divide(x, y)).astype(np.result_type(x, y))
    return np.divide(x, y)


def gelu(x: Any, approximate: bool = True) -> Any:
    x = np.asarray(x) * 1.0
    if not approximate:
        return x * sp.ndtr(x)
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


UNARY = {
    "abs": (np.abs, 0.2, 3, "hibutsx"),
    "absolute": (np.absolute, -3, -0.2, "hibutsx"),
    "arccos": (np.arccos, -0.9, 0.9, "hcx"),
    "arcsin": (np.arcsin, -0.9, 0.9, "hcx"),
    "arctan": (np.arctan, -3, 3, "hicsx"),
    "ceil": (np.ceil, -3, 3, "hibusx"),
    "conj": (np.conj, -3, 3, "hicx"),
    "cos": (np.cos, -3, 3, "hicsx"),
    "cosh": (np.cosh, -3, 3, "hicsx"),
    "exp": (np.exp, -3, 3, "hicsx"),
    "expm1": (np.expm1, -2, 3, "hicsx"),
    "floor": (np.floor, -3, 3, "hibusx"),
    "isfinite": (np.isfinite, -3, 3, "hicsx"),
    "isinf": (np.isinf, -3, 3, "hicsx"),
    "isnan": (np.isnan, -3, 3, "hicsx"),
    "iscomplexobj": (np.iscomplexobj, -3, 3, "hicsx"),
    "log": (np.log, 0.3, 3, "hcsx"),
    "log1p": (np.log1p, -0.5, 3, "hcsx"),
    "logical_not": (np.logical_not, -3, 3, "ibutcsx"),
    "negative": (np.negative, -3, 3, "hibucx"),
    "round": (np.round, -3, 3, "hix"),
    "sign": (np.sign, -3, 3, "hibucx"),
    "sin": (np.sin, -3, 3, "hicsx"),
    "sinh": (np.sinh, -3, 3, "hicsx"),
    "sqrt": (np.sqrt, 0.3, 3, "hcsx"),
    "square": (np.square, -3, 3, "hibucsx"),
    "tan": (np.tan, -1, 1, "hicsx"),
    "tanh": (np.tanh, -3, 3, "hicsx"),
    "nan_to_num": (np.nan_to_num, -3, 3, "ic"),
}
for _name, (_want, *_rest) in UNARY.items():
    unary("numpy." + _name, _want, *_rest)
TABLE("numpy.nan_to_num", SPECIAL, diff=False, want=lambda x: np.nan_to_num(x.astype("f4")))
TABLE("numpy.nan_to_num", SPECIAL, nan=1.0, posinf=2.0, neginf=-3.0, diff=False)
for _decimals in (1, 2, -1, 0):
    TABLE("numpy.round", draw((5,), -30, 30), decimals=_decimals)
TABLE("numpy.round", np.array([0.5, 1.5, 2.5, -0.5], "f4"), diff=False)

BINARY = {
    "add": (np.add, -3, 3, "hibutcsx"),
    "subtract": (np.subtract, -3, 3, "hiucsx"),
    "multiply": (np.multiply, -3, 3, "hibutcsx"),
    "divide": (np.divide, 0.5, 3, "hcsx"),
    "power": (np.power, 0.5, 3, "hcs"),
    "mod": (np.mod, 0.7, 9, "hsx"),
    "maximum": (np.maximum, -3, 3, "hibutsx"),
    "minimum": (np.minimum, -3, 3, "hibutsx"),
    "logaddexp": (np.logaddexp, -3, 3, "hsx"),
    "arctan2": (np.arctan2, 0.3, 3, "hsx"),
    "equal": (np.equal, -3, 3, "hibutcsx"),
    "isclose": (np.isclose, -3, 3, "ics"),
    "logical_and": (np.logical_and, -3, 3, "ibutcsx"),
    "logical_or": (np.logical_or, -3, 3, "ibutcsx"),
}
for _name, (_want, *_rest) in BINARY.items():
    binary("numpy." + _name, _want, *_rest)
for _dtype in ("i4", "i1", "u1"):
    _x, _y = draw((6,), -9, 9, _dtype), np.array([1, 2, 3, 4, 5, 6], _dtype)
    TABLE("numpy.mod", _x, _y)
    TABLE("numpy.mod", _x, 3)
    TABLE("numpy.divide", _x, _y)
    TABLE("numpy.power", _y, 2)
    TABLE("numpy.power", _y, _y[::-1] % 2 + 1)
TABLE("numpy.mod", draw((5,), -9, 9), -2.3)
TABLE("numpy.power", draw((4,), -2, -1), 3, want=lambda x, n: x**n)
TABLE("numpy.power", draw((4,), -2, -1), -2, want=lambda x, n: x**n)
TABLE("numpy.isclose", SPECIAL, SPECIAL[::-1].copy(), diff=False)
TABLE("numpy.isclose", SPECIAL, SPECIAL, equal_nan=True, diff=False)
TABLE("numpy.isclose", draw((4,)), draw((4,)), rtol=0.5, atol=1.0)
TABLE("numpy.arctan2", draw((4,), -3, -1), draw((4,), -3, -1))

LAX_UNARY = {
    "abs": (np.abs, -3, -0.2, "hibx"),
    "cos": (np.cos, -3, 3, "hcx"),
    "exp": (np.exp, -3, 3, "hcx"),
    "expm1": (np.expm1, -2, 2, "hcx"),
    "log": (np.log, 0.3, 3, "hcx"),
    "log1p": (np.log1p, -0.5, 3, "hcx"),
    "neg": (np.negative, -3, 3, "hibcx"),
    "sin": (np.sin, -3, 3, "hcx"),
    "sqrt": (np.sqrt, 0.3, 3, "hcx"),
    "tan": (np.tan, -1, 1, "hcx"),
    "tanh": (np.tanh, -3, 3, "hcx"),
    "digamma": (sp.digamma, 0.5, 4, "h"),
    "lgamma": (sp.gammaln, 0.5, 4, "h"),
    "erf": (sp.erf, -3, 3, "hx"),
    "erfc": (sp.erfc, -3, 3, "hx"),
    "erf_inv": (sp.erfinv, -0.9, 0.9, "h"),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.3, 3, "hcx"),
}
for _name, (_want, *_rest) in LAX_UNARY.items():
    unary("lax." + _name, _want, *_rest)

for _dtype in ("f4", "i4", "c8", BF16):
    TABLE(
        "lax.stop_gradient",
        draw((2, 3), dtype=_dtype),
        want=lambda x: x,
        diff=False,
        run=lambda j, x: j.lax.stop_gradient(j.numpy.asarray(x)),
    )
TABLE(
    "lax.stop_gradient",
    draw((3,)),
    want=lambda x: 3.0 + 0 * x,
    run=lambda j, x: j.jvp(lambda x: x * 3 + j.lax.stop_gradient(x), (x,), (1 + 0 * x,))[1],
)

LAX_BINARY = {
    "add": (np.add, -3, 3, "hibucx"),
    "sub": (np.subtract, -3, 3, "hibucx"),
    "mul": (np.multiply, -3, 3, "hibucx"),
    "div": (divide, 0.5, 3, "hcx"),
    "rem": (remainder, 0.7, 9, "hx"),
    "max": (np.maximum, -3, 3, "hibutx"),
    "min": (np.minimum, -3, 3, "hibutx"),
    "pow": (np.power, 0.5, 3, "hc"),
    "eq": (np.equal, -2, 2, "hibutcx"),
    "ne": (np.not_equal, -2, 2, "hibutcx"),
    "lt": (np.less, -2, 2, "hibux"),
    "le": (np.less_equal, -2, 2, "hibux"),
    "gt": (np.greater, -2, 2, "hibux"),
    "ge": (np.greater_equal, -2, 2, "hibux"),
}
for _name, (_want, *_rest) in LAX_BINARY.items():
    binary("lax." + _name, _want, *_rest)
for _dtype in ("i4", "i1", "u1"):
    _x, _y = draw((6,), -9, 9, _dtype), np.array([1, 2, 3, 4, 5, 6], _dtype)
    TABLE("lax.div", _x, _y, want=divide)
    TABLE("lax.rem", _x, _y, want=remainder)
for _n in (0, 1, 2, 3, 5, -1, -2):
    TABLE("lax.integer_pow", draw((2, 3), 0.5, 2), _n, want=lambda x, n: x ** float(n))
TABLE("lax.integer_pow", draw((3,), -2, 2, "i4"), 3, want=lambda x, n: x**n)
TABLE(
    "lax.pow",
    draw((3,), -2, -1),
    np.array(2, "i4"),
    want=lambda x, n: x**n,
    run=lambda j, x, n: j.lax.pow(x, n),
)


def silu(x: Any) -> Any:
    return x * sp.expit(x)


unary("nn.relu", lambda x: np.maximum(x, 0), 0.2, 3, "hisx")
unary("nn.relu", lambda x: np.maximum(x, 0), -3, -0.2, "hx")
unary("nn.sigmoid", sp.expit, -3, 3, "hx")
TABLE("nn.sigmoid", 0.5, want=sp.expit)
unary("nn.softplus", lambda x: np.logaddexp(x, 0.0), -3, 3, "hsx")
unary("nn.gelu", gelu, -3, 3, "hs")
TABLE("nn.gelu", draw((5,)), want=gelu, approximate=False)
TABLE("nn.gelu", draw((2, 3)), want=gelu, approximate=True)
unary("scipy.special.expit", sp.expit, -3, 3, "hsx")


def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    wide = x if where is None else np.where(where, x, -np.inf)
    return wide - sp.logsumexp(wide, axis=axis, keepdims=True)


def softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    return np.exp(log_softmax(x, axis, where))


_mask = np.array([[True, False, True], [True, True, False]])
for _name, _want in (("nn.softmax", softmax), ("nn.log_softmax", log_softmax)):
    for _axis in (-1, 0, (0, 1), None):
        TABLE(_name, draw((2, 3)), axis=_axis, want=_want)
    TABLE(_name, draw((4,), 80, 100), want=_want)
    TABLE(_name, draw((2, 3), dtype="f2"), want=_want)
    TABLE(_name, draw((2, 3), 0, 5, "i4"), want=_want)
    TABLE(_name, draw((2, 3)), where=_mask, want=_want, diff=_name == "nn.softmax")


def one_hot(x: Any, n: int, axis: int = -1, dtype: Any = "f4") -> Any:
    return np.moveaxis((np.asarray(x)[..., None] == np.arange(n)).astype(dtype), -1, axis)


for _options in ({}, {"axis": 0}, {"axis": -1, "dtype": "int32"}, {"axis": 1}):
    TABLE("nn.one_hot", np.array([[0, 2], [3, -1]]), 4, want=one_hot, **_options)
TABLE("nn.one_hot", 2, 4, want=one_hot)
TABLE("nn.one_hot", np.zeros((0,), int), 3, want=one_hot)
TABLE("nn.one_hot", np.array([0, 1], "u1"), 0, want=one_hot)

for _options in ({}, {"axis": 0}, {"axis": (0, 1)}, {"axis": 1, "keepdims": True}):
    TABLE("scipy.special.logsumexp", draw((2, 3)), want=sp.logsumexp, **_options)
    TABLE(
        "scipy.special.logsumexp",
        draw((2, 3)),
        b=np.float32([[1], [2]]),
        want=sp.logsumexp,
        **_options,
    )
TABLE("scipy.special.logsumexp", np.float32([-np.inf, -np.inf]), diff=False, want=sp.logsumexp)
TABLE("scipy.special.logsumexp", draw((3,), 1000, 1010), want=sp.logsumexp)
TABLE(
    "scipy.special.logsumexp",
    np.float32([[1, -2], [3, 4]]),
    b=np.float32([1, -3]),
    axis=1,
    return_sign=True,
    want=sp.logsumexp,
)
TABLE("scipy.special.logsumexp", draw((3,), 0, 5, "i4"), want=sp.logsumexp)
TABLE("scipy.special.logsumexp", 2.0, want=sp.logsumexp)
