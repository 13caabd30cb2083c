"""Looking into programs while they run: :func:`print`, :func:`callback`, :func:`breakpoint`."""

from __future__ import annotations

import builtins
import cmd
import string
import sys
from collections.abc import Callable
from typing import IO, Any

from functrax.backends.sharding.drawing import visualize_sharding as visualize_sharding
from functrax.backends.sharding.placed import sharding_of
from functrax.core.errors import ArgumentError
from functrax.core.inputs import as_value
from functrax.core.pytree import tree_leaves
from functrax.transforms.callbacks import debug_callback as callback

__all__ = [
    "DebugEffect",
    "OrderedDebugEffect",
    "breakpoint",
    "callback",
    "inspect_array_sharding",
    "log",
    "print",
    "visualize_array_sharding",
    "visualize_sharding",
]


class DebugEffect:
    """What a program does to the world when it calls :func:`callback` or :func:`print`."""

    def __str__(self) -> str:
        return "Debug"


class OrderedDebugEffect:
    """The same where the order of the calls is asked for, ``ordered=True``."""

    def __str__(self) -> str:
        return "OrderedDebug"


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


def log(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """As :func:`print`, but to the logger ``functrax.debug``, at the level ``INFO``.

    Args:
      fmt: a format string, as for ``str.format``.
      args: values for ``{}`` and ``{0}``.
      ordered: whether lines come in the order of the program, as they do in any case.
      kwargs: values for ``{name}``.

    Raises:
      ArgumentError: if the format string and the values do not go together.
    """
    import logging

    _check_format(fmt, args, kwargs, "log")
    logger = logging.getLogger("functrax.debug")
    callback(lambda *a, **k: logger.info("%s", fmt.format(*a, **k)), *args, **kwargs)


def inspect_array_sharding(value: Any, *, callback: Callable[[Any], Any]) -> None:
    """Call a function with the sharding of each array of a pytree, also inside of ``jit``.

    A traced array is on the one device; the function is called when it is traced.

    Args:
      value: a pytree of arrays.
      callback: takes a sharding.

    >>> import functrax.numpy as jnp
    >>> inspect_array_sharding(jnp.ones(2), callback=lambda s: builtins.print(s.num_devices))
    1
    """
    for leaf in tree_leaves(value):
        callback(sharding_of(as_value(leaf, "a leaf given to inspect_array_sharding")))


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Print which part of an array of one or two axes lies on which device.

    Args:
      arr: the array.
      kwargs: as for :func:`visualize_sharding`.

    >>> import functrax.numpy as jnp
    >>> visualize_array_sharding(jnp.ones(3))
    ┌───────┐
    │ CPU 0 │
    └───────┘
    """
    shape = as_value(arr, "the argument of visualize_array_sharding").aval.shape
    inspect_array_sharding(arr, callback=lambda s: visualize_sharding(shape, s, **kwargs))


def _check_format(
    fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any], name: str = "print"
) -> None:
    fields = [name for _, name, _, _ in string.Formatter().parse(fmt) if name is not None]
    used = {f.split(".")[0].split("[")[0] for f in fields}
    missing = [n for n in used if n and not n.isdigit() and n not in kwargs]
    positions = [int(n) for n in used if n.isdigit()]
    needed = max([p + 1 for p in positions], default=fields.count(""))
    if missing or needed > len(args) or set(kwargs) - used or len(args) > needed:
        raise ArgumentError(
            f"debug.{name}: the format string and the values do not go together",
            got=f"{fmt!r} with {len(args)} positional values and {sorted(kwargs)}",
            fix=f'a field for each value: debug.{name}("x = {{x}}", x=x)',
        )


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    stdin: IO[str] | None = None,
    stdout: IO[str] | None = None,
) -> None:
    """Stop when the program runs, also inside ``jit``, to look at the variables of the caller.

    Expressions are evaluated with the caller's variables, arrays as NumPy arrays; ``help`` lists
    the commands.

    Args:
      backend: accepted for compatibility.
      filter_frames: accepted for compatibility.
      num_frames: accepted for compatibility.
      ordered: accepted for compatibility.
      token: accepted for compatibility.
      stdin: where commands are read from; the terminal if None.
      stdout: where answers are written; the terminal if None.
    """
    frame = sys._getframe(1)
    place = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"

    def stop(variables: dict[str, Any]) -> None:
        _Prompt(place, variables, stdin, stdout).cmdloop()

    callback(stop, dict(frame.f_locals))


class _Prompt(cmd.Cmd):
    """Answers questions about the variables at a place until it is told to go on."""

    prompt = "(functrax) "

    def __init__(
        self,
        place: str,
        variables: dict[str, Any],
        stdin: IO[str] | None,
        stdout: IO[str] | None,
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.intro = f"Stopped at {place}"
        self.variables = variables

    def default(self, line: str) -> None:
        """Evaluate an expression."""
        try:
            answer = repr(eval(line, dict(self.variables)))
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        self.stdout.write(answer + "\n")

    def emptyline(self) -> bool:
        return False

    def do_p(self, line: str) -> None:
        """Print the value of an expression."""
        self.default(line)

    def do_locals(self, line: str) -> None:
        """List the variables."""
        self.stdout.write(" ".join(sorted(self.variables)) + "\n")

    def do_c(self, line: str) -> bool:
        """Go on."""
        return True

    do_continue = do_EOF = do_c

    def do_q(self, line: str) -> None:
        """End the program."""
        raise SystemExit("the program was ended at functrax.debug.breakpoint")
