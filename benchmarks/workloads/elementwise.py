"""Element-wise functions, reductions, normalisations, and moving data about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.models import norms, ratio_iou
from benchmarks.models.torch_steps import gradients
from benchmarks.workload import Workload, faster, floats, of_copy, of_read

TITLE = "Element-wise, reductions, normalisations"
MILLION = 1 << 20
SQUARE = (4096, 4096)


# ---- point-wise ---------------------------------------------------------------------------------


def tanh_chain(jax: Any) -> Any:
    return lambda x: jax.numpy.tanh(x) * 2 + 1


def numba_tanh_chain(numba: Any) -> Any:
    @numba.njit(parallel=True)
    def over_elements(x, out):
        for i in numba.prange(x.size):
            out[i] = np.tanh(x[i]) * np.float32(2) + np.float32(1)

    def run(x):
        out = np.empty_like(x)
        over_elements(x, out)
        return out

    return run


def numba_scale(numba: Any) -> Any:
    @numba.njit(parallel=True)
    def over_elements(x, out):
        for i in numba.prange(x.size):
            out[i] = x[i] * np.float32(2) + np.float32(1)

    def run(x):
        out = np.empty_like(x)
        over_elements(x, out)
        return out

    return run


def mixture(jax: Any) -> Any:
    jnp = jax.numpy
    return lambda x: (
        jnp.exp(-x * x) * jnp.sin(x) + jnp.log1p(jnp.abs(x)) + jnp.sqrt(jnp.abs(jnp.cos(x)))
    )


def of_module(f: Callable[[Any, Any], Any]) -> dict[str, Callable[..., Any]]:
    """PyTorch and NumPy from one text ``f(module, x)``, where their names agree."""
    return {
        "torch": lambda torch, staged: staged(lambda x: f(torch, x)),
        "numpy": lambda np: lambda x: f(np, x),
    }


def mixture_of(m: Any, x: Any) -> Any:
    return m.exp(-x * x) * m.sin(x) + m.log1p(m.abs(x)) + m.sqrt(m.abs(m.cos(x)))


POINTWISE = (
    Workload(
        "tanh(x)*2+1, 16M",
        floats((16 * MILLION,)),
        tanh_chain,
        (faster(1.0, "drjit"), faster(7)),
        {
            **of_module(lambda m, x: m.tanh(x) * 2 + 1),
            "drjit": lambda dr: dr.freeze(lambda x: dr.tanh(x) * 2 + 1),
            "numba": numba_tanh_chain,
        },
        bytes=8 * 16 * MILLION,
    ),
    Workload(
        "v*2+1, 16M",
        floats((16 * MILLION,)),
        lambda jax: lambda v: v * 2 + 1,
        (faster(6), of_copy(1 / 1.15)),
        {
            **of_module(lambda m, x: x * 2 + 1),
            "drjit": lambda dr: dr.freeze(lambda v: v * 2 + 1),
            "numba": numba_scale,
        },
        bytes=8 * 16 * MILLION,
    ),
    Workload(
        "exp(-x²)·sin x + log1p|x| + √|cos x|, 4M",
        floats((4 * MILLION,)),
        mixture,
        (faster(6),),
        of_module(mixture_of),
        bytes=8 * 4 * MILLION,
    ),
    Workload(
        "ratio_iou 100×1000",
        ratio_iou.inputs,
        ratio_iou.forward,
        (faster(1.0, "drjit"), faster(2.5)),
        {
            "torch": ratio_iou.torch_forward,
            "numpy": ratio_iou.numpy_forward,
            "drjit": ratio_iou.drjit_forward,
            "numba": ratio_iou.numba_forward,
        },
        bytes=9 * 4e5,
    ),
    Workload(
        "ratio_iou, its 8 gradients",
        ratio_iou.inputs,
        ratio_iou.gradient,
        (faster(1.3, "drjit"), faster(7)),
        {"torch": ratio_iou.torch_gradient, "drjit": ratio_iou.drjit_gradient},
        bytes=16 * 4e5,
    ),
)

# ---- along rows and channels --------------------------------------------------------------------

LAYER_BYTES = 4 * 2048 * 768
BATCH_BYTES = 4 * 32 * 64 * 28 * 28

NORMALISATIONS = (
    *(
        Workload(
            f"softmax 4096×{n}",
            floats((4096, n)),
            norms.softmax,
            (faster(1.3, "best"),),
            {"torch": norms.torch_softmax, "numpy": norms.numpy_softmax},
            bytes=8 * 4096 * n,
        )
        for n in (1024, 1000)
    ),
    Workload(
        "layer norm 2048×768",
        norms.layer_inputs,
        norms.layer_norm,
        (faster(3),),
        {"torch": norms.torch_layer_norm},
        bytes=2 * LAYER_BYTES,
    ),
    Workload(
        "layer norm gradient 2048×768",
        norms.layer_inputs,
        norms.layer_norm_gradient,
        (faster(3),),
        {"torch": norms.torch_layer_norm_gradient},
        bytes=3 * LAYER_BYTES,
    ),
    Workload(
        "batch norm + ReLU gradient, 32×64×28×28",
        norms.batch_inputs,
        norms.batch_norm_relu_gradient,
        (faster(3),),
        {"torch": norms.torch_batch_norm_relu_gradient},
        bytes=3 * BATCH_BYTES,
    ),
)


def reduction(name: str, axis: int | None) -> Workload:
    """A sum of a square array, which is the same text everywhere."""
    return Workload(
        f"{name} sum 4096²",
        floats(SQUARE),
        lambda jax: lambda x: jax.numpy.sum(x, axis),
        (faster(1.0, "best"), of_read(0.9)),
        {
            "torch": lambda torch, staged: staged(lambda x: torch.sum(x, axis)),
            "numpy": lambda np: lambda x: np.sum(x, axis),
        },
        bytes=4 * 4096**2,
        read_only=True,
        tolerance=1e-2 if axis is None else 1e-3,
        note="" if axis is not None else "16M elements",
    )


REDUCTIONS = (reduction("row", 1), reduction("column", 0), reduction("full", None))

# ---- moving data --------------------------------------------------------------------------------


def permutation(axes: tuple[int, ...], shape: tuple[int, ...]) -> Workload:
    """A transpose, copied: a view would move nothing."""
    name = "transpose 4096²" if len(shape) == 2 else "permute 256³ to " + "".join(map(str, axes))
    return Workload(
        name,
        floats(shape),
        lambda jax: lambda x: jax.numpy.transpose(x, axes),
        (faster(1.5), of_copy(0.8)),
        {
            "torch": lambda torch, staged: staged(lambda x: x.permute(axes).contiguous()),
            "numpy": lambda np: lambda x: np.ascontiguousarray(x.transpose(axes)),
        },
        bytes=8 * float(np.prod(shape)),
    )


def embedding(jax: Any) -> Any:
    """The gradient of a lookup, weighted so that each row's gradient is another."""
    return jax.grad(lambda table, ids, w: jax.numpy.sum(table[ids] * w))


