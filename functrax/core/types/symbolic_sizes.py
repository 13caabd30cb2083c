"""Numbers that write down what is computed from them and what is asked about them.

The compiler's work on one program is repeated for another one that differs in sizes alone without
doing it again: it is done once with :class:`Recorded` numbers in place of the sizes.  Each of them
has the value that it stands for, so all goes as it would with that; and its :class:`SizeRecording`
keeps, in order,

- every number that was computed from others, by which function;
- every *answer*: which of two numbers was less, whether one was 0.  Other numbers that give the
  same answers lead the compiler the same way, so what it made holds for them too.

Whatever looks at a value in a way that cannot be written down (as an index, as the count of a loop,
in a text, as an element of an array) asks for the value itself: then the answer is "it is 7", which
holds for numbers that are 7 again, so nothing can be forgotten.  One thing is not asked: numbers
are kept in dictionaries and sets, where two are told apart by their hashes, and literals are told
apart by being other objects.  So which of the numbers that were hashed, or are literals, are equal
is an answer too, and which of them are equal to the plain ones of the program.

Start at :class:`SizeRecording`; its ``replay`` writes down, as a function of Python, what follows.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

#: The values of the numbers asked for, in order; None where an answer is another one.
Replay: TypeAlias = Callable[..., "tuple[Any, ...] | None"]

_SIGNS: Final[dict[Callable[..., Any], str]] = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.floordiv: "//",
    operator.mod: "%",
    operator.truediv: "/",
    operator.lshift: "<<",
    operator.rshift: ">>",
    operator.and_: "&",
    operator.or_: "|",
    operator.xor: "^",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.eq: "==",
    operator.ne: "!=",
}
_PLAIN: Final = (int, float, np.generic)
_T = TypeVar("_T")
as_scalar: Final = lambda value, dtype: np.asarray(value, dtype)[()]  # noqa: E731
_count: Final = itertools.count()


class SizeRecording:
    """What was computed from some numbers, and asked about them, so far.

    Args:
      values: the numbers that all others follow from.

    Attributes:
      given: the same, to be used in their place.
      open: whether it still records; afterwards its numbers equal nothing else.
      pins: how often a value itself was asked for.
      has_values: whether its numbers have values.
    """

    has_values = True

    def __init__(self, values: Sequence[Any]) -> None:
        self.open = True
        self.pins = 0
        self.salt = next(_count)
        #: For each number how it was computed: a function and its operands; None for given ones.
        self._steps: list[tuple[Callable[..., Any], tuple[Any, ...]] | None] = []
        self._known: dict[Any, Any] = {}
        #: What was asked, in order: a number, a value, and whether the number is that value.
        self._answers: dict[tuple[Any, ...], bool] = {}
        self._hashed: dict[int, Recorded] = {}
        #: What is interned for as long as this is used: types, literals.
        self.kept: dict[Any, Any] = {}
        self.given = [self._new(value, None) for value in values]

    def _new(self, value: Any, step: Any) -> Recorded:
        self._steps.append(step)
        return Recorded(self, len(self._steps) - 1, value)

    def apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        """What a function without side effects gives, recorded; a plain number if it must be one.

        Args:
          function: depends on its operands alone.
          operands: numbers, some of them recorded here.
        """
        key = (function, *map(_word, operands))
        found = self._known.get(key)
        if found is None:
            value = function(*map(_value_of, operands))
            found = self._known[key] = self._new(value, (function, operands))
        return found

    def ask(self, function: Callable[..., bool], *operands: Any) -> bool:
        """The truth of a statement, which is an answer from now on."""
        key = (function, *map(_word, operands))
        found = self._answers.get(key)
        if found is None:
            found = self._answers[key] = bool(function(*map(_value_of, operands)))
            self._steps.append((function, operands))
            self._known[key] = None, len(self._steps) - 1
        return found

    def is_sure(self, function: Callable[..., bool], *operands: Any) -> bool:
        """Whether a statement is known to hold."""
        return self.ask(function, *operands)

    def scalar(self, x: Recorded, dtype: Any) -> Any:
        """A number as one of a dtype, which a literal holds."""
        return self.apply(as_scalar, x, dtype)

    def attribute(self, x: Recorded, name: str) -> Any:
        """An attribute of the value, for which that is asked."""
        return getattr(self.pin(x), name)  # of a NumPy number: its bytes, its dtype

    def decide(self, function: Callable[..., Any], *operands: Any) -> Any:
        """What a function without side effects gives, which is an answer from now on."""
        found = self.apply(function, *operands)
        self.ask(_same, found, found.value)
        return found.value

    def pin(self, x: Recorded) -> Any:
        """The value of a number, which is an answer from now on."""
        if self.open and self.ask(_same, x, x.value):
            self.pins += 1
        return x.value

    def shown(self, x: Recorded, write: Callable[[Any], str] = str) -> str:
        """A number as text, for which its value is asked."""
        return write(self.pin(x))

    def note_hash(self, x: Recorded) -> None:
        """Remember that a number was told apart from others."""
        if self.open:
            self._hashed.setdefault(x.number, x)

    # ---- replaying ------------------------------------------------------------------------------

    def replay(self, wanted: Sequence[Any], others: Sequence[Any]) -> Replay:
        """A function from other given numbers to the numbers that follow from them.

        Args:
          wanted: numbers, some of them recorded here.
          others: the identities of plain numbers that those which were hashed were told apart from.
        """
        asked = {number: self._answers[key] for key, (_, number) in self._asked()}
        hashed = list(self._hashed.values())
        live = self._live([*wanted, *hashed], asked)
        names: dict[str, Any] = {}
        lines = []
        for number, step in enumerate(self._steps):
            if step is None or not live[number]:
                continue
            text = _text(step, names)
            if number in asked:
                lines.append(f" if {'not ' if asked[number] else ''}({text}): return None")
            else:
                lines.append(f" t{number} = {text}")
        lines += _told_apart(hashed, {0, 1, *others}, names)
        results = "".join(f"{_operand(x, names)}, " for x in wanted)
        arguments = ", ".join(f"t{x.number}" for x in self.given)
        source = "\n".join([f"def replay({arguments}):", *lines, f" return ({results})"])
        exec(compile(source, "<replay>", "exec"), names)
        made: Replay = names["replay"]
        made.__doc__ = source
        return made

    def close(self) -> None:
        """Record no more; what is left of the numbers, in caches, equals nothing."""
        self.open = False
        for kept in (self._steps, self._known, self._answers, self._hashed, self.kept):
            kept.clear()

    def _asked(self) -> list[tuple[Any, Any]]:
        return [(key, self._known[key]) for key in self._answers]

    def _live(self, roots: Sequence[Any], asked: dict[int, bool]) -> list[bool]:
        """For each number whether it is needed."""
        live = [False] * len(self._steps)
        for number in asked:
            live[number] = True
        for x in _recorded_in(roots):
            live[x.number] = True
        for number in reversed(range(len(self._steps))):
            step = self._steps[number]
            if live[number] and step is not None:
                for x in _recorded_in(step[1]):
                    live[x.number] = True
        return live


def _recorded_in(operands: Sequence[Any]) -> Iterator[Recorded]:
    """The recorded numbers among operands and in tuples among them."""
    for x in operands:
        if type(x) is Recorded:
            yield x
        elif type(x) is tuple:
            yield from _recorded_in(x)


def _told_apart(hashed: list[Recorded], others: set[Any], names: dict[str, Any]) -> list[str]:
    """Lines that see to it that numbers are equal where they were, and nowhere else."""
    if not hashed:
        return []
    known = frozenset(others)
    names |= {"pattern_of": _pattern, "others": known}
    names["pattern"] = _pattern([x.value for x in hashed], known)
    inside = ", ".join(f"t{x.number}" for x in hashed)
    return [f" if pattern_of(({inside},), others) != pattern: return None"]


def _pattern(values: Sequence[Any], others: frozenset[Any]) -> tuple[Any, ...]:
    """Which numbers are equal: for each the place of the first like it, or the other like it."""
    first: dict[Any, int] = {}
    keys = enumerate(map(identity, values))
    return tuple([(v,) if v in others else first.setdefault(v, n) for n, v in keys])


def identity(x: Any) -> Any:
    """What a number is told apart by: its value; of a NumPy number its dtype and bits."""
    return (x.dtype.num, x.tobytes()) if isinstance(x, np.generic) else x


def _text(step: tuple[Callable[..., Any], tuple[Any, ...]], names: dict[str, Any]) -> str:
    function, operands = step
    texts = [_operand(x, names) for x in operands]
    sign = _SIGNS.get(function)
    if sign is not None:
        return f"{texts[0]} {sign} {texts[1]}"
    return f"{_named(function, names)}({', '.join(texts)})"


def _operand(x: Any, names: dict[str, Any]) -> str:
    if type(x) is Recorded:
        return f"t{x.number}"
    if type(x) in (int, bool):
        return f"({x})"
    if type(x) is tuple:
        return f"({''.join(f'{_operand(part, names)}, ' for part in x)})"
    return _named(x, names)


def _named(x: Any, names: dict[str, Any]) -> str:
    """The name of an object in the function."""
    name = f"c{id(x)}"
    names[name] = x
    return name


def _word(x: Any) -> Any:
    """An operand as a key."""
    if type(x) is Recorded:
        return (x.number,)
    if isinstance(x, np.generic | np.ndarray):
        return (x.dtype, x.shape, x.tobytes())
    if type(x) is tuple:
        return tuple([_word(part) for part in x])
    return (type(x), x) if type(x) is not float else (float, x, math.copysign(1.0, x))


def _same(x: Any, y: Any) -> bool:
    """Whether two numbers, or small arrays, are one, bit for bit."""
    if isinstance(x, np.generic | np.ndarray):
        return bool(x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes())
    return bool(x == y)


def _value_of(x: Any) -> Any:
    """The value of an operand, which may be a tuple of operands."""
    if type(x) is tuple:
        return tuple([_value_of(part) for part in x])
    return x.value if type(x) is Recorded else x


def plain(x: Any) -> Any:
    """The value of a number, without asking: for what is recorded otherwise, and for tests."""
    return x.value if type(x) is Recorded else x


def recording_of(numbers: Sequence[Any]) -> SizeRecording | None:
    """The recording that some of the numbers belong to, if it is open."""
    for x in numbers:
        if type(x) is Recorded:
            return x.recording if x.recording.open else None
        if type(x) is tuple:
            found = recording_of(x)
            if found is not None:
                return found
    return None


def applied(function: Callable[..., Any], *operands: Any) -> Any:
    """What a function without side effects gives, recorded where an operand is."""
    recording = recording_of(operands)
    return function(*operands) if recording is None else recording.apply(function, *operands)


def asked(function: Callable[..., bool], *operands: Any) -> bool:
    """The truth of a statement, an answer where an operand is recorded."""
    recording = recording_of(operands)
    return bool(function(*operands)) if recording is None else recording.ask(function, *operands)


def decided(function: Callable[..., _T], *operands: Any) -> _T:
    """What a function without side effects gives, an answer where an operand is recorded.

    So a choice among many is one answer, and how it was found is none.
    """
    recording = recording_of(operands)
    return function(*operands) if recording is None else recording.decide(function, *operands)


def is_symbolic_dim(x: Any) -> bool:
    """Whether a number is a size that has a name and no value (``symbolic_scopes.py``).

    Args:
      x: anything.

    Returns:
      A bool.

    >>> is_symbolic_dim(3)
    False
    """
    return type(x) is Recorded and not x.recording.has_values


def integer(x: Any) -> Any:
    """``operator.index``, which leaves recorded numbers as they are."""
    return x if type(x) is Recorded else operator.index(x)


def gcd(*numbers: int) -> int:
    """``math.gcd``, which records."""
    return applied(math.gcd, *numbers)  # type: ignore[no-any-return]


def _binary(
    function: Callable[..., Any], nothing: int | None = None, zero: bool = False
) -> tuple[Any, Any]:
    """The operator of two operands, of which the right one is recorded, or both.

    Args:
      function: the operation.
      nothing: the integer on the right that changes nothing.
      zero: whether 0 on the right gives 0.
    """
    swaps = function in (operator.add, operator.mul)

    def forwards(self: Recorded, other: Any) -> Any:
        if type(other) is int and type(self.value) is int:
            if other == nothing:
                return self
            if zero and other == 0:
                return 0
        if not isinstance(other, _PLAIN) and type(other) is not Recorded:
            return NotImplemented
        return self.recording.apply(function, self, other)

    def backwards(self: Recorded, other: Any) -> Any:
        if swaps:
            return forwards(self, other)
        if not isinstance(other, _PLAIN):
            return NotImplemented
        return self.recording.apply(function, other, self)

    return forwards, backwards


def _comparison(function: Callable[..., bool]) -> Any:
    def compare(self: Recorded, other: Any) -> Any:
        if not isinstance(other, _PLAIN) and type(other) is not Recorded:
            return NotImplemented
        recording = self.recording
        if not recording.open or (type(other) is Recorded and other.recording is not recording):
            return (self is other) is (function is operator.eq)  # left over in a cache
        return recording.ask(function, self, other)

    return compare


def _unary(function: Callable[..., Any]) -> Any:
    return lambda self: self.recording.apply(function, self)


class Recorded:
    """A number of a recording; it is taken for one of the type of its value.

    Its hash is another one than its value's: it is not found in a cache by what was kept for a
    plain number, nor the other way round.

    Args:
      recording: that it belongs to.
      number: its place in it.
      value: what it stands for.
    """

    __slots__ = ("__weakref__", "number", "recording", "value")

    def __init__(self, recording: SizeRecording, number: int, value: Any) -> None:
        self.recording = recording
        self.number = number
        self.value = value

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # what isinstance asks for
        return type(self.value)

    __add__, __radd__ = _binary(operator.add, 0)
    __sub__, __rsub__ = _binary(operator.sub, 0)
    __mul__, __rmul__ = _binary(operator.mul, 1, zero=True)
    __floordiv__, __rfloordiv__ = _binary(operator.floordiv, 1)
    __mod__, __rmod__ = _binary(operator.mod)
    __truediv__, __rtruediv__ = _binary(operator.truediv)
    __lshift__, __rlshift__ = _binary(operator.lshift)
    __rshift__, __rrshift__ = _binary(operator.rshift)
    __and__, __rand__ = _binary(operator.and_)
    __or__, __ror__ = _binary(operator.or_)
    __xor__, __rxor__ = _binary(operator.xor)
    __pow__, __rpow__ = _binary(operator.pow)
    __lt__ = _comparison(operator.lt)
    __le__ = _comparison(operator.le)
    __gt__ = _comparison(operator.gt)
    __ge__ = _comparison(operator.ge)
    __eq__ = _comparison(operator.eq)
    __ne__ = _comparison(operator.ne)
    __neg__ = _unary(operator.neg)
    __pos__ = _unary(operator.pos)
    __abs__ = _unary(operator.abs)
    __invert__ = _unary(operator.invert)
    __floor__ = _unary(math.floor)
    __ceil__ = _unary(math.ceil)
    __trunc__ = _unary(math.trunc)
    bit_length = _unary(int.bit_length)

    def __round__(self, digits: int | None = None) -> Any:
        return self.recording.apply(round, self, *(() if digits is None else (digits,)))

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __bool__(self) -> bool:
        return self.recording.ask(bool, self)

    def __hash__(self) -> int:
        self.recording.note_hash(self)
        return hash((Recorded, self.recording.salt, self.value))

    def __index__(self) -> int:
        return operator.index(self.recording.pin(self))

    def __int__(self) -> int:
        return int(self.recording.pin(self))

    def __float__(self) -> float:
        return float(self.recording.pin(self))

    def __complex__(self) -> complex:
        return complex(self.recording.pin(self))

    def __str__(self) -> str:
        return self.recording.shown(self)

    def __repr__(self) -> str:
        return self.recording.shown(self, repr)

    def __format__(self, spec: str) -> str:
        return self.recording.shown(self, lambda value: format(value, spec))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.recording.pin(self), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        recorded = method == "__call__" and not options and ufunc.nout == 1
        if recorded and all(isinstance(x, _PLAIN) for x in inputs):
            return self.recording.apply(ufunc, *inputs)
        values = [self.recording.pin(x) if type(x) is Recorded else x for x in inputs]
        return getattr(ufunc, method)(*values, **options)

    def __getattr__(self, name: str) -> Any:
        return self.recording.attribute(self, name)

    def __reduce__(self) -> Any:
        return type(self.value), (self.recording.pin(self),)
