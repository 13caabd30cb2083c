"""The few private modules of JAX that libraries import."""
