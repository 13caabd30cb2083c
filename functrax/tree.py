"""Pytrees under short names: ``functrax.tree.map`` is ``functrax.tree_util.tree_map``.

Example:
  >>> import functrax.tree
  >>> functrax.tree.map(lambda x: 2 * x, {"a": 1, "b": (2, 3)})
  {'a': 2, 'b': (4, 6)}
"""

from functrax.core.pytree.operations import static, tree_unflatten as unflatten
from functrax.core.pytree.public import (
    tree_all as all,
    tree_broadcast as broadcast,
    tree_flatten as flatten,
    tree_flatten_with_path as flatten_with_path,
    tree_leaves as leaves,
    tree_leaves_with_path as leaves_with_path,
    tree_map as map,
    tree_map_with_path as map_with_path,
    tree_reduce as reduce,
    tree_reduce_associative as reduce_associative,
    tree_structure as structure,
    tree_transpose as transpose,
)

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
