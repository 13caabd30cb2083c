"""Kernels: what a group of equations computes for one element, before it is code of a machine.

One element is a graph of :class:`~functrax.core.scalars.scalar.Scalar` operations, which primitives
write themselves.  ``evaluate`` gives the values of such a graph in NumPy; ``fma`` is the one
operation that NumPy lacks.
"""
