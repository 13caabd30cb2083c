"""Names of JAX's interpreters that older programs import."""
