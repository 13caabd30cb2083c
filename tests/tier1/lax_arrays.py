"""``lax``: shapes, slices, padding, conversions, sorting, reductions and windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tier1.sample import BF16, TABLE, distinct, draw

X = draw((2, 3, 4))


def over(name: str, *args: Any, want: Any, **options: Any) -> None:
    """The call on floating-point numbers, integers and truth values."""
    for dtype in ("f4", "i4", "?"):
        TABLE("lax." + name, draw((2, 3, 4), -9, 9, dtype), *args, want=want, **options)


over("broadcast", (5, 1), want=lambda x, s: np.broadcast_to(x, (*s, *x.shape)))
TABLE("lax.broadcast", 2.0, (3,), want=lambda x, s: np.full(s, x))
TABLE(
    "lax.broadcast_in_dim",
    draw((3,)),
    (2, 3, 4),
    (1,),
    want=lambda x, s, d: np.broadcast_to(x[:, None], s),
)
TABLE(
    "lax.broadcast_in_dim",
    draw((1, 4)),
    (2, 3, 4),
    (0, 2),
    want=lambda x, s, d: np.broadcast_to(x[:, None], s),
)
TABLE("lax.broadcast_in_dim", draw(()), (2,), (), want=lambda x, s, d: np.full(s, x))
TABLE("lax.broadcast_shapes", (2, 1), (3,), want=lambda *s: np.broadcast_shapes(*s))
TABLE("lax.broadcast_shapes", (0, 1), (1, 4), (), want=lambda *s: np.broadcast_shapes(*s))
for _dtype in ("int32", "float32", "uint8"):
    TABLE("lax.iota", _dtype, 5, want=lambda d, n: np.arange(n, dtype=d))
    TABLE(
        "lax.broadcasted_iota",
        _dtype,
        (2, 3),
        1,
        want=lambda d, s, a: np.broadcast_to(np.arange(s[a], dtype=d), s),
    )
TABLE("lax.iota", "int32", 0, want=lambda d, n: np.arange(n, dtype=d))
for _axis in (0, 1, 2):
    TABLE("lax.concatenate", [draw((2, 2, 2)), draw((2, 2, 2))], _axis, want=np.concatenate)
    over(
        "squeeze",
        (0,),
        want=lambda x, a: np.squeeze(x[:1], a),
        run=lambda j, x, a: j.lax.squeeze(x[:1], a),
    )
    over("rev", (_axis,), want=np.flip)
    over("expand_dims", (_axis, -1), want=np.expand_dims)
    for _name in ("argmax", "argmin"):
        TABLE(
            "lax." + _name,
            distinct((2, 3, 4)),
            _axis,
            "int32",
            want=lambda x, a, d, n=_name: getattr(np, n)(x, a),
        )
    for _name, _want in (
        ("cumsum", np.cumsum),
        ("cumprod", np.cumprod),
        ("cummax", np.maximum.accumulate),
        ("cummin", np.minimum.accumulate),
        ("cumlogsumexp", np.logaddexp.accumulate),
    ):
        TABLE("lax." + _name, draw((3, 2, 4), 0.3, 2), _axis, want=_want)
        TABLE(
            "lax." + _name,
            draw((3, 2, 4), 0.3, 2),
            axis=_axis,
            reverse=True,
            want=lambda x, axis, reverse, f=_want: np.flip(f(np.flip(x, axis), axis), axis),
        )
        if _name != "cumlogsumexp":
            TABLE("lax." + _name, draw((3, 2, 4), 0, 4, "i4"), _axis, want=_want)
for _shape in ((24,), (6, 4), (4, 1, 6)):
    over("reshape", _shape, want=np.reshape)
TABLE("lax.reshape", X, (6, 4), (2, 0, 1), want=lambda x, s, d: x.transpose(d).reshape(s))
for _perm in ((2, 0, 1), (0, 1, 2), (1, 0, 2)):
    over("transpose", _perm, want=np.transpose)
over("slice", (0, 1, 1), (2, 3, 4), want=lambda x, a, b: x[0:2, 1:3, 1:4])
over("slice", (0, 0, 1), (2, 3, 4), (1, 2, 3), want=lambda x, a, b, s: x[0:2, 0:3:2, 1:4:3])
over("slice", (0, 2, 1), (2, 2, 4), want=lambda x, a, b: x[0:2, 2:2, 1:4])
over("slice_in_dim", 1, 3, want=lambda x, a, b, stride, axis: x[..., 1:3:2], stride=2, axis=2)
over("slice_in_dim", -3, None, want=lambda x, a, b, axis: x[..., -3:], axis=-1)
for _start in (0, 1, 9, -1):
    _at = min(max(_start + 4 * (_start < 0), 0), 2)
    over("dynamic_slice", (0, 0, _start), (2, 3, 2), want=lambda x, i, s, a=_at: x[..., a : a + 2])
    over(
        "dynamic_slice_in_dim",
        _start,
        2,
        axis=2,
        want=lambda x, i, n, axis, a=_at: x[..., a : a + 2],
    )
    over(
        "dynamic_index_in_dim",
        _start,
        axis=2,
        keepdims=False,
        want=lambda x, i, axis, keepdims, a=_start: x[..., min(a, 3)],
    )
    over(
        "dynamic_index_in_dim",
        _start,
        axis=2,
        want=lambda x, i, axis, a=_start: x[..., [min(a, 3)]],
    )

    def updated(x: Any, u: Any, at: Any) -> Any:
        out = np.array(x)
        out[..., at] = u
        return out

    TABLE(
        "lax.dynamic_update_slice",
        X,
        draw((2, 3, 2)),
        (0, 0, _start),
        want=lambda x, u, i, a=_at: updated(x, u, slice(a, a + 2)),
    )
    TABLE(
        "lax.dynamic_update_slice_in_dim",
        X,
        draw((2, 3, 2)),
        _start,
        2,
        want=lambda x, u, i, n, a=_at: updated(x, u, slice(a, a + 2)),
    )
    TABLE(
        "lax.dynamic_update_index_in_dim",
        X,
        draw((2, 3)),
        _start,
        2,
        want=lambda x, u, i, n, a=_start: updated(x, u, min(a, 3)),
    )
TABLE("lax.full", (2, 3), 1.5, want=np.full)
TABLE("lax.full", (), 2, "float32", want=np.full)
TABLE("lax.full", (0,), True, want=np.full)
TABLE("lax.full_like", draw((2, 3)), 4, want=np.full_like, diff=False)
TABLE(
    "lax.full_like",
    draw((2, 3)),
    4,
    "int32",
    (2,),
    want=lambda x, v, d, s: np.full(s, v, d),
    diff=False,
)


def padded(x: Any, value: Any, spec: Any) -> Any:
    """``lax.pad`` with interior padding and negative edges, element by element."""
    (low, high, interior), (n,) = spec[0], x.shape
    wide = np.full((max(n + (n - 1) * interior, 0),), value, x.dtype)
    wide[:: interior + 1] = x
    wide = np.concatenate([np.full(max(low, 0), value), wide, np.full(max(high, 0), value)])
    return wide[max(-low, 0) : len(wide) - max(-high, 0)]


for _spec in (((1, 2, 0),), ((-1, 0, 1),), ((0, -2, 2),), ((2, -1, 1),), ((0, 0, 0),)):
    TABLE("lax.pad", draw((4,)), draw(()), _spec, want=padded)
    TABLE("lax.pad", draw((4,), 0, 9, "i4"), np.int32(7), _spec, want=padded)
_which = draw((2, 3), dtype="?")
TABLE("lax.select", _which, draw((2, 3)), draw((2, 3)), want=np.where)
TABLE("lax.select", np.array(True), draw((2, 3)), draw((2, 3)), want=np.where)
TABLE("lax.select_n", _which, draw((2, 3)), draw((2, 3)), want=lambda w, a, b: np.where(w, b, a))
TABLE(
    "lax.select_n",
    np.array([0, 2, 1], "i4"),
    draw((3,)),
    draw((3,)),
    draw((3,)),
    want=lambda w, *xs: np.choose(w, xs),
)
TABLE(
    "lax.clamp",
    draw((3, 2)),
    want=lambda x: np.clip(x, -0.5, 0.7),
    run=lambda j, x: j.lax.clamp(x.dtype.type(-0.5), x, x.dtype.type(0.7)),
)
TABLE(
    "lax.clamp",
    draw((3,), -1, 0),
    draw((3,)),
    draw((3,), 0, 1),
    want=lambda a, x, b: np.clip(x, a, b),
)
TABLE(
    "lax.clamp",
    np.int32(1),
    draw((3,), 0, 9, "i4"),
    np.int32(4),
    want=lambda a, x, b: np.clip(x, a, b),
)
for _dtype in ("float16", "int32", "bool", "complex64", "uint8", "bfloat16"):
    TABLE(
        "lax.convert_element_type",
        draw((3,), 0, 9),
        _dtype,
        diff=False,
        tol=1e-2 if _dtype == "bfloat16" else 2e-3,
        want=lambda x, d: x if d == "bfloat16" else x.astype(d),
    )
TABLE("lax.convert_element_type", draw((3,)), "float64", want=lambda x, d: x)
TABLE("lax.convert_element_type", 2, "float32", want=lambda x, d: np.float32(x))
for _dtype in ("int32", "uint32"):
    TABLE("lax.bitcast_convert_type", draw((3,)), _dtype, want=lambda x, d: x.view(d), diff=False)
TABLE(
    "lax.bitcast_convert_type",
    draw((3, 2), dtype="f2"),
    "uint16",
    want=lambda x, d: x.astype("f2").view(d),
    diff=False,
)
TABLE("lax.bitcast_convert_type", draw((3,), 0, 99, "i4"), "float32", want=lambda x, d: x.view(d))
TABLE(
    "lax.reduce_precision",
    draw((5,)),
    8,
    7,
    want=lambda x, e, m: x.astype(BF16).astype("f4"),
    diff=False,
)
TABLE(
    "lax.reduce_precision",
    draw((5,)),
    5,
    10,
    want=lambda x, e, m: x.astype("f2").astype("f4"),
    diff=False,
)

# Sorting and reductions.
for _axis in (0, 1, -1):
    TABLE(
        "lax.sort",
        distinct((3, 4)),
        dimension=_axis,
        want=lambda x, dimension: np.sort(x, dimension),
    )
    TABLE(
        "lax.sort_key_val",
        distinct((3, 4)),
        draw((3, 4)),
        _axis,
        want=lambda k, v, a: (np.sort(k, a), np.take_along_axis(v, np.argsort(k, a), a)),
    )
TABLE(
    "lax.sort",
    [np.array([1, 0, 1, 0]), np.array([3, 9, 2, 1]), np.array([0, 1, 2, 3])],
    num_keys=2,
    run=lambda j, xs, num_keys: j.lax.sort(tuple(xs), num_keys=num_keys),
    want=lambda xs, num_keys: tuple(x[np.lexsort((xs[1], xs[0]))] for x in xs),
)
for _k in (1, 3, 0):
    TABLE(
        "lax.top_k",
        distinct((2, 5)),
        _k,
        want=lambda x, k: (np.sort(x)[:, ::-1][:, :k], np.argsort(-x)[:, :k]),
    )
for _name, _init, _want in (
    ("add", 0.0, np.sum),
    ("mul", 1.0, np.prod),
    ("max", -9.0, np.max),
    ("min", 9.0, np.min),
):
    for _axes in ((0,), (0, 2), (0, 1, 2)):
        TABLE(
            "lax.reduce",
            draw((2, 3, 4)),
            np.float32(_init),
            _axes,
            run=lambda j, x, i, a, n=_name: j.lax.reduce(x, i, getattr(j.lax, n), a),
            want=lambda x, i, a, f=_want: f(x, axis=a, initial=i),
            diff=False,
        )
        TABLE(
            "lax.reduce",
            draw((2, 3, 4)),
            _axes,
            run=lambda j, x, a, n=_name, i=_init: j.lax.reduce(
                x, x.dtype.type(i), getattr(j.lax, n), a
            ),
            want=lambda x, a, f=_want, i=_init: f(x, axis=a, initial=i),
        )
TABLE(
    "lax.reduce",
    draw((2, 3), -9, 9, "i4"),
    (1,),
    run=lambda j, x, a: j.lax.reduce(x, np.int32(0), lambda a, b: a + b, a),
    want=np.sum,
)


def windows(x: Any, f: Any, size: int, stride: int, pad: int, init: float) -> Any:
    wide = np.pad(x, ((0, 0), (pad, pad)), constant_values=init)
    starts = range(0, wide.shape[1] - size + 1, stride)
    return np.stack([f(wide[:, s : s + size], axis=1) for s in starts], 1)


for _name, _init, _want in (
    ("add", 0.0, np.sum),
    ("max", -np.inf, np.max),
    ("min", np.inf, np.min),
):
    for _size, _stride, _pad in ((2, 2, 0), (3, 1, 1), (2, 3, 1)):
        TABLE(
            "lax.reduce_window",
            distinct((2, 7)),
            _size,
            _stride,
            _pad,
            run=lambda j, x, n, s, p, o=_name, i=_init: j.lax.reduce_window(
                x, x.dtype.type(i), getattr(j.lax, o), (1, n), (1, s), ((0, 0), (p, p))
            ),
            want=lambda x, n, s, p, f=_want, i=_init: windows(x, f, n, s, p, i),
        )
