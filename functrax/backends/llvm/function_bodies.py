"""The instructions of a function of the module: one expression, and one branch at most.

What enters is an expression of basic operations.  What leaves are lines in which the parts of it
that are ``unlikely`` stand in a block of their own, which runs only if a lane wants one of them.

Start at :meth:`FunctionBody.write`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from functrax.backends.kernels.ir import ordered
from functrax.backends.llvm.instructions import emit
from functrax.backends.llvm.templates import constant, llvm_type
from functrax.core.scalars.scalar import Scalar

UNLIKELY: Final = "unlikely"


class FunctionBody:
    """The lines of a function.

    Args:
      lanes: of every value.

    Attributes:
      lines: so far; they begin in the block ``entry``.
    """

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.lines: list[str] = []
        self.names: dict[int, str] = {}

    def parameter(self, node: Scalar) -> str:
        """The name of the next parameter, which a node stands for."""
        name = self.names[id(node)] = f"%x{len(self.names)}"
        return name

    def name(self, node: Scalar) -> str:
        """The name of a node that is computed."""
        if node.op == "const":
            return constant(node.attr, node.dtype, self.lanes)
        return self.names[id(node)]

    def _fresh(self) -> str:
        return f"%v{len(self.names)}.{len(self.lines)}"

    def write(self, root: Scalar) -> None:
        """The nodes of an expression; what is unlikely in one block, which may be skipped."""
        nodes = ordered((root,))
        choices = [node for node in nodes if node.op == UNLIKELY]
        if choices:
            tests = {id(node.args[0]): node.args[0] for node in choices}
            usual = [x for node in choices for x in (node.args[0], node.args[2])]
            self._compute(ordered(usual))
            self._branch(list(tests.values()), choices)
        self._compute(nodes)

    def function(self, name: str, taken: Sequence[str], root: Scalar) -> str:
        """The text of a function of the module that gives a value of its parameters' dtype."""
        self.write(root)
        type_ = llvm_type(root.dtype, self.lanes)
        operands = ", ".join(f"{type_} {x}" for x in taken)
        head = f"define internal {type_} @{name}({operands}) nounwind {{"
        return "\n".join([head, "entry:", *self.lines, f"  ret {type_} {self.name(root)}", "}"])

    def _compute(self, nodes: Iterable[Scalar]) -> None:
        for node in nodes:
            if node.op != "const" and id(node) not in self.names:
                args = [self.name(x) for x in node.args]
                found = emit(node, args, self.lanes, self._fresh, self.lines)
                self.names[id(node)] = found

    def _branch(self, tests: list[Scalar], choices: list[Scalar]) -> None:
        """The values of choices: the unlikely ones are computed if a lane wants one."""
        holds = [self.any(self.name(x)) for x in tests]
        while len(holds) > 1:
            name = self._fresh()
            self.lines.append(f"  {name} = or i1 {holds.pop()}, {holds.pop()}")
            holds.append(name)
        self.lines += [f"  br i1 {holds[0]}, label %rare, label %join", "rare:"]
        before = dict(self.names)
        chosen = []
        for node in choices:
            self._compute(ordered((node.args[1],)))
            args = [self.name(x) for x in node.args]
            chosen.append(emit(node, args, self.lanes, self._fresh, self.lines))
        self.names = before  # what is computed here is not known after it
        self.lines += ["  br label %join", "join:"]
        for k, (node, value) in enumerate(zip(choices, chosen, strict=True)):
            type_ = llvm_type(node.dtype, self.lanes)
            usual = self.name(node.args[2])
            name = f"%chosen{k}"
            self.lines.append(f"  {name} = phi {type_} [ {usual}, %entry ], [ {value}, %rare ]")
            self.names[id(node)] = name

    def any(self, name: str) -> str:
        """Whether a bool is true in a lane."""
        if self.lanes == 1:
            return name
        out, type_ = self._fresh(), f"<{self.lanes} x i1>"
        self.lines.append(
            f"  {out} = call i1 @llvm.vector.reduce.or.v{self.lanes}i1({type_} {name})"
        )
        return out
