"""For interactive work: the magics of IPython, and progress of long loops.

``%load_ext functrax`` loads the magics (``magics.py``); :func:`progress` shows how far a loop has
come.
"""

from __future__ import annotations

from typing import Any

from functrax.notebook.watched_loops import progress as progress


def load_ipython_extension(shell: Any) -> None:
    """Add functrax's magics to IPython; ``%load_ext functrax`` calls it.

    Args:
      shell: the interpreter of IPython, or of a notebook.

    Raises:
      AttributeError: ``shell`` is no interpreter of IPython.

    >>> import functrax
    >>> class Shell:  # what IPython calls for
    ...     def register_magic_function(self, function, magic_kind, magic_name):
    ...         print(magic_kind, magic_name)
    >>> functrax.load_ipython_extension(Shell())
    line_cell explain
    """
    from functrax.notebook.magics import ExplainMagic

    shell.register_magic_function(ExplainMagic(shell), magic_kind="line_cell", magic_name="explain")
