"""The grammar of trees' texts: how each kind of statement is written and read.

In a template ``{field}`` is a field of the record, written as its type is, ``{field:kind}`` one
that is written in another way.  ``<field| with {field}>`` is there if the field is: neither None
nor false nor empty; ``<field|one|other>`` has something else in its place.

Start at :data:`STATEMENTS`; ``loops/text.py`` writes by it and ``loops/parse.py`` reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields
from functools import cache, cached_property
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from functrax.backends.kernels.ir import Reduce, Store
from functrax.backends.kernels.tiling import Reading
from functrax.backends.loops.tree import (
    Barrier,
    Bind,
    If,
    Let,
    Loop,
    Place,
    Poll,
    Prefetch,
    Running,
    Tile,
    TileSum,
    TurnTile,
    While,
)
from functrax.core.index.expr import Dim, IndexExpr, add_terms
from functrax.core.prims.lowered_reductions import ArgExtremum, Fold, Reduction
from functrax.core.records import record
from functrax.core.scalars.scalar import Scalar
from functrax.core.types import dtypes

_VALUE: Final = r"(?:extent\(d\d+, -?\d+\)|[^\s,:]+(?::[a-z]\w*)?)"
_NAME: Final = r"r\d+:\w+"
_DIMS: Final = r"d\d+(?: d\d+)*"
HOW: Final = r"\w+<[^>]+>"
ADDRESS: Final = r"-?[\d*d]+(?: [-+] [\d*d]+)*"
#: A field of a template and its kind; or a field, what is written if it is there, and what else.
Part: TypeAlias = "str | tuple[str, str] | tuple[str, list[Part], list[Part]]"


class TreeWriter(Protocol):
    """Knows the names of values in a text that is written."""

    def value(self, x: Scalar) -> str:
        """The name of a value, or what it is."""

    def offset(self, x: Scalar) -> str:
        """The same of what is added to an address."""

    def defined(self, x: Scalar) -> str:
        """The name of a leaf that stands for something from here on, and its dtype."""


class Reader(Protocol):
    """Knows the values of names in a text that is read."""

    def value(self, text: str) -> Scalar:
        """The value of a name, or of what says it."""

    def defined(self, text: str) -> Scalar:
        """The leaf that a name stands for from here on."""


@record
class StatementKind:
    """A kind of field.

    Args:
      pattern: of its texts.
      write: the text of a value.
      read: the value of a text.
    """

    pattern: str
    write: Callable[[TreeWriter, Any], str]
    read: Callable[[Reader, str], Any]


class Form:
    """How a record is written: by a template."""

    def __init__(self, cls: type, template: str) -> None:
        self.cls = cls
        found = fields(cls)
        self.kinds = {f.name: str(f.type).removesuffix(" | None") for f in found}
        #: What stands for fields that are not in a text.
        self.absent = {
            f.name: {"bool": False, "tuple[Scalar, ...]": ()}.get(str(f.type))
            for f in found
            if f.default is MISSING
        }
        self.parts = list(self._parts(template))

    def _parts(self, template: str) -> Iterator[Part]:
        for field, kind, shown, inside, other, plain in re.findall(
            r"\{(\w+)(?::(\w+))?\}|<(\w+)\|([^>|]*)(?:\|([^>]*))?>|([^{<]+)", template
        ):
            if field:
                yield field, kind or self.kinds[field]
            elif shown:
                yield shown, list(self._parts(inside)), list(self._parts(other))
            else:
                yield plain

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Of the texts of such records."""
        return re.compile(_pattern(self.parts))

    def write(self, writer: TreeWriter, x: Any) -> str:
        """The text of a record."""
        return "".join(_written(self.parts, writer, x))

    def read(self, reader: Reader, text: str) -> dict[str, Any] | None:
        """The fields of the record that a text says; None if it is no such text."""
        match = self.pattern.fullmatch(text)
        if match is None:
            return None
        kinds = dict(_slots(self.parts))
        found: dict[str, Any] = {}
        for name, part in match.groupdict().items():
            if part is None:
                found |= {name: self.absent[name]} if name in self.absent else {}
            else:
                found[name] = KINDS[kinds[name]].read(reader, part) if name in kinds else True
        return found

    @property
    def kind(self) -> StatementKind:
        """Fields that are such records."""

        def read(reader: Reader, text: str) -> Any:
            return self.cls(**(self.read(reader, text) or {}))

        plain = re.sub(r"\?P<\w+>", "?:", _pattern(self.parts))
        return StatementKind(plain, self.write, read)


