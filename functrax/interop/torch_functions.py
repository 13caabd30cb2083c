"""Functions of arrays as functions of PyTorch's tensors, with their derivatives.

:func:`to_torch` wraps a function in a ``torch.autograd.Function``.  The forward pass is one
compiled program, which also returns the residuals; the backward pass another, which takes them.
Where PyTorch records the backward pass (``create_graph=True``), the gradient is itself such a
function, of the inputs and the cotangents, so there are derivatives of every order.

Memory is shared both ways.  A result is given to PyTorch as it is only if nothing else refers to
its memory, for tensors may be written to: a result that is an input or a constant is copied.

PyTorch is imported when a function is first called.  Start at :meth:`_Node.apply`.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from functrax.backends.runtime.choice import Buffer
from functrax.core.arrays.array import ConcreteArray
from functrax.core.errors.typed import ArgumentError
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import trace_context
from functrax.core.options.contexts import enable_x64
from functrax.core.prims.convert import conj
from functrax.core.pytree.operations import PyTreeDef, tree_flatten, tree_map, tree_unflatten
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import eval_jaxpr, stage
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.numpy.creation import from_dlpack
from functrax.transforms.arguments.flat import check_callable, name_of
from functrax.transforms.differentiation.derivatives import vjp
from functrax.transforms.staging.jit import jit


def from_torch(tree: Any) -> Any:
    """The tensors of a pytree as arrays in the same memory; other leaves as they are.

    Tensors with a gradient are taken without it.  Writing to a tensor changes the array, which
    programs may already have read: write to a copy.

    Args:
      tree: a pytree of tensors in the memory of the host.

    Returns:
      A pytree of the same structure.

    Raises:
      ArgumentError: for a tensor on another device.

    >>> import functrax
    >>> # functrax.from_torch({"w": torch.ones(3)})["w"].sum()
    """
    import torch

    return tree_map(lambda x: _as_array(x) if isinstance(x, torch.Tensor) else x, tree)


def to_torch(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors that PyTorch can differentiate, any number of times.

    Args:
      fun: a pure function of pytrees of arrays, jitted or not.

    Returns:
      A function of the same arguments with tensors in place of arrays; arrays and numbers may stay.
      It returns tensors.  ``float64`` and ``complex128`` tensors keep their 64 bits.

    Raises:
      ArgumentError: if no argument is a tensor, or one is on another device.

    >>> import functrax, functrax.numpy as jnp
    >>> f = functrax.to_torch(lambda x: jnp.sum(jnp.sin(x)))
    >>> # f(torch.ones(3, requires_grad=True)).backward()
    """
    check_callable("to_torch", fun)
    nodes: dict[PyTreeDef, _Node] = {}

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs))
        node = nodes.get(tree)
        if node is None:
            node = nodes[tree] = _Node(_flat(fun, tree), name_of(fun))
        outs, out_tree = node.apply(leaves)
        return tree_unflatten(out_tree, outs)

    return wrapped


def _flat(fun: Callable[..., Any], tree: PyTreeDef) -> Callable[..., tuple[list[Any], PyTreeDef]]:
    def flat(*leaves: Any) -> tuple[list[Any], PyTreeDef]:
        args, kwargs = tree_unflatten(tree, leaves)
        return tree_flatten(fun(*args, **kwargs))

    return flat


class _Node:
    """A function of flat arrays, for autograd.

    Args:
      function: from arrays to a list of arrays, and their structure.
      name: of it.
    """

    def __init__(self, function: Callable[..., tuple[list[Any], PyTreeDef]], name: str) -> None:
        self.function = function
        self.name = name
        self._programs: dict[Any, _Programs] = {}
        self._gradients: dict[int, _Node] = {}

    def apply(self, leaves: Sequence[Any]) -> tuple[list[Any], PyTreeDef]:
        """Tensors, and their structure, from tensors, arrays and numbers."""
        import torch

        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        if not tensors:
            raise ArgumentError(
                f"to_torch: {self.name} was called without a tensor",
                got=", ".join(type(x).__name__ for x in leaves) or "no arguments",
                fix=f"tensors; for arrays, {self.name} itself",
            )
        others = [None if isinstance(x, torch.Tensor) else as_value(x) for x in leaves]
        run = _Run(self, others)
        outs = _autograd_function().apply(run, *tensors)
        assert run.programs.out_tree is not None
        return list(outs), run.programs.out_tree

    def programs(self, values: Sequence[ConcreteArray]) -> _Programs:
        """The compiled programs for arrays of these types."""
        key = (tuple([x.aval for x in values]), trace_context())
        found = self._programs.get(key)
        if found is None:
            found = self._programs[key] = _Programs(self.function, self.name)
        return found

    def gradient(self, count: int) -> _Node:
        """The function of ``count`` inputs and the cotangents that gives the gradients."""

        def gradient(*values: Any) -> tuple[list[Any], PyTreeDef]:
            inputs, cts = values[:count], values[count:]
            pull = vjp(lambda *xs: _inexact(self.function(*xs)[0]), *inputs)[1]
            return tree_flatten(_gradients(pull, cts))

        if count not in self._gradients:
            self._gradients[count] = _Node(gradient, f"gradient of {self.name}")
        return self._gradients[count]


