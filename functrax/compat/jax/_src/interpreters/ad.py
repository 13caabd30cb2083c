"""``jax._src.interpreters.ad``: what libraries take from it, beside the public names."""

from __future__ import annotations

from functrax.core.errors.typed import DifferentiationError

#: What a function with a custom derivative raises that closes over what is differentiated.
CustomVJPException = DifferentiationError
