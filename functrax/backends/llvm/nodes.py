"""The scalar expressions of a kernel, node by node.

What enters is a node; what leaves are the instructions of it and of all that it needs and that is
not known yet, each in the level that it depends on.  A node is a vector if it depends on the
vector dim, else a scalar, which is copied into all lanes where a vector is wanted.

Start at :meth:`Nodes.value`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from functrax.backends.llvm.function_calls import FunctionCalls, threefry_text
from functrax.backends.llvm.instructions import OPERATIONS, emit
from functrax.backends.llvm.lane_reductions import Lanes
from functrax.backends.llvm.loads import Loads
from functrax.backends.llvm.templates import constant, lane_numbers, lane_order, llvm_type
from functrax.backends.llvm.writer import NAME, Known, Writer
from functrax.backends.targets import target
from functrax.core.errors.typed import VerificationError
from functrax.core.scalars.scalar import THREEFRY, WORD, Scalar
from functrax.core.types import dtypes


class Nodes:
    """Writes the computations of a kernel.

    Args:
      contract: whether reductions may round a product once with its sum.

    Attributes:
      calls: the functions that the kernel calls.
    """

    def __init__(self, writer: Writer, loads: Loads, contract: bool) -> None:
        self.writer = writer
        self.loads = loads
        self.contract = contract
        kernel = writer.kernel
        self.calls = FunctionCalls(kernel.nodes(), kernel.points, modules=kernel.group == 0)
        self.lanes = Lanes(writer, self)

    def value(self, root: Scalar) -> Known:
        """The name of a node, whose instructions are written if they are not yet."""
        w = self.writer
        stack = [root]
        known = w.known
        while stack:
            node = stack[-1]
            if id(node) in known or node.op == "const":
                stack.pop()
                continue
            waiting = len(stack)
            other = None if node.op in OPERATIONS else self.calls.expansion(w.builder, node)
            for x in node.args if other is None else (other,):
                if id(x) not in known and x.op != "const":
                    stack.append(x)
            if len(stack) == waiting and node.op == "div" and self._divides_a_row(node):
                other = self._by_reciprocal(node)
                if id(other) not in known:
                    stack.append(other)
            if len(stack) > waiting:
                continue
            stack.pop()
            if other is not None:
                same = w.operand(other)
                w.same(node, same, same.level)
            else:
                self._compute(node)
        return w.operand(root)

    def _divides_a_row(self, node: Scalar) -> bool:
        """Whether it divides whole vectors of float32 by a number that a loop does not change."""
        if node.dtype != dtypes.float32 or not self.contract:
            return False
        if target().divides_fast or 4 * self.writer.lanes < target().vector_bytes:
            return False
        x, y = map(self.writer.operand, node.args)
        return x.vector and not y.vector and x.level > y.level

    def _by_reciprocal(self, node: Scalar) -> Scalar:
        """A quotient of float32 as a product in float64 by a reciprocal, which is computed once.

        It is the rounded quotient: one that lies halfway between two float32 would need 25 bits, so
        the divisor times it 25 bits or more; all others are farther from halfway, by 2^-49 of it,
        than the product is wrong.  Halfway between two subnormal ones there are quotients; they may
        be rounded up or down, which strict mode does not leave open, and so it divides.
        """
        b = self.writer.builder
        x, y = (b.convert(v, dtypes.float64) for v in node.args)
        return b.convert(b.mul(x, b.div(b.like(y, 1), y)), dtypes.float32)

    def _compute(self, node: Scalar) -> None:
        w = self.writer
        if node.op in OPERATIONS:
            lanes, level, names = self._operands(node)
            name = emit(node, names, lanes, w.fresh, w.levels[level].lines)
            w.know(id(node), name, lanes > 1, level, lanes)
        elif node.op == "load":
            self.loads.load(node)
        elif node.op == "dim":
            self._dim(node)
        elif node.op in _BEFORE_LOOPS:
            w.know(id(node), _BEFORE_LOOPS[node.op](w, node), node.op == "lanes", 0)
        elif node.op == "line":
            buffer, address, dim = node.attr
            low = w.operand(node.args[0]).name
            name = self.loads.memory.first_line(buffer, address, dim, low)
            w.know(id(node), name, False, len(w.levels) - 1)
        elif node.op == "across":
            self.lanes.across(node)
        elif node.op in ("permute", "lane"):
            self._from_lanes(node)
        elif node.op == WORD:
            found = w.operand(node.args[0])
            type_ = llvm_type(node.dtype, w.lanes if found.vector else 1)
            right = f"extractvalue {{{type_}, {type_}}} {found.name}, {node.attr}"
            w.know(id(node), w.line(right, found.level), found.vector, found.level)
        else:
            self._call(node)

    def _from_lanes(self, node: Scalar) -> None:
        """One lane of a vector, or its lanes in another order; a scalar stays as it is."""
        w = self.writer
        (x,) = node.args
        found = w.operand(x)
        if not found.vector:
            w.same(node, found, found.level)
            return
        type_ = llvm_type(node.dtype, w.lanes)
        if node.op == "lane":
            text = f"extractelement {type_} {found.name}, i64 {node.attr}"
        else:
            mask = lane_order(node.attr)
            text = f"shufflevector {type_} {found.name}, {type_} poison, {mask}"
        name = w.line(text, found.level)
        w.know(id(node), name, node.op == "permute", found.level)

    def _dim(self, node: Scalar) -> None:
        w = self.writer
        index = w.known["dim", node.attr]
        level = index.level
        name = index.name
        if node.dtype.itemsize < 8:
            name = w.line(f"trunc i64 {index.name} to {llvm_type(node.dtype, 1)}", level)
        vector = node.attr == w.kernel.vector and w.lanes > 1
        if vector:
            type_ = llvm_type(node.dtype, w.lanes)
            base = w.splat(name, node.dtype, level)
            iota = lane_numbers(range(w.lanes), llvm_type(node.dtype, 1))
            name = w.line(f"add {type_} {base}, {iota}", level)
        w.know(id(node), name, vector, level)

    def _call(self, node: Scalar) -> None:
        """A call of a function: two words of random bits, or a function of floats."""
        w = self.writer
        lanes, level, names = self._operands(node)
        if node.op == THREEFRY:
            type_ = llvm_type(node.dtype, lanes)
            given = ", ".join([f"{type_} {x}" for x in names])
            function = w.function(threefry_text(lanes, NAME))
            right = f"call {{{type_}, {type_}}} {function}({given})"
        elif self.calls.calls(node):
            right = self.calls.call(node, names, lanes)
        else:
            raise VerificationError(
                f"kernel {w.kernel.name}: an operation that no instruction does",
                got=repr(node.op),
                fix="report this: the compiler wrote a kernel that it cannot emit",
            )
        w.know(id(node), w.line(right, level), lanes > 1, level, lanes)

    def _operands(self, node: Scalar) -> tuple[int, int, list[str]]:
        """How many lanes the operands have, the innermost level of them, and their names so."""
        w = self.writer
        found = [w.known.get(id(x)) for x in node.args]  # none of constants
        lanes, level = 1, 0
        for known in found:
            if known is not None:
                if known.lanes > lanes:
                    lanes = known.lanes
                if known.level > level:
                    level = known.level
        names = [
            w.in_lanes(x, lanes) if known is None or known.lanes != lanes else known.name
            for x, known in zip(node.args, found)
        ]
        return lanes, level, names


# ---- leaves that are the same in all loops ------------------------------------------------------


def _integer(w: Writer, node: Scalar) -> str:
    """An integer among the run-time arguments."""
    name = w.number(node.attr, ("int", node.attr))
    return name if node.dtype.itemsize == 8 else w.narrow(name, llvm_type(node.dtype, 1))


def _given(w: Writer, node: Scalar) -> str:
    """A float among the run-time arguments."""
    name = w.number(node.attr, ("given", node.dtype, node.attr))
    if node.dtype.itemsize == 4:
        name = w.narrow(name)
    found, bits = f"{name}.given", f"i{8 * node.dtype.itemsize}"
    w.header.append(f"  {found} = bitcast {bits} {name} to {llvm_type(node.dtype, 1)}")
    return found


def _lanes(w: Writer, node: Scalar) -> str:
    """A number for each lane."""
    element = llvm_type(node.dtype, 1)
    texts = [f"{element} {constant(x, node.dtype, 1)}" for x in node.attr]
    return f"<{', '.join(texts)}>"


_BEFORE_LOOPS: Final[dict[str, Callable[[Writer, Scalar], str]]] = {
    "int": _integer,
    "number": lambda w, node: w.number(node.attr[1], node.attr[0]),
    "units": lambda w, node: f"%{node.attr}",
    "given": _given,
    "lanes": _lanes,
}
