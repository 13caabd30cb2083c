"""Scalar expressions: what one element of a kernel computes, complex numbers among them."""
