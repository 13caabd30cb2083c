"""Ahead of time: ``f.lower(*args)`` is the program of a jitted function, ``.compile()`` its code.

Both are records that can be looked at; a :class:`Compiled` can also be called.  They stand for one
signature, and never trace again.  Start at :class:`Lowered`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from functrax.backends.compilation.compiler import CompiledProgram
from functrax.backends.device import Device, current_device
from functrax.backends.passes.fusion.kernel_groups import nbytes
from functrax.backends.passes.groups import Group
from functrax.backends.passes.memory.costs import Operations, operations, traffic
from functrax.backends.sharding.layouts import row_major
from functrax.backends.sharding.shardings import SingleDeviceSharding
from functrax.core.boundaries.tracebacks import with_boundaries
from functrax.core.errors.typed import ArgumentError, PyTreeError, ShapeError, UnavailableError
from functrax.core.events import monitoring
from functrax.core.ir.jaxpr import Eqn, Jaxpr, subjaxprs
from functrax.core.pytree.operations import PyTreeDef, tree_leaves, tree_map, tree_unflatten
from functrax.core.records import field, record
from functrax.core.tracing.inputs import concrete
from functrax.core.tracing.primitive import Value
from functrax.transforms.arguments.flat import flatten_args
from functrax.transforms.staging.jit_shardings import check_options
from functrax.transforms.staging.staged import Places, StagedFunction
from functrax.transforms.staging.traces import Traced, TraceSignature, argument_names

if TYPE_CHECKING:
    from functrax.transforms.hlo.hlo_module import HloProgram


@record
class MemoryAnalysis:
    """Bytes that a compiled program needs.

    Args:
      argument_size_in_bytes: of its inputs, the constants of the program included.
      output_size_in_bytes: of its results.
      temp_size_in_bytes: of its arena, in which values between kernels lie.
      peak_temp_size_in_bytes: of the values that are alive at one time, at most.
      alias_size_in_bytes: of results that may lie in the memory of donated inputs.
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    temp_size_in_bytes: int
    peak_temp_size_in_bytes: int
    alias_size_in_bytes: int


@record(eq=False)
@with_boundaries
class Lowered(StagedFunction):
    """The program of a function, for arguments of certain types.

    Args:
      name: of the function.
      function: the user's function.
      traced: the program.
      signature: the types of the arguments.
      bind: runs the program on values.
      places: where arguments and results lie.
    """

    name: str
    function: Callable[..., Any] = field(repr=False)
    traced: Traced = field(repr=False)
    signature: TraceSignature = field(repr=False)
    bind: Callable[[Sequence[Value]], Sequence[Value]] = field(repr=False)
    places: Places = field(repr=False)

    @property
    def jaxpr(self) -> Jaxpr:
        """The program; arrays that the function closes over are its leading inputs."""
        return self.traced.jaxpr

    def as_text(self, dialect: str | None = None, *, debug_info: bool = True) -> str:
        """The program as text.

        Args:
          dialect: ``"jaxpr"``, or None for it; ``"hlo"`` for XLA's language.
          debug_info: whether comments of a jaxpr give the user's lines and names.

        Raises:
          ArgumentError: for another dialect; it is a ValueError.
          UnavailableError: in HLO, for an operation that XLA has no instruction for.
        """
        program = self._in_dialect("as_text", dialect)
        if isinstance(program, Jaxpr):
            return program.as_text(source=debug_info)
        return program.as_hlo_text()

    def compiler_ir(self, dialect: str | None = None) -> Jaxpr | HloProgram:
        """The program itself.

        Args:
          dialect: ``"jaxpr"``, or None for it; ``"hlo"`` for XLA's language.

        Returns:
          The :class:`Jaxpr`; or, in HLO, an object whose ``as_hlo_text()`` XLA reads.

        Raises:
          ArgumentError: for another dialect; it is a ValueError.
          UnavailableError: in HLO, for an operation that XLA has no instruction for.
        """
        return self._in_dialect("compiler_ir", dialect)

    def _in_dialect(self, what: str, dialect: str | None) -> Jaxpr | HloProgram:
        if dialect in (None, "jaxpr"):
            return self.jaxpr
        if dialect != "hlo":
            raise ArgumentError(
                f"{what}: programs are not written in this dialect",
                got=repr(dialect),
                fix="'jaxpr' or 'hlo'",
            )
        from functrax.transforms.hlo.hlo_module import (
            hlo_program,  # few programs are asked for in HLO
        )

        names = argument_names(self.function, self.signature)
        return hlo_program(self.jaxpr, self.traced.consts, names, f"jit_{self.name}")

    def cost_analysis(self) -> dict[str, float]:
        """What the program costs if every equation is run by itself.

        Returns:
          ``"flops"``, ``"transcendentals"`` and ``"bytes accessed"``, as floats.
        """
        return _costs(self.jaxpr)

    def compile(
        self,
        compiler_options: dict[str, Any] | None = None,
        *,
        device_assignment: Sequence[Device] | None = None,
    ) -> Compiled:
        """Make machine code of the program.

        Args:
          compiler_options: as ``functrax.jit`` takes them.
          device_assignment: the devices to run on: the one there is, or None.

        Raises:
          UnavailableError: for a compiler option or devices that there are not.
        """
        check_options("compile", compiler_options)
        if device_assignment is not None and list(device_assignment) != [current_device()]:
            raise UnavailableError(
                "compile: the program runs on the one device there is",
                got=f"device_assignment={device_assignment!r}",
                fix="device_assignment=None",
            )
        with monitoring.timed(monitoring.COMPILE, self.name):
            return Compiled(self, current_device().compiler.compiled(self.jaxpr))


