"""Strategies: which rewrites a kernel's loops go through, by the form of the kernel.

Start at ``schedule``.
"""
