"""The loop IR: a kernel as a tree of loops, stores and values; see ``tree.py``."""
