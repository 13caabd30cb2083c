"""The compiler: from a program of the language to one that the runtime runs.

What enters is a :class:`Jaxpr`; the pipeline (``backends/compilation/pipeline.py``) turns it into
groups, and :class:`Assembly` writes one instruction or a few for each equation: launches for groups
(``backends/compilation/codegen.py``), loops and branches for control flow, whose bodies are
programs that are compiled in the same way, and calls of the NumPy reference for all else.

Start at :func:`compile_program`.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrax.backends.compilation.codegen import GroupCode, KernelCode
from functrax.backends.compilation.kernel_table import Codes
from functrax.backends.compilation.pipeline import CompiledStages, run_pipeline
from functrax.backends.compilation.provenance import Members
from functrax.backends.compile_log import CompileLog, logged, step
from functrax.backends.executables.program import (
    Cond,
    Copy,
    HostCall,
    Instruction,
    Launch,
    Program,
    Scan,
    Slot,
    While,
)
from functrax.backends.executables.program_builder import ProgramBuilder
from functrax.backends.kernels.ir import Operand
from functrax.backends.kernels.refusal import Refusal
from functrax.backends.machine_code.kernel_jit import LaunchCode, side_by_side
from functrax.backends.passes.groups import contraction, fused, parts_of
from functrax.backends.reference.deferred import Deferred
from functrax.backends.reference.reference_device import rule_of
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal
from functrax.core.options import option_text
from functrax.core.options.config import state as options
from functrax.core.prims.control import Choice, ScanLoop, WhileLoop
from functrax.core.prims.cumulative import Cumulative
from functrax.core.prims.identity import OptimizationBarrier
from functrax.core.records import record

#: What was packed is used again for so many equations; beyond, it would be in memory too long.
PACKED_FOR = 4


@record(eq=False)
class Work:
    """How one equation is computed.

    Args:
      eqn: a group, or an equation that is no kernel.
      inside: the program that it is in, the way to it from the outermost one: the place of an
        equation of control flow, and which of the programs in that.
      place: which equation of that program it is.
      instructions: what computes it; some of it may be of a work before.
      inputs: the slots of its operands.
      outputs: the slots of its results.
      code: of a group that is a kernel.
    """

    eqn: Eqn
    inside: tuple[tuple[int, str], ...]
    place: int
    instructions: tuple[Instruction, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    code: GroupCode | None = None


@record
class CompiledProgram:
    """A compiled program and how it came about.

    Args:
      stages: what each pass made of it.
      program: what the runtime runs.
      works: how each equation is computed that is no control flow, in order.
      log: what the compiler did, and when.
      refused: groups, contractions and loops that are no kernel, with the reasons.
    """

    stages: CompiledStages
    program: Program
    works: tuple[Work, ...]
    log: CompileLog
    refused: tuple[tuple[Eqn, Refusal], ...]


def compile_program(jaxpr: Jaxpr, guarded: bool = False) -> CompiledProgram:
    """Compile a program without constants.

    Args:
      jaxpr: the program.
      guarded: whether it looks for NaNs and infinities in what its kernels compute.
    """
    with logged(CompileLog()) as log:
        stages = run_pipeline(jaxpr)
        assembly, program = _assembled(stages, guarded)
        budget = option_text.budget(options.memory_budget)
        if 0 < budget < program.peak:
            from functrax.backends.compilation.memory_budget import Candidate, within_budget

            first = Candidate(stages, assembly, program)
            stages, assembly, program = within_budget(
                first, budget, lambda s: Candidate(s, *_assembled(s, guarded))
            )
    refused = assembly.codes.refused()
    compiled = CompiledProgram(stages, program, tuple(assembly.works), log, refused)
    _records[program] = weakref.ref(compiled)
    return compiled


def _assembled(stages: CompiledStages, guarded: bool) -> tuple[Assembly, Program]:
    """What the runtime runs, and how it came about."""
    codes = Codes()
    with step("assemble", stages.source.name):
        with side_by_side():
            codes.begin(stages.program)
        assembly = Assembly(stages.program, guarded, Members(stages), codes)
        return assembly, assembly.program()


def assembled_parts(
    jaxpr: Jaxpr,
) -> tuple[tuple[Slot, ...], tuple[Instruction, ...], list[int]]:
    """The slots, instructions and results' slots of what a program is compiled to."""
    stages = run_pipeline(jaxpr)
    codes = Codes()
    with side_by_side():
        codes.begin(stages.program)
    assembly = Assembly(stages.program, False, Members(stages), codes)
    outputs = assembly.write()
    return *assembly.builder.parts, outputs


