"""Progress of long loops inside compiled programs: :func:`progress`.

The loop is cut into parts, at most some hundred, and Python is called between two parts.  Each part
is the loop as it was, so its kernels are the same; what is added is one call of Python for each
part.  Start at :func:`progress`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import functrax.numpy as jnp
from functrax import debug, lax
from functrax.core.boundaries.tracebacks import boundary
from functrax.core.errors.typed import ArgumentError
from functrax.core.tracing.trace import Tracer
from functrax.notebook.bars import Bar
from functrax.transforms.arguments.flat import name_of
from functrax.tree_util import tree_leaves, tree_map

_UPDATES: Final = 100


def progress(
    loop: Callable[..., Any], *, title: str | None = None, updates: int = _UPDATES
) -> Callable[..., Any]:
    """A loop that shows how far it has come, on standard error or in the notebook.

    It shows so also inside of ``jit``.  With ``tqdm`` installed the bar is tqdm's.  A loop inside
    of ``vmap`` shows one bar; of a derivative, the bar of its forward part.

    Args:
      loop: ``lax.scan`` or ``lax.fori_loop``.
      title: what stands before the bar; the name of the loop's body if None.
      updates: how often Python is called at most, while the loop runs.

    Returns:
      A function of the arguments of ``loop``, with its results.

    Raises:
      ArgumentError: ``loop`` is another function, or ``updates`` is not positive.

    >>> import functrax
    >>> from functrax import lax
    >>> def body(total, x):
    ...     return total + x, total
    >>> total, _ = functrax.progress(lax.scan)(body, 0, functrax.numpy.arange(1000))
    >>> print(total)
    499500
    """
    known: dict[Any, Callable[..., Any]] = {lax.scan: _scan, lax.fori_loop: _fori_loop}
    made = known.get(loop)
    if made is None:
        raise ArgumentError(
            "progress: a loop is needed whose steps can be counted",
            got=repr(loop),
            fix="functrax.progress(functrax.lax.scan)(f, init, xs), or lax.fori_loop",
        )
    if updates < 1:
        raise ArgumentError("progress: updates must be positive", got=str(updates), fix="100")

    @boundary
    def watched(*args: Any, **kwargs: Any) -> Any:
        return made(title, updates, *args, **kwargs)

    return watched


def _parts(steps: int, updates: int) -> tuple[int, int]:
    """How many parts, and the steps of each; a few steps may be left for the end.

    Of the numbers between half of ``updates`` and all of them one is taken that leaves no steps,
    if there is one: then results need not be joined.
    """
    if steps <= updates:
        return steps, 1
    for parts in range(updates, updates // 2, -1):
        if steps % parts == 0:
            return parts, steps // parts
    each = -(-steps // updates)
    return steps // each, each


def _scan(
    title: str | None,
    updates: int,
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    shapes = [np.shape(x) for x in tree_leaves(xs)]
    total: Any = shapes[0][0] if shapes and shapes[0] else length
    counted = isinstance(total, (int, np.integer)) and total > 0 and length in (None, total)
    if not counted or any(shape[:1] != (total,) for shape in shapes):
        return lax.scan(f, init, xs, length, reverse, unroll)  # it has no steps, or is an error
    parts, steps = _parts(total, updates)
    rest = total - parts * steps
    # The rest comes last: at the end, or at the beginning if the loop goes backwards.
    at = rest if reverse else 0
    whole = tree_map(
        lambda x: _cut(x, at, at + parts * steps).reshape(parts, steps, *np.shape(x)[1:]), xs
    )
    bar = Bar(title or name_of(f), total)

    def part(carry: Any, here: tuple[Any, Any]) -> tuple[Any, Any]:
        number, slices = here
        debug.callback(lambda number: bar.at(int(number) * steps), number)
        return lax.scan(f, carry, slices, steps, reverse, unroll)

    order = jnp.arange(parts)
    numbers = order[::-1] if reverse else order
    carry, ys = lax.scan(part, init, (numbers, whole), parts, reverse)
    ys = tree_map(lambda y: y.reshape(parts * steps, *y.shape[2:]), ys)
    if rest:
        begin = 0 if reverse else parts * steps
        last = tree_map(lambda x: _cut(x, begin, begin + rest), xs)
        carry, more = lax.scan(f, carry, last, rest, reverse, unroll)
        ys = tree_map(lambda a, b: jnp.concatenate([b, a] if reverse else [a, b]), ys, more)
    debug.callback(bar.end)
    return carry, ys


def _cut(x: Any, begin: int, end: int) -> Any:
    return jnp.asarray(x)[begin:end]


def _fori_loop(
    title: str | None,
    updates: int,
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    **options: Any,
) -> Any:
    if isinstance(lower, Tracer) or isinstance(upper, Tracer):
        return _unknown_bounds(title, updates, lower, upper, body_fun, init_val, options)
    first = int(lower)
    total = max(int(upper) - first, 0)
    if not total:
        return lax.fori_loop(lower, upper, body_fun, init_val, **options)
    parts, steps = _parts(total, updates)
    bar = Bar(title or name_of(body_fun), total)

    def part(number: Any, value: Any) -> Any:
        debug.callback(lambda number: bar.at(int(number) * steps), number)
        begin = lower + number * steps
        return lax.fori_loop(
            0, steps, lambda k, value: body_fun(begin + k, value), value, **options
        )

    value = lax.fori_loop(0, parts, part, init_val)
    if parts * steps < total:
        value = lax.fori_loop(lower + parts * steps, upper, body_fun, value, **options)
    debug.callback(bar.end)
    return value


def _unknown_bounds(
    title: str | None,
    updates: int,
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    options: dict[str, Any],
) -> Any:
    """A loop whose number of steps is known only when it runs."""
    bar = Bar(title or name_of(body_fun), None)
    steps = jnp.maximum((upper - lower + updates - 1) // updates, 1)

    def part(state: tuple[Any, Any]) -> tuple[Any, Any]:
        begin, value = state
        debug.callback(
            lambda begin, upper, lower: bar.at(int(begin - lower), int(upper - lower)),
            begin, upper, lower,
        )  # fmt: skip
        end = jnp.minimum(begin + steps, upper)
        return end, lax.fori_loop(begin, end, body_fun, value, **options)

    first = jnp.asarray(lower, jnp.result_type(lower, upper))
    _, value = lax.while_loop(lambda state: state[0] < upper, part, (first, init_val))
    debug.callback(bar.end)
    return value
