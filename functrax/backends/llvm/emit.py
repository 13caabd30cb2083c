"""From the tree of a kernel to LLVM IR.

The text is written already vectorised, so LLVM needs no passes over it.  A kernel is a function

    void kernel(void** buffers, const int64_t* numbers, int64_t begin, int64_t end)

that does the units of work from ``begin`` to ``end``.  What depends on sizes (extents, strides,
offsets) is read from ``numbers``: kernels that differ in those only have the same text, and are
compiled once.  In front of the buffers stands whom long loops ask whether to go on.

This file writes the frame.  Its parts, each of which uses those before it: ``writer`` has the lines
and what is known; ``addresses``, ``tile_rows`` and ``loads`` the reads; ``nodes``,
``lane_reductions`` and ``function_calls`` the computations; ``stores`` the writes; ``tile_calls``
the sums of contractions; ``statements`` the loops.

Start at :func:`emit_kernel`.
"""

from __future__ import annotations

from functrax.backends.llvm.addresses import Memory, memory_type
from functrax.backends.llvm.instructions import FMA, REMAINDER
from functrax.backends.llvm.loads import Loads
from functrax.backends.llvm.nodes import Nodes
from functrax.backends.llvm.statements import Statements
from functrax.backends.llvm.stores import Stores
from functrax.backends.llvm.tile_rows import Tiles
from functrax.backends.llvm.writer import NAME, Writer
from functrax.backends.loops.tree import Function
from functrax.backends.targets import target
from functrax.core.records import record


@record
class Emitted:
    """A kernel as text.

    Args:
      text: LLVM IR of a module with one function, ``NAME``.
      numbers: the run-time arguments.
      calls: pairs ``(n, text)``: the argument ``n`` is the address of the function of a module.
    """

    text: str
    numbers: tuple[int, ...]
    calls: tuple[tuple[int, str], ...] = ()


def emit_kernel(tree: Function, contract: bool = True) -> Emitted:
    """The LLVM IR of a kernel.

    Args:
      tree: the kernel.
      contract: whether operations may be rounded otherwise than one after the other.
    """
    w = Writer(tree)
    memory = Memory(w)
    tiles = Tiles(w, memory)
    loads = Loads(w, memory, tiles)
    nodes = Nodes(w, loads, contract)
    stores = Stores(w, memory, loads, nodes)
    statements = Statements(w, memory, tiles, nodes, stores)
    for n, operand in enumerate(tree.operands):
        if operand.scratch:
            size = w.number(operand.size, ("scratch", n))
            element = memory_type(operand.dtype)
            w.header.append(f"  %b{n} = alloca {element}, i64 {size}, align 64")
            continue
        w.header.append(f"  %bp{n} = getelementptr ptr, ptr %buffers, i64 {n}")
        w.header.append(f"  %b{n} = load ptr, ptr %bp{n}")
    statements.write(tree.body)
    body = w.levels[0].lines
    if statements.on_unit:
        unit = target().dialect.matrix_unit()
        w.header += unit.configured()
        body += unit.released()
    text = "\n".join([*w.header, *body])
    called = "\n".join(nodes.calls.texts.values())
    fence = ["  fence seq_cst"] if stores.streams else []
    parts = [
        definitions(text + called),
        called,
        f"define void @{NAME}(ptr %buffers, ptr %numbers, i64 %begin, i64 %end) nounwind {{",
        "entry:",
        text,
        *fence,
        "  ret void",
        *(["stopped:", *fence, "  ret void"] if w.looks else []),
        "}",
        *(["!0 = !{i32 1}"] if stores.streams else []),
        *(['!1 = !{!"branch_weights", i32 1, i32 100000}'] if w.looks else []),
    ]
    lines = "\n".join(p for p in parts if p) + "\n"
    return Emitted(lines, tuple(w.numbers), tuple(w.functions.items()))


def definitions(text: str) -> str:
    """The functions of exact arithmetic that a text calls."""
    if FMA not in text and REMAINDER not in text:
        return ""
    from functrax.backends.llvm.functions.exact import definitions  # which few programs need

    return definitions(text)
