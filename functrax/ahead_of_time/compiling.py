"""A program compiled for a target, with the texts of its kernels instead of machine code.

What enters is a :class:`~functrax.core.ir.jaxpr.Jaxpr`; what leaves is the compiler's record, whose
launches own :class:`~functrax.backends.machine_code.kernel_jit.KernelText` s.  Whatever a program
calls that is not its own code stays behind in this process, so such programs are refused.

Start at :func:`compiled_for`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from functrax.ahead_of_time.cuda.targets import gpu_named, is_gpu
from functrax.backends.compilation.assembly import Work
from functrax.backends.compilation.compiler import CompiledProgram, compile_program
from functrax.backends.compilation.provenance import Members
from functrax.backends.device import device_on, running_on
from functrax.backends.executables.program import HostCall, Instruction, Launch
from functrax.backends.machine_code.kernel_jit import KernelText, LaunchCode, texts_kept
from functrax.backends.targets import Target, host, making_for
from functrax.backends.targets.detect import named
from functrax.core.errors.source import SourceLine
from functrax.core.errors.typed import UnavailableError
from functrax.core.ir.jaxpr import Eqn, Jaxpr, Literal
from functrax.core.options.config import Override
from functrax.core.process.gc_pause import paused


def target_named(name: str | None) -> Target:
    """The target of a name; None is this machine.

    The matrix unit of this machine is left out: a process must ask the system for it.

    Raises:
      ArgumentError: there is none of that name.
    """
    if name is not None:
        return gpu_named(name) if is_gpu(name) else named(name)
    this = host()
    return replace(this, dots=frozenset(x for x in this.dots if not x.startswith("tile ")))


def compiled_for(jaxpr: Jaxpr, target: Target) -> CompiledProgram:
    """A program without constants compiled for a target; its launches own texts.

    Raises:
      UnavailableError: it calls what does not leave this process.
    """
    with (
        running_on(device_on("cpu")),
        Override("autotune", "off"),
        making_for(target),
        texts_kept(),
        paused(),
    ):
        compiled = compile_program(jaxpr)
    for work in compiled.works:
        _check(work, jaxpr.name, target)
    return compiled


def _is_known(eqn: Eqn) -> bool:
    """Whether the results of an equation are known without running the program.

    Reductions of arrays without elements are, and what has no elements itself.
    """
    sizes = [x.aval.size for x in eqn.invars if not isinstance(x, Literal)]
    return eqn.primitive.pure and not (any(sizes) and any(v.aval.size for v in eqn.outvars))


def _check(work: Work, name: str, target: Target) -> None:
    """Refuse a call of what is not code of the program itself."""
    for x in work.instructions:
        if isinstance(x, HostCall):
            if _is_known(work.eqn):
                continue
            why = "a function of Python"
        elif isinstance(x, Launch) and not (is_gpu(target.cpu) or _is_text(x)):
            why = "a function of a library that this process has loaded"
        else:
            continue
        raise UnavailableError(
            f"aot: {work.eqn.primitive.name} is not compiled to code of its own for {target.name}",
            got=f"{name} calls {why}, {x.name}",
            fix="leave this operation to the caller: give its result to the function",
            where=work.eqn.source,
        )


def _is_text(x: Launch) -> bool:
    return isinstance(x.owner, LaunchCode) and isinstance(x.owner.kernel, KernelText)


def lines_of(compiled: CompiledProgram) -> Mapping[Instruction, SourceLine]:
    """The user's line that each instruction computes; of several the last."""
    members, found = Members(compiled.stages), dict[Instruction, SourceLine]()
    for work in compiled.works:
        sources = [eqn.source for eqn in members.of(work.eqn) if eqn.source is not None]
        if sources:
            found |= dict.fromkeys(work.instructions, sources[-1])
    return found
