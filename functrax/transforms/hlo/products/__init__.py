"""Sums of products in XLA's language: dots, convolutions, and what they read."""
