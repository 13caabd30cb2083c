"""Programs and libraries written for JAX, run unchanged: ``import jax`` gives functrax.

It is asked for, never a side effect of importing functrax:

- ``python -m functrax.compat program.py …``, ``-m module …`` or ``-c code``, like ``python``;
- :func:`install`, before the first ``import jax``;
- ``pytest -p functrax.compat.pytest_plugin``;
- ``FUNCTRAX_COMPAT=1`` in the environment, for what is started elsewhere (a notebook's kernel).

Then ``jax``, its modules and what libraries ask of ``jaxlib`` are functrax, whether or not JAX is
installed too.  A name of JAX that functrax lacks can be imported, and raises
:class:`MissingNameError` when it is used; :func:`report` lists what was asked for in vain.

    from functrax import compat
    compat.install()
    import jax  # functrax
"""

from __future__ import annotations

from functrax.compat.finder import (
    CompatError as CompatError,
    install as install,
    is_installed as is_installed,
)
from functrax.compat.missing import (
    MissingNameError as MissingNameError,
    Report as Report,
    Request as Request,
    report as report,
)
from functrax.core.lazy import listing as _listing

__dir__ = _listing(globals())
