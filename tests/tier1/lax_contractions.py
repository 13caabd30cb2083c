"""``lax``: products of arrays and convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal

from tests.tier1.sample import TABLE, draw

for _a, _b in (((3,), (3,)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((0, 3), (3, 2))):
    for _dtype in ("f4", "c8", "i4"):
        TABLE("lax.dot", draw(_a, -3, 3, _dtype), draw(_b, -3, 3, _dtype), want=np.dot)
TABLE(
    "lax.dot",
    draw((2, 3)),
    draw((3, 2)),
    preferred_element_type="float32",
    diff=False,
    want=lambda x, y, **_: x @ y,
)
for _numbers, _a, _b, _spec in (
    ((((1,), (0,)), ((), ())), (2, 3), (3, 4), "ij,jk->ik"),
    ((((2,), (1,)), ((0,), (0,))), (5, 2, 3), (5, 3, 4), "bij,bjk->bik"),
    ((((0, 2), (1, 0)), ((1,), (2,))), (2, 4, 3), (3, 2, 4, 2), "abc,cabd->bd"),
    ((((), ()), ((), ())), (2,), (3,), "i,j->ij"),
    ((((), ()), ((0,), (0,))), (2, 3), (2, 4), "bi,bj->bij"),
):
    TABLE(
        "lax.dot_general",
        draw(_a),
        draw(_b),
        _numbers,
        want=lambda x, y, n, spec=_spec: np.einsum(spec, x, y),
    )
    TABLE(
        "lax.DotDimensionNumbers",
        draw(_a),
        draw(_b),
        _numbers,
        run=lambda j, x, y, n: j.lax.dot_general(x, y, n),
        want=lambda x, y, n, spec=_spec: np.einsum(spec, x, y),
        diff=False,
    )
for _precision in ("DEFAULT", "HIGH", "HIGHEST"):
    TABLE(
        "lax.Precision",
        draw((2, 3)),
        draw((3, 2)),
        diff=False,
        run=lambda j, x, y, p=_precision: j.lax.dot(x, y, precision=getattr(j.lax.Precision, p)),
        want=np.dot,
    )


def correlate(
    x: Any, w: Any, full: bool = False, dilate: int = 1, stride: int = 1, base: int = 1
) -> Any:
    """Convolution networks' convolution of NCHW by OIHW, by SciPy."""
    taps = np.zeros((*w.shape[:2], *((n - 1) * dilate + 1 for n in w.shape[2:])), w.dtype)
    taps[..., ::dilate, ::dilate] = w
    wide = np.zeros((*x.shape[:2], *((n - 1) * base + 1 for n in x.shape[2:])), x.dtype)
    wide[..., ::base, ::base] = x
    mode = "full" if full else "valid"
    out = [
        [
            sum(scipy.signal.correlate2d(wide[n, i], taps[o, i], mode) for i in range(w.shape[1]))
            for o in range(w.shape[0])
        ]
        for n in range(x.shape[0])
    ]
    return np.array(out)[..., ::stride, ::stride]


_x, _w = draw((2, 3, 6, 5)), draw((4, 3, 3, 2))
TABLE("lax.conv", _x, _w, (1, 1), "VALID", want=lambda x, w, *_: correlate(x, w))
TABLE("lax.conv", _x, _w, (2, 2), "VALID", want=lambda x, w, *_: correlate(x, w, stride=2))
_conv: Any = "lax.conv_general_dilated"
TABLE(_conv, _x, _w, (2, 2), "VALID", want=lambda x, w, *_: correlate(x, w, stride=2))
TABLE(_conv, _x, _w, (1, 1), [(2, 2), (1, 1)], want=lambda x, w, *_: correlate(x, w, full=True))
TABLE(
    _conv,
    _x,
    _w,
    (1, 1),
    "VALID",
    rhs_dilation=(2, 2),
    want=lambda x, w, *_, **k: correlate(x, w, dilate=2),
)
TABLE(
    _conv,
    _x,
    _w,
    (1, 1),
    [(0, 0), (0, 0)],
    lhs_dilation=(2, 2),
    want=lambda x, w, *_, **k: correlate(x, w, base=2),
)
TABLE(
    _conv,
    _x,
    draw((4, 1, 3, 2)),
    (1, 1),
    "VALID",
    feature_group_count=3,
    run=lambda j, x, w, *a, **k: j.lax.conv_general_dilated(x, w[:3], *a, **k),
    want=lambda x, w, *_, **k: np.concatenate(
        [correlate(x[:, i : i + 1], w[i : i + 1]) for i in range(3)], 1
    ),
)
TABLE(
    _conv,
    _x.transpose(0, 2, 3, 1),
    _w.transpose(2, 3, 1, 0),
    (1, 1),
    "VALID",
    dimension_numbers=("NHWC", "HWIO", "NHWC"),
    want=lambda x, w, *_, **k: correlate(
        x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)
    ).transpose(0, 2, 3, 1),
)
for _name in ("conv_dimension_numbers", "ConvDimensionNumbers"):
    TABLE(
        "lax." + _name,
        run=lambda j: tuple(
            map(
                tuple,
                j.lax.conv_dimension_numbers((1, 2, 3, 4), (5, 6, 7, 8), ("NHWC", "HWIO", "NCHW")),
            )
        ),
        want=lambda: ((0, 3, 1, 2), (3, 2, 0, 1), (0, 1, 2, 3)),
    )
TABLE(
    "lax.ConvDimensionNumbers",
    run=lambda j: isinstance(
        j.lax.conv_dimension_numbers((1, 2, 3), (5, 2, 3), None), j.lax.ConvDimensionNumbers
    ),
    want=lambda: True,
)


def transposed(x: Any, w: Any) -> Any:
    """By stride 2 and ``VALID`` padding: each element of x lays down a copy of w."""
    out = np.zeros(
        (x.shape[0], 2 * (x.shape[1] - 1) + w.shape[0], w.shape[2]), np.result_type(x, w)
    )
    for at in range(x.shape[1]):
        out[:, 2 * at : 2 * at + w.shape[0]] += np.einsum("ni,tio->nto", x[:, at], w[::-1])
    return out


TABLE(
    "lax.conv_transpose",
    draw((2, 4, 3)),
    draw((3, 3, 2)),
    (2,),
    "VALID",
    want=lambda x, w, *_: transposed(x, w),
    run=lambda j, x, w, s, p: j.lax.conv_transpose(
        x, w, s, p, dimension_numbers=("NHC", "HIO", "NHC")
    ),
)
