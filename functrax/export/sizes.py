"""The values of sizes that have names, from the shapes of a call's arguments.

Start at :func:`sizes_of_call`.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import ge, lt
from typing import TYPE_CHECKING, Any, NamedTuple

from functrax.core.errors.typed import ShapeError
from functrax.core.pytree.operations import keystr, tree_flatten_with_path, tree_unflatten
from functrax.core.types import size_polynomials as sp
from functrax.core.types.aval import ShapedArray
from functrax.core.types.size_bounds import surely
from functrax.core.types.size_polynomials import Polynomial, SizeAtom
from functrax.core.types.symbolic_sizes import is_symbolic_dim

if TYPE_CHECKING:
    from functrax.export.content import Content


class _Place(NamedTuple):
    """A size of an argument, and what it has to be."""

    name: str  # as args[0].shape[1]
    given: Any
    wanted: Polynomial


def sizes_of_call(content: Content, avals: Sequence[ShapedArray]) -> dict[str, Any]:
    """For each name of a size its value, where arguments of some types are given.

    A name's value follows from a size that is a multiple of it and something that is known.

    Raises:
      ShapeError: if the shapes do not fit, or a constraint does not hold.
    """
    names = leaf_names(content)
    for n, (aval, wanted) in enumerate(zip(avals, content.in_avals, strict=True)):
        if len(aval.shape) != len(wanted.shape):
            what = f"Rank mismatch for {names[n]}: {len(aval.shape)} axes, not {len(wanted.shape)}"
            raise _misfit(content, avals, what)
        for k, (given, size) in enumerate(zip(aval.shape, wanted.shape)):
            if not is_symbolic_dim(size) and given != size:
                what = f"Shape mismatch for {names[n]}.shape[{k}] (expected same constant): "
                raise _misfit(content, avals, what + f"{given}, not {size}")
    scope = content.scope
    if scope is None:
        return {}
    places = [
        _Place(f"{names[n]}.shape[{k}]", given, scope.polynomial(size))
        for n, (aval, wanted) in enumerate(zip(avals, content.in_avals, strict=True))
        for k, (given, size) in enumerate(zip(aval.shape, wanted.shape))
    ]
    found = _solved_all(content, avals, places)
    for text, parts in scope.checks():
        if not all(_holds(sp.evaluated(p, found)) for p in parts):
            name, _, least = text.partition(" >= ")
            what = f"the constraint {text} does not hold"
            if name in scope.names and least == "1":
                what = f"Expected value >= 1 for dimension variable '{name}'"
            raise _misfit(content, avals, what, found)
    return found


def _holds(value: Any) -> bool:
    """Whether a number is not negative; a size without a value is required to be none."""
    if not is_symbolic_dim(value):
        return bool(value >= 0)
    if surely(ge, value, 0):
        return True
    if surely(lt, value, 0):
        return False
    value.recording.require(f"{value} >= 0")
    return True


def leaf_names(content: Content) -> list[str]:
    """What the leaves of the arguments are called in errors: ``args[0]``, ``kwargs['x']['w']``."""
    args, kwargs = tree_unflatten(content.in_tree, range(len(content.in_avals)))
    found = [(f"args{keystr(path)}", n) for path, n in tree_flatten_with_path(args)[0]]
    found += [(f"kwargs{keystr(path)}", n) for path, n in tree_flatten_with_path(kwargs)[0]]
    return [name for name, _ in sorted(found, key=lambda pair: pair[1])]


def _solved_all(
    content: Content, avals: Sequence[ShapedArray], places: list[_Place]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    before = -1
    while places and len(places) != before:
        before, rest = len(places), []
        for place in places:
            unknown = _unknown(place.wanted, found)
            if len(unknown) == 1:
                (name,) = unknown
                linear = _linear(place.wanted, name, found)
                if linear is not None:
                    times, more = linear
                    value, left = divmod(place.given - more, times)
                    if left:
                        what = f"Division had remainder {left} when computing the value of '{name}'"
                        raise _misfit(content, avals, what, found)
                    found[name] = value
                    continue
            if unknown:
                rest.append(place)
            elif sp.evaluated(place.wanted, found) != place.given:
                value = sp.evaluated(place.wanted, found)
                what = f"Found inconsistency between dimension size {place.name} (= {place.given}) "
                what += f"and the specification '{sp.text(place.wanted)}' (= {value})"
                raise _misfit(content, avals, what, found)
        places = rest
    missing = sorted({name for place in places for name in _unknown(place.wanted, found)})
    assert content.scope is not None, "sizes have names"
    missing = missing or sorted(content.scope.names.keys() - found.keys())
    if missing:
        names = ", ".join(map(repr, missing))
        what = f"Cannot solve for values of dimension variables {{{names}}}. We can only solve "
        raise _misfit(content, avals, what + "linear uni-variate constraints", found)
    return found


def _unknown(p: Polynomial, found: dict[str, Any]) -> set[str]:
    return {a.name for a in sp.atoms([p]) if not a.arguments} - found.keys()


def _linear(p: Polynomial, name: str, found: dict[str, Any]) -> tuple[Any, Any] | None:
    """``(times, more)`` where the polynomial is ``times * name + more``."""
    times: Any = 0
    more: Any = 0
    for monomial, n in p.items():
        own = [a for a in monomial if name in _unknown({(a,): 1}, {})]
        others = sp.evaluated({tuple([a for a in monomial if a not in own]): n}, found)
        if not own:
            more += others
        elif own == [SizeAtom(name)]:
            times += others
        else:
            return None
    return (times, more) if times else None


def _misfit(
    content: Content, avals: Sequence[ShapedArray], why: str, found: dict[str, Any] | None = None
) -> ShapeError:
    known = ", ".join(f"'{name}' = {n}" for name, n in (found or {}).items())
    return ShapeError(
        f"{content.name}: Input shapes do not match the polymorphic shapes specification. {why}",
        got=", ".join(f"{name} {aval.str_short()}" for name, aval in zip(content.arg_names, avals))
        + (f"; {known}" if known else ""),
        fix=", ".join(aval.str_short() for aval in content.in_avals),
    )
