"""Text to programs: the inverse of :mod:`functrax.core.ir.printing`, which describes the text.

The text is split into words (:mod:`functrax.core.syntax.lexer`) and read by recursive descent; what
comes out is checked by :func:`functrax.core.syntax.verify.verify`.  Nothing in the text is
evaluated as Python.  Comments behind equations become their source lines again.

Start at :func:`parse`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from functrax.core.arrays.array import from_numpy
from functrax.core.errors.source import FixedLine
from functrax.core.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from functrax.core.ir.printing import RESERVED
from functrax.core.syntax.lexer import Token
from functrax.core.syntax.parsing_values import ValueReader, from_elements
from functrax.core.syntax.verify import verify
from functrax.core.tracing.primitive import Primitive, registry
from functrax.core.types.aval import ShapedArray
from functrax.core.types.symbolic_scopes import SymbolicScope

_SOURCE = re.compile(r"(?P<file>.+):(?P<line>\d{1,9}) in (?P<function>.+)")
_TITLE = re.compile(r"(?P<name>[^:]+)(?:: (?P<arguments>.+))?")


def parse(
    text: str,
    objects: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Any] | None = None,
    sizes: Mapping[str, Any] | SymbolicScope | None = None,
) -> Jaxpr | ClosedJaxpr:
    """The program that a text is.

    Args:
      text: what ``str(program)`` gave, or text of that form.
      objects: what the ``@name`` in the text stand for.  In the process that printed the text
        that is known, as long as the objects live.
      tensors: NumPy arrays, by the texts that stand for the values of constants.
      sizes: what the names of sizes stand for: numbers, or a scope of sizes without values, of
        which there is a new one if omitted.

    Returns:
      A ``ClosedJaxpr``; only when the text has constants but not their values, a ``Jaxpr``.

    Raises:
      ParseError: if the text is not a program.
      VerificationError: if the program breaks a rule of the language.

    >>> from functrax.core.prims import arithmetic
    >>> print(parse("{ lambda ; x:f32[3]. let y:f32[3] = mul x 2.0:f32[] in (y,) }"))
    { lambda ; a:f32[3]. let  # fn
        b:f32[3] = mul a 2.0:f32[]
      in (b,) }
    """
    reader = _ProgramReader(text, objects or {}, tensors or {}, sizes)
    jaxpr = reader.program()
    names = reader.constants
    consts = reader.values(jaxpr, names)
    reader.cursor.expect_kind("end", "nothing more after the program")
    verify(jaxpr)
    return ClosedJaxpr(jaxpr, consts) if len(consts) == len(jaxpr.constvars) else jaxpr


def parse_jaxpr(
    text: str,
    objects: Mapping[str, Any] | None = None,
    sizes: Mapping[str, Any] | SymbolicScope | None = None,
) -> Jaxpr:
    """As :func:`parse`, but always the ``Jaxpr``, with any constants' values left out."""
    found = parse(text, objects, None, sizes)
    return found.jaxpr if isinstance(found, ClosedJaxpr) else found


