"""From a group to machine code that a program launches.

What enters: an equation that may be kernels.  What leaves: a :class:`GroupCode`, the launches that
compute it, in terms of its own arrays: its operands, its results, and temporaries between its
kernels.  Machine code is remembered by its text, which groups that differ in sizes alone share.

The stages of this part of the road are :data:`LOWER`, :data:`SCHEDULE`, :data:`EMIT` and
:data:`MACHINE_CODE`.  Start at :func:`group_code`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Final

from functrax.backends.compilation.lowering import LoweredGroup, lower, without_schedules
from functrax.backends.compilation.overwriting import overwrites
from functrax.backends.compilation.stage import Stage, run_stage
from functrax.backends.executables.program import Aliases, Launch
from functrax.backends.kernels.ir import Kernel, Operand
from functrax.backends.kernels.refusal import Refusal
from functrax.backends.kernels.work import kernel_ns
from functrax.backends.llvm.emit import Emitted, emit_kernel
from functrax.backends.loops.strategies.schedule import LeftOut, scheduled_trees
from functrax.backends.loops.tree import Function
from functrax.backends.machine_code.code_generator import generator, generator_for
from functrax.backends.machine_code.kernel_jit import LaunchCode, Request, request, side_by_side
from functrax.backends.passes.rewrites import Rewrites
from functrax.backends.targets import schedule_target, target
from functrax.core.ir.jaxpr import Eqn
from functrax.core.options.config import flushes_subnormals, state as options
from functrax.core.records import record, replace

if TYPE_CHECKING:
    from functrax.backends.gemm.shared_arrays import Arrays
    from functrax.backends.ptx.code import DeviceCode
    from functrax.backends.ptx.emit import DeviceKernel


@record
class KernelCode:
    """A kernel ready to be launched.

    Args:
      kernel: what it computes, and its schedule.
      units: how many units of work threads share.
      emitted: its text and its run-time arguments.
      request: its machine code, which may not be made yet.
      calls: the machine code of the functions that it calls, in the order of ``emitted.calls``.
      cost: estimated nanoseconds on one thread.
      in_place: pairs (written, read) of arrays that may share memory, by their numbers in it.
      arrays: the numbers of the group's arrays that it reads, and of those that it writes.
      begins: the bytes of each of them that are before what it takes; empty if there are none.
    """

    kernel: Kernel
    units: int
    emitted: Emitted
    request: Request
    calls: tuple[Request, ...]
    cost: int
    in_place: tuple[tuple[int, int], ...] = ()
    arrays: Arrays = ((), ())
    begins: tuple[int, ...] = ()

    def modules(self) -> list[str]:
        """Its LLVM IR and that of the functions that it calls."""
        return modules(self.emitted)

    def assembly(self) -> list[str]:
        """The same as assembly."""
        return [generator().assembly(text) for text in self.modules()]

    def launch(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Launch:
        """The instruction that runs it on some slots; the machine code is made now."""
        code, numbers, called = self.request.compiled, list(self.emitted.numbers), []
        for (place, _), call in zip(self.emitted.calls, self.calls, strict=True):
            numbers[place] = call.compiled.address
            called.append((place, call.compiled))
        return Launch(
            code.address,
            self.kernel.name,
            inputs,
            outputs,
            tuple(numbers),
            self.units,
            self.cost,
            aliases=() if self.begins else _aliases(self.in_place, len(inputs)),
            owner=LaunchCode(code, tuple(called)),
            begins=self.begins,
        )


def _aliases(in_place: tuple[tuple[int, int], ...], inputs: int) -> Aliases:
    """Pairs (written, read) of a kernel's arrays as pairs of its outputs and its inputs."""
    return tuple([(j - inputs, i) for j, i in in_place if i < inputs <= j])


@record
class GroupCode:
    """What computes a group.

    Arrays are numbered: the operands of the group, its results, then ``temporaries``.

    Args:
      temporaries: arrays between its kernels.
      copies: pairs (from, to) of arrays that are copied first.
      kernels: what runs, in order.
      fill: what runs before: it fills the last result, which it takes alone.
    """

    temporaries: tuple[Operand, ...]
    copies: tuple[tuple[int, int], ...]
    kernels: tuple[KernelCode | DeviceKernelCode, ...]
    fill: KernelCode | DeviceKernelCode | None = None


