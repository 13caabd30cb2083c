"""Options: what there is to set, who has set it, and how it is read.

Three layers, the later ones winning: a default, an environment variable ``FUNCTRAX_<NAME>`` (read
once, when this module is imported) or :meth:`Config.update` for the whole process, and a context
manager (``with enable_x64():``) for the thread that runs it.

``state`` holds all of them. It is a ``threading.local`` whose *class* attributes are the values of
the process and whose *instance* attributes are the overrides of one thread, so that Python's
attribute look-up does the layering. Hot paths read ``state.enable_x64``, which costs about as much
as reading a global; ``config.enable_x64`` is the same value under the public, slower roof.

:func:`trace_context` is the part of the options that changes what a traced program means, and so
belongs in the key of every cache of traced programs.

Start at ``OPTIONS``, the table of all options.
"""

from __future__ import annotations

import threading


class State(threading.local):
    """The options as the running thread sees them; write them through ``config`` only."""

    enable_x64: bool = False


state = State()
