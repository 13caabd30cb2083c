"""Functions of floats as functions in LLVM IR, for vectors of any number of lanes.

What enters is the name of a function of ``EXPANSIONS``; what leaves is the text of its definition.
A kernel calls one where it has a part that is ``unlikely``, for there a function can branch: the
part is computed only if a lane wants it.  It also calls those that it needs many times, which are
then compiled once.

Start at :func:`call_of` and :func:`math_definitions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import numpy as np

from functrax.backends.kernels.ir import ordered
from functrax.backends.kernels.math import EXPANSIONS
from functrax.backends.kernels.row_loops import FEW_CALLS
from functrax.backends.llvm.instructions import constant, emit, llvm_type
from functrax.core.lowering import MATH, Builder, Scalar

#: What the names of the functions begin with; then come the function, the dtype, the number of
#: lanes, and whether products and sums may be contracted.
_PREFIX: Final = "functrax.math"
_CALL: Final = re.compile(rf"@{re.escape(_PREFIX)}\.(\w+)\.(\w+)\.(\d+)\.(\d)\(")
#: A function that a kernel needs more often is a function of the module.
WRITTEN_OUT: Final = FEW_CALLS
UNLIKELY: Final = "unlikely"


@cache
def has_branch(name: str, dtype: np.dtype[Any]) -> bool:
    """Whether a function has a part that is hardly ever needed."""
    return any(node.op == UNLIKELY for node in ordered(iter((_expression(name, dtype)[1],))))


def call_of(
    name: str, dtype: np.dtype[Any], lanes: int, operands: list[str], contract: bool
) -> str:
    """The right hand side of a call."""
    type_ = llvm_type(dtype, lanes)
    args = ", ".join(f"{type_} {x}" for x in operands)
    return f"call {type_} @{_PREFIX}.{name}.{dtype.name}.{lanes}.{int(contract)}({args})"


def math_definitions(text: str) -> str:
    """The functions of this kind that a module's text calls."""
    if _PREFIX not in text:
        return ""
    used = sorted(set(_CALL.findall(text)))
    return "\n".join(
        _definition(name, dtype, int(lanes), contract == "1")
        for name, dtype, lanes, contract in used
    )


def _expression(name: str, dtype: np.dtype[Any]) -> tuple[list[Scalar], Scalar]:
    b = Builder()
    operands = [b.node("argument", dtype, (), k) for k in range(MATH[name])]
    return operands, _written(b, EXPANSIONS[name](b, *operands))


def _written(b: Builder, root: Scalar) -> Scalar:
    """An expression in which no function of ``EXPANSIONS`` is left."""
    new: dict[int, Scalar] = {}
    for node in ordered(iter((root,))):
        args = tuple(new[id(x)] for x in node.args)
        if node.op in EXPANSIONS:
            new[id(node)] = _written(b, EXPANSIONS[node.op](b, *args))
        elif all(x is y for x, y in zip(args, node.args, strict=True)):
            new[id(node)] = node
        else:
            new[id(node)] = b.node(node.op, node.dtype, args, node.attr)
    return new[id(root)]


@cache
def _definition(name: str, dtype: str, lanes: int, contract: bool) -> str:
    operands, root = _expression(name, np.dtype(dtype))
    type_ = llvm_type(root.dtype, lanes)
    arguments = ", ".join(f"{type_} %x{k}" for k in range(len(operands)))
    head = (
        f"define internal {type_} @{_PREFIX}.{name}.{dtype}.{lanes}.{int(contract)}({arguments}) {{"
    )
    body = _Body(lanes, contract)
    body.names.update((id(x), f"%x{k}") for k, x in enumerate(operands))
    body.write(root)
    return "\n".join([head, "entry:", *body.lines, f"  ret {type_} {body.name(root)}", "}"])


class _Body:
    """The lines of a function."""

    def __init__(self, lanes: int, contract: bool) -> None:
        self.lanes = lanes
        self.contract = contract
        self.lines: list[str] = []
        self.names: dict[int, str] = {}

    def name(self, node: Scalar) -> str:
        """The name of a node that is computed."""
        if node.op == "const":
            return constant(node.attr, node.dtype, self.lanes)
        return self.names[id(node)]

    def _fresh(self) -> str:
        return f"%v{len(self.names)}.{len(self.lines)}"

    def write(self, root: Scalar) -> None:
        """The nodes of an expression; what is unlikely in one block, which may be skipped."""
        nodes = ordered(iter((root,)))
        choices = [node for node in nodes if node.op == UNLIKELY]
        if choices:
            tests = {id(node.args[0]): node.args[0] for node in choices}
            usual = [x for node in choices for x in (node.args[0], node.args[2])]
            self._compute(ordered(iter(usual)))
            self._branch(list(tests.values()), choices)
        self._compute(nodes)

    def _compute(self, nodes: Iterable[Scalar]) -> None:
        for node in nodes:
            if node.op != "const" and id(node) not in self.names:
                args = [self.name(x) for x in node.args]
                found = emit(node, args, self.lanes, self._fresh, self.lines, self.contract)
                self.names[id(node)] = found

    def _branch(self, tests: list[Scalar], choices: list[Scalar]) -> None:
        """The values of choices: the unlikely ones are computed if a lane wants one."""
        holds = [self._any(self.name(x)) for x in tests]
        while len(holds) > 1:
            name = self._fresh()
            self.lines.append(f"  {name} = or i1 {holds.pop()}, {holds.pop()}")
            holds.append(name)
        self.lines += [f"  br i1 {holds[0]}, label %rare, label %join", "rare:"]
        before = dict(self.names)
        chosen = []
        for node in choices:
            self._compute(ordered(iter((node.args[1],))))
            args = [self.name(x) for x in node.args]
            chosen.append(emit(node, args, self.lanes, self._fresh, self.lines, self.contract))
        self.names = before  # what is computed here is not known after it
        self.lines += ["  br label %join", "join:"]
        for k, (node, value) in enumerate(zip(choices, chosen, strict=True)):
            type_ = llvm_type(node.dtype, self.lanes)
            usual = self.name(node.args[2])
            name = f"%chosen{k}"
            self.lines.append(f"  {name} = phi {type_} [ {usual}, %entry ], [ {value}, %rare ]")
            self.names[id(node)] = name

    def _any(self, name: str) -> str:
        if self.lanes == 1:
            return name
        out, type_ = self._fresh(), f"<{self.lanes} x i1>"
        self.lines.append(
            f"  {out} = call i1 @llvm.vector.reduce.or.v{self.lanes}i1({type_} {name})"
        )
        return out
