"""What is known about a compiled program, as records: :class:`Explanation`, and its parts.

The records hold facts; how they look as text is in ``tables.py``, as pictures in ``drawing.py`` and
``pages.py``, and as a time line in ``timeline.py``.  ``facts.py`` makes them.

Start at :class:`Explanation`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from functrax.backends.compilation.codegen import DeviceKernelCode, KernelCode
from functrax.backends.compilation.compiler import CompiledProgram
from functrax.backends.cost import moving_ns
from functrax.backends.executables.memory_plan import plan_text
from functrax.backends.executables.program import (
    CopyInstruction,
    Instruction,
    RuntimeProgram,
    instruction_cost,
)
from functrax.backends.loops.text import kernel_text
from functrax.backends.targets import target
from functrax.core.errors.source import SourceLine
from functrax.core.errors.typed import ArgumentError
from functrax.core.ir.jaxpr import Eqn, Jaxpr
from functrax.core.records import field, record
from functrax.core.types.aval import ShapedArray


@record
class Access:
    """An array that a kernel reads or writes.

    Args:
      name: what it is called in the program.
      aval: its type.
      nbytes: bytes of its distinct elements that the kernel needs or writes, predicted.
    """

    name: str
    aval: ShapedArray
    nbytes: int

    def __str__(self) -> str:
        return f"{self.name}:{self.aval.str_short()}"


@record
class Transfer:
    """An argument that is copied from one device to another before the program runs.

    Args:
      name: which argument, as ``[0][1]``: the second positional one; ``[1]['x']`` is one by name.
      aval: its type.
      source: the device that has it, ``"cpu:0"``.
      target: the device that the program runs on.
      seconds: how long the copy took, if it was measured.
    """

    name: str
    aval: ShapedArray
    source: str
    target: str
    seconds: float | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that are copied."""
        return self.aval.size * self.aval.dtype.itemsize


@record
class Measurement:
    """How long a kernel takes.

    Args:
      seconds: of one launch, the median.
      launches: how many launches of one run of the program.
    """

    seconds: float
    launches: int


@record(eq=False)
class Recomputed:
    """An equation that a kernel does not compute just once for each element of its result.

    Args:
      eqn: the equation.
      evaluations: how often it is computed for an element, as fusion counts it; less than once
        where only a part of its result is needed.
      reason: why the result is not stored instead, in a sentence.
    """

    eqn: Eqn
    evaluations: float
    reason: str