@record(eq=False)
@with_boundaries
class Compiled:
    """The compiled program of a function, which can be called.

    Args:
      lowered: the program.
      compiled: what the compiler made of it.
    """

    lowered: Lowered
    compiled: CompiledProgram = field(repr=False)

    @property
    def in_tree(self) -> PyTreeDef:
        """The structure of the arguments that are not static."""
        return self.lowered.in_tree

    @property
    def out_tree(self) -> PyTreeDef:
        """The structure of the results."""
        return self.lowered.out_tree

    @property
    def args_info(self) -> Any:
        """The types of the arguments, ``(args, kwargs)``."""
        return self.lowered.args_info

    @property
    def out_info(self) -> Any:
        """The types of the results, as their pytree."""
        return self.lowered.out_info

    @property
    def in_avals(self) -> Any:
        """The abstract values of the arguments, ``(args, kwargs)``."""
        return self.lowered.in_avals

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The numbers of the arrays, counted through all arguments, that a call may use up."""
        return self.lowered.donate_argnums

    @property
    def input_shardings(self) -> Any:
        """Where the arguments lie, ``(args, kwargs)``."""
        lowered = self.lowered
        return tree_unflatten(lowered.in_tree, _known(lowered.places.of_inputs(lowered.in_tree)))

    @property
    def output_shardings(self) -> Any:
        """Where the results lie, as their pytree."""
        lowered = self.lowered
        asked = [x.sharding for x in tree_leaves(lowered.out_info)]
        return tree_unflatten(lowered.out_tree, _known(asked))

    @property
    def input_formats(self) -> Any:
        """How the arguments lie in memory and where, ``(args, kwargs)``."""
        return tree_map(row_major, self.lowered.in_avals, self.input_shardings)

    @property
    def output_formats(self) -> Any:
        """How the results lie in memory and where, as their pytree."""
        return tree_map(row_major, self.lowered.out_info, self.output_shardings)

    def runtime_executable(self) -> CompiledProgram:
        """What the compiler made: the kernels, and the instructions that run them."""
        return self.compiled

    def as_text(self) -> str:
        """The program of groups, and the instructions that run it."""
        return f"{self.compiled.stages.program}\n\n{self.compiled.program}"

    def cost_analysis(self) -> dict[str, float]:
        """What the compiled program costs: kernels store only what other kernels need.

        Returns:
          ``"flops"``, ``"transcendentals"`` and ``"bytes accessed"``, as floats.
        """
        return _costs(self.compiled.stages.program)

    def memory_analysis(self) -> MemoryAnalysis:
        """How much memory the program needs."""
        jaxpr, program = self.lowered.jaxpr, self.compiled.program
        results = [program.slots[s].nbytes for s in program.outputs]
        return MemoryAnalysis(
            sum(nbytes(v) for v in jaxpr.invars),
            sum(results),
            program.arena,
            program.peak,
            sum(results[out] for out, _ in program.aliases),
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program.

        Args:
          args: arguments of the types that it was made for; static ones are left out.
          kwargs: the same by name.

        Raises:
          PyTreeError: if the structure of the arguments is another.
          ShapeError: if a shape or dtype is another.
        """
        lowered = self.lowered
        flat, tree = flatten_args(lowered.function, args, kwargs)
        if tree != lowered.in_tree:
            raise PyTreeError(
                f"{lowered.name}: Function compiled with input pytree does not match the input "
                "pytree it was called with",
                got=str(tree),
                fix=f"{lowered.in_tree}, static arguments left out; or call the jitted function",
            )
        self._check_types(flat)
        results = [concrete(x) for x in lowered.bind([*lowered.traced.consts, *flat])]
        if lowered.places.shardings is not None:
            results = lowered.places.shardings.placed(results, lowered.out_tree)
        return tree_unflatten(lowered.out_tree, results)

    def _check_types(self, flat: Sequence[Value]) -> None:
        wanted = self.lowered.signature.avals
        for k, (x, aval) in enumerate(zip(flat, wanted, strict=True)):
            if x.aval.strip_weak_type() is not aval.strip_weak_type():
                name = argument_names(self.lowered.function, self.lowered.signature)[k]
                raise ShapeError(
                    f"{self.lowered.name}: Argument types differ from the types for which this "
                    "computation was compiled. The mismatches are:\n"
                    f"Argument '{name}' compiled with {aval.str_long()} and called with "
                    f"{x.aval.str_long()}",
                    got=x.aval.str_short(),
                    fix=f"{aval.str_short()}; or call the jitted function, which traces again",
                )


def _known(shardings: Sequence[Any]) -> list[Any]:
    """The shardings; where none is named, that of arrays which nobody put anywhere."""
    device = SingleDeviceSharding(current_device())
    return [device if s is None else s for s in shardings]


def _costs(jaxpr: Jaxpr) -> dict[str, float]:
    """The cost of a program; loops count as often as is known that they run, at least once."""
    total = sum(map(operations, jaxpr.eqns), Operations())
    return {
        "flops": float(total.flops),
        "transcendentals": float(total.transcendentals),
        "bytes accessed": float(sum(map(_bytes_moved, jaxpr.eqns))),
    }


def _bytes_moved(eqn: Eqn) -> int:
    inner = [] if isinstance(eqn.primitive, Group) else list(subjaxprs(eqn))
    if not inner:
        return sum(map(sum, traffic(eqn)))
    once = sum(_bytes_moved(e) for program in inner for e in program.eqns)
    return once * int(eqn.params.get("length", 1))
