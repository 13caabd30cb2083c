"""The mistakes that users make most: each function makes one, in its last line or in ``inner``.

Run as a script with the name of a mistake, it lets the exception end the process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import functrax
import functrax.numpy as jnp
from functrax import lax, random

x = jnp.ones((2, 3))
v = jnp.arange(3.0)
MISTAKES: dict[str, Callable[[], Any]] = {}


def mistake(function: Callable[[], Any]) -> Callable[[], Any]:
    MISTAKES[function.__name__] = function
    return function


@mistake
def product_of_wrong_shapes() -> Any:
    return x @ x


@mistake
def product_inside_jit_of_grad() -> Any:
    def inner(w: Any) -> Any:
        return jnp.dot(w, w).sum()

    return functrax.jit(functrax.grad(inner))(x)


@mistake
def product_inside_grad_of_jit_of_vmap() -> Any:
    def inner(w: Any) -> Any:
        return jnp.dot(w, x)

    def loss(w: Any) -> Any:
        return functrax.jit(functrax.vmap(inner))(w).sum()

    return functrax.value_and_grad(loss)(jnp.ones((4, 5)))


@mistake
def operator_of_wrong_shapes() -> Any:
    return x + jnp.ones(4)


@mistake
def operator_of_a_list() -> Any:
    numbers = [1.0, 2.0, 3.0]
    return x + numbers


@mistake
def reshape_to_another_size() -> Any:
    return x.reshape(4, 2)


@mistake
def concatenate_wrong_shapes() -> Any:
    return jnp.concatenate([x, jnp.ones((2, 4))])


@mistake
def stack_wrong_shapes() -> Any:
    return jnp.stack([x, v])


@mistake
def wrong_dtype() -> Any:
    return lax.add(v, jnp.arange(3))


@mistake
def bits_of_floats() -> Any:
    return v & v


@mistake
def unknown_dtype() -> Any:
    return jnp.zeros(3, dtype="float99")


@mistake
def wrong_axis() -> Any:
    return jnp.sum(v, axis=1)


@mistake
def wrong_axis_of_a_method() -> Any:
    return v.mean(axis=2)


@mistake
def unknown_keyword() -> Any:
    return jnp.sum(v, axes=0)


@mistake
def missing_argument() -> Any:
    return jnp.dot(v)


@mistake
def bad_einsum() -> Any:
    return jnp.einsum("ij,jk->ik", x, x)


@mistake
def einsum_without_operands() -> Any:
    return jnp.einsum("ij,jk->ik", x)


@mistake
def truth_of_a_tracer() -> Any:
    def inner(a: Any) -> Any:
        if a > 0:
            return a
        return -a

    return functrax.jit(inner)(1.0)


@mistake
def truth_of_an_array() -> Any:
    return 1 if v else 0


@mistake
def float_of_a_tracer() -> Any:
    def inner(a: Any) -> Any:
        return float(a)

    return functrax.jit(inner)(1.0)


@mistake
def range_of_a_tracer() -> Any:
    def inner(n: Any) -> Any:
        return sum(range(n))

    return functrax.jit(inner)(3)


@mistake
def numpy_of_a_tracer() -> Any:
    def inner(a: Any) -> Any:
        return np.asarray(a)

    return functrax.jit(inner)(v)


@mistake
def item_of_a_tracer() -> Any:
    def inner(a: Any) -> Any:
        return a.sum().item()

    return functrax.jit(inner)(v)


@mistake
def leaked_tracer() -> Any:
    kept = []
    functrax.jit(lambda a: kept.append(a) or a)(v)
    return kept[0] + 1


@mistake
def boolean_mask_of_a_tracer() -> Any:
    def inner(a: Any) -> Any:
        return a[a > 0]

    return functrax.jit(inner)(v)


@mistake
def bad_in_axes() -> Any:
    return functrax.vmap(lambda a, b: a + b, in_axes=(0,))(x, x)


@mistake
def in_axes_of_different_sizes() -> Any:
    return functrax.vmap(lambda a, b: a + b)(x, v)


@mistake
def gradient_of_a_vector() -> Any:
    return functrax.grad(lambda a: a * 2)(v)


@mistake
def gradient_by_an_integer() -> Any:
    return functrax.grad(lambda a: a * 2.0)(3)


@mistake
def unhashable_static_argument() -> Any:
    return functrax.jit(lambda a, b: a, static_argnums=1)(v, [1, 2])


@mistake
def missing_static_argument() -> Any:
    def inner(a: Any, n: Any) -> Any:
        return jnp.reshape(a, (n, 1))

    return functrax.jit(inner)(v, 3)


@mistake
def no_function() -> Any:
    return functrax.jit(3)


@mistake
def no_array() -> Any:
    return jnp.sin("text")


@mistake
def no_array_given_to_jit() -> Any:
    return functrax.jit(lambda a: a)("text")


@mistake
def no_array_returned() -> Any:
    return functrax.jit(lambda a: "text")(v)


@mistake
def key_of_wrong_shape() -> Any:
    return random.normal(v, (2,))


@mistake
def carry_of_another_shape() -> Any:
    def inner(carry: Any, row: Any) -> Any:
        return carry.sum(), row

    return lax.scan(inner, v, x)


@mistake
def mistake_inside_scan() -> Any:
    def inner(carry: Any, row: Any) -> Any:
        return carry, row @ x

    return lax.scan(inner, v, x)


@mistake
def branches_of_other_types() -> Any:
    return lax.cond(True, lambda a: a, lambda a: a[0], v)


@mistake
def loop_of_another_dtype() -> Any:
    return lax.fori_loop(0, 3, lambda i, a: (a, a), v)


@mistake
def trees_that_differ() -> Any:
    return functrax.tree.map(jnp.add, {"w": v}, {"w": (v, v)})


@mistake
def too_many_indices() -> Any:
    return v[0, 1]


@mistake
def index_by_a_name() -> Any:
    return v["name"]


@mistake
def assignment() -> Any:
    v[0] = 1.0


@mistake
def update_of_wrong_shape() -> Any:
    return v.at[:2].set(x)


@mistake
def deleted_array() -> Any:
    gone = v + 1
    gone.delete()
    return gone * 2


@mistake
def donated_array() -> Any:
    given = v + 1
    functrax.jit(lambda a: a + 1, donate_argnums=0)(given)
    return np.asarray(given)


@mistake
def unknown_option() -> Any:
    functrax.config.update("enable_x65", True)


@mistake
def lower_of_a_jitted_function() -> Any:
    def inner(a: Any) -> Any:
        return a @ x

    return functrax.jit(inner).lower(x)


@mistake
def trace_of_a_jitted_function() -> Any:
    return functrax.jit(lambda a: a @ x).trace(x)


@mistake
def shapes_of_a_jitted_function() -> Any:
    return functrax.jit(lambda a: a @ x).eval_shape(x)


@mistake
def a_loop_whose_progress_is_shown() -> Any:
    return functrax.progress(functrax.lax.scan)(lambda c, a: (c @ a, a), x, jnp.ones(3))


@mistake
def steps_of_a_training_loop() -> Any:
    return functrax.steps(lambda c, a: (c @ a, a), 3)(x, jnp.ones(3))


@mistake
def the_users_own_error() -> Any:
    def inner(a: Any) -> Any:
        return a / (0 // 0)

    return functrax.jit(functrax.grad(inner))(1.0)


@mistake
def the_users_own_error_in_a_tree() -> Any:
    def inner(a: Any) -> Any:
        raise KeyError("mine")

    return functrax.tree.map(inner, {"a": 1})


@mistake
def the_users_own_error_in_a_custom_rule() -> Any:
    def inner(residual: Any, ct: Any) -> Any:
        return (residual @ x,)

    f = functrax.custom_vjp(lambda a: a.sum())
    f.defvjp(lambda a: (a.sum(), a), inner)
    return functrax.grad(f)(x)


if __name__ == "__main__":
    MISTAKES[sys.argv[1]]()
