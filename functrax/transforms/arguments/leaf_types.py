"""The leaves of a pytree as users see them: their axes, and their types in errors.

An array of typed keys is a leaf for users and a node around an array of words for transformations
(``core/pytree/operations.py``).  The words have one axis more, the last, which users neither name
nor read of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from functrax.core.pytree.node import LEAF, TreeNode, is_handle, registry
from functrax.core.pytree.operations import PyTreeDef, in_handles
from functrax.core.records import record
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.arguments.types_of_arrays import ShapeDtypeStruct


@record
class HandleType:
    """The type of an array that the language has no type for; it has what errors ask of an aval."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def str_short(self) -> str:
        """``key<fry>[3,4]``."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    str_long = str_short


LeafType: TypeAlias = ShapedArray | HandleType


def leaf_types(tree: PyTreeDef, avals: Sequence[ShapedArray]) -> list[LeafType]:
    """The type of each leaf of a structure as users know it.

    Args:
      tree: a structure.
      avals: the types of the arrays that are its leaves for transformations.
    """
    return list(_types(tree, iter(avals)))


def _types(node: TreeNode, avals: Iterator[ShapedArray]) -> Iterator[LeafType]:
    if node._kind == LEAF:
        yield next(avals)
    elif node._type is not None and is_handle(node._type):
        words = tuple(ShapeDtypeStruct(a.shape, a.dtype) for _, a in zip(node._children, avals))
        of_users = registry[node._type].unflatten(node._data, words)
        yield HandleType(str(of_users.dtype), tuple(of_users.shape))
    else:
        for child in node._children:
            yield from _types(child, avals)


def axes_of_words(
    tree: PyTreeDef, avals: Sequence[ShapedArray], axes: Sequence[int | None]
) -> list[int | None]:
    """Axes that users named, where those of typed keys do not count the last one of their words.

    Args:
      tree: a structure.
      avals: the types of its leaves.
      axes: an axis of each leaf, or None.  One that a leaf lacks is one that its words lack.
    """
    if not any(aval.dtype == dtypes.uint32 for aval in avals):
        return list(axes)
    found = []
    for axis, aval, words in zip(axes, avals, in_handles(tree), strict=True):
        if words and axis is not None:
            ndim = aval.ndim - 1
            axis = axis % ndim if -ndim <= axis < ndim else aval.ndim
        found.append(axis)
    return found
