"""The graph of an HLO program: nodes, and computations made of them.

A :class:`Node` is one instruction.  A :class:`Computation` has parameters and a root, and makes
nodes; equal ones are one object.  Nothing has a name until the program is printed
(``transforms/hlo/computations/hlo_text.py``), which leaves out what the root does not need.

Start at :class:`Computation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from functrax.core.ir.jaxpr import Literal
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.transforms.hlo.computations.literals import literal_text

Shape: TypeAlias = "tuple[int, ...]"
#: The type of an array, or of a tuple of arrays.
Type: TypeAlias = "ShapedArray | tuple[ShapedArray, ...]"


class Node:
    """One instruction: ``opcode(operands), attributes``.

    Args:
      opcode: as XLA writes it; ``"alias"`` is another node for its one operand, printed as that.
      type: of the result.
      operands: nodes of the same computation.
      attributes: names and values; a value is text, a number, a tuple, or a computation.
      text: what stands between the parentheses besides operands: a literal, a number.
    """

    __slots__ = ("attributes", "opcode", "operands", "text", "type")

    def __init__(
        self,
        opcode: str,
        type: Type,
        operands: tuple[Node, ...] = (),
        attributes: tuple[tuple[str, Any], ...] = (),
        text: str = "",
    ) -> None:
        self.opcode = opcode
        self.type = type
        self.operands = operands
        self.attributes = attributes
        self.text = text

    @property
    def aval(self) -> ShapedArray:
        """The type of an array."""
        assert isinstance(self.type, ShapedArray), f"{self.opcode} gives a tuple"
        return self.type

    @property
    def shape(self) -> Shape:
        """The sizes of an array's axes."""
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of an array."""
        return self.aval.dtype

    def resolved(self) -> Node:
        """The node that is printed."""
        node = self
        while node.opcode == "alias":
            (node,) = node.operands
        return node


class Computation:
    """A function of a module: parameters, and the nodes that make its root.

    Args:
      name: what it is called, up to a number.
      module: the computations that others of the module share, by what they compute.
    """

    def __init__(self, name: str, module: dict[Any, Computation]) -> None:
        self.name = name
        self.module = module
        self.parameters: list[Node] = []
        self.parameter_names: list[str] = []
        self.root: Node | None = None
        #: Facts of nodes that other rules than their own ask for
        #: (``transforms/hlo/computations/views.py``).
        self.views: dict[Node, Any] = {}
        self._nodes: dict[Any, Node] = {}

    def parameter(self, type: Type, name: str = "") -> Node:
        """One more parameter."""
        number = len(self.parameters)
        node = Node("parameter", type, text=str(number))
        self.parameters.append(node)
        self.parameter_names.append(name or f"Arg_{number}")
        return node

    def op(self, opcode: str, type: Type, /, *operands: Node, **attributes: Any) -> Node:
        """The node of an instruction, made if there is none that is equal."""
        inputs = tuple(x.resolved() for x in operands)
        return self._node(opcode, type, inputs, tuple(attributes.items()), "")

    def _node(
        self,
        opcode: str,
        type: Type,
        operands: tuple[Node, ...],
        attributes: tuple[tuple[str, Any], ...],
        text: str,
    ) -> Node:
        types = type if isinstance(type, tuple) else (type,)
        kinds = tuple((a.shape, a.dtype) for a in types)
        key = (opcode, isinstance(type, tuple), kinds, operands, attributes, text)
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = Node(opcode, type, operands, attributes, text)
        return found

    def alias(self, x: Node) -> Node:
        """Another node for the same value, of which other facts may be known."""
        return Node("alias", x.type, (x.resolved(),))

    def elementwise(self, opcode: str, *operands: Node, **attributes: Any) -> Node:
        """An instruction whose result is of the type of its first operand."""
        return self.op(opcode, operands[0].aval, *operands, **attributes)

    def constant(self, value: Any, dtype: np.dtype[Any] | None = None) -> Node:
        """An array with a value; one that repeats a number is made of the number."""
        array = np.asarray(value, dtype)
        if array.ndim and _repeats(array):
            number = array.reshape(-1)[0] if array.size else 0
            return self.full(array.shape, number, array.dtype)
        type = ShapedArray(array.shape, array.dtype)
        return self._node("constant", type, (), (), literal_text(array))

    def full(self, shape: Shape, value: Any, dtype: np.dtype[Any]) -> Node:
        """An array full of one number."""
        return self.spread(self.constant(np.asarray(value).astype(dtype)), shape)

    def spread(self, x: Node, shape: Shape) -> Node:
        """A scalar repeated to a shape; an array of that shape as it is."""
        return x if x.shape == shape else self.broadcast(x, shape, ())

    def broadcast(self, x: Node, shape: Shape, dims: Sequence[int]) -> Node:
        """Axis ``i`` of ``x`` becomes axis ``dims[i]``; the dims increase, the sizes agree."""
        if x.shape == shape:
            return x
        return self.op("broadcast", ShapedArray(shape, x.dtype), x, dimensions=tuple(dims))

    def reshape(self, x: Node, shape: Shape) -> Node:
        """The same elements in another shape."""
        if x.opcode == "reshape":
            (x,) = x.operands
        return x if x.shape == shape else self.op("reshape", ShapedArray(shape, x.dtype), x)

    def transpose(self, x: Node, perm: Sequence[int]) -> Node:
        """Axis ``k`` of the result is axis ``perm[k]``."""
        if x.opcode == "transpose":
            before: Shape = dict(x.attributes)["dimensions"]
            (x,), perm = x.operands, [before[p] for p in perm]
        if tuple(perm) == tuple(range(len(perm))):
            return x
        type = ShapedArray(tuple(x.shape[p] for p in perm), x.dtype)
        return self.op("transpose", type, x, dimensions=tuple(perm))

    def convert(self, x: Node, dtype: np.dtype[Any]) -> Node:
        """The nearest value of another dtype; of a complex number its real part."""
        if x.dtype == dtype:
            return x
        if dtypes.is_complex(x.dtype) and not dtypes.is_complex(dtype):
            part = ShapedArray(x.shape, dtypes.real_dtype(x.dtype))
            return self.convert(self.op("real", part, x), dtype)
        return self.op("convert", ShapedArray(x.shape, dtype), x)

    def compare(self, direction: str, x: Node, y: Node, **attributes: Any) -> Node:
        """A bool for each element: ``EQ NE LT LE GT GE``."""
        type = ShapedArray(x.shape, dtypes.bool_)
        return self.op("compare", type, x, y, direction=direction, **attributes)

    def select(self, which: Node, x: Node, y: Node) -> Node:
        """``x`` where ``which`` is true, else ``y``."""
        return self.op("select", x.aval, which, x, y)

    def iota(self, shape: Shape, axis: int, dtype: np.dtype[Any]) -> Node:
        """The index along an axis."""
        return self.op("iota", ShapedArray(shape, dtype), iota_dimension=axis)

    def tuple(self, members: Sequence[Node]) -> Node:
        """A tuple of arrays."""
        return self.op("tuple", tuple(x.aval for x in members), *members)

    def members(self, x: Node) -> list[Node]:
        """The arrays of a tuple."""
        assert isinstance(x.type, tuple)
        if x.opcode == "tuple":
            return list(x.operands)
        return [
            self.op("get-tuple-element", aval, x, index=index) for index, aval in enumerate(x.type)
        ]

    def literal(self, x: Literal) -> Node:
        """A scalar constant of a program."""
        return self.constant(x.val, x.aval.dtype)

    def shared(self, key: Any, name: str, write: Callable[[Computation], Node]) -> Computation:
        """The module's computation of what ``key`` stands for, written if there is none."""
        found = self.module.get(key)
        if found is None:
            found = self.inner(name)
            found.root = write(found)
            self.module[key] = found
        return found

    def inner(self, name: str) -> Computation:
        """A new computation of the same module."""
        return Computation(name, self.module)


def _repeats(array: np.ndarray[Any, Any]) -> bool:
    """Whether all elements have the same bits."""
    rows = np.ascontiguousarray(array).reshape(-1, 1).view(np.uint8)
    return bool((rows == rows[:1]).all())
