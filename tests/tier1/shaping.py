"""``numpy``: shapes, joining, choosing, contractions and linear algebra."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tier1.sample import TABLE, distinct, draw

X = draw((2, 3, 4))
CASES: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "reshape": [((s,), {}) for s in (24, -1, (6, 4), (-1, 2), (4, 1, 6))]
    + [(((6, -1),), {"order": "F"})],
    "ravel": [((), {}), ((), {"order": "F"})],
    "transpose": [((), {}), (((1, 2, 0),), {}), (((-1, 0, 1),), {})],
    "moveaxis": [((0, -1), {}), (((0, 1), (2, 0)), {})],
    "swapaxes": [((0, 2), {}), ((-1, 1), {})],
    "expand_dims": [((0,), {}), ((-1,), {}), (((0, 2),), {})],
    "flip": [((), {}), ((0,), {}), (((0, -1),), {})],
    "roll": [((3,), {}), ((-2, 1), {}), (((1, 2), (0, 2)), {}), ((1, (0, 1)), {})],
    "tile": [((2,), {}), (((2, 1, 3),), {}), (((2, 1, 1, 1),), {}), ((0,), {})],
    "repeat": [((2,), {}), ((3, 1), {}), ((np.array([1, 0, 2]),), {"axis": 1}), ((0, 0), {})],
    "broadcast_to": [(((5, 2, 3, 4),), {}), (((2, 3, 4),), {})],
    "diagonal": [((), {}), ((1,), {}), ((-1,), {}), ((0, 1, 2), {}), ((0, 2, 0), {})],
    "tril": [((), {}), ((1,), {}), ((-1,), {})],
    "triu": [((), {}), ((1,), {}), ((-5,), {})],
    "diff": [((), {}), ((2,), {}), ((1, 0), {}), ((), {"axis": 1, "prepend": 0.0})],
    "gradient": [((), {"axis": 2}), ((0.5,), {"axis": (0, 1)}), ((), {})],
    "split": [((2,), {"axis": 2}), (([1, 2],), {"axis": 1}), ((2,), {})],
    "array_split": [((3,), {"axis": 2}), ((2,), {"axis": 1}), (([1, 1, 3],), {"axis": 2})],
    "atleast_1d": [((), {})],
    "atleast_2d": [((), {})],
    "atleast_3d": [((), {})],
    "clip": [
        ((-1.0, 1.0), {}),
        ((None, 0.5), {}),
        ((-0.5, None), {}),
        ((draw((4,), -2, 0), 1.0), {}),
    ],
}
for _name, _calls in CASES.items():
    for _args, _options in _calls:
        _run = (
            (lambda j, x, *a, **k: j.numpy.reshape(j.numpy.asarray(x), *a, **k))
            if (_name == "reshape")
            else None
        )  # JAX reshapes a NumPy array to a NumPy array
        if any(isinstance(a, list) for a in _args):  # lists are not pytrees here
            _args = tuple(np.array(a) if isinstance(a, list) else a for a in _args)
        TABLE("numpy." + _name, X, *_args, run=_run, **_options)
        if _name not in ("gradient", "clip") and "prepend" not in _options:
            TABLE("numpy." + _name, draw((2, 3, 4), 0, 9, "i4"), *_args, run=_run, **_options)
            TABLE("numpy." + _name, draw((2, 3, 4), dtype="?"), *_args, run=_run, **_options) if (
                _name != "diff"
            ) else None
for _name in ("atleast_1d", "atleast_2d", "atleast_3d", "ravel"):
    TABLE("numpy." + _name, draw(()))
    TABLE("numpy." + _name, draw((3,)))
    TABLE("numpy." + _name, 2)
TABLE("numpy.atleast_1d", draw((3,)), draw(()))
TABLE("numpy.clip", draw((4,), 0, 9, "i4"), 2, 5)
TABLE("numpy.clip", draw((4,), 0, 9, "u1"), 2, None)
TABLE("numpy.gradient", draw((5,)), np.float32([0, 1, 1.5, 3, 4]))
TABLE("numpy.diff", draw((4,), dtype="?"))
TABLE("numpy.squeeze", draw((1, 3, 1)))
TABLE("numpy.squeeze", draw((1, 3, 1)), axis=0)
TABLE("numpy.squeeze", draw((1, 3, 1)), axis=(0, -1))
for _k in (-1, 0, 2):
    TABLE("numpy.diag", draw((3,)), k=_k)
    TABLE("numpy.diag", draw((3, 4)), k=_k)
TABLE("numpy.diag", draw((2,), 0, 9, "i4"))
for _mode, _options in (
    ("constant", {}),
    ("constant", {"constant_values": 2.5}),
    ("edge", {}),
    ("reflect", {}),
    ("symmetric", {}),
    ("wrap", {}),
    ("linear_ramp", {"end_values": 1.0}),
    ("mean", {}),
    ("reflect", {"reflect_type": "odd"}),
    ("maximum", {}),
    ("minimum", {}),
):
    TABLE("numpy.pad", distinct((3, 4)), ((1, 2), (0, 3)), mode=_mode, **_options)
    TABLE("numpy.pad", distinct((5,)), 2, mode=_mode, **_options)
TABLE("numpy.pad", draw((2, 2), 0, 9, "i4"), 1)
TABLE("numpy.pad", np.zeros((0, 2), "f4"), 1)

for _name in ("concatenate", "stack", "hstack", "vstack"):
    _options = [{}, {"axis": 1}, {"axis": -1}] if _name in ("concatenate", "stack") else [{}]
    for _option in _options:
        TABLE("numpy." + _name, [draw((2, 3)), draw((2, 3))], **_option)
        TABLE("numpy." + _name, [draw((2, 3)), draw((2, 3), 0, 9, "i4")], **_option)
        TABLE("numpy." + _name, [draw((0, 3)), draw((0, 3))], **_option)
    TABLE("numpy." + _name, [draw((2,)), draw((2,)), draw((2,))])
TABLE("numpy.concatenate", [draw((2, 3)), draw((1, 3))])
TABLE("numpy.concatenate", [draw((2, 3)), draw((1, 2))], axis=None)
TABLE("numpy.concatenate", [draw((2,), 0, 9, "i1"), draw((2,), 0, 9, "u1")])
TABLE("numpy.concatenate", [draw((2,)), draw((2,))], dtype="float16", tol=2e-3, diff=False)
TABLE("numpy.hstack", [draw(()), draw(())])
TABLE("numpy.stack", [draw(()), draw((), dtype="f2")], tol=2e-3, diff=False)
TABLE("numpy.append", draw((2, 3)), draw((2,)))
TABLE("numpy.append", draw((2, 3)), draw((1, 3)), axis=0)
TABLE("numpy.append", draw((2,), 0, 9, "i4"), 1.5)
TABLE("numpy.kron", draw((2, 3)), draw((3, 2)))
TABLE("numpy.kron", draw((2,)), draw((3, 2)))
TABLE("numpy.kron", draw((2,), 0, 9, "i4"), draw((2,)))

_which = np.array([[True, False, True], [False, False, True]])
TABLE("numpy.where", _which, draw((2, 3)), draw((2, 3)))
TABLE("numpy.where", _which, draw((3,)), draw((2, 1)))
TABLE("numpy.where", _which, 1, draw((2, 3)))
TABLE("numpy.where", _which, 1, 2.5)
TABLE("numpy.where", _which)
TABLE("numpy.where", draw((3,), 0, 2, "i4"), draw((3,), 0, 9, "i4"), draw((3,)))
TABLE("numpy.where", True, draw((3,)), 0)
TABLE("numpy.select", [_which, ~_which], [draw((2, 3)), draw((2, 3))], 2.0)
TABLE("numpy.select", [_which[0], _which[1]], [draw((3,)), draw((3,))])
_indices = np.array([[0, -1], [2, 1]])
for _axis in (None, 1, -2, 2):
    TABLE("numpy.take", X, _indices, axis=_axis)
TABLE("numpy.take", X, 1, axis=0)
TABLE("numpy.take", X, np.array([5, -7]), axis=1, mode="wrap")
TABLE("numpy.take", X, np.array([5, -7]), axis=1, mode="clip")
TABLE(
    "numpy.take",
    X,
    np.array([9, 1]),
    axis=1,
    mode="fill",
    fill_value=3.0,
    want=lambda x, i, **_: np.concatenate([x[:, :1] * 0 + 3, x[:, 1:2]], 1),
)
TABLE("numpy.take_along_axis", draw((2, 3)), np.array([[0, 2, 0], [1, -1, 1]]), axis=1)
TABLE("numpy.take_along_axis", draw((2, 3)), np.array([[0, 1, 0]]), axis=0)
TABLE("numpy.take_along_axis", draw((4,)), np.array([3, 0, 0]), axis=None)
TABLE(
    "numpy.vectorize",
    draw((2, 3)),
    draw((3,)),
    want=lambda x, y: x * np.sin(y),
    run=lambda j, x, y: j.numpy.vectorize(lambda a, b: a * j.numpy.sin(b))(x, y),
)
TABLE(
    "numpy.vectorize",
    draw((2, 3, 4)),
    draw((4,)),
    want=lambda x, y: x @ y,
    run=lambda j, x, y: j.numpy.vectorize(j.numpy.dot, signature="(n,m),(m)->(n)")(x, y),
)

# Contractions.
PAIRS: list[tuple[Any, Any]] = [((3,), (3,)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((0, 3), (3, 2))]
for _a, _b in PAIRS:
    TABLE("numpy.dot", draw(_a), draw(_b))
    TABLE("numpy.matmul", draw(_a), draw(_b))
    TABLE("numpy.matmul", draw(_a, -3, 3, "i4"), draw(_b))
    TABLE("numpy.dot", draw(_a, -3, 3, "c8"), draw(_b, -3, 3, "c8"))
    TABLE("numpy.dot", draw(_a, -3, 3, "i4"), draw(_b, -3, 3, "i4"))
    TABLE("numpy.outer", draw(_a), draw(_b))
    TABLE("numpy.inner", draw(_a), draw(_b[::-1]))
for _a, _b in (
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (2, 3, 4)),
    ((3,), (2, 3, 4)),
    ((2, 0), (0, 3)),
):
    TABLE("numpy.matmul", draw(_a), draw(_b))
    TABLE("numpy.dot", draw(_a), draw(_b)) if len(_a) < 4 else None
TABLE("numpy.matmul", draw((2, 3), dtype="f2"), draw((3, 2), dtype="f2"), tol=1e-2)
TABLE("numpy.dot", draw(()), draw((2, 3)))
TABLE("numpy.inner", draw((4, 2, 3)), draw((5, 3)))
for _dtype in ("f4", "c8", "i4"):
    TABLE("numpy.vdot", draw((2, 3), dtype=_dtype), draw((2, 3), dtype=_dtype))
for _axes in (0, 1, 2, ((0, 1), (1, 0)), (1, 0)):
    _shape = (3, 3, 3)
    TABLE("numpy.tensordot", draw(_shape), draw(_shape), axes=_axes)
EINSUM = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,ij", (2, 3), (2, 3)),
    ("i,j->ji", (2,), (3,)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
    ("...ij,jk->...ik", (5, 2, 3), (3, 2)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("ij->ji", (2, 3)),
    ("ijk->k", (2, 3, 4)),
    ("ij,j,i->", (2, 3), (3,), (2,)),
    ("ij,kj,kl->il", (2, 3), (4, 3), (4, 2)),
    ("...i,...i->...", (2, 3), (2, 3)),
    ("iij,j->i", (2, 2, 3), (3,)),
]
for _spec, *_shapes in EINSUM:
    TABLE("numpy.einsum", _spec, *(draw(s) for s in _shapes))
TABLE("numpy.einsum", "ij,jk->ik", draw((2, 3), -3, 3, "i4"), draw((3, 2), -3, 3, "i4"))
TABLE("numpy.einsum", "ij,jk->ik", draw((2, 3), dtype="c8"), draw((3, 2)))
for _mode in ("full", "same", "valid"):
    TABLE("numpy.convolve", draw((5,)), draw((3,)), mode=_mode)
    TABLE("numpy.convolve", draw((2,)), draw((4,)), mode=_mode)
    TABLE(
        "numpy.convolve",
        draw((4,), -3, 3, "i4"),
        draw((2,), -3, 3, "i4"),
        mode=_mode,
        want=lambda x, y, mode: np.convolve(x, y * 1.0, mode),
    )
TABLE("numpy.cross", draw((2, 3)), draw((2, 3)))
TABLE("numpy.cross", draw((3,)), draw((4, 3)))
TABLE("numpy.cross", draw((3, 2)), draw((3, 2)), axis=0)

# Linear algebra.


def positive(n: int, *batch: int, dtype: Any = "f4") -> Any:
    """Symmetric matrices with eigenvalues that are well apart."""
    x = draw((*batch, n, n), -1, 1, dtype) * 0.3
    return (x + np.conj(np.swapaxes(x, -1, -2)) + np.diag(np.arange(1, n + 1) * 3)).astype(dtype)


def symmetric(f: Any, *, lower: bool = True) -> Any:
    """The function of the matrix's symmetric part, as JAX takes it."""
    return lambda x, *a, **k: f((x + np.conj(np.swapaxes(x, -1, -2))) / 2, *a, **k)


