"""Scalar expressions as machine code: ``compile_scalars`` makes a function on NumPy arrays.

The kernel is one loop over elements, ``lanes`` at a time; operations of ``MATH`` are expanded with
``expand``, and the result is what the compiler's kernels compute, without fusion around it.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from functrax.backends.llvm import instructions
from functrax.backends.llvm.functions.exact import definitions
from functrax.backends.llvm.instructions import emit
from functrax.backends.llvm.templates import constant, llvm_type
from functrax.backends.targets.x86_64 import KINDS
from functrax.core.scalars.scalar import Builder, Scalar
from tests.backends import machines

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


def write_for(cpu: str, patch: pytest.MonkeyPatch) -> None:
    """Let texts be for a processor, as LLVM calls it, until ``patch`` is undone."""
    flags = KINDS.get(cpu, ())
    machines.write_for(patch, machines.processor("x86_64" if flags else "aarch64", *flags))
    patch.setattr(instructions, "_TEMPLATES", {})


def function_name(text: str) -> str:
    """The name of the function that a module defines for others."""
    found = re.search(r"^define (?!internal)[^@]*@([\w.]+)\(", text, re.MULTILINE)
    assert found is not None
    return found[1]


def load(builder: Builder, dtype: Any, place: int = 0) -> Scalar:
    """The element of the array at a place among the operands."""
    return builder.node("load", np.dtype(dtype), (), place)


def _memory_type(dtype: np.dtype[Any], lanes: int) -> str:
    return llvm_type(np.dtype(np.uint8) if dtype == np.bool_ else dtype, lanes)


def _body(outs: Sequence[Scalar], lanes: int) -> list[str]:
    lines: list[str] = []
    names: dict[int, str] = {}
    count = iter(range(10**9))

    def fresh() -> str:
        return f"%t{next(count)}"

    def visit(node: Scalar) -> str:
        if id(node) in names:
            return names[id(node)]
        if node.op == "const":
            name = constant(node.attr, node.dtype, lanes)
        elif node.op == "load":
            name = _load(node, lanes, fresh, lines)
        else:
            operands = [visit(a) for a in node.args]
            name = emit(node, operands, lanes, fresh, lines)
        names[id(node)] = name
        return name

    for k, out in enumerate(outs):
        name, type = visit(out), llvm_type(out.dtype, lanes)
        memory = _memory_type(out.dtype, lanes)
        if out.dtype == np.bool_:
            wide = fresh()
            lines.append(f"  {wide} = zext {type} {name} to {memory}")
            name = wide
        place = fresh()
        lines.append(f"  {place} = getelementptr {_memory_type(out.dtype, 1)}, ptr %out{k}, i64 %i")
        lines.append(f"  store {memory} {name}, ptr {place}, align 1")
    return lines


def _load(node: Scalar, lanes: int, fresh: Callable[[], str], lines: list[str]) -> str:
    memory = _memory_type(node.dtype, lanes)
    place, value = fresh(), fresh()
    element = _memory_type(node.dtype, 1)
    lines.append(f"  {place} = getelementptr {element}, ptr %in{node.attr}, i64 %i")
    lines.append(f"  {value} = load {memory}, ptr {place}, align 1")
    if node.dtype != np.bool_:
        return value
    name = fresh()
    zero = constant(0, np.dtype(np.uint8), lanes)
    lines.append(f"  {name} = icmp ne {memory} {value}, {zero}")
    return name


def module_text(outs: Sequence[Scalar], operands: int, lanes: int, name: str = "f") -> str:
    """The kernel ``void f(ptr in.., ptr out.., i64 n)`` as LLVM IR."""
    pointers = [f"ptr noalias %in{k}" for k in range(operands)]
    pointers += [f"ptr noalias %out{k}" for k in range(len(outs))]
    body = "\n".join(_body(outs, lanes))
    function = (
        f"define void @{name}({', '.join(pointers)}, i64 %n) {{\n"
        "entry:\n  br label %loop\n"
        "loop:\n  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n"
        f"{body}\n"
        f"  %next = add i64 %i, {lanes}\n"
        "  %more = icmp slt i64 %next, %n\n"
        "  br i1 %more, label %loop, label %exit\n"
        "exit:\n  ret void\n}\n"
    )
    return function + definitions(function)


def machine(cpu: str | None = None, features: str | None = None) -> Any:
    """The machine that code is made for; without a name this one."""
    if cpu is None:
        cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features or "", opt=2, jit=True)


class Kernel:
    """A compiled expression: call it with arrays of one size, a multiple of the lanes or not."""

    def __init__(
        self,
        outs: Sequence[Scalar],
        operands: Sequence[Any],
        lanes: int = 16,
    ) -> None:
        self.outs = [o.dtype for o in outs]
        self.operands = [np.dtype(d) for d in operands]
        self.lanes = lanes
        self.text = module_text(outs, len(operands), lanes)
        module = llvm.parse_assembly(self.text)
        module.verify()
        self.engine = llvm.create_mcjit_compiler(module, machine())
        self.engine.finalize_object()
        pointers = [ctypes.c_void_p] * (len(operands) + len(outs))
        signature = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64)
        self.address = signature(self.engine.get_function_address("f"))

    def run(self, *arrays: np.ndarray[Any, Any]) -> None:
        """Runs on arrays (operands, then results) whose size is a multiple of the lanes."""
        self.address(*(a.ctypes.data for a in arrays), arrays[0].size)

    def __call__(self, *operands: Any) -> Any:
        size = np.size(operands[0])
        padded = -(-max(size, 1) // self.lanes) * self.lanes
        arrays = []
        for value, dtype in zip(operands, self.operands):
            array = np.ones(padded, dtype)
            array[:size] = value
            arrays.append(array)
        outs = [np.empty(padded, d) for d in self.outs]
        self.run(*arrays, *outs)
        results = [o[:size] for o in outs]
        return results[0] if len(results) == 1 else results


def compile_scalars(
    expression: Callable[..., Scalar], dtypes: Sequence[Any], lanes: int = 16
) -> Kernel:
    """Compiles ``expression(builder, *operands)`` of operands with these dtypes."""
    builder = Builder()
    operands = [load(builder, d, k) for k, d in enumerate(dtypes)]
    return Kernel([expression(builder, *operands)], dtypes, lanes)
