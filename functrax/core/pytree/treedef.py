"""``PyTreeDef``, a pytree's structure, and the four functions that everything is built from.

``tree_flatten`` turns a tree into leaves and a structure, ``tree_unflatten`` turns them back; the
loops are those of C++ where the extension is there, and of its Python twin where not.  ``engine``
holds the choice.  :func:`mismatch_error` says where a tree departs from a structure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, Protocol

from functrax.core import native
from functrax.core.errors.typed import PyTreeError
from functrax.core.pytree import node as pn
from functrax.core.pytree.key_paths import DictKey, KeyPath, keystr
from functrax.core.pytree.node import TreeNode
from functrax.core.pytree.python_twin import PythonEngine, matching_children

IsLeaf = Callable[[Any], Any]


class PyTreeDef(TreeNode):
    """The structure of a pytree: its containers, with ``*`` in the place of each leaf.

    Made by :func:`tree_structure`; compares and hashes by value; prints as
    ``PyTreeDef({'a': *, 'b': (*, None)})``.

    Attributes:
      num_leaves: how many leaves there are.
      num_nodes: how many nodes there are, leaves included.
    """

    __slots__ = ()

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with these leaves; PyTreeError when their number is wrong."""
        return engine.unflatten(self, leaves)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The subtrees of ``tree`` at the places of this structure's leaves.

        Raises PyTreeError, naming the path, when ``tree`` does not begin with this structure.
        """
        subtrees = engine.flatten_up_to(self, tree)
        if subtrees is None:
            raise mismatch_error("PyTreeDef.flatten_up_to", "structure", self, "tree", tree)
        return subtrees

    def children(self) -> list[PyTreeDef]:
        """The structures of the children."""
        return list(self._children)

    def node_data(self) -> tuple[type, Any] | None:
        """The root's type and auxiliary data (a dict's keys); None for a leaf."""
        if self._type is None:
            return None
        return self._type, list(self._data) if self._kind == pn.DICT else self._data

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """This structure with ``inner`` in the place of each leaf."""
        if self._kind == pn.LEAF:
            return inner
        children = tuple([child.compose(inner) for child in self._children])
        return PyTreeDef(self._kind, self._type, self._data, children)

    def walk(
        self,
        f_node: Callable[[tuple[Any, ...], Any], Any],
        f_leaf: Callable[[Any], Any] | None,
        leaves: Iterable[Any],
    ) -> Any:
        """Folds a tree of this structure, from the leaves to the root.

        Args:
          f_node: takes what the children of a container gave, and the container's data.
          f_leaf: takes a leaf; None leaves it as it is.
          leaves: the leaves in order.
        """
        return _walked(self, f_node, f_leaf, iter(leaves))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PyTreeDef):
            return NotImplemented
        return engine.equal(self, other)

    def __hash__(self) -> int:
        return engine.hash(self) if self._hash is None else self._hash

    def __repr__(self) -> str:
        return f"PyTreeDef({_text(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PyTreeDef, (self._kind, self._type, self._data, self._children)


def _walked(node: PyTreeDef, f_node: Any, f_leaf: Any, leaves: Iterator[Any]) -> Any:
    data = node.node_data()
    if data is None:
        leaf = next(leaves)
        return leaf if f_leaf is None else f_leaf(leaf)
    children = tuple([_walked(child, f_node, f_leaf, leaves) for child in node._children])
    return f_node(children, data[1])


class Engine(Protocol):
    """The hot loops: :class:`PythonEngine`, or their C++ half."""

    def flatten(self, tree: Any, is_leaf: IsLeaf | None) -> tuple[list[Any], PyTreeDef]:
        """The leaves and the structure."""

    def unflatten(self, treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
        """The tree."""

    def flatten_up_to(self, treedef: PyTreeDef, tree: Any) -> list[Any] | None:
        """The subtrees at the structure's leaves, or None when it does not fit."""

    def map(
        self, f: Callable[..., Any], tree: Any, rest: tuple[Any, ...], is_leaf: IsLeaf | None
    ) -> Any:
        """The tree of the results of ``f``: see ``tree_map``."""

    def equal(self, left: PyTreeDef, right: PyTreeDef) -> bool:
        """Whether two structures are the same."""

    def hash(self, node: PyTreeDef) -> int:
        """A hash that agrees with ``equal``."""


