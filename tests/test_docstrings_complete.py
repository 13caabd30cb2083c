"""Each public function says what it takes, gives and raises, and shows an example.

``MISSING`` holds how many functions of a namespace lack a section; the numbers only go down.
``python -m tests.test_docstrings_complete`` prints them, and what is missing where.
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

#: Of each namespace how many functions lack Args, Returns, Raises, and an example.
MISSING = {
    "functrax": (0, 0, 0, 8),
    "functrax.lax": (0, 0, 0, 0),
    "functrax.lax.linalg": (0, 0, 0, 0),
    "functrax.nn": (0, 0, 0, 0),
    "functrax.nn.initializers": (0, 0, 0, 0),
    "functrax.numpy": (0, 0, 0, 0),
    "functrax.numpy.fft": (0, 0, 0, 0),
    "functrax.numpy.linalg": (0, 0, 0, 0),
    "functrax.random": (0, 0, 0, 0),
    "functrax.scipy.cluster.vq": (0, 0, 0, 0),
    "functrax.scipy.fft": (3, 3, 3, 3),
    "functrax.scipy.linalg": (11, 29, 16, 28),
    "functrax.scipy.ndimage": (0, 0, 0, 0),
    "functrax.scipy.optimize": (0, 1, 0, 0),
    "functrax.scipy.signal": (3, 7, 7, 1),
    "functrax.scipy.sparse.linalg": (1, 2, 2, 0),
    "functrax.scipy.special": (32, 35, 38, 32),
    "functrax.scipy.stats": (109, 119, 117, 114),
}

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
    "functrax.lax": {"create_token", "dce_sink"},
    "functrax.numpy": {"get_printoptions", "isscalar", "iterable"},
}


def functions(namespace: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions of a namespace; in ``stats``, those of the distributions as well.

    Without ``__all__``, functions that a module imports for itself are others'.
    """
    module = importlib.import_module(namespace)
    listed = getattr(module, "__all__", None)
    for name in listed or (x for x in dir(module) if not x.startswith("_")):
        value = getattr(module, name)
        if isinstance(value, ModuleType) and namespace == "functrax.scipy.stats":
            if value.__name__ == f"{namespace}.{name}":
                yield from ((f"{name}.{inner}", f) for inner, f in functions(value.__name__))
        elif isinstance(_plain(value), FunctionType):
            if listed or f"{value.__module__}.".startswith(f"{namespace}."):
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
    """For each section the functions that lack it."""
    without: dict[str, list[str]] = {section: [] for section in SECTIONS}
    for name, function in functions(namespace):
        for section in lacking(namespace, name, function):
            without[section].append(name)
    return without


@pytest.mark.parametrize("namespace", MISSING)
def test_no_more_functions_lack_a_section(namespace: str) -> None:
    without = missing(namespace)
    for section, most in zip(SECTIONS, MISSING[namespace], strict=True):
        names = without[section]
        assert len(names) <= most, f"{len(names)} functions lack {section}: {', '.join(names)}"


def test_every_namespace_has_functions() -> None:
    assert all(any(functions(namespace)) for namespace in MISSING)
    assert sum(1 for _ in functions("functrax.numpy")) > 300


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
    """Print how many functions there are, how many lack each section, and which."""
    for namespace in MISSING:
        without = missing(namespace)
        counts = tuple(len(without[section]) for section in SECTIONS)
        print(f"{namespace}: {sum(1 for _ in functions(namespace))} functions, {counts}")
        for section, names in without.items():
            print(f"  {section}: {' '.join(names)}")


if __name__ == "__main__":
    main()
