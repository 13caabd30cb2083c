"""Pytrees, on the C++ engine and on its Python twin; expected values are those of JAX 0.10."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from functrax import tree_util, tree_util as pt
from functrax.core import native
from functrax.core.errors.typed import PyTreeError
from functrax.core.pytree import levels, operations, public as pytree_public, treedef as pytree_def
from tests.core.pytrees import Box, Layer, Point, engine as engine


class Row:
    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values


TREES = [
    (1, [1], "*"),
    (None, [], "None"),
    ((), [], "()"),
    ((1,), [1], "(*,)"),
    ([1, (2, 3)], [1, 2, 3], "[*, (*, *)]"),
    ({"b": (1, None), "a": 2}, [2, 1], "{'a': *, 'b': (*, None)}"),
    ({}, [], "{}"),
    ({(1, 2): 3}, [3], "{(1, 2): *}"),
    ({True: 1, 0: 2}, [2, 1], "{0: *, True: *}"),
    (Point(1, [2]), [1, 2], "CustomNode(namedtuple[Point], [*, [*]])"),
    (OrderedDict(z=1, y=2), [1, 2], "CustomNode(OrderedDict[('z', 'y')], [*, *])"),
    (
        defaultdict(list, {"q": 1, "p": 2}),
        [2, 1],
        "CustomNode(defaultdict[(<class 'list'>, ('p', 'q'))], [*, *])",
    ),
    (Layer(1, (2, 3), "in"), [1, 2, 3], "CustomNode(Layer[('in',)], [*, (*, *)])"),
    (Box({"a": 1}), [1], "CustomNode(Box[None], [{'a': *}])"),
]


@pytest.mark.parametrize(("tree", "leaves", "text"), TREES, ids=[t[2] for t in TREES])
def test_flatten_unflatten(tree: Any, leaves: list[Any], text: str) -> None:
    found, treedef = pt.tree_flatten(tree)
    assert found == leaves
    assert repr(treedef) == f"PyTreeDef({text})"
    assert treedef.num_leaves == len(leaves)
    again = treedef.unflatten(iter(leaves))
    assert again == tree and type(again) is type(tree)
    assert pt.tree_structure(again) == treedef
    assert hash(pt.tree_structure(again)) == hash(treedef)


@pytest.mark.parametrize("tree", [t[0] for t in TREES], ids=[t[2] for t in TREES])
def test_flatten_with_path_agrees_with_flatten(tree: Any) -> None:
    pairs, treedef = pt.tree_flatten_with_path(tree)
    assert ([leaf for _, leaf in pairs], treedef) == pt.tree_flatten(tree)


def test_structures_differ_between_trees() -> None:
    defs = [pt.tree_structure(tree) for tree, _, _ in TREES]
    for i, left in enumerate(defs):
        assert [left == right for right in defs] == [i == j for j in range(len(defs))]
    assert len(set(defs)) == len(defs)
    assert pt.tree_structure(1) != 1


def test_both_engines_agree() -> None:
    if not native.available:
        pytest.skip("functrax._native is not built, or switched off")
    tree = [tree for tree, _, _ in TREES]
    one, two = (pytree_def.engines[name].flatten(tree, None) for name in ("native", "python"))
    assert one == two
    assert pytree_def.engines["native"].hash(one[1]) == pytree_def.engines["python"].hash(two[1])


def test_subclasses_of_containers_are_leaves() -> None:
    class MyTuple(tuple[int, ...]): ...

    class MyList(list[int]): ...

    class MyDict(dict[str, int]): ...

    for tree in (MyTuple((1, 2)), MyList([1, 2]), MyDict(a=1)):
        assert pt.tree_leaves(tree) == [tree]


def test_is_leaf() -> None:
    def stop(x: Any) -> bool:
        return x is None or isinstance(x, tuple)

    assert pt.tree_flatten([None, (1, 2), 3], is_leaf=stop) == (
        [None, (1, 2), 3],
        pt.tree_structure([0, 0, 0]),
    )
    assert pt.tree_leaves((1, 2), is_leaf=stop) == [(1, 2)]
    assert pt.tree_map(lambda x, y: (x, y), [None, 1], [3, 2], is_leaf=stop) == [(None, 3), (1, 2)]
    paths = pt.tree_leaves_with_path([[1], [2]], lambda path, _: len(path) == 1, True)
    assert [leaf for _, leaf in paths] == [[1], [2]]


def test_treedef_methods() -> None:
    treedef = pt.tree_structure({"a": [1, 2], "b": 3})
    assert (treedef.num_leaves, treedef.num_nodes) == (3, 5)
    assert treedef.node_data() == (dict, ["a", "b"])
    assert pt.tree_structure(1).node_data() is None
    assert pt.tree_structure(None).node_data() == (type(None), None)
    assert pt.tree_structure(Point(1, 2)).node_data() == (Point, None)
    assert pt.tree_structure(Box(1, "l")).node_data() == (Box, "l")
    assert pt.treedef_children(treedef) == [pt.tree_structure([0, 0]), pt.tree_structure(0)]
    assert pt.treedef_tuple([treedef, treedef]) == pt.tree_structure(({"a": [1, 2], "b": 3},) * 2)
    inner = pt.tree_structure({"a": 1})
    composed = pt.tree_structure((1, None)).compose(inner)
    assert repr(composed) == "PyTreeDef(({'a': *}, None))"
    assert (composed.num_leaves, composed.num_nodes) == (1, 4)
    assert [pt.treedef_is_leaf(pt.tree_structure(t)) for t in (1, None, {}, (1,))] == [
        True,
        True,
        True,
        False,
    ]
    assert treedef.flatten_up_to({"a": [1, {}], "b": None}) == [1, {}, None]


def test_treedefs_can_be_copied_and_pickled() -> None:
    treedef = pt.tree_structure([tree for tree, _, _ in TREES])
    for copied in (pickle.loads(pickle.dumps(treedef)), copy.deepcopy(treedef)):
        assert copied == treedef and hash(copied) == hash(treedef)
    assert pt.all_leaves([1, 2]) and not pt.all_leaves([1, None])


def test_data_that_cannot_be_hashed_still_compares() -> None:
    one, two, other = (pt.tree_structure(Box(1, label)) for label in ([1], [1], [2]))
    assert one == two and hash(one) == hash(two)
    assert one != other


def test_key_paths() -> None:
    tree = {
        "a": [Point(1, 2)],
        "b": Layer(3, 4),
        "c": Box((5,)),
        "d": OrderedDict(z=6),
        "e": defaultdict(list, {"q": 7}),
    }
    texts = [pt.keystr(path) for path, _ in pt.tree_leaves_with_path(tree)]
    assert texts == [
        "['a'][0].x",
        "['a'][0].y",
        "['b'].w",
        "['b'].b",
        "['c'][<flat index 0>][0]",
        "['d']['z']",
        "['e']['q']",
    ]
    path = pt.tree_leaves_with_path(tree)[0][0]
    assert path == (pt.DictKey("a"), pt.SequenceKey(0), pt.GetAttrKey("x"))
    assert pt.keystr(path, simple=True, separator="/") == "a/0/x"
    assert pt.keystr(path, separator="/") == "['a']/[0]/.x"
    assert pt.keystr((pt.FlattenedIndexKey(2), "other"), simple=True, separator=".") == "2.other"
    assert repr(pt.DictKey("a")) == "DictKey(key='a')"


def test_tree_map() -> None:
    assert pt.tree_map(lambda x: 2 * x, {"a": 1, "b": (2, None)}) == {"a": 2, "b": (4, None)}
    assert pt.tree_map(lambda x, y: (x, y), [1, {"a": 2}], [(3, 4), {"a": None}]) == [
        (1, (3, 4)),
        {"a": (2, None)},
    ]
    mapped = pt.tree_map_with_path(lambda p, x, y: (pt.keystr(p), x, y), {"a": [1]}, {"a": [2]})
    assert mapped == {"a": [("['a'][0]", 1, 2)]}


@pytest.mark.parametrize("tree", [tree for tree, _, _ in TREES])
def test_map_is_flatten_call_and_unflatten(tree: Any) -> None:
    leaves, treedef = pt.tree_flatten(tree)
    pairs = [(leaf, leaf, "other") for leaf in leaves]
    others = treedef.unflatten(["other"] * len(leaves))
    mapped = pt.tree_map(lambda *row: Row(row), tree, tree, others)
    assert pt.tree_structure(mapped) == treedef
    assert [row.values for row in pt.tree_leaves(mapped)] == pairs


def test_map_stops_at_leaves_of_the_first_tree_only() -> None:
    seen: list[Any] = []
    stop = lambda x: seen.append(x) or isinstance(x, tuple)
    mapped = pt.tree_map(lambda x, y: (x, y), [(1, 2), {"a": 3}], [4, {"a": (5, 6)}], is_leaf=stop)
    assert mapped == [((1, 2), 4), {"a": (3, (5, 6))}]
    assert seen == [[(1, 2), {"a": 3}], (1, 2), {"a": 3}, 3]


def test_map_names_the_first_tree_that_does_not_fit() -> None:
    with pytest.raises(PyTreeError, match="tree 1 and tree 2 differ at \\[1\\]"):
        pt.tree_map(lambda *row: row, [(1,), (2,)], [(1,), 2], [1, (2,)])
    with pytest.raises(PyTreeError, match="tree 1 and tree 3 differ at the root"):
        pt.tree_map(lambda *row: row, [(1,), (2,)], [(1,), 2], [1], is_leaf=lambda x: x == (2,))


def test_map_calls_after_all_trees_are_taken_apart() -> None:
    inner = {"a": 2, "b": 3}
    tree: list[Any] = [1, inner]

    def change(x: int) -> int:
        inner.clear()
        tree.clear()
        return -x

    assert pt.tree_map(change, tree) == [-1, {"a": -2, "b": -3}]
    calls: list[Any] = []
    with pytest.raises(PyTreeError):
        pt.tree_map(lambda x, y: calls.append(x), [1, 2], [3, [4]] * 2)
    assert calls == []


@pytest.mark.parametrize("error", [ValueError, StopIteration, KeyError])
def test_what_a_mapped_function_raises_is_raised(error: type[Exception]) -> None:
    def fail(x: int) -> int:
        raise error("no")

    with pytest.raises(error, match="no"):
        pt.tree_map(fail, [1, 2])


@pytest.mark.parametrize("count", [0, 1, 2, 16, 17, 40])
def test_keys_are_sorted(count: int) -> None:
    keys = [f"{'éaZ'[k % 3]}{k * 7 % 40}" for k in range(count)]
    tree = {key: n for n, key in enumerate(keys)}
    assert pt.tree_leaves(tree) == [tree[key] for key in sorted(keys)]
    mapped = pt.tree_map(lambda x: -x, tree)
    assert list(mapped.items()) == [(key, -tree[key]) for key in sorted(keys)]


def test_reductions() -> None:
    def add(x: Any, y: Any) -> Any:
        return x + y

    assert pt.tree_reduce(add, [1, 2, (3,)]) == 6
    assert pt.tree_reduce(add, [], 5) == 5
    assert pt.tree_reduce_associative(add, list("abcde")) == "abcde"
    assert pt.tree_reduce_associative(add, [], identity=0) == 0
    assert pt.tree_all([]) and not pt.tree_all([1, {"a": 0}])
    with pytest.raises(PyTreeError, match="no leaves to reduce"):
        pt.tree_reduce(add, [])


def test_transpose() -> None:
    outer, inner = pt.tree_structure((1, 2)), pt.tree_structure([1, 2])
    assert pt.tree_transpose(outer, inner, ([1, 2], [3, 4])) == [(1, 3), (2, 4)]
    assert pt.tree_transpose(outer, None, ([1, 2], [3, 4])) == [(1, 3), (2, 4)]
    with pytest.raises(PyTreeError, match="not the inner structure"):
        pt.tree_transpose(outer, pt.tree_structure([1]), ([1, 2], [3, 4]))


def test_broadcast() -> None:
    assert pt.tree_broadcast({"a": 1, "b": 2}, {"a": (1, 2), "b": [3]}) == {"a": (1, 1), "b": [2]}
    assert operations.broadcast_prefix((1, None), ((1, 2), None)) == [1, 1]
    prefix = operations.broadcast_prefix((1, None), ((1, 2), (3, 4)), is_leaf=lambda x: x is None)
    assert prefix == [1, 1, None, None]


MISMATCHES = [
    ({"a": 1, "b": (1, 2)}, {"a": 1, "b": (1, 2, 3)}, "at ['b']: a tuple of length 2 against 3"),
    ({"a": 1, "b": (1,)}, {"a": 1, "b": 3}, "at ['b']: a tuple against an int"),
    ({"a": 1}, {"b": 1}, "at the root: missing keys 'a'; unexpected keys 'b'"),
    ([1], (1,), "at the root: a list against a tuple"),
    (None, 3, "at the root: None against an int"),
    ([[1, None]], [[1, 2]], "at [0][1]: None against an int"),
    ({"a": 1}, OrderedDict(a=1), "at the root: a dict against an OrderedDict"),
    ({"a": {"b": 1}}, {"a": {1: 1, "b": 2}}, "at ['a']: unexpected keys 1"),
    (
        (Layer(1, [2], "p"),),
        (Layer(1, [2], "q"),),
        "at [0]: a Layer with data ('p',) against ('q',)",
    ),
    (Layer(1, [2]), Layer(1, [2, 3]), "at .b: a list of length 1 against 2"),
    (
        OrderedDict(a=1, b=2),
        OrderedDict(b=1, a=2),
        "an OrderedDict with data ('a', 'b') against ('b', 'a')",
    ),
    (
        defaultdict(list, a=1),
        defaultdict(dict, a=1),
        "a defaultdict with data (<class 'list'>, ('a',)) against",
    ),
]


@pytest.mark.parametrize(("one", "two", "text"), MISMATCHES, ids=[m[2] for m in MISMATCHES])
def test_mismatch_names_the_path(one: Any, two: Any, text: str) -> None:
    with pytest.raises(PyTreeError) as error:
        pt.tree_map(lambda x, y: x, one, two)
    assert error.value.what.startswith("tree_map: pytree structure error: tree 1 and tree 2 ")
    assert text in error.value.what
    with pytest.raises(PyTreeError) as error:
        operations.broadcast_prefix(one, two, function="vmap", names=("in_axes", "the arguments"))
    expected = "vmap: pytree structure error: in_axes and the arguments differ "
    assert error.value.what.startswith(expected)
    with pytest.raises(PyTreeError):
        pt.tree_structure(one).flatten_up_to(two)


def test_mismatch_text() -> None:
    with pytest.raises(PyTreeError) as error:
        pt.tree_map(lambda x, y: x, {"w": 1, "b": (1, 2)}, {"w": 1, "b": [1, (2, 3)]})
    lines = str(error.value).splitlines()
    assert lines[:4] == [
        "tree_map: pytree structure error: tree 1 and tree 2 differ at ['b']: a tuple against "
        "a list (different types)",
        "  got   tree 1 at ['b']: (*, *)",
        "        tree 2 at ['b']: [*, (*, *)]",
        "        Expected tuple, got [1, (2, 3)].",
    ]
    assert lines[4].startswith("  at    test_pytree.py:")
    assert lines[5].startswith("  try   give tree 2 the structure of tree 1")


def test_keys_that_cannot_be_sorted() -> None:
    with pytest.raises(PyTreeError) as error:
        pt.tree_flatten([{1: 2, "a": 3}])
    assert "the keys of a dict cannot be sorted" in str(error.value)
    assert "1, 'a'" in error.value.got
    assert pt.tree_structure({"x": 0}).flatten_up_to({"x": {1: 2, "a": 3}}) == [{1: 2, "a": 3}]


@pytest.mark.parametrize(("leaves", "word"), [([1], "few"), ([1, 2, 3], "many")])
def test_wrong_number_of_leaves(leaves: list[int], word: str) -> None:
    with pytest.raises(PyTreeError) as error:
        pt.tree_unflatten(pt.tree_structure((1, 2)), leaves)
    assert f"too {word} leaves" in str(error.value)
    assert f"{len(leaves)} leaves where the structure has 2" in error.value.got


@pytest.mark.parametrize("result", [3, (3, 4), (1, 2, 3)])
def test_flatten_function_that_returns_no_pair(result: Any) -> None:
    bad = type("Bad", (), {})
    pt.register_pytree_node(bad, lambda _: result, lambda *_: None)
    with pytest.raises(PyTreeError, match=r"should return a .children, aux_data. tuple"):
        pt.tree_leaves(bad())


def test_errors_of_callbacks_pass_through() -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("mine")

    bad = type("Bad", (), {})
    pt.register_pytree_node(bad, lambda _: ([1], None), fail)
    with pytest.raises(RuntimeError, match="mine"):
        pt.tree_map(lambda x: x, [bad()])
    with pytest.raises(RuntimeError, match="mine"):
        pt.tree_leaves([1], is_leaf=fail)


def test_endless_trees_end_in_recursion_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        pt.tree_leaves(endless)


def test_containers_may_change_while_they_are_flattened() -> None:
    tree: list[Any] = [[1], [2], [3]]

    def clear(_: Any) -> bool:
        tree.clear()
        return False

    assert pt.tree_leaves([tree, 4], is_leaf=clear) in ([4], [1, 2, 3, 4])
    tree += [[1], [2], [3]]
    mapped = pt.tree_map(lambda *row: row, [tree, 4], [tree, 5], is_leaf=clear)
    assert mapped in ([[], (4, 5)], [[[(1, 1)], [(2, 2)], [(3, 3)]], (4, 5)])


@pytest.mark.parametrize(
    ("tree", "other", "text"),
    [
        ([1, 2], [7], "List arity mismatch: 1 != 2; list: [7]."),
        ({"a": 1}, {"b": 7}, "Dict key mismatch; expected keys: ['a']; dict: {'b': 7}."),
        (None, [2], "Expected None, got [2]."),
        ([1], (7,), "Expected list, got (7,)."),
        (Layer(1, 2), 3, "Custom node type mismatch: expected Layer, got 3."),
        ([1], (np.ones(9),), "Expected list, got (*,)."),
    ],
)
def test_mismatch_shows_what_was_given(tree: Any, other: Any, text: str) -> None:
    with pytest.raises(PyTreeError) as error:
        pt.tree_structure(tree).flatten_up_to(other)
    assert text in error.value.got


def test_one_level() -> None:
    pair = [(1, 2), {"b": 3}]
    assert tree_util.flatten_one_level(pair) == (pair, None)
    assert tree_util.flatten_one_level({"b": 1, "a": (2,)}) == (((2,), 1), ("a", "b"))
    keys = tree_util.flatten_one_level_with_keys({"a": 5})[0]
    assert keys == ((pt.DictKey("a"), 5),)
    for function in (tree_util.flatten_one_level, tree_util.flatten_one_level_with_keys):
        with pytest.raises(ValueError, match="can't tree-flatten type: <class 'int'>"):
            function(1)
    assert tree_util.default_registry.flatten_one_level(1) is None
    assert tree_util.default_registry.flatten_one_level([1]) == ([1], None)
    assert tree_util.is_tree_node(Layer) and not tree_util.is_tree_node(int)


def test_walk() -> None:
    tree = {"b": 2, "a": [1, (5,)]}
    leaves, treedef = pt.tree_flatten(tree)
    seen: list[Any] = []

    def node(children: tuple[Any, ...], data: Any) -> int:
        seen.append(data)
        return sum(children)

    assert treedef.walk(node, lambda x: 10 * x, leaves) == 80
    assert seen == [None, None, ["a", "b"]]


def test_transpose_of_a_type_whose_data_hang_on_its_children() -> None:
    class Flat:
        def __init__(self, leaves: Any, treedef: Any) -> None:
            self.leaves, self.treedef = leaves, treedef

    def rebuilt(treedef: Any, leaves: Any) -> Flat:
        if not pt.all_leaves(leaves):
            leaves, treedef = pt.tree_flatten(treedef.unflatten(leaves))
        return Flat(leaves, treedef)

    pt.register_pytree_node(Flat, lambda x: (x.leaves, x.treedef), rebuilt)
    outer = pt.tree_structure(Flat(*pt.tree_flatten({"a": 1, "b": 2})))
    nested = Flat(*pt.tree_flatten({"a": [3, 4], "b": [5, 6]}))
    found = pt.tree_transpose(outer, pt.tree_structure([1, 2]), nested)
    assert [list(x.leaves) for x in found] == [[3, 5], [4, 6]]


def test_public_modules() -> None:
    import functrax.tree
    import functrax.tree_util

    for name in set(functrax.tree.__all__) - {"static"}:
        assert getattr(functrax.tree, name) is getattr(functrax.tree_util, f"tree_{name}")
    public = {name for name in vars(functrax.tree_util) if not name.startswith("_")}
    internal = set(operations.__all__) - {"broadcast_prefix", "in_handles", "static"}
    internal |= set(levels.PUBLIC)
    assert public == internal | {n for n in vars(pytree_public) if n.startswith(("tree_", "all_"))}


_trees = st.recursive(
    st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.tuples(inner, inner).map(lambda pair: Point(*pair))
        | inner.map(Box)
    ),
    max_leaves=12,
)


@settings(deadline=None, derandomize=True, database=None)
@given(_trees)
def test_round_trip(tree: Any) -> None:
    results = [each.flatten(tree, None) for each in pytree_def.engines.values()]
    for each in pytree_def.engines.values():
        for leaves, treedef in results:
            assert each.unflatten(treedef, leaves) == tree
            assert each.flatten_up_to(treedef, tree) == leaves
            assert each.equal(treedef, results[0][1])
            assert treedef.num_leaves == len(leaves)
