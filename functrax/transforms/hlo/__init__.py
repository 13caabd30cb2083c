"""Programs written in HLO, the language that XLA compiles.

``program.py`` is the entry.  Equations become nodes of a graph (``nodes.py``) by rules, one for a
primitive's class (``rules.py``), in ``elementwise.py``, ``movement.py``, ``reductions.py``,
``control.py``, ``ordering.py``, ``linear_algebra.py``; sums of products become contractions
(``contractions.py``).  The graph is printed last (``printing.py``).
"""
