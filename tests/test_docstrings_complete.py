"""Each public function says what it takes, gives and raises, and shows an example.

``python -m tests.test_docstrings_complete`` prints how many there are, and what is missing where.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest

SECTIONS = ("Args", "Returns", "Raises", "Example")

NAMESPACES = (
    "functrax",
    "functrax.ad_checkpoint",
    "functrax.custom_batching",
    "functrax.custom_derivatives",
    "functrax.debug",
    "functrax.distributed",
    "functrax.dlpack",
    "functrax.dtypes",
    "functrax.experimental.checkify",
    "functrax.experimental.jet",
    "functrax.experimental.ode",
    "functrax.export",
    "functrax.flatten_util",
    "functrax.image",
    "functrax.interop",
    "functrax.lax",
    "functrax.lax.linalg",
    "functrax.nn",
    "functrax.nn.initializers",
    "functrax.numpy",
    "functrax.numpy.fft",
    "functrax.numpy.linalg",
    "functrax.ops",
    "functrax.profiler",
    "functrax.random",
    "functrax.ref",
    "functrax.scipy.cluster.vq",
    "functrax.scipy.fft",
    "functrax.scipy.integrate",
    "functrax.scipy.linalg",
    "functrax.scipy.ndimage",
    "functrax.scipy.optimize",
    "functrax.scipy.signal",
    "functrax.scipy.sparse.linalg",
    "functrax.scipy.special",
    "functrax.scipy.stats",
    "functrax.sharding",
    "functrax.test_util",
    "functrax.tree",
    "functrax.tree_util",
)

#: What raises no error of its own.
RAISE_NOTHING = {
    "functrax": {
        "allow_f16_reductions",
        "array_garbage_collection_guard",
        "auto_pcast",
        "checking_leaks",
        "clear_caches",
        "copy_to_host_async",
        "custom_gradient",
        "debug_key_reuse",
        "ensure_compile_time_eval",
        "fork",
        "host_count",
        "host_id",
        "host_ids",
        "jax2tf_associative_scan_reductions",
        "live_arrays",
        "make_user_context",
        "pending_program",
        "print_environment_info",
        "process_count",
        "process_index",
        "remove_size_one_mesh_axis_from_type",
        "schemas",
        "softmax_custom_jvp",
        "thread_guard",
    },
    "functrax.custom_derivatives": {"custom_gradient"},
    "functrax.distributed": {"is_initialized", "shutdown"},
    "functrax.export": {"is_symbolic_dim"},
    "functrax.lax": {"create_token", "dce_sink"},
    "functrax.numpy": {"get_printoptions", "isscalar", "iterable"},
    "functrax.profiler": {"StepTraceAnnotation", "annotate_function"},
    "functrax.sharding": {"get_abstract_mesh", "make_single_device_sharding"},
    "functrax.tree_util": {"keystr", "treedef_children", "treedef_is_leaf", "treedef_tuple"},
}


def functions(namespace: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions of a namespace; in ``stats``, those of the distributions as well."""
    module = importlib.import_module(namespace)
    listed: list[str] | None = getattr(module, "__all__", None)
    for name in listed or [x for x in dir(module) if not x.startswith("_")]:
        value = getattr(module, name)
        if isinstance(value, ModuleType) and namespace == "functrax.scipy.stats":
            yield from ((f"{name}.{inner}", f) for inner, f in functions(value.__name__))
        elif isinstance(_plain(value), FunctionType):
            yield name, value


def _plain(x: Any) -> Any:
    """The function of Python that something wraps; other things as they are."""
    return inspect.unwrap(x) if callable(x) and not isinstance(x, type) else x


def lacking(namespace: str, name: str, function: Callable[..., Any]) -> set[str]:
    """The sections that the documentation of a function lacks."""
    text = inspect.getdoc(function) or ""
    found = {s for s in SECTIONS[:3] if re.search(rf"^\s*{s}:$", text, re.MULTILINE)}
    signature = inspect.signature(function)
    if not signature.parameters:
        found.add("Args")
    if signature.return_annotation in (None, "None"):
        found.add("Returns")
    if name in RAISE_NOTHING.get(namespace, ()):
        found.add("Raises")
    if ">>> " in text:
        found.add("Example")
    return set(SECTIONS) - found


def missing(namespace: str) -> dict[str, list[str]]:
    """For each function that lacks a section those that it lacks."""
    found = {name: lacking(namespace, name, f) for name, f in functions(namespace)}
    return {name: sorted(sections) for name, sections in found.items() if sections}


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_no_function_lacks_a_section(namespace: str) -> None:
    assert missing(namespace) == {}


def test_every_namespace_has_functions() -> None:
    assert all(any(functions(namespace)) for namespace in NAMESPACES)
    assert sum(1 for _ in functions("functrax.numpy")) > 300
    assert sum(1 for _ in functions("functrax.scipy.stats")) > 100


def test_what_raises_nothing_exists() -> None:
    for namespace, names in RAISE_NOTHING.items():
        assert names <= {name for name, _ in functions(namespace)}


def test_what_is_lacking_is_found() -> None:
    def plain(x: int) -> int:
        """One sentence."""
        return x

    def silent() -> None:
        """One sentence.

        Raises:
          ValueError: never.

        >>> silent()
        """

    assert lacking("", "plain", plain) == set(SECTIONS)
    assert lacking("", "silent", silent) == set()


def main() -> None:
    """Print how many functions there are, and which lack a section."""
    for namespace in NAMESPACES:
        print(f"{namespace}: {sum(1 for _ in functions(namespace))} functions")
        for name, sections in missing(namespace).items():
            print(f"  {name}: {', '.join(sections)}")


if __name__ == "__main__":
    main()
