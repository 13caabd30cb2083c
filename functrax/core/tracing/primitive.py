"""Primitives: the operations of the language, one class each, in four families.

A primitive's class holds everything about it: the shape rule, the NumPy reference (which *is* its
definition), its derivative, its transpose, its batching, and samples for the generated tests.
What follows from the family is written once, on the family's base class:

- :class:`Elementwise`: ``O[i] = f(A[i], B[i], ...)``, operands of one shape (a scalar literal
  stands for an array full of it).  Derivative: partial derivatives times tangents.
- ``Reindex`` (``core/prims/reindex.py``): ``O[o] = I[f(o)]``, linear in ``I``.
- ``ReindexReduce`` (``core/prims/reduce.py``): ``O[f(i)] op= I[i]``.
- :class:`Opaque`: anything else, with rules of its own.

A tangent is a value, or ``None`` for a tangent that is zero: zeros are never made.  In a
transpose, an operand that the operation is linear in is given as a :class:`Linear`.

Start at :class:`Primitive`.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from functrax.core import native
from functrax.core.arrays.array import ConcreteArray
from functrax.core.errors.typed import DifferentiationError, DTypeError, FunctraxError, ShapeError
from functrax.core.ir.jaxpr import Jaxpr, Literal, programs_in
from functrax.core.records import field, record
from functrax.core.tracing import stored_dtypes
from functrax.core.tracing.primitive_names import Registry
from functrax.core.tracing.stored_dtypes import StoredDTypeError
from functrax.core.tracing.trace import state
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

#: A value during tracing: a ConcreteArray, a Tracer, or a Literal.  All have an ``aval``.
Value: TypeAlias = Any
Avals: TypeAlias = "ShapedArray | tuple[ShapedArray, ...]"
#: Operands, and their tangents or cotangents, as rules take them.
Ops: TypeAlias = Sequence[Value]
Tangents: TypeAlias = "Sequence[Value | None]"

NO_EFFECTS: frozenset[Hashable] = frozenset()
#: The note that a program can be transposed, but not run forwards.
TRANSPOSE_ONLY = "transpose only"
registry = Registry()
#: How many types of results a primitive remembers.
MAX_REMEMBERED = 1 << 16


def has_side_effects(effects: frozenset[Hashable]) -> bool:
    """Whether effects are more than notes about what a program can be used for."""
    return any(e != TRANSPOSE_ONLY and not isinstance(e, tuple) for e in effects)


class Linear:
    """Stands for an operand that is being transposed: only its type is known."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @property
    def val(self) -> Any:
        """There is none; that it is asked for shows that the operation is not linear."""
        raise self.not_linear()

    def not_linear(self) -> DifferentiationError:
        """The error for a transpose that needs the value of this operand."""
        return DifferentiationError(
            "linear_transpose: the function is not linear",
            got=f"an operation whose transpose needs the value of an operand "
            f"{self.aval.str_short()} that it should be linear in",
            fix="functrax.vjp, which linearizes first",
            where=state.source,
        )


@record
class Sample:
    """Arguments for a generated test of a primitive.

    Args:
      shapes: the operands' shapes.
      params: the parameters.
      ranges: for each operand the interval that its values are drawn from; one for all if single.
      distinct: draw values that all differ (for max, sort).
      dtypes: for each operand a dtype, or None for the dtype under test; all under test if empty.
      diagonal: added to the main diagonal of the first operand's matrices, so that they are well
        conditioned.
    """

    shapes: tuple[tuple[int, ...], ...]
    params: dict[str, Any] = field(default_factory=dict)
    ranges: tuple[tuple[float, float], ...] = ((-2.0, 2.0),)
    distinct: bool = False
    dtypes: tuple[Any, ...] = ()
    diagonal: float = 0.0


@record
class BadSample:
    """Arguments that must be refused, with the error and a part of its text."""

    avals: tuple[ShapedArray, ...]
    error: type[FunctraxError]
    match: str
    params: dict[str, Any] = field(default_factory=dict)