@record(eq=False)
class KernelFacts:
    """One kernel, or a call of something that is no kernel.

    Args:
      number: counts the kernels and calls of the whole program.
      name: what it does, the last first.
      kind: ``"kernel"``, or ``"call"`` of a library function such as LAPACK's, or of Python.
      eqns: its equations, with the user's lines.
      level: the number of the program that it is in.
      place: which equation of that program it is.
      calls: how often a run of the program launches it; None if that is not known beforehand.
      reads: the arrays that it reads.
      writes: the arrays that it writes.
      flops: operations on numbers in one launch.
      transcendentals: values of functions such as ``exp`` in one launch.
      codes: its machine code: of most kernels one.
      instructions: what runs it in the compiled program.
      measured: its time, if it was measured.
      bytes_staged: bytes that it hands on from one of its launches to the next: packed operands,
        partial sums.  They are written once, and usually read while they are in the cache.
      recomputed: those of its equations that it computes more often than once, or less.
    """

    number: int
    name: str
    kind: Literal["kernel", "call"]
    eqns: tuple[Eqn, ...]
    level: int
    place: int
    calls: int | None
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    flops: int
    transcendentals: int
    codes: tuple[KernelCode | DeviceKernelCode, ...] = field(repr=False)
    instructions: tuple[Instruction, ...] = field(repr=False)
    measured: Measurement | None = None
    bytes_staged: int = 0
    recomputed: tuple[Recomputed, ...] = ()

    @property
    def bytes_read(self) -> int:
        """Bytes that one launch reads, predicted."""
        return sum(x.nbytes for x in self.reads)

    @property
    def bytes_written(self) -> int:
        """Bytes that one launch writes, predicted."""
        return sum(x.nbytes for x in self.writes)

    @property
    def predicted(self) -> float | None:
        """Seconds of one launch on one thread, by the model of cost.

        None of a call, and of a kernel of a GPU, which the model knows nothing of.
        """
        if not self.codes or isinstance(self.codes[0], DeviceKernelCode):
            return None
        nanoseconds = float(sum(instruction_cost(x) for x in self.instructions))
        copies = [
            x for x in self.instructions if isinstance(x, CopyInstruction)
        ]  # of what is updated
        for _, result in zip(copies, self.writes):
            size = result.aval.size * result.aval.dtype.itemsize
            nanoseconds += moving_ns(2 * size, target())
        return nanoseconds / 1e9

    @property
    def lines(self) -> tuple[SourceLine, ...]:
        """The user's lines that it computes, each once, in order."""
        found = {str(e.source): e.source for e in self.eqns if e.source is not None}
        return tuple(found.values())

    @property
    def gigabytes_per_second(self) -> float | None:
        """Predicted bytes by measured time."""
        if self.measured is None or not self.measured.seconds:
            return None
        return (self.bytes_read + self.bytes_written) / self.measured.seconds / 1e9

    @property
    def gigaflops_per_second(self) -> float | None:
        """Operations, transcendental ones included, by measured time."""
        if self.measured is None or not self.measured.seconds:
            return None
        return (self.flops + self.transcendentals) / self.measured.seconds / 1e9

    @property
    def loops(self) -> str:
        """The loop nest, as text."""
        return "\n\n".join(kernel_text(code.kernel) for code in self.codes)

    @property
    def llvm(self) -> str:
        """LLVM IR of the kernel and of the functions that it calls, as text."""
        return "\n".join(dict.fromkeys(x for code in self.codes for x in code.modules()))

    @property
    def assembly(self) -> str:
        """Assembly for the processor, PTX for a GPU, as text; made when it is asked for."""
        return "\n".join(dict.fromkeys(x for code in self.codes for x in code.assembly()))


@record
class Edge:
    """A value that one kernel writes and another reads, because they are not one kernel.

    Args:
      level: the number of the program that both are in.
      source: which equation of that program computes the value.
      target: which one reads it.
      value: the value, ``c:f32[8]``.
      nbytes: its bytes.
      code: the rule that keeps them apart, in a word.
      reason: the rule, in a sentence.
    """

    level: int
    source: int
    target: int
    value: str
    nbytes: int
    code: str
    reason: str


@record(eq=False)
class ProgramLevel:
    """The outermost program, or one inside a loop or a branch.

    Args:
      number: counts the programs.
      title: what it is, ``body of scan``; empty for the outermost one.
      jaxpr: the program, of groups.
      calls: how often a run of the whole program runs it; None if that is not known beforehand.
      within: the number of the program that it is inside of, and the place of the equation; None
        for the outermost one.
    """

    number: int
    title: str
    jaxpr: Jaxpr
    calls: int | None
    within: tuple[int, int] | None


@record
class PassFacts:
    """What one pass did.

    Args:
      name: the pass.
      before: the program before it.
      after: the program after it; the same object if nothing changed.
      rewrites: how many rewrites it made.
      milliseconds: how long it took.
    """

    name: str
    before: Jaxpr
    after: Jaxpr
    rewrites: int
    milliseconds: float


