"""Types of arguments whose sizes have names.

Start at :func:`symbolic_args_specs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrax.core.boundaries.tracebacks import as_boundary
from functrax.core.pytree.operations import broadcast_prefix, tree_flatten, tree_unflatten
from functrax.core.tracing.inputs import as_value
from functrax.core.types.symbolic_scopes import SymbolicScope, scope_of, symbolic_shape
from functrax.transforms.arguments.types_of_arrays import ShapeDtypeStruct


@as_boundary
def symbolic_args_specs(
    args: Any,
    shapes_specs: Any,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
) -> Any:
    """The types of arguments, with names for some of their sizes.

    Args:
      args: a pytree of arrays, or of :class:`functrax.ShapeDtypeStruct`.
      shapes_specs: what :func:`symbolic_shape` takes, for all of them or for a pytree that is a
        prefix of theirs; None for the sizes that they have.
      constraints: what holds for all values of the sizes.
      scope: that of the sizes; a new one with the constraints if omitted.

    Returns:
      The pytree, with a :class:`functrax.ShapeDtypeStruct` for each array.

    Raises:
      ArgumentError: if a text is no shape, or does not fit its array.

    >>> import functrax.numpy as jnp
    >>> symbolic_args_specs((jnp.ones((2, 784)), jnp.ones(2)), ("b, ...", "b"))[0]
    ShapeDtypeStruct(shape=(b, 784), dtype=float32)
    """
    scope = scope_of("symbolic_args_specs", scope, constraints)
    leaves, tree = tree_flatten(args)
    is_spec = lambda x: x is None or isinstance(x, str)  # noqa: E731
    specs = broadcast_prefix(shapes_specs, args, is_spec)
    made = []
    for x, spec in zip(leaves, specs, strict=True):
        known = x if isinstance(x, ShapeDtypeStruct) else as_value(x).aval
        shape = symbolic_shape(spec, scope=scope, like=known.shape)
        made.append(ShapeDtypeStruct(shape, known.dtype))
    return tree_unflatten(tree, made)
