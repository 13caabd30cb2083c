"""The rules of the language, as a checker of programs.

A program is right when

- every variable is defined once, before its use, in the same program: an inner program sees no
  variable of an outer one, and has no constants;
- every primitive is registered, takes its operands' types and parameters, and gives exactly the
  types that the results are declared with;
- parameters are hashable data: numbers, strings, tuples, dtypes, literals, index maps, programs;
  or objects that stand for themselves (rules, functions);
- the operands of an elementwise equation have one shape, but for scalar literals;
- no equation touches float0.

:func:`verify` raises a :class:`VerificationError` that shows the equation and says what was found
and what was expected.  :func:`checking` verifies every program that is traced meanwhile.

Start at :func:`verify`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from functrax.core.errors.typed import AxisNameError, FunctraxError, VerificationError
from functrax.core.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, subjaxprs
from functrax.core.ir.printing import eqn_text, variable_names
from functrax.core.prims.reduce import ReindexReduce
from functrax.core.prims.reindex import Reindexing
from functrax.core.tracing.primitive import Elementwise, Primitive, registry
from functrax.core.tracing.stage import program_observers
from functrax.core.types import dtypes
from functrax.core.types.aval import ShapedArray

META_OPERATORS = (Elementwise, Reindexing, ReindexReduce)


def verify(program: Jaxpr | ClosedJaxpr) -> None:
    """Check that a program follows the rules of the language.

    Args:
      program: the program; its inner programs are checked too.

    Raises:
      VerificationError: if it breaks a rule; says which equation, which operand, what was found
        and what was expected.
    """
    if isinstance(program, ClosedJaxpr):
        _check_constants(program)
        program = program.jaxpr
    if program.memo.get("verified"):
        return
    _Checker(program).check()
    program.memo["verified"] = True


@contextmanager
def checking() -> Iterator[None]:
    """Verify every program whose tracing ends inside the ``with`` block."""
    program_observers.append(verify)
    try:
        yield
    finally:
        program_observers.remove(verify)


def meta_only(program: Jaxpr | ClosedJaxpr) -> list[Eqn]:
    """The equations that are not meta-operators; empty when a program has nothing else.

    A call (an equation that runs the one program it holds, on its own operands) is looked into.
    """
    found: list[Eqn] = []
    for eqn in program.eqns:
        called = _called(eqn)
        if called is not None:
            found += meta_only(called)
        elif not isinstance(eqn.primitive, META_OPERATORS):
            found.append(eqn)
    return found


def _called(eqn: Eqn) -> Jaxpr | None:
    inner = eqn.params.get("jaxpr")
    if not isinstance(inner, Jaxpr) or len(list(subjaxprs(eqn))) != 1:
        return None
    same_inputs = _strong(inner.invars) == _strong(eqn.invars)
    return inner if same_inputs and _strong(inner.outvars) == _strong(eqn.outvars) else None


def _strong(atoms: Any) -> list[ShapedArray]:
    return [x.aval.strip_weak_type() for x in atoms]


def _check_constants(closed: ClosedJaxpr) -> None:
    names = variable_names(closed.jaxpr)
    for var, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        found = value.aval if hasattr(value, "aval") else _array_type(value)
        if found.update(weak_type=False) != var.aval.update(weak_type=False):
            raise VerificationError(
                f"verify: the value of the constant {names[var]} has another type",
                got=f"found {found.str_short()}, expected {var.aval.str_short()}",
                fix="constants of the types of constvars, in their order",
            )


def _array_type(value: Any) -> ShapedArray:
    array = np.asarray(value)
    return ShapedArray(array.shape, array.dtype)


class _Checker:
    """Checks one program; ``defined`` holds the variables met so far."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.jaxpr = jaxpr
        self.defined: set[Var] = set()

    def check(self) -> None:
        for kind, variables in (("constant", self.jaxpr.constvars), ("input", self.jaxpr.invars)):
            for i, var in enumerate(variables):
                self._define(var, f"{kind} {i}", None)
        for eqn in self.jaxpr.eqns:
            self._check_eqn(eqn)
        for i, x in enumerate(self.jaxpr.outvars):
            self._check_atom(x, f"result {i} of the program", None)

    def _error(
        self, eqn: Eqn | None, what: str, found: str, expected: str, fix: str = ""
    ) -> VerificationError:
        names = variable_names(self.jaxpr)
        place = f"in the program {self.jaxpr.name}" if eqn is None else eqn_text(eqn, names)
        got = f"{place}\nfound {found}, expected {expected}"
        return VerificationError(
            f"verify: {what}", got=got, fix=fix, where=None if eqn is None else eqn.source
        )

    def _named(self, var: Var) -> str:
        return f"{variable_names(self.jaxpr)[var]}:{var.aval.str_short()}"

    def _define(self, var: Any, what: str, eqn: Eqn | None) -> None:
        if not isinstance(var, Var):
            raise self._error(eqn, f"{what} is not a variable", repr(var), "a Var")
        if var in self.defined:
            raise self._error(
                eqn,
                f"{what} is defined twice",
                f"another definition of {self._named(var)} before",
                "a variable of its own for each definition",
            )
        self.defined.add(var)

    def _check_atom(self, x: Any, what: str, eqn: Eqn | None) -> None:
        if isinstance(x, Literal):
            if x.aval.shape:
                raise self._error(eqn, f"{what} is a literal of rank > 0", repr(x), "rank 0")
            return
        if not isinstance(x, Var):
            kind = type(x).__name__
            raise self._error(eqn, f"{what} is no operand", f"a {kind}", "a Var or a Literal")
        if x in self.defined:
            return
        later = any(x in other.outvars for other in self.jaxpr.eqns)
        raise self._error(
            eqn,
            f"{what} is used before it is defined" if later else f"{what} is not defined",
            f"{self._named(x)}, which "
            + ("a later equation defines" if later else "nothing in this program defines"),
            "an input, a constant, or a result of an earlier equation of the same program",
            "" if later else "an inner program takes outer values as inputs",
        )

    def _check_eqn(self, eqn: Eqn) -> None:
        primitive = eqn.primitive
        if registry.get(primitive.name) is not primitive:
            raise self._error(
                eqn, "unknown primitive", repr(primitive.name), "a primitive of the registry"
            )
        for i, x in enumerate(eqn.invars):
            self._check_atom(x, f"operand {i} of {primitive.name}", eqn)
        for key, value in eqn.params.items():
            self._check_param(eqn, key, value)
        for i, var in enumerate((*eqn.invars, *eqn.outvars)):
            if var.aval.dtype == dtypes.float0:
                raise self._error(
                    eqn, f"{primitive.name} touches float0", f"it as variable {i}", "no float0"
                )
        if isinstance(primitive, Elementwise):
            self._check_elementwise(eqn)
        self._check_results(eqn)
        for i, var in enumerate(eqn.outvars):
            self._define(var, f"result {i} of {primitive.name}", eqn)

    def _check_param(self, eqn: Eqn, key: str, value: Any) -> None:
        what = f"parameter {key} of {eqn.primitive.name}"
        if isinstance(value, Jaxpr):
            if value.constvars:
                number = len(value.constvars)
                raise self._error(eqn, f"{what} has constants", f"{number} of them", "none")
            verify(value)
            return
        if isinstance(value, (np.generic, np.ndarray)):
            kind = type(value).__name__
            raise self._error(
                eqn, f"{what} is a NumPy value", kind, "a Python number, a tuple, or a Literal"
            )
        if isinstance(value, tuple):
            if type(value) is not tuple:
                raise self._error(eqn, f"{what} is no plain tuple", repr(value), "a tuple")
            for part in value:
                self._check_param(eqn, key, part)
            return
        try:
            hash(value)
        except TypeError:
            kind = type(value).__name__
            raise self._error(
                eqn, f"{what} is not hashable", f"a {kind}", "hashable data", "a tuple for a list"
            ) from None

    def _check_elementwise(self, eqn: Eqn) -> None:
        """Only literals may be scalars among arrays."""
        arrays = [x for x in eqn.invars if isinstance(x, Var)]
        for i, x in enumerate(eqn.invars):
            if isinstance(x, Var) and x.aval.shape != arrays[0].aval.shape:
                raise self._error(
                    eqn,
                    f"operand {i} of {eqn.primitive.name} has another shape",
                    self._named(x),
                    f"the shape {arrays[0].aval.shape} of {self._named(arrays[0])}",
                    "broadcast_in_dim; only a scalar literal stands for an array of any shape",
                )

    def _check_results(self, eqn: Eqn) -> None:
        expected = self._infer(eqn)
        if expected is None:
            return
        found = [v.aval for v in eqn.outvars]
        if len(found) != len(expected):
            raise self._error(
                eqn,
                f"{eqn.primitive.name} has another number of results",
                str(len(found)),
                str(len(expected)),
            )
        for i, (have, want) in enumerate(zip(found, expected, strict=True)):
            if have is not want:
                raise self._error(
                    eqn,
                    f"result {i} of {eqn.primitive.name} has another type",
                    have.str_short(),
                    want.str_short(),
                )

    def _infer(self, eqn: Eqn) -> tuple[ShapedArray, ...] | None:
        """The types that the results must have; None if only a ``vmap`` can tell."""
        avals = tuple(x.aval for x in eqn.invars)
        params = dict(eqn.params)
        try:
            results = eqn.primitive.infer(avals, params)
            _reference_signature(eqn.primitive).bind(*avals, **params)
        except AxisNameError:
            return None  # the size of a named axis is known under the vmap that binds it
        except FunctraxError as error:
            raise self._error(
                eqn, error.what, error.got or "operands that do not fit", "what it takes", error.fix
            ) from error
        except Exception as error:  # a rule that was given parameters of any kind may raise any
            raise self._error(
                eqn,
                f"{eqn.primitive.name} does not take these operands and parameters",
                f"{type(error).__name__}: {error}",
                "those of its definition",
            ) from error
        return (results,) if type(results) is ShapedArray else tuple(results)


@functools.cache
def _reference_signature(primitive: Primitive) -> inspect.Signature:
    """How many operands, and which parameters, a primitive's definition takes."""
    return inspect.signature(primitive.reference)
