"""Looking into programs while they run: :func:`print`, :func:`callback`, :func:`breakpoint`."""

from __future__ import annotations

import builtins
import cmd
import functools
import string
import sys
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from functrax.backends.sharding.drawing import visualize_sharding as visualize_sharding
from functrax.backends.sharding.placed import sharding_of
from functrax.core.boundaries.tracebacks import as_boundary
from functrax.core.errors.typed import ArgumentError, FormatError
from functrax.core.lazy import listing as _listing
from functrax.core.pytree.operations import tree_leaves
from functrax.core.tracing.inputs import as_value, is_valid_argument
from functrax.transforms.operations.callbacks import debug_callback

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


@as_boundary
def print(fmt: str | None = None, *args: Any, ordered: bool = False, **kwargs: Any) -> Any:
    """Print values when the program runs, also inside ``jit``, ``vmap`` and ``grad``.

    ``print(ordered=True)`` gives a function with that option, for ``print(ordered=True)("{}", x)``.
    Arrays look as NumPy's print options say where the function is called.

    Args:
      fmt: a format string, as for ``str.format``.
      args: values for ``{}`` and ``{0}``.
      ordered: accepted for compatibility; prints come in program order.
      kwargs: values for ``{name}``.

    Returns:
      None; without a format string, a function that takes one.

    Raises:
      FormatError: if the format string and the values do not go together, as ``{:.2f}`` and an
        array of several elements do not.

    >>> import functrax
    >>> @functrax.jit
    ... def f(x):
    ...     functrax.debug.print("x is {x}", x=x)
    ...     return x * 2
    >>> y = f(3)
    x is 3
    """
    if fmt is None:
        return _with_options("debug_print", print, args, kwargs, ordered)
    _check_format(fmt, args, kwargs)
    options = np.get_printoptions()

    def show(*a: Any, **k: Any) -> None:
        with np.printoptions(**options):
            builtins.print(fmt.format(*a, **k))

    return callback(show, *args, **kwargs)


def callback(
    callback: Callable[..., Any] | None = None, *args: Any, ordered: bool = False, **kwargs: Any
) -> Any:
    """Call a Python function for its side effect when the program runs.

    ``callback(ordered=True)`` gives a function with that option.

    Args:
      callback: gets arrays that have values; its result is ignored.
      args: pytrees of arrays; other leaves are passed on as they are.
      ordered: callbacks run in program order in any case.
      kwargs: the same by name.

    Returns:
      None; without a function, a function that takes one.

    Raises:
      ArgumentError: if other arguments come with ``ordered`` alone.

    >>> import functrax
    >>> seen = []
    >>> functrax.debug.callback(lambda x: seen.append(int(x)), 3)
    >>> seen
    [3]
    """
    if callback is None:
        return _with_options("debug_callback", _callback, args, kwargs, ordered)
    return debug_callback(callback, *args, ordered=ordered, **kwargs)


_callback = callback


def _with_options(name: str, function: Any, args: Any, kwargs: Any, ordered: bool) -> Any:
    """A function with an option, which takes the other arguments."""
    if args or kwargs:
        raise ArgumentError(
            f"{name} received unexpected arguments in the two-call form",
            got=", ".join([*map(repr, args), *kwargs]),
            fix="options in the first call, all others in the second",
        )
    return functools.partial(function, ordered=ordered)


@as_boundary
def log(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """As :func:`print`, but to the logger ``functrax.debug``, at the level ``INFO``.

    Args:
      fmt: a format string, as for ``str.format``.
      args: values for ``{}`` and ``{0}``.
      ordered: whether lines come in the order of the program, as they do in any case.
      kwargs: values for ``{name}``.

    Raises:
      FormatError: if the format string and the values do not go together.

    >>> import logging
    >>> logging.getLogger("functrax.debug").setLevel(logging.WARNING)
    >>> log("x is {x}", x=3)
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

    Raises:
      DTypeError: if a leaf is no array or number.

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

    Raises:
      DTypeError: if it is no array or number.
      ShapeError: for more axes.

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
    unused = sorted(set(kwargs) - used)
    if not (missing or needed > len(args) or unused or len(args) > needed):
        _check_specs(fmt, args, kwargs, name)
        return
    what = f"debug.{name}: the format string and the values do not go together"
    fix = f'a field for each value: debug.{name}("x = {{x}}", x=x)'
    if len(args) > needed and not missing:
        what += f": Unused positional arguments to `jax.debug.{name}`"
    elif unused and not missing:
        what += f": Unused keyword arguments to `jax.debug.{name}`: {unused}"
        fix += ". You may be passing an f-string, which shows its values where it is written"
    raise FormatError(
        what, got=f"{fmt!r} with {len(args)} positional values and {sorted(kwargs)}", fix=fix
    )


def _check_specs(fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> None:
    """Refuse what a value cannot be formatted by, where the user writes it.

    Looked at are fields that name a value as a whole, and say how it looks by themselves.
    """
    position = 0
    for _, field, spec, conversion in string.Formatter().parse(fmt):
        if field is None:
            continue
        key = field or str(position)
        position += not field
        if not spec or conversion or "{" in spec or "." in field or "[" in field:
            continue
        value = args[int(key)] if key.isdigit() else kwargs[key]
        if not is_valid_argument(value):
            continue
        aval = as_value(value, f"a value of debug.{name}").aval
        try:
            format(np.zeros(aval.shape and (0,), aval.dtype)[()], spec)
        except (TypeError, ValueError) as error:
            shown = f"{{{field}:{spec}}}"
            raise FormatError(
                f"debug.{name}: a field of the format string is not for its value",
                got=f"{shown} of {fmt!r} with {aval.str_short()}: {error}",
                fix="{} for arrays, whose digits np.printoptions(precision=2) around the call says"
                if aval.shape
                else f"a format that {aval.dtype.name} has",
            ) from None


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

    Expressions are evaluated with the caller's variables, arrays with their values; ``help``
    lists the commands.

    Args:
      backend: accepted for compatibility.
      filter_frames: accepted for compatibility.
      num_frames: accepted for compatibility.
      ordered: accepted for compatibility.
      token: accepted for compatibility.
      stdin: where commands are read from; the terminal if None.
      stdout: where answers are written; the terminal if None.

    Raises:
      SystemExit: if the user says ``q``.

    >>> import io
    >>> x, answers = 3, io.StringIO()
    >>> breakpoint(stdin=io.StringIO("x + 1"), stdout=answers)
    >>> "4" in answers.getvalue()
    True
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


__dir__ = _listing(globals())
