"""Programs that leave Python: exported, kept in files, read again; as ``jax.export``.

>>> import functrax, functrax.numpy as jnp
>>> from functrax import export
>>> exported = export.export(functrax.jit(functrax.grad(lambda x: jnp.sum(x**2))))(jnp.ones(3))
>>> again = export.deserialize(exported.serialize())
>>> again.call(jnp.arange(3.0))
Array([0., 2., 4.], dtype=float32)
"""

from __future__ import annotations

from functrax.core.lazy import listing as _listing
from functrax.core.types.symbolic_scopes import (
    SymbolicScope as SymbolicScope,
    symbolic_shape as symbolic_shape,
)
from functrax.core.types.symbolic_sizes import is_symbolic_dim as is_symbolic_dim
from functrax.export.exported import (
    CALLING_CONVENTION,
    DisabledSafetyCheck as DisabledSafetyCheck,
    Exported as Exported,
    default_export_platform as default_export_platform,
    deserialize as deserialize,
    export as export,
)
from functrax.export.specs import symbolic_args_specs as symbolic_args_specs
from functrax.export.trees import (
    register_namedtuple_serialization as register_namedtuple_serialization,
    register_pytree_node_serialization as register_pytree_node_serialization,
)

minimum_supported_calling_convention_version = CALLING_CONVENTION
maximum_supported_calling_convention_version = CALLING_CONVENTION

__dir__ = _listing(globals())