class _Abstract(ABCMeta):
    """Abstract classes whose instances are those of their subclasses, which is asked often."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


class Primitive(metaclass=_Abstract):
    """One operation of the language."""

    name: str
    #: The family's name, for people; programs ask for the class.
    family: ClassVar[str]
    multiple_results: ClassVar[bool] = False
    #: Never has a side effect: equal applications may be shared, unused ones left out.
    pure: ClassVar[bool] = True
    #: Parameters hold programs or functions, which must not be kept alive by being remembered.
    holds_programs: ClassVar[bool] = False
    #: It runs the program that :meth:`inlines` gives on its operands, and nothing else.
    is_call: ClassVar[bool] = False
    #: Equal applications may be computed once.
    shareable: ClassVar[bool] = True
    #: The program that it runs computes again what an earlier one of its kind computed.
    recomputes: ClassVar[bool] = False
    #: Every way to compute it gives the same bits, for nothing in it is rounded more than once.
    exact: ClassVar[bool] = False
    #: The same, where neither operands nor results are floating-point or complex.
    exact_on_integers: ClassVar[bool] = False
    #: Nothing in it is rounded, so its results are exact if its operands are.
    rounds_nothing: ClassVar[bool] = False
    #: About how many calls of NumPy its reference makes, which go over the elements each.
    reference_calls: ClassVar[int] = 1
    #: It does no arithmetic: it chooses, converts or relabels numbers.
    computes_nothing: ClassVar[bool] = False
    #: It computes a function such as ``exp``, which takes many instructions for each element.
    is_function: ClassVar[bool] = False
    #: Of sums of products it makes a sum of products (again, converted): these can be put off,
    #: and multiplied out.
    distributes: ClassVar[bool] = False
    #: The result is 0 wherever one of its operands is 0.
    keeps_zero: ClassVar[bool] = False
    #: Real and imaginary parts of its results depend on those of its operand, each by itself.
    by_parts: ClassVar[bool] = False
    #: It gives its operand as it is and tells something to those who trace, not to a compiler.
    is_marker: ClassVar[bool] = False
    #: It calls a function of the user's own (``core/foreign``), which means something in this
    #: process alone.
    is_foreign: ClassVar[bool] = False
    #: dtypes of the (first) operand that it takes.
    accepts: frozenset[np.dtype[Any]] = dtypes.ALL
    #: It depends on the bits of a number, of which a wider dtype has more.
    reads_bits: bool = False
    #: It moves elements as they are, or converts them, so it takes stored dtypes as they are.
    takes_stored: ClassVar[bool] = False
    #: ``(*operands)``, finite ones: why results are not, and what to do; None if it cannot tell.
    why_not_finite: Callable[..., tuple[str, str]] | None = None
    #: ``(outs, *operands, **params)``: writes what :meth:`reference` gives to NumPy arrays, without
    #: storing it elsewhere; None if it does not.
    reference_into: Callable[..., None] | None = None

    def __init__(self) -> None:
        self._inferred: dict[Hashable, Avals] = {}
        if not self.takes_stored:
            self.accepts = self.accepts - dtypes.STORED
        registry.add(self.name, self)

    @native.eager_method
    def bind(self, *args: Value, **params: Any) -> Any:
        """Apply the primitive under the current interpreter."""
        trace = state.trace
        try:
            if trace.seen is None:
                return trace.process(self, args, params)
            return trace.process_once(self, args, params)
        except StoredDTypeError as error:
            if error.primitive is not self:
                raise
        return stored_dtypes.compute(self, args, params, registry["convert_element_type"].bind)

    __call__ = bind

    def infer(self, avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> Avals:
        """The types of the results, checked and remembered."""
        if self.holds_programs:
            return self.shape_rule(*avals, **params)
        key = (avals, *params.items()) if params else avals
        found = self._inferred.get(key)
        if found is None:
            if not self.takes_stored and stored_dtypes.concerns(avals, params):
                raise StoredDTypeError(self, avals, params)
            if len(self._inferred) >= MAX_REMEMBERED:
                self._inferred.clear()
            found = self._inferred[key] = self.shape_rule(*avals, **params)
        return found

    @abstractmethod
    def shape_rule(self, *args: Any, **params: Any) -> Avals:
        """The types of the results; raises a typed error if the operands do not fit."""

    @abstractmethod
    def reference(self, *args: Any, **params: Any) -> Any:
        """The definition: NumPy arrays in, NumPy arrays out."""

    @abstractmethod
    def jvp(self, *args: Any, **params: Any) -> tuple[Any, Any]:
        """``(primals, tangents, **params) -> (result, tangent of the result)``."""

    def transpose(self, *args: Any, **params: Any) -> Sequence[Value | None]:
        """``(ct, *operands, **params)`` -> a cotangent, or None, for each operand."""
        raise DifferentiationError(
            f"{self.name} has no transpose: it is not linear in the operand",
            got=f"the transpose of {self.name}",
            fix="differentiate with grad or vjp, which linearize first",
        )

    def fewer(self, used: Sequence[bool], params: dict[str, Any]) -> dict[str, Any] | None:
        """The parameters with which it gives only the results that are used, with the same bits.

        None if it gives all of them in any case.
        """
        return None

    @abstractmethod
    def batch(self, *args: Any, **params: Any) -> tuple[Any, Any]:
        """``(size, args, batched, **params) -> (result, batched)``; batch axes are axis 0."""

    def lower(self, *args: Any, **params: Any) -> Any:
        """``(builder, *operands, **params)`` -> the result of one element, in scalar operations.

        Operands and results are scalars of ``core/scalars/scalar.py``, a tuple of them where the
        primitive has multiple results.  What is not lowered is run by its reference;
        :meth:`lowers` says which.
        """
        raise NotImplementedError(f"{self.name} has no lowering")

    def lowers(self, avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> bool:
        """Whether it can run inside a kernel: one element can be written in scalar operations.

        Elementwise primitives do it by :meth:`lower`, reindexing ones by their ``index_map``,
        reductions by their ``reduction``.
        """
        return type(self).lower is not Primitive.lower and self.is_numeric(avals, params)

    def is_numeric(self, avals: tuple[ShapedArray, ...], params: dict[str, Any]) -> bool:
        """Whether all operands and results are of dtypes that kernels read and write."""
        if not dtypes.ALL.issuperset([a.dtype for a in avals]):
            return False
        outs = self.infer(avals, params)
        results = outs if isinstance(outs, tuple) else (outs,)
        return dtypes.ALL.issuperset([a.dtype for a in results])

    def simplify(self, *args: Value, **params: Any) -> Value | None:
        """An equal value that needs no operation, if there is one, else None.

        It depends on the types, the parameters and the values of literals; never on the values of
        arrays, nor on their identity.
        """
        return None

    def effects(self, params: dict[str, Any]) -> frozenset[Hashable]:
        """What it does besides computing its results; ``("axis", name)``: it uses a named axis."""
        return NO_EFFECTS

    def has_side_effects(self, params: dict[str, Any]) -> bool:
        """Whether this application must run, in order, even if nobody uses its results."""
        return not self.pure and has_side_effects(self.effects(params))

    def moved_operands(self, params: dict[str, Any]) -> slice:
        """The operands whose elements are those of the results, as they are; others choose."""
        return slice(0, 0)

    def inlines(self, params: dict[str, Any]) -> Jaxpr | None:
        """The program that it runs once, on its own operands, and that may stand in its place."""
        return None

    #: Whether :meth:`written` gives a program.
    is_written: ClassVar[bool] = False

    def written(self, avals: tuple[ShapedArray, ...]) -> Jaxpr | None:
        """The program of other primitives that computes the values, for targets to compile."""
        return None

    def samples(self) -> Iterable[Sample]:
        """Arguments for the generated tests."""
        return ()

    def bad_samples(self) -> Iterable[BadSample]:
        """Arguments that must be refused."""
        return ()

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return named, (self.name,)


def named(name: str) -> Primitive:
    """The primitive of a name; a KeyError if there is none."""
    return registry[name]


def literal(value: Any, dtype: np.dtype[Any]) -> Literal:
    """A scalar constant of a dtype, as an operand."""
    return Literal(value, ShapedArray((), dtype))


def like(x: Value, value: complex) -> Literal:
    """A scalar constant of the dtype of ``x``, weak where ``x`` is."""
    aval = x.aval
    return Literal(value, ShapedArray((), aval.dtype, aval.weak_type))


def check_dtype(name: str, aval: ShapedArray, accepts: frozenset[np.dtype[Any]]) -> None:
    """Refuse a dtype that a primitive does not take."""
    if aval.dtype in accepts:
        return
    if aval.dtype == dtypes.float0:
        raise DTypeError(
            f"{name}: float0s do not support any operations by design: they are the tangents of "
            "integers, which are zero",
            got=aval.str_short(),
            fix="functrax.numpy.zeros(x.shape) for zeros that can be computed with",
        )
    names = ", ".join(sorted(str(d) for d in accepts))
    raise DTypeError(
        f"{name} does not accept dtype {aval.dtype}",
        got=aval.str_short(),
        fix=f"convert with .astype(...) to one of: {names}",
    )


class Elementwise(Primitive):
    """``O[i] = f(A[i], B[i], ...)`` over operands of one shape."""

    family = "elementwise"
    exact = True
    exact_on_integers = True
    arity: int = 1
    #: All operands have one dtype.
    same_dtype: ClassVar[bool] = True
    #: Its two operands may change places; bit for bit, but for complex numbers.
    commutative: bool = False

    def result_dtype(self, *args: Any, **params: Any) -> np.dtype[Any]:
        """``(*dtypes, **params)`` -> dtype of the result; that of the first operand here."""
        return args[0]  # type: ignore[no-any-return]

    def shape_rule(self, *args: Any, **params: Any) -> Avals:
        avals: tuple[ShapedArray, ...] = args
        if len(avals) != self.arity:
            raise ShapeError(
                f"{self.name} takes {self.arity} operands",
                got=f"{len(avals)} operands",
                fix=f"give {self.arity} arrays",
            )
        shape = elementwise_shape(self.name, avals)
        self.check_dtypes(avals)
        dtype = self.result_dtype(*(a.dtype for a in avals), **params)
        return ShapedArray(
            shape, dtype, all(a.weak_type for a in avals) and dtype == avals[0].dtype
        )

    def check_dtypes(self, avals: tuple[ShapedArray, ...]) -> None:
        """Refuse operands of the wrong dtypes."""
        for aval in avals:
            check_dtype(self.name, aval, self.accepts)
        if self.same_dtype and any(a.dtype != avals[0].dtype for a in avals):
            raise DTypeError(
                f"{self.name} requires arguments to have the same dtypes",
                got=", ".join(a.str_short() for a in avals),
                fix="convert with .astype(...), or use functrax.numpy, which promotes",
            )

    def partial(self, *args: Any, **params: Any) -> Value | None:
        """``(i, operands, out, **params)`` -> the derivative by operand ``i``, or None for zero."""
        i, operands = args[0], args[1]
        raise DifferentiationError(
            f"{self.name} is not differentiable",
            got=f"a tangent of operand {i}, {operands[i].aval.str_short()}",
            fix="functrax.lax.stop_gradient(x) for a derivative of 0; or functrax.custom_jvp",
        )

    def jvp(self, *args: Any, **params: Any) -> tuple[Any, Any]:
        primals, tangents = args
        out = self.bind(*primals, **params)
        if not dtypes.is_inexact(out.aval.dtype):
            return out, None
        total = None
        for i, t in enumerate(tangents):
            if t is None:
                continue
            factor = self.partial(i, primals, out, **params)
            if factor is not None:
                term = registry["mul"].bind(t, factor)
                total = term if total is None else registry["add"].bind(total, term)
        return out, total

    def batch(self, *args: Any, **params: Any) -> tuple[Any, Any]:
        size, operands, batched = args
        return self.bind(*spread(size, operands, batched), **params), True

    def samples(self) -> Iterable[Sample]:
        yield Sample(((3, 4),) * self.arity)
        yield Sample(((),) * self.arity)
        yield Sample(((0, 2),) * self.arity)

    def bad_samples(self) -> Iterable[BadSample]:
        dtype = min(self.accepts, key=str)
        if self.arity > 1 and self.same_dtype:
            short, long = ShapedArray((3,), dtype), ShapedArray((4,), dtype)
            yield BadSample((short, long, *(long,) * (self.arity - 2)), ShapeError, self.name)
        for refused in sorted(dtypes.ALL - self.accepts, key=str)[:2]:
            avals = (ShapedArray((3,), refused),) * self.arity
            if self.same_dtype:
                yield BadSample(avals, DTypeError, self.name)


def elementwise_shape(name: str, avals: Sequence[ShapedArray]) -> tuple[int, ...]:
    """The one shape of the operands; rank 0 operands stand for any shape."""
    shape: tuple[int, ...] = ()
    for aval in avals:
        if aval.shape and aval.shape != shape:
            if shape:
                raise ShapeError(
                    f"{name}: operands have different shapes",
                    got=", ".join(a.str_short() for a in avals),
                    fix="broadcast them to one shape, or use functrax.numpy, which broadcasts",
                )
            shape = aval.shape
    return shape


def is_scalar_constant(x: Value) -> bool:
    """Whether a value is a literal, or an array of rank 0 with a value, which becomes one."""
    return type(x) is Literal or (type(x) is ConcreteArray and not x.aval.shape)


def spread(
    size: int, args: Sequence[Value], batched: Sequence[bool], literals: bool = False
) -> list[Value]:
    """Give the unbatched arrays among ``args`` the batch axis 0.

    Scalar constants stay as they are, as elementwise operations want them, unless ``literals``
    is set.
    """
    broadcast = registry["broadcast_in_dim"].bind
    return [
        x
        if b or (not literals and is_scalar_constant(x))
        else broadcast(x, shape=(size, *x.aval.shape), dims=tuple(range(1, x.aval.ndim + 1)))
        for x, b in zip(args, batched, strict=True)
    ]


class Opaque(Primitive):
    """An operation outside the three meta-operator classes, with rules of its own."""

    family = "opaque"


class HigherOrder(Opaque):
    """An operation that holds programs in its parameters: a call, a loop, a choice, a solve.

    It does what its programs do, so their effects are its own; it is batched together with the
    named axis that collectives in its programs may use.
    """

    multiple_results = True
    pure = False
    holds_programs = True

    def effects(self, params: dict[str, Any]) -> frozenset[Hashable]:
        found = NO_EFFECTS
        for program in programs_in(params):
            found |= program.effects
        return found

    def batch(
        self, size: int, args: Ops, batched: Sequence[bool], **params: Any
    ) -> tuple[Any, Any]:
        return self.batch_over_axis(None, size, args, batched, **params)

    @abstractmethod
    def batch_over_axis(self, *args: Any, **params: Any) -> tuple[Any, Any]:
        """As :meth:`batch`, with the name of the mapped axis, or None, in front."""
