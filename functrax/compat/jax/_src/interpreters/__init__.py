"""``jax._src.interpreters``: what libraries take from it."""
