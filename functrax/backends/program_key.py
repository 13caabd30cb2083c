"""What tells programs apart from one process to the next.

A program's structure (``Jaxpr.structure``) and the compiler's options enter; a key for the disk
cache leaves, or None where the program holds something that only this process knows: a Python
function, a primitive of the user's own.  Two programs with one key are compiled to the same thing,
so everything that decides that is in the key, exactly: each float by its bits, and of the compiler
the size and date of each of its source files.

Start at :func:`program_key`.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np

from functrax.backends import disk_cache
from functrax.backends.llvm.jit import circumstances
from functrax.core.aval import ShapedArray
from functrax.core.config import compile_context
from functrax.core.index_expr import Condition, IndexExpr
from functrax.core.jaxpr import Jaxpr, Literal
from functrax.core.primitive import Primitive, registry

#: How programs are written to disk; another number for another form.
FORM = 1


class _UnknownError(Exception):
    """Something that has no meaning in another process."""


def program_key(jaxpr: Jaxpr) -> bytes | None:
    """The key of a program without constants, under the options that hold now.

    The names of kernels begin with that of the program, so that is in it too.
    """
    try:
        words = [*_words(jaxpr.name), *_words(compile_context()), *_words(jaxpr)]
    except _UnknownError:
        return None
    form = f"program {FORM} {sys.hexversion}"
    return disk_cache.content_key(form, circumstances(), _compiler(), "\n".join(words))


@cache
def _compiler() -> str:
    """The size and date of each file that decides what the compiler makes."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
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


def _words(x: Any) -> Iterator[str]:
    """A value as words, which no other value has."""
    kind = type(x)
    if x is None or kind in (bool, int, str):
        yield repr(x)
    elif kind is float:
        yield "float " + struct.pack("<d", x).hex()
    elif kind is ShapedArray:
        yield x.str_short()
    elif kind is tuple:
        yield f"tuple {len(x)}"
        for part in x:
            yield from _words(part)
    elif kind is Literal:
        yield f"literal {x.aval.str_short()} {np.asarray(x.val).tobytes().hex()}"
    elif kind is Jaxpr:
        yield "program"
        yield from _words(x.structure())
    elif isinstance(x, Primitive):
        yield _primitive(x)
    elif isinstance(x, np.dtype):
        yield f"dtype {x.name}"
    elif isinstance(x, IndexExpr | Condition):
        yield f"{kind.__name__} {x}"
    elif is_dataclass(x) and _ours(kind):
        yield f"{kind.__module__}.{kind.__qualname__}"
        for field in fields(x):
            yield from _words(getattr(x, field.name))
    else:
        raise _UnknownError


def _primitive(x: Primitive) -> str:
    if registry.get(x.name) is not x or not _ours(type(x)):
        raise _UnknownError
    return f"primitive {x.name}"


def _ours(kind: type) -> bool:
    """Whether a class's meaning follows from functrax alone."""
    return kind.__module__.startswith("functrax.")
