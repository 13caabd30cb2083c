"""JAX's extension interface, as a view of functrax's: primitives with rules, and programs to read.

``rules`` has the tables of rules, ``user_primitives`` the primitives that they belong to, and
``programs`` programs as JAX shows them.  The modules of :mod:`functrax.compat.jax` name these
things as JAX does.
"""
