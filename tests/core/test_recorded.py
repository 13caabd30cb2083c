"""Recorded numbers: what is replayed with other values is what those would give, or nothing."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from functrax.core.types.symbolic_sizes import Recorded, SizeRecording, applied, asked, decided, gcd


def replayed(function: Any, first: tuple[Any, ...], *others: tuple[Any, ...]) -> list[Any]:
    """What a function gives for other numbers by the recording of the first ones."""
    recording = SizeRecording(first)
    wanted = function(*recording.given)
    replay = recording.replay(wanted, ())
    recording.close()
    return [replay(*numbers) for numbers in (first, *others)]


def test_arithmetic_is_replayed() -> None:
    def function(n: Any, m: Any) -> Any:
        return (n * 3 + m, -(-n // 4), n % m, (n - 1).bit_length(), 1 << m, (n, (m * n,)), 5 - n)

    for numbers, got in zip([(7, 3), (20, 9)], replayed(function, (7, 3), (20, 9)), strict=True):
        assert got == function(*numbers)


def test_a_decision_is_one_answer() -> None:
    """However its function came to it, what it gives is a number like others."""

    def function(n: Any, m: Any) -> Any:
        (best, _) = decided(lambda *costs: (costs.index(min(costs)), "least"), n * 3, m * 4, n + m)
        assert type(best) is int
        return (best, n * m)

    found = replayed(function, (7, 9), (1, 50), (9, 2), (5, 5))
    assert found == [(2, 63), None, None, (2, 25)]
    assert decided(lambda n: n // 2, 9) == 4, "of numbers that are not recorded"


def test_another_answer_ends_a_replay() -> None:
    def larger(n: Any) -> Any:
        return (n * 2,) if n > 10 else (n,)

    assert replayed(larger, (20,), (11,), (10,)) == [(40,), (22,), None]
    assert replayed(larger, (3,), (10,), (11,)) == [(3,), (10,), None]


@pytest.mark.parametrize(
    "look",
    [
        lambda n: sum(1 for _ in range(n)),
        lambda n: [0] * n,
        lambda n: f"{n}",
        lambda n: f"{n:d}",
        lambda n: str(n),
        lambda n: int(n),
        lambda n: float(n),
        lambda n: math.sqrt(n),
        lambda n: np.zeros(n).size,
        lambda n: np.asarray([n, 1]).sum(),
        lambda n: "abcdefgh"[n],
        lambda n: "abcdefgh"[:n],
        lambda n: np.arange(8) + n,
        lambda n: n in range(4, 6),
        lambda n: n.to_bytes(1, "little"),
        lambda n: repr(n),
        lambda n: divmod(np.int64(n), 2),
    ],
)
def test_what_cannot_be_recorded_holds_for_the_same_value_alone(look: Any) -> None:
    first, same, other = replayed(lambda n: (look(n) is None, n), (5,), (5,), (6,))
    assert first == same == (False, 5) and other is None


def test_functions_of_numbers_are_recorded() -> None:
    def function(n: Any, x: Any) -> Any:
        even = asked(lambda n: n % 2 == 0, n)
        return (gcd(n, 12), np.negative(x), applied(math.factorial, n) if even else n, round(n / 3))

    one, two = np.float32(0.5), np.float32(-2)
    got = replayed(function, (6, one), (8, two), (9, two))
    assert got == [(6, -0.5, 720, 2), (4, 2.0, 40320, 3), None]
    assert type(got[1][1]) is np.float32


def test_numbers_told_apart_in_a_dictionary_stay_apart() -> None:
    def function(n: Any, m: Any) -> Any:
        return (len({n: 0, m: 1}),)

    assert replayed(function, (103, 104), (105, 109), (107, 107)) == [(2,), (2,), None]
    assert replayed(function, (103, 103), (105, 105), (107, 108)) == [(1,), (1,), None]
    recording = SizeRecording((3,))
    hash(recording.given[0])
    replay = recording.replay((recording.given[0],), (64,))
    assert replay(63) == (63,) and replay(64) is None


def test_it_is_taken_for_its_value_and_afterwards_for_nothing() -> None:
    recording = SizeRecording((3,))
    (n,) = recording.given
    assert isinstance(n, int) and type(n) is Recorded and n == 3 and n != 4 and n in (1, 3)
    assert hash(n) != hash(3)
    kept = {n: "left over"}
    recording.close()
    assert n != 3 and n not in (1, 3) and 3 not in kept and kept[n] == "left over"
    other = SizeRecording((3,)).given[0]
    assert other != n and other not in kept


def random_program(rng: random.Random) -> Any:
    """A function of two integers with branches, some of what compilers do."""
    steps = [
        (rng.randrange(10), rng.random(), rng.random(), rng.randrange(1, 70)) for _ in range(12)
    ]

    def run(n: Any, m: Any) -> Any:
        values = [n, m]
        seen = {}
        for kind, p, q, c in steps:
            x, y = values[int(p * len(values))], values[int(q * len(values))]
            new: Any = x
            if kind == 0:
                new = x + y
            elif kind == 1:
                new = x * c - y
            elif kind == 2:
                new = -(-x // c)
            elif kind == 3:
                new = max(x, y)
            elif kind == 4:
                new = x % c if x > y else y
            elif kind == 5:
                new = sorted([x, y, c])[1]
            elif kind == 6:
                new = math.prod((x, 2, y)) if (x, y) < (y, c) else math.trunc(x * 0.75)
            elif kind == 7:
                new = seen.setdefault((x + n, y + m), len(seen))
            elif kind == 8:
                new = sum(range(x % 5)) + len({x + n, y + n, n})
            elif kind == 9:
                new = gcd(abs(x), c) if x else c
            values.append(new)
        return tuple(values)

    return run


def test_random_functions_are_replayed_or_refused() -> None:
    held = 0
    for seed in range(150):
        rng = random.Random(seed)
        run = random_program(rng)
        n, m = rng.randrange(1, 300), rng.randrange(1, 300)
        numbers = [(n + rng.randrange(9), m + rng.randrange(9)) for _ in range(9)]
        for given, got in zip(numbers, replayed(run, *numbers), strict=True):
            if got is not None:
                held += 1
                assert got == run(*given), (seed, given)
    assert held > 300
