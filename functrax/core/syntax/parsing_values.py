"""Types, literals and parameters' values read from text; the inverse of ``value_text``.

A parameter is a number, a string, a tuple, ``None``, ``True``, ``False``, a dtype (``f32``), a
type (``f32[3,4]``), a literal (``2.0:f32[]``), an index map, a program, a member of an
enumeration (``module.Class.MEMBER``), or the name of a Python object (``@rule#3``).

Start at :meth:`ValueReader.value`.
"""

from __future__ import annotations

import enum
import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from functrax.core.errors.typed import ArgumentError, DTypeError, FunctraxError, SizeError
from functrax.core.index.map import IndexMap
from functrax.core.index.map_text import parse_index_map
from functrax.core.ir.jaxpr import Jaxpr, Literal
from functrax.core.ir.number_text import scalar_from_text
from functrax.core.ir.object_names import named_object
from functrax.core.syntax.lexer import Cursor
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray, dtype_from_short_name
from functrax.core.types.dtypes import DType
from functrax.core.types.symbolic_scopes import SizeReader, SymbolicScope
from functrax.core.types.symbolic_sizes import is_symbolic_dim

#: Words that begin a number.
NUMBER_WORDS = ("inf", "nan", "True", "False", "complex")
_LARGE_INDEX = re.compile(r"[de]\d{4,}")  # d1000: no array has so many dimensions


