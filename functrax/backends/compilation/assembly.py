"""From the equations of a program to the instructions that run them: the stage ``assemble``.

:class:`Assembly` writes one instruction or a few for each equation: launches for what has kernels
(``backends/compilation/kernel_table.py``), loops and branches for control flow, whose bodies are
programs that are assembled in the same way, and calls of libraries or of the NumPy reference for
all else.  The stage ``storage`` puts launches into runs and lays out the memory of each program
(``backends/executables/``).

Start at :meth:`Assembly.write`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from functrax.backends.compilation.codegen import GroupCode
from functrax.backends.compilation.kernel_table import KernelTable
from functrax.backends.compilation.provenance import Members
from functrax.backends.compilation.stage import CompiledStages, Stage, run_stage
from functrax.backends.executables.launch_runs import NEAR
from functrax.backends.executables.program import (
    CondInstruction,
    CopyInstruction,
    HostCall,
    Instruction,
    Launch,
    RuntimeProgram,
    ScanInstruction,
    WhileInstruction,
)
from functrax.backends.executables.program_builder import ProgramBuilder
from functrax.backends.passes.groups import contraction, fused
from functrax.backends.passes.rewrites import Rewrites
from functrax.backends.reference.deferred import Deferred
from functrax.backends.reference.reference_device import rule_of
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal
from functrax.core.prims.control import Choice, ScanLoop, WhileLoop
from functrax.core.prims.identity import OptimizationBarrier
from functrax.core.records import record, replace


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


class Assembly:
    """Writes the instructions of one program that went through the passes.

    Args:
      jaxpr: the program.
      guarded: whether it looks for NaNs and infinities in what its kernels compute.
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
        codes: KernelTable,
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
        #: Launches that pack, by kernel and arrays, and the place up to which they are used again:
        #: beyond, what was packed would be in memory too long.
        self._packed: dict[tuple[int, tuple[int, ...]], tuple[int, Launch]] = {}

    def program(self) -> RuntimeProgram:
        """The instructions of all equations, as a program."""
        outputs = self.write()
        made: RuntimeProgram = run_stage(
            STORAGE, (self.builder, outputs, self.carry), self.builder.name
        )
        return made

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
        code = self.codes.code(eqn)
        if isinstance(code, GroupCode):
            self._launches(eqn, code)
        elif eqn.primitive is fused:
            self._in_parts(eqn)
        else:
            kinds = [kind for kind in _ASSEMBLED if isinstance(eqn.primitive, kind)]
            assemble = _ASSEMBLED[kinds[0]] if kinds else Assembly._host_call
            assemble(self, eqn)

    # ---- groups -------------------------------------------------------------------------------

    def _launches(self, eqn: Eqn, code: GroupCode) -> None:
        """Launch the kernels of a group.

        What another group has packed just before is not packed again: queries, keys and values
        have one left side.
        """
        inputs, results = self._operands(eqn.invars), self._results(eqn)
        slots = dict(enumerate((*inputs, *results)))
        instructions: list[Instruction] = [
            CopyInstruction(slots[x], slots[y]) for x, y in code.copies
        ]
        if code.fill is not None:
            instructions.append(code.fill.launch((), results))
        known = len(slots)
        writers = Counter([n for kernel in code.kernels for n in kernel.arrays[1]])
        for kernel in code.kernels:
            read, written = kernel.arrays
            launch = kernel.launch(tuple([slots[n] for n in read]), ())
            (first, *_) = written
            packs = first >= known and writers[first] == len(written) == 1
            key, numbers = (launch.function, launch.inputs), (launch.params, launch.units)
            place, packed = self._packed.get(key, (-1, launch)) if packs else (-1, launch)
            if place >= self._place and (packed.params, packed.units) == numbers:
                launch = packed
            else:
                for n in written:
                    if n not in slots:
                        like = code.temporaries[n - known]
                        slots[n] = self.builder.value((like.size,), like.dtype)
                launch = replace(launch, outputs=tuple([slots[n] for n in written]))
            slots[first] = launch.outputs[0]
            if packs:
                self._packed[key] = self._place + NEAR, launch
            instructions.append(launch)
        self._add(eqn, instructions, inputs, results, code)

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

            look = guard(eqn, self.members)
            self.builder.add(HostCall(look, "guard", (*inputs, *outputs), (), into=True))

    def _in_parts(self, eqn: Eqn) -> None:
        """A group that is no kernel: its parts as groups, in the end calls of references."""
        jaxpr: Jaxpr = eqn.params["jaxpr"]
        outer = self.slots
        self.slots = dict(zip(jaxpr.invars, self._operands(eqn.invars), strict=True))
        for part in self.codes.parts(eqn) or jaxpr.eqns:
            self._equation(part)
        found = [self._slot(x) for x in jaxpr.outvars]
        self.slots = outer
        self.slots.update(zip(eqn.outvars, found, strict=True))

    # ---- what is no kernel --------------------------------------------------------------------

    def _host_call(self, eqn: Eqn) -> None:
        """Functions of libraries or of the user's own, or else a call of the reference."""
        name = eqn.params["name"] if eqn.primitive is contraction else eqn.primitive.name
        inputs, outputs = self._operands(eqn.invars), self._results(eqn)
        launches = self._functions(eqn, inputs, outputs)
        if launches is None:
            into = eqn.primitive.reference_into is not None
            function = _writing_call(eqn) if into else _reference_call(eqn)
            device = _on_device(eqn) if target().warp else None
            launches = [HostCall(function, name, inputs, outputs, into, device=device)]
        self._add(eqn, launches, inputs, outputs)

    def _functions(
        self, eqn: Eqn, inputs: tuple[int, ...], outputs: tuple[int, ...]
    ) -> Sequence[Instruction] | None:
        """Calls of functions that are there already; modules that few programs need."""
        if eqn.primitive.is_foreign:
            from functrax.backends.libraries.foreign_calls import foreign_launches

            return foreign_launches(eqn, inputs, outputs)
        if target().warp:  # libraries read and write memory of the host
            return None
        from functrax.backends.libraries.calls import library_launches

        return library_launches(self.builder, eqn, inputs, outputs)

    def _same(self, eqn: Eqn) -> None:
        """Results that are the operands."""
        self.slots.update(zip(eqn.outvars, self._operands(eqn.invars), strict=True))

    def _inner(self, jaxpr: Jaxpr, role: str, carry: range | None = None) -> RuntimeProgram:
        inside = (*self.inside, (self._place, role))
        assembly = Assembly(jaxpr, self.guarded, self.members, self.codes, inside, carry)
        program = assembly.program()
        self.works += assembly.works
        return program

    def _cond(self, eqn: Eqn) -> None:
        index, *operands = self._operands(eqn.invars)
        branches = tuple(
            [self._inner(b, f"branch {k}") for k, b in enumerate(eqn.params["branches"])]
        )
        self.builder.add(CondInstruction(index, branches, tuple(operands), self._results(eqn)))

    def _while(self, eqn: Eqn) -> None:
        params, slots = eqn.params, self._operands(eqn.invars)
        first, second = params["cond_consts"], params["cond_consts"] + params["body_consts"]
        cond = self._inner(params["cond"], "condition", range(0))
        carry = range(params["body_consts"], len(params["body"].invars))
        body = self._inner(params["body"], "body", carry)
        operands = slots[:first], slots[first:second], slots[second:]
        self.builder.add(WhileInstruction(cond, body, *operands, self._results(eqn)))

    def _scan(self, eqn: Eqn) -> None:
        params, slots = eqn.params, self._operands(eqn.invars)
        first, second = params["num_consts"], params["num_consts"] + params["num_carry"]
        body = self._inner(params["jaxpr"], "body", range(first, second))
        operands = slots[:first], slots[first:second], slots[second:]
        results = self._results(eqn)
        self.builder.add(
            ScanInstruction(body, params["length"], *operands, results, params["reverse"])
        )