def group_code(eqn: Eqn) -> GroupCode | Refusal:
    """The code of a group, a contraction, a loop or a cumulative operation.

    It is refused if it does not fit the form of a kernel, or other ways are better.
    """
    name = eqn.params.get("name", eqn.primitive.name)
    lowered: LoweredGroup | Refusal = run_stage(LOWER, eqn, name)
    if isinstance(lowered, Refusal):
        return lowered
    known_codes: dict[int, list[KernelCode | DeviceKernelCode]] = {}
    for kernel in lowered.kernels:
        if id(kernel) not in known_codes:
            known_codes[id(kernel)] = kernel_codes(kernel)
    made = [known_codes[id(kernel)] for kernel in lowered.kernels]
    temporaries, arrays = lowered.temporaries, lowered.arrays
    if not arrays:  # all take all
        known = len(lowered.reads) + len(eqn.outvars)
        temporaries = tuple([o for o in made[-1][-1].kernel.operands[known:] if not o.scratch])
        written = range(len(eqn.invars), len(eqn.invars) + len(eqn.outvars) + len(temporaries))
        arrays = [(lowered.reads, tuple(written))] * len(made)
    else:
        first = len(eqn.invars) + len(eqn.outvars)
        temporaries, arrays = _with_temporaries(lowered, made, first)
    begins = lowered.begins or [()] * len(made)
    codes = [
        replace(x, arrays=y, begins=z)
        for some, y, z in zip(made, arrays, begins, strict=True)
        for x in some
    ]
    fill = None if lowered.fill is None else kernel_codes(lowered.fill)[0]
    return GroupCode(temporaries, lowered.copies, tuple(codes), fill)


def _with_temporaries(
    lowered: LoweredGroup, made: Sequence[Sequence[KernelCode | DeviceKernelCode]], first: int
) -> tuple[tuple[Operand, ...], list[Arrays]]:
    """All temporaries, of which the first one has a number, and what each kernel's codes take.

    Schedules append those between the parts of a kernel to its arrays.
    """
    temporaries, arrays = list(lowered.temporaries), []
    for some, (read, written) in zip(made, lowered.arrays, strict=True):
        others = some[-1].kernel.operands[len(read) + len(written) :]
        more = [o for o in others if not o.scratch and o.alias is None]
        begin = first + len(temporaries)
        temporaries += more
        arrays.append((read, (*written, *range(begin, begin + len(more)))))
    return tuple(temporaries), arrays


