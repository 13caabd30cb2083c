"""Index maps as text: what is printed parses back, and index strings mean what they say."""

from __future__ import annotations

import copy
import pickle
import random

import numpy as np
import pytest

from functrax.core.errors.typed import ArgumentError, ParseError
from functrax.core.index.expr import Condition, Dim, IndexExpr, Indicator, Load
from functrax.core.index.map import IndexMap
from functrax.core.index.map_text import negate, parse_conditions, parse_index_expr, parse_index_map
from tests.core.index_oracle import (
    holds_at,
    points_of,
    random_condition,
    random_map,
    random_structured_map,
    value_at,
)

MAPS = [random_map(seed, num_loads=2) for seed in range(150)] + [
    random_structured_map(seed) for seed in range(150)
]


@pytest.mark.parametrize("number", range(len(MAPS)))
def test_what_is_printed_parses_back(number: int) -> None:
    form = MAPS[number]
    text = str(form)
    again = parse_index_map(text)
    assert again == form
    assert hash(again) == hash(form)
    assert str(again) == text


def test_printed_form() -> None:
    i, j = Dim(0), Dim(1)
    form = IndexMap((4, 5), (9,), (i + j,), (((i - j) % 2).eq(0),))
    assert str(form) == "{[4,5] -> [9]: (d0 + d1 | (d0 - d1)%2 == 0)}"
    assert str(-(i % 4) + 2 * (j // 3) - 1) == "2*(d1//3) - d0%4 - 1"
    assert str(1 - i % 4) == "-(d0%4) + 1"
    assert str(IndexMap((), (), ())) == "{[] -> []: ()}"
    assert str(Load(1, [i, j + 1]) // 2) == "e1(d0, d1 + 1)//2"


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("i0", lambda i, j: i),
        ("i1-i0*2", lambda i, j: j - i * 2),
        ("(i1-i0)/2", lambda i, j: (j - i) // 2),
        ("(i1-i0)//2", lambda i, j: (j - i) // 2),
        ("-i0/2", lambda i, j: -i // 2),
        ("-(i0/2)", lambda i, j: -(i // 2)),
        ("(i0-i1)%3", lambda i, j: (i - j) % 3),
        ("i0-(i1-2)", lambda i, j: i - (j - 2)),
        ("i0*3+i1%2*4", lambda i, j: i * 3 + j % 2 * 4),
        ("xshape0-1-i0", lambda i, j: 6 - i),
        ("i0*xstride0+i1*xstride1", lambda i, j: i * 9 + j),
        ("yshape0*XDIM+YDIM", lambda i, j: 4 * 2 + 1),
        ("i0 > i1", lambda i, j: int(i > j)),
        ("i0 + (i1 >= 2 && i0 != 1)*2", lambda i, j: i + (j >= 2 and i != 1) * 2),
        ("!(i0%2) + 1", lambda i, j: int(i % 2 == 0) + 1),
        ("@e0(i0)+@e1(i0,i1/2)", lambda i, j: [3, 1, 2, 0][i] + 10 * i + j // 2),
        ("d0 + 2 * d1", lambda i, j: i + 2 * j),
    ],
)
def test_index_strings(text: str, python: object) -> None:
    expr = parse_index_expr(text, 2, xshape=(7, 9), yshape=(4,), load_ranks=(1, 2))
    loads = [np.array([3, 1, 2, 0]), np.add.outer(10 * np.arange(4), np.arange(3))]
    for point in points_of((4, 5)):
        assert value_at(expr, point, loads) == python(*point)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("(i0-i1)%2", lambda i, j: (i - j) % 2 != 0),
        ("i0<3 && i1<=i0", lambda i, j: i < 3 and j <= i),
        ("i0<1 || i1>=3", lambda i, j: i < 1 or j >= 3),
        ("i0<1 || i1>=3 && i0==2 || i1", lambda i, j: i < 1 or (j >= 3 and i == 2) or j != 0),
        ("!(i0==1 || i1==2)", lambda i, j: not (i == 1 or j == 2)),
        ("!i0", lambda i, j: i == 0),
        ("(i0==1) == (i1==2)", lambda i, j: (i == 1) == (j == 2)),
        ("(i0>1 && i1>1) != 0", lambda i, j: i > 1 and j > 1),
    ],
)
def test_conditions(text: str, python: object) -> None:
    conditions = parse_conditions(text, 2)
    opposite = negate(conditions)
    for point in points_of((4, 5)):
        expected = bool(python(*point))  # type: ignore[operator]
        assert all(holds_at(condition, point) for condition in conditions) == expected
        assert all(holds_at(condition, point) for condition in opposite) != expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("i0 + i9", ["unknown name 'i9' at position 5", "i0 + i9\n", "     ^", "i0 to i1"]),
        ("i0 * i1", ["only a constant can multiply: (d0) * (d1) at position 3"]),
        ("i0 / i1", ["only a constant other than 0 can divide, not (d1) at position 3"]),
        ("i0 % 0", ["other than 0"]),
        ("i0 +", ["expected an operand, found the end at position 4"]),
        ("(i0", ["expected ')', found the end"]),
        ("i0 i1", ["expected the end, found 'i1' at position 3"]),
        ("i0 $ 2", ["unexpected character '$' at position 3"]),
        ("xshape2", ["unknown name 'xshape2'", "xshape0, xstride0"]),
        ("@e1(i0)", ["there is no extra operand e1"]),
        ("@e0(i0, i1)", ["e0 has 1 dimensions"]),
        ("sin(i0)", ["unknown name 'sin'"]),
        ("", ["expected an operand, found the end"]),
    ],
)
def test_bad_index_strings_name_the_place(text: str, words: list[str]) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_index_expr(text, 2, xshape=(3,), load_ranks=(1,))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{[4] -> [4]: (d0)",
        "{[4] -> : (d0)}",
        "{[4] -> [4]: (d0)} x",
        "{[x] -> [4]: (d0)}",
        "{[4] -> [4]: (d0 | d0 = 1)}",
        "[4] -> [4]: (d0)",
    ],
)
def test_bad_maps_are_parse_errors(text: str) -> None:
    with pytest.raises(ParseError, match="at position"):
        parse_index_map(text)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Dim(0) * Dim(1), "(d0) * (d1)"),
        (lambda: Dim(0) // Dim(1), "(d0) // (d1)"),
        (lambda: Dim(0) % 0, "(d0) % (0)"),
        (lambda: 7 // (Dim(0) + 1), "(7) // (d0 + 1)"),
        (lambda: Dim(0) + 1.5, "1.5 (float)"),
        (lambda: Dim(-1), "at least 0"),
        (lambda: Condition(Dim(0), ">0"), "'>0'"),  # type: ignore[arg-type]
        (lambda: bool(Dim(0) < 3), "-d0 + 2 >= 0"),
        (lambda: 0 < Dim(0) < 3, "two conditions"),
    ],
)
def test_bad_expressions_are_named(make: object, words: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        make()  # type: ignore[operator]
    assert words in str(caught.value)


def test_equal_meaning_is_equal() -> None:
    i, j = Dim(0), Dim(1)
    same: list[tuple[IndexExpr, IndexExpr]] = [
        (i + j, j + i),
        (i - i, as_zero()),
        ((i + j) * 2 - j, 2 * i + j),
        ((6 * i + 4 * j + 5) // 2, 3 * i + 2 * j + 2),
        ((4 * i + 2 * j + 1) // 6, (2 * i + j) // 3),
        ((i // 2) // 3, i // 6),
        ((i // 4 + 3 * j) // 2, (i + 12 * j) // 8),
        (i % 6 % 3, i % 3),
        ((5 * i + 7) % 5, as_zero() + 2),
        (3 * ((i + 1) // 3) + (i + 1) % 3, i + 1),
        (i - 4 * (i // 4), i % 4),
        (i % 12 // 4, i // 4 % 3),
        (i // -2, (-i) // 2),
        (i % -3, -((-i) % 3)),
    ]
    for left, right in same:
        assert left == right and hash(left) == hash(right) and str(left) == str(right)
    assert (2 * i - 3 >= 0) == (i >= 2)
    assert (-2 * i).eq(2 * j) == (i + j).eq(0)
    assert i != j and i != 0 and (i == 0) is False


def as_zero() -> IndexExpr:
    return Dim(0) * 0


def test_immutable_values_copy_and_pickle() -> None:
    rng = random.Random(0)
    form = MAPS[7]
    for thing in (form, random_condition(rng, 2), Load(0, [Dim(1) // 3]) + Indicator(Dim(0) > 1)):
        assert pickle.loads(pickle.dumps(thing)) == thing
        assert copy.deepcopy(thing) == thing
        assert len({thing, copy.copy(thing)}) == 1
