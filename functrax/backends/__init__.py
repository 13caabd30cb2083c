"""Backends: what runs a program.  ``device`` is the interface, ``reference/`` plain NumPy."""
