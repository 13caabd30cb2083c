"""Computations in XLA's language as data: nodes, literals, their text."""