def _pattern(parts: Sequence[Part]) -> str:
    found = ""
    for part in parts:
        if isinstance(part, str):
            found += re.escape(part)
        elif len(part) == 2:
            found += f"(?P<{part[0]}>{KINDS[part[1]].pattern})"
        else:
            name, inside, other = part
            flag = f"P<{name}>" if len(inside) == 1 and isinstance(inside[0], str) else ":"
            if other:
                found += f"(?:{_pattern(other)}|{_pattern(inside)})"
            else:
                found += f"(?{flag}{_pattern(inside)})?"
    return found


def _written(parts: Sequence[Part], writer: TreeWriter, x: Any) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif len(part) == 2:
            yield KINDS[part[1]].write(writer, getattr(x, part[0]))
        else:
            there = getattr(x, part[0])
            is_there = there is not None and there is not False and there != ()
            yield from _written(part[1] if is_there else part[2], writer, x)


def _slots(parts: Sequence[Part]) -> Iterator[tuple[str, str]]:
    """The fields in a template, and their kinds."""
    for part in parts:
        if len(part) == 3 and not isinstance(part, str):
            yield from _slots([*part[1], *part[2]])
        elif not isinstance(part, str):
            yield part[0], part[1]


# ---- what fields are ----------------------------------------------------------------------------


def number_text(value: Any, dtype: np.dtype[Any]) -> str:
    """A constant, so that it reads back to the bit."""
    found = str(np.asarray(value, dtype)[()])
    if dtype.kind in "biu":
        return f"{found}:{dtype}"
    again = np.asarray(float(found)).astype(dtype)
    if again.tobytes() != np.asarray(value, dtype).tobytes():
        found = f"bits({np.asarray(value, dtype).view(f'u{dtype.itemsize}')})"
    return f"{found}:{dtype}"


def number(text: str) -> Any:
    """A constant by its text, ``value:dtype``."""
    value, _, name = text.rpartition(":")
    dtype = dtypes.as_dtype(name)
    if bits := re.fullmatch(r"bits\((\d+)\)", value):
        return np.asarray(int(bits[1]), f"u{dtype.itemsize}").view(dtype)[()]
    if dtype.kind == "b":
        return dtype.type(value == "True")
    return np.asarray(int(value) if dtype.kind in "iu" else float(value)).astype(dtype)[()]


def how_text(how: Reduction) -> str:
    """A way to put elements together: its name, and the types and numbers of no elements."""
    if how.identity is None:
        return f"{how.name}<{' '.join(map(str, how.carries))}>"
    empty = zip(how.identity, how.carries, strict=True)
    return f"{how.name}<{' '.join([number_text(x, d) for x, d in empty])}>"


@cache
def how(text: str) -> Reduction:
    """A way to put elements together by its text."""
    name, _, carries = text.removesuffix(">").partition("<")
    parts = carries.split()
    found = [dtypes.as_dtype(x.rpartition(":")[2]) for x in parts]
    identity = number(parts[0]) if ":" in parts[0] else None
    if name in ("argmax", "argmin"):
        wins, size = ("gt" if name == "argmax" else "lt"), np.iinfo(found[1]).max
        return ArgExtremum(wins, found[0], identity, size, found[1])
    dtype = found[0] if len(found) == 1 else dtypes.complex_dtype(found[0])
    return Fold(name, dtype, dtype, identity)


def address(text: str) -> IndexExpr:
    """A sum of dims times strides."""
    const, terms = 0, []
    for sign, body in re.findall(r"([+-]?) ?([\d*d]+)", text):
        coef = -1 if sign == "-" else 1
        factor, _, dim = body.rpartition("d")
        if not dim or "d" not in body:
            const += coef * int(body)
        else:
            terms.append((Dim(int(dim)), coef * int(factor.rstrip("*") or 1)))
    return add_terms(const, terms)


def _numbers(text: str) -> list[int]:
    return [int(x.lstrip("d")) for x in text.split()]


def _several(write: str, kind: str, read: str) -> StatementKind:
    """Some values, of which a writer and a reader do something with each."""
    return StatementKind(
        rf"{kind}(?:, {kind})*",
        lambda w, found: ", ".join([getattr(w, write)(x) for x in found]),
        lambda r, text: tuple(
            [getattr(r, read)(x) for x in re.split(r", (?![^()]*\))", text) if x]
        ),
    )


