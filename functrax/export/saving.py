"""Files with programs and files with trees of arrays.

Start at :func:`save` and :func:`save_tree`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from functrax.core.arrays.array import from_numpy
from functrax.core.arrays.operators import Array, Handle
from functrax.core.boundaries.tracebacks import as_boundary
from functrax.core.errors.typed import ArgumentError, FileFormatError, PyTreeError
from functrax.core.pytree.operations import (
    tree_flatten_with_path,
    tree_unflatten,
)
from functrax.core.tracing.inputs import as_value, concrete
from functrax.core.types import dtypes
from functrax.core.types.promotion import IntegerOverflowError
from functrax.export.archive import damaged, is_archive, read_file, write_file
from functrax.export.exported import Exported, deserialize, export
from functrax.export.paths import name_of, names_of, paired
from functrax.export.tensors import holds_tensors, read_tensors, write_tensors
from functrax.export.trees import is_sequence, tree_from_json, tree_to_json
from functrax.random.implementations import IMPLEMENTATIONS
from functrax.random.key_array import KeyArray, keys_of
from functrax.transforms.staging.jit import jit

_TREE: Final = "functrax.tree"
#: Python numbers come back as what they were.
_KINDS: Final = {"bool": bool, "int": int, "float": float, "complex": complex}


@as_boundary
def save(path: str | os.PathLike[str], f: Callable[..., Any], *specs: Any, **kwargs: Any) -> None:
    """Keep a function in a file: its program for certain types, and the arrays it closes over.

    Args:
      path: of the file, which is written whole or not at all.
      f: a function of pytrees of arrays, jitted or not, a derivative for example; or an
        :class:`functrax.export.Exported`, without specs.
      specs: arrays or :class:`functrax.ShapeDtypeStruct` for its arguments; sizes may have names
        (:func:`functrax.export.symbolic_shape`).
      kwargs: the same by name.

    Returns:
      None.

    Raises:
      UnavailableError: if the program has what a file cannot hold, such as calls of Python.
      PyTreeError: if arguments or results have containers of types that are not registered for
        files (:func:`functrax.export.register_pytree_node_serialization`).

    >>> import functrax, functrax.numpy as jnp, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "slope.functrax")
    >>> functrax.save(path, functrax.grad(lambda x: jnp.sum(x**2)), jnp.ones(3))
    >>> functrax.load(path)(jnp.arange(3.0))
    Array([0., 2., 4.], dtype=float32)
    """
    if isinstance(f, Exported):
        made = f
    elif not callable(f):
        raise ArgumentError(
            "save: keeps functions, and this is none",
            got=f"{_short(f)} of type {type(f).__name__}",
            fix="functrax.save_tree(path, tree) for a pytree of arrays; save(path, f, *specs)",
        )
    else:
        jitted: Any = f if hasattr(f, "trace") else jit(f)
        made = export(jitted, platforms=("cpu", "cuda"))(*specs, **kwargs)
    write_file(path, bytes(made.serialize()))


@as_boundary
def load(path: str | os.PathLike[str]) -> Exported:
    """The function that :func:`save` kept; neither its sources nor what it imported are needed.

    Args:
      path: of the file.  It may come from anybody: no code of its is run.

    Returns:
      A function of the same arguments, which can be transformed as any other.

    Raises:
      FileFormatError: if the file is damaged, of another format, or of a newer functrax.
      OSError: if it cannot be read.

    >>> import functrax, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "f.functrax")
    >>> functrax.save(path, lambda x: 2 * x, 1.0)
    >>> functrax.load(path)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    data = read_file(path)
    if holds_tensors(data):
        raise FileFormatError(
            "load: the file holds a tree of arrays, and no function",
            got=os.fspath(path),
            fix="functrax.load_tree(path)",
        )
    return deserialize(data)


