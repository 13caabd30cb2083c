"""``checkpoint`` (also ``remat``): compute again in the backward pass instead of storing.

A checkpointed function is a call whose partial evaluation keeps only what a policy allows; all
else is computed again, from the call's inputs, inside the call that the backward pass makes.
Because it stays a call, sharing of equal equations never joins the two computations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from functrax.core.errors.typed import ArgumentError, StaticArgumentError
from functrax.core.ir.jaxpr import Eqn, all_eqns, subjaxprs
from functrax.core.prims.reduce import reduce_sum
from functrax.transforms.arguments.flat import check_callable
from functrax.transforms.arguments.static_args import ArgumentRoles, Identical, Static
from functrax.transforms.interpreters.call import Call
from functrax.transforms.interpreters.linearize import Saveable
from functrax.transforms.operations.checkpoint_name import (
    checkpoint_name as checkpoint_name,
    name_p,
)
from functrax.transforms.staging.jit import Jitted

if TYPE_CHECKING:
    from functrax.transforms.staging.jitted_function import Decorator, JittedFunction, P, R

#: ``(primitive, *avals, **params) -> bool``: whether its result may be stored.
Policy: TypeAlias = Callable[..., bool]


def everything_saveable(primitive: Any, *avals: Any, **params: Any) -> bool:
    """Store everything, as without checkpoint."""
    return True


def nothing_saveable(primitive: Any, *avals: Any, **params: Any) -> bool:
    """Store nothing but the inputs; the default."""
    return False


def dots_saveable(primitive: Any, *avals: Any, **params: Any) -> bool:
    """Store sums, which contractions (matrix products, convolutions) are."""
    return primitive is reduce_sum


def save_only_these_names(*names: str) -> Policy:
    """Store the values named by :func:`checkpoint_name`, and nothing else."""
    chosen = frozenset(names)

    def policy(primitive: Any, *avals: Any, **params: Any) -> bool:
        return primitive is name_p and params["tag"] in chosen

    return policy


def save_any_names_but_these(*names: str) -> Policy:
    """Store the named values, except for these names."""
    refused = frozenset(names)

    def policy(primitive: Any, *avals: Any, **params: Any) -> bool:
        return primitive is name_p and params["tag"] not in refused

    return policy


def save_anything_except_these_names(*names: str) -> Policy:
    """Store everything, except for the values of these names."""
    refused = frozenset(names)

    def policy(primitive: Any, *avals: Any, **params: Any) -> bool:
        return not (primitive is name_p and params["tag"] in refused)

    return policy


def save_from_both_policies(first: Policy, second: Policy) -> Policy:
    """Store what either policy allows."""

    def policy(primitive: Any, *avals: Any, **params: Any) -> bool:
        return first(primitive, *avals, **params) or second(primitive, *avals, **params)

    return policy


checkpoint_policies = SimpleNamespace(
    everything_saveable=everything_saveable,
    nothing_saveable=nothing_saveable,
    dots_saveable=dots_saveable,
    checkpoint_dots=dots_saveable,
    dots_with_no_batch_dims_saveable=dots_saveable,
    checkpoint_dots_with_no_batch_dims=dots_saveable,
    save_only_these_names=save_only_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_anything_except_these_names=save_anything_except_these_names,
    save_from_both_policies=save_from_both_policies,
)


@functools.lru_cache(maxsize=256)
def _saveable(policy: Policy) -> Saveable:
    def allowed(eqn: Eqn) -> bool:
        return policy(eqn.primitive, *(x.aval for x in eqn.invars), **eqn.params)

    def saveable(eqn: Eqn) -> bool:
        """What a loop or a call keeps is stored if anything inside of it may be."""
        return allowed(eqn) or any(allowed(e) for inner in subjaxprs(eqn) for e in all_eqns(inner))

    return saveable


class Checkpoint(Call):
    """A call whose intermediate values are stored only where ``policy`` allows."""

    recomputes = True

    def saveable(self, params: dict[str, Any]) -> Saveable:
        return _saveable(params["policy"])


checkpoint_call = Checkpoint("checkpoint")


class _Roles(ArgumentRoles):
    """Static arguments may be what cannot be hashed: lists, or models."""

    def _static(self, which: str, value: Any) -> Static:
        try:
            return super()._static(which, value)
        except StaticArgumentError:
            return Identical(value)


@overload
def checkpoint(
    fun: Callable[P, R],
    *,
    prevent_cse: bool = ...,
    policy: Policy | None = ...,
    static_argnums: int | Sequence[int] = ...,
    concrete: bool = ...,
) -> JittedFunction[P, R]: ...
@overload
def checkpoint(
    *,
    prevent_cse: bool = ...,
    policy: Policy | None = ...,
    static_argnums: int | Sequence[int] = ...,
    concrete: bool = ...,
) -> Decorator: ...
def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
    concrete: bool = False,
) -> Any:
    """Make reverse mode compute the inside of a function again instead of storing it.

    Args:
      fun: a pure function of pytrees of arrays; None to get a decorator.
      prevent_cse: accepted for compatibility; a checkpointed function always stays a call, so
        the two computations are never shared.
      policy: ``(primitive, *avals, **params) -> bool``, which results may be stored all the same;
        see ``functrax.checkpoint_policies``.  Nothing but the inputs is stored if None.
      static_argnums: positions of arguments that are not traced; what cannot be hashed is known
        by its identity, so it must not be changed afterwards.
      concrete: not supported, as in JAX; use static_argnums.

    Returns:
      A function of the same value and the same derivatives.

    Raises:
      ArgumentError: if ``fun`` or ``policy`` is not a function, or for ``concrete``.

    >>> import functrax, functrax.numpy as jnp
    >>> f = functrax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    >>> functrax.grad(f)(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    if concrete:
        raise ArgumentError(
            "checkpoint: concrete=True is not supported",
            got="concrete=True",
            fix="static_argnums for the arguments that Python control flow looks at",
        )
    if policy is not None and not callable(policy):
        raise ArgumentError(
            "checkpoint: the policy is not a function",
            got=f"{policy!r} of type {type(policy).__name__}",
            fix="policy=functrax.checkpoint_policies.dots_saveable, another of these, or a "
            "function (primitive, *avals, **params) -> bool",
        )

    def decorate(function: Callable[..., Any]) -> Jitted:
        check_callable("checkpoint", function)
        roles = _Roles(function, static_argnums, None, None, None)
        params = {"policy": nothing_saveable if policy is None else policy}
        return Jitted(function, roles, call=checkpoint_call, call_params=params)

    return decorate if fun is None else decorate(fun)


remat = checkpoint
