"""A simulator of PTX: it runs the text that a GPU would run, and finds faults that a GPU hides.

``module.Module`` parses and decodes PTX text, ``memory.Memory`` is a device's memory, and
``launch.launch`` runs a kernel.  Start reading at ``launch.py``; docs/decisions/0047 tells how it
works.  Only NumPy and the standard library are needed.
"""
