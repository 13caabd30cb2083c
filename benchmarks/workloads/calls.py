"""The cost of a call, eager mode, first calls, imports, sizes and memory."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from benchmarks.models import digits, gpt, ratio_iou, wgan_gp
from benchmarks.models.torch_steps import gradients
from benchmarks.workload import Workload, at_most, exceeds_numpy, faster, floats

TITLE = "Call path, eager mode, compile time, size"
MILLISECONDS = 1e3
MEGABYTES = 1e6
PLUS_ONE = {
    "torch": lambda torch, staged: staged(lambda x: x + 1),
    "numpy": lambda np: lambda x: x + np.float32(1),
    "drjit": lambda dr: dr.freeze(lambda x: x + 1),
    "numba": lambda numba: numba.njit(lambda x: x + np.float32(1)),
}


def scalar() -> tuple[np.ndarray, ...]:
    return (np.ones((), np.float32),)


def small_arrays(count: int, as_dict: bool = False) -> tuple[Any, ...]:
    arrays = [np.full((4,), i, np.float32) for i in range(count)]
    return ({f"array_{i:02}": a for i, a in enumerate(arrays)} if as_dict else arrays,)


def leaves(count: int, *shapes: tuple[int, ...]) -> tuple[Any, ...]:
    """A tree of so many leaves, of these shapes in turn."""
    rng = np.random.default_rng(0)
    return ([rng.standard_normal(shapes[k % len(shapes)], np.float32) for k in range(count)],)


def all_doubled(jax: Any) -> Any:
    return lambda tree: jax.tree_util.tree_map(lambda x: x * 2, tree)


def all_plus_one(jax: Any) -> Any:
    return lambda tree: jax.tree_util.tree_map(lambda x: x + 1, tree)


CALLS = (
    Workload(
        "jitted x + 1 on a scalar array",
        scalar,
        lambda jax: lambda x: x + 1,
        (at_most(0.8), faster(4)),
        PLUS_ONE,
    ),
    Workload(
        "jitted call with a dict of 20 arrays",
        lambda: small_arrays(20, as_dict=True),
        all_plus_one,
        (faster(12),),
    ),
    *(
        Workload(
            f"jitted call with {n} leaves in and out",
            lambda n=n: small_arrays(n),
            all_plus_one,
            (faster(8),),
        )
        for n in (10, 100, 1000)
    ),
)

# ---- eager mode ---------------------------------------------------------------------------------


def eager_gradient(jax: Any) -> Any:
    """``grad`` is made anew in each call, as in a loop that writes it in place."""
    return lambda x: jax.grad(lambda v: jax.numpy.sum(jax.numpy.sin(v)))(x)


TEN = floats((10,))
KEY = lambda: (np.array([0, 42], np.uint32),)  # noqa: E731
DOUBLE = {"torch": lambda torch, staged: lambda x: x + x, "numpy": lambda np: lambda x: x + x}
EAGER = (
    Workload(
        "eager grad(sum(sin))",
        TEN,
        eager_gradient,
        (faster(8),),
        {"torch": lambda torch, staged: gradients(torch, lambda x: torch.sin(x).sum())},
        mode="eager",
    ),
    Workload(
        "eager .at[].set",
        TEN,
        lambda jax: lambda x: x.at[3].set(1.0),
        (faster(20),),
        mode="eager",
    ),
    Workload(
        "eager slice",
        TEN,
        lambda jax: lambda x: x[2:7],
        (faster(3),),
        {"torch": lambda torch, staged: lambda x: x[2:7], "numpy": lambda np: lambda x: x[2:7]},
        mode="eager",
    ),
    Workload("eager random.split", KEY, lambda jax: jax.random.split, (faster(3),), mode="eager"),
    Workload(
        "eager x + x on 10 elements, never looked at",
        TEN,
        lambda jax: lambda x: x + x,
        (at_most(1.0),),
        DOUBLE,
        mode="record",
    ),
    Workload(
        "eager x + x on 10 elements, blocking",
        TEN,
        lambda jax: lambda x: x + x,
        (faster(1.5),),
        DOUBLE,
        mode="eager",
    ),
    Workload(
        "eager ratio_iou in a loop",
        ratio_iou.inputs,
        ratio_iou.forward,
        (faster(2.5, "torch"),),
        {"torch": ratio_iou.torch_forward, "numpy": ratio_iou.numpy_forward},
        mode="eager",
        bytes=9 * 4e5,
    ),
    Workload(
        "eager x * 2 of a tree of 5,000 equal leaves",
        lambda: leaves(5000, (4,)),
        all_doubled,
        (faster(8),),
        mode="eager",
    ),
    Workload("jitted step of a small classifier", digits.inputs, digits.step, (faster(1.5),)),
    Workload(
        "eager step of a small classifier",
        digits.inputs,
        digits.step,
        (at_most(250), faster(8)),
        mode="eager",
    ),
    *(
        Workload(
            f"{kind} training loop of a small classifier, a step",
            digits.inputs,
            lambda jax, jitted=jitted: digits.loop(jax, jitted),
            (faster(least),),
            mode="eager",
            per=digits.STEPS,
            tolerance=1e-2,  # of twenty steps
        )
        for kind, jitted, least in (("jitted", True, 1.5), ("eager", False, 8))
    ),
)

# ---- first calls --------------------------------------------------------------------------------


def deep_mlp(jax: Any) -> Any:
    """The gradient of a perceptron's mean squared output."""
    jnp = jax.numpy

    def loss(layers, x):
        for layer in layers:
            x = jnp.tanh(jnp.dot(x, layer["w"]) + layer["b"])
        return jnp.mean(x**2)

    return jax.grad(loss)


