"""The values of scalar expressions, in NumPy: what a kernel gives, without a compiler.

Expressions (:class:`~functrax.core.scalars.scalar.Scalar`) and the values of their loads and
indices enter; an array for each expression leaves.  Every operation does what
``core/scalars/scalar.py`` says, to the bit, and what that file leaves open (a divisor of 0, a shift
by too much) is refused.  A function of ``MATH`` is its primitive's reference, computed in float64
and rounded once; or, if the caller gives expansions, what a target makes of it.

Start at :func:`evaluate`; ``_PLAIN`` and ``_RULES`` list the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from functrax.backends.kernels.ir import ordered
from functrax.core.prims import bits
from functrax.core.prims.fma_values import fma
from functrax.core.prims.threefry_values import threefry2x32
from functrax.core.scalars.scalar import MATH, WORD, Builder, Scalar
from functrax.core.tracing.primitive import registry
from functrax.core.types import dtypes

Array: TypeAlias = "NDArray[Any]"
#: ``(builder, *operands)`` -> a function of ``MATH``, in other operations.
Expansion: TypeAlias = Callable[..., Scalar]
NO_EXPANSIONS: Final[Mapping[str, Expansion]] = {}


def evaluate(
    outputs: Sequence[Scalar],
    leaf: Callable[..., Any],
    expansions: Mapping[str, Expansion] = NO_EXPANSIONS,
) -> list[Array]:
    """The values of scalar expressions.

    Args:
      outputs: the expressions.
      leaf: ``(node, *operands)`` -> the values of a node that is the kernel's, such as a load; all
        have one shape, or shapes that broadcast.
      expansions: what to put in the place of functions of ``MATH``, by name.

    Returns:
      An array for each output, of the shape of the leaves that it depends on.

    Raises:
      AssertionError: an operand is outside of what an operation is defined for.

    >>> b = Builder()
    >>> x = b.node("load", dtypes.float32, (), 0)
    >>> evaluate([b.mul(x, b.like(x, 2))], lambda node: np.float32([1.0, 2.5]))[0].tolist()
    [2.0, 5.0]
    """
    values: dict[int, Array] = {}
    with np.errstate(all="ignore"):
        for node in ordered(outputs):
            operands = [values[id(a)] for a in node.args]
            values[id(node)] = value_of(node, operands, leaf, expansions)
    return [values[id(node)] for node in outputs]


def value_of(
    node: Scalar,
    operands: list[Array],
    leaf: Callable[..., Any],
    expansions: Mapping[str, Expansion] = NO_EXPANSIONS,
) -> Array:
    """The value of one node, from those of its operands; see :func:`evaluate`."""
    if node.op == "const":
        value = np.asarray(node.attr)
    elif node.op in expansions:
        value = _expanded(node, operands, expansions)
    elif node.op in MATH:
        value = _math(node.op, operands)
    elif node.op == WORD:
        value = operands[0][node.attr]
    elif node.op in _PLAIN:
        value = np.asarray(_PLAIN[node.op](*operands))
    elif node.op in _RULES:
        value = np.asarray(_RULES[node.op](node.dtype, *operands))
    else:
        value = np.asarray(leaf(node, *operands))
    assert value.dtype == node.dtype, f"{node.op} gave {value.dtype} for {node.dtype}"
    return value


def _expanded(node: Scalar, operands: list[Array], expansions: Mapping[str, Expansion]) -> Array:
    b = Builder()
    arguments = [b.node("argument", a.dtype, (), k) for k, a in enumerate(node.args)]
    made = expansions[node.op](b, *arguments)
    return evaluate([made], lambda argument: operands[argument.attr], expansions)[0]


def _math(name: str, operands: list[Array]) -> Array:
    """A function by its reference, in float64 and rounded once."""
    dtype = operands[0].dtype
    wide = [x.astype(np.float64) for x in operands]
    # The one function without a primitive.
    exact = np.log2(*wide) if name == "log2" else registry[name].reference(*wide)
    return np.asarray(np.asarray(exact).astype(dtype))


def _div(dtype: np.dtype[Any], x: Array, y: Array) -> Array:
    if dtype.kind not in "iu":
        return np.divide(x, y)
    _check_divisor(y)
    return np.asarray((x - np.fmod(x, y)) // y)


def _rem(dtype: np.dtype[Any], x: Array, y: Array) -> Array:
    if dtype.kind in "iu":
        _check_divisor(y)
    return np.fmod(x, y)


def _check_divisor(y: Array) -> None:
    assert np.all(y != 0), "an integer is divided by 0"
    assert y.dtype.kind == "u" or np.all(y != -1), "a signed integer is divided by -1"


def _nearly(function: Callable[..., Any], x: Array) -> Array:
    """A function of float32 that an instruction gives nearly: rounded once here."""
    return np.asarray(function(x.astype(np.float64)).astype(x.dtype))


def _shift(function: np.ufunc) -> Callable[..., Any]:
    def rule(dtype: np.dtype[Any], x: Array, count: Array) -> Any:
        assert np.all((count >= 0) & (count < dtype.itemsize * 8)), "shifted by too many bits"
        return function(x, count)

    return rule


def _convert(dtype: np.dtype[Any], x: Array) -> Any:
    assert dtype != dtypes.bool_, "a comparison makes bools"
    return registry["convert_element_type"].reference(x, dtype=dtype)


_PLAIN: Final[dict[str, Callable[..., Any]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "min": np.minimum,
    "max": np.maximum,
    "fma": fma,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round_even": np.rint,
    "abs": np.abs,
    "copysign": np.copysign,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.bitwise_not,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "select": np.where,
    "unlikely": np.where,
    "exp2_near": lambda x: _nearly(np.exp2, x),
    "log2_near": lambda x: _nearly(np.log2, x),
    "reciprocal_near": lambda x: _nearly(np.reciprocal, x),
    "rsqrt_near": lambda x: _nearly(lambda wide: 1 / np.sqrt(wide), x),
    "popcount": bits.population_count,
    "clz": bits.clz,
    "real": np.real,
    "imag": np.imag,
    "complex": registry["complex"].reference,
    "threefry": lambda *words: np.stack(threefry2x32(*words)),
}
#: ``(dtype of the result, *operands)`` -> the result.
_RULES: Final[dict[str, Callable[..., Any]]] = {
    "div": _div,
    "rem": _rem,
    "shl": _shift(np.left_shift),
    "shr": _shift(np.right_shift),
    "convert": _convert,
    "bitcast": lambda dtype, x: x.view(dtype),
    "ldexp": lambda dtype, x, n: np.ldexp(x.astype(np.float64), n).astype(dtype),
}
