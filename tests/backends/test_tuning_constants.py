"""How many numbers tune the compiler outside of targets.

A *tuning constant* is a number with a name of capitals at the top of a module, alone or in a tuple
of numbers, that decides between two correct ways: how large something may be, from where on
something pays, how often something is tried.  What is not one: a number that a file format, an
instruction, a dtype or arithmetic fixes, so that another one would be wrong.  Those are named in
``FIXED``.  What a machine costs stands in its ``Target``, which is not counted, nor is the
simulator of GPUs, which compiles nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

BACKENDS = Path(__file__).parents[2] / "functrax/backends"
#: The design asks for fewer than 80.  This is what there are; it may only become less.
MOST = 73
#: Whole modules, and names in modules, whose numbers are no choices.
FIXED = {
    "cache/program_key.py": {"FORM"},
    "compilation/autotune.py": {"_BYTE", "_ROOM"},
    "cuda/driver.py": None,
    "cuda/graph_work.py": {"_CONDITIONS", "_CONDITION_BYTES"},
    "cuda/libraries/matrices.py": {"_INT_BYTES"},
    "cuda/libraries/simulated.py": None,
    "cuda/libraries/simulated_matrices.py": None,
    "cuda/libraries/table.py": None,
    "disk_cache.py": {"BLOCK", "FORM", "KEY_BYTES", "_SUM_BYTES"},
    "executables/memory_plan.py": {"ALIGNMENT"},
    "gemm/complex_parts.py": {"_PARTS"},
    "gemm/packed_blocks.py": {"PART"},  # what users are promised of memory
    "kernels/indices.py": {"LIMIT"},
    "kernels/math/trigonometric.py": None,
    "libraries/fourier_tables.py": {"GROUP"},
    "libraries/linear_algebra_calls.py": {"_READS", "_WRITES"},
    "libraries/ordering_calls.py": {"_LANES"},
    "libraries/site.py": {"STRIP_BYTES"},
    "machine_code/joined_modules.py": None,
    "machine_code/object_files.py": None,
    "machine_code/object_loader.py": None,
    "llvm/instructions.py": {"_MOST_POWER"},
    "llvm/templates.py": {"_MOST_OF_I32"},
    "llvm/short_strides.py": {"_SIZES"},
    "llvm/functions/tile_sums.py": {"_ROWS_OF_POINTER"},
    "llvm/tile_rows.py": {"_LARGEST"},
    "loops/interpret.py": {"_NOTHING"},
    "loops/shared_memory.py": None,
    "loops/strategies/transposes.py": {"LARGEST"},
    "loops/tree_verifier.py": {"_ANY"},
    "passes/clean/device_forms.py": {"MOST_AXES"},
    "passes/fusion/kernel_graph.py": {"_APART"},
    "ptx/code.py": {"_DIGITS"},
    "runtime/pool.py": {"ALIGNMENT", "_ANY"},
    "sharding/drawing.py": {"_HEIGHT_TO_WIDTH"},
}


def is_number(node: ast.expr) -> bool:
    """Whether an expression is a number, written out."""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    return isinstance(node, ast.Tuple) and bool(node.elts) and all(map(is_number, node.elts))


def numbers(path: Path) -> Iterator[str]:
    """The names of the numbers at the top of a module."""
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign):
            (name, *_), value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            name, value = statement.target, statement.value
        else:
            continue
        pairs = [(name, value)]
        if isinstance(name, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(name.elts, value.elts, strict=True))
        for x, number in pairs:
            if isinstance(x, ast.Name) and x.id.strip("_").isupper() and is_number(number):
                yield x.id


def tuning_constants() -> list[str]:
    """``module NAME`` of each."""
    found = []
    for path in sorted(BACKENDS.rglob("*.py")):
        module = path.relative_to(BACKENDS).as_posix()
        fixed = FIXED.get(module, set())
        if fixed is not None and not module.startswith(("targets/", "cuda/simulator/")):
            found += [f"{module} {name}" for name in numbers(path) if name not in fixed]
    return found


def test_there_are_no_more_tuning_constants() -> None:
    found = tuning_constants()
    assert len(found) <= MOST, "\n".join(found)


def test_what_is_no_choice_is_there() -> None:
    for module, fixed in FIXED.items():
        names = set(numbers(BACKENDS / module))
        assert names and names >= (fixed or set()), module
