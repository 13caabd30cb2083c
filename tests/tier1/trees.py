"""Pytrees, ``ops``, ``flatten_util`` and ``scipy.linalg``."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from tests.tier1.sample import TABLE, draw, resolve


class Point(NamedTuple):
    x: Any
    y: Any


A, B, C = draw((2,)), draw((3,)), draw(())
TREE = {"b": [A, (B,)], "a": Point(C, None)}
LEAVES = [C, A, B]


def doubled(tree: Any) -> Any:
    return {"b": [2 * A, (2 * B,)], "a": Point(2 * C, None)}


for _prefix in ("tree.", "tree_util.tree_"):

    def call(j: Any, name: str, prefix: str = _prefix) -> Any:
        return getattr(j.tree, name) if prefix == "tree." else getattr(j.tree_util, "tree_" + name)

    TABLE(_prefix + "flatten", run=lambda j, c=call: c(j, "flatten")(TREE)[0], want=lambda: LEAVES)
    TABLE(
        _prefix + "flatten",
        run=lambda j, c=call: c(j, "flatten")(TREE, is_leaf=lambda x: isinstance(x, Point))[0][0].y,
        want=lambda: None,
    )
    TABLE(_prefix + "leaves", run=lambda j, c=call: c(j, "leaves")(TREE), want=lambda: LEAVES)
    TABLE(
        _prefix + "leaves",
        run=lambda j, c=call: [len(c(j, "leaves")(t)) for t in (None, {}, [], 3, [None, ()], "a")],
        want=lambda: [0, 0, 0, 1, 0, 1],
    )
    TABLE(
        _prefix + "map",
        run=lambda j, c=call: c(j, "map")(lambda x: 2 * x, TREE),
        want=lambda: doubled(TREE),
    )
    TABLE(
        _prefix + "map",
        run=lambda j, c=call: c(j, "map")(lambda x, y: x + y, TREE, TREE),
        want=lambda: doubled(TREE),
    )
    TABLE(
        _prefix + "map",
        {"a": A},
        want=lambda p: {"a": np.sin(p["a"])},
        run=lambda j, p, c=call: c(j, "map")(j.numpy.sin, p),
    )
    TABLE(
        _prefix + "structure",
        run=lambda j, c=call: (
            c(j, "structure")(TREE) == c(j, "structure")(doubled(TREE)),
            c(j, "structure")(TREE).num_leaves,
            c(j, "structure")(TREE) == c(j, "structure")([1]),
        ),
        want=lambda: (True, 3, False),
    )
    TABLE(
        _prefix + "unflatten",
        run=lambda j, c=call: c(j, "unflatten")(c(j, "structure")(TREE), [2 * x for x in LEAVES]),
        want=lambda: doubled(TREE),
    )

TABLE(
    "tree_util.tree_reduce",
    run=lambda j: j.tree_util.tree_reduce(lambda a, x: a + x.size, TREE, 0),
    want=lambda: 6,
)
TABLE(
    "tree_util.tree_reduce",
    run=lambda j: j.tree_util.tree_reduce(lambda a, x: a * x, [1, (2, 3)]),
    want=lambda: 6,
)
TABLE(
    "tree_util.Partial",
    A,
    C,
    want=lambda x, y: x * y,
    run=lambda j, x, y: j.jit(lambda g: g(y))(j.tree_util.Partial(lambda a, b: a * b, x)),
)


def registered(j: Any, x: Any, how: str) -> Any:
    """A class of its own as an argument of jit and a result of grad."""

    class Pair:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

        def tree_flatten(self) -> Any:
            return (self.a, self.b), "aux"

        @classmethod
        def tree_unflatten(cls, aux: Any, children: Any) -> Any:
            assert aux == "aux"
            return cls(*children)

    if how == "dataclass":
        Pair = dataclasses.make_dataclass("Pair", ["a", "b"])
        j.tree_util.register_dataclass(Pair, data_fields=["a", "b"], meta_fields=[])
    elif how == "class":
        j.tree_util.register_pytree_node_class(Pair)
    else:
        j.tree_util.register_pytree_node(Pair, Pair.tree_flatten, Pair.tree_unflatten)
    g = j.jit(j.grad(lambda p: (p.a * p.b**2).sum()))(Pair(x, 3 * x))
    assert type(g) is Pair
    return g.a, g.b


for _name, _how in (
    ("register_pytree_node", "node"),
    ("register_pytree_node_class", "class"),
    ("register_dataclass", "dataclass"),
):
    TABLE("tree_util." + _name, B, _how, run=registered, want=lambda x, _: (9 * x**2, 6 * x**2))

TABLE(
    "flatten_util.ravel_pytree",
    {"a": A, "b": [B, C]},
    run=lambda j, p: (lambda flat, back: (flat, back(2 * flat)))(
        *resolve(j, "flatten_util.ravel_pytree")(p)
    ),
    want=lambda p: (
        np.concatenate([p["a"], p["b"][0], p["b"][1].reshape(1)]),
        {"a": 2 * p["a"], "b": [2 * p["b"][0], 2 * p["b"][1]]},
    ),
)
TABLE(
    "flatten_util.ravel_pytree",
    run=lambda j: resolve(j, "flatten_util.ravel_pytree")([np.float32([1, 2]), np.int32(3)])[0],
    want=lambda: np.float32([1, 2, 3]),
)
TABLE(
    "flatten_util.ravel_pytree",
    run=lambda j: resolve(j, "flatten_util.ravel_pytree")({})[0].shape,
    want=lambda: (0,),
)


def segments(x: Any, ids: Any, num_segments: Any = None, **_: Any) -> Any:
    count = int(ids.max()) + 1 if num_segments is None else num_segments
    out = np.zeros((count, *x.shape[1:]), x.dtype)
    for row, k in zip(x, ids, strict=True):
        if 0 <= k < count:
            out[k] += row
    return out


_ids = np.array([0, 2, 0, 1, 2])
for _options in (
    {},
    {"num_segments": 4},
    {"num_segments": 2},
    {"num_segments": 3, "indices_are_sorted": False, "bucket_size": 2},
):
    TABLE("ops.segment_sum", draw((5, 2)), _ids, want=segments, **_options)
    TABLE("ops.segment_sum", draw((5,), 0, 9, "i4"), _ids, want=segments, **_options)
TABLE("ops.segment_sum", draw((3,)), np.array([0, -1, 1]), num_segments=2, want=segments)
TABLE("ops.segment_sum", np.zeros((0, 2), "f4"), np.zeros(0, int), num_segments=3, want=segments)

for _lower in (True, False):
    for _trans in (0, 1, "T"):
        for _b in ((3,), (3, 2)):
            TABLE(
                "scipy.linalg.solve_triangular",
                draw((3, 3), 1, 3),
                draw(_b),
                lower=_lower,
                trans=_trans,
                want=scipy.linalg.solve_triangular,
            )
TABLE(
    "scipy.linalg.solve_triangular",
    draw((3, 3), 1, 3),
    draw((3,)),
    unit_diagonal=True,
    want=scipy.linalg.solve_triangular,
)
TABLE(
    "scipy.linalg.solve_triangular",
    draw((2, 2), 1, 3, "c8"),
    draw((2,)),
    trans="C",
    want=scipy.linalg.solve_triangular,
)