class _ProgramReader(ValueReader):
    """Reads programs.

    Attributes:
      constants: the names of the constants of the program that was read last.
    """

    def __init__(
        self,
        text: str,
        objects: Mapping[str, Any],
        tensors: Mapping[str, Any],
        sizes: Mapping[str, Any] | SymbolicScope | None,
    ) -> None:
        super().__init__(text, objects, sizes)
        self.tensors = tensors
        self.constants: list[str] = []

    def program(self) -> Jaxpr:
        cursor = self.cursor
        cursor.descend()
        env: dict[str, Var] = {}
        cursor.expect("{", "before a program")
        cursor.expect("lambda", "at the beginning of a program")
        constants = self._binders(env)
        cursor.expect(";", "after the constants of a program")
        env.update(constants)
        inputs = self._binders(env)
        env.update(inputs)
        env.pop("_", None)
        cursor.expect(".", "after the inputs of a program")
        title = cursor.expect("let", "before the equations of a program")
        name, arg_names = self._title(title, len(inputs))
        eqns: list[Eqn] = []
        while not cursor.at("in"):
            eqns.append(self._eqn(env))
        cursor.advance()
        outvars = self._results(env)
        cursor.expect("}", "after a program")
        cursor.depth -= 1
        self.constants = [constant for constant, _ in constants]
        constvars, invars = [v for _, v in constants], [v for _, v in inputs]
        return Jaxpr(constvars, invars, outvars, eqns, name, arg_names)

    def _title(self, token: Token, num_inputs: int) -> tuple[str, list[str] | None]:
        """The name of the program and of its inputs, from the comment behind ``let``."""
        comment = self.cursor.comments.get(token.line, "")
        found = _TITLE.fullmatch(comment)
        if found is None or _SOURCE.fullmatch(comment):
            return "fn", None
        arguments = found["arguments"].split(", ") if found["arguments"] else []
        known = bool(arguments) and len(arguments) == num_inputs
        return found["name"], arguments if known else None

    def _binders(self, env: dict[str, Var]) -> list[tuple[str, Var]]:
        """Names that are not in ``env`` yet, and their types: ``a:f32[3] b:i32[]``."""
        cursor = self.cursor
        found: dict[str, Var] = {}
        binders: list[tuple[str, Var]] = []
        while cursor.at_kind("name"):
            token = cursor.advance()
            if token.text in RESERVED and token.text != "_":
                raise cursor.error("a reserved word cannot be a variable", token)
            if token.text in env or token.text in found:
                raise cursor.error(
                    f"{token.text!r} is defined twice", token, "another name for the second one"
                )
            cursor.expect(":", "between a variable and its type")
            var = Var(self.aval())
            binders.append((token.text, var))
            if token.text != "_":
                found[token.text] = var
        return binders

    def _eqn(self, env: dict[str, Var]) -> Eqn:
        cursor = self.cursor
        if not cursor.at("(") and not cursor.at_kind("name"):
            raise cursor.error("expected an equation, or 'in' and the results of the program")
        binders: list[tuple[str, Var]] = []
        if cursor.accept("("):
            cursor.expect(")", "where an equation has no results")
        else:
            binders = self._binders(env)
        cursor.expect("=", "between the results of an equation and its primitive")
        primitive = self._primitive()
        params = self._params() if cursor.accept("[") else {}
        invars = self._operands(env)
        env.update(binders)
        env.pop("_", None)
        return Eqn(primitive, invars, [v for _, v in binders], params, self._source())

    def _primitive(self) -> Primitive:
        token = self.cursor.token
        quoted = self.cursor.at_kind("string")
        name = self.string() if quoted else self.cursor.expect_kind("name", "a primitive").text
        found: Primitive | None = registry.get(name)
        if found is None:
            raise self.cursor.error(
                "there is no such primitive", token, "import the module that defines it, if any"
            )
        return found

    def _params(self) -> dict[str, Any]:
        cursor = self.cursor
        params: dict[str, Any] = {}
        while not cursor.at("]"):
            token = cursor.expect_kind("name", "the name of a parameter")
            if token.text in params:
                raise cursor.error("a parameter is given twice", token)
            cursor.expect("=", "after the name of a parameter")
            params[token.text] = self.value()
            if not cursor.accept(","):
                break
        cursor.expect("]", "after the parameters of an equation")
        return params

    def _operands(self, env: dict[str, Var]) -> list[Atom]:
        operands: list[Atom] = []
        while True:
            if self.at_number():
                operands.append(self.literal())
            elif self.cursor.at_kind("name") and self._ends_before_next_equation():
                operands.append(self._variable(env))
            else:
                return operands

    def _ends_before_next_equation(self) -> bool:
        return self.cursor.token.text != "in" and self.cursor.peek() != ":"

    def _variable(self, env: dict[str, Var]) -> Var:
        token = self.cursor.expect_kind("name", "a variable")
        found = env.get(token.text)
        if found is None:
            raise self.cursor.error(
                f"{token.text!r} is not defined here",
                token,
                "a variable that an input or an earlier equation of the same program defines",
            )
        return found

    def _source(self) -> FixedLine | None:
        """The line in the comment behind the equation that was just read."""
        found = _SOURCE.fullmatch(self.cursor.comments.get(self.cursor.previous.line, ""))
        if found is None:
            return None
        return FixedLine(found["file"], int(found["line"]), found["function"])

    def _results(self, env: dict[str, Var]) -> list[Atom]:
        cursor = self.cursor
        cursor.expect("(", "before the results of a program")
        results: list[Atom] = []
        while not cursor.at(")"):
            results.append(self.literal() if self.at_number() else self._variable(env))
            if not cursor.accept(","):
                break
        cursor.expect(")", "after the results of a program")
        return results

    def values(self, jaxpr: Jaxpr, names: list[str]) -> list[Any]:
        """The values of the constants, if ``where`` comes next."""
        cursor = self.cursor
        if not cursor.accept("where"):
            return []
        found: dict[str, Any] = {}
        types = dict(zip(names, (v.aval for v in jaxpr.constvars), strict=True))
        while cursor.at_kind("name"):
            token = cursor.advance()
            if token.text not in types or token.text in found:
                raise cursor.error("not a constant of the program without a value", token)
            cursor.expect("=", "between a constant and its value")
            found[token.text] = self._constant(types[token.text])
        missing = [name for name in names if name not in found]
        if missing:
            raise cursor.error(f"no value for the constant {missing[0]!r}")
        return [found[name] for name in names]

    def _constant(self, aval: ShapedArray) -> Any:
        cursor = self.cursor
        begin = cursor.token
        if cursor.at_kind("object"):
            return self.value()
        if cursor.at_kind("string"):
            return self._tensor(aval)
        try:
            array = self._bytes(aval) if cursor.accept("hex") else self._elements(aval)
        except (ValueError, OverflowError, MemoryError) as error:
            raise cursor.error(f"not a value of {aval.str_short()}: {error}", begin) from None
        array.flags.writeable = False
        return from_numpy(array, weak_type=aval.weak_type)

    def _tensor(self, aval: ShapedArray) -> Any:
        begin = self.cursor.token
        found = self.tensors.get(self.string())
        if found is None:
            fix = "parse(text, tensors={...}), with the array of this name"
            raise self.cursor.error("an array that is not there", begin, fix)
        if found.dtype != aval.dtype or found.shape != aval.shape:
            what = f"an array {found.dtype}{list(found.shape)}, where {aval.str_short()} is needed"
            raise self.cursor.error(what, begin)
        return from_numpy(found, weak_type=aval.weak_type)

    def _bytes(self, aval: ShapedArray) -> Any:
        raw = bytes.fromhex(self.string())
        if len(raw) != aval.nbytes:
            raise ValueError(f"{len(raw)} bytes, where {aval.nbytes} are needed")
        if not aval.nbytes:
            return np.zeros(aval.shape, aval.dtype)
        little = np.frombuffer(raw, aval.dtype.newbyteorder("<"))
        return little.astype(aval.dtype).reshape(aval.shape)

    def _elements(self, aval: ShapedArray) -> Any:
        cursor = self.cursor
        if not cursor.accept("("):
            return from_elements([self.element(aval.dtype, self.number_words())], aval)
        elements = []
        while not cursor.at(")"):
            elements.append(self.element(aval.dtype, self.number_words()))
            if not cursor.accept(","):
                break
        cursor.expect(")", "after the elements of a constant")
        return from_elements(elements, aval)
