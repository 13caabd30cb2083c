"""For interactive work: the magics of IPython, and progress of long loops and compilations.

``%load_ext functrax`` loads the magics (``magics.py``); :func:`progress` shows how far a loop has
come, and :class:`show_compiles` what the compiler does when it takes long.
"""

from __future__ import annotations

import sys
from typing import Final, Protocol

from functrax.core.lazy import listing as _listing
from functrax.notebook.compiles import show_compiles as show_compiles
from functrax.notebook.watched_loops import progress as progress

_compiles: Final = show_compiles()


class Shell(Protocol):
    """An interpreter of IPython, as far as it is needed here."""

    def register_magic_function(self, function: object, magic_kind: str, magic_name: str) -> None:
        """Add a magic."""


def load_ipython_extension(shell: Shell) -> None:
    """Add functrax's magics to IPython; ``%load_ext functrax`` calls it.

    On a terminal it also starts :class:`show_compiles`.

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
    if sys.stderr.isatty():
        _compiles.start()


__dir__ = _listing(globals())
