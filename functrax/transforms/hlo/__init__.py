"""Programs written in HLO, the language that XLA compiles.

``hlo_module.py`` is the entry.  Equations become nodes of a graph (``computations/``) by rules, one
for a primitive's class (``rules.py``), in ``elementwise.py``, ``movement.py``, ``reductions.py``,
``control.py``, ``sorting.py``, ``solvers.py``; sums of products become contractions
(``products/``).  The graph is printed last (``computations/hlo_text.py``).
"""