@record
class DeviceKernelCode:
    """A kernel of a GPU ready to be launched.

    Args:
      kernel: what it computes, and its schedule.
      units: how many units of work groups of threads share.
      code: its PTX.
      cost: estimated nanoseconds on one thread of the host.
      in_place: pairs (written, read) of arrays that may share memory, by their numbers in it.
      arrays: the numbers of the group's arrays that it reads, and of those that it writes.
      begins: the bytes of each of them that are before what it takes; empty if there are none.
    """

    kernel: Kernel
    units: int
    code: DeviceCode
    cost: int
    in_place: tuple[tuple[int, int], ...] = ()
    arrays: Arrays = ((), ())
    begins: tuple[int, ...] = ()

    def modules(self) -> list[str]:
        """Its LLVM IR."""
        return [self.code.llvm]

    def assembly(self) -> list[str]:
        """Its PTX."""
        return [self.code.own_ptx]

    def launch(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Launch:
        """The instruction that runs it on some slots."""
        return Launch(
            id(self.code),
            self.kernel.name,
            inputs,
            outputs,
            self.code.numbers,
            self.units,
            self.cost,
            aliases=() if self.begins else _aliases(self.in_place, len(inputs)),
            owner=self.code,
            begins=self.begins,
        )


def kernel_codes(kernel: Kernel) -> list[KernelCode | DeviceKernelCode]:
    """The code of a kernel, which may be several that run one after the other."""
    codes: list[KernelCode | DeviceKernelCode] = []
    for part, tree in run_stage(SCHEDULE, kernel, kernel.name):
        codes.append(_kernel_code(part, tree))
    return codes


def _kernel_code(kernel: Kernel, tree: Function) -> KernelCode | DeviceKernelCode:
    """The code of a kernel that is scheduled."""
    emitted: Emitted | DeviceKernel = run_stage(EMIT, tree, kernel.name)
    _, made = run_stage(MACHINE_CODE, (kernel.name, emitted), kernel.name)
    cost = kernel_ns(kernel, target())
    if not isinstance(emitted, Emitted):
        in_place = overwrites(kernel, tree) if tree.group == 1 else ()
        return DeviceKernelCode(kernel, tree.units, made, cost, in_place)
    code, *calls = made
    in_place = overwrites(kernel, tree)
    return KernelCode(kernel, tree.units, emitted, code, tuple(calls), cost, in_place)


def _runs(kernel: Kernel, places: Sequence[int]) -> list[Callable[[], None]]:
    """Functions that run a kernel on arrays at some addresses, to measure it."""
    from functrax.backends.runtime.executor import bound_kernel  # which few programs need

    flushes = flushes_subnormals()
    return [
        partial(bound_kernel(code.launch((), ()), places, flushes), 0, code.units)
        for code in kernel_codes(kernel)
    ]


def _schedule(kernel: Kernel, rewrites: Rewrites) -> list[tuple[Kernel, Function]]:
    left_out = LeftOut(without_schedules(), rewrites.limit)
    return scheduled_trees(kernel, schedule_target(), left_out)


def _verify_trees(scheduled: list[tuple[Kernel, Function]]) -> None:
    from functrax.backends.loops.tree_verifier import verify  # which few programs need

    for _, tree in scheduled:
        verify(tree)


def _tree_texts(scheduled: list[tuple[Kernel, Function]]) -> Iterator[tuple[str, str]]:
    from functrax.backends.loops.text import kernel_text, text  # which few programs need

    for part, tree in scheduled:
        yield part.name, f"{kernel_text(part)}\n\n{text(tree)}"


def modules(emitted: Emitted | DeviceKernel) -> list[str]:
    """The texts of a kernel and of the functions that it calls, each once."""
    if not isinstance(emitted, Emitted):
        from functrax.backends.ptx.emit import module  # which only GPUs need

        return [module([emitted])]
    return [emitted.text, *dict(emitted.calls).values()]


def _emit(tree: Function, rewrites: Rewrites) -> Emitted | DeviceKernel:
    if not tree.group:
        return emit_kernel(tree, not options.strict)
    from functrax.backends.ptx.code import device_kernel  # which only GPUs need

    return device_kernel(tree, not options.strict)


def made_together() -> AbstractContextManager[None]:
    """A block at whose end machine code that is asked for in it is made, if not before."""
    if not target().warp:
        return side_by_side()
    from functrax.backends.ptx.modules import one_module  # which only GPUs need

    return one_module()


def _machine_code(
    asked: tuple[str, Emitted | DeviceKernel], rewrites: Rewrites
) -> tuple[Emitted | DeviceKernel, list[Request] | DeviceCode]:
    """The machine code of a kernel, and that of the functions that it calls; the PTX of one."""
    name, emitted = asked
    if not isinstance(emitted, Emitted):
        from functrax.backends.ptx.code import device_code  # which only GPUs need

        return emitted, device_code(emitted, target())
    texts = (emitted.text, *[text for _, text in emitted.calls])
    return emitted, [request(text, name) for text in texts]


def _assembly(
    made: tuple[Emitted | DeviceKernel, list[Request] | DeviceCode],
) -> Iterator[tuple[str, str]]:
    emitted, code = made
    if not isinstance(code, list):
        yield "", code.own_ptx
        return
    yield "", "\n".join(map(generator_for(target()).assembly, modules(emitted)))


LOWER: Final = Stage("lower", lambda eqn, _: lower(eqn, _runs))
SCHEDULE: Final = Stage(
    "schedule", _schedule, dumped="kernels", texts=_tree_texts, verify=_verify_trees
)
EMIT: Final = Stage(
    "emit",
    _emit,
    dumped="llvm",
    texts=lambda emitted: [("", "\n".join(modules(emitted)))],
)
MACHINE_CODE: Final = Stage("llvm", _machine_code, dumped="asm", texts=_assembly)