def rest_mismatch(function: str, treedef: PyTreeDef, number: int, tree: Any) -> NoReturn:
    """Raises: tree ``number`` of a function does not begin with the structure of the first."""
    raise mismatch_error(function, "tree 1", treedef, f"tree {number}", tree)


def match_rest(
    engine: Engine, function: str, treedef: PyTreeDef, rest: Iterable[Any]
) -> list[list[Any]]:
    """What each of the trees after the first has in the place of the first one's leaves."""
    columns = []
    for number, other in enumerate(rest, 2):
        column = engine.flatten_up_to(treedef, other)
        if column is None:
            rest_mismatch(function, treedef, number, other)
        columns.append(column)
    return columns


# The structure of every leaf; compare by equality, since copies of it may exist.
LEAF_DEF = PyTreeDef(pn.LEAF, None, None, ())


class NativeEngine:
    """The C++ half of :class:`PythonEngine`."""

    def __init__(self) -> None:
        extension = native.extension
        assert extension is not None
        hooks = (pn.sorted_keys, pn.checked_children, pn.wrong_count, rest_mismatch)
        leaves = pn.HANDLES_ARE_LEAVES
        extension.pytree_configure(PyTreeDef, LEAF_DEF, pn.registry, hooks, leaves)
        self.flatten = extension.pytree_flatten
        self.unflatten = extension.pytree_unflatten
        self.flatten_up_to = extension.pytree_flatten_up_to
        self.map = extension.pytree_map
        self.equal = extension.pytree_equal
        self.hash = extension.pytree_hash


engines: dict[str, Engine] = {"python": PythonEngine(PyTreeDef, LEAF_DEF, match_rest)}
if native.available:
    engines["native"] = NativeEngine()
engine: Engine = engines.get("native", engines["python"])


