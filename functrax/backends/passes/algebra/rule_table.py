"""The table of algebraic simplifications.

A row is a name, the primitives that it is about, and a function from an equation and what made its
operands to a simpler value: an operand, a number, a :class:`New` equation, or None.  Every rule is
exact, as ``passes/algebra/simplify.py`` says; where that needs a reason it stands at the rule.
Operations that leave their operand as it is (``x * 1``, a reshape to the same shape) need no row:
primitives know them (``Primitive.simplify``).

Start at :data:`RULES`, at the end.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrax.backends.passes.algebra.ranges import clamped_inside, known_comparison
from functrax.backends.passes.algebra.rule import Made, New, Rule
from functrax.backends.passes.algebra.update_rules import choice_of_update, read_where_written
from functrax.core.ir.jaxpr import Atom, Eqn, Literal
from functrax.core.options.config import state as options
from functrax.core.prims.arithmetic import (
    abs_,
    add,
    clamp,
    div,
    floor,
    max_,
    min_,
    mul,
    neg,
    select_n,
    sub,
)
from functrax.core.prims.comparisons import and_, eq, ge, gt, le, lt, ne, not_, or_, xor
from functrax.core.prims.convert import complex_, conj, convert_element_type as convert, imag, real
from functrax.core.prims.mapped import reindex, reindex_reduce, scatter
from functrax.core.prims.powers import integer_pow, pow_ as pow, square
from functrax.core.prims.reduce import (
    highest,
    lowest,
    op_identity,
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_sum,
)
from functrax.core.prims.reindex import broadcast_in_dim, reshape
from functrax.core.prims.rounding import ceil, round_
from functrax.core.tracing.primitive import Primitive, like
from functrax.core.types import dtypes
from functrax.core.types.symbolic_sizes import applied, asked


def _is_discrete(x: Atom) -> bool:
    """Whether values are integers or truth values, which have no NaN and one zero."""
    return x.aval.dtype.kind in "biu"


def _number(x: Atom, value: Any) -> bool:
    """Whether an operand is the number ``value``; -0 is not 0."""
    if type(x) is not Literal or x.val != value:
        return False
    return bool(value != 0 or _is_discrete(x) or np.signbit(x.val) == np.signbit(value))


# ---- signs and sums -----------------------------------------------------------------------------


def _double_negation(eqn: Eqn, made: Made) -> Any:
    return made.operand(neg, eqn.invars[0])


def _with_negation(eqn: Eqn, made: Made) -> Any:
    """``x + -y`` is ``x - y`` by IEEE's definition of a difference, and ``x - -y`` is ``x + y``."""
    x, y = eqn.invars
    negated = made.operand(neg, y)
    if negated is None and eqn.primitive is add:
        x, negated = y, made.operand(neg, x)
    return None if negated is None else New(sub if eqn.primitive is add else add, (x, negated))


def _zero_minus(eqn: Eqn, made: Made) -> Any:
    """-0 - x is -x also for zeros; 0 - 0 is 0, not -0, so a float's 0 does not do."""
    x, y = eqn.invars
    zero = 0 if _is_discrete(x) else -0.0
    return New(neg, (y,)) if x.aval.dtype.kind != "c" and _number(x, zero) else None


def _difference_of_equals(eqn: Eqn, made: Made) -> Any:
    x, y = eqn.invars
    return like(x, 0) if x is y and _is_discrete(x) else None


def _constants_together(eqn: Eqn, made: Made) -> Any:
    """``(x op a) op b`` is ``x op (a op b)`` for integers, which wrap around."""
    x, b = eqn.invars
    inner = made.by(eqn.primitive, x)
    if type(b) is not Literal or inner is None or b.aval.dtype.kind not in "iu":
        return None
    a = inner.invars[1]
    if type(a) is not Literal:
        return None
    with np.errstate(all="ignore"):
        both = eqn.primitive.reference(np.asarray(a.val), np.asarray(b.val))
    return New(eqn.primitive, (inner.invars[0], Literal(both, b.aval)))


