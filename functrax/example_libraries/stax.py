"""Neural networks as pairs of functions: ``init(key, shape)`` and ``apply(params, inputs)``.

A layer is a pair: ``init`` takes a random key and the shape of the inputs and returns the shape of
the outputs and the parameters; ``apply`` takes the parameters and the inputs (and ``rng=``, for
those that draw numbers) and returns the outputs.  :func:`serial` and :func:`parallel` make layers
of layers.  Images have their channels last.

Example:
  >>> import functrax
  >>> init, apply = serial(Dense(8), Relu, Dense(2), LogSoftmax)
  >>> shape, params = init(functrax.random.key(0), (-1, 3))
  >>> shape, apply(params, jnp.ones((5, 3))).shape
  ((-1, 2), (5, 2))
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from functrax import lax, nn, numpy as jnp, random
from functrax.core.errors.typed import ArgumentError
from functrax.nn import (  # names that programs take from here
    elu as elu,
    gelu as gelu,
    leaky_relu as leaky_relu,
    log_softmax as log_softmax,
    relu as relu,
    selu as selu,
    sigmoid as sigmoid,
    softmax as softmax,
    softplus as softplus,
    standardize as standardize,
)
from functrax.nn.initializers import glorot_normal, normal, ones, zeros
from functrax.transforms.arguments.inspect_types import ShapeDtypeStruct, eval_shape

glorot = glorot_normal
randn = normal
logsoftmax = log_softmax

Shape: TypeAlias = Any  # a tuple of sizes, or a list of shapes for layers of several inputs
Layer: TypeAlias = "tuple[Callable[..., Any], Callable[..., Any]]"


def Dense(out_dim: int, W_init: Any = None, b_init: Any = None) -> Layer:
    """``x @ W + b`` with ``out_dim`` outputs."""
    weights, biases = W_init or glorot_normal(), b_init or normal()

    def init(rng: Any, input_shape: Shape) -> tuple[Shape, Any]:
        first, second = random.split(rng)
        params = weights(first, (input_shape[-1], out_dim)), biases(second, (out_dim,))
        return (*input_shape[:-1], out_dim), params

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        W, b = params
        return jnp.dot(inputs, W) + b

    return init, apply


def _general(convolve: Callable[..., Any]) -> Callable[..., Layer]:
    """A constructor of layers that convolve their inputs with a kernel."""

    def construct(
        dimension_numbers: tuple[str, str, str],
        out_chan: int,
        filter_shape: Sequence[int],
        strides: Sequence[int] | None = None,
        padding: Any = "VALID",
        W_init: Any = None,
        b_init: Any = None,
    ) -> Layer:
        lhs, rhs, out = dimension_numbers
        weights = W_init or glorot_normal(rhs.index("I"), rhs.index("O"))
        biases = b_init or normal(1e-6)
        steps = tuple(strides or (1,) * len(filter_shape))

        def convolved(inputs: Any, W: Any) -> Any:
            return convolve(inputs, W, steps, padding, dimension_numbers=dimension_numbers)

        def init(rng: Any, input_shape: Shape) -> tuple[Shape, Any]:
            spatial = iter(filter_shape)
            sizes = {"O": out_chan, "I": input_shape[lhs.index("C")]}
            kernel = tuple(sizes[c] if c in sizes else next(spatial) for c in rhs)
            bias = tuple(out_chan if c == "C" else 1 for c in out)
            first, second = random.split(rng)
            params = weights(first, kernel), biases(second, bias)
            return _shape_after(lambda x: convolved(x, params[0]), input_shape), params

        def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
            W, b = params
            return convolved(inputs, W) + b

        return init, apply

    return construct


def _shape_after(function: Callable[[Any], Any], input_shape: Shape) -> Shape:
    """The shape that a function gives; a size of -1, which is not known yet, stays."""
    known = tuple(1 if n == -1 else n for n in input_shape)
    made = eval_shape(function, ShapeDtypeStruct(known, jnp.float32)).shape
    return tuple(-1 if n == -1 else m for n, m in zip(input_shape, made, strict=True))


GeneralConv = _general(lax.conv_general_dilated)
GeneralConvTranspose = _general(lax.conv_transpose)
Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))


def BatchNorm(
    axis: Any = (0, 1, 2),
    epsilon: Any = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Any = zeros,
    gamma_init: Any = ones,
) -> Layer:
    """Inputs of mean 0 and variance 1 over the axes, times gamma, plus beta."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init(rng: Any, input_shape: Shape) -> tuple[Shape, Any]:
        shape = tuple(n for i, n in enumerate(input_shape) if i not in axes)
        first, second = random.split(rng)
        beta = beta_init(first, shape) if center else ()
        gamma = gamma_init(second, shape) if scale else ()
        return input_shape, (beta, gamma)

    def apply(params: Any, x: Any, **kwargs: Any) -> Any:
        beta, gamma = params
        out = nn.standardize(x, axes, epsilon=epsilon)
        if scale:
            out = jnp.expand_dims(gamma, axes) * out
        return out + jnp.expand_dims(beta, axes) if center else out

    return init, apply


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """A layer without parameters that applies a function."""
    return (
        lambda rng, input_shape: (input_shape, ()),
        lambda params, inputs, **kwargs: fun(inputs, **fun_kwargs),
    )


