"""Compilations that are used again: for other sizes, and in other processes."""
