"""Rewrites of trees: what a schedule is a list of.

Each is a record with a ``kind``, a text, and a method that takes a tree and gives one that computes
the same.  One file holds those of one idea.  A new rewrite is a file here, and a line in the
strategy that wants it (``loops/strategies``).

Start at ``apply``.
"""
