"""Fusion: which equations share a kernel, and why."""