def _constant_last(eqn: Eqn, made: Made) -> Any:
    x, y = eqn.invars
    if type(x) is not Literal or type(y) is Literal or x.aval.dtype.kind == "c":
        return None
    return New(eqn.primitive, (y, x))


# ---- products -----------------------------------------------------------------------------------


def _product_with_zero(eqn: Eqn, made: Made) -> Any:
    """0 for integers; of a float it may be NaN, or -0."""
    zeros = [x for x in eqn.invars if type(x) is Literal and _is_discrete(x) and x.val == 0]
    return zeros[0] if zeros else None


def _product_with_minus_one(eqn: Eqn, made: Made) -> Any:
    x, y = eqn.invars
    simple = x.aval.dtype.kind not in "cb"
    return New(neg, (x,)) if simple and x.aval.dtype.kind != "u" and _number(y, -1) else None


def _signs_of_factors(eqn: Eqn, made: Made) -> Any:
    """``-x * -y`` is ``x * y``, ``-x * c`` is ``x * -c``; quotients likewise."""
    x, y = eqn.invars
    if x.aval.dtype.kind in "biuc" and eqn.primitive is not mul:
        return None  # the most negative integer, divided, differs
    left = made.operand(neg, x)
    if left is None or x.aval.dtype.kind == "c":
        return None
    if type(y) is Literal:
        with np.errstate(all="ignore"):
            return New(eqn.primitive, (left, Literal(np.negative(y.val), y.aval)))
    right = made.operand(neg, y)
    return None if right is None else New(eqn.primitive, (left, right))


def _quotient_by_power_of_two(eqn: Eqn, made: Made) -> Any:
    """Both are the same real number, rounded once, where the reciprocal is exact."""
    x, y = eqn.invars
    if type(y) is not Literal or y.aval.dtype not in dtypes.FLOATING:
        return None
    if not asked(_has_exact_reciprocal, y.val, y.aval.dtype):
        return None
    return New(mul, (x, Literal(applied(_reciprocal, y.val), y.aval)))


def _has_exact_reciprocal(number: Any, dtype: np.dtype[Any]) -> bool:
    value = float(number)
    if not math.isfinite(value) or abs(math.frexp(value)[0]) != 0.5:
        return False
    info = dtypes.finfo(dtype)
    return float(info.tiny) <= abs(1 / value) <= float(info.max)


def _reciprocal(number: Any) -> float:
    return 1 / float(number)


def _power(eqn: Eqn, made: Made) -> Any:
    """``x ** 2`` is ``x * x``, ``x ** 0`` is 1, also of NaN."""
    x = eqn.invars[0]
    exponent = 2 if eqn.primitive is square else eqn.params.get("y")
    if exponent is None:
        if type(eqn.invars[1]) is not Literal:
            return None
        exponent = eqn.invars[1].val
    if exponent == 2 and x.aval.dtype.kind != "c":
        return New(mul, (x, x))
    return like(x, 1) if exponent == 0 else None


# ---- choices, comparisons, logic ----------------------------------------------------------------


def _same_cases(eqn: Eqn, made: Made) -> Any:
    first, *others = eqn.invars[1:]
    return first if all(x is first for x in others) else None


def _known_choice(eqn: Eqn, made: Made) -> Any:
    """An index that no case has means the first one."""
    which, *cases = eqn.invars
    spread = made.by(broadcast_in_dim, which)
    which = which if spread is None else spread.invars[0]
    if type(which) is not Literal:
        return None
    number = int(which.val)
    return cases[number if 0 <= number < len(cases) else 0]


def _choice_by_complement(eqn: Eqn, made: Made) -> Any:
    which, *cases = eqn.invars
    opposite = made.operand(not_, which)
    if opposite is None or len(cases) != 2 or which.aval.dtype != dtypes.bool_:
        return None
    return New(select_n, (opposite, cases[1], cases[0]))