class _Programs:
    """What a function is compiled to, for arguments of one type.

    Attributes:
      plain: from the inputs to the results.
      forward: from the inputs to the results and the residuals.
      backward: from the residuals and the cotangents of the inexact results to the gradients of
        the inexact inputs.
      out_tree: the structure of the results, known when one of them was called.
      inexact: which results are floats or complex numbers, known with it.
    """

    def __init__(self, function: Callable[..., tuple[list[Any], PyTreeDef]], name: str) -> None:
        self.out_tree: PyTreeDef | None = None
        self.inexact: list[bool] = []
        self._function = function
        self._name = name
        self._transposed: Jaxpr
        plain, forward, backward = self._plain, self._forward, self._backward
        self.plain = jit(named(plain, name))
        self.forward = jit(named(forward, f"{name}, with residuals"))
        self.backward = jit(named(backward, f"backward of {name}"))

    def _plain(self, *values: Any) -> list[Any]:
        outs, self.out_tree = self._function(*values)
        self.inexact = [_is_inexact(x) for x in outs]
        return outs

    def _forward(self, *values: Any) -> tuple[list[Any], list[Any]]:
        def split(*xs: Any) -> tuple[list[Any], list[Any]]:
            outs = self._plain(*xs)
            return _inexact(outs), [x for x in outs if not _is_inexact(x)]

        outs, pull, exact = vjp(split, *values, has_aux=True)

        def flat_pull(*cts: Any) -> list[Any]:
            return _gradients(pull, cts)

        self._transposed, residuals = stage(flat_pull, [x.aval for x in outs], self._name)
        sources = {True: iter(outs), False: iter(exact)}
        return [next(sources[is_inexact]) for is_inexact in self.inexact], list(residuals)

    def _backward(self, residuals: list[Any], cts: list[Any]) -> list[Any]:
        outs = eval_jaxpr(self._transposed, [as_value(r) for r in residuals], *cts)
        return [concrete(x) for x in outs]