class ValueReader(ABC):
    """Reads values at a cursor.

    Args:
      text: the text of a program.
      objects: for each ``@name`` or ``@name#7`` in the text, what it stands for.
      sizes: what the names of sizes stand for: numbers, or sizes of a scope.
    """

    def __init__(
        self,
        text: str,
        objects: Mapping[str, Any],
        sizes: Mapping[str, Any] | SymbolicScope | None = None,
    ) -> None:
        self.cursor = Cursor(text)
        self._sizes = SizeReader(SymbolicScope() if sizes is None else sizes)
        self.objects = {name.removeprefix("@"): thing for name, thing in objects.items()}

    @abstractmethod
    def program(self) -> Jaxpr:
        """The program that comes next."""

    def aval(self) -> ShapedArray:
        """The type that comes next: ``f32[3,4]``."""
        cursor = self.cursor
        weak = cursor.accept("~")
        dtype = self.dtype()
        cursor.expect("[", "after the dtype of a type")
        sizes: list[int] = []
        while not cursor.at("]"):
            sizes.append(self._size())
            if not cursor.accept(","):
                break
        cursor.expect("]", "after the sizes of a type")
        return ShapedArray(tuple(sizes), dtype, weak)

    def _size(self) -> int:
        if self.cursor.at_kind("size"):
            return self._symbolic_size()  # type: ignore[no-any-return]
        token = self.cursor.expect_kind("number", "the size of an axis")
        if not token.text.isdigit() or len(token.text) > 100:
            raise self.cursor.error("expected the size of an axis", token)
        return int(token.text)

    def _symbolic_size(self) -> Any:
        """The number or the size that ``${...}`` is."""
        token = self.cursor.advance()
        try:
            return self._sizes(token.text[2:-1])
        except (ArgumentError, SizeError) as error:
            raise self.cursor.error(f"not a size: {error.what}", token, error.fix) from None

    def dtype(self) -> DType:
        """The dtype that comes next: ``f32``."""
        token = self.cursor.expect_kind("name", "a dtype, such as f32")
        try:
            return dtype_from_short_name(token.text)
        except DTypeError as error:
            raise self.cursor.error("not a dtype", token, error.fix) from None

    def at_number(self) -> bool:
        """Whether a number comes next."""
        return self.cursor.at_kind("number", "size") or self.cursor.at("-", *NUMBER_WORDS)

    def element(self, dtype: DType, words: str | tuple[str, str]) -> bytes:
        """The bytes of the element that was written as ``words``; a pair is a complex number."""
        if not dtypes.is_complex(dtype):
            if isinstance(words, tuple):
                raise ValueError("a complex number is not an element of a real dtype")
            return bytes(scalar_from_text(words, dtype).tobytes())
        real, imag = words if isinstance(words, tuple) else (words, "0.0")
        part = dtypes.real_dtype(dtype)
        return b"".join(scalar_from_text(word, part).tobytes() for word in (real, imag))

    def number_words(self) -> str | tuple[str, str]:
        """The number that comes next, as it is written."""
        cursor = self.cursor
        if cursor.accept("complex"):
            cursor.expect("(", "after complex")
            real = self._real_words()
            cursor.expect(",", "between the parts of a complex number")
            imag = self._real_words()
            cursor.expect(")", "after a complex number")
            return real, imag
        return self._real_words()

    def _real_words(self) -> str:
        cursor = self.cursor
        sign = "-" if cursor.accept("-") else ""
        word = cursor.token.text
        if not cursor.at_kind("number") and word not in NUMBER_WORDS[:4]:
            raise cursor.error("expected a number")
        if sign and (word in NUMBER_WORDS[1:] or word.startswith("0x")):
            raise cursor.error("a number that has no sign")
        return sign + cursor.advance().text

    def literal(self) -> Literal:
        """The literal that comes next: ``2.0:f32[]``."""
        found = self.number()
        if not isinstance(found, Literal):
            raise self.cursor.error("expected ':' and a type after a literal", fix="2.0:f32[]")
        return found

    def number(self) -> Any:
        """The number that comes next: a literal if a type follows, else a Python number."""
        cursor = self.cursor
        begin = cursor.token
        size = self._symbolic_size() if cursor.at_kind("size") else None
        words = self.number_words() if size is None else str(size)
        aval = self.aval() if cursor.accept(":") else None
        if aval is not None and aval.shape:
            raise cursor.error("a literal that is not a scalar", begin, "2.0:f32[]")
        if is_symbolic_dim(size):
            return size if aval is None else Literal(size, aval)
        try:
            if aval is None:
                return _python_number(words)
            return Literal(from_elements([self.element(aval.dtype, words)], aval), aval)
        except (ValueError, OverflowError) as error:
            raise cursor.error(f"not a number of this type: {error}", begin) from None

    def value(self) -> Any:
        """The value of a parameter that comes next."""
        cursor = self.cursor
        cursor.descend()
        found = self._value()
        cursor.depth -= 1
        return found

    def _value(self) -> Any:
        cursor = self.cursor
        if self.at_number():
            return self.number()
        if cursor.at("{"):
            return self._index_map() if cursor.peek() == "[" else self.program()
        if cursor.accept("("):
            return self._tuple()
        if cursor.at_kind("string"):
            return self.string()
        if cursor.at_kind("object"):
            return self._object()
        if cursor.accept("None"):
            return None
        if cursor.at_kind("name") and cursor.peek() == ".":
            return self._enum_member()
        if cursor.at("~") or (cursor.at_kind("name") and cursor.peek() == "["):
            return self.aval()
        if cursor.at_kind("name"):
            return self.dtype()
        raise cursor.error("expected the value of a parameter")

    def string(self) -> str:
        """The string that comes next."""
        token = self.cursor.expect_kind("string", "a string")
        try:
            return str(json.loads(token.text))
        except ValueError as error:
            raise self.cursor.error(f"not a string of JSON: {error}", token) from None

    def _tuple(self) -> tuple[Any, ...]:
        cursor = self.cursor
        values: list[Any] = []
        while not cursor.at(")"):
            values.append(self.value())
            if not cursor.accept(","):
                break
        cursor.expect(")", "after the values of a tuple")
        return tuple(values)

    def _index_map(self) -> IndexMap:
        """The index map that comes next, up to the first closing brace."""
        cursor = self.cursor
        begin = cursor.token
        while not cursor.accept("}"):
            if cursor.at_kind("end") or _LARGE_INDEX.fullmatch(cursor.token.text):
                raise cursor.error("not part of an index map")
            cursor.advance()
        text = cursor.text[begin.start : cursor.previous.start + 1]
        try:
            return parse_index_map(" ".join(text.split()), self._sizes)
        except FunctraxError as error:
            reason = error.what
        except (RecursionError, ValueError, OverflowError) as raised:
            reason = str(raised)
        raise cursor.error(f"not an index map: {reason}", begin)

    def _object(self) -> Any:
        token = self.cursor.advance()
        name = token.text[1:]
        for known in (name, name.partition("#")[0]):
            if known in self.objects:
                return self.objects[known]
        found = named_object(name)
        if found is None:
            raise self.cursor.error(
                f"the object {token.text} does not exist in this process",
                token,
                f"parse(text, objects={{{name!r}: ...}}), with the function or rule that it was",
            )
        return found

    def _enum_member(self) -> Any:
        """``module.Class.MEMBER``, of a module that is imported already."""
        cursor = self.cursor
        begin = cursor.token
        parts = [cursor.advance().text]
        while cursor.accept("."):
            parts.append(cursor.expect_kind("name", "a name after '.'").text)
        for split in range(len(parts) - 2, 0, -1):
            found: Any = sys.modules.get(".".join(parts[:split]))
            for part in parts[split:]:
                found = vars(found).get(part) if hasattr(found, "__dict__") else None
            if isinstance(found, enum.Enum):
                return found
        raise cursor.error(
            f"{'.'.join(parts)} is not a member of an enumeration in a module imported so far",
            begin,
            "import the module before parsing",
        )


def from_elements(elements: list[bytes], aval: ShapedArray) -> Any:
    """The array whose elements, in row-major order, have these bytes.

    Raises:
      ValueError: if there are not as many as the type says.
    """
    if len(elements) != aval.size:
        raise ValueError(f"{len(elements)} elements, where {aval.size} are needed")
    if not aval.nbytes:
        return np.zeros(aval.shape, aval.dtype)
    return np.frombuffer(b"".join(elements), aval.dtype).reshape(aval.shape)


def _python_number(words: str | tuple[str, str]) -> Any:
    if isinstance(words, tuple):
        return complex(float(words[0]), float(words[1]))
    if words in ("True", "False"):
        return words == "True"
    if words.removeprefix("-").isdigit() or words.startswith("0x"):
        return int(words, 0)
    return float(words)