def _choice_in_choice(eqn: Eqn, made: Made) -> Any:
    """A case that is itself a choice by the same condition is the case that it would choose."""
    which, *cases = eqn.invars
    if which.aval.dtype != dtypes.bool_:
        return None  # a number that only one of the two has a case for means different cases
    chosen = list(cases)
    for i, case in enumerate(cases):
        inner = made.by(select_n, case)
        if inner is not None and inner.invars[0] is which:
            chosen[i] = inner.invars[1 + i]
    return None if chosen == cases else New(select_n, (which, *chosen))


def _of_equals(eqn: Eqn, made: Made) -> Any:
    x, y = eqn.invars
    return x if x is y else None


def _extremum_with_bound(eqn: Eqn, made: Made) -> Any:
    """``max(x, -inf)`` is x, also where that is NaN."""
    x, y = eqn.invars
    if type(y) is not Literal or y.aval.dtype.kind == "c":
        return None
    bound = lowest if eqn.primitive is max_ else highest
    return x if y.val == bound(y.aval.dtype) else None


def _comparison_of_equals(eqn: Eqn, made: Made) -> Any:
    x, y = eqn.invars
    if x is not y or not _is_discrete(x):
        return None
    return Literal(eqn.primitive in (eq, le, ge), eqn.outvars[0].aval.update(shape=()))


_OPPOSITE: dict[Primitive, Primitive] = {eq: ne, ne: eq}
_OPPOSITE_DISCRETE: dict[Primitive, Primitive] = {lt: ge, ge: lt, gt: le, le: gt}


def _complement(eqn: Eqn, made: Made) -> Any:
    """``not not x`` is x; ``not x < y`` is ``x >= y``, but for NaN."""
    inner = made.get(eqn.invars[0])
    if inner is None:
        return None
    if inner.primitive is not_:
        return inner.invars[0]
    if eqn.invars[0].aval.dtype != dtypes.bool_:
        return None
    opposite = _OPPOSITE.get(inner.primitive)
    if opposite is None and inner.invars and _is_discrete(inner.invars[0]):
        opposite = _OPPOSITE_DISCRETE.get(inner.primitive)
    return None if opposite is None else New(opposite, inner.invars)


def _logic_with_constant(eqn: Eqn, made: Made) -> Any:
    x, y = eqn.invars
    if type(y) is not Literal:
        return None
    nothing = y.val == 0
    everything = bool(np.bitwise_not(y.val) == 0)
    if eqn.primitive is and_:
        return x if everything else y if nothing else None
    if eqn.primitive is or_:
        return y if everything else x if nothing else None
    return x if nothing else New(not_, (x,)) if everything else None


# ---- conversions, parts, rounding ---------------------------------------------------------------


def _holds(wide: np.dtype[Any], narrow: np.dtype[Any]) -> bool:
    """Whether every value of ``narrow`` is a value of ``wide``."""
    if wide == narrow or narrow == dtypes.bool_:
        return True
    if wide == dtypes.bool_ or (narrow.kind == "c" and wide.kind != "c"):
        return False
    if wide.kind == "c":
        return _holds(dtypes.real_dtype(wide), dtypes.real_dtype(narrow))
    if wide in dtypes.STORED:
        return False
    if dtypes.is_integer(narrow):
        signed = narrow in dtypes.SIGNED
        bits = dtypes.itemsize_bits(narrow) - signed
        if wide.kind in "iu":
            fits = 8 * wide.itemsize - (wide.kind == "i") >= bits
            return fits and bool(wide.kind == "i" or not signed)
        return int(dtypes.finfo(wide).nmant) + 1 >= bits and int(dtypes.finfo(wide).maxexp) > bits
    if wide.kind in "iu":
        return False
    w, n = dtypes.finfo(wide), dtypes.finfo(narrow)
    return bool(w.nmant >= n.nmant and w.maxexp >= n.maxexp and w.minexp <= n.minexp)


