"""``jax._src.state``, of which libraries ask for types of references."""