TABLE("numpy.linalg.cholesky", positive(3), want=symmetric(np.linalg.cholesky), diff=True)
TABLE("numpy.linalg.cholesky", positive(2, 4), want=symmetric(np.linalg.cholesky))
TABLE("numpy.linalg.cholesky", positive(3, dtype="c8"), want=symmetric(np.linalg.cholesky))
TABLE(
    "numpy.linalg.cholesky",
    positive(3),
    upper=True,
    want=lambda x, upper: np.linalg.cholesky((x + x.T) / 2).T,
)
for _n, *_batch in ((1,), (2,), (3,), (4,), (5, 2)):
    _m = positive(_n, *_batch) + draw((*_batch, _n, _n), -0.3, 0.3)
    TABLE("numpy.linalg.det", _m)
    TABLE("numpy.linalg.slogdet", _m, want=lambda x: tuple(np.linalg.slogdet(x)))
    TABLE("numpy.linalg.inv", _m)
    TABLE("numpy.linalg.solve", _m, draw((*_batch, _n, 2)))
TABLE("numpy.linalg.det", draw((3, 3), dtype="c8"))
TABLE("numpy.linalg.det", np.float32([[1, 2], [2, 4]]))
TABLE("numpy.linalg.inv", positive(3, dtype="c8"))
TABLE("numpy.linalg.solve", positive(3), draw((3,)))
TABLE(
    "numpy.linalg.solve",
    positive(3, 2),
    draw((3,)),
    want=lambda a, b: np.linalg.solve(a, b[:, None])[..., 0],
)
TABLE("numpy.linalg.solve", positive(2), draw((2, 3), 0, 9, "i4"))
for _m in (positive(3), positive(2, 4)):
    TABLE(
        "numpy.linalg.eigh",
        _m,
        run=lambda j, x: j.numpy.linalg.eigh(x)[0],
        want=symmetric(np.linalg.eigvalsh),
    )
    TABLE(
        "numpy.linalg.eigh",
        _m,  # projections on the eigenvectors have no sign to choose
        run=lambda j, x: (lambda v: v[..., :, None, :] * v[..., None, :, :])(
            j.numpy.linalg.eigh(x)[1]
        ),
        want=symmetric(
            lambda x: (lambda v: v[..., :, None, :] * v[..., None, :, :])(np.linalg.eigh(x)[1])
        ),
    )
for _options in ({}, {"ord": 1}, {"ord": np.inf}, {"ord": 3}, {"ord": -np.inf}, {"ord": 0}):
    TABLE("numpy.linalg.norm", draw((4,)), diff=_options.get("ord") != 0, **_options)
    TABLE("numpy.linalg.norm", draw((2, 4)), axis=1, diff=_options.get("ord") != 0, **_options)
for _ord in (None, "fro", "nuc", 1, -1, 2, -2, np.inf):
    TABLE("numpy.linalg.norm", draw((3, 2)), ord=_ord)
    TABLE("numpy.linalg.norm", draw((2, 3, 2)), ord=_ord, axis=(1, 2), keepdims=True)
TABLE("numpy.linalg.norm", draw((2, 3), dtype="c8"))
TABLE("numpy.linalg.norm", draw((3,), 0, 9, "i4"))
