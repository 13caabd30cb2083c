"""The reference device: a Python loop over NumPy, which defines what every program means.

Each operation is run by a *rule*, chosen once per primitive (:func:`rule_of`).  Most rules call
the primitive's NumPy reference.  The others see to memory, for the product that is summed in a
matrix product or a convolution is too large to be stored: windows stay strided views
(``backends/reference/strided.py``), products of values that repeat elements are put off, and sums
of these are contractions (``backends/reference/deferred.py``).  Raw values are NumPy arrays, NumPy
scalars (literals) and :class:`Deferred`; nobody ever writes to any of them.

Eager operations and programs (:class:`ReferenceProgram`) use the same rules, so they give the same
bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from functrax.backends.device import Device, Executable, register
from functrax.backends.reference import nan_check, strided
from functrax.backends.reference.deferred import Deferred, accumulator, contract, defer
from functrax.core.ir.jaxpr import Atom, Jaxpr, Literal, Var
from functrax.core.prims.arithmetic import mul
from functrax.core.prims.mapped import reindex, reindex_reduce
from functrax.core.prims.reduce import reduce_or, reduce_sum, wider
from functrax.core.tracing.primitive import Primitive
from functrax.core.tracing.trace import current_source

#: Takes a primitive, its raw operands and its parameters; returns a raw result, or a list.
Rule: TypeAlias = Callable[[Primitive, Sequence[Any], dict[str, Any]], Any]


def in_numpy(x: Any) -> Any:
    """A raw value of any device as this device knows them."""
    if type(x) is np.ndarray or type(x) is Deferred or not hasattr(x, "materialize"):
        return x
    return x.materialize()


def _raw(x: Any) -> Any:
    found = in_numpy(x)
    return found if type(found) is np.ndarray or type(found) is Deferred else np.asarray(found)


def _plain(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
    """Run the reference on materialized operands."""
    operands = [x.materialize() if type(x) is Deferred else x for x in values]
    out = primitive.reference(*operands, **params)
    if primitive.multiple_results:
        return [_raw(x) for x in out]
    return out if type(out) is np.ndarray else np.asarray(out)


def _call(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
    """Run an inner program, which takes and returns raw values."""
    return list(primitive.reference(*values, **params))


def _mul(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
    """A product, which may be put off."""
    out = defer(values)
    return _plain(primitive, values, params) if out is None else out


def _reindex(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
    x, *indices = [np.asarray(v.materialize() if type(v) is Deferred else v) for v in values]
    return strided.reindex(x, indices, params["map"], params["fill"])


def _reduce_sum(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
    (x,) = values
    if type(x) is not Deferred or not params["axes"]:
        return _plain(primitive, values, params)
    kept = tuple(k for k in range(len(x.shape)) if k not in params["axes"])
    return contract(x, kept).astype(x.dtype, copy=False)


def _reduce_or(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
    """Whether any product of truth values is true: how many are."""
    (x,) = values
    if type(x) is not Deferred or x.dtype != np.bool_:
        return _plain(primitive, values, params)
    return contract(x, tuple(k for k in range(len(x.shape)) if k not in params["axes"])) > 0


def _reindex_reduce(primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
    """Sum over the dimensions that the map does not use, then scatter the others."""
    index_map = params["map"]
    empty = 0 in index_map.domain or 0 in index_map.codomain
    if params["op"] != "add" or values[0].dtype == np.bool_ or empty:
        return _plain(primitive, values, params)
    x = values[0]
    smaller, kept = index_map.drop_unused_dims()
    if type(x) is Deferred:
        part: Any = contract(x, kept)
    else:
        unused = tuple(k for k in range(x.ndim) if k not in kept)
        part = np.sum(x, axis=unused, dtype=wider(x.dtype)) if unused else np.asarray(x)
        part = part.astype(accumulator({x.dtype}), copy=False)
    indices = [v.materialize() if type(v) is Deferred else np.asarray(v) for v in values[1:]]
    return np.asarray(strided.scatter_add(part, indices, smaller)).astype(x.dtype, copy=False)


_RULES: dict[Primitive, Rule] = {
    mul: _mul,
    reindex: _reindex,
    reduce_sum: _reduce_sum,
    reduce_or: _reduce_or,
    reindex_reduce: _reindex_reduce,
}
_rule_cache: dict[Primitive, Rule] = {}


def rule_of(primitive: Primitive) -> Rule:
    """How a primitive is run.

    A primitive whose reference runs programs on raw values has the attribute ``takes_deferred``.
    """
    rule = _rule_cache.get(primitive)
    if rule is None:
        default = _call if getattr(primitive, "takes_deferred", False) else _plain
        rule = _rule_cache[primitive] = _RULES.get(primitive, default)
    return rule


class ReferenceProgram:
    """A program made ready: values are dropped after their last use."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        last: dict[Atom, int] = {}
        for n, eqn in enumerate(jaxpr.eqns):
            last.update(dict.fromkeys((*eqn.outvars, *eqn.invars), n))
        for x in jaxpr.outvars:
            last.pop(x, None)
        done: list[list[Atom]] = [[] for _ in jaxpr.eqns]
        for x, n in last.items():
            if type(x) is Var:
                done[n].append(x)
        self._invars, self._outvars = jaxpr.invars, jaxpr.outvars
        self._steps = [
            (rule_of(eqn.primitive), eqn, dict(eqn.params), after)
            for eqn, after in zip(jaxpr.eqns, done, strict=True)
        ]

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        env: dict[Atom, Any] = dict(zip(self._invars, values, strict=True))
        checked = nan_check.enabled()
        with np.errstate(all="ignore"):
            for rule, eqn, params, done in self._steps:
                operands = [x.val if type(x) is Literal else env[x] for x in eqn.invars]
                out = rule(eqn.primitive, operands, params)
                if checked:
                    nan_check.check(eqn.primitive, operands, out, eqn.source)
                outs = out if eqn.primitive.multiple_results else [out]
                env.update(zip(eqn.outvars, outs, strict=True))
                for x in done:
                    del env[x]
        return [_raw(x.val if type(x) is Literal else env[x]) for x in self._outvars]


class ReferenceDevice(Device):
    """Runs equations one by one with their NumPy references."""

    name = "reference"

    def compile(self, jaxpr: Jaxpr) -> Executable:
        return ReferenceProgram(jaxpr)

    def apply(self, primitive: Primitive, values: Sequence[Any], params: dict[str, Any]) -> Any:
        with np.errstate(all="ignore"):
            out = rule_of(primitive)(primitive, values, params)
        if nan_check.enabled():
            nan_check.blame(primitive, values, out, params, self.apply)
            nan_check.check(primitive, values, out, current_source())
        return out


register("interp", ReferenceDevice())
