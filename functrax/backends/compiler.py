"""The compiler: from a program of the language to one that the runtime runs.

What enters is a :class:`Jaxpr`; the pipeline (``backends/pipeline.py``) turns it into groups, and
:class:`Assembly` writes one instruction or a few for each equation: launches for groups
(``backends/codegen.py``), loops and branches for control flow, whose bodies are programs that are
compiled in the same way, and calls of the NumPy reference for all else.

Start at :func:`compile_program`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functrax.backends.codegen import GroupCode, KernelCode, group_code, loop_code
from functrax.backends.deferred import Deferred
from functrax.backends.kernels.values import NotAKernelError
from functrax.backends.passes.groups import contraction, fused, grouped
from functrax.backends.pipeline import CompiledStages, run_pipeline
from functrax.backends.program import Cond, Copy, HostCall, Launch, Program, Scan, While
from functrax.backends.program_builder import ProgramBuilder
from functrax.backends.reference import rule_of
from functrax.core.jaxpr import Atom, Eqn, Jaxpr, Literal


@dataclass(frozen=True)
class CompiledProgram:
    """A compiled program and how it came about.

    Args:
      stages: what each pass made of it.
      program: what the runtime runs.
      groups: the code of each launched group, in order.
    """

    stages: CompiledStages
    program: Program
    groups: tuple[tuple[Eqn, GroupCode], ...]


def compile_program(jaxpr: Jaxpr) -> CompiledProgram:
    """Compile a program without constants."""
    stages = run_pipeline(jaxpr)
    assembly = Assembly(stages.program)
    return CompiledProgram(stages, assembly.program(), tuple(assembly.groups))


class Assembly:
    """Writes the instructions of one program that went through the pipeline.

    Attributes:
      groups: the code of each launched group, those of inner programs included.
    """

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.jaxpr = jaxpr
        self.builder = ProgramBuilder(jaxpr.name or "program")
        self.slots: dict[Atom, int] = {}
        self.groups: list[tuple[Eqn, GroupCode]] = []

    def program(self) -> Program:
        """The instructions of all equations."""
        for v in self.jaxpr.invars:
            self.slots[v] = self.builder.input(v.aval.shape, v.aval.dtype)
        for eqn in self.jaxpr.eqns:
            self._equation(eqn)
        return self.builder.build([self._slot(x) for x in self.jaxpr.outvars])

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
        assemble = _CONTROL_FLOW.get(eqn.primitive.name, Assembly._host_call)
        assemble(self, eqn)

    # ---- groups -------------------------------------------------------------------------------

    def _group(self, eqn: Eqn) -> None:
        jaxpr: Jaxpr = eqn.params["jaxpr"]
        try:
            code = group_code(jaxpr, eqn.params["name"])
        except NotAKernelError:
            self._one_by_one(eqn)
            return
        self.groups.append((eqn, code))
        inputs = self._operands(eqn.invars)
        results = self._results(eqn)
        for source, target in code.copies:
            numbered = (*inputs, *results)
            self.builder.add(Copy(numbered[source], numbered[target]))
        if code.fill is not None:
            self._launch(code.fill, (), results)
        temporaries = tuple([self.builder.value((t.size,), t.dtype) for t in code.temporaries])
        for kernel in code.kernels:
            self._launch(kernel, inputs, (*results, *temporaries))

    def _launch(self, code: KernelCode, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> None:
        self.builder.add(
            Launch(
                code.compiled.address,
                code.kernel.name,
                inputs,
                outputs,
                code.emitted.numbers,
                code.kernel.units,
                code.cost,
                owner=code.compiled,
            )
        )

    def _one_by_one(self, eqn: Eqn) -> None:
        """A group that is no kernel: its equations as groups of one, or calls of references."""
        jaxpr: Jaxpr = eqn.params["jaxpr"]
        outer = self.slots
        self.slots = dict(zip(jaxpr.invars, self._operands(eqn.invars), strict=True))
        for inner in jaxpr.eqns:
            if len(jaxpr.eqns) == 1:
                self._host_call(inner)
            else:
                name = inner.primitive.name
                self._group(grouped(fused, [inner], list(inner.outvars), name, inner.source))
        found = [self._slot(x) for x in jaxpr.outvars]
        self.slots = outer
        self.slots.update(zip(eqn.outvars, found, strict=True))

    # ---- what is no kernel --------------------------------------------------------------------

    def _host_call(self, eqn: Eqn) -> None:
        function = _reference_call(eqn)
        inputs = self._operands(eqn.invars)
        name = eqn.primitive.name
        if eqn.primitive is contraction:
            name = eqn.params["name"]
        self.builder.add(HostCall(function, name, inputs, self._results(eqn)))

    def _same(self, eqn: Eqn) -> None:
        """Results that are the operands."""
        self.slots.update(zip(eqn.outvars, self._operands(eqn.invars), strict=True))

    def _inner(self, jaxpr: Jaxpr) -> Program:
        assembly = Assembly(jaxpr)
        program = assembly.program()
        self.groups += assembly.groups
        return program

    def _cond(self, eqn: Eqn) -> None:
        index, *operands = self._operands(eqn.invars)
        branches = tuple(self._inner(b) for b in eqn.params["branches"])
        self.builder.add(Cond(index, branches, tuple(operands), self._results(eqn)))

    def _loop_kernel(self, eqn: Eqn) -> bool:
        """Run a loop as one kernel, if it can be one."""
        try:
            code = loop_code(eqn)
        except NotAKernelError:
            return False
        self.groups.append((eqn, code))
        inputs = dict.fromkeys(x for x in eqn.invars if not isinstance(x, Literal))
        results = self._results(eqn)
        for kernel in code.kernels:
            self._launch(kernel, self._operands(list(inputs)), results)
        return True

    def _cumulative(self, eqn: Eqn) -> None:
        if not self._loop_kernel(eqn):
            self._host_call(eqn)

    def _while(self, eqn: Eqn) -> None:
        if self._loop_kernel(eqn):
            return
        params = eqn.params
        cond, body = self._inner(params["cond"]), self._inner(params["body"])
        slots = self._operands(eqn.invars)
        first, second = params["cond_consts"], params["cond_consts"] + params["body_consts"]
        self.builder.add(
            While(
                cond, body, slots[:first], slots[first:second], slots[second:], self._results(eqn)
            )
        )

    def _scan(self, eqn: Eqn) -> None:
        if self._loop_kernel(eqn):
            return
        params = eqn.params
        body = self._inner(params["jaxpr"])
        slots = self._operands(eqn.invars)
        first = params["num_consts"]
        second = first + params["num_carry"]
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


_CONTROL_FLOW: dict[str, Callable[[Assembly, Eqn], None]] = {
    "cond": Assembly._cond,
    "while": Assembly._while,
    "scan": Assembly._scan,
    "optimization_barrier": Assembly._same,
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin"), Assembly._cumulative),
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
