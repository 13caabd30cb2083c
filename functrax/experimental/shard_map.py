"""``shard_map`` with its older arguments; see :func:`functrax.shard_map`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrax.transforms.sharded.shard_map import shard_map as _shard_map


def shard_map(
    f: Callable[..., Any], mesh: Any, in_specs: Any, out_specs: Any, check_rep: bool = True
) -> Callable[..., Any]:
    """Map a function over the parts of arrays on the devices of a mesh.

    Args:
      f: the function of the parts.
      mesh: the mesh.
      in_specs: along which axes the arguments are divided.
      out_specs: along which axes the results are divided.
      check_rep: whether to refuse results that vary along an axis which their spec does not name.

    >>> import functrax, functrax.numpy as jnp
    >>> mesh, spec = functrax.make_mesh((1,), ("i",)), functrax.P("i")
    >>> shard_map(lambda x: x + 1, mesh, spec, spec)(jnp.arange(3))
    Array([1, 2, 3], dtype=int32)
    """
    return _shard_map(
        f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=bool(check_rep)
    )
