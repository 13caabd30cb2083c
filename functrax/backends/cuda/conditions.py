"""Kernels that set the conditions of CUDA graphs: PTX, as no other kernel calls a function.

A conditional node of a graph decides by a number, its *condition*, which a kernel sets by calling
``cudaGraphSetConditional``.  Text declares the function and the driver defines it, so nothing is
linked (docs/decisions/0066).  The number is what a program has computed into a *cell*: whether a
loop goes on, or the number of a branch, which is kept within the branches there are.

Start at :func:`setting_kernel`.
"""

from __future__ import annotations

from typing import Final

#: The types of a cell, in the order in which C++ numbers them: by the bytes that they take, and
#: the one without a sign first.
_TYPES: Final = tuple([f"{sign}{bits}" for bits in (8, 16, 32, 64) for sign in "us"])

_TEXT: Final = """.version 6.3
.target sm_75
.address_size 64

.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
"""

_KERNEL: Final = """
.visible .entry {name}(.param .u64 handle, .param .u64 cell, .param .u64 last)
{{
	.reg .b32 %r<2>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [handle];
	ld.param.u64 %rd2, [cell];
	ld.param.u64 %rd3, [last];
	ld.global.{type} %rd4, [%rd2];
{least}	min.{wide} %rd4, %rd4, %rd3;
	cvt.u32.u64 %r1, %rd4;
	{{
	.param .b64 given_handle;
	.param .b32 given_value;
	st.param.b64 [given_handle], %rd1;
	st.param.b32 [given_value], %r1;
	call.uni cudaGraphSetConditional, (given_handle, given_value);
	}}
	ret;
}}
"""


def _name(of: str) -> str:
    return f"functrax_set_condition_{of}"


def _kernel(of: str) -> str:
    least = "\tmax.s64 %rd4, %rd4, 0;\n" if of.startswith("s") else ""
    return _KERNEL.format(name=_name(of), type=of, least=least, wide=f"{of[0]}64")


#: The names of all of them, in that order, and their module.
SETTING_KERNELS: Final = tuple([_name(x) for x in _TYPES])
SETTING_PTX: Final = _TEXT + "".join([_kernel(x) for x in _TYPES])


def setting_kernel(nbytes: int, unsigned: bool) -> int:
    """The number of the kernel for a cell of so many bytes.

    The kernel's parameters are the condition's handle, the cell's address, and the largest number
    that the condition may be.
    """
    return 2 * (nbytes.bit_length() - 1) + (not unsigned)
