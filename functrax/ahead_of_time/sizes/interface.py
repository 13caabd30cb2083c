"""The functions that callers of a program with named sizes see, as LLVM IR.

    int NAME(int64_t size..., const void *argument..., void *result..., void *workspace,
             const void *threads)
    int NAME_call(const void **arguments, void **results, const int64_t *sizes, void *workspace,
                  const void *threads)
    size_t NAME_workspace_bytes(int64_t size...)
    int NAME_check_sizes(const int64_t *sizes)
    int NAME_shape(const int64_t *sizes, int array, int64_t *shape)

and those of all programs (``ahead_of_time/entry.py``).  A call looks at the sizes first, chooses
the code for their region, fills its table of numbers, at the begin of the workspace, and runs it.

Start at :func:`sized_functions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from functrax.ahead_of_time.arguments import CArgument, named
from functrax.ahead_of_time.constants import Constants
from functrax.ahead_of_time.entry import (
    CHECK,
    ERRORS,
    INDEX_SHIFT,
    checked_arrays,
    checked_workspace,
    error_text,
    first_error,
)
from functrax.ahead_of_time.sizes.numbers import SizeNumbers, SizeTable, holds
from functrax.ahead_of_time.sizes.regions import Constraint, Variant, names_in, satisfied
from functrax.ahead_of_time.writer import FunctionText
from functrax.core.errors.typed import ArgumentError, VerificationError
from functrax.core.records import record
from functrax.core.types import size_polynomials as sp
from functrax.core.types.symbolic_scopes import SymbolicScope

#: The numbers of errors.
_NUMBER: Final = {word: number for number, (word, _) in ERRORS.items()}
#: Arrays have fewer bytes than this, so that sizes of arrays are computed in 64 bits.
_LARGEST: Final = 2.0**62


@record(eq=False)
class SizedProgram:
    """What a program with named sizes takes and has.

    Args:
      name: of the program.
      scope: of its sizes.
      names: of the sizes, in the order in which callers give them.
      constraints: what the sizes must satisfy.
      arguments: what it takes.
      results: what it gives.
      variants: the code for each region.
      tables: their numbers.
    """

    name: str
    scope: SymbolicScope
    names: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    arguments: tuple[CArgument, ...]
    results: tuple[CArgument, ...]
    variants: tuple[Variant, ...]
    tables: tuple[SizeTable, ...]

    @property
    def arrays(self) -> tuple[CArgument, ...]:
        """The arguments, then the results."""
        return *self.arguments, *self.results


def sized_functions(program: SizedProgram, description: str, constants: Constants) -> list[str]:
    """The functions that callers see, and what these call.

    Args:
      program: what it takes and has.
      description: what ``NAME_description`` gives.
      constants: of the module.
    """
    name = program.name
    return [
        CHECK,
        _check_sizes(program),
        _call(program, constants),
        _typed_call(program),
        _workspace_bytes(program),
        _shape(program),
        error_text(name, constants, [x.text for x in program.constraints]),
        f"define ptr @{name}_description() nounwind {{\n"
        f"  ret ptr {constants.text(description)}\n}}",
    ]


def _check_sizes(program: SizedProgram) -> str:
    """The function that looks at sizes: the code of the first constraint that is broken."""
    f = FunctionText(f"define i32 @{program.name}_check_sizes(ptr %sizes) nounwind")
    absent, there = f.label(), f.label()
    f.branch(f.value("icmp eq ptr %sizes, null"), absent, there)
    f.begin(absent)
    f.line(f"ret i32 {_NUMBER['NULL_SIZES']}")
    f.begin(there)
    numbers = SizeNumbers(f, program.names)
    for n, constraint in enumerate(program.constraints):
        good, bad = f.label(), f.label()
        f.branch(holds(f, numbers, constraint.parts), good, bad)
        f.begin(bad)
        f.line(f"ret i32 {n << INDEX_SHIFT | _NUMBER['BROKEN_CONSTRAINT']}")
        f.begin(good)
    total = "0.0"
    for p in _all_bytes(program):
        total = f.value(f"fadd double {total}, {numbers.magnitude(p)}")
    fits = f.value(f"fcmp olt double {total}, {_LARGEST:e}")
    code = f.value(f"select i1 {fits}, i32 0, i32 {_NUMBER['TOO_LARGE']}")
    f.line(f"ret i32 {code}")
    return f.text()


def _all_bytes(program: SizedProgram) -> list[sp.Polynomial]:
    """The bytes of arrays and of workspaces that follow from sizes."""
    found = [program.scope.polynomial(x.nbytes) for x in program.arrays]
    for variant in program.variants:
        arena = variant.case.polynomial_of(variant.compiled.program.arena)
        assert arena is not None, "bytes of memory are a polynomial"
        found.append(arena)
    return [p for p in found if sp.number(p) is None]


def _call(program: SizedProgram, constants: Constants) -> str:
    name = program.name
    f = FunctionText(
        f"define i32 @{name}_call(ptr %arguments, ptr %results, ptr %sizes, ptr %workspace, "
        "ptr %threads) nounwind"
    )
    f.reserve("%memory", "ptr")
    codes = [f.value(f"call i32 @{name}_check_sizes(ptr %sizes)")]
    codes += checked_arrays(f, program.arguments, program.results, constants)
    _leave_unless_0(f, first_error(f, codes))
    numbers = SizeNumbers(f, program.names)
    for n, (variant, table) in enumerate(zip(program.variants, program.tables, strict=True)):
        mine, other = f.label(), f.label()
        f.branch(holds(f, numbers, variant.region), mine, other)
        f.begin(mine)
        _leave_unless_0(f, checked_workspace(f, _has_workspace(variant, table), constants))
        before = f.value("call i64 @enter()")
        f.call(f"{table.name}(ptr %sizes, ptr %workspace)")
        arena = f.offset("%workspace", table.nbytes)
        rest = f"ptr {arena}, ptr %threads, ptr %workspace"
        f.call(f"@run.v{n}(ptr %arguments, ptr %results, {rest})")
        f.call(f"@leave(i64 {before})")
        f.line("ret i32 0")
        f.begin(other)
    f.line(f"ret i32 {_NUMBER['NO_CODE']}")
    return f.text()


def _leave_unless_0(f: FunctionText, code: str) -> None:
    """Return a code that is not 0."""
    good, bad = f.label(), f.label()
    f.branch(f.value(f"icmp eq i32 {code}, 0"), good, bad)
    f.begin(bad)
    f.line(f"ret i32 {code}")
    f.begin(good)


def _has_workspace(variant: Variant, table: SizeTable) -> bool:
    arena = variant.compiled.program.arena
    return table.nbytes > 0 or type(arena) is not int or arena > 0


def _with_sizes(program: SizedProgram, head: str, more: Sequence[str] = ()) -> FunctionText:
    """A function that takes sizes one by one, which lie at ``%sizes`` then."""
    given = ", ".join([*[f"i64 %s{n}" for n in range(len(program.names))], *more])
    f = FunctionText(f"{head}({given}) nounwind")
    f.reserve("%sizes", f"[{len(program.names)} x i64]")
    for n in range(len(program.names)):
        f.line(f"store i64 %s{n}, ptr {f.offset('%sizes', 8 * n)}")
    return f


def _typed_call(program: SizedProgram) -> str:
    """The function with a parameter for each size, argument and result."""
    counts = {"a": len(program.arguments), "r": len(program.results)}
    names = [f"ptr %{kind}{n}" for kind, count in counts.items() for n in range(count)]
    name = program.name
    f = _with_sizes(program, f"define i32 @{name}", [*names, "ptr %workspace", "ptr %threads"])
    for kind, count in counts.items():
        f.reserve(f"%{kind}", f"[{count} x ptr]")
        for n in range(count):
            f.line(f"store ptr %{kind}{n}, ptr {f.offset(f'%{kind}', 8 * n)}")
    rest = "ptr %sizes, ptr %workspace, ptr %threads"
    f.line(f"ret i32 {f.value(f'call i32 @{name}_call(ptr %a, ptr %r, {rest})')}")
    return f.text()


def _workspace_bytes(program: SizedProgram) -> str:
    """The function that says how large a workspace is; nothing is as large for wrong sizes."""
    f = _with_sizes(program, f"define i64 @{program.name}_workspace_bytes")
    code = f.value(f"call i32 @{program.name}_check_sizes(ptr %sizes)")
    good, bad = f.label(), f.label()
    f.branch(f.value(f"icmp eq i32 {code}, 0"), good, bad)
    f.begin(good)
    numbers = SizeNumbers(f, program.names)
    for variant, table in zip(program.variants, program.tables, strict=True):
        mine, other = f.label(), f.label()
        f.branch(holds(f, numbers, variant.region), mine, other)
        f.begin(mine)
        own = SizeNumbers(f, program.names, variant.case)
        arena = own.integer(variant.compiled.program.arena)
        f.line(f"ret i64 {f.value(f'add i64 {arena}, {table.nbytes}')}")
        f.begin(other)
    f.go(bad)
    f.begin(bad)
    f.line("ret i64 -1")
    return f.text()


def _shape(program: SizedProgram) -> str:
    """The function that gives the shape of an array: how many axes it has, or -1."""
    f = FunctionText(
        f"define i32 @{program.name}_shape(ptr %sizes, i32 %array, ptr %shape) nounwind"
    )
    code = f.value(f"call i32 @{program.name}_check_sizes(ptr %sizes)")
    good, bad = f.label(), f.label()
    f.branch(f.value(f"icmp eq i32 {code}, 0"), good, bad)
    f.begin(good)
    blocks = [f.label() for _ in program.arrays]
    cases = " ".join(f"i32 {n}, label %{block}" for n, block in enumerate(blocks))
    f.line(f"switch i32 %array, label %{bad} [ {cases} ]")
    for block, x in zip(blocks, program.arrays, strict=True):
        f.begin(block)
        numbers = SizeNumbers(f, program.names)
        for k, size in enumerate(x.shape):
            value = numbers.polynomial(program.scope.polynomial(size))
            f.line(f"store i64 {value}, ptr {f.offset('%shape', 8 * k)}")
        f.line(f"ret i32 {len(x.shape)}")
    f.begin(bad)
    f.line("ret i32 -1")
    return f.text()


def size_names(scope: SymbolicScope, shapes: Iterable[Sequence[Any]]) -> tuple[str, ...]:
    """The names of sizes of arguments, as parameters of C.

    Raises:
      ArgumentError: one is a word of C, or a parameter that all programs have.
    """
    names = names_in(scope, shapes)
    for name in names:
        if named([name]) != [name]:
            raise ArgumentError(
                "aot: the name of a size is the name of a parameter of C",
                got=repr(name),
                fix=f"symbolic_shape({named([name])[0]!r})",
            )
    return names


def workspace_bytes(program: SizedProgram, sizes: Mapping[str, int]) -> int:
    """Bytes of the workspace of a call with some sizes.

    Raises:
      ArgumentError: there are others, or they break a constraint.
    """
    if sorted(sizes) != sorted(program.names):
        raise ArgumentError(
            f"{program.name}: the program has sizes of other names",
            got=f"{dict(sizes)}",
            fix=f"a value for each of {', '.join(program.names)}",
        )
    for constraint in program.constraints:
        if not satisfied(constraint.parts, sizes):
            raise ArgumentError(
                f"{program.name}: the sizes do not satisfy a constraint",
                got=f"{dict(sizes)}",
                fix=constraint.text,
            )
    for variant, table in zip(program.variants, program.tables, strict=True):
        if satisfied(variant.region, sizes):
            arena = variant.case.polynomial(variant.compiled.program.arena)
            return table.nbytes + int(sp.evaluated(arena, sizes))
    raise VerificationError(
        f"{program.name}: there is no code for sizes that satisfy all constraints",
        got=f"{dict(sizes)}",
        fix="report this",
    )
