"""Launches of library functions for one equation.

Start at :class:`Site` and :func:`loop_launch`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from functrax.backends.executables.library_functions import (
    LINALG,
    LibraryFunction,
    lapack_function,
    own_function,
)
from functrax.backends.executables.program import Launch
from functrax.backends.executables.program_builder import ProgramBuilder
from functrax.backends.machine_code.kernel_jit import LaunchCode
from functrax.backends.targets import target
from functrax.core.ir.jaxpr import Eqn
from functrax.core.records import record

#: Rows of the blocks in which LAPACK works.  For smaller matrices it takes longer than loops;
#: larger ones are computed by one thread of ours, for LAPACK has threads of its own.
BLOCK: Final = 64
#: With threads of its own LAPACK takes longer for matrices of fewer multiplications.
ALONE: Final = 1 << 25
#: Bytes of a row of a strip: two vectors.
STRIP_BYTES: Final = 128


class Site:
    """Where an equation's launches go.

    Args:
      builder: makes temporaries and constants.
      eqn: the equation.
      inputs: the slots of its operands.
      outputs: the slots of its results.
    """

    def __init__(
        self,
        builder: ProgramBuilder,
        eqn: Eqn,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
    ) -> None:
        self.builder = builder
        self.primitive = eqn.primitive
        self.params = eqn.params
        self.inputs, self.outputs = inputs, outputs
        self.avals = tuple([x.aval for x in eqn.invars])
        self.shape = self.avals[0].shape
        self.char = self.avals[0].dtype.char

    @property
    def units(self) -> int:
        """How many matrices there are."""
        return math.prod(self.shape[:-2])

    @property
    def work(self) -> int:
        """About how many multiplications a matrix takes."""
        m, n = self.shape[-2:]
        return math.trunc(m * n * min(m, n))

    @property
    def is_small(self) -> bool:
        """Whether its matrices are so small that LAPACK takes longer than loops."""
        return self.work <= BLOCK**3

    @property
    def is_alone(self) -> bool:
        """Whether LAPACK is to have one thread."""
        return not self.is_small and self.work < ALONE

    @property
    def is_dense(self) -> bool:
        """Whether the extension's code for dense matrices takes them: it needs vectors of 64 bytes,
        and reads a matrix again and again, which is to stay in the second cache.
        """
        if own_function(f"dense_lu_{self.char}") is None:
            return False
        m, n = self.shape[-2:]
        nbytes = m * n * self.avals[0].dtype.itemsize
        machine = target()
        return machine.vector_bytes == STRIP_BYTES // 2 and nbytes <= machine.second_cache

    def strips(self, count: int) -> int:
        """How many strips (``native/strips.h``) so many columns are."""
        columns = STRIP_BYTES // self.avals[0].dtype.itemsize
        return math.ceil(count / columns)

    def own(
        self,
        function: str,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        params: Sequence[int],
        cost: int,
        units: int | None = None,
    ) -> Launch | None:
        """A launch of one of the extension's functions, with the cost of one unit."""
        found = own_function(function)
        if found is None:
            return None
        units = self.units if units is None else units
        name, numbers, owner = self.primitive.name, tuple(params), LaunchCode(found)
        cost *= units
        return Launch(found.address, name, inputs, outputs, numbers, units, cost, owner=owner)

    def by_lapack(
        self,
        functions: Sequence[str],
        scratch: Sequence[tuple[tuple[int, ...], str]],
        params: Sequence[int],
        cost: int,
        small: bool = False,
        units: int = 1,
    ) -> list[Launch | None]:
        """The launch of the extension's function that calls some of LAPACK, for all matrices.

        Args:
          functions: the names that they have in LAPACK.
          scratch: the shapes and dtypes of what it needs beside the results.
          params: what follows their addresses, the number of matrices, and whether it is alone.
          cost: estimated nanoseconds of a matrix.
          small: whether it takes small matrices, too.
          units: how many threads may share the matrices.

        Returns:
          The launch; nothing for small matrices, or where NumPy does not bring LAPACK.
        """
        caller = own_function(f"lapack_{self.primitive.name}_{self.char}")
        if caller is None:
            return []
        found = [lapack_function(name, self.char) for name in functions]
        known = [x for x in found if x is not None]
        if (self.is_small and not small) or len(known) < len(found):
            return []
        temporaries = [self.builder.value(shape, dtype) for shape, dtype in scratch]
        is_alone = units > 1 or self.work < ALONE
        launch = Launch(
            caller.address,
            self.primitive.name,
            self.inputs,
            (*self.outputs, *temporaries),
            (*[x.address for x in known], self.units, int(is_alone), *params),
            units,
            self.units * cost,
            owner=LaunchCode(caller, tuple(enumerate(known))),
        )
        return [launch]


@record
class Argument:
    """How an argument of a loop lies in a slot, in bytes.

    Args:
      slot: the slot.
      unit: from one unit to the next.
      core: from one element to the next, along each core dimension.
      inner: from one run of the loop to the next, within a unit.
      offset: of the first element.
      converted: whether it is converted from, or to, single precision.
      numbers: in a run, of what is converted.
    """

    slot: int
    unit: int
    core: tuple[int, ...]
    inner: int = 0
    offset: int = 0
    converted: int = 0
    numbers: int = 0


def loop_launch(
    site: Site,
    loop: LibraryFunction,
    arguments: Sequence[Argument],
    written: tuple[int, ...],
    dims: Sequence[int],
    units: int,
    cost: int,
    inner: int = 1,
) -> Launch:
    """A launch of ``call_loop`` in ``native/library.cpp``, which says what its params are.

    Args:
      site: of the equation.
      loop: an inner loop of NumPy.
      arguments: its arguments.
      written: the slots that it writes; all others are read only.
      dims: the sizes of its core dimensions.
      units: how many units there are.
      cost: estimated nanoseconds of a unit.
      inner: how often the loop runs for a unit.
    """
    is_alone = loop.module == LINALG and site.is_alone
    caller = LibraryFunction("", "call_loop_alone" if is_alone else "call_loop")
    data = LibraryFunction(loop.module, loop.name, loop.types, data=True)
    inputs = tuple(dict.fromkeys(a.slot for a in arguments if a.slot not in written))
    number = {slot: n for n, slot in enumerate((*inputs, *written))}
    params = [loop.address, data.address, len(arguments), inner, len(dims)]
    params.append(sum(len(a.core) for a in arguments))
    for a in arguments:
        params += [number[a.slot], a.offset, a.unit, a.inner, a.converted, a.numbers]
    params += dims
    for a in arguments:
        params += a.core
    return Launch(
        caller.address,
        site.primitive.name,
        inputs,
        written,
        tuple(params),
        units,
        units * cost,
        owner=LaunchCode(caller, ((0, loop), (1, data))),
    )
