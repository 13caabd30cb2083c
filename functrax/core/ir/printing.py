"""Programs as text, complete and exact, so that :mod:`functrax.core.syntax.parsing` reads them
back.

::

    { lambda a:f32[2] ; b:f32[2] c:~f32[]. let  # loss: w, scale
        d:f32[2] = mul b 2.0:f32[]  # train.py:41 in loss
        e:f32[2] = add d a  # train.py:42 in loss
        f:f32[] = reduce_sum[axes=(0,)] e  # train.py:42 in loss
      in (f,) }
    where
      a = (0.5, 0.25)

Constants stand before the semicolon, inputs after it; every variable carries its type, with ``~``
for a weak one.  Parameters are in brackets; a parameter that is a program is printed on lines of
its own, and names its variables from ``a`` again, for it sees none of the outer ones.  ``_`` is
a result that nobody uses; ``()`` stands where an equation has no results.  After ``where`` come
the constants' values, in row-major order: numbers, or for large arrays the hex of their
little-endian bytes.  Comments give the name of the program and of its inputs, and the user's
lines.

Start at :func:`jaxpr_text`.
"""

from __future__ import annotations

import enum
import itertools
import json
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from functrax.core.arrays.array import ConcreteArray
from functrax.core.arrays.operators import Array
from functrax.core.index.map import IndexMap
from functrax.core.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from functrax.core.ir.number_text import scalar_text
from functrax.core.ir.object_names import object_name
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray, short_dtype_name
from functrax.core.types.symbolic_scopes import sizes_in_text
from functrax.core.types.symbolic_sizes import Recorded

#: Words that cannot be the name of a variable.
RESERVED = frozenset(
    {"lambda", "let", "in", "where", "inf", "nan", "complex", "hex", "True", "False", "None", "_"}
)
_INLINE_ELEMENTS = 64  # larger constants are printed as hex


def jaxpr_text(jaxpr: Jaxpr, source: bool = True) -> str:
    """A program as text.

    Args:
      jaxpr: the program; it may break rules of the language, so that errors can show it.
      source: whether comments give the user's lines and names.
    """
    with sizes_in_text():
        return "\n".join(_program_lines(jaxpr, source))


def closed_jaxpr_text(
    closed: ClosedJaxpr, source: bool = True, tensors: Sequence[str] | None = None
) -> str:
    """A program as text, with the values of its constants.

    Args:
      closed: the program.
      source: whether comments give the user's lines and names.
      tensors: names under which the constants are kept elsewhere, to stand for their values.
    """
    lines = jaxpr_text(closed.jaxpr, source).split("\n")
    names = variable_names(closed.jaxpr)
    if closed.consts:
        lines.append("where")
    for n, (var, value) in enumerate(zip(closed.jaxpr.constvars, closed.consts, strict=True)):
        text = _constant_text(value, var.aval) if tensors is None else json.dumps(tensors[n])
        lines.append(f"  {names[var]} = {text}")
    return "\n".join(lines)


def eqn_text(eqn: Eqn, names: Mapping[Var, str] | None = None, source: bool = False) -> str:
    """An equation as text.

    Args:
      eqn: the equation.
      names: what its variables are called; from ``a`` on when omitted.
      source: whether a comment gives the user's line.
    """
    if names is None:
        names = _Names(v for v in (*eqn.invars, *eqn.outvars) if isinstance(v, Var))
    with sizes_in_text():
        return "\n".join(_eqn_lines(eqn, names, source))


class _Names(dict[Var, str]):
    """Names of variables, given in the order in which they are asked for."""

    def __init__(self, variables: Iterable[Var] = ()) -> None:
        super().__init__()
        self._unused = _words()
        for var in variables:
            _ = self[var]

    def __missing__(self, var: Var) -> str:
        name = self[var] = next(self._unused)
        return name

    def leave_out(self, words: Iterable[str]) -> None:
        """Give none of these words to a variable from now on."""
        used = set(words)
        self._unused = (word for word in self._unused if word not in used)


def _words() -> Iterator[str]:
    """a, b, ..., z, aa, ab, ..., but for the reserved words."""
    for length in itertools.count(1):
        for letters in itertools.product(string.ascii_lowercase, repeat=length):
            word = "".join(letters)
            if word not in RESERVED:
                yield word


def variable_names(jaxpr: Jaxpr) -> Mapping[Var, str]:
    """What each variable of a program is called when it is printed; inner programs left out."""
    names = _Names((*jaxpr.constvars, *jaxpr.invars))
    used = {x for eqn in jaxpr.eqns for x in eqn.invars}.union(jaxpr.outvars)
    for eqn in jaxpr.eqns:
        for var in eqn.outvars:
            if var not in used:
                names.setdefault(var, "_")
            _ = names[var]  # gives it one
    return names