def _conversion_chain(eqn: Eqn, made: Made) -> Any:
    """Through a type that holds every value, a conversion is one from the first type.

    Not from an integer through a float to a shorter integer: floats saturate, integers wrap around.
    """
    inner = made.by(convert, eqn.invars[0])
    if inner is None:
        return None
    x = inner.invars[0]
    first, middle, last = (v.aval.dtype for v in (x, inner.outvars[0], eqn.outvars[0]))
    if not _holds(middle, first):
        return None
    if first.kind in "iu" and last.kind in "iu" and middle.kind not in "iu":
        if not _holds(last, first):
            return None
    if x.aval is eqn.outvars[0].aval:
        return x
    return New(convert, (x,), eqn.params)


def _magnitude(eqn: Eqn, made: Made) -> Any:
    """``|-x|`` and ``||x||`` are ``|x|``; that of an unsigned integer is itself."""
    (x,) = eqn.invars
    if x.aval.dtype.kind == "u" or made.by(abs_, x) is not None:
        return x
    negated = made.operand(neg, x)
    return None if negated is None else New(abs_, (negated,))


def _rounded_before(eqn: Eqn, made: Made) -> Any:
    inner = made.get(eqn.invars[0])
    whole = inner is not None and inner.primitive in (floor, ceil, round_)
    return eqn.invars[0] if whole else None


def _parts(eqn: Eqn, made: Made) -> Any:
    """The parts of a number made of parts, and a number made of the parts of one."""
    primitive = eqn.primitive
    if primitive is conj:
        return made.operand(conj, eqn.invars[0])
    if primitive is complex_:
        x, y = (made.operand(part, v) for part, v in zip((real, imag), eqn.invars))
        return x if x is not None and x is y else None
    inner = made.by(complex_, eqn.invars[0])
    return None if inner is None else inner.invars[0 if primitive is real else 1]


def _nothing_read(eqn: Eqn, made: Made) -> Any:
    """A reindex, or a sum of what it spread, whose map has no valid point."""
    aval, index_map = eqn.outvars[0].aval, eqn.params["map"]
    if not index_map.void():
        return None
    params = eqn.params
    found = params["fill"].val if "fill" in params else op_identity(params["op"], aval.dtype)
    number = Literal(np.asarray(found, aval.dtype), aval.update(shape=()))
    return New(broadcast_in_dim, (number,), {"shape": aval.shape, "dims": ()})


# ---- reductions ---------------------------------------------------------------------------------

#: Dtypes whose sums are added up in a wider type, and rounded once; and up to how many equal
#: numbers such a sum is exact, and their number a number of the dtype.
_EXACT_COPIES = {dtypes.bfloat16: 2**8, dtypes.float16: 2**11, dtypes.float32: 2**24}


def _reduced_copies(eqn: Eqn, made: Made) -> Any:
    """A reduction along axes that only repeat the operand, or have one element.

    The largest of equal numbers is that number; their sum, rounded once, is the product with how
    many they are; plus 0, for a sum begins with 0, and -0 + 0 is 0.
    """
    x = eqn.invars[0]
    aval, axes = x.aval, eqn.params["axes"]
    count = math.prod(aval.shape[k] for k in axes)
    if not count or not aval.size:
        return None
    source, dims = x, tuple(range(aval.ndim))
    if any(aval.shape[k] != 1 for k in axes):
        spread = made.by(broadcast_in_dim, x)
        if spread is None:
            return None
        source, dims = spread.invars[0], spread.params["dims"]
    sizes = dict(zip(dims, source.aval.shape))
    if type(source) is Literal or any(sizes.get(k, 1) != 1 for k in axes):
        return None
    value = _without_axes(source, dims, eqn)
    return value if eqn.primitive is not reduce_sum else _times(value, count, eqn)


