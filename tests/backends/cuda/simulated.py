"""Helpers: PTX text around a body, launches with NumPy arrays, and LLVM IR compiled to PTX."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

import numpy as np

from functrax.backends.cuda.simulator.launch import launch
from functrax.backends.cuda.simulator.memory import DeviceMemory
from functrax.backends.cuda.simulator.module import Module

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"
REGISTERS = """
    .reg .pred %p<16>;
    .reg .b16 %h<16>;
    .reg .b32 %r<64>;
    .reg .f32 %f<32>;
    .reg .b64 %rd<48>;
    .reg .f64 %fd<16>;
"""


def kernel_text(body, params=("x", "y"), shared="", bound=""):
    """A kernel ``k`` whose parameters are addresses; ``%rd40…`` hold them, in order."""
    declared = ",\n".join(f"    .param .u64 {p}" for p in params)
    loads = "\n".join(f"    ld.param.u64 %rd{40 + k}, [{p}];" for k, p in enumerate(params))
    return (
        f"{HEADER}{shared}\n.visible .entry k(\n{declared}\n)\n{bound}\n{{{REGISTERS}{loads}\n"
        f"{body}\n    ret;\n}}\n"
    )


def keep(text):
    """Keeps a text for the test that assembles all that the others run."""
    folder = os.environ.get("FUNCTRAX_TEST_PTX")
    if folder:
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        (Path(folder) / f"{name}.ptx").write_text(text)


def run(text, *arrays, grid=1, block=32, name="k", **options):
    """Launches a kernel with arrays as arguments; what they hold afterwards, and the statistics.

    A pair ``(count, dtype)`` is an array that nobody wrote; a number is passed as it is.
    """
    memory = DeviceMemory()
    module = Module(text)
    keep(text)
    places, kept = [], []
    for array in arrays:
        if isinstance(array, (int, float)):
            places.append(array)
            continue
        if isinstance(array, tuple):
            count, dtype = array
            nbytes = count * np.dtype(dtype).itemsize
            places.append(memory.allocate(nbytes))
        else:
            nbytes, dtype = array.nbytes, array.dtype
            places.append(memory.allocate(nbytes))
            memory.write(places[-1], array)
        kept.append((places[-1], nbytes, dtype))
    grid = grid if isinstance(grid, tuple) else (grid, 1, 1)
    block = block if isinstance(block, tuple) else (block, 1, 1)
    statistics = launch(module.kernels[name], grid, block, places, memory, **options)
    results = [memory.read(p, n, written=False).view(d) for p, n, d in kept]
    return results, statistics


def registers_of(dtype):
    """The prefix of registers that hold a dtype, and how it is loaded."""
    size = np.dtype(dtype).itemsize
    if np.dtype(dtype).kind == "f" and size > 2:
        return {4: "%f", 8: "%fd"}[size], f"f{8 * size}"
    return {1: "%h", 2: "%h", 4: "%r", 8: "%rd"}[size], f"b{8 * size}"


def each_text(body, dtypes, out, count):
    """A kernel that runs instructions in a thread for each element.

    In ``body``, ``<a>``, ``<b>``, … are the operands and ``<d>`` is the result.
    """
    lines = ["mov.u32 %r60, %tid.x;", "mov.u32 %r61, %ctaid.x;"]
    lines += ["mad.lo.u32 %r60, %r61, 64, %r60;", f"setp.ge.u32 %p15, %r60, {count};"]
    lines.append("@%p15 exit;")
    operands = {}
    for k, dtype in enumerate([*dtypes, out]):
        size = np.dtype(dtype).itemsize
        prefix, kind = registers_of(dtype)
        lines.append(f"mad.wide.u32 %rd{40 + k}, %r60, {size}, %rd{40 + k};")
        name = "abcdefgh"[k] if k < len(dtypes) else "d"
        operands[name] = f"{prefix}{k + 1 if name != 'd' else 9}"
        if name != "d":
            lines.append(f"ld.global.{kind} {operands[name]}, [%rd{40 + k}];")
    for name, register in operands.items():
        body = body.replace(f"<{name}>", register)
    lines.append(body)
    lines.append(f"st.global.{registers_of(out)[1]} [%rd{40 + len(dtypes)}], {operands['d']};")
    return kernel_text("\n".join(lines), [f"p{k}" for k in range(len(dtypes) + 1)])


def each(body, *arrays, out):
    """Runs instructions on each element of arrays."""
    arrays = [np.ascontiguousarray(x) for x in np.broadcast_arrays(*arrays)]
    count = len(arrays[0])
    text = each_text(body, [x.dtype for x in arrays], out, count)
    results, _ = run(text, *arrays, (count, out), grid=-(-count // 64), block=64)
    return results[-1]


#: Reads the word ``%r1`` of thread ``%r0``; its result goes to ``%rd2``.
INDEX = """
    mov.u32 %r0, %tid.x;
    mov.u32 %r10, %ctaid.x;
    mov.u32 %r11, %ntid.x;
    mad.lo.u32 %r9, %r10, %r11, %r0;
    mul.wide.u32 %rd0, %r9, 4;
    add.s64 %rd1, %rd40, %rd0;
    add.s64 %rd2, %rd41, %rd0;
    ld.global.u32 %r1, [%rd1];
"""
STORE = "\n    st.global.u32 [%rd2], %r2;"


def words(body, x, *, block=32, grid=1, shared="", **options):
    """Runs a body that makes ``%r2`` of the word ``%r1``, of thread ``%r0``."""
    text = kernel_text(INDEX + body + STORE, shared=shared)
    (_, y), _ = run(text, x, (len(x), "u4"), block=block, grid=grid, **options)
    return y


@functools.cache
def llvm():
    import llvmlite.binding as binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding


TRIPLE = "nvptx64-nvidia-cuda"


@functools.cache
def compiled(ir, cpu):
    """LLVM IR as PTX.  An operation that LLVM cannot lower ends the process."""
    binding = llvm()
    machine = binding.Target.from_triple(TRIPLE).create_target_machine(cpu=cpu, opt=3)
    module = binding.parse_assembly(f'target triple = "{TRIPLE}"\n{ir}')
    module.data_layout = str(machine.target_data)
    return machine.emit_assembly(module)
