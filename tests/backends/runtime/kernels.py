"""Kernels for the tests of the runtime, from LLVM IR text to an address, through llvmlite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from functrax.backends.executables.program import Launch

llvm = pytest.importorskip("llvmlite.binding")

_HEAD = """
define void @{name}(ptr %buffers, ptr %params, i64 %begin, i64 %end) {{
entry:
{loads}
  %empty = icmp sge i64 %begin, %end
  br i1 %empty, label %done, label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
{body}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


def _pointers(count: int) -> str:
    lines = []
    for k in range(count):
        lines.append(f"  %pp{k} = getelementptr ptr, ptr %buffers, i64 {k}")
        lines.append(f"  %p{k} = load ptr, ptr %pp{k}")
    return "\n".join(lines)


def _element(k: int, kind: str) -> str:
    return f"  %a{k} = getelementptr {kind}, ptr %p{k}, i64 %i\n  %x{k} = load {kind}, ptr %a{k}\n"


def _store(k: int, kind: str, value: str) -> str:
    return f"  %a{k} = getelementptr {kind}, ptr %p{k}, i64 %i\n  store {kind} {value}, ptr %a{k}\n"


_TEXTS = {
    # out[i] = 2 x[i] + 1
    "affine": (
        2,
        _element(0, "float")
        + "  %y = fmul float %x0, 2.0\n  %z = fadd float %y, 1.0\n"
        + _store(1, "float", "%z"),
    ),
    # out[i] = x[i] + y[i]
    "add": (
        3,
        _element(0, "float")
        + _element(1, "float")
        + "  %z = fadd float %x0, %x1\n"
        + _store(2, "float", "%z"),
    ),
    # n < 10, of an i32 scalar
    "below_ten": (
        2,
        _element(0, "i32")
        + "  %c = icmp slt i32 %x0, 10\n  %z = zext i1 %c to i8\n"
        + _store(1, "i8", "%z"),
    ),
    # n + 1
    "increment": (2, _element(0, "i32") + "  %z = add i32 %x0, 1\n" + _store(1, "i32", "%z")),
    # always true
    "forever": (1, _store(0, "i8", "1")),
    # out[i] = where the range begins in which i is
    "begins": (1, _store(0, "i64", "%begin")),
    "begins_of_reader": (2, _store(1, "i64", "%begin")),
    # out[i] = params[0] - i
    "count_down": (
        1,
        "  %n = load i64, ptr %params\n  %z = sub i64 %n, %i\n" + _store(0, "i64", "%z"),
    ),
}


class Kernels:
    """Machine code of the kernels above; ``code`` keeps it alive."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        text = "".join(
            _HEAD.format(name=name, loads=_pointers(count), body=body)
            for name, (count, body) in _TEXTS.items()
        )
        module = llvm.parse_assembly(text)
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
        self.code = llvm.create_mcjit_compiler(module, machine)
        self.code.finalize_object()

    def launch(
        self, name: str, inputs: tuple[int, ...], outputs: tuple[int, ...], **options: Any
    ) -> Launch:
        """An instruction that runs one of the kernels."""
        return Launch(self.code.get_function_address(name), name, inputs, outputs, **options)


_kernels: list[Kernels] = []


def kernels() -> Kernels:
    """The kernels, compiled once."""
    if not _kernels:
        _kernels.append(Kernels())
    return _kernels[0]


F32 = np.dtype(np.float32)
I32 = np.dtype(np.int32)