def mlp_inputs(layers: int, rows: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return np.float32(0.12) * rng.standard_normal(shape, np.float32)

    return [{"w": normal(64, 64), "b": normal(64)} for _ in range(layers)], normal(rows, 64)


def chain(jax: Any) -> Any:
    """The gradient of 800 × (sin, mul, reverse, mul, add), unrolled; it neither dies nor grows."""
    jnp = jax.numpy

    def run(x):
        for _ in range(800):
            x = jnp.flip(jnp.sin(x) * 1.25) * 0.8 + 1e-4
        return jnp.sum(x)

    return jax.grad(run)


def seventh(jax: Any) -> Any:
    """The derivative of order 7 of tanh(x) sin(x)."""
    jnp = jax.numpy
    f = lambda x: jnp.tanh(x) * jnp.sin(x)  # noqa: E731
    for _ in range(7):
        f = jax.grad(f)
    return f


IOU = Workload(
    "first call of ratio_iou, cold",
    ratio_iou.inputs,
    ratio_iou.forward,
    (at_most(8 * MILLISECONDS), faster(5)),
    {"torch": ratio_iou.torch_forward, "drjit": ratio_iou.drjit_forward},
    mode="cold",
)
IOU_GRADIENT = Workload(
    "first call of ratio_iou's gradient, cold",
    ratio_iou.inputs,
    ratio_iou.gradient,
    (at_most(15 * MILLISECONDS), faster(12)),
    {"torch": ratio_iou.torch_gradient, "drjit": ratio_iou.drjit_gradient},
    mode="cold",
)


def warm(workload: Workload, milliseconds: float) -> Workload:
    """The same row with the disk cache filled by an earlier process."""
    return dataclasses.replace(
        workload,
        name=workload.name.replace("cold", "warm disk"),
        targets=(at_most(milliseconds * MILLISECONDS),),
        mode="warm disk",
    )


FIRST_CALLS = (
    IOU,
    IOU_GRADIENT,
    warm(IOU, 3),
    warm(IOU_GRADIENT, 6),
    Workload(
        "first WGAN-GP critic step, cold",
        wgan_gp.inputs,
        wgan_gp.step,
        (faster(8),),
        mode="cold",
    ),
    Workload(
        "first small GPT step, cold",
        gpt.inputs,
        gpt.step,
        (faster(6),),
        mode="cold",
        tolerance=5e-3,
    ),
    Workload(
        "first gradient of a 50-layer MLP, cold",
        lambda: mlp_inputs(50, 32),
        deep_mlp,
        (faster(4),),
        mode="cold",
    ),
    Workload(
        "first gradient of a chain of 800×(sin, mul, rev, mul, add), cold",
        floats((64,)),
        chain,
        (faster(6),),
        mode="cold",
        tolerance=1e-2,
    ),
    Workload(
        "first eager x * 2 of a tree of 5,000 equal leaves",
        lambda: leaves(5000, (4,)),
        all_doubled,
        (faster(1),),
        mode="first",
    ),
    Workload(
        "first eager x * 2 of a tree of 200 leaves of seven shapes",
        lambda: leaves(200, (16,), (32, 8), (64,), (8, 8, 8), (100,), (3, 3, 16, 32), (128, 64)),
        all_doubled,
        (faster(2),),
        mode="first",
    ),
    Workload(
        "50 new batch sizes of an MLP gradient, each",
        lambda: mlp_inputs(3, 100),
        deep_mlp,
        (at_most(6 * MILLISECONDS),),
        mode="new sizes",
    ),
    Workload(
        "tanh·sin derivative of order 7, cold",
        lambda: (np.full((), 0.3, np.float32),),
        seventh,
        (faster(10),),
        mode="cold",
        tolerance=1e-2,
    ),
)

SIZES = (
    Workload("import", targets=(exceeds_numpy(60 * MILLISECONDS),), mode="import"),
    Workload(
        "installed size with dependencies", targets=(at_most(230 * MEGABYTES),), mode="installed"
    ),
    Workload(
        "memory of the WGAN-GP critic step",
        wgan_gp.inputs,
        wgan_gp.step,
        (faster(1 / 0.7),),
        mode="memory",
    ),
    Workload(
        "memory of the small GPT step", gpt.inputs, gpt.step, (faster(1 / 0.7),), mode="memory"
    ),
)

ROWS = (*CALLS, *EAGER, *FIRST_CALLS, *SIZES)
