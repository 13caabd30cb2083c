"""Derivative and batching rules of the user's own."""
