"""``jax.extend``: JAX's extension interface."""