_records: weakref.WeakKeyDictionary[Program, weakref.ref[CompiledProgram]] = (
    weakref.WeakKeyDictionary()
)


def record_of(program: Program) -> CompiledProgram | None:
    """What the compiler knows of a program that it made, if it is remembered."""
    found = _records.get(program)
    return None if found is None else found()


class Assembly:
    """Writes the instructions of one program that went through the pipeline.

    Args:
      jaxpr: the program.
      guarded: see :func:`compile_program`.
      members: knows which equations of the program groups stand for.
      codes: knows the code of its equations.
      inside: see :class:`Work`.
      carry: of a loop's body the numbers of the inputs that its first results replace; None of
        other programs.

    Attributes:
      works: how each equation is computed, those of inner programs included.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        guarded: bool,
        members: Members,
        codes: Codes,
        inside: tuple[tuple[int, str], ...] = (),
        carry: range | None = None,
    ) -> None:
        self.jaxpr = jaxpr
        self.carry = carry
        self.guarded = guarded
        self.members = members
        self.codes = codes
        self.inside = inside
        self.builder = ProgramBuilder(jaxpr.name or "program")
        self.slots: dict[Atom, int] = {}
        self.works: list[Work] = []
        self._place = 0
        self._written: set[Instruction] = set()
        #: Launches that pack, by kernel and arrays, and the place up to which they are used again.
        self._packed: dict[tuple[int, tuple[int, ...]], tuple[int, Launch]] = {}

    def program(self) -> Program:
        """The instructions of all equations, as a program."""
        outputs = self.write()
        return self.builder.build(outputs, self.builder.arrange(outputs, self.carry))

    def write(self) -> list[int]:
        """Write the instructions of all equations; the slots of the results."""
        for v in self.jaxpr.invars:
            self.slots[v] = self.builder.input(v.aval.shape, v.aval.dtype)
        for place, eqn in enumerate(self.jaxpr.eqns):
            self._place = place
            self._equation(eqn)
        return [self._slot(x) for x in self.jaxpr.outvars]

    def _slot(self, x: Atom) -> int:
        slot = self.slots.get(x)
        if slot is None:
            assert isinstance(x, Literal), "an equation uses a variable that nothing defines"
            slot = self.slots[x] = self.builder.const(np.asarray(x.val))
        return slot

    def _operands(self, xs: Sequence[Atom]) -> tuple[int, ...]:
        return tuple([self._slot(x) for x in xs])

    def _results(self, eqn: Eqn) -> tuple[int, ...]:
        new = self.builder.value
        for v in eqn.outvars:
            self.slots[v] = new(v.aval.shape, v.aval.dtype)
        return tuple([self.slots[v] for v in eqn.outvars])

    def _equation(self, eqn: Eqn) -> None:
        if eqn.primitive is fused:
            self._group(eqn)
            return
        if eqn.primitive is contraction:
            self._contraction(eqn)
            return
        for kind, assemble in _ASSEMBLED.items():
            if isinstance(eqn.primitive, kind):
                assemble(self, eqn)
                return
        self._host_call(eqn)

    # ---- groups -------------------------------------------------------------------------------

    def _contraction(self, eqn: Eqn) -> None:
        """A sum of products: tiles of it, else loops if they are short, else a host call."""
        code = self.codes.contraction(eqn)
        if isinstance(code, Refusal):
            self._host_call(eqn)
        else:
            self._launches(eqn, code)

    def _group(self, eqn: Eqn) -> None:
        code = self.codes.group(eqn)
        if isinstance(code, Refusal):
            self._in_parts(eqn)
        else:
            self._launches(eqn, code)

    def _launches(self, eqn: Eqn, code: GroupCode) -> None:
        """Launch the kernels of a group."""
        inputs = self._operands(eqn.invars)
        results = self._results(eqn)
        instructions: list[Instruction] = []
        for source, target in code.copies:
            numbered = (*inputs, *results)
            instructions.append(Copy(numbered[source], numbered[target]))
        if code.fill is not None:
            instructions.append(_launch(code.fill, (), results))
        if any(kernel.arrays is not None for kernel in code.kernels):
            instructions += self._with_own_arrays(code, inputs, results)
        else:
            read = tuple([inputs[n] for n in code.inputs])
            written = results + tuple([self._temporary(t) for t in code.temporaries])
            instructions += [_launch(kernel, read, written) for kernel in code.kernels]
        self._add(eqn, instructions, inputs, results, code)

    def _with_own_arrays(
        self, code: GroupCode, inputs: tuple[int, ...], results: tuple[int, ...]
    ) -> list[Launch]:
        """The launches of kernels that take some arrays each.

        What another group has packed just before is not packed again: queries, keys and values
        have one left side.
        """
        slots = dict(enumerate((*inputs, *results)))
        known = len(slots)
        writers = Counter(n for k in code.kernels if k.arrays is not None for n in k.arrays[1])
        launches = []
        for kernel in code.kernels:
            assert kernel.arrays is not None
            read, written = kernel.arrays
            reads = tuple([slots[n] for n in read])
            (first, *_) = written
            packs = first >= known and writers[first] == len(written) == 1
            key = kernel.compiled.address, reads
            place, launch = self._packed.get(key, (0, None)) if packs else (0, None)
            numbers = kernel.numbers, kernel.units
            if launch is None or place < self._place or (launch.params, launch.units) != numbers:
                for n in written:
                    if n not in slots:
                        slots[n] = self._temporary(code.temporaries[n - known])
                launch = _launch(kernel, reads, tuple([slots[n] for n in written]))
            slots[first] = launch.outputs[0]
            if packs:
                self._packed[key] = self._place + PACKED_FOR, launch
            launches.append(launch)
        return launches

    def _temporary(self, like: Operand) -> int:
        return self.builder.value((like.size,), like.dtype)

    def _add(
        self,
        eqn: Eqn,
        instructions: Sequence[Instruction],
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        code: GroupCode | None = None,
    ) -> None:
        """Add the instructions that compute an equation, and a look at the results if wanted."""
        for x in instructions:
            if x not in self._written:  # what a group before has packed is there
                self._written.add(x)
                self.builder.add(x)
        work = Work(eqn, self.inside, self._place, tuple(instructions), inputs, outputs, code)
        self.works.append(work)
        if self.guarded:
            from functrax.backends.compilation.nan_guard import guard

            self.builder.add(
                HostCall(guard(eqn, self.members), "guard", (*inputs, *outputs), (), into=True)
            )

    def _in_parts(self, eqn: Eqn) -> None:
        """A group that is no kernel: its parts as groups, in the end calls of references."""
        jaxpr: Jaxpr = eqn.params["jaxpr"]
        outer = self.slots
        self.slots = dict(zip(jaxpr.invars, self._operands(eqn.invars), strict=True))
        if len(jaxpr.eqns) == 1:
            self._host_call(jaxpr.eqns[0])
        else:
            for part in parts_of(jaxpr):
                self._group(part)
        found = [self._slot(x) for x in jaxpr.outvars]
        self.slots = outer
        self.slots.update(zip(eqn.outvars, found, strict=True))

    # ---- what is no kernel --------------------------------------------------------------------

    def _host_call(self, eqn: Eqn) -> None:
        """Functions of libraries, or else a call of the reference."""
        from functrax.backends.libraries.calls import library_launches  # which few programs need

        function = _reference_call(eqn)
        inputs = self._operands(eqn.invars)
        name = eqn.primitive.name
        if eqn.primitive is contraction:
            name = eqn.params["name"]
        outputs = self._results(eqn)
        launches = library_launches(self.builder, eqn, inputs, outputs)
        if launches is not None:
            self._add(eqn, launches, inputs, outputs)
            return
        self._add(eqn, [HostCall(function, name, inputs, outputs)], inputs, outputs)

    def _same(self, eqn: Eqn) -> None:
        """Results that are the operands."""
        self.slots.update(zip(eqn.outvars, self._operands(eqn.invars), strict=True))

    def _inner(self, jaxpr: Jaxpr, role: str, carry: range | None = None) -> Program:
        inside = (*self.inside, (self._place, role))
        assembly = Assembly(jaxpr, self.guarded, self.members, self.codes, inside, carry)
        program = assembly.program()
        self.works += assembly.works
        return program

    def _cond(self, eqn: Eqn) -> None:
        index, *operands = self._operands(eqn.invars)
        branches = tuple(
            self._inner(b, f"branch {k}") for k, b in enumerate(eqn.params["branches"])
        )
        self.builder.add(Cond(index, branches, tuple(operands), self._results(eqn)))

    def _loop_kernel(self, eqn: Eqn) -> bool:
        """Run a loop as one kernel, if it can be one."""
        code = self.codes.loop(eqn)
        if isinstance(code, Refusal):
            return False
        self._launches(eqn, code)
        return True

    def _cumulative(self, eqn: Eqn) -> None:
        if not self._loop_kernel(eqn):
            self._host_call(eqn)

    def _while(self, eqn: Eqn) -> None:
        if self._loop_kernel(eqn):
            return
        params = eqn.params
        slots = self._operands(eqn.invars)
        first, second = params["cond_consts"], params["cond_consts"] + params["body_consts"]
        cond = self._inner(params["cond"], "condition", range(0))
        carry = range(params["body_consts"], len(params["body"].invars))
        body = self._inner(params["body"], "body", carry)
        self.builder.add(
            While(
                cond, body, slots[:first], slots[first:second], slots[second:], self._results(eqn)
            )
        )

    def _scan(self, eqn: Eqn) -> None:
        if self._loop_kernel(eqn):
            return
        params = eqn.params
        slots = self._operands(eqn.invars)
        first = params["num_consts"]
        second = first + params["num_carry"]
        body = self._inner(params["jaxpr"], "body", range(first, second))
        self.builder.add(
            Scan(
                body,
                params["length"],
                slots[:first],
                slots[first:second],
                slots[second:],
                self._results(eqn),
                params["reverse"],
            )
        )


def _launch(code: KernelCode, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Launch:
    return Launch(
        code.compiled.address,
        code.kernel.name,
        inputs,
        outputs,
        code.numbers,
        code.units,
        code.cost,
        aliases=tuple([(j - len(inputs), i) for j, i in code.in_place if i < len(inputs) <= j]),
        owner=LaunchCode(code.compiled, code.called),
    )


_ASSEMBLED: dict[type, Callable[[Assembly, Eqn], None]] = {
    Choice: Assembly._cond,
    WhileLoop: Assembly._while,
    ScanLoop: Assembly._scan,
    OptimizationBarrier: Assembly._same,
    Cumulative: Assembly._cumulative,
}


def _reference_call(eqn: Eqn) -> Callable[..., list[Any]]:
    """A function of NumPy arrays that does what an equation does."""
    primitive, params = eqn.primitive, dict(eqn.params)
    rule = rule_of(primitive)
    literals = [x.val if isinstance(x, Literal) else None for x in eqn.invars]

    def call(*values: Any) -> list[Any]:
        operands = [
            value if number is None else number
            for value, number in zip(values, literals, strict=True)
        ]
        out = rule(primitive, operands, params)
        outs = out if primitive.multiple_results else [out]
        return [x.materialize() if type(x) is Deferred else np.asarray(x) for x in outs]

    return call
