"""Launches of functions of the user's own.

An equation of ``core/foreign`` enters; a launch of the extension's ``foreign_call`` leaves, which
runs without Python, with the copies that bring operands into the memory of results.  On a GPU it is
a launch of the user's kernel.  ``foreign`` of a launch is the target's name.

Start at :func:`foreign_launches`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrax.backends.executables.library_functions import own_function
from functrax.backends.executables.program import (
    UNKNOWN_COST,
    CopyInstruction,
    HostCall,
    Instruction,
    Launch,
)
from functrax.backends.machine_code.kernel_jit import LaunchCode
from functrax.backends.targets import target
from functrax.core.errors.typed import UnavailableError
from functrax.core.foreign import targets
from functrax.core.foreign.attributes import plain
from functrax.core.foreign.calls import BoundCall, call
from functrax.core.ir.jaxpr import Eqn


def foreign_launches(
    eqn: Eqn, inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> list[Instruction]:
    """What runs an equation; without the extension that is a call of Python.

    Args:
      eqn: the equation.
      inputs: the slots of its operands.
      outputs: the slots of its results.

    Raises:
      UnavailableError: its target is not registered for the CPU.
    """
    params = eqn.params
    if target().warp:
        return _gpu_launch(eqn, inputs, outputs)
    found = targets.find(params["target"], "cpu", eqn.source)
    in_avals, out_avals = ([x.aval for x in xs] for xs in (eqn.invars, eqn.outvars))
    shared = params["shared"]
    made = call(found, in_avals, out_avals, shared, params["attributes"], eqn.source)
    copies = [CopyInstruction(inputs[k], outputs[j]) for k, j in shared]
    copied = {k for k, _ in shared}
    read = tuple([slot for k, slot in enumerate(inputs) if k not in copied])
    caller = own_function("foreign_call")
    if caller is None:
        return [*copies, HostCall(_in_python(made), found.name, read, outputs, into=True)]
    code = LaunchCode(caller, ((0, made),))
    launch = Launch(
        caller.address, found.name, read, outputs, (made.address,), 1, UNKNOWN_COST, owner=code,
        foreign=found.name,
    )  # fmt: skip
    return [*copies, launch]


def _in_python(made: BoundCall) -> Callable[..., None]:
    """A call as a function of NumPy arrays."""

    def run(*arrays: Any) -> None:
        made.run([x.ctypes.data for x in arrays])

    return run


def _gpu_launch(eqn: Eqn, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> list[Instruction]:
    """The launch of a kernel of a GPU: addresses, then integers of 64 bits."""
    name = eqn.params["target"]
    found = targets.find(name, "cuda", eqn.source)
    if found.kernel is None or eqn.params["shared"]:
        raise UnavailableError(
            f"ffi_call: the target {name!r} cannot be called in programs on a GPU",
            got="a handler of XLA's interface for GPUs"
            if found.kernel is None
            else "operands in the memory of results",
            fix="functrax.code(..., language='ptx')",
            where=eqn.source,
        )
    results = [v.aval for v in eqn.outvars]
    numbers = [int(x) for x in plain(eqn.params["attributes"]).values()]
    units, params = found.kernel.units(results), (results[0].size, *numbers)
    return [
        Launch(
            id(found.kernel), found.kernel.name, inputs, outputs, params, units, UNKNOWN_COST,
            owner=found.kernel,
            foreign=name,
        )
    ]  # fmt: skip