def torch_embedding(torch: Any, staged: Any) -> Any:
    lookup = torch.nn.functional.embedding
    return gradients(torch, staged(lambda table, ids, w: (lookup(ids, table) * w).sum()))


def numpy_embedding(np: Any) -> Any:
    def run(table, ids, w):
        out = np.zeros_like(table)
        np.add.at(out, ids, w)
        return out

    return run


def lookup_inputs() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    table = rng.standard_normal((8192, 128), np.float32)
    ids = rng.integers(0, 8192, 4096).astype(np.int32)
    return table, ids, rng.standard_normal((4096, 128), np.float32)


def hessian(jax: Any) -> Any:
    jnp = jax.numpy
    return jax.hessian(lambda x: jnp.sum(jnp.tanh(x[:, None] * x) * x) + jnp.prod(jnp.cos(x * 0.1)))


def torch_hessian(torch: Any, staged: Any) -> Any:
    def f(x):
        return (torch.tanh(x[:, None] * x) * x).sum() + torch.cos(x * 0.1).prod()

    return staged(torch.func.hessian(f))


MOVES = (
    permutation((1, 0), SQUARE),
    *(permutation(axes, (256,) * 3) for axes in ((0, 2, 1), (1, 0, 2), (2, 1, 0), (2, 0, 1))),
    Workload(
        "concatenate 2 × 2048×4096",
        floats((2048, 4096), (2048, 4096)),
        lambda jax: lambda x, y: jax.numpy.concatenate([x, y], 1),
        (faster(1.5), of_copy(0.8)),
        {
            "torch": lambda torch, staged: staged(lambda x, y: torch.cat([x, y], 1)),
            "numpy": lambda np: lambda x, y: np.concatenate([x, y], 1),
        },
        bytes=8 * 4096**2,
    ),
    Workload(
        "pad 4096² by 1",
        floats(SQUARE),
        lambda jax: lambda x: jax.numpy.pad(x, 1),
        (faster(1.5), of_copy(0.8)),
        {
            "torch": lambda torch, staged: staged(
                lambda x: torch.nn.functional.pad(x, (1, 1, 1, 1))
            ),
            "numpy": lambda np: lambda x: np.pad(x, 1),
        },
        bytes=8 * 4096**2,
    ),
    Workload(
        "gather 8192×128, 4096 ids",
        lookup_inputs,
        lambda jax: lambda table, ids, _: table[ids],
        (faster(2),),
        {
            "torch": lambda torch, staged: staged(lambda table, ids, _: table[ids]),
            "numpy": lambda np: lambda table, ids, _: table[ids],
        },
        bytes=8 * 4096 * 128,
    ),
    Workload(
        "embedding gradient 8192×128, 4096 ids",
        lookup_inputs,
        embedding,
        (faster(2),),
        {"torch": torch_embedding, "numpy": numpy_embedding},
        bytes=4 * 128 * (4096 + 8192),
    ),
    Workload(
        "Hessian, 64 inputs",
        floats((64,)),
        hessian,
        (faster(3),),
        {"torch": torch_hessian},
        bytes=4 * 64 * 65,
    ),
)

ROWS = (*POINTWISE, *NORMALISATIONS, *REDUCTIONS, *MOVES)
