"""Records are the dataclasses that they stand for."""

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, dataclass, field
from typing import ClassVar

import pytest

from functrax.core.records import record, replace


class Plain:
    name: str
    sizes: tuple = ()
    found: dict = field(default_factory=dict, compare=False)
    hidden: int = field(default=3, repr=False)


@record
class Checked:
    """A record that looks at its fields, and shows itself in its own way."""

    size: int

    def __post_init__(self):
        if self.size < 0:
            raise ValueError("negative")

    def __repr__(self):
        return f"<{self.size}>"


def both(**options):
    made = []
    for decorate in (dataclass(frozen=True, **options), record(**options)):
        members = {k: v for k, v in vars(Plain).items() if k not in ("__dict__", "__weakref__")}
        made.append(decorate(type("Plain", (), members)))
    return made


@pytest.mark.parametrize(
    "args, kwargs",
    [(("a",), {}), (("a", (1,), {"x": 1}, 4), {}), ((), {"hidden": 1, "name": "b"})],
)
def test_a_record_shows_compares_and_hashes_as_a_dataclass_does(args, kwargs):
    expected, got = (cls(*args, **kwargs) for cls in both())
    assert repr(got) == repr(expected)
    assert hash(got) == hash(expected)
    assert dataclasses.asdict(got) == dataclasses.asdict(expected)
    assert got == type(got)(*args, **kwargs)
    assert got != expected
    assert got != dataclasses.replace(got, name="another")
    assert got == dataclasses.replace(got, found={"not": "compared"})


def test_fields_are_those_of_a_dataclass():
    (expected, got) = both()
    names = ("name", "type", "default", "default_factory", "init", "repr", "compare", "kw_only")
    for f, g in zip(dataclasses.fields(expected), dataclasses.fields(got), strict=True):
        assert [getattr(f, n) for n in names] == [getattr(g, n) for n in names]
    assert got.__match_args__ == expected.__match_args__
    assert dataclasses.is_dataclass(got) and got.hidden == expected.hidden == 3
    assert not hasattr(got, "found") and not hasattr(expected, "found")


def test_variables_of_the_class_are_no_fields_and_those_of_a_base_are():
    @record
    class Base:
        size: int

    @record
    class Named(Base):
        name: str = "a"
        known: "ClassVar[int]" = 0

    assert [f.name for f in dataclasses.fields(Named)] == ["size", "name"]
    assert Named(1) == Named(1, "a") and Named.known == 0
    assert [f.name for f in dataclasses.fields(Base)] == ["size"]


def test_one_default_for_all_records_is_refused():
    with pytest.raises(ValueError, match=r"Listed.sizes"):

        @record
        class Listed:
            sizes: list = []  # noqa: RUF012


def test_every_record_has_a_default_of_its_own():
    _, cls = both()
    assert cls("a").found is not cls("b").found


@pytest.mark.parametrize("args, kwargs", [((), {}), ((1, 2, 3, 4, 5), {}), (("a",), {"other": 1})])
def test_wrong_arguments_are_type_errors(args, kwargs):
    for cls in both():
        with pytest.raises(TypeError):
            cls(*args, **kwargs)


def test_records_that_are_not_compared_equal_themselves_alone():
    for cls in both(eq=False):
        x, y = cls("a"), cls("a")
        assert x == x and x != y and len({x, y}) == 2


def test_records_do_not_change():
    x = Checked(1)
    with pytest.raises(FrozenInstanceError, match="size"):
        x.size = 2
    with pytest.raises(FrozenInstanceError, match="other"):
        x.other = 2
    with pytest.raises(FrozenInstanceError, match="size"):
        del x.size
    assert x.size == 1


def test_a_record_checks_itself_and_keeps_its_methods():
    assert repr(Checked(1)) == "<1>"
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            Checked(-1)
    with pytest.raises(ValueError, match="negative"):
        dataclasses.replace(Checked(1), size=-1)


def test_a_changed_copy_is_that_of_dataclasses():
    for cls in both():
        old = cls("a", (1,), {"x": 1}, 4)
        for changes in (
            {},
            {"name": "b"},
            {"found": {}, "hidden": 5},
            dataclasses.asdict(cls("c")),
        ):
            new = replace(old, **changes)
            assert dataclasses.asdict(new) == dataclasses.asdict(
                dataclasses.replace(old, **changes)
            )
            assert type(new) is cls and new is not old and old.name == "a"
        with pytest.raises(TypeError, match="other"):
            replace(old, other=1, name="b")
    with pytest.raises(ValueError, match="negative"):
        replace(Checked(1), size=-1)


def test_copies_and_pickles_are_equal():
    x = Checked(5)
    assert copy.deepcopy(x) == x
    assert pickle.loads(pickle.dumps(x)) == x
