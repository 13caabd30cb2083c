"""Where functrax differs from JAX on purpose: parts of the lines that report the differences.

Each name has a row in docs/differences_from_jax.md.
"""

DIFFERENCES: dict[str, tuple[str, ...]] = {}
