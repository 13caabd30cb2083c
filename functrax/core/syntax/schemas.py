"""What each primitive takes and gives, as text: its schema.

::

    cumsum(x: int | float | complex; axis: int, reverse: bool) -> result : opaque

Operands stand before the semicolon, with the dtypes that they may have; ``*x`` is any number of
them.  Parameters stand behind it, with their types; ``...`` are further ones.  ``results`` are any
number of results.  The family says what the primitive is made of (``tracing/primitive.py``).

A schema follows from the primitive's class: its reference, its shape rule, what it accepts.  It is
data, prints as text, and is read back from text.

Start at :func:`schemas`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any, Final

from functrax.core.errors.typed import ParseError
from functrax.core.prims.reduce import ReindexReduce
from functrax.core.prims.reindex import Reindexing
from functrax.core.records import record
from functrax.core.tracing.primitive import Elementwise, Primitive, registry
from functrax.core.types import dtypes
from functrax.core.types.aval import short_dtype_name

_FAMILIES: Final[dict[str, Any]] = {
    "elementwise": Elementwise,
    "reindex": Reindexing,
    "reindex_reduce": ReindexReduce,
    "opaque": Primitive,
}
#: Sets of dtypes with a name; the narrow ones of each kind (i4, f8_e5m2, ...) are ``stored``.
_KINDS: Final = {
    "bool": dtypes.BOOL,
    "int": dtypes.SIGNED - dtypes.STORED,
    "uint": dtypes.UNSIGNED - dtypes.STORED,
    "float": dtypes.FLOATING - dtypes.STORED,
    "complex": dtypes.COMPLEX,
    "stored": dtypes.STORED,
}
#: What types of parameters are called.
_TYPES: Final = {
    "Jaxpr": "program",
    "IndexMap": "map",
    "Literal": "literal",
    "Branches": "tuple[program, ...]",
    "Shape": "tuple[int, ...]",
    "Any": "any",
    "ShapedArray": "type",
    "DType": "dtype",
    "AxisName": "name",
    "Programs": "tuple[program, ...]",
    "FlatCallback": "function",
    "Attributes": "attributes",
    "Shared": "tuple[tuple[int, int], ...]",
    "CustomVJP": "rule",
}
_SCHEMA: Final = re.compile(
    r"(?P<name>[^\s(]+)\((?P<operands>[^;()]*)(?:; (?P<params>.*))?\) -> "
    r"(?P<results>results?) : (?P<family>\w+)"
)


@record
class SchemaOperand:
    """An array that a primitive takes.

    Args:
      name: what it is called.
      dtypes: the kinds of dtypes, or short names of dtypes, that it may have.
      several: whether it stands for any number of operands.
    """

    name: str
    dtypes: tuple[str, ...]
    several: bool = False

    def __str__(self) -> str:
        return f"{'*' * self.several}{self.name}: {' | '.join(self.dtypes)}"


@record
class SchemaParameter:
    """A value that is known when a program is traced.

    Args:
      name: what it is called.
      type: what it may be.
      default: what it is if it is left out, as text; None if it must be given.
    """

    name: str
    type: str
    default: str | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" + ("" if self.default is None else f" = {self.default}")


@record
class Schema:
    """What a primitive takes and gives.

    Args:
      name: of the primitive.
      operands: the arrays that it takes.
      parameters: what else it takes.
      open: whether it takes further parameters.
      results: ``"result"``, or ``"results"`` for any number.
      family: ``"elementwise"``, ``"reindex"``, ``"reindex_reduce"`` or ``"opaque"``.
    """

    name: str
    operands: tuple[SchemaOperand, ...]
    parameters: tuple[SchemaParameter, ...]
    open: bool
    results: str
    family: str

    def __str__(self) -> str:
        inside = ", ".join(map(str, self.operands))
        params = [*map(str, self.parameters), *(["..."] if self.open else [])]
        if params:
            inside += f"; {', '.join(params)}"
        return f"{self.name}({inside}) -> {self.results} : {self.family}"


class Schemas(dict[str, Schema]):
    """Schemas by the names of primitives; printed, a line for each."""

    def __repr__(self) -> str:
        return "\n".join(map(str, self.values()))

    __str__ = __repr__


def schemas() -> Schemas:
    """The schema of every primitive, by name.

    Returns:
      A dict of :class:`Schema`; printed, a line for each.

    >>> import functrax
    >>> print(functrax.schemas()["reduce_sum"])
    reduce_sum(x: int | uint | float | complex; axes: tuple[int, ...]) -> result : reindex_reduce
    """
    return Schemas({name: schema_of(registry[name]) for name in sorted(registry)})


def schema_of(primitive: Primitive) -> Schema:
    """The schema of a primitive."""
    reference = inspect.signature(primitive.reference).parameters.values()
    rule = inspect.signature(primitive.shape_rule).parameters.values()
    kinds = _kinds_of(primitive.accepts)
    positional = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    operands = [
        SchemaOperand(p.name, kinds, p.kind is inspect.Parameter.VAR_POSITIONAL)
        for p in reference
        if p.kind in positional
    ]
    if isinstance(primitive, Elementwise) and len(operands) == 1 and operands[0].several:
        operands = [SchemaOperand(name, kinds) for name in "xyzw"[: primitive.arity]]
    named = {p.name: p for p in (*reference, *rule) if p.kind == inspect.Parameter.KEYWORD_ONLY}
    typed = {p.name: p for p in rule if p.name in named and p.annotation != "Any"}
    parameters = [
        SchemaParameter(name, _type_of(typed.get(name, p)), _default_of(p))
        for name, p in named.items()
    ]
    family = next(name for name, base in _FAMILIES.items() if isinstance(primitive, base))
    results = "results" if primitive.multiple_results else "result"
    further = inspect.Parameter.VAR_KEYWORD
    rest = all(any(p.kind == further for p in found) for found in (reference, rule))
    return Schema(primitive.name, tuple(operands), tuple(parameters), rest, results, family)


def _kinds_of(accepted: Iterable[Any]) -> tuple[str, ...]:
    left = set(accepted)
    kinds = [name for name, found in _KINDS.items() if found <= left]
    for name in kinds:
        left -= _KINDS[name]
    return (*kinds, *sorted(map(short_dtype_name, left)))


def _type_of(parameter: inspect.Parameter) -> str:
    written = str(parameter.annotation)
    if written == "Any" and "dtype" in parameter.name:
        return "dtype"
    return re.sub(r"[A-Za-z_]\w*", lambda word: _TYPES.get(word[0], word[0]), written)


def _default_of(parameter: inspect.Parameter) -> str | None:
    return None if parameter.default is parameter.empty else repr(parameter.default)


def parse_schema(text: str) -> Schema:
    """The schema that a text is; ``parse_schema(str(schema)) == schema``.

    Raises:
      ParseError: if it is none.

    >>> parse_schema("sin(x: float | complex) -> result : elementwise").operands[0].dtypes
    ('float', 'complex')
    """
    found = _SCHEMA.fullmatch(text)
    if found is None or found["family"] not in _FAMILIES:
        raise _no_schema(text)
    operands = [_operand(part, text) for part in _split(found["operands"])]
    params = _split(found["params"] or "")
    rest = params[-1:] == ["..."]
    parameters = [_parameter(part, text) for part in params[: len(params) - rest]]
    return Schema(
        found["name"], tuple(operands), tuple(parameters), rest, found["results"], found["family"]
    )


def _split(text: str) -> list[str]:
    """The parts between the commas that are in no brackets."""
    parts: list[str] = []
    depth = 0
    for piece in text.split(", ") if text else []:
        if depth:
            parts[-1] += f", {piece}"
        else:
            parts.append(piece)
        depth += sum(map(piece.count, "[({")) - sum(map(piece.count, "])}"))
    return parts


def _operand(part: str, text: str) -> SchemaOperand:
    name, colon, kinds = part.removeprefix("*").partition(": ")
    if not colon or not name.isidentifier():
        raise _no_schema(text)
    return SchemaOperand(name, tuple(kinds.split(" | ")), part.startswith("*"))


def _parameter(part: str, text: str) -> SchemaParameter:
    name, colon, rest = part.partition(": ")
    if not colon or not name.isidentifier():
        raise _no_schema(text)
    kind, equals, default = rest.partition(" = ")
    return SchemaParameter(name, kind, default if equals else None)


def _no_schema(text: str) -> ParseError:
    return ParseError(
        "parse_schema: not a schema",
        got=text,
        fix="name(operand: dtypes; parameter: type) -> result : family",
    )