def _without_axes(source: Atom, dims: tuple[int, ...], eqn: Eqn) -> Any:
    """``source`` as the result of the reduction of its broadcast."""
    axes, shape = eqn.params["axes"], eqn.outvars[0].aval.shape
    kept = [d for d in range(eqn.invars[0].aval.ndim) if d not in axes]
    left = tuple([n for n, d in zip(source.aval.shape, dims) if d not in axes])
    moved = tuple([kept.index(d) for d in dims if d not in axes])
    smaller = source if left == source.aval.shape else New(reshape, (source,), {"shape": left})
    if left == shape and moved == tuple(range(len(shape))):
        return smaller
    return New(broadcast_in_dim, (smaller,), {"shape": shape, "dims": moved})


def _times(value: Any, count: int, eqn: Eqn) -> Any:
    """The sum of ``count`` copies of a value, if it is exact."""
    aval = eqn.outvars[0].aval
    number = aval.update(shape=())
    if aval.dtype.kind in "iu":
        wrapped = np.asarray(count).astype(aval.dtype)
        return value if count == 1 else New(mul, (value, Literal(wrapped, number)))
    if count == 1:
        return New(add, (value, Literal(0, number)))
    if count > _EXACT_COPIES.get(aval.dtype, 0) or options.strict:
        return None  # where every sum is rounded as often as it adds
    return New(add, (New(mul, (value, Literal(count, number))), Literal(0, number)))


# ---- the table ----------------------------------------------------------------------------------

_COMPARISONS = (eq, ne, lt, le, gt, ge)
_REDUCTIONS = (reduce_sum, reduce_max, reduce_min, reduce_and, reduce_or)

RULES: tuple[Rule, ...] = (
    Rule("constant goes last", (add, mul, eq, ne, and_, or_, xor), _constant_last, constant=True),
    Rule("--x", (neg,), _double_negation),
    Rule("x + -y", (add,), _with_negation),
    Rule("x - -y", (sub,), _with_negation),
    Rule("-0 - x", (sub,), _zero_minus, constant=True),
    Rule("x - x", (sub,), _difference_of_equals),
    Rule("(x + a) + b", (add, mul), _constants_together, constant=True),
    Rule("x * 0", (mul,), _product_with_zero, constant=True),
    Rule("x * -1", (mul,), _product_with_minus_one, constant=True),
    Rule("-x * -y", (mul, div), _signs_of_factors),
    Rule("x / 2**n", (div,), _quotient_by_power_of_two, constant=True),
    Rule("x ** n", (integer_pow, pow), _power),
    Rule("x ** 2", (square,), _power),
    Rule("equal cases", (select_n,), _same_cases),
    Rule("known choice", (select_n,), _known_choice),
    Rule("choice by complement", (select_n,), _choice_by_complement),
    Rule("choice in choice", (select_n,), _choice_in_choice),
    Rule("choice of an update", (select_n,), choice_of_update),
    Rule("read where it is written", (scatter,), read_where_written),
    Rule("max(x, x)", (max_, min_, and_, or_), _of_equals),
    Rule("max(x, -inf)", (max_, min_), _extremum_with_bound, constant=True),
    Rule("known by ranges", _COMPARISONS, known_comparison, constant=True),
    Rule("inside its limits", (clamp,), clamped_inside, constant=True),
    Rule("x == x", _COMPARISONS, _comparison_of_equals),
    Rule("not not x", (not_,), _complement),
    Rule("x and True", (and_, or_, xor), _logic_with_constant, constant=True),
    Rule("x xor x", (xor,), _difference_of_equals),
    Rule("conversion of a conversion", (convert,), _conversion_chain),
    Rule("|-x|", (abs_,), _magnitude),
    Rule("rounded before", (floor, ceil, round_), _rounded_before),
    Rule("parts of parts", (real, imag, complex_, conj), _parts),
    Rule("as it is", lambda primitive: primitive.is_marker, lambda eqn, made: eqn.invars[0]),
    Rule("nothing is read", (reindex, reindex_reduce), _nothing_read),
    Rule("reduction of copies", _REDUCTIONS, _reduced_copies),
)
