"""Types of the user's own as nodes of pytrees, on both engines."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pytest

from functrax import tree_util as pt
from functrax.core.errors.typed import ArgumentError
from tests.core.pytrees import Layer, engine as engine


def test_register_with_keys_and_classes() -> None:
    @pt.register_pytree_node_class
    class Scale:
        def __init__(self, value: Any) -> None:
            self.value = value

        def tree_flatten(self) -> Any:
            return (self.value,), "unit"

        @classmethod
        def tree_unflatten(cls, aux: Any, children: Any) -> Any:
            assert aux == "unit"
            return cls(*children)

    @pt.register_pytree_with_keys_class
    class Named:
        def __init__(self, value: Any) -> None:
            self.value = value

        def tree_flatten_with_keys(self) -> Any:
            return [(pt.GetAttrKey("value"), self.value)], None

        @classmethod
        def tree_unflatten(cls, aux: Any, children: Any) -> Any:
            return cls(*children)

    doubled = pt.tree_map(lambda x: 2 * x, (Scale(1), Named(2)))
    assert (doubled[0].value, doubled[1].value) == (2, 4)
    assert pt.keystr(pt.tree_leaves_with_path(Named(2))[0][0]) == ".value"


def test_register_static() -> None:
    @pt.register_static
    @dataclasses.dataclass(frozen=True)
    class Setting:
        size: int

    assert pt.tree_leaves(Setting(3)) == []
    assert pt.tree_map(lambda x: x, [Setting(3), 1]) == [Setting(3), 1]
    assert pt.tree_structure(Setting(3)) == pt.tree_structure(Setting(3))
    assert pt.tree_structure(Setting(3)) != pt.tree_structure(Setting(4))


def test_register_dataclass() -> None:
    @functools.partial(pt.register_dataclass, data_fields=["x"], meta_fields=[], drop_fields=["y"])
    @dataclasses.dataclass
    class Half:
        x: int
        y: int = 7

    assert pt.tree_map(lambda x: x + 1, Half(1, 2)) == Half(2, 7)
    assert pt.tree_structure(Layer(1, 2, "m")).node_data() == (Layer, ("m",))

    @pt.register_dataclass(data_fields=["a"], meta_fields=["b"])
    class Plain:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    assert pt.tree_leaves(Plain(1, 2)) == [1]


def test_register_dataclass_errors() -> None:
    @dataclasses.dataclass
    class Two:
        x: int
        y: int

    with pytest.raises(ArgumentError, match="must both be specified"):
        pt.register_dataclass(Two, ["x"])
    with pytest.raises(ArgumentError, match=r"Missing fields: \{'y'\}"):
        pt.register_dataclass(Two, ["x"], [])
    with pytest.raises(ArgumentError, match=r"Unexpected fields: \{'q'\}"):
        pt.register_dataclass(Two, ["x"], ["y", "q"])
    with pytest.raises(ArgumentError, match="required when nodetype is not a dataclass"):
        pt.register_dataclass(type("NoDataclass", (), {}))
    with pytest.raises(ArgumentError, match=r"Overlapping fields: \{'x'\}"):
        pt.register_dataclass(Two, ["x", "y"], ["x"])
    with pytest.raises(ArgumentError, match="Layer is a pytree node already"):
        pt.register_dataclass(Layer)


def test_registration_errors() -> None:
    with pytest.raises(ArgumentError, match="list is a pytree node already"):
        pt.register_pytree_node(list, lambda x: (x, None), lambda _, x: list(x))
    with pytest.raises(ArgumentError, match="only types can be registered"):
        pt.register_pytree_node(3, None, None)  # type: ignore[arg-type]


def test_partial() -> None:
    def f(*args: Any, **keywords: Any) -> Any:
        return args, keywords

    partial = pt.Partial(f, 2, k=(3,))
    assert pt.tree_leaves(partial) == [2, 3]
    assert partial(5) == ((2, 5), {"k": (3,)})
    again = pt.tree_map(lambda x: 10 * x, partial)
    assert isinstance(again, pt.Partial) and again() == ((20,), {"k": (30,)})
    assert pt.tree_structure(partial) == pt.tree_structure(again)
    for inner in (functools.partial(f, 1), pt.Partial(f, 1)):
        whole = pt.Partial(inner, 2)
        assert (whole.args, pt.tree_leaves(whole), whole()) == ((2,), [2], ((1, 2), {}))
        assert pt.tree_structure(whole) == pt.tree_structure(pt.Partial(inner, 3))
        assert pt.tree_map(lambda x: x + 1, whole)() == ((1, 3), {})