def tree_flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a pytree, from left to right, and its structure."""
    return engine.flatten(tree, is_leaf)


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The pytree of a structure and its leaves: the inverse of :func:`tree_flatten`.

    Args:
      treedef: a structure, of :func:`tree_flatten` or :func:`tree_structure`.
      leaves: as many of anything as the structure has leaves.

    Returns:
      A pytree.

    Raises:
      PyTreeError: the number of leaves is not that of the structure.

    Example:
      >>> tree_unflatten(tree_structure({"a": 0, "b": (0, None)}), [1, 2])
      {'a': 1, 'b': (2, None)}
    """
    return engine.unflatten(treedef, leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves of a pytree, from left to right."""
    return engine.flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """The structure of a pytree."""
    return engine.flatten(tree, is_leaf)[1]


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the root's children.

    Args:
      treedef: a structure.

    Returns:
      A list; empty for a leaf.

    Example:
      >>> treedef_children(tree_flatten([1, (2, 3)])[1])
      [PyTreeDef(*), PyTreeDef((*, *))]
    """
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure has one node: a leaf, None, or an empty container.

    Args:
      treedef: a structure.

    Returns:
      A bool.

    Example:
      >>> treedef_is_leaf(tree_flatten(1)[1]), treedef_is_leaf(tree_flatten([1])[1])
      (True, False)
    """
    return treedef.num_nodes == 1


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple whose children have these structures.

    Args:
      treedefs: structures.

    Returns:
      A structure.

    Example:
      >>> treedef_tuple([tree_flatten(1)[1], tree_flatten([1])[1]])
      PyTreeDef((*, [*]))
    """
    return PyTreeDef(pn.TUPLE, tuple, None, tuple(treedefs))


def _text(node: TreeNode) -> str:
    kind = node._kind
    if kind == pn.LEAF:
        return "*"
    if kind == pn.NONE:
        return "None"
    children = [_text(child) for child in node._children]
    inside = ", ".join(children)
    if kind == pn.TUPLE:
        return f"({inside},)" if len(children) == 1 else f"({inside})"
    if kind == pn.LIST:
        return f"[{inside}]"
    if kind == pn.DICT:
        return "{" + ", ".join(f"{k!r}: {c}" for k, c in zip(node._data, children)) + "}"
    assert node._type is not None
    label = node._type.__name__
    if kind == pn.NAMEDTUPLE:
        return f"CustomNode(namedtuple[{label}], [{inside}])"
    return f"CustomNode({label}[{node._data}], [{inside}])"


def mismatch_error(
    function: str, wanted: str, treedef: PyTreeDef, given: str, tree: Any
) -> PyTreeError:
    """The error for a tree that does not begin with a structure, naming the place.

    Args:
      function: the public function at fault.
      wanted: what to call the tree that ``treedef`` is the structure of.
      treedef: the structure.
      given: what to call the other tree.
      tree: the other tree.
    """
    path, node, subtree = _first_mismatch(treedef, tree, ())
    place = f"at {keystr(path)}" if path else "at the root"
    return PyTreeError(
        f"{function}: pytree structure error: {wanted} and {given} differ {place}: "
        f"{_difference(node, subtree)}",
        got=f"{wanted} {place}: {_text(node)}\n{given} {place}: {_shown(subtree)}\n"
        f"{_expectation(node, subtree)}",
        fix=f"give {given} the structure of {wanted}; functrax.tree.structure(tree) shows it",
    )


def _first_mismatch(node: TreeNode, tree: Any, path: KeyPath) -> tuple[KeyPath, TreeNode, Any]:
    """The place of the first difference, known to be there, in depth-first order."""
    children = matching_children(node, tree)
    if children is None:
        return path, node, tree
    keys = _keys(node, tree)
    for key, below, child in zip(keys, node._children, children):
        if engine.flatten_up_to(below, child) is None:
            return _first_mismatch(below, child, (*path, key))
    return path, node, tree


def _keys(node: TreeNode, tree: Any) -> KeyPath:
    if node._kind == pn.DICT:
        return tuple(map(DictKey, node._data))
    return tuple([key for key, _ in pn.one_level_with_keys(node._kind, tree)[0]])


def _difference(node: TreeNode, tree: Any) -> str:
    wanted, got = node._type, type(tree)
    assert wanted is not None
    if wanted is not got:
        return f"{_article(wanted)} against {_article(got)} (different types)"
    if node._kind == pn.DICT:
        return _key_difference(set(node._data), set(tree))
    children, data = pn.one_level(node._kind, tree)
    if len(children) != len(node._children):
        return f"{_article(wanted)} of length {len(node._children)} against {len(children)}"
    return f"{_article(wanted)} with data {node._data!r} against {data!r}"


def _expectation(node: TreeNode, tree: Any) -> str:
    """The same in the words of JAX's ``flatten_up_to``, which programs look for."""
    wanted, kind, value = node._type, node._kind, _brief(tree)
    assert wanted is not None
    name = wanted.__name__
    if kind == pn.CUSTOM:
        if wanted is type(tree):
            return f"Mismatch custom node data or arity: value: {value}."
        return f"Custom node type mismatch: expected {name}, got {value}."
    if kind == pn.NAMEDTUPLE:
        if isinstance(tree, tuple) and hasattr(tree, "_fields"):
            return f"Named tuple type mismatch: expected {name}, got {value}."
        return f"Expected named tuple, got {value}."
    if kind == pn.NONE or wanted is not type(tree):
        return f"Expected {'None' if kind == pn.NONE else name}, got {value}."
    if kind == pn.DICT:
        return f"Dict key mismatch; expected keys: {list(node._data)!r}; dict: {value}."
    count = len(node._children)
    given: Any = tree
    return f"{name.capitalize()} arity mismatch: {len(given)} != {count}; {name}: {value}."


def _brief(tree: Any) -> str:
    """A value in one short line; of arrays their structure alone, for they may be large."""
    plain = (bool, int, float, complex, str, bytes)
    try:
        is_plain = all(isinstance(x, plain) for x in tree_leaves(tree))
    except PyTreeError:  # dicts whose keys cannot be sorted
        is_plain = False
    text = repr(tree) if is_plain else _shown(tree)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _key_difference(wanted: set[Any], got: set[Any]) -> str:
    parts = []
    for label, keys in (("missing", wanted - got), ("unexpected", got - wanted)):
        if keys:
            parts.append(f"{label} keys {', '.join(sorted(map(repr, keys)))}")
    return "; ".join(parts)


def _article(node_type: type) -> str:
    if node_type is type(None):
        return "None"
    name = node_type.__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _shown(tree: Any) -> str:
    try:
        structure = engine.flatten(tree, None)[1]
    except PyTreeError:
        return _article(type(tree))
    return f"a leaf of type {type(tree).__name__}" if structure == LEAF_DEF else _text(structure)
