"""The road from a jaxpr to machine code, as one list of stages.

A pass takes a program without constants and returns an equal one (``backends/passes/``, one file
each): it prints, parses, and runs on the reference device.  Each group, contraction and loop of the
last one is lowered to kernels, which are scheduled, emitted as LLVM IR, and made machine code; the
instructions that launch them are assembled, and put into runs and into memory.  The driver is
``backends/compilation/stage.py``, the only place that names stages, times, verifies, limits, logs
and dumps.

Start at :data:`ROAD`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Final

from functrax.backends.compilation.assembly import ASSEMBLE, STORAGE
from functrax.backends.compilation.codegen import EMIT, LOWER, MACHINE_CODE, SCHEDULE
from functrax.backends.compilation.stage import (
    CompiledStages,
    PassResult,
    Stage,
    as_pass,
    run_stage,
)
from functrax.backends.dumps import dump, dumped
from functrax.backends.passes.algebra.simplify import simplify
from functrax.backends.passes.clean.compose import compose
from functrax.backends.passes.clean.constant_folding import constant_folding
from functrax.backends.passes.clean.cse import cse
from functrax.backends.passes.clean.dce import dce
from functrax.backends.passes.clean.inline import inline
from functrax.backends.passes.clean.multiply_adds import multiply_adds
from functrax.backends.passes.clean.pack import pack
from functrax.backends.passes.clean.widen import widen
from functrax.backends.passes.fusion.fuse import fuse
from functrax.backends.passes.groups import contraction
from functrax.backends.passes.rewrites import Rewrites
from functrax.backends.targets import target
from functrax.core.errors.typed import ArgumentError
from functrax.core.ir.jaxpr import Jaxpr, subjaxprs
from functrax.core.options.config import state as options
from functrax.core.options.option_text import levels, limits
from functrax.core.prims.control import ScanLoop
from functrax.core.prims.mapped import reindex, reindex_reduce
from functrax.core.prims.reduce import ReindexReduce
from functrax.core.prims.slicing import pad
from functrax.core.tracing.primitive import Opaque, Primitive


def _on_demand(
    module: str, name: str, concerns: Callable[[Primitive], bool]
) -> Callable[[Jaxpr, Rewrites], Jaxpr]:
    """A pass that changes only programs with certain primitives: the first one imports it.

    Args:
      module: of ``backends/passes/``.
      name: the function in it.
      concerns: whether a primitive is one of them.
    """
    path = f"functrax.backends.passes.{module}"

    def run(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
        if not any(map(concerns, _primitives(jaxpr))):
            return jaxpr
        after: Jaxpr = getattr(import_module(path), name)(jaxpr, rewrites)
        return after

    return run


def _primitives(jaxpr: Jaxpr) -> set[Primitive]:
    """The primitives of a program, for which passes that change nothing ask in turn."""
    found: set[Primitive] | None = jaxpr.memo.get("primitives")
    if found is None:
        found = jaxpr.memo["primitives"] = {eqn.primitive for eqn in jaxpr.eqns}
        if any(primitive.holds_programs for primitive in found):
            for eqn in jaxpr.eqns:
                if eqn.primitive.holds_programs:
                    found.update(*map(_primitives, subjaxprs(eqn)))
    return found


def _is_opaque_on_a_gpu(primitive: Primitive) -> bool:
    return isinstance(primitive, Opaque) and target().libraries


def _is_contraction(primitive: Primitive) -> bool:
    return primitive is contraction


def _is_reduction(primitive: Primitive) -> bool:
    return isinstance(primitive, ReindexReduce)


def _is_gather(primitive: Primitive) -> bool:
    return primitive is reindex or primitive is reindex_reduce


def _is_sum_at_places(primitive: Primitive) -> bool:
    return primitive is reindex_reduce


def _is_pad(primitive: Primitive) -> bool:
    return primitive is pad


def _is_scan(primitive: Primitive) -> bool:
    return isinstance(primitive, ScanLoop)


device_forms = _on_demand("clean.device_forms", "device_forms", _is_opaque_on_a_gpu)
split_loops = _on_demand("clean.split_loops", "split_loops", _is_scan)
pieces = _on_demand("clean.pieces", "pieces", _is_pad)
spread = _on_demand("clean.spread", "spread", _is_reduction)
recognise = _on_demand("contractions.recognise", "recognise", _is_reduction)
gathers = _on_demand("contractions.gathers", "gathers", _is_gather)
repeats = _on_demand("contractions.repeats", "repeats", _is_contraction)
batch = _on_demand("contractions.batch", "batch", _is_contraction)
share = _on_demand("contractions.added_products", "share", _is_contraction)
join = _on_demand("contractions.added_products", "join", _is_contraction)
orient = _on_demand("contractions.orientation", "orient", _is_contraction)
accumulate = _on_demand("clean.accumulate", "accumulate", _is_sum_at_places)

#: Every stage, in order.
ROAD: Final = (
    as_pass("inline", inline, required=True),  # calls are inlined
    as_pass("device_forms", device_forms),  # what NVIDIA's libraries compute, in their form
    as_pass("constant_folding", constant_folding),  # constants are folded
    as_pass("split", split_loops, reorders=True),  # loops are distributed: what needs none leaves
    as_pass("simplify", simplify),  # exact algebraic simplification
    as_pass("gathers", gathers, reorders=True),  # products of rows that are looked up
    as_pass("pieces", pieces, reorders=True),  # sums of padded arrays are put together
    as_pass("compose", compose),  # index maps are composed
    as_pass("widen", widen),  # narrow floats are added up in wider ones
    as_pass("cse", cse),  # common subexpression elimination
    as_pass("spread", spread, reorders=True),  # repeated rows are reduced once
    as_pass("recognise", recognise, reorders=True),  # sums of products become contractions
    as_pass("repeats", repeats, reorders=True),  # repeated elements are multiplied once
    as_pass("batch", batch, reorders=True),  # products that share an operand become one
    as_pass("orient", orient, reorders=True),  # contractions give results in the order wanted
    as_pass("share", share, reorders=True),  # products with a side in common become one
    as_pass("join", join, reorders=True),  # products that are added up become one
    as_pass("accumulate", accumulate, reorders=True),  # few elements are added where they belong
    as_pass("pack", pack),  # in strict mode, operands of sums lie in the order of reading
    as_pass("dce", dce),  # dead code elimination
    as_pass("fma", multiply_adds),  # fused multiply-adds
    as_pass("fuse", fuse),  # equations share kernels
    LOWER,  # a group, a contraction or a loop becomes kernels
    SCHEDULE,  # the loops of a kernel are rewritten
    EMIT,  # they become LLVM IR
    MACHINE_CODE,  # and that machine code
    ASSEMBLE,  # launches of kernels, loops and calls become a program of the runtime
    STORAGE,  # which is put into runs, and its arrays into memory
)
#: The passes.
PIPELINE: Final = tuple([stage for stage in ROAD if stage.kind == "passes"])
#: Passes that an option adds: rematerialization (``backends/compilation/compiler.py``).
ADDED: Final = ("rematerialize",)


def run_pipeline(
    jaxpr: Jaxpr,
    passes: Sequence[Stage] | None = None,
    rewrite_limits: Mapping[str, int] | None = None,
) -> CompiledStages:
    """Run the passes on a program.

    Args:
      jaxpr: a program without constants.
      passes: the passes, in order; those of :data:`PIPELINE` if None.
      rewrite_limits: how many rewrites a pass may make; from the option ``opt_limit`` if None.

    Returns:
      The program after each pass, with times and numbers of rewrites.

    Raises:
      ArgumentError: if the options name a stage that there is not.
      VerificationError: if the option ``check`` is on and a pass broke a rule of the language.
    """
    if passes is None:
        passes = PIPELINE
    if options.opt_limit or options.log:
        _check_names("opt_limit", limits(options.opt_limit), passes)
        _check_names("log", levels(options.log), passes)
    if dumped("jaxpr"):
        dump("jaxpr", jaxpr.name, "source", str(jaxpr))
    program, results = jaxpr, list[PassResult]()
    for stage in passes:
        if not stage.is_left_out:
            program = run_stage(stage, program, jaxpr.name, rewrite_limits, results)
    if dumped("groups"):
        dump("groups", jaxpr.name, "groups", str(program))
    return CompiledStages(jaxpr, tuple(results))


def _check_names(option: str, given: Mapping[str, int], passes: Sequence[Stage]) -> None:
    known = {*ADDED, *[stage.name for stage in (*ROAD, *passes)]}
    unknown = sorted(given.keys() - known)
    if unknown:
        raise ArgumentError(
            f"config: {option}: unknown pass",
            got=", ".join(unknown),
            fix="one of " + ", ".join(sorted(known)),
        )
