"""Calls that a checker refuses: each line is an error, and nothing else is."""

from __future__ import annotations

import functrax
import functrax.numpy as jnp
from functrax import Array

x = jnp.arange(3.0)


def scaled(x: Array, by: int) -> Array:
    return x * by


jnp.sum("x")  # wrong
jnp.sum(x, axis="rows")  # wrong
jnp.zeros(3, dtype=3)  # wrong
jnp.zeros("3")  # wrong
jnp.reshape(x, 1.5)  # wrong
jnp.sin([1.0, 2.0])  # wrong
x + "text"  # wrong
x.summ()  # wrong
x.sum(axes=0)  # wrong
functrax.jit(scaled)(x)  # wrong
functrax.jit(scaled, static_argnum=1)  # wrong
functrax.vmap(scaled)(x, by="two")  # wrong
functrax.grad(scaled)("text", 2)  # wrong
functrax.value_and_grad(scaled)(x, "text")  # wrong
