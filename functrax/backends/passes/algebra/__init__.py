"""Algebraic simplification: a table of rules, and what applies it."""
