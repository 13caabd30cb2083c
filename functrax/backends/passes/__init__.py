"""The compiler's passes, one file each, by idea: a program in, an equal program out.

A pass takes a program without constants and a :class:`~functrax.backends.passes.rewrites.Rewrites`,
which it asks before each rewrite.  It returns the same object if it changes nothing.  The list of
passes, in order, is in ``backends/compilation/pipeline.py``.
"""