def names_beside(known: Mapping[Var, str], eqns: Iterable[Eqn]) -> Mapping[Var, str]:
    """What the variables of equations are called: as it is known, or as none of those.

    Args:
      known: what the variables of a program are called.
      eqns: equations, of which some variables may be the program's.
    """
    names = _Names()
    names.update(known)
    names.leave_out(known.values())
    for eqn in eqns:
        for x in (*eqn.invars, *eqn.outvars):
            if isinstance(x, Var):
                _ = names[x]
    return names


def _program_lines(jaxpr: Jaxpr, source: bool) -> list[str]:
    names = variable_names(jaxpr)
    constants = "".join(f"{_binder(v, names)} " for v in jaxpr.constvars)
    inputs = " ".join(_binder(v, names) for v in jaxpr.invars)
    lines = [f"{{ lambda {constants}; {inputs}. let{_title(jaxpr) if source else ''}"]
    for eqn in jaxpr.eqns:
        lines += _indent(_eqn_lines(eqn, names, source), "    ")
    lines.append(f"  in {_tuple_text([_atom_text(x, names) for x in jaxpr.outvars])} }}")
    return lines


def _title(jaxpr: Jaxpr) -> str:
    arguments = f": {', '.join(jaxpr.arg_names)}" if jaxpr.arg_names else ""
    return "  # " + " ".join(f"{jaxpr.name}{arguments}".split())


def _binder(var: Var, names: Mapping[Var, str]) -> str:
    return f"{names[var]}:{var.aval.str_short()}"


def _atom_text(x: Any, names: Mapping[Var, str]) -> str:
    if isinstance(x, Literal):
        return value_text(x)
    return names[x] if isinstance(x, Var) else repr(x)


def _eqn_lines(eqn: Eqn, names: Mapping[Var, str], source: bool) -> list[str]:
    results = " ".join(_binder(v, names) for v in eqn.outvars) or "()"
    name = eqn.primitive.name
    head = f"{results} = {name if name.isidentifier() else json.dumps(name)}"
    operands = "".join(f" {_atom_text(x, names)}" for x in eqn.invars)
    params = [_param_lines(key, value, source) for key, value in eqn.params.items()]
    if any(len(lines) > 1 for lines in params):
        body = [line for lines in params for line in (*lines[:-1], f"{lines[-1]},")]
        lines = [f"{head}[", *_indent(body, "  "), f"]{operands}"]
    else:
        inside = ", ".join(lines[0] for lines in params)
        lines = [f"{head}[{inside}]{operands}" if params else f"{head}{operands}"]
    if source and eqn.source is not None:
        lines[-1] += f"  # {eqn.source}"
    return lines


def _param_lines(key: str, value: Any, source: bool) -> list[str]:
    first, *rest = _value_lines(value, source)
    return [f"{key}={first}", *rest]


def _value_lines(value: Any, source: bool) -> list[str]:
    if isinstance(value, Jaxpr):
        return _program_lines(value, source)
    if isinstance(value, tuple) and any(isinstance(v, Jaxpr) for v in value):
        body: list[str] = []
        for v in value:
            *first, last = _value_lines(v, source)
            body += [*first, f"{last},"]
        return ["(", *_indent(body, "  "), ")"]
    return [value_text(value)]


def _indent(lines: Iterable[str], by: str) -> list[str]:
    return [by + line for line in lines]


def _tuple_text(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def value_text(value: Any) -> str:
    """A parameter's value as text, on one line unless it holds a program."""
    if value is None or isinstance(value, bool):
        return str(value)
    kind = type(value)
    if kind is int or kind is Recorded:
        return str(value)
    if kind is float:
        return scalar_text(value, dtypes.float64) if value == value else "nan"
    if kind is complex:
        return f"complex({value_text(value.real)}, {value_text(value.imag)})"
    if kind is str:
        return json.dumps(value)
    if kind is Literal:
        number = value.val
        text = str(number) if type(number) is Recorded else scalar_text(number, value.aval.dtype)
        return f"{text}:{value.aval.str_short()}"
    if kind is IndexMap:
        return str(value)
    if kind is ShapedArray:
        return str(value.str_short())
    if isinstance(value, np.dtype):
        return short_dtype_name(value)
    if isinstance(value, Jaxpr):
        return jaxpr_text(value, source=False)
    if isinstance(value, tuple):
        return _tuple_text([value_text(v) for v in value])
    if isinstance(value, enum.Enum) and "<" not in kind.__qualname__:
        return f"{kind.__module__}.{kind.__qualname__}.{value.name}"
    return f"@{object_name(value)}"


def _constant_text(value: Any, aval: ShapedArray) -> str:
    if isinstance(value, Array) and not isinstance(value, ConcreteArray):
        return f"@{object_name(value)}"  # a tracer has no value yet, so nothing can parse this
    array = np.asarray(value)
    if array.size > _INLINE_ELEMENTS or array.dtype == dtypes.float0:
        little = array.astype(array.dtype.newbyteorder("<"))
        return f'hex "{little.tobytes().hex()}"'
    elements = [scalar_text(x, array.dtype) for x in array.reshape(-1)]
    return _tuple_text(elements) if aval.shape else elements[0]