@as_boundary
def save_tree(path: str | os.PathLike[str], tree: Any) -> None:
    """Keep a pytree of arrays in a file of safetensors, with its structure.

    Args:
      path: of the file, which is written whole or not at all.
      tree: arrays, typed keys and Python numbers in dicts, lists, tuples, named tuples, and
        containers that are registered for files.  The arrays are called by their paths:
        ``layers.0.w``.  Of named tuples that are not registered, as the states of optimizers are,
        the name and the fields are kept: they are read as named tuples of those, and by
        ``load_tree(path, like=tree)`` as what they were.

    Returns:
      None.

    Raises:
      PyTreeError: if it has a container of a type that is not registered for files, or a leaf
        that is no array.

    >>> import functrax, functrax.numpy as jnp, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "params.safetensors")
    >>> functrax.save_tree(path, {"w": jnp.ones((2, 2)), "steps": 7})
    >>> functrax.load_tree(path)
    {'steps': 7, 'w': Array([[1., 1.],
           [1., 1.]], dtype=float32)}
    """
    leaves, structure = tree_flatten_with_path(tree, _no_leaf)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    about: dict[str, str] = {}
    for name, (_, leaf) in zip(names_of([way for way, _ in leaves]), leaves, strict=True):
        arrays[name] = _array(name, leaf, about)
    told = {"tree": tree_to_json(structure, by_fields=True), "leaves": list(arrays), "about": about}
    write_file(path, write_tensors(arrays, {_TREE: json.dumps(told, ensure_ascii=False)}))


def _short(x: Any) -> str:
    text = repr(x)
    return text if len(text) < 100 else text[:100] + "..."


def _no_leaf(x: Any) -> bool:
    """What makes arrays of typed keys leaves, as users see them."""
    return False


def _array(name: str, leaf: Any, about: dict[str, str]) -> np.ndarray[Any, Any]:
    if isinstance(leaf, KeyArray):
        about[name] = leaf.implementation.tag
        return np.asarray(leaf.words)
    if type(leaf) in _KINDS.values():
        about[name] = type(leaf).__name__
        if type(leaf) is int and not -(2**63) <= leaf < 2**63:
            raise PyTreeError(
                "save_tree: an integer of more than 64 bits",
                got=f"{name} is {leaf}",
                fix="an array",
            )
        return np.array(leaf)
    if isinstance(leaf, (Array, np.ndarray, np.generic)) and not isinstance(leaf, Handle):
        if isinstance(leaf, Array) and getattr(leaf, "weak_type", False):
            about[name] = "weak"
        return np.asarray(leaf)
    raise PyTreeError(
        "save_tree: a leaf that is no array",
        got=f"{name} of type {type(leaf).__name__}",
        fix="arrays, numbers and typed keys",
    )


@as_boundary
def load_tree(path: str | os.PathLike[str], like: Any = None) -> Any:
    """The pytree that :func:`save_tree` kept, or the arrays of another file of safetensors.

    Args:
      path: of the file.  It may come from anybody: no code of its is run.
      like: a pytree of the structure that is wanted, for containers that are not registered for
        files, or a file of another library; the structure that was kept if omitted.  Each leaf is
        the array of its path, ``layers.0.w``, whatever the containers; a plain list or tuple of
        leaves, here or in the file, has no names, and goes by position.  Leaves may be anything;
        where one has a shape and a dtype, as arrays and :class:`functrax.ShapeDtypeStruct` have,
        the array has the same shape and a dtype of the same kind.

    Returns:
      The tree; of a file without structure a dict from names to arrays.  Without
      :func:`functrax.enable_x64` arrays of 64 bits become such of 32, as elsewhere.  For a
      named tuple that is not registered for files a new class is made of its name and its fields;
      ``like`` gives the one that was saved.

    Raises:
      FileFormatError: if the file is damaged, or no file of safetensors.
      PyTreeError: if ``like`` has leaves of other paths, shapes or kinds of dtypes than the file.
      IntegerOverflowError: if 32 bits do not hold integers of the file, and x64 is off.
      OSError: if it cannot be read.

    >>> import functrax, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "params.safetensors")
    >>> functrax.save_tree(path, [1, (2.5,)])
    >>> functrax.load_tree(path)
    [1, (2.5,)]
    """
    data = read_file(path)
    if is_archive(data):
        raise FileFormatError(
            "load_tree: the file holds a function, and no tree of arrays",
            got=os.fspath(path),
            fix="functrax.load(path)",
        )
    arrays, metadata = read_tensors(data)
    told = _told(metadata[_TREE], arrays) if _TREE in metadata else None
    names: list[str] = list(arrays) if told is None else told["leaves"]
    about = {} if told is None else told["about"]
    values = [_leaf(name, arrays[name], about.get(name)) for name in names]
    if like is not None:
        return _as_in(like, names, values, None if told is None else told["tree"])
    if told is None:
        return dict(zip(names, values, strict=True))
    structure = tree_from_json(told["tree"])
    if structure.num_leaves != len(values):
        raise damaged(f"{len(values)} arrays, where its structure has {structure.num_leaves}")
    return tree_unflatten(structure, values)


