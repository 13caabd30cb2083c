"""The meshes that are set, as the option ``mesh_context`` has them, and ``with mesh:`` blocks."""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING

from functrax.core.options.config import Override, state as options
from functrax.core.records import record

if TYPE_CHECKING:
    from functrax.backends.sharding.mesh import AbstractMesh, Mesh


@record
class MeshContext:
    """The meshes that are set.

    Args:
      abstract: the mesh that programs are traced for.
      concrete: its devices.
    """

    abstract: AbstractMesh
    concrete: Mesh


class _OldStyle(threading.local):
    """The meshes of the ``with mesh:`` blocks that the running thread is in."""

    def __init__(self) -> None:
        self.entered: list[tuple[Mesh, Override]] = []


_old_style = _OldStyle()


def enter_old_style(mesh: Mesh, none: AbstractMesh) -> Mesh:
    """Begin a ``with mesh:`` block; ``none`` is the abstract mesh where none is set."""
    warnings.warn(
        "`with mesh:` is the older way; `with functrax.set_mesh(mesh):` is the newer",
        DeprecationWarning,
        stacklevel=3,
    )
    before: MeshContext | None = options.mesh_context
    override = Override("mesh_context", MeshContext(before.abstract if before else none, mesh))
    override.__enter__()
    _old_style.entered.append((mesh, override))
    return mesh


def leave_old_style() -> None:
    """End a ``with mesh:`` block."""
    _old_style.entered.pop()[1].__exit__()
