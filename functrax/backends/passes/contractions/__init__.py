"""Sums of products: found, brought to a normal form, and made fewer."""