#: How fields are written, by their types and by the kinds that templates give.
KINDS: Final[dict[str, StatementKind]] = {
    "str": StatementKind(r"\w+", lambda w, x: x, lambda r, text: text),
    "int": StatementKind(r"-?\d+", lambda w, x: str(x), lambda r, text: int(text)),
    "np.dtype[Any]": StatementKind(
        r"\w+", lambda w, x: str(x), lambda r, text: dtypes.as_dtype(text)
    ),
    "IndexExpr": StatementKind(ADDRESS, lambda w, x: str(x), lambda r, text: address(text)),
    "Reduction": StatementKind(HOW, lambda w, x: how_text(x), lambda r, text: how(text)),
    "Scalar": StatementKind(_VALUE, lambda w, x: w.value(x), lambda r, text: r.value(text)),
    "offset": StatementKind(_VALUE, lambda w, x: w.offset(x), lambda r, text: r.value(text)),
    "tuple[Scalar, ...]": _several("value", _VALUE, "value"),
    "names": _several("defined", _NAME, "defined"),
    "tuple[int, int]": StatementKind(
        r"d\d+ \d+", lambda w, x: f"d{x[0]} {x[1]}", lambda r, text: tuple(_numbers(text))
    ),
    "tuple[int, ...]": StatementKind(
        _DIMS, lambda w, x: " ".join([f"d{d}" for d in x]), lambda r, text: tuple(_numbers(text))
    ),
    "frozenset[int]": StatementKind(
        f"(?:{_DIMS})?",
        lambda w, x: " ".join([f"d{d}" for d in sorted(x)]),
        lambda r, text: frozenset(_numbers(text)),
    ),
    "tuple[str, ...]": StatementKind(
        r"\S+",
        lambda w, x: ",".join([word.replace(" ", "-") for word in x]),
        lambda r, text: tuple([word.replace("-", " ") for word in text.split(",")]),
    ),
}
_AT: Final = "b{buffer}[{address}<offset| + {offset:offset}>]"
KINDS["Place"] = Form(Place, f"{_AT} pitch {{pitch}}").kind
KINDS["Reading"] = Form(Reading, "b{buffer}[{address}] by {step}<packed| packed>").kind
KINDS["Reduce"] = Form(Reduce, "{how} {values} after {accs} -> {results:names}").kind
_OR_INSTEAD: Final = "<whole| where {whole} else {instead}>"

#: The line of each kind of statement, or its first one.
STATEMENTS: Final = {
    cls: Form(cls, template)
    for cls, template in (
        (While, "while d{dim}"),
        (Bind, "bind d{dim} = {index}<vector| vector><tile| tile {tile}><inside| if {inside}>"),
        (If, "if {condition}<in_turn| in turn>"),
        (Tile, "tile d{corner}"),
        (
            TileSum,
            "sum {dtype} {height} {width}x{lanes} {left} times {right} columns d{columns}"
            " along {loops} length {length}<begun| from d{begun}> more {more}"
            f" to {{to}}{_OR_INSTEAD}<dot| dot {{dot}}>"
            "<panel| panel {panel} copies {copies}><later| later {later} parts {parts}>",
        ),
        (
            TurnTile,
            "turn {dtype} {height} by {width} from {tile}"
            f" to {{to}}{_OR_INSTEAD}<masked| masked>",
        ),
        (Let, "<names|let {names:names} = |compute >{values}"),
        (Reduce, "reduce {how} {values} onto {accs} -> {results:names}"),
        (Running, "running {scan} last {last:names}"),
        (
            Prefetch,
            "prefetch b{buffer}[{address}]<dim| along d{dim}><count| count {count}><write| write>",
        ),
        (Barrier, "barrier"),
        (Poll, "poll"),
        (
            Store,
            f"{_AT} <combine|{{combine}}>= {{value}}<guard| if {{guard}}>"
            "<independent| once along({independent})><streams| streams><atomic| atomic>",
        ),
        (
            Loop,
            "{kind} d{dim} in {begin}:{end} step <by|{by}|{step}>"
            "<masked| masked><maybe_empty| maybe empty><peeled| peeled><kept| kept>",
        ),
    )
}
