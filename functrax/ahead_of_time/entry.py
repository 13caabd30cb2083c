"""The functions that callers of a program see, as LLVM IR.

    int NAME(const void *argument..., void *result..., void *workspace, const void *threads)
    int NAME_call(const void **arguments, void **results, const int64_t *sizes, void *workspace,
                  const void *threads)
    size_t NAME_workspace_bytes(void)
    const char *NAME_error_text(int code)
    const char *NAME_description(void)

``NAME_call`` looks at what it gets, lets the thread flush subnormal numbers or not, as the program
was compiled, and calls the driver.

Start at :func:`entry_functions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from functrax.ahead_of_time.arguments import CArgument
from functrax.ahead_of_time.constants import Constants
from functrax.ahead_of_time.writer import FunctionText
from functrax.backends.executables.memory_plan import ALIGNMENT
from functrax.backends.targets.dialect import FloatEnvironment

#: Kinds of errors, by their numbers, as the header has them.
ERRORS: Final = {
    0: ("OK", "no error"),
    1: ("NULL_ARGUMENT", "an argument is a null pointer"),
    2: ("MISALIGNED_ARGUMENT", "the address of an argument is not a multiple of its alignment"),
    3: ("NULL_RESULT", "the place of a result is a null pointer"),
    4: ("MISALIGNED_RESULT", "the place of a result is not a multiple of its alignment"),
    5: ("NULL_WORKSPACE", "the program needs a workspace and got a null pointer"),
    6: ("MISALIGNED_WORKSPACE", f"the workspace does not begin at a multiple of {ALIGNMENT}"),
    7: ("FIXED_SIZES", "sizes are given, and the program has none that the caller chooses"),
    8: ("NULL_SIZES", "the program needs sizes and got a null pointer"),
    9: ("BROKEN_CONSTRAINT", "a size is not one that the program is for"),
    10: ("TOO_LARGE", "arrays of these sizes have more bytes than memory can have"),
    11: ("NO_CODE", "the program has no code for these sizes"),
}
#: What an error's kind leaves of its code is the number of the argument or of the result.
INDEX_SHIFT: Final = 8

_COPY: Final = """
define internal void @copy(ptr %to, ptr %source, i64 %nbytes) nounwind {
  %same = icmp eq ptr %to, %source
  br i1 %same, label %end, label %copies
copies:
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %source, i64 %nbytes, i1 false)
  br label %end
