"""Constant folding: what is known of a value before the program runs.

A value may be *uniform*, an array full of one number, or a small array (an index range, and what
is computed from it).  An equation that gives a uniform value becomes that number, or a broadcast of
it; an elementwise equation takes numbers in place of uniform operands.  Arrays that are not uniform
are followed, for what is computed from them may be, but never become part of the program.

Values are computed by the primitives' references, so folding changes no bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrax.backends.passes.inner import renamed, with_eqns, with_programs
from functrax.backends.passes.rewrites import Rewrites
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from functrax.core.options.config import state as options
from functrax.core.prims.mapped import reindex
from functrax.core.prims.reduce import AxisReduce, ReindexReduce, reduce_sum
from functrax.core.prims.reindex import Reindex, Reindexing, broadcast_in_dim, iota
from functrax.core.prims.slicing import concatenate
from functrax.core.tracing.primitive import Elementwise, Primitive
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray
from functrax.core.types.symbolic_sizes import applied, asked, is_symbolic_dim

#: Larger arrays are not computed ahead.
MAX_ELEMENTS = 1024


def constant_folding(jaxpr: Jaxpr, rewrites: Rewrites) -> Jaxpr:
    """The program with constants in place of what is known."""
    work = _Folding(rewrites)
    for eqn in jaxpr.eqns:
        work.visit(renamed(eqn, work.env))
    return with_eqns(jaxpr, work.eqns, work.env)


class _Folding:
    """Writes one program.

    Attributes:
      known: of some variables the one number that they are full of, or the array.
      env: numbers in place of scalar variables.
      eqns: the equations so far.
    """

    def __init__(self, rewrites: Rewrites) -> None:
        self.rewrites = rewrites
        self.known: dict[Atom, Any] = {}
        self.env: dict[Atom, Atom] = {}
        self.eqns: list[Eqn] = []

    def visit(self, eqn: Eqn) -> None:
        """Write an equation, folded."""
        eqn = with_programs(eqn, lambda program: constant_folding(program, self.rewrites))
        primitive, invars = eqn.primitive, eqn.invars
        elementwise = isinstance(primitive, Elementwise)
        followed = elementwise or isinstance(primitive, (Reindexing, ReindexReduce))
        if followed and len(eqn.outvars) == 1:
            known = self.known
            # A gather from a uniform array needs no indices.
            uniform = primitive is reindex and self._is_number(invars[0])
            looked_at = invars[:1] if uniform else invars
            all_known = all(type(x) is Literal or x in known for x in looked_at)
            if all_known and self._replaced(eqn, looked_at):
                return
            rounded = options.strict and not primitive.exact
            if elementwise and not rounded and not known.keys().isdisjoint(invars):
                eqn = self._numbers_as_operands(eqn)
        self.eqns.append(eqn)

    def _is_number(self, x: Atom) -> bool:
        return type(self.known.get(x)) is Literal

    def _replaced(self, eqn: Eqn, operands: Sequence[Atom]) -> bool:
        """Note the value of an equation; whether a constant was written in its place."""
        out = eqn.outvars[0]
        found = _value(eqn, [x if type(x) is Literal else self.known[x] for x in operands])
        if found is None:
            return False
        if type(found) is not Literal:
            self.known[out] = found
            return False
        if found.aval.weak_type != out.aval.weak_type:
            return False
        shape = out.aval.shape
        params = {"shape": shape, "dims": ()}
        if eqn.primitive is broadcast_in_dim and eqn.params == params and eqn.invars == (found,):
            self.known[out] = found
            return False
        if not self.rewrites.allow("a constant", eqn):
            return False
        if shape:
            self.known[out] = found
            self.eqns.append(Eqn(broadcast_in_dim, (found,), (out,), params, eqn.source))
        else:
            self.env[out] = found
        return True

    def _numbers_as_operands(self, eqn: Eqn) -> Eqn:
        """An elementwise equation with numbers for the operands that are full of one."""
        operands = [self.known[x] if self._is_number(x) else x for x in eqn.invars]
        left = any(type(x) is Var for x in operands)
        if not left or operands == list(eqn.invars):
            return eqn
        if not self.rewrites.allow("a constant operand", eqn):
            return eqn
        return Eqn(eqn.primitive, operands, eqn.outvars, eqn.params, eqn.source)


def _value(eqn: Eqn, operands: Sequence[Any]) -> Any:
    """The number that the result is full of, the array that it is, or None if not known."""
    aval: ShapedArray = eqn.outvars[0].aval
    if not aval.size:
        return None
    if operands and all(type(x) is Literal for x in operands):
        if isinstance(eqn.primitive, Elementwise):
            return _number(_computed(eqn, operands), aval) if _may_compute(eqn) else None
        if _stays_uniform(eqn, operands):
            return Literal(operands[0].val, aval.update(shape=()))
        if eqn.primitive is reduce_sum:
            return _sum(operands[0], eqn.invars[0].aval.size // aval.size, aval)
        return None
    arrays = [v for v, x in zip(eqn.invars, operands) if type(x) is not Literal]
    sizes = [aval.size, *(v.aval.size for v in arrays)]
    if any(map(is_symbolic_dim, sizes)):
        return None
    if max(sizes) > MAX_ELEMENTS or (not operands and eqn.primitive is not iota):
        return None
    if not isinstance(eqn.primitive, Elementwise) and any(type(x) is Literal for x in operands):
        return None
    if not _may_compute(eqn):
        return None
    array = _computed(eqn, operands)
    number = _number(array, aval)
    return array if number is None else number


def _may_compute(eqn: Eqn) -> bool:
    """Whether the reference gives the bits that a kernel would, where that matters."""
    if any(type(x) is Literal and is_symbolic_dim(x.val) for x in eqn.invars):
        return False
    if not options.strict:
        return True
    discrete = all(x.aval.dtype.kind in "biu" for x in (*eqn.invars, *eqn.outvars))
    return discrete or eqn.primitive.exact


def _computed(eqn: Eqn, operands: Sequence[Any]) -> Any:
    values = [x.val if type(x) is Literal else x for x in operands]
    params = tuple(eqn.params.items())
    return applied(_reference, eqn.primitive, eqn.outvars[0].aval.dtype, params, *values)


def _reference(
    primitive: Primitive, dtype: Any, params: tuple[tuple[str, Any], ...], *values: Any
) -> Any:
    with np.errstate(all="ignore"):
        out = primitive.reference(*values, **dict(params))
    return np.asarray(out, dtype)


def _number(array: Any, aval: ShapedArray) -> Literal | None:
    """The number that an array is full of, bit for bit."""
    if not asked(_is_uniform, array):
        return None
    return Literal(applied(_first_of, array), aval.update(shape=()))


def _is_uniform(array: Any) -> bool:
    first = array.reshape(-1)[:1]
    return bool(array.size <= 1 or array.tobytes() == first.tobytes() * array.size)


def _first_of(array: Any) -> Any:
    return array.reshape(-1)[0]


def _stays_uniform(eqn: Eqn, operands: Sequence[Literal]) -> bool:
    """Whether the result is full of the number that the first operand is full of."""
    primitive, first = eqn.primitive, operands[0]
    if isinstance(primitive, Reindex):
        same = not primitive.has_fill or first.val.tobytes() == eqn.params["fill"].val.tobytes()
        return same or (primitive is reindex and eqn.params["map"].total())
    if primitive is concatenate:
        return all(x is first for x in operands)
    idempotent = isinstance(primitive, AxisReduce) and primitive.idempotent
    return idempotent and eqn.invars[0].aval.size > 0


def _sum(number: Literal, count: int, aval: ShapedArray) -> Literal | None:
    """The sum of equal numbers where it is exact in any order: small integral ones."""
    if aval.dtype.kind == "c" or aval.dtype == dtypes.bool_:
        return None
    if not asked(_has_exact_sum, number.val, count, aval.dtype):
        return None
    return Literal(applied(_sum_of, number.val, count), aval.update(shape=()))


def _has_exact_sum(number: Any, count: int, dtype: np.dtype[Any]) -> bool:
    """Whether all integers up to the sum are numbers of a dtype."""
    if dtypes.is_integer(dtype):
        most = int(min(np.iinfo(dtype).max, 2**53))
    else:
        most = int(2 ** (dtypes.finfo(dtype).nmant + 1))
    value = float(number)
    return value.is_integer() and abs(value) * count <= most


def _sum_of(number: Any, count: int) -> int:
    return int(float(number)) * count
