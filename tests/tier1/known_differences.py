"""Where functrax differs from JAX on purpose: parts of the lines that report the differences.

Each name has a row in docs/differences_from_jax.md, which says why.
"""

DIFFERENCES: dict[str, tuple[str, ...]] = {
    "jax.numpy.sign": ("gradient of jax.numpy.sign of arguments complex64",),
    "jax.numpy.linalg.norm": ("arguments int32[3], x64 True: functrax ['float64[]']",),
}
