"""Pytrees: nested containers, seen as a structure and a list of leaves."""
