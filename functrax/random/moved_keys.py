"""Functions that move elements about, of arrays of typed keys: ``where``, ``stack``, ``take``, ….

Such a function does to keys what it does to each of their two words, so its result is that of the
function mapped (:func:`~functrax.vmap`) over the last axis of the words.  Whether a function is one
follows from its program: each result consists of elements of keys, as they are
(:meth:`~functrax.core.primitive.Primitive.moved_operands`); what is computed of a word, compared
with it or made beside it is refused.

Start at :func:`on_words`; :func:`rule_for_keys` is asked where a function refused keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrax.core.arguments import handle_rules
from functrax.core.errors import HandleError
from functrax.core.inputs import concrete
from functrax.core.jaxpr import Atom, Jaxpr, Literal
from functrax.core.operators import Handle
from functrax.core.pytree import tree_unflatten
from functrax.core.pytree_public import tree_flatten
from functrax.core.stage import close, eval_jaxpr, stage
from functrax.transforms.vmap import vmap


def rule_for_keys(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What a function gives for arguments with arrays of keys, or None where it takes none."""
    try:
        return on_words(function, *args, **kwargs)
    except HandleError:
        return None


def on_words(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The keys that a function which moves elements about gives.

    Args:
      function: returns arrays of elements of its arguments.
      args: pytrees, with arrays of keys among the leaves.
      kwargs: the same by name.

    Raises:
      HandleError: if the function does something else, or there are no keys.
    """
    leaves, tree = tree_flatten((args, kwargs))
    places = [i for i, x in enumerate(leaves) if isinstance(x, Handle)]
    if not places:
        raise HandleError(f"{function.__name__}: there are no keys", got=repr(tree), fix="keys")
    words = [leaves[i].words for i in places]
    wrapper = type(leaves[places[0]])

    def of_words(*given: Any) -> Any:
        filled = list(leaves)
        for i, x in zip(places, given, strict=True):
            filled[i] = x
        own_args, own_kwargs = tree_unflatten(tree, filled)
        return function(*own_args, **own_kwargs)

    mapped = vmap(of_words, in_axes=-1, out_axes=-1)
    out_tree: Any = None

    def flat(*given: Any) -> list[Any]:
        nonlocal out_tree
        found, out_tree = tree_flatten(mapped(*given))
        return found

    jaxpr, consts = stage(flat, [x.aval for x in words], function.__name__)
    moved = _moved(close(jaxpr), [False] * len(consts) + [True] * len(words))
    if not all(moved):
        raise leaves[places[0]].refusal()
    results = eval_jaxpr(jaxpr, consts, *words)
    return tree_unflatten(out_tree, [wrapper(concrete(x)) for x in results])


def _moved(jaxpr: Jaxpr, are_words: list[bool]) -> list[bool]:
    """Which results of a program consist of words alone.

    Raises:
      HandleError: if something else becomes of a word.
    """
    words: dict[Atom, bool] = dict(zip(jaxpr.invars, are_words, strict=True))

    def is_words(x: Atom) -> bool:
        return type(x) is not Literal and words[x]

    for eqn in jaxpr.eqns:
        given = [is_words(x) for x in eqn.invars]
        inner = eqn.primitive.inlines(dict(eqn.params))
        if not any(given):
            found = [False] * len(eqn.outvars)
        elif inner is not None:
            found = _moved(inner, given)
        else:
            moved = eqn.primitive.moved_operands(dict(eqn.params))
            if given != _only(moved, len(given)):
                raise HandleError(
                    f"{eqn.primitive.name}: does not take keys",
                    got="a program that computes with keys",
                    fix="random.key_data(keys), which gives the words of the keys",
                )
            found = [True] * len(eqn.outvars)
        words.update(zip(eqn.outvars, found, strict=True))
    return [is_words(x) for x in jaxpr.outvars]


def _only(places: slice, count: int) -> list[bool]:
    chosen = range(count)[places]
    return [i in chosen for i in range(count)]


handle_rules.append(rule_for_keys)
