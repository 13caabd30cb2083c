"""What LLVM's back end for GPUs is known to take: each operation is tried, and no other passes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from functrax.backends.ptx.whitelist import INSTRUCTIONS, INTRINSICS, check
from functrax.core.errors.typed import VerificationError

INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("float", "double")
#: Names of types in the names of intrinsics.
SUFFIX = {"float": "f32", "double": "f64"}

#: Instructions by their name: lines with the results ``%r``, of operands ``%x``, ``%y`` of a type.
LINES: dict[str, list[tuple[str, str]]] = {
    **{
        op: [(t, f"%r = {op} {t} %x, %y") for t in INTEGERS]
        for op in [
            "add",
            "sub",
            "mul",
            "sdiv",
            "udiv",
            "srem",
            "urem",
            "and",
            "or",
            "xor",
            "shl",
            "lshr",
            "ashr",
        ]
    },
    **{
        op: [(t, f"%r = {op} {t} %x, %y") for t in FLOATS]
        for op in ["fadd", "fsub", "fmul", "fdiv"]
    },
    "fneg": [(t, f"%r = fneg {t} %x") for t in FLOATS],
    "icmp": [(t, f"%c = icmp slt {t} %x, %y\n  %r = zext i1 %c to i64") for t in INTEGERS],
    "fcmp": [(t, f"%c = fcmp ult {t} %x, %y\n  %r = zext i1 %c to i64") for t in FLOATS],
    "zext": [(t, f"%r = zext {t} %x to i64") for t in INTEGERS[:3]],
    "sext": [(t, f"%r = sext {t} %x to i64") for t in INTEGERS[:3]],
    "trunc": [(t, f"%r = trunc {t} %x to i8") for t in INTEGERS[1:]],
    "fpext": [("float", "%r = fpext float %x to double"), ("half", "%r = fpext half %x to float")],
    "fptrunc": [
        ("double", "%r = fptrunc double %x to float"),
        ("float", "%r = fptrunc float %x to half"),
    ],
    "ptrtoint": [
        ("i64", "%g = addrspacecast ptr addrspace(1) %p to ptr\n  %r = ptrtoint ptr %g to i64"),
    ],
    "bitcast": [
        ("float", "%r = bitcast float %x to i32"),
        ("i64", "%r = bitcast i64 %x to double"),
    ],
    **{
        op: [(t, f"%r = {op} {t} %x to {n}") for t in FLOATS for n in INTEGERS]
        for op in ("fptosi", "fptoui")
    },
    **{
        op: [(n, f"%r = {op} {n} %x to {t}") for t in FLOATS for n in INTEGERS]
        for op in ("sitofp", "uitofp")
    },
    "select": [
        (t, f"%c = icmp ne ptr addrspace(1) %p, null\n  %r = select i1 %c, {t} %x, {t} %y")
        for t in (*INTEGERS, *FLOATS)
    ],
    "atomicrmw": [
        (t, f"%r = atomicrmw {how} ptr addrspace(1) %p, {t} %x monotonic")
        for t in INTEGERS[2:]
        for how in ("add", "and", "or", "xor", "max", "min", "umax", "umin")
    ],
    "insertelement": [("float", "%r = insertelement <2 x float> poison, float %x, i64 0")],
}
#: What any kernel has, so that it needs no module of its own.
EVERYWHERE = {"load", "store", "ret", "br", "getelementptr", "addrspacecast", "call", "phi"}
#: What takes values apart and puts them together.
OF_PAIRS = {"extractelement", "shufflevector", "extractvalue", "insertvalue"}
#: Of intrinsics that have more than one.
_OPERANDS = {"llvm.fma": 3, "llvm.copysign": 2}


def intrinsic(name: str) -> list[tuple[str, str]]:
    """Lines that call an intrinsic, for each of its types."""
    if name.startswith("llvm.nvvm.read"):
        return [("i32", f"%r = call i32 @{name}()")]
    if name == "llvm.nvvm.vote.ballot.sync":
        line = f"%c = icmp ne i32 %x, %y\n  %r = call i32 @{name}(i32 -1, i1 %c)"
        return [("i32", line)]
    if name == "llvm.nvvm.bar.warp.sync":
        return [("i32", f"call void @{name}(i32 -1)\n  %r = add i32 %x, %y")]
    if name == "llvm.nvvm.barrier0":
        return [("i32", f"call void @{name}()\n  %r = add i32 %x, %y")]
    if name.startswith("llvm.nvvm.shfl"):
        return [("i32", f"%r = call i32 @{name}.i32(i32 -1, i32 %x, i32 1, i32 31)")]
    if name in ("llvm.smin", "llvm.smax", "llvm.umin", "llvm.umax"):
        return [(t, f"%r = call {t} @{name}.{t}({t} %x, {t} %y)") for t in INTEGERS]
    if name in ("llvm.abs", "llvm.ctlz", "llvm.cttz"):
        return [(t, f"%r = call {t} @{name}.{t}({t} %x, i1 false)") for t in INTEGERS]
    if name == "llvm.ctpop":
        return [(t, f"%r = call {t} @{name}.{t}({t} %x)") for t in INTEGERS]
    found = []
    for t in FLOATS:
        operands = [f"{t} %x", f"{t} %y", f"{t} %y"][: _OPERANDS.get(name, 1)]
        found.append((t, f"%r = call {t} @{name}.{SUFFIX[t]}({', '.join(operands)})"))
    return found


def module(lines: list[tuple[str, str]]) -> str:
    """A module with a kernel for each of some lines."""
    kernels = []
    for n, (type_, line) in enumerate(lines):
        last = line.splitlines()[-1]
        result = {"icmp": "i64", "fcmp": "i64", "zext": "i64", "sext": "i64", "trunc": "i8"}
        kind = last.split()[2]
        of = result.get(kind, last.rpartition(" to ")[2] if " to " in last else type_)
        of = "<2 x float>" if kind == "insertelement" else of
        kernels.append(
            f"define ptx_kernel void @k{n}(ptr addrspace(1) %p) {{\nentry:\n"
            f"  %x = load {type_}, ptr addrspace(1) %p\n"
            f"  %q = getelementptr {type_}, ptr addrspace(1) %p, i64 1\n"
            f"  %y = load {type_}, ptr addrspace(1) %q\n"
            f"  {line}\n"
            f"  store {of} %r, ptr addrspace(1) %p\n  ret void\n}}"
        )
    return 'target triple = "nvptx64-nvidia-cuda"\n' + "\n".join(kernels) + "\n"


COMPILE = """
import sys
from functrax.backends.ptx.assemble import ptx
from functrax.backends.targets.nvptx import CAPABILITIES, target_of
text = sys.stdin.read()
for capability in CAPABILITIES:
    assert '.entry k0' in ptx(text, target_of(capability))
"""


def test_all_are_tried() -> None:
    assert LINES.keys() | EVERYWHERE | OF_PAIRS == INSTRUCTIONS


@pytest.mark.slow
@pytest.mark.parametrize("name", [*sorted(LINES), *sorted(INTRINSICS)])
def test_each_operation_is_taken(name: str) -> None:
    text = module(LINES[name] if name in LINES else intrinsic(name))
    done = subprocess.run(
        [sys.executable, "-c", COMPILE], input=text, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    "line",
    [
        "  %r = call float @llvm.sin.f32(float %x)",
        "  %r = frem float %x, %y",
        "  %r = call <2 x float> @llvm.exp.v2f32(<2 x float> %x)",
        "  %r = call float @llvm.nvvm.sin.approx.f(float %x)",
    ],
)
def test_another_operation_is_an_error_that_names_it(line: str) -> None:
    check(module(LINES["fadd"]))
    with pytest.raises(VerificationError) as info:
        check(f"define void @f() {{\n{line}\n}}\n")
    name = line.split("@")[-1].partition("(")[0] if "@" in line else "frem"
    assert name.removesuffix(".f32").removesuffix(".v2f32") in str(info.value)