def _as_in(like: Any, names: list[str], values: list[Any], kept: Any) -> Any:
    """The values of a file in the structure of a tree.

    Args:
      like: the tree.
      names: of the values.
      values: what the file holds.
      kept: the structure that the file has, as JSON; None if it has none.
    """
    leaves, structure = tree_flatten_with_path(like, _no_leaf)
    wanted = names_of([way for way, _ in leaves])
    twice = [name for name, (way, _) in zip(wanted, leaves, strict=True) if name != name_of(way)]
    if twice and tree_to_json(structure, by_fields=True) != kept:
        raise PyTreeError(
            "load_tree: two leaves of like have one path, which does not say which is which",
            got=twice[0],
            fix="like= of the very structure that was saved",
        )
    depths = {len(way) for way, _ in leaves}
    plain = depths == {0} or (type(like) in (list, tuple) and depths <= {1})
    by_position = plain or is_sequence(kept)
    found = paired(names, values, wanted, [leaf for _, leaf in leaves], by_position)
    return tree_unflatten(structure, found)


def _told(text: str, arrays: dict[str, Any]) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(f"{_TREE}: {error}") from None
    leaves = told.get("leaves") if isinstance(told, dict) else None
    about = told.get("about") if isinstance(told, dict) else None
    if not isinstance(leaves, list) or not isinstance(about, dict) or "tree" not in told:
        raise damaged(f"{_TREE} without tree, leaves and about")
    if len(leaves) != len(arrays) or not all(isinstance(x, str) and x in arrays for x in leaves):
        raise damaged(f"{_TREE} lists other arrays than there are")
    return told  # type: ignore[no-any-return]


def _leaf(name: str, array: np.ndarray[Any, Any], kind: Any) -> Any:
    if kind is None or kind == "weak":
        return from_numpy(_narrow(name, array), weak_type=kind == "weak")
    made = _KINDS.get(kind) if isinstance(kind, str) else None
    if made is not None:
        if array.shape:
            raise FileFormatError("a number of a file is an array", got=str(array.shape), fix="one")
        return made(array[()])
    for implementation in IMPLEMENTATIONS.values():
        if implementation.tag == kind and array.shape[-1:] == (implementation.size,):
            return keys_of(implementation)(concrete(as_value(array)))
    raise damaged(f"a leaf of kind {kind!r}")


def _narrow(name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array with the dtype that arrays have here: of 32 bits in the place of 64 without x64."""
    dtype = dtypes.canonicalize_dtype(array.dtype)
    if dtype == array.dtype:
        return array
    if dtypes.is_integer(dtype) and array.size:
        limits = dtypes.iinfo(dtype)
        low, high = int(array.min()), int(array.max())
        if low < limits.min or high > limits.max:
            raise IntegerOverflowError(
                f"load_tree: integers of the file are too large for {dtype}, and x64 is off",
                got=f"{name}: {array.dtype} from {low} to {high}",
                fix="load_tree within `with functrax.enable_x64():`",
            )
    return array.astype(dtype)
