"""Gradients and Adam steps in PyTorch, in the shape that the other frameworks' functions have.

Gradients are off in the process at large; they are turned on here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.trees import leaves, map_leaves


def gradients(torch: Any, function: Callable[..., Any], count: int = 1) -> Callable[..., Any]:
    """The gradients of a scalar function by its first ``count`` arguments (nests of tensors)."""

    def run(*args: Any) -> list[Any]:
        return value_and_gradients(torch, function, count)(*args)[1]

    return run


def value_and_gradients(
    torch: Any, function: Callable[..., Any], count: int = 1
) -> Callable[..., Any]:
    """The same, with the function's value before them."""

    def run(*args: Any) -> tuple[Any, list[Any]]:
        wanted = [map_leaves(lambda a: a.detach().requires_grad_(), a) for a in args[:count]]
        with torch.enable_grad():
            value = function(*wanted, *args[count:])
            grads = torch.autograd.grad(value, leaves(wanted))
        return value.detach(), list(grads)

    return run


def adam_step(
    torch: Any, loss: Callable[..., Any], rate: float, betas: tuple[float, float]
) -> Callable[..., Any]:
    """A training step: loss, parameters and first moments after it.

    The first call takes the parameters over; PyTorch's Adam then updates them where they are, as
    its users do, and later calls go on from there.
    """
    held: list[Any] = []

    def step(params: Any, _mean: Any, _square: Any, *batch: Any) -> Any:
        if not held:
            own = map_leaves(lambda p: p.clone().requires_grad_(), params)
            held.append(own)
            held.append(torch.optim.Adam(leaves(own), rate, betas, eps=1e-8, fused=True))
        own, adam = held
        adam.zero_grad()
        with torch.enable_grad():
            value = loss(own, *batch)
            value.backward()
        adam.step()
        moments = [adam.state[p]["exp_avg"] for p in leaves(own)]
        return value.detach(), leaves(own), moments

    return step
