"""From a fused group to machine code that a program launches.

What enters: the program of a ``fused`` group.  What leaves: a :class:`GroupCode`, the launches that
compute it, in terms of the group's own arrays: its inputs, its results, and temporaries between its
kernels.  It is remembered on the group's program, which equal groups share, and the machine code by
its text, which groups that differ in sizes alone share.

What contractions and loops need is imported with the first one.

Start at :func:`group_code`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from functrax.backends.compilation.pipeline import SCHEDULE
from functrax.backends.compilation.refusals import (
    constant_of,
    updates_own_value,
    without_instructions,
)
from functrax.backends.compile_log import found, step
from functrax.backends.dumps import dump, dumped
from functrax.backends.kernels.ir import Kernel, Operand, Store, ordered
from functrax.backends.kernels.lower import lower_group, read_inputs
from functrax.backends.kernels.refusal import Refusal
from functrax.backends.kernels.work import kernel_ns
from functrax.backends.llvm.emit import Emitted, emit_kernel
from functrax.backends.loops.strategies import scheduled_trees
from functrax.backends.loops.strategies.left_out import LeftOut
from functrax.backends.loops.tree import Function
from functrax.backends.machine_code.kernel_jit import Compiled, Request, machine, request
from functrax.backends.targets import schedule_target, target
from functrax.core.index.expr import Dim, IndexExpr
from functrax.core.ir.jaxpr import Eqn, Jaxpr, Literal, Var
from functrax.core.options.config import state as options
from functrax.core.options.option_text import limits, words
from functrax.core.prims.cumulative import Cumulative
from functrax.core.prims.mapped import reindex_reduce, scatter
from functrax.core.prims.reindex import broadcast_in_dim
from functrax.core.records import record, replace
from functrax.core.scalars.scalar import Scalar
from functrax.core.types.aval import ShapedArray
from functrax.core.types.symbolic_sizes import gcd

if TYPE_CHECKING:
    from functrax.backends.gemm.lower_contraction import Pick
    from functrax.backends.gemm.shared_arrays import Arrays


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
      arrays: which arrays of its group it reads and writes; None of all inputs, and all others.
    """

    kernel: Kernel
    units: int
    emitted: Emitted
    request: Request
    calls: tuple[Request, ...]
    cost: int
    in_place: tuple[tuple[int, int], ...] = ()
    arrays: Arrays | None = None

    @property
    def compiled(self) -> Compiled:
        """Its machine code."""
        return self.request.compiled

    @property
    def called(self) -> tuple[tuple[int, Compiled], ...]:
        """The places of addresses among its run-time arguments, and the functions there."""
        places = [place for place, _ in self.emitted.calls]
        return tuple(zip(places, [x.compiled for x in self.calls], strict=True))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The run-time arguments, with the addresses of the functions that it calls."""
        numbers = list(self.emitted.numbers)
        for place, code in self.called:
            numbers[place] = code.address
        return tuple(numbers)


@record
class GroupCode:
    """What computes a group.

    Arrays are numbered: the inputs of the group, its results, then ``temporaries``.

    Args:
      temporaries: arrays between its kernels.
      copies: pairs (from, to) of arrays that are copied first.
      kernels: what runs, in order; each takes the inputs that are read, and all other arrays,
        unless it says itself which it takes.
      inputs: the numbers of the inputs that are read.
      fill: what runs before: it fills the last result, which it takes alone.
    """

    temporaries: tuple[Operand, ...]
    copies: tuple[tuple[int, int], ...]
    kernels: tuple[KernelCode, ...]
    inputs: tuple[int, ...]
    fill: KernelCode | None = None


def group_code(jaxpr: Jaxpr, name: str) -> GroupCode | Refusal:
    """The code of a group, made the first time, or why it does not fit the form of a kernel."""
    return _remembered(jaxpr, name, _group_code)


def contraction_code(jaxpr: Jaxpr, name: str) -> GroupCode | Refusal:
    """The code of a contraction, made the first time.

    It is refused if it is not one sum of one product, or other loops do it better.
    """
    return _remembered(jaxpr, name, _contraction_code)


def _remembered(
    jaxpr: Jaxpr, name: str, make: Callable[[Jaxpr, str], GroupCode | Refusal]
) -> GroupCode | Refusal:
    """The code that a function makes of a group, or why it has none: kept with its program."""
    key = (make, options.strict, options.schedule_off, options.opt_limit, options.autotune)
    known: GroupCode | Refusal | None = jaxpr.memo.get(key)
    if known is None:
        known = jaxpr.memo[key] = make(jaxpr, name)
    elif isinstance(known, GroupCode):
        for _ in known.kernels:
            found("memory")
    return known


def _contraction_code(jaxpr: Jaxpr, name: str) -> GroupCode | Refusal:
    from functrax.backends.gemm.lower_contraction import contraction_kernels
    from functrax.backends.gemm.shared_arrays import with_own_arrays

    pick = _measured() if options.autotune == "on" else None
    with step("lower", name):
        kernels = contraction_kernels(jaxpr, name, schedule_target(), _left_out().kinds, pick)
        if isinstance(kernels, Refusal):
            return kernels
        refusal = without_instructions(kernels)
    if refusal is not None:
        return refusal
    known = len(jaxpr.invars) + len(jaxpr.outvars)
    operands = list(enumerate(kernels[-1].operands))
    own = [n for n, o in operands[known:] if not o.scratch and o.alias is None]
    number = {n: k for k, n in enumerate((*range(known), *own))}
    codes = []
    for kernel in kernels:
        plain, arrays = with_own_arrays(kernel)
        read, written = (tuple([number[n] for n in x]) for x in arrays)
        codes += [replace(x, arrays=(read, written)) for x in _kernel_codes(plain)]
    temporaries = tuple([kernels[-1].operands[n] for n in own])
    return GroupCode(temporaries, (), tuple(codes), tuple(range(len(jaxpr.invars))))


def _measured() -> Pick:
    """What chooses plans by measurement."""
    from functrax.backends.compilation.autotune import fastest

    return fastest


def _group_code(jaxpr: Jaxpr, name: str) -> GroupCode | Refusal:
    if updates_own_value(jaxpr):
        return Refusal("a scatter into a value that its own kernel computes")
    with step("lower", name):
        lowered = lower_group(jaxpr, name, options.strict, "parts" not in _left_out().kinds)
        if isinstance(lowered, Refusal):
            return lowered
        refusal = without_instructions(lowered)
    if refusal is not None:
        return refusal
    codes = [code for kernel in lowered for code in _kernel_codes(kernel)]
    copies, fill = _before_update(jaxpr)
    inputs = read_inputs(jaxpr)
    known = len(inputs) + len(jaxpr.outvars)
    temporaries = [o for o in codes[-1].kernel.operands[known:] if not o.scratch]
    return GroupCode(tuple(temporaries), copies, tuple(codes), inputs, fill)


def _left_out() -> LeftOut:
    """What schedules do without (the options ``schedule_off`` and ``opt_limit``)."""
    limit = limits(options.opt_limit).get(SCHEDULE) if options.opt_limit else None
    return LeftOut(words(options.schedule_off), limit)


def loop_code(eqn: Eqn) -> GroupCode | Refusal:
    """The code of a loop, or of a cumulative operation, as one kernel.

    It is refused if the points of a loop depend on one another, or a step is too large.
    """
    from functrax.backends.kernels.interchanged_loops import lower_loop
    from functrax.backends.kernels.lower_cumulative import lower_cumulative

    with step("lower", eqn.primitive.name):
        if isinstance(eqn.primitive, Cumulative):
            lowered = lower_cumulative(eqn)
        else:
            lowered = lower_loop(eqn, options.strict)
        if isinstance(lowered, Refusal):
            return lowered
        kernel = lowered.kernel
        refusal = without_instructions([kernel])
    if refusal is not None:
        return refusal
    known = len(kernel.operands)
    codes = _kernel_codes(kernel)
    temporaries = tuple([o for o in codes[-1].kernel.operands[known:] if not o.scratch])
    number = {x: n for n, x in reversed(list(enumerate(eqn.invars)))}
    copies = tuple((number[x], len(eqn.invars) + k) for x, k in lowered.copies)
    reads = tuple(number[x] for x in lowered.reads)
    return GroupCode(temporaries, copies, tuple(codes), reads)


def _kernel_codes(kernel: Kernel) -> list[KernelCode]:
    """The code of a kernel, which may be several that run one after the other."""
    look = _verified if options.check else None
    with step("schedule", kernel.name):
        found = scheduled_trees(kernel, schedule_target(), _left_out(), look)
    codes = []
    for part, tree in found:
        if dumped("kernels"):
            from functrax.backends.loops.text import text  # which few programs need

            dump("kernels", part.name, "kernel", f"{part}\n\n{text(tree)}")
        codes.append(_kernel_code(part, tree))
    return codes


def _verified(tree: Function) -> None:
    from functrax.backends.loops.tree_verifier import verify as check  # which few programs need

    check(tree)


def _kernel_code(
    kernel: Kernel,
    tree: Function,
) -> KernelCode:
    """The code of one kernel, whose tree is emitted."""
    with step("emit", kernel.name):
        emitted = emit_kernel(tree, not options.strict)
    modules = [emitted.text, *dict(emitted.calls).values()]
    if dumped("llvm"):
        dump("llvm", kernel.name, "llvm", "\n".join(modules))
    with step("llvm", kernel.name):
        asked = request(emitted.text, kernel.name)
        calls = tuple(request(text, kernel.name) for _, text in emitted.calls)
    if dumped("asm"):
        dump("asm", kernel.name, "asm", "\n".join(map(machine().assembly, modules)))
    cost, in_place = kernel_ns(kernel, target()), _in_place(kernel, tree)
    return KernelCode(kernel, tree.units, emitted, asked, calls, cost, in_place)


def _in_place(kernel: Kernel, tree: Function) -> tuple[tuple[int, int], ...]:
    """Pairs (written, read) of arrays of which each element is read where it is written, before."""
    if kernel.inner or tree.tile is not None:
        return ()
    written = [s.buffer for s in kernel.rows]
    if len(set(written)) != len(written):
        return ()
    one_point = len(written) == 1 and math.prod(kernel.extents[d] for d in kernel.outer) == 1
    places: dict[int, set[Any]] = {}
    loads: dict[int, set[Scalar]] = {}
    for node in kernel.nodes():
        if node.op == "load":
            buffer, address, has_offset, _ = node.attr
            offset = node.args[0] if has_offset else None
            places.setdefault(buffer, set()).add((address, offset))
            loads.setdefault(buffer, set()).add(node)
    pairs = []
    loaded: dict[int, set[Scalar]] = {}  # by the stores so far
    for store in kernel.rows:
        roots = (x for x in (store.value, store.offset, store.guard) if x is not None)
        for node in ordered(roots):
            if node.op == "load":
                loaded.setdefault(node.attr[0], set()).add(node)
        for i, done in loaded.items():
            if len(done) != len(loads[i]):
                continue  # a later store reads the same element once more, under a condition say
            same = one_point or all(_own_element(kernel, store, *place) for place in places[i])
            if same and _alike(kernel.operands[i], kernel.operands[store.buffer]):
                pairs.append((store.buffer, i))
    return tuple(pairs)


def _own_element(kernel: Kernel, store: Store, address: IndexExpr, offset: Scalar | None) -> bool:
    """Whether no point reads here what another point stores."""
    if address != store.address:
        return False  # by the same loops, so that equal places are of one point
    if offset is None or store.offset is None:
        return offset is store.offset
    if _same_value(offset, store.offset, {}):
        return True
    # Rows of any number: points differ in their places inside a row.
    steps = {a.number: c for a, c in address.terms if isinstance(a, Dim)}
    inside = sum(abs(c) * (kernel.extents[d] - 1) for d, c in steps.items())
    return inside < gcd(_multiple(offset), _multiple(store.offset))


def _same_value(x: Scalar, y: Scalar, known: dict[tuple[int, int], bool]) -> bool:
    """Whether two values are one wherever both are wanted: loads differ in their guards alone."""
    if x is y:
        return True
    if x.op != y.op or x.dtype != y.dtype:
        return False
    key = (id(x), id(y))
    if key not in known:
        operands = list(zip(x.args, y.args))
        same = x.attr == y.attr and len(x.args) == len(y.args)
        if x.op == "load":  # the place, an offset if there is one, and perhaps a guard
            operands = operands[: x.attr[2]]
            same = x.attr[:3] == y.attr[:3]
        known[key] = same and all(_same_value(a, b, known) for a, b in operands)
    return known[key]


def _multiple(x: Scalar) -> int:
    """A number that an integer is a multiple of."""
    if x.op == "mul" and x.args[1].op in ("int", "const"):
        value: int = x.args[1].attr
        return abs(value)
    return 1


def _alike(x: Operand, y: Operand) -> bool:
    return x.size == y.size and x.dtype.itemsize == y.dtype.itemsize


def _before_update(jaxpr: Jaxpr) -> tuple[tuple[tuple[int, int], ...], KernelCode | None]:
    """What the result of a scatter holds before: a copy of its operand, or one number."""
    last = jaxpr.eqns[-1]
    result = len(jaxpr.invars)
    if last.primitive is reindex_reduce:
        how = reindex_reduce.reduction(last.invars[0].aval, **last.params)
        assert how.identity is not None
        return (), _fill_code(last.outvars[0], how.identity[0])
    if last.primitive is not scatter:
        return (), None
    operand = last.invars[0]
    if operand in jaxpr.invars:
        return ((jaxpr.invars.index(operand), result),), None
    return (), _fill_code(last.outvars[0], constant_of(jaxpr, operand))


def _fill_code(out: Var, value: Any) -> KernelCode:
    """A kernel that fills an array with a number."""
    result = Var(out.aval)
    number = Literal(np.asarray(value, out.aval.dtype), ShapedArray((), out.aval.dtype))
    eqn = Eqn(broadcast_in_dim, (number,), (result,), {"shape": out.aval.shape, "dims": ()})
    lowered = lower_group(Jaxpr((), (), (result,), (eqn,), "fill"), "fill")
    assert not isinstance(lowered, Refusal), "a broadcast number is a kernel"
    (code,) = _kernel_codes(*lowered)
    return code
