"""What tells programs apart from one process to the next.

A program and the compiler's options enter; a key for the disk cache leaves, or None where the
program holds something that only this process knows: a Python function, a primitive or a compiled
function of the user's own.  Two programs with one key are compiled to the same thing, so everything
that decides that is in the key, exactly: each float by its bits, and of the compiler the size and
date of each of its source files.  Of a call with a derivative rule that is what it calls: nobody
asks for the rule any more.

Start at :func:`program_key`.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np

from functrax.backends import disk_cache
from functrax.backends.machine_code.kernel_jit import circumstances
from functrax.core.index.expr import Condition, IndexExpr
from functrax.core.ir.jaxpr import Atom, Jaxpr, Literal
from functrax.core.options.config import compile_context
from functrax.core.tracing.primitive import Primitive, registry
from functrax.core.types.aval import ShapedArray

#: How programs are written to disk; another number for another form.
FORM = 4


class _UnknownError(Exception):
    """Something that has no meaning in another process."""


def program_key(jaxpr: Jaxpr) -> bytes | None:
    """The key of a program without constants, under the options that hold now.

    The names of kernels begin with that of the program, so that is in it too.
    """
    text = _Text()
    try:
        text.value(jaxpr.name)
        text.value(compile_context())
        text.value(jaxpr)
    except _UnknownError:
        return None
    form = f"program {FORM} {sys.hexversion}"
    return disk_cache.content_key(form, circumstances(), compiler(), "\n".join(text.lines))


@cache
def compiler() -> str:
    """The size and date of each file that decides what the compiler makes."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found, folders = [], [os.path.join(root, "backends"), os.path.join(root, "core")]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    found.append(f"{entry.name} {status.st_size} {status.st_mtime_ns}")
                elif entry.name != "__pycache__" and entry.is_dir():
                    folders.append(entry.path)
    return "\n".join(sorted(found))


class _Text:
    """Values as lines, which no other values have.

    Attributes:
      lines: of the values so far; each value says how many lines are its own.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._types: dict[ShapedArray, str] = {}
        self._primitives: dict[Primitive, str] = {}
        self._literals: dict[Literal, str] = {}
        self._programs: dict[int, tuple[Jaxpr, list[str]]] = {}
        self._names: dict[type, tuple[str, ...]] = {}

    def value(self, x: Any) -> None:
        """Write a value.

        Raises:
          _UnknownError: it has no meaning in another process.
        """
        kind, lines = type(x), self.lines
        if x is None or kind is bool or kind is int or kind is str:
            lines.append(repr(x))
        elif kind is tuple:
            lines.append(f"tuple {len(x)}")
            for part in x:
                self.value(part)
        elif kind is float:
            lines.append("float " + struct.pack("<d", x).hex())
        elif kind is ShapedArray:
            lines.append(self._type(x))
        elif kind is Literal:
            lines.append(self._literal(x))
        elif kind is Jaxpr:
            self._program(x)
        elif isinstance(x, Primitive):
            lines.append(self._primitive(x))
        elif isinstance(x, np.dtype):
            lines.append(f"dtype {x.name}")
        elif isinstance(x, IndexExpr | Condition):
            lines.append(f"{kind.__name__} {x}")
        elif is_dataclass(x) and _ours(kind):
            lines.append(f"{kind.__module__}.{kind.__qualname__}")
            for name in self._fields(kind):
                self.value(getattr(x, name))
        else:
            raise _UnknownError

    def _program(self, jaxpr: Jaxpr) -> None:
        """Write a program: a line for each equation, before the values of its parameters."""
        known = self._programs.get(id(jaxpr))
        if known is not None:
            self.lines += known[1]
            return
        begin = len(self.lines)
        number: dict[Atom, str] = {}
        types = []
        for v in (*jaxpr.constvars, *jaxpr.invars):
            number[v] = str(len(number))
            types.append(self._type(v.aval))
        head = f"program {len(jaxpr.constvars)} {len(jaxpr.eqns)}: "
        self.lines.append(head + "; ".join(types))
        for eqn in jaxpr.eqns:
            operands = self._atoms(eqn.invars, number)
            params = sorted(eqn.params)
            types = []
            for v in eqn.outvars:
                number[v] = str(len(number))
                types.append(self._type(v.aval))
            line = f"{self._primitive(eqn.primitive)} {operands}: {'; '.join(types)}"
            here = len(self.lines)
            self.lines.append(f"{line} {params}")
            try:
                for name in params:
                    self.value(eqn.params[name])
            except _UnknownError:
                # A call whose derivative rule is a function of Python: it becomes what it calls.
                called = eqn.primitive.inlines(eqn.params)
                if called is None:
                    raise
                self.lines[here:] = [f"{line} calls"]
                self._program(called)
        self.lines.append(self._atoms(jaxpr.outvars, number))
        self._programs[id(jaxpr)] = jaxpr, self.lines[begin:]

    def _atoms(self, atoms: Sequence[Atom], number: Mapping[Atom, str]) -> str:
        """Variables as their numbers, and literals."""
        return ", ".join([number.get(x) or self._literal(x) for x in atoms])  # type: ignore[arg-type]

    def _literal(self, x: Literal) -> str:
        found = self._literals.get(x)
        if found is None:
            found = f"literal {x.aval.str_short()} {np.asarray(x.val).tobytes().hex()}"
            self._literals[x] = found
        return found

    def _type(self, x: ShapedArray) -> str:
        found = self._types.get(x)
        if found is None:
            found = self._types[x] = x.str_short()
        return found

    def _fields(self, kind: Any) -> tuple[str, ...]:
        """The names of the fields of a dataclass."""
        found = self._names.get(kind)
        if found is None:
            found = self._names[kind] = tuple([field.name for field in fields(kind)])
        return found

    def _primitive(self, x: Primitive) -> str:
        found = self._primitives.get(x)
        if found is None:
            if registry.get(x.name) is not x or not _ours(type(x)) or x.is_foreign:
                raise _UnknownError
            found = self._primitives[x] = f"primitive {x.name}"
        return found


def _ours(kind: type) -> bool:
    """Whether a class's meaning follows from functrax alone."""
    return kind.__module__.startswith("functrax.")
