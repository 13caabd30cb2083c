"""Looking into programs while they run: :func:`print` and :func:`callback`."""

from __future__ import annotations

import builtins
import string
from typing import Any

from functrax.core.errors import ArgumentError
from functrax.transforms.callbacks import debug_callback as callback

__all__ = ["callback", "print"]


def print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Print values when the program runs, also inside ``jit``, ``vmap`` and ``grad``.

    Args:
      fmt: a format string, as for ``str.format``.
      args: values for ``{}`` and ``{0}``.
      ordered: accepted for compatibility; prints come in program order.
      kwargs: values for ``{name}``.

    Raises:
      ArgumentError: if the format string and the values do not go together.

    >>> import functrax
    >>> @functrax.jit
    ... def f(x):
    ...     functrax.debug.print("x is {x}", x=x)
    ...     return x * 2
    >>> y = f(3)
    x is 3
    """
    _check_format(fmt, args, kwargs)
    callback(lambda *a, **k: builtins.print(fmt.format(*a, **k)), *args, **kwargs)


def _check_format(fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    fields = [name for _, name, _, _ in string.Formatter().parse(fmt) if name is not None]
    used = {f.split(".")[0].split("[")[0] for f in fields}
    missing = [n for n in used if n and not n.isdigit() and n not in kwargs]
    positions = [int(n) for n in used if n.isdigit()]
    needed = max([p + 1 for p in positions], default=fields.count(""))
    if missing or needed > len(args) or set(kwargs) - used or len(args) > needed:
        raise ArgumentError(
            "debug.print: the format string and the values do not go together",
            got=f"{fmt!r} with {len(args)} positional values and {sorted(kwargs)}",
            fix='a field for each value: debug.print("x = {x}", x=x)',
        )
