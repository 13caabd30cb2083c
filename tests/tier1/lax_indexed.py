"""``lax``: gathers, scatters, control flow and collectives."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tier1.sample import TABLE, draw

ROWS = np.array([[2], [0], [2], [7]], "i4")


def gather_rows(j: Any, x: Any, rows: Any, mode: Any = None, **kw: Any) -> Any:
    numbers = j.lax.GatherDimensionNumbers(
        offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)
    )
    return j.lax.gather(x, rows, numbers, (1, x.shape[1]), mode=mode, **kw)


def window(j: Any, x: Any, at: Any) -> Any:
    numbers = j.lax.GatherDimensionNumbers(
        offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(0, 1)
    )
    return j.lax.gather(x, at, numbers, (2, 2), mode="clip")


def filled(x: Any, rows: Any, fill: float) -> Any:
    wide = np.concatenate([x, np.full((1, x.shape[1]), fill)])
    return wide[np.minimum(rows[:, 0], len(x))]


TABLE(
    "lax.gather",
    draw((3, 4)),
    ROWS,
    run=gather_rows,
    want=lambda x, r: x[np.minimum(r[:, 0], 2)],
    diff=False,
)
TABLE("lax.gather", draw((3, 4)), ROWS[:3], run=gather_rows, want=lambda x, r: x[r[:, 0]])
TABLE(
    "lax.gather",
    draw((3, 4)),
    ROWS,
    mode="clip",
    run=gather_rows,
    want=lambda x, r, mode: x[np.minimum(r[:, 0], 2)],
)
TABLE(
    "lax.gather",
    draw((3, 4)),
    ROWS,
    mode="fill",
    fill_value=2.0,
    run=gather_rows,
    want=lambda x, r, mode, fill_value: filled(x, r, 2.0),
)
for _mode in ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"):
    TABLE(
        "lax.GatherScatterMode",
        draw((3, 4)),
        ROWS[:2],
        want=lambda x, r: x[r[:, 0]],
        run=lambda j, x, r, m=_mode: gather_rows(j, x, r, getattr(j.lax.GatherScatterMode, m)),
    )
TABLE(
    "lax.GatherDimensionNumbers",
    draw((4, 5)),
    np.array([[0, 1], [2, 3], [9, -4]], "i4"),
    run=window,
    want=lambda x, at: np.stack([x[0:2, 1:3], x[2:4, 3:5], x[2:4, 0:2]]),
)


def scatter_rows(j: Any, name: str, x: Any, rows: Any, updates: Any, **kw: Any) -> Any:
    numbers = j.lax.ScatterDimensionNumbers(
        update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
    )
    return getattr(j.lax, name)(x, rows, updates, numbers, **kw)


def scattered(f: Any, x: Any, rows: Any, updates: Any) -> Any:
    out = np.concatenate([x, np.ones((1, x.shape[1]))])
    at = np.minimum(rows[:, 0], len(x))
    if f is None:
        out[at] = updates
    else:
        f.at(out, at, updates)
    return out[:-1].astype(x.dtype)


for _name, _ufunc in (
    ("scatter", None),
    ("scatter_add", np.add),
    ("scatter_mul", np.multiply),
    ("scatter_min", np.minimum),
    ("scatter_max", np.maximum),
):
    _call = lambda j, x, r, u, n=_name, **kw: scatter_rows(j, n, x, r, u, **kw)
    _answer = lambda x, r, u, f=_ufunc, **kw: scattered(f, x, r, u)
    for _rows in (ROWS, ROWS[1:3]):
        _once = len(_rows) == 2
        _linear = _name in ("scatter", "scatter_add")
        for _dtype in ("f4", "i4"):
            TABLE(
                "lax." + _name,
                draw((3, 4), 1, 4, _dtype),
                _rows,
                draw((len(_rows), 4), 1, 4, _dtype),
                run=_call,
                want=_answer,
                diff=_once or _linear,
                **({"unique_indices": True} if _once else {}),
            )
TABLE(
    "lax.ScatterDimensionNumbers",
    draw((5,)),
    np.array([[1], [3]], "i4"),
    draw((2, 2)),
    run=lambda j, x, i, u: j.lax.scatter_add(
        x,
        i,
        u,
        j.lax.ScatterDimensionNumbers(
            update_window_dims=(1,), inserted_window_dims=(), scatter_dims_to_operand_dims=(0,)
        ),
    ),
    want=lambda x, i, u: x + np.concatenate([[0 * u[0, 0]], u[0], u[1]]),
)

# Control flow.
_X = draw((4, 2))


def scan_answer(c: Any, xs: Any) -> Any:
    ys = []
    for x in xs:
        c = np.sin(c) * x + 1
        ys.append(c * x)
    return c, np.stack(ys)


def scan_run(j: Any, c: Any, xs: Any, **options: Any) -> Any:
    def body(c: Any, x: Any) -> Any:
        c = j.numpy.sin(c) * x + 1
        return c, c * x

    return j.lax.scan(body, c, xs, **options)


TABLE("lax.scan", draw((2,)), _X, run=scan_run, want=scan_answer)
TABLE(
    "lax.scan",
    draw((2,)),
    _X,
    run=scan_run,
    unroll=2,
    want=lambda c, xs, unroll: scan_answer(c, xs),
)
TABLE(
    "lax.scan",
    draw((2,)),
    _X,
    run=scan_run,
    reverse=True,
    want=lambda c, xs, reverse: (lambda r: (r[0], r[1][::-1]))(scan_answer(c, xs[::-1])),
)
TABLE(
    "lax.scan",
    draw((2,)),
    run=lambda j, c: j.lax.scan(lambda c, _: (c * c, None), c, length=3),
    want=lambda c: (c**8, None),
)
TABLE(
    "lax.scan",
    {"a": draw((2,))},
    np.zeros((0, 2), "f4"),
    run=lambda j, c, xs: j.lax.scan(lambda c, x: ({"a": c["a"] + x}, x), c, xs),
    want=lambda c, xs: (c, xs),
)
for _flag in (True, False, np.array(True), np.array(0)):
    TABLE(
        "lax.cond",
        _flag,
        draw((3,)),
        want=lambda p, x: np.sin(x) if p else x * x,
        run=lambda j, p, x: j.lax.cond(p, j.numpy.sin, lambda x: x * x, x),
    )
for _index in (0, 1, 2, 7, -1):
    TABLE(
        "lax.switch",
        _index,
        draw((3,)),
        want=lambda i, x: [np.sin, np.exp, np.square][min(max(i, 0), 2)](x),
        run=lambda j, i, x: j.lax.switch(i, [j.numpy.sin, j.numpy.exp, j.numpy.square], x),
    )
for _steps in (0, 1, 4):
    TABLE(
        "lax.fori_loop",
        _steps,
        draw((3,), 0.2, 1),
        want=lambda n, x: x ** (2**n),
        run=lambda j, n, x: j.lax.fori_loop(0, n, lambda i, y: y * y, x),
    )
    TABLE(
        "lax.while_loop",
        _steps,
        draw((3,), 0.2, 1),
        diff=False,
        want=lambda n, x: (n, x ** (2**n)),
        run=lambda j, n, x: j.lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * c[1]), (0, x)
        ),
    )
TABLE(
    "lax.fori_loop",
    draw((2,)),
    want=lambda x: x * 0 + 6,
    run=lambda j, x: j.lax.fori_loop(np.int32(1), np.int32(4), lambda i, y: y + i, x * 0),
)
TABLE(
    "lax.map",
    _X,
    want=lambda x: np.sin(x).sum(1),
    run=lambda j, x: j.lax.map(lambda r: j.numpy.sin(r).sum(), x),
)
TABLE(
    "lax.map",
    _X,
    want=lambda x: np.sin(x),
    run=lambda j, x: j.lax.map(j.numpy.sin, x, batch_size=3),
)
for _reverse in (False, True):
    TABLE(
        "lax.associative_scan",
        draw((5, 2), 0.5, 2),
        run=lambda j, x, r=_reverse: j.lax.associative_scan(j.numpy.multiply, x, reverse=r),
        want=lambda x, r=_reverse: np.cumprod(x[::-1], 0)[::-1] if r else np.cumprod(x, 0),
    )
TABLE(
    "lax.associative_scan",
    draw((3, 4)),
    run=lambda j, x: j.lax.associative_scan(j.numpy.add, x, axis=1),
    want=lambda x: np.cumsum(x, 1),
)


def cube_root(j: Any, a: Any) -> Any:
    def newton(f: Any, x: Any) -> Any:
        return j.lax.fori_loop(0, 40, lambda _, x: x - f(x) / j.grad(f)(x), x)

    return j.lax.custom_root(lambda x: x**3 - a, 1.0 + 0 * a, newton, lambda g, y: y / g(1.0))


TABLE("lax.custom_root", draw((), 1, 3), run=cube_root, want=np.cbrt)


def linear_solve(j: Any, a: Any, b: Any) -> Any:
    solve = lambda _, y: j.numpy.linalg.solve(a, y)
    backward = lambda _, y: j.numpy.linalg.solve(a.T, y)
    return j.lax.custom_linear_solve(lambda x: a @ x, b, solve, backward)


TABLE(
    "lax.custom_linear_solve",
    draw((3, 3)) + 4 * np.eye(3, dtype="f4"),
    draw((3,)),
    run=linear_solve,
    want=np.linalg.solve,
)

# Collectives, over an axis that vmap names.


def over_axis(f: Any) -> Any:
    return lambda j, x: j.vmap(lambda x: f(j, x), axis_name="i")(x)


def everywhere(f: Any) -> Any:
    return lambda x: np.broadcast_to(f(x), x.shape)


for _name, _want in (("psum", np.sum), ("pmean", np.mean), ("pmax", np.max), ("pmin", np.min)):
    TABLE(
        "lax." + _name,
        draw((3, 2)),
        diff=_name in ("psum", "pmean"),
        run=over_axis(lambda j, x, n=_name: getattr(j.lax, n)(x, "i")),
        want=everywhere(lambda x, f=_want: f(x, axis=0)),
    )
TABLE(
    "lax.psum", draw((3,)), run=over_axis(lambda j, x: j.lax.psum(1, "i") * x), want=lambda x: 3 * x
)
TABLE(
    "lax.axis_index",
    draw((3,)),
    run=over_axis(lambda j, x: x * j.lax.axis_index("i")),
    want=lambda x: x * np.arange(3, dtype="f4"),
)
TABLE(
    "lax.ppermute",
    draw((3, 2)),
    run=over_axis(lambda j, x: j.lax.ppermute(2 * x, "i", [(0, 1), (1, 2), (2, 0)])),
    want=lambda x: 2 * np.roll(x, 1, 0),
)
TABLE(
    "lax.all_gather",
    draw((3, 2)),
    run=over_axis(lambda j, x: j.lax.all_gather(x, "i")),
    want=lambda x: np.broadcast_to(x, (3, 3, 2)),
)
TABLE(
    "lax.all_gather",
    draw((3, 2)),
    run=over_axis(lambda j, x: j.lax.all_gather(x, "i", tiled=True)),
    want=lambda x: np.broadcast_to(x.reshape(-1), (3, 6)),
)
