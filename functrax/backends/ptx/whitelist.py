"""What LLVM's back end for GPUs is known to take.

An operation that it cannot lower ends the process without an exception; so a text is looked through
before LLVM sees it.  A slow test tries each of these operations in a process of its own.

Start at :func:`check`.
"""

from __future__ import annotations

import re
from typing import Final

from functrax.core.errors.typed import VerificationError

#: Instructions of LLVM IR.
INSTRUCTIONS: Final = frozenset(
    [
        *("add", "sub", "mul", "sdiv", "udiv", "srem", "urem", "icmp"),
        *("and", "or", "xor", "shl", "lshr", "ashr"),
        *("fadd", "fsub", "fmul", "fdiv", "fneg", "fcmp"),
        *("select", "phi", "br", "ret", "call", "load", "store", "atomicrmw"),
        *("getelementptr", "addrspacecast", "bitcast", "ptrtoint"),
        *("trunc", "zext", "sext", "fptrunc", "fpext", "fptosi", "fptoui", "sitofp", "uitofp"),
        *("extractelement", "insertelement", "shufflevector", "extractvalue", "insertvalue"),
    ]
)
_REGISTERS: Final = "llvm.nvvm.read.ptx.sreg"
#: Intrinsics, without the types at the ends of their names.
INTRINSICS: Final = frozenset(
    [
        *("llvm.sqrt", "llvm.fma", "llvm.floor", "llvm.ceil", "llvm.trunc", "llvm.roundeven"),
        *("llvm.copysign", "llvm.fabs", "llvm.arithmetic.fence"),
        *("llvm.minimum", "llvm.maximum"),
        *(f"llvm.nvvm.{name}.approx.ftz.f" for name in ("ex2", "lg2", "rcp", "rsqrt")),
        *(
            "llvm.abs",
            "llvm.smin",
            "llvm.smax",
            "llvm.umin",
            "llvm.umax",
            "llvm.ctpop",
            "llvm.ctlz",
            "llvm.cttz",
        ),
        *("llvm.nvvm.barrier0", "llvm.nvvm.bar.warp.sync", "llvm.nvvm.vote.ballot.sync"),
        *(f"llvm.nvvm.shfl.sync.{kind}" for kind in ("bfly", "idx", "up")),
        *(f"{_REGISTERS}.{name}.x" for name in ("tid", "ntid", "ctaid")),
    ]
)
_INSTRUCTION: Final = re.compile(r"^  (?:%[\w.]+ = )?(\w+)", re.MULTILINE)
_INTRINSIC: Final = re.compile(r"@(llvm\.[\w.]+?)(?:\.(?:v\d+)?[if]\d+)*\(")


def check(text: str) -> None:
    """Look through a module.

    Raises:
      VerificationError: an operation that is not known to be taken.
    """
    unknown = [x for x in _INSTRUCTION.findall(text) if x not in INSTRUCTIONS]
    unknown += [x for x in _INTRINSIC.findall(text) if x not in INTRINSICS]
    if unknown:
        raise VerificationError(
            "a kernel of a GPU: an operation that LLVM is not known to take there",
            got=", ".join(sorted(set(unknown))),
            fix="report this: the compiler wrote a kernel that it cannot emit",
        )
