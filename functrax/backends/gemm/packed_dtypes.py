"""Sums of products of narrow numbers, several of which fill a word of 32 bits.

Processors have instructions that multiply neighbours of two words and add all products to a sum of
32 bits: two pairs of bfloat16 or int16, four of int8.  What enters is a contraction whose sides are
narrow numbers in a wider type (``convert`` is the last thing done to both).  What leaves is the
same over *words*: one of its summed dims, shorter by as many numbers as a word has, and sides that
are words, put together by shifts wherever those are packed.

A side that has its summed dim contiguous in memory is words as it is.  It is read through an
operand of its own, the *alias* of the array.  What a word has beyond the end of the dim is zero.

=============  ==========================  ====================================
kind           numbers in a word           what multiplies
=============  ==========================  ====================================
``bf16``       2 bfloat16                  vectors of words
``i16``        2 of int8, uint8 or int16   vectors of words
``tile bf16``  2 bfloat16                  a matrix unit, 16 rows of 16 words
``tile i8``    4 of int8 or uint8          a matrix unit, 16 rows of 16 words
=============  ==========================  ====================================

Which of them a processor has is in its target, and what they are called there in its dialect.

Sums of integers are exact modulo 2**32, as they are in any order.  Products of bfloat16 are exact;
these instructions add them up in float32, rounding to the nearest, but take operands below the
normal numbers (1.2e-38) as zero, and give zero where a sum is that small.

Start at :func:`over_words`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from functrax.backends.gemm.replaced_dims import Replaced
from functrax.backends.gemm.sides import stride
from functrax.backends.kernels.accesses import dims_of
from functrax.backends.kernels.indices import Indices
from functrax.backends.kernels.ir import Kernel, LoopStage, Operand
from functrax.backends.targets import Target
from functrax.core.index.expr import Dim, add_terms
from functrax.core.records import record, replace
from functrax.core.scalars.scalar import Builder, Scalar
from functrax.core.types import dtypes

WORD: Final = np.dtype(np.uint32)
_INT8, _UINT8, _INT16 = (np.dtype(x) for x in (np.int8, np.uint8, np.int16))
_BYTES: Final = frozenset({_INT8, _UINT8})
#: What is not there of a last word may be so many times what is.
_FILLED: Final = 1.5


@record
class Dot:
    """A kind of instruction.

    Args:
      kind: its name.
      takes: dtypes that its operands may have.
      held: how a word holds them; None as they are.
      total: the kinds of dtypes in which it adds up.
      count: numbers in a word.
      multiple: how many words it goes on by.
    """

    kind: str
    takes: frozenset[np.dtype[Any]]
    held: np.dtype[Any] | None
    total: str
    count: int
    multiple: int


DOTS: Final = {
    dot.kind: dot
    for dot in (
        Dot("bf16", frozenset({dtypes.bfloat16}), None, "f", 2, 1),
        Dot("i16", _BYTES | {_INT16}, _INT16, "iu", 2, 1),
        Dot("tile bf16", frozenset({dtypes.bfloat16}), None, "f", 2, 16),
        Dot("tile i8", _BYTES, None, "iu", 4, 16),
    )
}


def over_words(kernel: Kernel, target: Target) -> list[Kernel]:
    """The forms of a contraction without a schedule over words, for the instructions of a target.

    The product is a node ``dot`` of two words, whose attr is the kind, then the dtypes of the
    numbers in the words of both sides.  For a matrix unit the dim of words is the innermost one.
    """
    forms = [_in_words(kernel, DOTS[kind]) for kind in sorted(target.dots)]
    return [form for form in forms if form is not None]


def _in_words(kernel: Kernel, dot: Dot) -> Kernel | None:
    """A contraction over words for an instruction; None if that does not compute it."""
    (reduction,) = kernel.stages[0].reductions
    total = reduction.how.carries[0]
    (product,) = reduction.values
    b = kernel.builder
    sides = [narrow(b, x) for x in product.args]
    if total.itemsize != 4 or total.kind not in dot.total:
        return None
    if any(x is None or x.dtype not in dot.takes for x in sides):
        return None
    found = [x for x in sides if x is not None]
    dim = _dim(kernel, found, dot)
    if dim is None:
        return None
    words = -(-kernel.extents[dim] // (dot.count * dot.multiple)) * dot.multiple
    operands = list(kernel.operands)
    extents = (*kernel.extents[:dim], words, *kernel.extents[dim + 1 :])
    writer = _Writer(kernel, dot, dim, extents, operands)
    args = tuple(map(writer.word, found))
    held = [(dot.held or x.dtype).name for x in found]
    node = b.node("dot", total, args, (dot.kind, *held))
    stage = LoopStage([replace(reduction, values=(node,))])
    inner = kernel.inner
    if dot.multiple > 1:
        inner = (*(d for d in inner if d != dim), dim)
    return replace(kernel, operands=operands, extents=extents, inner=inner, stages=[stage])


def narrow(b: Builder, value: Scalar) -> Scalar | None:
    """The narrow number that a side is a conversion of, if it is one."""
    if value.op == "convert":
        return value.args[0]
    if value.op == "select":
        which, *choices = value.args
        found = [narrow(b, x) for x in choices]
        known = [x for x in found if x is not None]
        for k, x in enumerate(choices):
            if len(known) == 1 and found[k] is None and x.op == "const" and x.attr == 0:
                found[k] = b.const(0, known[0].dtype)
        first, second = found
        if first is not None and second is not None and first.dtype == second.dtype:
            return b.select(which, first, second)
    return None


def _dim(kernel: Kernel, sides: list[Scalar], dot: Dot) -> int | None:
    """The summed dim whose neighbours are put into words: one that fills them, and is contiguous
    where it can be.
    """
    best, least = None, (_FILLED, 0, 0)
    for d in kernel.inner:
        extent = kernel.extents[d]
        step = dot.count * dot.multiple
        filled = -(-extent // step) * step / extent
        if not all(d in dims_of(x) for x in sides):
            continue
        key = (round(filled, 1), -sum(stride(x, d) == 1 for x in sides), -extent)
        if key < least:
            best, least = d, key
    return best


class _Writer:
    """Puts words together.

    Args:
      kernel: as it was.
      dot: the instruction.
      dim: the dim of which neighbours are put together.
      extents, operands: of the new kernel; aliases are added to these.
    """

    def __init__(
        self,
        kernel: Kernel,
        dot: Dot,
        dim: int,
        extents: tuple[int, ...],
        operands: list[Operand],
    ) -> None:
        self.builder, self.dot, self.dim = kernel.builder, dot, dim
        self.extent = kernel.extents[dim]
        self.whole = self.extent == extents[dim] * dot.count
        self.indices = Indices(kernel.builder, extents)
        self.operands = operands

    def word(self, value: Scalar) -> Scalar:
        """A word of a side."""
        b, dot = self.builder, self.dot
        found = self._in_memory(value)
        if found is not None:
            return found
        word: Scalar | None = None
        for k in range(dot.count):
            part = self._bits(self._part(value, k))
            if k:
                part = b.logic("shl", part, b.const(k * 32 // dot.count, WORD))
            word = part if word is None else b.logic("or", word, part)
        assert word is not None
        return word

    def _bits(self, x: Scalar) -> Scalar:
        """The bits of a number in a word of its own."""
        b = self.builder
        if self.dot.held is not None:
            x = b.convert(x, self.dot.held)
        return b.convert(b.bitcast(x, np.dtype(f"u{x.dtype.itemsize}")), WORD)

    def _part(self, value: Scalar, k: int) -> Scalar:
        """The number at a place in a word; zero beyond the end."""
        place = Dim(self.dim) * self.dot.count + k
        inside = None if self.whole else self.indices.both(None, place < self.extent)
        return Replaced(self.builder, self.dim, place, inside).zero_outside(value)

    def _in_memory(self, value: Scalar) -> Scalar | None:
        """The word where it is in memory as it is."""
        count, b = self.dot.count, self.builder
        if value.op != "load" or value.args or self.extent % count:
            return None
        if self.dot.held not in (None, value.dtype):
            return None
        buffer, address = value.attr[:2]
        steps = {a.number: c for a, c in address.terms if isinstance(a, Dim)}
        if steps.pop(self.dim, 0) != 1 or any(c % count for c in (address.const, *steps.values())):
            return None
        terms = [(Dim(d), c // count) for d, c in steps.items()]
        place = add_terms(address.const // count, [*terms, (Dim(self.dim), 1)])
        alias = self._alias(buffer)
        if self.whole:
            return b.node("load", WORD, (), (alias, place, False, False))
        inside = self.indices.both(None, Dim(self.dim) < self.extent // count)
        assert inside is not None
        word = b.node("load", WORD, (inside,), (alias, place, False, True))
        return b.select(inside, word, b.const(0, WORD))

    def _alias(self, buffer: int) -> int:
        """The operand that is an array as words."""
        for n, operand in enumerate(self.operands):
            if operand.alias == buffer:
                return n
        size = self.operands[buffer].size // self.dot.count
        self.operands.append(Operand(WORD, size, False, alias=buffer))
        return len(self.operands) - 1
