"""Modules and kernels: PTX text, parsed and decoded once, ready to be launched."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from functrax.backends.cuda.simulator.decode import Decoder
from functrax.backends.cuda.simulator.errors import LaunchError, PtxError
from functrax.backends.cuda.simulator.flatten import flatten
from functrax.backends.cuda.simulator.flow import BasicBlock, blocks_of
from functrax.backends.cuda.simulator.instructions import families as _families
from functrax.backends.cuda.simulator.memory import DeviceMemory
from functrax.backends.cuda.simulator.parse import parse
from functrax.backends.cuda.simulator.syntax import (
    Array,
    Instruction,
    PtxFunction,
    PtxSymbol,
    Text,
    Type,
    Variable,
)

assert _families.__doc__  # imported for the instructions that it declares

#: Bytes between two shared variables that nobody may access.
_GAP: Final = 16


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel.

    Attributes:
      offset: where it lies in the parameters' bytes.
      size, align: in bytes.
      is_array: whether it is given as bytes.
    """

    name: str
    type: Type
    offset: int
    size: int
    align: int
    is_array: bool


@dataclass
class Code:
    """A decoded kernel.

    Attributes:
      initial: the slots' values before a launch: constants, and None.
      addresses, specials: the slots that the launch fills.
      passed: a slot that says that lanes of a warp met already.
      shared_bytes: static shared memory; ``shared_gaps`` the bytes of it between variables.
      local_bytes: of each thread.
    """

    blocks: list[BasicBlock]
    initial: list[Any]
    addresses: dict[tuple[str, int], int]
    specials: dict[str, int]
    passed: int
    shared_bytes: int
    shared_gaps: Array | None
    local_bytes: int


@dataclass
class PtxKernel:
    """An entry of a module.

    Attributes:
      parameters: in order.
      maxntid, reqntid: the bounds of a block, or None.
      shared_bytes: static shared memory, without the gaps that the simulator leaves.
      local_bytes: local memory of a thread.
      registers: how many registers of each type the text declares.
    """

    name: str
    module: Module
    parameters: list[Parameter]
    maxntid: tuple[int, int, int] | None
    reqntid: tuple[int, int, int] | None
    shared_bytes: int
    local_bytes: int
    registers: dict[str, int]
    code: Code = field(repr=False)

    @property
    def param_bytes(self) -> int:
        return _param_bytes(self.parameters)

    def write_arguments(self, arguments: Sequence[Any], data: Array) -> None:
        """Writes the parameters' bytes."""
        if len(arguments) != len(self.parameters):
            raise LaunchError(
                f"kernel {self.name!r} takes {len(self.parameters)} arguments, not {len(arguments)}"
            )
        for parameter, argument in zip(self.parameters, arguments):
            content = self._content(parameter, argument)
            data[parameter.offset : parameter.offset + parameter.size] = content

    def _content(self, parameter: Parameter, argument: Any) -> Array:
        kind = parameter.type
        if isinstance(argument, (bytes, bytearray)):
            content = np.frombuffer(argument, np.uint8)
        elif isinstance(argument, (np.ndarray, np.generic)) and (
            parameter.is_array or kind.kind not in "us" or argument.dtype.kind not in "iu"
        ):
            content = np.frombuffer(argument.tobytes(), np.uint8)
        elif parameter.is_array:
            raise LaunchError(f"kernel {self.name!r}: parameter {parameter.name!r} takes bytes")
        elif kind.kind == "f":
            content = np.array([argument], kind.dtype).view(np.uint8)
        else:
            number = int(argument)
            if not -(1 << (kind.bits - 1)) <= number < 1 << kind.bits:
                raise LaunchError(
                    f"kernel {self.name!r}: {argument} does not fit {parameter.name!r} "
                    f"of type .{kind.name}"
                )
            bits = (number & ((1 << kind.bits) - 1)).to_bytes(kind.bytes, "little")
            content = np.frombuffer(bits, np.uint8)
        if content.size != parameter.size:
            raise LaunchError(
                f"kernel {self.name!r}: parameter {parameter.name!r} has {parameter.size} bytes, "
                f"not {content.size}"
            )
        return content


