"""House rules of the compiler that are read off its sources.

A pass or a kernel asks for the class of a primitive, for a fact of the class, or for one primitive
itself.  It compares no names and keeps no lists of them: such a list is silently wrong when a
primitive is added.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import functrax
from functrax.core.scalars.scalar import MATH
from functrax.core.tracing.primitive import Elementwise, registry

BACKENDS = Path(functrax.__file__).parent / "backends"
#: Not the simulator, whose names are PTX's instructions.
SOURCES = sorted(
    path for path in BACKENDS.rglob("*.py") if BACKENDS / "cuda/simulator" not in path.parents
)

#: Files with tables by names that primitives have as well, and what these names are.
SCALAR_OPERATIONS = {
    "kernels/evaluate.py": "scalar operations, which NumPy evaluates",
    "kernels/math/double.py": "functions, by their coefficients",
    "kernels/math/single.py": "functions, by their coefficients",
    "kernels/operations.py": "scalar operations, which are counted",
    "llvm/instructions.py": "scalar operations, which become instructions",
    "loops/atomic_updates.py": "reductions, which become instructions",
    "loops/grammar.py": "words of the text of loops",
    "loops/tree_verifier.py": "scalar operations of the tree of loops",
}


def _asks_for_a_name(node: ast.expr) -> bool:
    """Whether an expression is ``….primitive.name``, ``primitive.name`` or ``….family``."""
    if not isinstance(node, ast.Attribute):
        return False
    of = ast.unparse(node.value)
    return node.attr == "family" or (node.attr == "name" and of.endswith("primitive"))


def _comparisons(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            if any(map(_asks_for_a_name, (node.left, *node.comparators))):
                yield node
        elif isinstance(node, ast.Subscript) and _asks_for_a_name(node.slice):
            yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "get" and node.args and _asks_for_a_name(node.args[0]):
                yield node


def _lists(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            words = [k for k in node.keys if k is not None]
        elif isinstance(node, (ast.Set, ast.Tuple, ast.List)):
            words = node.elts
        else:
            continue
        found = [w.value for w in words if isinstance(w, ast.Constant) and type(w.value) is str]
        if len(found) > 1 and len(found) == len(words) and all(w in registry for w in found):
            yield node


@pytest.mark.parametrize("look", [_comparisons, _lists])
def test_no_names_of_primitives_in_the_compiler(look):
    wrong = [
        f"{path.relative_to(BACKENDS)}:{node.lineno}: {ast.unparse(node)[:80]}"
        for path in SOURCES
        if str(path.relative_to(BACKENDS)) not in SCALAR_OPERATIONS
        for node in look(ast.parse(path.read_text()))
    ]
    assert not wrong, "ask for a class or a fact of a class\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    "text",
    [
        'eqn.primitive.name == "add"',
        "x.primitive.family in FAMILIES",
        "RULES.get(primitive.name)",
        "RULES[eqn.primitive.name]",
    ],
)
def test_the_rule_sees_names(text):
    assert list(_comparisons(ast.parse(text)))


def test_the_rule_sees_lists():
    assert list(_lists(ast.parse('frozenset({"add", "mul"})')))


def test_functions_are_those_that_targets_expand():
    own = [registry[name] for name in registry]
    elementwise = [p for p in own if isinstance(p, Elementwise)]
    assert {p.name for p in elementwise if p.is_function} == {
        p.name for p in elementwise if p.name in MATH
    }


#: Lists of public names.
LONG = {"numpy/__init__.py"}
#: Folders of public names, of primitives, and of the extension.
WIDE = {"numpy", "lax", "scipy/stats", "core/prims", "backends/native"}


def test_files_and_folders_are_small() -> None:
    package = BACKENDS.parent
    files = [p for p in package.rglob("*") if p.suffix in (".py", ".cpp", ".h")]
    lines = {str(p.relative_to(package)): len(p.read_text().splitlines()) for p in files}
    assert {name for name, n in lines.items() if n > 500} <= LONG
    folders = Counter([str(p.parent.relative_to(package)) for p in files])
    assert {name for name, n in folders.items() if n > 20} <= WIDE
