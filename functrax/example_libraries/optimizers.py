"""Gradient descent and its kin, as triples of functions ``(init, update, get_params)``.

``init(params)`` makes a state, ``update(step, gradients, state)`` the next state, and
``get_params(state)`` gives the parameters back; all three take pytrees.  An optimizer is written
for one array and extended to pytrees by :func:`optimizer`, which keeps the state of each array as
a list of leaves (:class:`OptimizerState`).  A step size may be a function of the step: the
schedules are in ``functrax.example_libraries.schedules``, and here too.

Example:
  >>> import functrax
  >>> init, update, get_params = momentum(0.1, mass=0.5)
  >>> state = init({"x": 2.0})
  >>> for step in range(40):
  ...     gradients = functrax.grad(lambda p: p["x"] ** 2)(get_params(state))
  ...     state = update(step, gradients, state)
  >>> abs(float(get_params(state)["x"])) < 1e-4
  True
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from functrax import numpy as jnp
from functrax.core.errors.typed import PyTreeError
from functrax.core.pytree.operations import (
    register_pytree_node,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)
from functrax.example_libraries.schedules import (
    Schedule as Schedule,
    constant as constant,
    exponential_decay as exponential_decay,
    inverse_time_decay as inverse_time_decay,
    make_schedule as make_schedule,
    piecewise_constant as piecewise_constant,
    polynomial_decay as polynomial_decay,
)


class OptimizerState(NamedTuple):
    """The state of an optimizer of a pytree; itself a pytree.

    Args:
      packed_state: for each parameter the leaves of its state.
      tree_def: the structure of the parameters.
      subtree_defs: the structure of the state of each.
    """

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


register_pytree_node(
    OptimizerState,
    lambda state: ((state.packed_state,), (state.tree_def, state.subtree_defs)),
    lambda structures, children: OptimizerState(children[0], *structures),
)

Rule: TypeAlias = "tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]"


class Optimizer(NamedTuple):
    """The three functions."""

    init_fn: Callable[[Any], OptimizerState]
    update_fn: Callable[[Any, Any, OptimizerState], OptimizerState]
    params_fn: Callable[[OptimizerState], Any]


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """Extend an optimizer of one array to pytrees.

    Args:
      opt_maker: returns three functions: from an array to a state, which is a pytree of arrays;
        from a step, a gradient and a state to the next state; from a state to the array.

    Returns:
      A function of the same arguments that returns an :class:`Optimizer`.
    """

    @functools.wraps(opt_maker)
    def make(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def init_tree(params: Any) -> OptimizerState:
            leaves, treedef = tree_flatten(params)
            return _packed([init(x) for x in leaves], treedef)

        def update_tree(step: Any, gradients: Any, state: OptimizerState) -> OptimizerState:
            found, treedef = tree_flatten(gradients)
            if treedef != state.tree_def:
                raise PyTreeError(
                    "update: the gradients do not have the structure of the parameters",
                    got=f"gradients {treedef}, parameters {state.tree_def}",
                    fix="the gradients with respect to get_params(state)",
                )
            new = [update(step, g, old) for g, old in zip(found, _states(state), strict=True)]
            packed = _packed(new, treedef)
            if packed.subtree_defs != state.subtree_defs:
                raise PyTreeError(
                    "update: the optimizer changed the structure of a state",
                    got=f"{packed.subtree_defs}, where {state.subtree_defs} was",
                    fix="an update that returns what it was given, with other leaves",
                )
            return packed

        def params_tree(state: OptimizerState) -> Any:
            return tree_unflatten(state.tree_def, [get_params(s) for s in _states(state)])

        return Optimizer(init_tree, update_tree, params_tree)

    return make


def _packed(states: list[Any], treedef: Any) -> OptimizerState:
    leaves = tuple(tuple(tree_leaves(s)) for s in states)
    return OptimizerState(leaves, treedef, tuple(tree_structure(s) for s in states))


def _states(state: OptimizerState) -> list[Any]:
    return [
        tree_unflatten(treedef, leaves)
        for treedef, leaves in zip(state.subtree_defs, state.packed_state, strict=True)
    ]


def _rule(num_moments: int, step: Callable[..., tuple[Any, ...]]) -> Rule:
    """The functions of a state ``(x, *moments)`` whose moments start as zeros."""

    def init(x: Any) -> tuple[Any, ...]:
        return (x, *(jnp.zeros_like(x) for _ in range(num_moments)))

    def update(i: Any, g: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        return step(i, g, *state)

    return init, update, lambda state: state[0]


@optimizer
def sgd(step_size: Any) -> Rule:
    """Gradient descent, ``x - rate * g``; ``step_size`` is a number or a function of the step."""
    rate = make_schedule(step_size)
    return _rule(0, lambda i, g, x: (x - rate(i) * g,))


@optimizer
def momentum(step_size: Any, mass: Any) -> Rule:
    """Gradient descent along ``v = mass * v + g`` (Polyak, 1964)."""
    rate = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, v: Any) -> tuple[Any, ...]:
        v = mass * v + g
        return x - rate(i) * v, v

    return _rule(1, step)


@optimizer
def nesterov(step_size: Any, mass: Any) -> Rule:
    """Momentum that looks ahead: along ``mass * v + g`` with the new ``v`` (Nesterov, 1983)."""
    rate = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, v: Any) -> tuple[Any, ...]:
        v = mass * v + g
        return x - rate(i) * (mass * v + g), v

    return _rule(1, step)


@optimizer
def adagrad(step_size: Any, momentum: Any = 0.9) -> Rule:
    """Gradients divided by the root of the sum of their squares (Duchi et al., JMLR 12, 2011)."""
    rate = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, squares: Any, m: Any) -> tuple[Any, ...]:
        squares = squares + jnp.square(g)
        m = (1.0 - momentum) * (g * _inverse_root(squares)) + momentum * m
        return x - rate(i) * m, squares, m

    return _rule(2, step)


@optimizer
def rmsprop(step_size: Any, gamma: Any = 0.9, eps: Any = 1e-8) -> Rule:
    """Gradients divided by the root of the running mean of their squares (Hinton, 2012)."""
    rate = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, mean: Any) -> tuple[Any, ...]:
        mean = gamma * mean + (1.0 - gamma) * jnp.square(g)
        return x - rate(i) * g / jnp.sqrt(mean + eps), mean

    return _rule(1, step)


@optimizer
def rmsprop_momentum(
    step_size: Any, gamma: Any = 0.9, eps: Any = 1e-8, momentum: Any = 0.9
) -> Rule:
    """:func:`rmsprop` with momentum."""
    rate = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, mean: Any, v: Any) -> tuple[Any, ...]:
        mean = gamma * mean + (1.0 - gamma) * jnp.square(g)
        v = momentum * v + rate(i) * g / jnp.sqrt(mean + eps)
        return x - v, mean, v

    return _rule(2, step)


@optimizer
def adam(step_size: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> Rule:
    """Running means of gradients and of their squares, freed of bias (Kingma and Ba, 2015)."""
    rate = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, m: Any, v: Any) -> tuple[Any, ...]:
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * jnp.square(g) + b2 * v
        mean, square = m / _bias(b1, i, m), v / _bias(b2, i, m)
        return x - rate(i) * mean / (jnp.sqrt(square) + eps), m, v

    return _rule(2, step)


@optimizer
def adamax(step_size: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> Rule:
    """:func:`adam` with the greatest gradient for the mean square (Kingma and Ba, 2015)."""
    rate = make_schedule(step_size)

    def step(i: Any, g: Any, x: Any, m: Any, u: Any) -> tuple[Any, ...]:
        m = (1 - b1) * g + b1 * m
        u = jnp.maximum(b2 * u, jnp.abs(g))
        return x - rate(i) / _bias(b1, i, m) * m / (u + eps), m, u

    return _rule(2, step)


def _bias(b: Any, i: Any, like: Any) -> Any:
    """What a running mean of ones is after step ``i``."""
    return 1 - jnp.asarray(b, like.dtype) ** (i + 1)


@optimizer
def sm3(step_size: Any, momentum: Any = 0.9) -> Rule:
    """Adagrad with one sum for each row and column, for little memory (Anil et al., 2019)."""
    rate = make_schedule(step_size)

    def init(x: Any) -> Any:
        x = jnp.asarray(x)
        sums = [jnp.zeros(n, x.dtype) for n in x.shape or (1,)]
        return x, jnp.zeros_like(x), sums

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, sums = state
        rows: Any = jnp.atleast_1d(g)
        rank = len(sums)
        wide = [
            s.reshape([-1 if k == axis else 1 for k in range(rank)]) for axis, s in enumerate(sums)
        ]
        squares = functools.reduce(jnp.minimum, wide) + jnp.square(rows)
        scaled = (rows * _inverse_root(squares)).reshape(x.shape)
        m = (1.0 - momentum) * scaled + momentum * m
        sums = [
            jnp.max(squares, axis=tuple(k for k in range(rank) if k != axis))
            for axis in range(rank)
        ]
        return x - rate(i) * m, m, sums

    return init, update, lambda state: state[0]


def _inverse_root(x: Any) -> Any:
    """``1 / sqrt(x)``, and 0 where ``x`` is 0."""
    return jnp.where(x > 0, 1.0 / jnp.sqrt(jnp.where(x > 0, x, 1)), 0.0)


def l2_norm(tree: Any) -> Any:
    """The root of the sum of the squares of all elements of a pytree."""
    return jnp.sqrt(sum(jnp.vdot(x, x) for x in tree_leaves(tree)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """Gradients scaled so that their common norm is at most ``max_norm``."""
    norm = l2_norm(grad_tree)
    return tree_map(lambda g: jnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


class JoinPoint:
    """A leaf that holds the state of one parameter, where two pytrees are joined."""

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Any:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """The state as a pytree like the parameters, with a :class:`JoinPoint` for each of them."""
    return tree_unflatten(opt_state.tree_def, [JoinPoint(s) for s in _states(opt_state)])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The inverse of :func:`unpack_optimizer_state`.

    Raises:
      PyTreeError: if a leaf is no :class:`JoinPoint`.
    """
    points, treedef = tree_flatten(marked_pytree)
    if not all(isinstance(p, JoinPoint) for p in points):
        raise PyTreeError(
            "pack_optimizer_state: a leaf is no JoinPoint",
            got=str({type(p).__name__ for p in points}),
            fix="the result of unpack_optimizer_state",
        )
    return _packed([p.subtree for p in points], treedef)