def named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function under another name."""

    def renamed(*args: Any) -> Any:
        return function(*args)

    renamed.__name__ = renamed.__qualname__ = name
    return renamed


def _is_inexact(x: Any) -> bool:
    return dtypes.is_inexact(as_value(x).aval.dtype)


def _inexact(values: Sequence[Any]) -> list[Any]:
    return [x for x in values if _is_inexact(x)]


def _gradients(pull: Callable[[list[Any]], Sequence[Any]], cts: Sequence[Any]) -> list[Any]:
    """What PyTorch calls the gradients; of complex numbers they are the conjugates of ours."""
    return [_conjugate(x) for x in _inexact(pull([_conjugate(ct) for ct in cts]))]


def _conjugate(x: Any) -> Value:
    value = as_value(x)
    return conj.bind(value) if value.aval.dtype.kind == "c" else value


class _Run:
    """One application to tensors: what its forward pass leaves for the backward pass.

    Args:
      node: the function.
      others: its inputs, None where a tensor is.
    """

    def __init__(self, node: _Node, others: Sequence[Any]) -> None:
        self.node = node
        self.others = others
        self.wide = False
        self.residuals: list[Any] = []
        self.programs: _Programs

    def values(self, tensors: Sequence[Any]) -> list[Any]:
        """All inputs as arrays."""
        given = iter(tensors)
        return [_as_array(next(given)) if x is None else x for x in self.others]

    def bits(self) -> contextlib.AbstractContextManager[Any]:
        """Lets arrays have 64 bits where tensors have."""
        return enable_x64(True) if self.wide else contextlib.nullcontext()

    def forward(self, tensors: Sequence[Any], differentiated: bool) -> list[Any]:
        """The results as tensors."""
        self.wide = any(str(t.dtype) in ("torch.float64", "torch.complex128") for t in tensors)
        with self.bits():
            values = self.values(tensors)
            self.programs = self.node.programs(values)
            if not differentiated:
                return _as_tensors(self.programs.plain(*values))
            outs, residuals = self.programs.forward(*values)
            kept = {id(x.buffer): k for k, x in reversed(list(enumerate(outs)))}
            # A residual that is a result is found in its tensor, where PyTorch sees changes.
            self.residuals = [kept.get(id(r.buffer), r) for r in residuals]
            del residuals
            return _as_tensors(outs)

    def kept_outputs(self) -> list[int]:
        """The numbers of the results that residuals are found in."""
        return sorted({r for r in self.residuals if type(r) is int})

    def backward(self, tensors: Sequence[Any], kept: Sequence[Any], grads: Sequence[Any]) -> Any:
        """The gradients of the tensors; recorded, if PyTorch records.

        Args:
          tensors: the inputs.
          kept: the results that residuals are found in.
          grads: a cotangent of each result.
        """
        import torch

        cts = [g for g, k in zip(grads, self.programs.inexact) if k]
        given = iter(tensors)
        with self.bits():
            if torch.is_grad_enabled():
                inputs = [next(given) if x is None else x for x in self.others]
                found = self.node.gradient(len(inputs)).apply([*inputs, *cts])[0]
            else:
                outs = dict(zip(self.kept_outputs(), kept))
                residuals = [_as_array(outs[r]) if type(r) is int else r for r in self.residuals]
                found = _as_tensors(self.programs.backward(residuals, [*map(_as_array, cts)]))
        return self._for_tensors(tensors, found)

    def _for_tensors(self, tensors: Sequence[Any], found: Sequence[Any]) -> list[Any]:
        """Of the gradients of the inexact inputs those of tensors, in their dtype."""
        given, gradients = iter(tensors), iter(found)
        result = []
        for other in self.others:
            if other is not None:
                if _is_inexact(other):
                    next(gradients)
                continue
            tensor = next(given)
            gradient = next(gradients) if _differentiable(tensor) else None
            result.append(None if gradient is None else gradient.to(tensor.dtype))
        return result


@functools.cache
def _autograd_function() -> Any:
    """The class that PyTorch calls; made when there is a PyTorch."""
    import torch

    class Applied(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, run: _Run, *tensors: Any) -> Any:
            ctx.run = run
            outs = run.forward(tensors, any(ctx.needs_input_grad))
            ctx.mark_non_differentiable(*[t for t in outs if not _differentiable(t)])
            ctx.save_for_backward(*tensors, *[outs[k] for k in run.kept_outputs()])
            return tuple(outs)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            count = len(ctx.needs_input_grad) - 1
            saved = ctx.saved_tensors  # which PyTorch checks for changes
            return (None, *ctx.run.backward(saved[:count], saved[count:], grads))

    return Applied


def _differentiable(tensor: Any) -> bool:
    return bool(tensor.dtype.is_floating_point or tensor.dtype.is_complex)


def _as_array(tensor: Any) -> Any:
    """A tensor as an array in the same memory."""
    if tensor.device.type != "cpu":
        raise ArgumentError(
            "a tensor is not in the memory of the host", got=str(tensor.device), fix="t.cpu()"
        )
    return from_dlpack(tensor.detach().resolve_conj().resolve_neg())


def _as_tensors(arrays: Sequence[ConcreteArray]) -> list[Any]:
    """New arrays as tensors: in the same memory where nothing else refers to it."""
    import torch

    return [
        torch.from_dlpack(x if _is_sole(x) else ConcreteArray(np.array(x), x.aval)) for x in arrays
    ]


def _is_sole(x: ConcreteArray) -> bool:
    buffer = x.buffer
    return type(buffer) is Buffer and sys.getrefcount(buffer) <= _SOLE_OWNER


def _references_of_one() -> int:
    """The count of a buffer that one array has, while a local variable holds it too."""
    x = ConcreteArray(Buffer((), np.float32), ShapedArray((), dtypes.float32))
    buffer = x.buffer
    return sys.getrefcount(buffer)


_SOLE_OWNER: Final = _references_of_one()