Tanh, Exp = elementwise(jnp.tanh), elementwise(jnp.exp)
Relu, Elu, Selu, Gelu = (elementwise(f) for f in (nn.relu, nn.elu, nn.selu, nn.gelu))
Sigmoid, Softplus, LeakyRelu = (elementwise(f) for f in (nn.sigmoid, nn.softplus, nn.leaky_relu))
LogSoftmax, Softmax = elementwise(nn.log_softmax, axis=-1), elementwise(nn.softmax, axis=-1)
Identity = elementwise(lambda x: x)


def _pooling(reducer: Callable[..., Any], empty: float, mean: bool = False) -> Callable[..., Layer]:
    """A constructor of layers that combine the pixels of each window."""

    def construct(
        window_shape: Sequence[int],
        strides: Sequence[int] | None = None,
        padding: str = "VALID",
        spec: str | None = None,
    ) -> Layer:
        rank = len(window_shape) + 2
        outer = (0, rank - 1) if spec is None else (spec.index("N"), spec.index("C"))
        window, steps = list(window_shape), list(strides or (1,) * len(window_shape))
        for i in sorted(outer):
            window.insert(i, 1)
            steps.insert(i, 1)

        def pooled(x: Any) -> Any:
            return lax.reduce_window(x, empty, reducer, window, steps, padding)

        def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
            out = pooled(inputs)
            if not mean:
                return out
            once = tuple(1 if i in outer else n for i, n in enumerate(inputs.shape))
            return out / pooled(jnp.ones(once, inputs.dtype))  # fewer pixels count at the edges

        return lambda rng, input_shape: (_shape_after(pooled, input_shape), ()), apply

    return construct


MaxPool = _pooling(lax.max, -math.inf)
SumPool = _pooling(lax.add, 0.0)
AvgPool = _pooling(lax.add, 0.0, mean=True)

Flatten: Layer = (
    lambda rng, input_shape: ((input_shape[0], math.prod(input_shape[1:])), ()),
    lambda params, inputs, **kwargs: jnp.reshape(inputs, (inputs.shape[0], -1)),
)


def FanOut(num: int) -> Layer:
    """The same inputs ``num`` times, in a list."""
    return (
        lambda rng, input_shape: ([input_shape] * num, ()),
        lambda params, inputs, **kwargs: [inputs] * num,
    )


FanInSum: Layer = (
    lambda rng, input_shape: (input_shape[0], ()),
    lambda params, inputs, **kwargs: sum(inputs),
)


def FanInConcat(axis: int = -1) -> Layer:
    """A list of inputs, joined along an axis."""

    def init(rng: Any, input_shape: Shape) -> tuple[Shape, Any]:
        shape = list(input_shape[0])
        shape[axis] = sum(s[axis] for s in input_shape)
        return tuple(shape), ()

    return init, lambda params, inputs, **kwargs: jnp.concatenate(inputs, axis)


def Dropout(rate: Any, mode: str = "train") -> Layer:
    """Inputs kept with probability ``rate`` and divided by it, others 0; all, if not training."""

    def apply(params: Any, inputs: Any, *, rng: Any = None, **kwargs: Any) -> Any:
        if rng is None:
            raise ArgumentError(
                "Dropout: it draws numbers, and was given no key",
                got="rng=None",
                fix="apply(params, inputs, rng=functrax.random.key(0))",
            )
        if mode != "train":
            return inputs
        return jnp.where(random.bernoulli(rng, rate, inputs.shape), inputs / rate, 0)

    return lambda rng, input_shape: (input_shape, ()), apply


def _keys(rng: Any, num: int) -> Any:
    return random.split(rng, num) if rng is not None else (None,) * num


def serial(*layers: Layer) -> Layer:
    """Layers one behind the other."""

    def init(rng: Any, input_shape: Shape) -> tuple[Shape, Any]:
        params = []
        for init_layer, _ in layers:
            rng, key = random.split(rng)
            input_shape, made = init_layer(key, input_shape)
            params.append(made)
        return input_shape, params

    def apply(params: Any, inputs: Any, *, rng: Any = None, **kwargs: Any) -> Any:
        keys = _keys(rng, len(layers))
        for (_, apply_layer), own, key in zip(layers, params, keys, strict=True):
            inputs = apply_layer(own, inputs, rng=key, **kwargs)
        return inputs

    return init, apply


def parallel(*layers: Layer) -> Layer:
    """Layers side by side: a list of inputs, one for each, gives a list of outputs."""

    def init(rng: Any, input_shape: Shape) -> tuple[Shape, Any]:
        keys = random.split(rng, len(layers))
        pairs = [f(k, s) for (f, _), k, s in zip(layers, keys, input_shape, strict=True)]
        return tuple(s for s, _ in pairs), tuple(p for _, p in pairs)

    def apply(params: Any, inputs: Any, *, rng: Any = None, **kwargs: Any) -> Any:
        parts = zip(layers, params, inputs, _keys(rng, len(layers)), strict=True)
        return [f(p, x, rng=k, **kwargs) for (_, f), p, x, k in parts]

    return init, apply


def shape_dependent(make_layer: Callable[[Shape], Layer]) -> Layer:
    """A layer that is made when the shape of its inputs is known."""
    return (
        lambda rng, input_shape: make_layer(input_shape)[0](rng, input_shape),
        lambda params, inputs, **kwargs: make_layer(inputs.shape)[1](params, inputs, **kwargs),
    )
