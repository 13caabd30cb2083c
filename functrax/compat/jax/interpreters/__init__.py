"""``jax.interpreters``: the tables of rules of JAX's extension interface."""
