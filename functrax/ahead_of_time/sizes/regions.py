"""A program compiled for all values of its named sizes.

The compiler runs with sizes of a region (``core/types/size_cases.py``): a usual value of each, and
all that holds for them.  Where an answer that it needs is not the same in all of the region, it
goes on in the part with the answer for the usual values; the rest is another region, for which it
runs again.  So regions are what is left of all values, until nothing is.

Start at :func:`variants_of`.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from functrax.ahead_of_time.run_functions import kernel_of
from functrax.backends.cache.program_numbers import Flat, NotGenericError, Rebuilt
from functrax.backends.compilation.compiler import CompiledProgram
from functrax.backends.executables.program import Launch, ScanInstruction, all_programs
from functrax.backends.machine_code.kernel_jit import LaunchCode
from functrax.core.errors.source import SourceLine
from functrax.core.errors.typed import SizeError, UnavailableError
from functrax.core.ir.jaxpr import Jaxpr, Literal
from functrax.core.records import record
from functrax.core.types import size_polynomials as sp
from functrax.core.types.size_cases import MARK, SizeCase
from functrax.core.types.size_polynomials import Polynomial, SizeFacts
from functrax.core.types.symbolic_scopes import MOST_OF_INT32, SymbolicScope
from functrax.core.types.symbolic_sizes import Recorded, is_symbolic_dim

#: A program has code for at most so many regions.
MOST_VARIANTS: Final = 32
#: Values that are tried first for a region: code is best for those.
_USUAL: Final = (1000, 97, 24, 12, 6, 3, 2, 1)
#: Of a region with at most so many values each is tried.
_TRIED: Final = 4096


@record(eq=False)
class Variant:
    """The code for a region.

    Args:
      region: polynomials that are never negative in it, beyond what holds for all sizes.
      case: the sizes that it was compiled with.
      compiled: the compiler's record, whose numbers follow from those.
    """

    region: tuple[Polynomial, ...]
    case: SizeCase
    compiled: CompiledProgram


@record(eq=False)
class Constraint:
    """What the sizes of a call must satisfy.

    Args:
      text: for people.
      parts: polynomials that are never negative then.
    """

    text: str
    parts: tuple[Polynomial, ...]


def names_in(scope: SymbolicScope, shapes: Iterable[Sequence[Any]]) -> tuple[str, ...]:
    """The names of a scope that shapes have, and those in its constraints, in its order."""
    found = _names(scope.polynomial(n) for shape in shapes for n in shape)
    for text, parts in scope.checks():
        if text in scope.constraints:
            found |= _names(parts)
    return tuple([name for name in scope.names if name in found])


def _names(polynomials: Iterable[Polynomial]) -> set[str]:
    return {a.name for a in sp.atoms(polynomials) if not a.arguments}


def constraints_of(scope: SymbolicScope, shapes: Iterable[Sequence[Any]]) -> list[Constraint]:
    """What sizes must satisfy: what the scope says, and that all arrays have elements.

    Args:
      scope: of the sizes.
      shapes: of the arguments and results.
    """
    shapes = list(shapes)
    names = names_in(scope, shapes)
    found = [
        Constraint(text, tuple(parts))
        for text, parts in scope.checks()
        if _names(parts) <= {*names}
    ]
    for name in names:
        below = sp.add(sp.constant(MOST_OF_INT32), sp.variable(name), -1)
        found.append(Constraint(f"{name} <= {MOST_OF_INT32}", (below,)))
    for size in dict.fromkeys(n for shape in shapes for n in shape if type(n) is Recorded):
        p = sp.add(scope.polynomial(size), sp.constant(-1))
        if scope.facts.lower(p) < 0:
            found.append(Constraint(f"{size} >= 1", (p,)))
    return found


def variants_of(
    jaxpr: Jaxpr,
    scope: SymbolicScope,
    constraints: list[Constraint],
    compiled: Callable[[Jaxpr], CompiledProgram],
) -> list[Variant]:
    """The code of a program for all values of its sizes.

    Args:
      jaxpr: the program, with sizes of the scope.
      scope: of the sizes.
      constraints: what they satisfy; what else has to hold is added.
      compiled: compiles a program.

    Raises:
      UnavailableError: it cannot be compiled for all values, or only for each part of them by
        itself.
    """
    known = [p for x in constraints for p in x.parts]
    names = [name for name in scope.names if name in _names(known)]
    found: list[Variant] = []
    todo: list[tuple[Polynomial, ...]] = [()]
    while todo:
        region = todo.pop()
        facts = [*known, *region]
        usual = _usual_values(names, facts, region)
        if usual is None:
            if not _is_empty(facts):
                raise _refused(jaxpr, region, "whether there are such sizes is not known")
            continue
        if len(found) == MOST_VARIANTS:
            raise _refused(jaxpr, region, f"more than {MOST_VARIANTS} parts have code of their own")
        case = SizeCase(usual, facts)
        try:
            made = compiled(_with_sizes(jaxpr, scope, case))
        except UnavailableError:
            raise
        except TypeError as error:  # NumPy's too, of what must be an integer
            why = f"{error.what} ({error.got})" if isinstance(error, SizeError) else str(error)
            raise _refused(jaxpr, region, why) from error
        _check(jaxpr, made, case)
        case.close_questions()
        added = [p for parts, _ in case.splits for p in parts]
        found.append(Variant((*region, *added), case, made))
        for p in case.limits:
            constraints.append(Constraint(f"{sp.text(p)} >= 0", (p,)))
            known.append(p)
        before = list(region)
        for p in added:
            todo.append((*before, sp.add(sp.constant(-1), p, -1)))
            before.append(p)
    return found


def _check(jaxpr: Jaxpr, compiled: CompiledProgram, case: SizeCase) -> None:
    """Refuse what is not for all sizes: kernels with a size in their text, and some loops.

    How the carries of loops of the driver move depends on how many steps there are.
    """
    for work in compiled.works:
        for x in work.instructions:
            code = x.owner if isinstance(x, Launch) else None
            if isinstance(code, LaunchCode) and MARK in kernel_of(code.kernel).text:
                raise _refused(jaxpr, (), "a size is part of the code of a kernel", work.eqn.source)
    for program in all_programs(compiled.program):
        for x in program.instructions:
            if isinstance(x, ScanInstruction) and is_symbolic_dim(x.length):
                steps = case.shown_any(x.length)
                raise _refused(jaxpr, (), f"a loop of {steps} steps, which are several kernels")


def _refused(
    jaxpr: Jaxpr, region: Sequence[Polynomial], why: str, line: SourceLine | None = None
) -> UnavailableError:
    where = ", ".join(f"{sp.text(p)} >= 0" for p in region)
    return UnavailableError(
        f"aot: {jaxpr.name} cannot be compiled for all values of its sizes",
        got=why + (f"; where {where}" if where else ""),
        fix="constraints for the sizes, or numbers in place of names",
        where=line,
    )


class _Numbers(Flat):
    """The numbers of one program, whose other parts stay as they are."""

    def _other(self, x: Any) -> None:
        pass


def _with_sizes(jaxpr: Jaxpr, scope: SymbolicScope, case: SizeCase) -> Jaxpr:
    """The program with the sizes of a case in place of those of a scope."""
    names: dict[str, Any] = {
        name: x if (x := case.known(name)) is not None else size
        for name, size in case.names.items()
    }

    def other(x: Any) -> Any:
        if type(x) is Recorded:
            return sp.evaluated(scope.polynomial(x), names)
        if type(x) is Literal and type(x.val) is Recorded:
            return Literal(sp.evaluated(scope.polynomial(x.val), names), x.aval)
        return x

    try:
        flat = _Numbers(jaxpr)
    except NotGenericError as error:
        raise _refused(jaxpr, (), str(error)) from error
    return Rebuilt(list(map(other, flat.numbers))).program(jaxpr)


# ---- values of regions --------------------------------------------------------------------------


def _usual_values(
    names: Sequence[str], facts: Sequence[Polynomial], region: Sequence[Polynomial]
) -> dict[str, int] | None:
    """A value for each name such that all facts hold; None if none is found."""
    ends = [_interval(name, facts) for name in names]
    if any(low > high for low, high in ends):
        return None
    count = 1
    for low, high in ends:
        count *= high - low + 1
    if count <= _TRIED:
        tried: Iterable[tuple[int, ...]] = itertools.product(
            *[sorted(range(low, high + 1), key=_rank) for low, high in ends]
        )
    else:
        tried = itertools.product(*[_candidates(low, high) for low, high in ends])
    for values in tried:
        found = dict(zip(names, values))
        if satisfied(facts, found):
            return found
    return None


def _rank(n: int) -> tuple[int, int]:
    return (_USUAL.index(n), n) if n in _USUAL else (len(_USUAL), n)


def _candidates(low: int, high: int) -> list[int]:
    """Values of an interval: usual ones, its ends, and some of each magnitude."""
    found = [n for n in _USUAL if low <= n <= high]
    near = [low, low + 1, high, high - 1, (low + high) // 2]
    powers = [k << e for e in range(31) for k in (1, 3, 5)]
    rest = [*near, *range(1, 33), *powers, *[n + 1 for n in powers]]
    return list(dict.fromkeys([*found, *[n for n in rest if low <= n <= high]]))


def _interval(name: str, facts: Sequence[Polynomial]) -> tuple[int, int]:
    """The least and the greatest value of a size, as facts of it alone say that rise or fall."""
    low, high = 1, MOST_OF_INT32
    for p in facts:
        if _names([p]) != {name}:
            continue
        holds = partial(_is_satisfied, p, name)
        if _rises(p, name):
            low = max(low, bisect_left(range(MOST_OF_INT32 + 1), True, lo=1, key=holds))
        elif _rises(sp.add({}, p, -1), name):
            fails = bisect_left(range(MOST_OF_INT32 + 1), True, lo=1, key=lambda n: not holds(n))
            high = min(high, fails - 1)
    return low, high


def _is_satisfied(p: Polynomial, name: str, value: int) -> bool:
    return bool(sp.evaluated(p, {name: value}) >= 0)


def _rises(p: Polynomial, name: str) -> bool:
    """Whether a polynomial of one size becomes no less where that is larger."""
    if any(times < 0 for monomial, times in p.items() if monomial):
        return False
    for atom in {a for monomial in p for a in monomial if a.arguments}:
        inner, by = map(dict, atom.arguments)
        whole = sp.number(by)
        if atom.name != "floordiv" or whole is None or whole <= 0 or not _rises(inner, name):
            return False
        if sp.evaluated(inner, {name: 1}) < 0:  # products of what is negative may fall
            return False
    return True


def satisfied(facts: Sequence[Polynomial], sizes: Mapping[str, int]) -> bool:
    """Whether polynomials are not negative for some sizes."""
    return all(sp.evaluated(p, sizes) >= 0 for p in facts)


def _is_empty(facts: Sequence[Polynomial]) -> bool:
    """Whether no values satisfy facts, as far as is known."""
    names = sorted(_names(facts))
    count = 1
    for low, high in (_interval(name, facts) for name in names):
        if low > high:
            return True
        count *= high - low + 1
    if count <= _TRIED:  # each was tried
        return True
    known = SizeFacts(facts)
    return any(known.upper(sp.multiply(p, sp.constant(k))) < 0 for p in facts for k in _by(facts))


def _by(facts: Sequence[Polynomial]) -> Iterator[int]:
    """1, and what is divided by in facts: a multiple of a quotient is compared with its operand."""
    yield from {1, *(dict(a.arguments[1]).get((), 1) for a in sp.atoms(facts) if a.arguments)}
