"""Functions without calls and guards: callees stand in their callers, guards are branches.

The one call that stays is that of a function of the driver's own, which is an instruction here.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from functrax.backends.cuda.simulator.errors import PtxError
from functrax.backends.cuda.simulator.syntax import (
    Address,
    Instruction,
    Label,
    Pair,
    PtxFunction,
    PtxSymbol,
    Register,
    Text,
    Variable,
    Vector,
)

#: Functions that the driver defines and texts declare; ``instructions/control.py`` executes them.
_DRIVERS_OWN: Final = frozenset(("cudaGraphSetConditional",))


def flatten(text: Text, entry: PtxFunction) -> PtxFunction:
    """The entry with all that it calls inside; only branches keep a guard."""
    return _Flattener(text).flat(entry)


class _Flattener:
    def __init__(self, text: Text) -> None:
        self.text = text
        self.copies = 0
        self.flattened: PtxFunction | None = None

    def flat(self, entry: PtxFunction) -> PtxFunction:
        flat = dataclasses.replace(
            entry, registers=dict(entry.registers), variables=dict(entry.variables), body=[]
        )
        for item in self.expanded(entry, flat, {}, (entry.name,)):
            if isinstance(item, Instruction) and item.guard and item.parts[0] != "bra":
                flat.body += self.guarded(item, item.guard)
            else:
                flat.body.append(item)
        return flat

    def guarded(self, item: Instruction, guard: Register) -> list[Instruction | Label]:
        """``@p op`` as ``@!p bra past; op; past:``."""
        self.copies += 1
        past = f"past@{self.copies}"
        skip = Register(guard.name, not guard.negated)
        branch = dataclasses.replace(
            item, parts=("bra",), operands=(PtxSymbol(past),), guard=skip, text=item.text
        )
        return [branch, dataclasses.replace(item, guard=None), Label(past, item.line)]

    def expanded(
        self,
        function: PtxFunction,
        flat: PtxFunction,
        names: dict[str, str],
        inside: tuple[str, ...],
    ) -> list[Instruction | Label]:
        body: list[Instruction | Label] = []
        for item in function.body:
            if isinstance(item, Label):
                targets = tuple(names.get(t, t) for t in item.targets)
                body.append(Label(names.get(item.name, item.name), item.line, targets))
                continue
            renamed = _renamed(item, names) if names else item
            if item.parts[0] == "call":
                body += self.call(renamed, flat, inside)
            else:
                body.append(renamed)
        return body

    def call(
        self, call: Instruction, flat: PtxFunction, inside: tuple[str, ...]
    ) -> list[Instruction | Label]:
        """PTX ISA 9.7.12, Control Flow Instructions: call."""
        operands = list(call.operands)
        results: tuple[Any, ...] = operands.pop(0).elements if _is_list(operands[0]) else ()
        name = operands[0].name
        arguments: tuple[Any, ...] = operands[1].elements if len(operands) > 1 else ()
        callee = self.text.functions.get(name)
        if callee is None or not (callee.has_body or name in _DRIVERS_OWN):
            raise PtxError(f"call of {name!r}, which the text does not define", call.line)
        if name in inside:
            raise PtxError(f"{name!r} calls itself, which is not supported", call.line)
        if len(arguments) != len(callee.params) or len(results) != len(callee.returns):
            raise PtxError(f"call of {name!r} with a wrong number of arguments", call.line)
        self.copies += 1
        mark = f"@{name}{self.copies}"
        if not callee.has_body:
            return self.drivers_own(callee, arguments, mark, flat, call)
        names = {r: r + mark for r in callee.registers}
        names |= {v: v + mark for v in callee.variables}
        names |= {x.name: x.name + mark for x in callee.body if isinstance(x, Label)}
        before: list[Instruction | Label] = []
        after: list[Instruction | Label] = []
        for formal, actual in zip(callee.params, arguments):
            before += self.passed(formal, actual, names, mark, flat, call, into=True)
        for formal, actual in zip(callee.returns, results):
            after += self.passed(formal, actual, names, mark, flat, call, into=False)
        for register, kind in callee.registers.items():
            flat.registers.setdefault(names[register], kind)
        for variable in callee.variables.values():
            copied = dataclasses.replace(variable, name=names[variable.name])
            flat.variables[copied.name] = copied
        end = Label(f"return{mark}", call.line)
        body: list[Instruction | Label] = []
        for item in self.expanded(callee, flat, names, (*inside, name)):
            if isinstance(item, Instruction) and item.parts[0] == "ret":
                leave = dataclasses.replace(item, parts=("bra",), operands=(PtxSymbol(end.name),))
                body.append(leave)
            else:
                body.append(item)
        whole = [*before, *body, end, *after]
        if call.guard is None:
            return whole
        skip = Register(call.guard.name, not call.guard.negated)
        past = Label(f"past{mark}", call.line)
        jump = dataclasses.replace(
            call, parts=("bra",), operands=(PtxSymbol(past.name),), guard=skip
        )
        return [jump, *whole, past]

    def drivers_own(
        self,
        callee: PtxFunction,
        arguments: tuple[Any, ...],
        mark: str,
        flat: PtxFunction,
        call: Instruction,
    ) -> list[Instruction | Label]:
        """An instruction whose operands are registers: variables are loaded before it."""
        loads: list[Instruction | Label] = []
        operands: list[Any] = []
        for formal, actual in zip(callee.params, arguments):
            operands.append(actual)
            if isinstance(actual, PtxSymbol):
                operands[-1] = Register(formal.name + mark)
                flat.registers[formal.name + mark] = formal.type
                load = ("ld", "param", formal.type.name)
                loads.append(_like(call, load, (operands[-1], Address(actual, 0))))
        named = dataclasses.replace(call, parts=("call", callee.name), operands=tuple(operands))
        return [*loads, named]

    def passed(
        self,
        formal: Variable,
        actual: Any,
        names: dict[str, str],
        mark: str,
        flat: PtxFunction,
        call: Instruction,
        *,
        into: bool,
    ) -> list[Instruction | Label]:
        """Binds a parameter: a variable by its name, a register or constant by a copy."""
        kind = formal.type.name
        if formal.space == "reg":
            inner: Any = Register(formal.name + mark)
            moved = (inner, actual) if into else (actual, inner)
            return [_like(call, ("mov", kind), moved)]
        if isinstance(actual, PtxSymbol):
            names[formal.name] = actual.name
            return []
        names[formal.name] = formal.name + mark
        variable = dataclasses.replace(formal, name=names[formal.name])
        flat.variables[variable.name] = variable
        place = Address(PtxSymbol(variable.name), 0)
        if into:
            return [_like(call, ("st", "param", kind), (place, actual))]
        return [_like(call, ("ld", "param", kind), (actual, place))]


def _is_list(operand: Any) -> bool:
    return isinstance(operand, Vector)


def _like(call: Instruction, parts: tuple[str, ...], operands: tuple[Any, ...]) -> Instruction:
    return dataclasses.replace(call, parts=parts, operands=operands, guard=None)


def _renamed(item: Instruction, names: dict[str, str]) -> Instruction:
    guard = item.guard
    if guard is not None:
        guard = Register(names.get(guard.name, guard.name), guard.negated)
    operands = tuple(_renamed_operand(x, names) for x in item.operands)
    return dataclasses.replace(item, operands=operands, guard=guard)


def _renamed_operand(operand: Any, names: dict[str, str]) -> Any:
    if isinstance(operand, (Register, PtxSymbol)):
        return operand._replace(name=names.get(operand.name, operand.name))
    if isinstance(operand, Address):
        return operand._replace(base=_renamed_operand(operand.base, names))
    if isinstance(operand, Pair):
        return Pair(*(_renamed_operand(x, names) for x in operand))
    if isinstance(operand, Vector):
        return Vector(tuple(_renamed_operand(x, names) for x in operand.elements))
    return operand
