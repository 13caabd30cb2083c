"""Reductions, statistics, cumulative functions, sorting and searching of ``numpy``."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tier1.sample import BF16, TABLE, distinct, draw

AXES: list[Any] = [None, 0, -1, (0, 2), (), 1]
MASK = draw((2, 3, 4), dtype="?")
NANS = np.array([[1.0, np.nan, -2.0], [np.inf, 3.0, 0.5]], "f4")


def reduction(name: str, low: float, high: float, initial: bool, where: Any, dtypes: str) -> None:
    """Axes, keepdims, where and initial; integer, boolean and 16-bit operands; zero sizes."""
    x = distinct((2, 3, 4)) / 5 if name in ("max", "min") else draw((2, 3, 4), low, high)
    for axis in AXES:
        smooth = (name, axis) != ("std", ())
        TABLE("numpy." + name, x, axis=axis, diff=smooth)
        TABLE("numpy." + name, x, axis=axis, keepdims=True, diff=smooth)
    if where is not None:
        TABLE("numpy." + name, x, axis=1, where=MASK, diff=name != "std", **where)
        TABLE("numpy." + name, x, where=MASK[:1], **where)
    if initial:
        TABLE("numpy." + name, x, axis=0, initial=1.5)
        TABLE("numpy." + name, np.zeros((0, 3), "f4"), axis=0, initial=2.0)
    for dtype in [*dtypes, *([BF16] if "e" in dtypes else [])]:
        y = draw((2, 3), max(low, 0) if dtype == "B" else low, high, dtype)
        TABLE("numpy." + name, y, diff=dtype == "F")
        TABLE("numpy." + name, y, axis=0, diff=dtype == "F")
    TABLE("numpy." + name, NANS, axis=1, diff=False)
    TABLE("numpy." + name, draw((), low, high), diff=name != "std")
    if name not in ("max", "min"):
        TABLE("numpy." + name, np.zeros((3, 0), "f4"), axis=0)


for _args in (
    ("sum", -2, 2, True, {}, "iBb?eF"),
    ("prod", 0.5, 2, True, {}, "iBb?eF"),
    ("mean", -2, 2, False, {}, "iB?eF"),
    ("std", -2, 2, False, {}, "ieF"),
    ("var", -2, 2, False, {}, "ieF"),
    ("max", -2, 2, True, {"initial": -9.0}, "iBbe?"),
    ("min", -2, 2, True, {"initial": 9.0}, "iBbe?"),
    ("all", 0, 2, False, {}, "iB?eF"),
    ("any", 0, 2, False, {}, "iB?eF"),
):
    reduction(*_args)
TABLE("numpy.sum", np.zeros((0,), "f4"))
TABLE("numpy.prod", np.zeros((0,), "i4"))
TABLE("numpy.prod", np.float32([[1, 0, 3], [2, 4, 5]]), axis=1)
TABLE("numpy.sum", draw((3,)), dtype="float16", tol=3e-3, diff=False)
TABLE("numpy.sum", draw((3,), 0, 9, "u1"), dtype="int32")
TABLE("numpy.mean", draw((3, 2), 0, 9, "i4"), axis=0, dtype="float32", diff=False)
for _ddof in (0, 1, 2):
    TABLE("numpy.var", draw((4, 3)), axis=0, ddof=_ddof)
    TABLE("numpy.std", draw((4, 3)), axis=-1, ddof=_ddof, keepdims=True)
    TABLE("numpy.cov", draw((3, 5)), ddof=_ddof)
for _name in ("argmax", "argmin"):
    for _axis in (None, 0, 1, -1):
        TABLE("numpy." + _name, distinct((3, 4)), axis=_axis)
        TABLE("numpy." + _name, draw((3, 4), -2, 2, "i4"), axis=_axis, keepdims=True)
    TABLE("numpy." + _name, NANS, axis=1)
    TABLE("numpy." + _name, np.array([True, False, True]))
    TABLE("numpy." + _name, draw((2, 3), 0, 9, "u1"), axis=0)
for _name in ("cumsum", "cumprod"):
    for _axis in (None, 0, 1, -1):
        TABLE("numpy." + _name, draw((3, 4), 0.5, 2), axis=_axis)
    for _dtype in ("i4", "u1", "?", "c8"):
        TABLE("numpy." + _name, draw((2, 3), 0, 3, _dtype), axis=1)
    TABLE("numpy." + _name, np.zeros((0, 2), "f4"), axis=0)
    TABLE("numpy." + _name, draw((3,), 0, 3, "i4"), dtype="float32", diff=False)
    TABLE("numpy." + _name, draw((4,), -1, 1, "f2"), tol=5e-3)
TABLE("numpy.cumprod", np.float32([1, 2, 0, 3, 0, 4]))

for _axis in (None, 0, 1):
    TABLE("numpy.average", draw((3, 4)), axis=_axis)
    TABLE("numpy.average", draw((3, 4)), axis=_axis, weights=draw((3, 4), 0.5, 2))
    TABLE("numpy.median", distinct((3, 4)), axis=_axis)
    TABLE("numpy.median", distinct((3, 5)), axis=_axis, keepdims=True)
TABLE("numpy.average", draw((3, 4)), axis=0, weights=draw((3,), 0.5, 2), returned=True)
TABLE("numpy.average", draw((3, 4), 0, 9, "i4"), axis=1)
TABLE("numpy.median", draw((5,), 0, 9, "i4"))
TABLE("numpy.median", NANS, diff=False)
for _name, _q in (("quantile", [0.0, 0.3, 0.5, 1.0]), ("percentile", [0.0, 30.0, 50.0, 100.0])):
    for _method in ("linear", "lower", "higher", "midpoint", "nearest"):
        TABLE(
            "numpy." + _name,
            distinct((3, 5)),
            np.array(_q, "f4"),
            axis=1,
            method=_method,
            want=lambda x, q, n=_name, **kw: getattr(np, n)(x, np.float64(q), **kw),
            diff=False,
            tol=1e-5,
        )
        TABLE("numpy." + _name, distinct((7,)), _q[1], method=_method)
    TABLE("numpy." + _name, distinct((3, 4)), _q[1], axis=(0, 1), keepdims=True)
    TABLE("numpy." + _name, draw((6,), 0, 9, "i4"), _q[1])
    TABLE("numpy." + _name, np.float32([[1, np.nan], [2, 3]]), _q[2], axis=1, diff=False)
TABLE("numpy.cov", draw((3, 5)))
TABLE("numpy.cov", draw((5, 3)), rowvar=False)
TABLE("numpy.cov", draw((5,)), draw((5,)))
TABLE("numpy.cov", draw((2, 5)), bias=True, aweights=draw((5,), 0.5, 1), diff=False)
TABLE("numpy.cov", draw((2, 3)), fweights=np.array([1, 2, 3]))
TABLE("numpy.corrcoef", draw((3, 6)))
TABLE("numpy.corrcoef", draw((6, 2)), rowvar=False)
TABLE("numpy.corrcoef", draw((6,)), draw((6,)))
for _offset in (0, 1, -1, 5):
    TABLE("numpy.trace", draw((3, 4)), offset=_offset)
TABLE("numpy.trace", draw((2, 3, 3)), axis1=1, axis2=2)
TABLE("numpy.trace", draw((2, 2), 0, 9, "i4"))

# Sorting and searching.
for _axis in (0, 1, -1, None):
    TABLE("numpy.sort", distinct((3, 4)), axis=_axis)
    TABLE("numpy.argsort", distinct((3, 4)), axis=_axis)
for _dtype in ("i4", "u1", "?", "f2"):
    TABLE("numpy.sort", draw((2, 5), 0, 9, _dtype))
    TABLE("numpy.argsort", draw((7,), 0, 3, _dtype), want=lambda x: np.argsort(x, kind="stable"))
TABLE("numpy.sort", NANS, diff=False)
TABLE("numpy.sort", np.array([1 + 1j, 1 - 1j, 0], "c8"), diff=False)
TABLE("numpy.argsort", NANS)
TABLE("numpy.sort", distinct((5,)), descending=True, want=lambda x, descending: np.sort(x)[::-1])
TABLE(
    "numpy.argsort", distinct((5,)), descending=True, want=lambda x, descending: np.argsort(x)[::-1]
)
for _side in ("left", "right"):
    for _method in ("scan", "sort", "compare_all"):
        TABLE(
            "numpy.searchsorted",
            np.float32([0, 1, 1, 2.5]),
            draw((2, 3)),
            side=_side,
            method=_method,
            want=lambda a, v, side, method: np.searchsorted(a, v, side),
        )
TABLE("numpy.searchsorted", np.array([1, 3, 5]), 4)
TABLE("numpy.searchsorted", np.zeros((0,), "f4"), draw((3,)))
TABLE("numpy.searchsorted", np.float32([3, 1, 2]), draw((3,)), sorter=np.array([1, 2, 0]))
TABLE("numpy.nonzero", draw((3, 4), 0, 2, "i4"))
TABLE("numpy.nonzero", np.array([True, False, True]))
TABLE(
    "numpy.nonzero",
    np.array([0, 3, 0, 4]),
    size=3,
    fill_value=-1,
    want=lambda x, size, fill_value: (np.array([1, 3, -1]),),
)
for _options in ({}, {"return_index": True}, {"return_inverse": True, "return_counts": True}):
    TABLE("numpy.unique", draw((8,), 0, 4, "i4"), diff=False, **_options)
    TABLE("numpy.unique", draw((3, 2), 0, 2, "i4"), axis=0, **_options)
TABLE("numpy.unique", np.float32([2, np.nan, 1, np.nan]), diff=False)
TABLE("numpy.unique", np.zeros((0,), "f4"), diff=False)
TABLE("numpy.isin", draw((2, 4), 0, 5, "i4"), np.array([1, 3]))
TABLE("numpy.isin", draw((4,), 0, 5, "i4"), np.array([1, 3]), invert=True)
TABLE("numpy.isin", draw((4,), 0, 5, "i4"), np.zeros((0,), int))
TABLE("numpy.bincount", np.array([0, 3, 1, 1]))
TABLE("numpy.bincount", np.array([0, 3, 1, 1]), minlength=6)
TABLE("numpy.bincount", np.array([0, 3, 1, 1]), weights=draw((4,)))
TABLE("numpy.bincount", np.zeros((0,), int))
TABLE(
    "numpy.bincount", np.array([0, 3, 1, 1]), length=3, want=lambda x, length: np.array([1, 2, 0])
)


def histogram(*args: Any, **options: Any) -> Any:
    """NumPy's, with counts in floating point."""
    counts, edges = np.histogram(*args, **options)
    return counts * 1.0, edges


for _options in (
    {},
    {"bins": 4},
    {"bins": 3, "range": (-1.0, 1.0)},
    {"bins": 4, "density": True},
    {"bins": np.float32([-2, 0, 0.5, 2])},
):
    TABLE("numpy.histogram", draw((20,)), want=histogram, diff=False, **_options)
TABLE("numpy.histogram", draw((6,)), bins=3, weights=draw((6,), 0, 1), want=histogram, diff=False)
_xp = np.float32([-2, -0.5, 1, 2.5])
TABLE("numpy.interp", draw((2, 3)), _xp, draw((4,)))
TABLE("numpy.interp", np.float32([-5, 0.2, 7]), _xp, draw((4,)), left=-1.0, right=2.0)
TABLE(
    "numpy.interp",
    draw((4,), -9, 9),
    np.float32([0, 1, 2.2]),
    draw((3,)),
    period=3.0,
    tol=1e-4,
    diff=False,
)
TABLE("numpy.interp", 0.5, _xp, draw((4,)))
