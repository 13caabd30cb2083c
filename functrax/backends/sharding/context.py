"""The mesh that a block of code, or the whole program, is for.

It is the option ``mesh_context``, so that threads have their own, and functions that were traced
under another mesh are traced again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.backends.device import Device, current_device
from functrax.backends.sharding.mesh import (
    NO_ABSTRACT_MESH,
    NO_MESH,
    AbstractMesh,
    AxisType,
    Mesh,
    MeshContext,
    as_names,
)
from functrax.core.errors.typed import ArgumentError, ShardingError
from functrax.core.options.config import Override, state as options
from functrax.core.tracing.trace import EVAL, state

#: No mesh is set.
NO_CONTEXT = MeshContext(NO_ABSTRACT_MESH, NO_MESH)


def _now() -> MeshContext:
    return options.mesh_context or NO_CONTEXT


def get_abstract_mesh() -> AbstractMesh:
    """The mesh that the running code is for, without its devices; an empty one if none is set.

    Returns:
      An :class:`AbstractMesh`.

    >>> get_abstract_mesh()
    AbstractMesh((), axis_types=())
    """
    return _now().abstract


def get_mesh() -> Mesh:
    """The mesh that was set by :func:`set_mesh`; an empty one if none is.

    Returns:
      A :class:`Mesh`.

    Raises:
      ShardingError: inside of ``jit``, where programs do not depend on devices.

    >>> get_mesh().axis_names
    ()
    """
    if state.trace is not EVAL:
        raise ShardingError(
            "get_mesh: a function that is being traced does not know its devices",
            got="a call while a function is traced",
            fix="functrax.sharding.get_abstract_mesh()",
        )
    return _now().concrete


class set_mesh:  # noqa: N801  # a function that is also a context manager, as in JAX
    """Make a mesh the one that code is for: from now on, or within a ``with`` block.

    Args:
      mesh: the mesh; None for no mesh.

    Raises:
      ArgumentError: if it is no :class:`Mesh`.
      ShardingError: inside of ``jit``.

    >>> import functrax
    >>> mesh = functrax.make_mesh((1,), ("x",))
    >>> with set_mesh(mesh):
    ...     functrax.sharding.get_mesh() is mesh
    True
    """

    def __init__(self, mesh: Mesh | None) -> None:
        if mesh is not None and not isinstance(mesh, Mesh):
            raise ArgumentError(
                "set_mesh: not a mesh",
                got=f"{mesh!r} of type {type(mesh).__name__}",
                fix="functrax.make_mesh((1,), ('x',)), or None",
            )
        if state.trace is not EVAL:
            raise ShardingError(
                "set_mesh: it cannot be used in a function that is being traced",
                got=repr(mesh),
                fix="set the mesh before the function is called",
            )
        self._mesh = mesh
        new = NO_CONTEXT if mesh is None else MeshContext(mesh.abstract_mesh, mesh)
        self._override = Override("mesh_context", new)
        self._override.__enter__()

    def __enter__(self) -> Mesh | None:
        return self._mesh

    def __exit__(self, *exception: object) -> None:
        self._override.__exit__(*exception)


class use_abstract_mesh:  # noqa: N801  # as in JAX
    """Within a ``with`` block, trace programs for a mesh of which only the sizes are known.

    Args:
      mesh: the mesh.

    Raises:
      ArgumentError: if it is no :class:`AbstractMesh`.
      ShardingError: if there is a mesh of another size already.

    >>> with use_abstract_mesh(AbstractMesh((2,), ("x",))):
    ...     get_abstract_mesh().size
    2
    """

    def __init__(self, mesh: AbstractMesh) -> None:
        if not isinstance(mesh, AbstractMesh):
            raise ArgumentError(
                "use_abstract_mesh: not an abstract mesh",
                got=f"{mesh!r} of type {type(mesh).__name__}",
                fix="mesh.abstract_mesh, or functrax.sharding.AbstractMesh((1,), ('x',))",
            )
        self.mesh = mesh
        self._entered: list[Override] = []

    def __enter__(self) -> None:
        before = _now()
        sizes = (before.abstract.size, self.mesh.size)
        if all(sizes) and sizes[0] != sizes[1]:
            raise ShardingError(
                "use_abstract_mesh: the mesh that is set has another size",
                got=f"{self.mesh!r} within {before.abstract!r}",
                fix="a mesh of as many devices",
            )
        override = Override("mesh_context", MeshContext(self.mesh, before.concrete))
        override.__enter__()
        self._entered.append(override)

    def __exit__(self, *exception: object) -> None:
        self._entered.pop().__exit__(*exception)


def mesh_of_specs() -> Mesh | AbstractMesh:
    """The mesh that specs given without one are for; an empty one if none is set."""
    now = _now()
    return now.abstract if now.concrete.empty else now.concrete


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[Any],
    axis_types: tuple[AxisType, ...] | None = None,
    *,
    devices: Sequence[Device] | None = None,
) -> Mesh:
    """A mesh of the devices there are.

    Args:
      axis_shapes: how many devices there shall be along each axis; there is one device, so 1s.
      axis_names: a name for each axis.
      axis_types: for each axis who divides arrays along it; Explicit if None, as in JAX.
      devices: the devices to use; all if None.

    Returns:
      A mesh; :func:`functrax.set_mesh` has programs use it.

    Raises:
      ShardingError: if there are fewer devices, or not one name for each axis.

    >>> make_mesh((1, 1), ("x", "y"))
    Mesh(axis_sizes=(1, 1), axis_names=('x', 'y'), axis_types=(Explicit, Explicit))
    """
    given = [current_device()] if devices is None else list(devices)
    shape = tuple(axis_shapes)
    names = as_names(axis_names)
    wanted = int(np.prod(shape, dtype=int))
    if wanted > len(given):
        raise ShardingError(
            "make_mesh: there are fewer devices than the mesh asks for",
            got=f"axis_shapes={shape}, {len(given)} devices",
            fix="1 for each axis",
        )
    grid = np.empty(wanted, dtype=object)
    grid[:] = given[:wanted]
    types = (AxisType.Explicit,) * len(names) if axis_types is None else axis_types
    return Mesh(grid.reshape(shape), names, types)
