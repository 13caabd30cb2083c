"""From PTX text to ``syntax.Text``: a parser by recursive descent.

Names that a nested scope declares are made unique here, so that a function has one table of
registers and one of variables.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from functrax.backends.cuda.simulator.errors import PtxError
from functrax.backends.cuda.simulator.syntax import (
    TYPES,
    Address,
    Immediate,
    Instruction,
    Label,
    Pair,
    PtxFunction,
    PtxSymbol,
    Register,
    Text,
    Type,
    Variable,
    Vector,
)
from functrax.backends.cuda.simulator.tokens import PtxToken, number, tokens

_LINKAGE: Final = {".visible", ".extern", ".weak", ".common"}
_SPACES: Final = {".global", ".const", ".shared", ".local", ".param"}
#: Directives of a function that change nothing of what it computes, and how many numbers they take.
_NO_MEANING: Final = {
    ".minnctapersm": 1,
    ".maxnctapersm": 1,
    ".maxnreg": 1,
    ".noreturn": 0,
}


def parse(text: str) -> Text:
    """Parses a module; what is not PTX, or not known, raises :class:`PtxError`."""
    return _Parser(tokens(text)).module()


class _Parser:
    def __init__(self, tokens: list[PtxToken]) -> None:
        self.tokens, self.at = tokens, 0
        self.text = Text()
        self.files = _files(tokens)
        self.source = ""
        self.scopes: list[dict[str, str]] = []
        self.function: PtxFunction | None = None
        self.renamed = 0

    # Tokens

    @property
    def next(self) -> PtxToken:
        return self.tokens[self.at]

    def take(self) -> PtxToken:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        if self.tokens[self.at].text == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> PtxToken:
        token = self.take()
        if token.text != text:
            raise PtxError(f"expected {text!r}, found {token.text!r}", token.line)
        return token

    def word(self) -> PtxToken:
        token = self.take()
        if token.kind != "word":
            raise PtxError(f"expected a name, found {token.text!r}", token.line)
        return token

    def integer(self) -> int:
        negative = self.accept("-")
        token = self.take()
        value = number(token).value if token.kind == "number" else None
        if not isinstance(value, int):
            raise PtxError(f"expected an integer, found {token.text!r}", token.line)
        return -value if negative else value

    def rest_of_line(self) -> list[PtxToken]:
        line, rest = self.tokens[self.at - 1].line, []
        while self.next.line == line and self.next.kind != "end":
            rest.append(self.take())
        return rest

    # Modules

    def module(self) -> Text:
        while self.next.kind != "end":
            self.item()
        if not self.text.version:
            raise PtxError("the text has no .version", 1)
        return self.text

    def item(self) -> None:
        token = self.take()
        text = token.text
        if text == ".version":
            self.text.version = self.take().text
        elif text == ".target":
            self.text.target = self.word().text
            while self.accept(","):
                self.take()
        elif text == ".address_size":
            self.text.address_size = self.integer()
        elif text in (".file", ".loc", ".section", ".pragma"):
            self.debug(token)
        elif text in _LINKAGE:
            pass  # said before the thing itself, which does not depend on it
        elif text in (".entry", ".func"):
            self.callable(token)
        elif text in _SPACES:
            for variable in self.variables(text[1:]):
                self.text.variables[variable.name] = variable
        elif text != ";":
            raise PtxError(f"unknown directive {text!r}", token.line)

    def debug(self, token: PtxToken) -> None:
        """Reads .file, .loc, .section and .pragma, at the top and in functions."""
        if token.text == ".pragma":
            while self.take().text != ";":
                pass
        elif token.text == ".section":
            self.word()
            self.expect("{")
            while self.take().text != "}":
                if self.next.kind == "end":
                    raise PtxError("a .section has no end", token.line)
        else:
            rest = self.rest_of_line()
            if token.text == ".loc":
                numbers = [int(t.text) for t in rest[:2]]
                file = self.files.get(numbers[0], "?")
                self.source = f"{file}:{numbers[1]}" if numbers[1] else ""

    def type(self) -> Type:
        token = self.word()
        kind = TYPES.get(token.text[1:])
        if kind is None:
            raise PtxError(f"unknown type {token.text!r}", token.line)
        return kind

    def variables(self, space: str) -> list[Variable]:
        """Reads the variables of a declaration after its state space, up to ``;``."""
        align, lanes = 0, 1
        while self.next.text in (".align", ".v2", ".v4"):
            token = self.take().text
            if token == ".align":
                align = self.integer()
            else:
                lanes = int(token[2:])
        kind = self.type()
        found = []
        while True:
            found.append(self.variable(space, kind, lanes, align))
            if not self.accept(","):
                break
        self.expect(";")
        return found

    def variable(self, space: str, kind: Type, lanes: int, align: int) -> Variable:
        token = self.word()
        count, open_ended = lanes, False
        while self.accept("["):
            if self.accept("]"):
                open_ended = True
                continue
            count *= self.integer()
            self.expect("]")
        variable = Variable(
            token.text, space, kind, count * kind.bytes, align or kind.bytes * lanes
        )
        variable.line = token.line
        if self.accept("="):
            self.initial(variable, open_ended)
        elif open_ended:
            variable.size = 0
        return variable

    def initial(self, variable: Variable, open_ended: bool) -> None:
        content = bytearray()
        self.values(variable, content)
        if open_ended:
            variable.size = len(content)
        if len(content) > variable.size:
            raise PtxError(f"{variable.name!r} has more values than elements", variable.line)
        variable.initial = bytes(content).ljust(variable.size, b"\0")

    def values(self, variable: Variable, content: bytearray) -> None:
        if self.accept("{"):
            while not self.accept("}"):
                self.values(variable, content)
                self.accept(",")
            return
        kind = variable.type
        if self.next.kind == "word":
            name = self.take().text
            if name == "generic":
                self.expect("(")
                name = self.word().text
                self.expect(")")
            addend = self.integer() if self.accept("+") else 0
            variable.addresses.append((len(content), name, addend))
            content += bytes(kind.bytes)
            return
        negative = self.accept("-")
        value = number(self.take()).value
        value = -value if negative else value
        content += _bytes(value, kind)

    # Functions

    def callable(self, start: PtxToken) -> None:
        function = PtxFunction("", start.text == ".entry", start.line)
        self.function, self.scopes = function, [{}]
        if self.next.text == "(":
            function.returns = self.parameters()
        function.name = self.word().text
        if self.next.text == "(":
            function.params = self.parameters()
        while self.next.text not in ("{", ";"):
            self.bound(function)
        function.has_body = self.next.text == "{"
        if self.take().text == "{":
            self.block()
        known = self.text.functions.get(function.name)
        if known is not None and known.has_body and function.has_body:
            raise PtxError(f"function {function.name!r} is defined twice", start.line)
        if known is None or function.has_body:
            self.text.functions[function.name] = function
        self.function, self.source = None, ""

    def bound(self, function: PtxFunction) -> None:
        token = self.word()
        name = token.text
        if name in (".maxntid", ".reqntid"):
            sizes = [self.integer()]
            while self.accept(","):
                sizes.append(self.integer())
            x, y, z = [*sizes, 1, 1][:3]
            setattr(function, name[1:], (x, y, z))
        elif name == ".pragma":
            self.debug(token)
        elif name in _NO_MEANING:
            for _ in range(_NO_MEANING[name]):
                self.integer()
        else:
            raise PtxError(f"unknown directive {name!r}", token.line)

    def parameters(self) -> list[Variable]:
        assert self.function is not None
        self.expect("(")
        found: list[Variable] = []
        while not self.accept(")"):
            token = self.word()
            if token.text not in (".param", ".reg"):
                raise PtxError(f"expected .param, found {token.text!r}", token.line)
            found.append(self.parameter(token.text[1:]))
            self.accept(",")
        return found

    def parameter(self, space: str) -> Variable:
        assert self.function is not None
        align, kind = 0, None
        while self.next.text.startswith("."):
            text = self.next.text
            if text == ".align":
                self.take()
                align = self.integer()
            elif text in (".ptr", ".global", ".shared", ".const", ".local"):
                self.take()
            else:
                kind = self.type()
                # `.ptr .align 16` tells how what it points at is aligned, not the parameter.
                align = align or kind.bytes
                break
        if kind is None:
            raise PtxError("a parameter has no type", self.next.line)
        while self.next.text in (".ptr", ".global", ".shared", ".const", ".local", ".align"):
            if self.take().text == ".align":
                self.integer()
        variable = self.variable(space, kind, 1, align)
        if space == "reg":
            self.function.registers[variable.name] = kind
        return variable

    def block(self) -> None:
        """Reads statements up to the ``}`` of the scope."""
        while not self.accept("}"):
            token = self.next
            if token.kind == "end":
                raise PtxError("a function has no end", token.line)
            if self.accept("{"):
                self.scopes.append({})
                self.block()
                self.scopes.pop()
            else:
                self.statement()

    def statement(self) -> None:
        function = self.function
        assert function is not None
        token = self.next
        text = token.text
        if text == ".reg":
            self.take()
            self.registers(function)
        elif text in _SPACES:
            self.take()
            for variable in self.variables(text[1:]):
                variable.name = self.declare(variable.name, variable.name in function.variables)
                function.variables[variable.name] = variable
        elif text in (".file", ".loc", ".section", ".pragma"):
            self.debug(self.take())
        elif text == ";":
            self.take()
        elif token.kind == "word" and self.tokens[self.at + 1].text == ":":
            self.label(function)
        elif token.kind == "word" or text == "@":
            function.body.append(self.instruction())
        else:
            raise PtxError(f"unexpected {text!r}", token.line)

    def label(self, function: PtxFunction) -> None:
        token = self.take()
        self.expect(":")
        label = Label(token.text, token.line)
        if self.accept(".branchtargets"):
            names = [self.word().text]
            while self.accept(","):
                names.append(self.word().text)
            self.expect(";")
            label.targets = tuple(names)
        function.body.append(label)

    def declare(self, name: str, taken: bool) -> str:
        """Declares a name in the innermost scope; one that is taken gets another for inside."""
        unique = name
        if taken:
            self.renamed += 1
            unique = f"{name}@{self.renamed}"
        self.scopes[-1][name] = unique
        return unique

    def resolve(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def registers(self, function: PtxFunction) -> None:
        kind = self.type()
        while True:
            token = self.word()
            if self.accept("<"):
                count = self.integer()
                self.expect(">")
                names = [f"{token.text}{k}" for k in range(count)]
            else:
                names = [token.text]
            for name in names:
                function.registers[self.declare(name, name in function.registers)] = kind
            if not self.accept(","):
                break
        self.expect(";")

    # Instructions

    def instruction(self) -> Instruction:
        start, guard = self.at, None
        if self.accept("@"):
            negated = self.accept("!")
            guard = Register(self.resolve(self.word().text), negated)
        opcode = self.word()
        operands: list[Any] = []
        while not self.accept(";"):
            if operands and not self.accept(","):
                raise PtxError(f"expected ',' or ';', found {self.next.text!r}", self.next.line)
            operands.append(self.operand())
        text = _shown(self.tokens[start : self.at - 1])
        parts = tuple(opcode.text.split("."))
        return Instruction(parts, tuple(operands), guard, opcode.line, self.source, text)

    def operand(self) -> Any:
        token = self.next
        if token.text == "{" or token.text == "(":
            self.take()
            close = "}" if token.text == "{" else ")"
            elements: list[Any] = []
            while not self.accept(close):
                elements.append(self.operand())
                self.accept(",")
            return Vector(tuple(elements))
        if token.text == "[":
            return self.address()
        first = self.simple()
        if self.accept("|"):
            return Pair(first, self.simple())
        return first

    def address(self) -> Address:
        line = self.expect("[").line
        base = self.simple()
        offset = 0
        while self.next.text in ("+", "-"):
            negative = self.take().text == "-"
            value = self.integer()
            offset += -value if negative else value
        self.expect("]")
        if isinstance(base, PtxSymbol):
            return Address(PtxSymbol(base.name), base.offset + offset)
        if not isinstance(base, (Register, Immediate)):
            raise PtxError("an address has no base", line)
        return Address(base, offset)

    def simple(self) -> Any:
        token = self.take()
        if token.text == "!":
            return Register(self.resolve(self.word().text), negated=True)
        if token.kind == "number":
            return number(token)
        if token.text == "-" and self.next.kind == "number":
            value, width = number(self.take())
            return Immediate(-value, width)
        if token.kind != "word":
            raise PtxError(f"expected an operand, found {token.text!r}", token.line)
        assert self.function is not None
        if token.text == "WARP_SZ":
            return Immediate(32)
        name = self.resolve(token.text)
        if name in self.function.registers or name[0] == "%" or name == "_":
            return Register(name)
        offset = 0
        while self.next.text in ("+", "-") and self.tokens[self.at + 1].kind == "number":
            negative = self.take().text == "-"
            offset += -self.integer() if negative else self.integer()
        return PtxSymbol(name, offset)


def _files(tokens: list[PtxToken]) -> dict[int, str]:
    """The names of ``.file`` directives, which LLVM writes after the functions."""
    files = {}
    for k, token in enumerate(tokens[:-2]):
        if token.text == ".file" and token.kind == "word" and tokens[k + 2].kind == "string":
            files[int(tokens[k + 1].text)] = tokens[k + 2].text[1:-1]
    return files


def _bytes(value: int | float, kind: Type) -> bytes:
    if kind.kind == "f":
        return np.array(value, kind.dtype).tobytes()
    return (int(value) & ((1 << kind.bits) - 1)).to_bytes(kind.bytes, "little")


def _shown(tokens: list[PtxToken]) -> str:
    text = " ".join(t.text for t in tokens)
    for mark in (",", "]", "}", ")", ";"):
        text = text.replace(f" {mark}", mark)
    for mark in ("[", "{", "(", "@", "!", "-"):
        text = text.replace(f"{mark} ", mark)
    return text