class Module:
    """PTX text, ready to run.

    Attributes:
      kernels: by their names.
      version, target: as the text says.

    Raises:
      PtxError: the text is wrong, or has something that the simulator does not know.
    """

    def __init__(self, ptx: str) -> None:
        text = parse(ptx)
        if text.address_size != 64:
            raise PtxError(f"addresses of {text.address_size} bits; only 64 are supported")
        self.version, self.target = text.version, text.target
        self._text = text
        self.kernels = {
            function.name: self._kernel(text, function)
            for function in text.functions.values()
            if function.is_entry and function.has_body
        }

    def _kernel(self, text: Text, entry: PtxFunction) -> PtxKernel:
        function = flatten(text, entry)
        parameters = _parameters(function)
        symbols = {x.name: ("param", x.offset) for x in parameters}
        layout = _layout(text, function, symbols)
        decoder = Decoder(function, symbols, _param_bytes(parameters))
        blocks = blocks_of(decoder, function.body)
        passed = decoder.slot("")
        code = Code(
            blocks,
            decoder.initial,
            decoder.addresses,
            decoder.specials,
            passed,
            layout.shared,
            layout.gaps,
            layout.local,
        )
        registers: dict[str, int] = {}
        for kind in entry.registers.values():
            registers[kind.name] = registers.get(kind.name, 0) + 1
        return PtxKernel(
            entry.name,
            self,
            parameters,
            entry.maxntid,
            entry.reqntid,
            layout.declared,
            layout.local,
            registers,
            code,
        )

    def place_variables(self, memory: DeviceMemory) -> None:
        """Puts the module's variables into a device's memory, once."""
        if self in memory.symbols:
            return
        variables = [x for x in self._text.variables.values() if x.space in ("global", "const")]
        places = {x.name: memory.allocate(x.size, x.name) for x in variables}
        memory.symbols[self] = places
        weakref.finalize(self, _release, weakref.ref(memory), list(places.values()))
        for variable in variables:
            content = bytearray(variable.initial or bytes(variable.size))
            for at, name, addend in variable.addresses:
                if name not in places:
                    raise PtxError(f"unknown name {name!r} in an initial value", variable.line)
                address = (places[name] + addend).to_bytes(8, "little")
                content[at : at + variable.type.bytes] = address[: variable.type.bytes]
            memory.write(places[variable.name], bytes(content))
            region = memory.region(places[variable.name])
            if region is not None:
                region.read_only = variable.space == "const"

    def address(self, memory: DeviceMemory, name: str) -> int:
        """The address of a .global or .const variable, as ``cuModuleGetGlobal`` gives it."""
        self.place_variables(memory)
        return memory.symbols[self][name]


def _release(memory: weakref.ref[DeviceMemory], addresses: list[int]) -> None:
    alive = memory()
    if alive is not None:
        for address in addresses:
            alive.free(address)


def _parameters(function: PtxFunction) -> list[Parameter]:
    """PTX ISA 5.1.6.1, Kernel Function Parameters: one after the other, aligned."""
    parameters, offset = [], 0
    for x in function.params:
        offset = -(-offset // x.align) * x.align
        parameters.append(Parameter(x.name, x.type, offset, x.size, x.align, x.is_array))
        offset += x.size
    return parameters


def _param_bytes(parameters: list[Parameter]) -> int:
    return parameters[-1].offset + parameters[-1].size if parameters else 0


@dataclass
class _Layout:
    shared: int
    declared: int
    gaps: Array | None
    local: int


def _named(function: PtxFunction) -> set[str]:
    """The names of variables that a function's instructions use."""
    names: set[str] = set()

    def visit(operand: Any) -> None:
        if isinstance(operand, PtxSymbol):
            names.add(operand.name)
        elif isinstance(operand, tuple):
            for x in operand:
                visit(x)

    for item in function.body:
        if isinstance(item, Instruction):
            visit(item.operands)
    return names


def _layout(text: Text, function: PtxFunction, symbols: dict[str, tuple[str, int]]) -> _Layout:
    """Gives variables their places in the shared and local space."""
    used = _named(function)
    variables: dict[str, Variable] = {**text.variables, **function.variables}
    shared, declared, local = 0, 0, 0
    spans: list[tuple[int, int]] = []
    dynamic: list[Variable] = []
    for x in variables.values():
        if x.space in ("global", "const"):
            symbols[x.name] = (x.space, 0)
        elif x.space == "shared":
            if x.name in used and x.size == 0:
                dynamic.append(x)
            elif x.name in used:
                shared = -(-(shared + (_GAP if spans else 0)) // x.align) * x.align
                declared = -(-declared // x.align) * x.align + x.size
                spans.append((shared, shared + x.size))
                symbols[x.name] = ("shared", shared)
                shared += x.size
        else:
            local = -(-local // x.align) * x.align
            symbols[x.name] = ("local", local)
            local += x.size
    # Dynamic shared memory begins after the rest; all its names mean the same place.
    if dynamic:
        align = max([16, *(x.align for x in dynamic)])
        start = -(-(shared + (_GAP if spans else 0)) // align) * align
        symbols.update({x.name: ("shared", start) for x in dynamic})
        shared = start
    gaps = None
    if len(spans) + bool(dynamic) > 1:
        gaps = np.ones(shared, np.bool_)
        for begin, end in spans:
            gaps[begin:end] = False
    return _Layout(shared, declared, gaps, -(-local // 16) * 16)