end:
  ret void
}"""
#: Units that threads share, if the caller has any.  What a thread does is a `task`.
_SHARED: Final = """
define internal void @shared(ptr %threads, ptr %kernel, ptr %buffers, ptr %numbers, i64 %units,
                             i64 %grain, i64 %cost) nounwind {
  %task = alloca [3 x ptr]
  %alone = icmp eq ptr %threads, null
  br i1 %alone, label %one, label %several
one:
  call void %kernel(ptr %buffers, ptr %numbers, i64 0, i64 %units)
  ret void
several:
  store ptr %kernel, ptr %task
  %second = getelementptr ptr, ptr %task, i64 1
  store ptr %buffers, ptr %second
  %third = getelementptr ptr, ptr %task, i64 2
  store ptr %numbers, ptr %third
  %pool = load ptr, ptr %threads
  %place = getelementptr ptr, ptr %threads, i64 1
  %run = load ptr, ptr %place
  call void %run(ptr %pool, ptr @task, ptr %task, i64 %units, i64 %grain, i64 %cost)
  ret void
}
define internal void @task(ptr %task, i64 %begin, i64 %end) nounwind {
  %kernel = load ptr, ptr %task
  %second = getelementptr ptr, ptr %task, i64 1
  %buffers = load ptr, ptr %second
  %third = getelementptr ptr, ptr %task, i64 2
  %numbers = load ptr, ptr %third
  %before = call i64 @enter()
  call void %kernel(ptr %buffers, ptr %numbers, i64 %begin, i64 %end)
  call void @leave(i64 %before)
  ret void
}"""
_NO_MODE: Final = """
define internal i64 @enter() nounwind {
  ret i64 0
}
define internal void @leave(i64 %before) nounwind {
  ret void
}"""
_MODE: Final = """
define internal i64 @wanted(i64 %before) nounwind {{
  {wanted}
  ret i64 %mode
}}
define internal i64 @enter() nounwind {{
  %before = call i64 @float_mode()
  %mode = call i64 @wanted(i64 %before)
  %same = icmp eq i64 %before, %mode
  br i1 %same, label %end, label %changes
changes:
  call void @set_float_mode(i64 %mode)
  br label %end
end:
  ret i64 %before
}}
define internal void @leave(i64 %before) nounwind {{
  %mode = call i64 @wanted(i64 %before)
  %same = icmp eq i64 %before, %mode
  br i1 %same, label %end, label %changes
changes:
  call void @set_float_mode(i64 %before)
  br label %end
end:
  ret void
}}"""


#: The code of the first address that is wrong.  A mask has the bits that an address may not have,
#: and is negative for what has no elements.
CHECK: Final = f"""
define internal i32 @check(ptr %places, ptr %masks, i64 %count, i32 %kind) nounwind {{
start:
  br label %head
head:
  %n = phi i64 [ 0, %start ], [ %next, %good ]
  %more = icmp slt i64 %n, %count
  br i1 %more, label %one, label %end
one:
  %mask.place = getelementptr i64, ptr %masks, i64 %n
  %mask = load i64, ptr %mask.place
  %place = getelementptr ptr, ptr %places, i64 %n
  %address = load ptr, ptr %place
  %empty = icmp slt i64 %mask, 0
  br i1 %empty, label %good, label %some
some:
  %absent = icmp eq ptr %address, null
  br i1 %absent, label %bad, label %there
there:
  %number = ptrtoint ptr %address to i64
  %rest = and i64 %number, %mask
  %fits = icmp eq i64 %rest, 0
  br i1 %fits, label %good, label %bad
good:
  %next = add i64 %n, 1
  br label %head
bad:
  %misaligned = phi i32 [ 0, %some ], [ 1, %there ]
  %wrong = add i32 %kind, %misaligned
  %index = trunc i64 %n to i32
  %shifted = shl i32 %index, {INDEX_SHIFT}
  %code = or i32 %shifted, %wrong
  ret i32 %code
end:
  ret i32 0
}}"""


def helpers(flushes: bool, floats: FloatEnvironment | None) -> list[str]:
    """The functions that drivers call.

    Args:
      flushes: whether threads flush subnormal numbers to zero while they run the program.
      floats: how they are told; None where that is not known, and they never do.
    """
    if floats is None:
        return [_COPY, _SHARED, _NO_MODE]
    some = floats.flushes
    wanted = f"%mode = or i64 %before, {some}" if flushes else f"%mode = and i64 %before, {~some}"
    return [_COPY, _SHARED, floats.functions, _MODE.format(wanted=wanted)]


def entry_functions(
    name: str,
    arguments: Sequence[CArgument],
    results: Sequence[CArgument],
    nbytes: int,
    description: str,
    constants: Constants,
) -> list[str]:
    """The functions that callers see.

    Args:
      name: of the program.
      arguments: what it takes.
      results: what it gives.
      nbytes: of its workspace.
      description: what ``NAME_description`` gives.
      constants: of the module.
    """
    return [
        CHECK,
        _checked_call(name, arguments, results, nbytes, constants),
        _typed_call(name, len(arguments), len(results)),
        f"define i64 @{name}_workspace_bytes() nounwind {{\n  ret i64 {nbytes}\n}}",
        error_text(name, constants),
        f"define ptr @{name}_description() nounwind {{\n"
        f"  ret ptr {constants.text(description)}\n}}",
    ]


def _typed_call(name: str, arguments: int, results: int) -> str:
    """The function with a parameter for each argument and result."""
    counts = {"a": arguments, "r": results}
    names = [f"%{kind}{n}" for kind, count in counts.items() for n in range(count)]
    given = ", ".join([f"ptr {x}" for x in (*names, "%workspace", "%threads")])
    f = FunctionText(f"define i32 @{name}({given}) nounwind")
    for kind, count in counts.items():
        f.reserve(f"%{kind}", f"[{count} x ptr]")
        for n in range(count):
            f.line(f"store ptr %{kind}{n}, ptr {f.offset(f'%{kind}', 8 * n)}")
    rest = "ptr null, ptr %workspace, ptr %threads"
    code = f.value(f"call i32 @{name}_call(ptr %a, ptr %r, {rest})")
    f.line(f"ret i32 {code}")
    return f.text()


def _checked_call(
    name: str,
    arguments: Sequence[CArgument],
    results: Sequence[CArgument],
    nbytes: int,
    constants: Constants,
) -> str:
    """The function that looks at all addresses, and runs the program."""
    f = FunctionText(
        f"define i32 @{name}_call(ptr %arguments, ptr %results, ptr %sizes, ptr %workspace, "
        "ptr %threads) nounwind"
    )
    f.reserve("%memory", "ptr")
    codes = checked_arrays(f, arguments, results, constants)
    codes.append(checked_workspace(f, nbytes, constants))
    chosen = f.value("icmp ne ptr %sizes, null")
    code = first_error(f, [*codes, f.value(f"select i1 {chosen}, i32 7, i32 0")])
    runs, wrong = f.label(), f.label()
    f.branch(f.value(f"icmp eq i32 {code}, 0"), runs, wrong)
    f.begin(wrong)
    f.line(f"ret i32 {code}")
    f.begin(runs)
    before = f.value("call i64 @enter()")
    f.call("@run(ptr %arguments, ptr %results, ptr %workspace, ptr %threads, ptr null)")
    f.call(f"@leave(i64 {before})")
    f.line("ret i32 0")
    return f.text()


def checked_arrays(
    f: FunctionText,
    arguments: Sequence[CArgument],
    results: Sequence[CArgument],
    constants: Constants,
) -> list[str]:
    """The codes of what is wrong with the addresses of arguments and of results."""
    kinds = ("%arguments", 1, arguments), ("%results", 3, results)
    return [
        _checked(f, array, kind, [_mask(x) for x in some], constants) for array, kind, some in kinds
    ]


def checked_workspace(f: FunctionText, nbytes: int, constants: Constants) -> str:
    """The code of what is wrong with the address of a workspace of so many bytes."""
    f.line("store ptr %workspace, ptr %memory")
    return _checked(f, "%memory", 5, [ALIGNMENT - 1 if nbytes else -1], constants)


def _checked(
    f: FunctionText, array: str, kind: int, masks: Sequence[int], constants: Constants
) -> str:
    given = f"ptr {array}, ptr {constants.numbers(masks)}, i64 {len(masks)}, i32 {kind}"
    return f.value(f"call i32 @check({given})")


def _mask(x: CArgument) -> int:
    """The bits that an address may not have; arrays with named sizes have elements."""
    return x.alignment - 1 if x.is_sized or x.nbytes else -1


def first_error(f: FunctionText, codes: Sequence[str]) -> str:
    """The first of some codes that is not 0; 0 if there is none."""
    *before, code = codes
    for first in reversed(before):
        good = f.value(f"icmp eq i32 {first}, 0")
        code = f.value(f"select i1 {good}, i32 {code}, i32 {first}")
    return code


def error_text(name: str, constants: Constants, constraints: Sequence[str] = ()) -> str:
    """The function that explains codes.

    Args:
      name: of the program.
      constants: of the module.
      constraints: what its sizes must satisfy, by the numbers in codes.
    """
    f = FunctionText(f"define ptr @{name}_error_text(i32 %code) nounwind")
    kind = f.value(f"and i32 %code, {(1 << INDEX_SHIFT) - 1}")
    blocks = {number: f.label() for number in ERRORS}
    other = f.label()
    cases = " ".join(f"i32 {number}, label %{block}" for number, block in blocks.items())
    f.line(f"switch i32 {kind}, label %{other} [ {cases} ]")
    for number, block in blocks.items():
        f.begin(block)
        if ERRORS[number][0] == "BROKEN_CONSTRAINT" and constraints:
            _say_which(f, constants, constraints)
        f.line(f"ret ptr {constants.text(ERRORS[number][1])}")
    f.begin(other)
    f.line(f"ret ptr {constants.text('no such error')}")
    return f.text()


def _say_which(f: FunctionText, constants: Constants, constraints: Sequence[str]) -> None:
    """Explain the constraint whose number a code has."""
    index = f.value(f"ashr i32 %code, {INDEX_SHIFT}")
    blocks = [f.label() for _ in constraints]
    rest = f.label()
    cases = " ".join(f"i32 {n}, label %{block}" for n, block in enumerate(blocks))
    f.line(f"switch i32 {index}, label %{rest} [ {cases} ]")
    for block, text in zip(blocks, constraints, strict=True):
        f.begin(block)
        f.line(f"ret ptr {constants.text(f'the sizes do not satisfy {text}')}")
    f.begin(rest)
