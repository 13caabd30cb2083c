"""References as arguments of functions that are transformed, and what is written back.

Inside of a transformed function a reference is one of three things:

- :class:`Fixed`: the reference itself, as if the function closed over it;
- :class:`Given`: a reference of its own, whose first value is an input of the program, and whose
  last value is a result (``jit``, whose programs are remembered by types);
- one made for a slice or an element (``scan``, ``vmap``): :func:`over_parts`.

``core/state/references.py`` has the references.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from functrax.core.errors.typed import FunctraxError, ReferenceUseError
from functrax.core.pytree.operations import (
    PyTreeDef,
    keystr,
    register_pytree_node,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
    tree_unflatten,
)
from functrax.core.state.references import (
    Ref,
    hand_on as hand_on,
    touched_of,
    values_of as values_of,
)
from functrax.core.tracing.primitive import Value
from functrax.core.tracing.stage import StagingTrace
from functrax.core.tracing.trace import EVAL, state
from functrax.transforms.arguments.names import name_of


class Fixed:
    """A container of no leaves, which is unflattened to the reference that it holds."""

    def __init__(self, ref: Ref) -> None:
        self.ref = ref


class Given:
    """A container of a value, which is unflattened to a reference of the program being traced."""

    def __init__(self, value: Value, facts: tuple[str | None, PyTreeDef | None]) -> None:
        self.value = value
        self.facts = facts


def _given(facts: tuple[str | None, PyTreeDef | None], children: Sequence[Any]) -> Any:
    home = state.trace
    if not isinstance(home, StagingTrace):  # a structure alone is looked at
        return Given(children[0], facts)
    ref = Ref(children[0], *facts)
    touched_of(home).arguments.append(ref)
    return ref


register_pytree_node(Fixed, lambda x: ((), x.ref), lambda ref, _: ref)
register_pytree_node(Given, lambda x: ((x.value,), x.facts), _given)


def references_in(function: Any, arguments: Any) -> list[Ref]:
    """The references among arguments, each of which must be there once.

    Raises:
      ReferenceUseError: if one is there twice.
    """
    found: dict[int, Any] = {}
    refs = []
    for path, x in tree_flatten_with_path(arguments)[0]:
        if not isinstance(x, Ref):
            continue
        if id(x) in found:
            raise ReferenceUseError(
                f"{name_of(function)}: a reference is passed as two arguments",
                got=f"{x.aval!r} as {keystr(found[id(x)])} and as {keystr(path)}",
                fix="pass it once, for a program cannot know that two arguments are one",
            )
        found[id(x)] = path
        refs.append(x)
    return refs


def fixed(function: Any, arguments: Any, error: FunctraxError) -> Any:
    """Arguments in which references are fixed; without any, ``error`` is raised."""
    refs = references_in(function, arguments)
    if not refs:
        raise error
    return tree_map(lambda x: Fixed(x) if isinstance(x, Ref) else x, arguments)


def handed_on(arguments: Any) -> None:
    """Say that derivative rules get the references that are fixed among arguments."""
    for x in tree_leaves(arguments, is_leaf=lambda x: isinstance(x, Fixed)):
        if isinstance(x, Fixed):
            x.ref.hand_on()


def given(function: Any, arguments: Any, error: FunctraxError) -> tuple[Any, list[Ref]]:
    """Arguments with the values of references, and these; without any, ``error`` is raised."""
    refs = references_in(function, arguments)
    if not refs:
        raise error
    return tree_map(
        lambda x: Given(x._read(), (x.kind, x.tree)) if isinstance(x, Ref) else x, arguments
    ), refs


def check_not_closed_over(name: str, refs: Sequence[Ref], known: Sequence[Any]) -> None:
    """Refuse references that are arguments and closed over as well."""
    ids = {id(r) for r in refs}
    for x in known:
        if id(x) in ids:
            raise ReferenceUseError(
                f"{name}: a reference is closed over and passed as an argument",
                got=repr(x.aval),
                fix="use the argument, for a program cannot know that the two are one",
            )


def outlive(values: Sequence[Any]) -> bool:
    """Whether the references among them outlive every trace, so that a program may keep them."""
    return all(x._home is EVAL for x in values if isinstance(x, Ref))


def write_back(
    targets: Sequence[Ref | int], values: Sequence[Value], arguments: Sequence[Ref] = ()
) -> None:
    """Give references the values that a program made for them."""
    for target, value in zip(targets, values, strict=True):
        (arguments[target] if isinstance(target, int) else target)._write(value)


def over_parts(
    function: Callable[..., Any], leaves: Sequence[Any], tree: Any, which: Sequence[bool]
) -> tuple[Callable[[Sequence[Any]], tuple[Any, list[Any]]], list[Any]]:
    """A function of parts, in which references stand for parts of references.

    Args:
      function: called with the unflattened leaves.
      leaves: the leaves, some of which are references.
      tree: their structure.
      which: which of the leaves are parts; the others are what they are.

    Returns:
      A function of the parts, which returns the result and the last values of the references'
      parts; and the whole values of the parts.
    """

    def of_parts(parts: Sequence[Any]) -> tuple[Any, list[Any]]:
        found = iter(parts)
        values = [next(found) if w else x for x, w in zip(leaves, which, strict=True)]
        made = []
        for i, x in enumerate(leaves):
            if which[i] and isinstance(x, Ref):
                values[i] = Ref(values[i], x.kind, x.tree)
                made.append(values[i])
        result = function(tree_unflatten(tree, values))
        return result, [ref._read() for ref in made]

    functools.update_wrapper(of_parts, function)
    wholes = values_of([x for x, w in zip(leaves, which, strict=True) if w])
    return of_parts, wholes


def scan_over_references(
    scan: Callable[..., Any], f: Callable[..., Any], init: Any, xs: Any, error: FunctraxError
) -> tuple[Any, Any]:
    """A scan some of whose stacked inputs are references; each step sees a slice of them."""
    if references_in(f, init):
        raise ReferenceUseError(
            f"scan: {name_of(f)} is given a reference as a carry",
            got="a reference in init",
            fix="close over it: what a body writes is carried by itself",
        )
    refs = references_in(f, xs)
    if not refs:
        raise error
    leaves, tree = tree_flatten(xs)
    carry: Any = None
    of_parts, wholes = over_parts(lambda x: f(carry, x), leaves, tree, [True] * len(leaves))

    def body(now: Any, parts: Any) -> Any:
        nonlocal carry
        carry = now
        (new, result), finals = of_parts(parts)
        return new, (result, finals)

    body.__name__ = name_of(f)
    last, (results, finals) = scan(body, init, wholes)
    write_back(refs, finals)
    return last, results


def vmap_over_references(
    vmap: Callable[..., Any],
    fun: Callable[..., Any],
    axes: Sequence[int | None],
    out_axes: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """A function applied to elements, some of which are elements of references.

    Args:
      vmap: takes a function, ``in_axes`` and ``out_axes``.
      fun: the function.
      axes: for each leaf of the arguments the axis of the elements, or None.
      out_axes: those of the results.
      args, kwargs: the arguments.
    """
    leaves, tree = tree_flatten((args, kwargs))
    which = [axis is not None for axis in axes]
    of_parts, wholes = over_parts(lambda both: fun(*both[0], **both[1]), leaves, tree, which)
    mapped = [(x, a) for x, a in zip(leaves, axes, strict=True) if a is not None]
    written = [(x, a) for x, a in mapped if isinstance(x, Ref)]
    over = vmap(
        lambda *parts: of_parts(parts),
        in_axes=tuple(a for _, a in mapped),
        out_axes=(out_axes, [a for _, a in written]),
    )
    result, finals = over(*wholes)
    write_back([ref for ref, _ in written], finals)
    return result
