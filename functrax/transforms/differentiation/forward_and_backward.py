"""``fwd_and_bwd``: both halves of reverse mode as functions of their own, each compiled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrax.transforms.arguments.flat import argnums_tuple, check_callable, normalize_argnums
from functrax.transforms.differentiation.derivatives import vjp
from functrax.transforms.staging.jit import jit


def fwd_and_bwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    jitted: bool = True,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The forward and the backward pass of a function, which meet in residuals.

    ``vjp`` returns a new backward function each time; these two are made once, so that the backward
    pass need not be compiled again where the two passes are not parts of one jitted function.

    Args:
      fun: takes arrays and pytrees of them, returns a pytree of arrays.
      argnums: which positional arguments to differentiate by.
      has_aux: whether ``fun`` returns a pair whose second part is not differentiated.
      jitted: whether both are compiled.

    Returns:
      ``(fwd, bwd)``.  ``fwd(*args)`` returns ``(value, residuals)``, and ``aux`` with ``has_aux``;
      ``bwd(residuals, ct)`` takes a cotangent of the value's structure and returns that of the
      argument, or a tuple of them if ``argnums`` is a sequence.

    Raises:
      ArgumentError: if ``argnums`` names an argument that a call does not have.

    Example:
      >>> import functrax, functrax.numpy as jnp
      >>> fwd, bwd = functrax.fwd_and_bwd(lambda x, w: jnp.sin(w * x), argnums=(0, 1))
      >>> value, residuals = fwd(0.0, 2.0)
      >>> bwd(residuals, 1.0)
      (Array(2., dtype=float32, weak_type=True), Array(0., dtype=float32, weak_type=True))
    """
    check_callable("fwd_and_bwd", fun)
    chosen = argnums_tuple(argnums)

    def fwd(*args: Any) -> Any:
        places = normalize_argnums("fwd_and_bwd", fun, chosen, len(args))

        def of_chosen(*given: Any) -> Any:
            whole = list(args)
            for place, x in zip(places, given, strict=True):
                whole[place] = x
            return fun(*whole)

        return vjp(of_chosen, *[args[n] for n in places], has_aux=has_aux)

    def bwd(residuals: Any, ct: Any) -> Any:
        found = residuals(ct)
        return found[0] if isinstance(argnums, int) else found

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)
