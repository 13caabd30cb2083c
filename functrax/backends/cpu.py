"""The CPU device: programs are compiled to machine code.

Operations outside ``jit`` are recorded and run together (``backends/eager``).  One that is run
by itself is run by the reference device's rules, and in strict mode as a program of one equation
(``backends/eager/single_operations.py``).  The compiler is imported with the first program, for
``import functrax`` is a part of the start of programs that need none.

Start at :class:`CpuDevice`.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrax.backends import eager as eager
from functrax.backends.cache import MEMBERS, preload
from functrax.backends.device import Device, Executable, executable_of, register
from functrax.backends.eager import single_operations
from functrax.backends.reference import nan_check
from functrax.backends.reference.reference_device import ReferenceDevice, in_numpy
from functrax.backends.runtime.choice import load
from functrax.core.events import monitoring
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.options.config import compile_context, state as options
from functrax.core.process.gc_pause import paused
from functrax.core.tracing.primitive import Primitive
from functrax.core.tracing.trace import current_source

if TYPE_CHECKING:
    from functrax.backends.cache.size_generic import Families, Member
    from functrax.backends.compilation.compiler import CompiledProgram
    from functrax.backends.executables.program import RuntimeProgram

_reference = ReferenceDevice()


class CpuDevice(Device):
    """Compiles programs for this machine's processor."""

    name = "cpu"
    is_recorded = True

    def __init__(self) -> None:
        self._families: Families | None = None
        #: The first programs, with the options that they were compiled under.
        self._earlier: list[tuple[Any, weakref.ref[Jaxpr], weakref.ref[RuntimeProgram]]] = []

    def forget_families(self) -> None:
        """Forget which programs differ in sizes alone, and their plans."""
        self._families = None
        self._earlier = []

    def compile(self, jaxpr: Jaxpr) -> Executable:
        if self._memo_key() in jaxpr.memo:
            return load(self.compiled(jaxpr).program)
        with monitoring.timed(monitoring.COMPILE, jaxpr.name):
            if nan_check.enabled():
                return load(self.compiled(jaxpr).program)
            return load(self._program(jaxpr))

    def _program(self, jaxpr: Jaxpr) -> RuntimeProgram:
        """A program: by a plan for all of its sizes, else from disk, else compiled."""
        from functrax.backends.cache import program_cache

        member = self._member(jaxpr)
        program = None if member is None else member.planned()
        if program is not None:
            program_cache.remember_source(program, jaxpr)
            jaxpr.memo["planned"] = True
            return program
        program = program_cache.find(jaxpr)
        if program is None and member is not None:
            program = member.plan(lambda: self.compiled(jaxpr).program)
            if program is not None:
                program_cache.remember_source(program, jaxpr)
                return program
        if program is None:
            program = self.compiled(jaxpr).program
        if member is not None:
            member.add(program)
        elif self._families is None and len(self._earlier) < MEMBERS - 1:
            self._earlier.append((compile_context(), weakref.ref(jaxpr), weakref.ref(program)))
        return program

    def _member(self, jaxpr: Jaxpr) -> Member | None:
        """A program as one of those that differ from it in sizes alone, if it is one.

        A process that compiles few programs does not import what makes plans.
        """
        from functrax.backends.cache.program_cache import shown

        if not options.plans or options.memory_budget or shown():
            return None
        if self._families is None:
            if len(self._earlier) < MEMBERS - 1:
                return None
            from functrax.backends.cache.size_generic import Families

            self._families = Families()
            for context, of_jaxpr, of_program in self._earlier:
                before, program = of_jaxpr(), of_program()
                if before is None or program is None or context != compile_context():
                    continue
                known = self._families.member(before)
                if known is not None:
                    known.add(program)
        return self._families.member(jaxpr)

    def compiled(self, jaxpr: Jaxpr) -> CompiledProgram:
        """A program compiled, with all that is known about it; remembered on the program."""
        guarded = nan_check.enabled()
        key = self._memo_key()
        found: CompiledProgram | None = jaxpr.memo.get(key)
        if found is None:
            preload.compiling()
            from functrax.backends.compilation.compiler import compile_program

            with paused():
                found = jaxpr.memo[key] = compile_program(jaxpr, guarded=guarded)
            if not guarded:
                from functrax.backends.cache import program_cache

                program_cache.keep(jaxpr, found.program)
        return found

    def _memo_key(self) -> tuple[Any, ...]:
        return ("compiled", nan_check.enabled(), compile_context())

    def apply(self, primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
        values = [in_numpy(x) for x in values]
        if primitive.is_call and not nan_check.enabled():
            program = primitive.inlines(params)
            assert program is not None
            return executable_of(program)(values)
        with np.errstate(all="ignore"):
            if options.strict:
                out = single_operations.run(primitive, values, params, _compiled_once)
            else:
                out = single_operations.by_rule(primitive, values, params)
        if nan_check.enabled():
            nan_check.blame(primitive, values, out, params, _reference.apply)
            nan_check.check(primitive, values, out, current_source())
        return out


def _compiled_once(jaxpr: Jaxpr) -> Executable:
    """A program of one operation; its results are checked by the caller."""
    from functrax.backends.compilation.compiler import compile_program

    return load(compile_program(jaxpr).program)


register("llvm", CpuDevice())
