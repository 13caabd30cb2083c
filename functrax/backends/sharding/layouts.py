"""How elements lie in memory: row by row, always, which JAX's layouts can say too."""

from __future__ import annotations

from typing import Any, ClassVar

from functrax.backends.sharding.prefixes import prefix_leaves
from functrax.backends.sharding.shardings import Sharding
from functrax.core.errors.typed import ArgumentError, ShapeError, ShardingError, UnavailableError
from functrax.core.pytree.operations import tree_flatten, tree_unflatten
from functrax.core.records import record, replace
from functrax.core.tracing.inputs import as_value


class _AutoLayout:
    """The type of ``Layout.AUTO``."""

    def __repr__(self) -> str:
        return "AUTO"


@record
class Layout:
    """In which order the elements of an array lie in memory.

    Args:
      major_to_minor: the axes, the one first along which neighbours are farthest apart.
      tiling: sizes of tiles that lie together, or None.
      sub_byte_element_size_in_bits: of elements smaller than a byte their bits, else 0.

    >>> Layout((0, 1))
    Layout(major_to_minor=(0, 1), tiling=None, sub_byte_element_size_in_bits=0)
    """

    AUTO: ClassVar = _AutoLayout()
    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...] | None = None
    sub_byte_element_size_in_bits: int = 0

    def __post_init__(self) -> None:
        tiling = self.tiling
        object.__setattr__(self, "major_to_minor", tuple(self.major_to_minor))
        object.__setattr__(self, "tiling", None if tiling is None else tuple(map(tuple, tiling)))

    def update(self, **changes: Any) -> Layout:
        """The layout with other values of some of the arguments."""
        return replace(self, **changes)

    def check_compatible_aval(self, aval_shape: tuple[int, ...]) -> None:
        """Refuse shapes of another rank.

        Raises:
          ShapeError: for such a shape.
        """
        if len(self.major_to_minor) != len(aval_shape):
            raise ShapeError(
                "Layout: major_to_minor has not one entry for each axis",
                got=f"major_to_minor={self.major_to_minor}, shape {tuple(aval_shape)}",
                fix=f"major_to_minor={tuple(range(len(aval_shape)))}",
            )


@record
class Format:
    """A layout and a sharding: how the elements of an array lie, and where.

    Args:
      layout: the layout, ``Layout.AUTO``, or None for any.
      sharding: the sharding; None for any where the layout is no :class:`Layout`.

    Raises:
      ArgumentError: if one is of another type.
      ShardingError: for a layout without a sharding.
    """

    layout: Layout | _AutoLayout | None = None
    sharding: Sharding | None = None

    def __post_init__(self) -> None:
        layout, sharding = self.layout, self.sharding
        if not isinstance(layout, (Layout, _AutoLayout, type(None))):
            raise ArgumentError(
                "Format: not a layout",
                got=f"{layout!r} of type {type(layout).__name__}",
                fix="a Layout, Layout.AUTO, or None",
            )
        if not isinstance(sharding, (Sharding, type(None))):
            raise ArgumentError(
                "Format: not a sharding",
                got=f"{sharding!r} of type {type(sharding).__name__}",
                fix="a functrax.sharding.Sharding, or None",
            )
        if isinstance(layout, Layout) and sharding is None:
            raise ShardingError(
                "Format: a layout needs a sharding",
                got=f"{layout!r} and None",
                fix="functrax.sharding.SingleDeviceSharding(functrax.devices()[0])",
            )


def row_major(array: Any, sharding: Sharding) -> Format:
    """The format of an array, or of a type: row by row."""
    return Format(Layout(tuple(range(len(array.shape)))), sharding)


def check_row_major(layout: Any, shape: tuple[int, ...], what: str) -> None:
    """Refuse layouts that arrays cannot have: all but row by row.

    Raises:
      ShapeError: if the layout is for another rank.
      UnavailableError: if it is another.
    """
    if not isinstance(layout, Layout):
        return
    layout.check_compatible_aval(shape)
    if layout.major_to_minor != tuple(range(len(shape))) or layout.tiling:
        raise UnavailableError(
            f"{what}: arrays lie row by row",
            got=repr(layout),
            fix=f"Layout({tuple(range(len(shape)))}), or functrax.numpy.transpose",
        )


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """The arrays of a pytree, checked to lie as a layout says: row by row.

    Args:
      x: a pytree of arrays.
      layouts: a :class:`Layout`, or a pytree prefix of ``x`` that ends in them.

    Raises:
      ArgumentError: if something else is in ``layouts``.
      ShapeError: if a layout is for another rank.
      UnavailableError: if it is not row by row.

    >>> import functrax.numpy as jnp
    >>> with_layout_constraint(jnp.arange(3), Layout((0,)))
    Array([0, 1, 2], dtype=int32)
    """
    name = "with_layout_constraint"
    leaves, tree = tree_flatten(x)
    values = [as_value(leaf, f"a leaf given to {name}") for leaf in leaves]
    for value, layout in zip(values, prefix_leaves(layouts, x, f"{name}: layouts"), strict=True):
        if not isinstance(layout, Layout):
            raise ArgumentError(
                f"{name}: not a layout",
                got=f"{layout!r} of type {type(layout).__name__}",
                fix="functrax.experimental.layout.Layout((0, 1)) for a matrix",
            )
        check_row_major(layout, value.aval.shape, name)
    return tree_unflatten(tree, values)