@record(eq=False)
class Explanation:
    """All that is known about a compiled program.  Printing it gives tables.

    Args:
      name: of the function.
      passes: what each pass did, in order.
      levels: the programs of groups: the outermost one, then those inside loops and branches.
      kernels: the kernels and other calls, in the order in which they run.
      edges: the values that cross from one kernel to another, with the reason for each.
      compile_ms: milliseconds by stage: ``trace``, each pass, ``lower``, ``schedule``, ``emit``,
        ``llvm``, ``assemble``, ``storage``.
      origins: how many kernels were compiled by ``llvm``, or found in ``memory`` or on ``disk``.
      program: what the runtime runs: instructions over slots.
      compiled: the compiler's own record, with the times at which everything happened.
      timeline: the kernels of a measured run in order, as numbers; empty if nothing was measured.
      transfers: the arguments that are copied to the device before.
    """

    name: str
    passes: tuple[PassFacts, ...]
    levels: tuple[ProgramLevel, ...]
    kernels: tuple[KernelFacts, ...]
    edges: tuple[Edge, ...]
    compile_ms: Mapping[str, float]
    origins: Mapping[str, int]
    program: RuntimeProgram
    compiled: CompiledProgram = field(repr=False)
    timeline: tuple[int, ...] = field(default=(), repr=False)
    transfers: tuple[Transfer, ...] = ()

    @property
    def source(self) -> Jaxpr:
        """The program as it was traced."""
        return self.passes[0].before

    @property
    def bytes_read(self) -> int:
        """Bytes that all kernels of a run read; those of unknown number count once."""
        return sum(k.bytes_read * _times(k) for k in self.kernels)

    @property
    def bytes_written(self) -> int:
        """Bytes that all kernels of a run write; those of unknown number count once."""
        return sum(k.bytes_written * _times(k) for k in self.kernels)

    @property
    def bytes_staged(self) -> int:
        """Bytes that all kernels of a run hand on within themselves; no part of the cost."""
        return sum(k.bytes_staged * _times(k) for k in self.kernels)

    @property
    def cost(self) -> int:
        """What fusion makes small: the bytes that cross the edges of kernels, both ways."""
        return self.bytes_read + self.bytes_written

    @property
    def flops(self) -> int:
        """Operations of a run, transcendental ones left out."""
        return sum(k.flops * _times(k) for k in self.kernels)

    @property
    def transcendentals(self) -> int:
        """Values of functions such as ``exp`` in a run."""
        return sum(k.transcendentals * _times(k) for k in self.kernels)

    @property
    def arena_bytes(self) -> int:
        """Bytes of the one block of memory in which all temporaries lie."""
        return self.program.arena

    @property
    def peak_bytes(self) -> int:
        """Bytes of temporaries that are alive at one time, at most."""
        return self.program.peak

    @property
    def memory_plan(self) -> str:
        """Where each temporary lies and when it lives, as text."""
        return plan_text(self.program)

    @property
    def llvm(self) -> str:
        """LLVM IR of all kernels."""
        return "\n".join(k.llvm for k in self.kernels if k.codes)

    @property
    def assembly(self) -> str:
        """Assembly of all kernels; made when it is asked for."""
        return "\n".join(k.assembly for k in self.kernels if k.codes)

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Write a time line in Chrome's trace format, for ``chrome://tracing`` and Perfetto.

        It has the stages of compilation, and the launches of one run: with measured times if there
        are any, else with estimates.

        Args:
          path: of the file.
        """
        from functrax.explanation.timeline import write_trace

        write_trace(self, path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the explanation to a file: its kind is what the file's name ends in.

        Args:
          path: ends in ``.svg`` for the picture, ``.html`` for a page with the picture, the tables
            and every stage (see :meth:`html`), or ``.txt`` for the tables.

        Raises:
          ArgumentError: the name of the file ends in something else.

        >>> import functrax, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "square.svg"
        >>> functrax.explain(lambda x: x * x)(2.0).save(path)
        >>> path.read_text()[:4]
        '<svg'
        """
        forms = {".svg": self._repr_svg_, ".html": self.html, ".txt": self.__str__}
        ending = os.path.splitext(path)[1].lower()
        if ending not in forms:
            raise ArgumentError(
                "save: an explanation can be written as a picture, a page or text",
                got=f"a name that ends in {ending!r}: {os.fspath(path)}",
                fix="a name that ends in " + ", ".join(forms),
            )
        with open(path, "w", encoding="utf-8") as file:
            file.write(forms[ending]())

    def html(self) -> str:
        """The explanation as a page that needs nothing else: no network, no other file.

        It has the picture, the tables, each kernel with its equations, bytes, time, loops and
        machine code, the user's lines, and a time line, with links between them and a search.
        """
        from functrax.explanation.page import explanation_page

        return explanation_page(self)

    def __str__(self) -> str:
        from functrax.explanation.tables import explanation_text

        return explanation_text(self)

    __repr__ = __str__

    def _repr_svg_(self) -> str:
        from functrax.explanation.drawing import explanation_svg

        return explanation_svg(self)

    def _repr_html_(self) -> str:
        from functrax.explanation.pages import explanation_html

        return explanation_html(self)


def _times(kernel: KernelFacts) -> int:
    return 1 if kernel.calls is None else kernel.calls