_ASSEMBLED: Final[dict[type, Callable[[Assembly, Eqn], None]]] = {
    Choice: Assembly._cond,
    WhileLoop: Assembly._while,
    ScanLoop: Assembly._scan,
    OptimizationBarrier: Assembly._same,
}


def _on_device(eqn: Eqn) -> Any:
    """How a library computes an equation in memory of a GPU; a module that few programs need."""
    from functrax.backends.libraries.device_calls import device_call

    return device_call(eqn)


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


def _writing_call(eqn: Eqn) -> Callable[..., None]:
    """A function that writes what an equation computes of NumPy arrays to others."""
    write, params, count = eqn.primitive.reference_into, dict(eqn.params), len(eqn.invars)
    literals = [x.val if isinstance(x, Literal) else None for x in eqn.invars]
    assert write is not None

    def call(*arrays: Any) -> None:
        operands = [
            value if number is None else np.asarray(number)
            for value, number in zip(arrays[:count], literals, strict=True)
        ]
        write(arrays[count:], *operands, **params)

    return call


def _assemble(
    state: tuple[CompiledStages, bool], rewrites: Rewrites
) -> tuple[Assembly, RuntimeProgram]:
    """What the runtime runs, and how it came about."""
    stages, guarded = state
    codes = KernelTable(stages.program)
    assembly = Assembly(stages.program, guarded, Members(stages), codes)
    return assembly, assembly.program()


ASSEMBLE: Final = Stage(
    "assemble", _assemble, dumped="program", texts=lambda made: [("", str(made[1]))]
)
#: A builder checks each program, with or without the option.
STORAGE: Final = Stage("storage", lambda state, _: state[0].finished(*state[1:]))
