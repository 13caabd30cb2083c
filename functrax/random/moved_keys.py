"""Functions that move and compare elements, of arrays of typed keys: ``where``, ``array_equal``, ….

Such a function does to keys what it does to each of their two words, so its result is that of the
function mapped (:func:`~functrax.vmap`) over the last axis of the words.  Whether a function is one
follows from its program: each result consists of elements of keys, as they are
(:meth:`~functrax.core.tracing.primitive.Primitive.moved_operands`), or says whether words are
equal: keys are where all of their words are.  What is computed of a word, or made beside it, is
  refused.

Start at :func:`on_words`; :func:`rule_for_keys` is asked where a function refused keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrax.core.arrays.operators import Handle
from functrax.core.boundaries.arguments import handle_rules
from functrax.core.errors.typed import HandleError
from functrax.core.ir.jaxpr import Atom, Eqn, Jaxpr, Literal
from functrax.core.pytree.operations import tree_unflatten
from functrax.core.pytree.public import tree_flatten
from functrax.core.tracing.inputs import concrete
from functrax.core.tracing.stage import close, eval_jaxpr, stage
from functrax.core.types.dtypes import bool_, uint32
from functrax.transforms.mapping.vmap import vmap


def rule_for_keys(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What a function gives for arguments with arrays of keys, or None where it takes none."""
    try:
        return on_words(function, *args, **kwargs)
    except HandleError:
        return None


def on_words(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function that moves or compares elements gives for keys.

    Args:
      function: returns arrays of elements of its arguments, or of whether they are equal.
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
    dtype = leaves[places[0]].dtype
    of_numbers = [uint32 if type(x) is type(dtype) and x == dtype else x for x in leaves]

    def of_words(*given: Any) -> Any:
        filled = list(of_numbers)
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
    kinds = _kinds(close(jaxpr), [""] * len(consts) + ["words"] * len(words))
    # A truth value that no word decides (arrays of different shapes are not equal) is that of all.
    kinds = [
        "all" if kind in _DECIDED and x.aval.dtype == bool_ else kind
        for kind, x in zip(kinds, jaxpr.outvars, strict=True)
    ]
    if function.__name__ in _MAKE_ANOTHER:
        kinds = [kind or "words" for kind in kinds]
    if not all(kinds):
        raise leaves[places[0]].refusal()
    results = eval_jaxpr(jaxpr, consts, *words)
    made: dict[str, Callable[[Any], Any]] = {
        "words": wrapper,
        "all": lambda x: x.all(-1),
        "any": lambda x: x.any(-1),
    }
    return tree_unflatten(
        out_tree, [made[kind](concrete(x)) for kind, x in zip(kinds, results, strict=True)]
    )


#: Functions that make an array of the same type, whose keys have words of zeros, ones, ….
_MAKE_ANOTHER = frozenset({"zeros_like", "ones_like", "empty_like", "full_like"})
#: What a truth value is that no word decides; where its value is known, that.
_DECIDED = frozenset({"", "true", "false"})
#: Comparisons of words, and what is then true of keys: what is of all of their words, or of any.
_COMPARED = {"eq": "all", "ne": "any"}
#: What may be done to such truth values, so that it is done to those of keys.
_JOINED = {"all": ("and", "reduce_and"), "any": ("or", "reduce_or")}
_OPPOSITE = {"all": "any", "any": "all"}


def _kinds(jaxpr: Jaxpr, given: list[str]) -> list[str]:
    """What the results of a program are: ``words`` of keys, ``all`` or ``any``, or nothing of keys.

    Of what is nothing of keys, ``true`` and ``false`` are told apart where they are known.

    Raises:
      HandleError: if something else becomes of a word.
    """
    known: dict[Atom, str] = dict(zip(jaxpr.invars, given, strict=True))

    def kind_of(x: Atom) -> str:
        if type(x) is Literal:
            return str(bool(x.val)).lower() if x.aval.dtype == bool_ else ""
        return known[x]

    for eqn in jaxpr.eqns:
        kinds = [kind_of(x) for x in eqn.invars]
        inner = eqn.primitive.inlines(dict(eqn.params))
        if _DECIDED.issuperset(kinds):
            found = [_kind_decided(eqn.primitive.name, kinds)] * len(eqn.outvars)
        elif inner is not None:
            found = _kinds(inner, kinds)
        else:
            found = [_kind_after(eqn, kinds)] * len(eqn.outvars)
        known.update(zip(eqn.outvars, found, strict=True))
    return [kind_of(x) for x in jaxpr.outvars]


#: What leaves a truth value as it is, where the other operand is that.
_NEUTRAL = {"or": "false", "and": "true"}


def _kind_decided(name: str, kinds: list[str]) -> str:
    if name in ("broadcast_in_dim", "reshape"):
        return kinds[0]
    if name in _NEUTRAL:
        others = set(_without(_NEUTRAL[name], kinds)) or {_NEUTRAL[name]}
        return others.pop() if len(others) == 1 else ""
    return ""


def _without(neutral: str, kinds: list[str]) -> list[str]:
    return [k for k in kinds if k != neutral]


def _kind_after(eqn: Eqn, kinds: list[str]) -> str:
    name = eqn.primitive.name
    if name in _NEUTRAL and len(left := _without(_NEUTRAL[name], kinds)) == 1:
        return left[0]
    of_keys = [k not in _DECIDED for k in kinds]
    different = set(kinds) - _DECIDED
    kind = different.pop() if len(different) == 1 else ""
    if kind == "words" and name in _COMPARED and all(of_keys):
        same = eqn.invars[0] is eqn.invars[1]  # isnan(x) is ne x x
        return str(name == "eq").lower() if same else _COMPARED[name]
    if kind in _JOINED and name in _JOINED[kind]:
        return kind
    if kind in _OPPOSITE and name == "not":
        return _OPPOSITE[kind]
    moved = eqn.primitive.moved_operands(dict(eqn.params))
    if kind and of_keys == _only(moved, len(kinds)):
        return kind
    raise HandleError(
        f"{name}: does not take keys",
        got="a program that computes with keys",
        fix="random.key_data(keys), which gives the words of the keys",
    )


def _only(places: slice, count: int) -> list[bool]:
    chosen = range(count)[places]
    return [i in chosen for i in range(count)]


handle_rules.append(rule_for_keys)
