"""``jax.interpreters.xla``: the table of types that are taken for arrays."""

from functrax.compat.extension.array_types import (
    canonicalize_dtype_handlers as canonicalize_dtype_handlers,
)
