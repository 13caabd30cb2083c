"""How Sphinx makes the site of the pages in this folder: ``bash scripts/build_docs.sh``.

The pages of the reference are written when a build begins: one for each public namespace, with all
of its functions and classes as their docstrings describe them.
"""

from __future__ import annotations

import importlib
import inspect
import os
from pathlib import Path
from typing import Any

import functrax

project = "functrax"
author = project_copyright = "The functrax authors"
version = release = functrax.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["site"]
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
autodoc_typehints = "none"  # they stand in the signature
autodoc_member_order = "bysource"
napoleon_google_docstring, napoleon_numpy_docstring = True, False
copybutton_prompt_text = ">>> "
copybutton_exclude = ".linenos, .gp, .go"
html_theme = "furo"
html_title = "functrax"
html_copy_source = False
html_static_path, html_css_files = ["_static"], ["site.css"]
html_theme_options = {"navigation_with_keys": True}

#: The namespaces of the reference, and what stands at the top of their pages.
NAMESPACES = {
    "functrax": "Transformations and what belongs to all programs.",
    "functrax.numpy": "NumPy's functions of arrays.",
    "functrax.numpy.linalg": "Linear algebra.",
    "functrax.numpy.fft": "Fourier transforms.",
    "functrax.lax": "Below `numpy`: exact types, explicit shapes; loops and branches.",
    "functrax.lax.linalg": "Factorisations, as LAPACK has them.",
    "functrax.nn": "Activations, losses and initializers.",
    "functrax.nn.initializers": "How weights begin.",
    "functrax.random": "Random numbers from keys.",
    "functrax.scipy.linalg": "SciPy's linear algebra.",
    "functrax.scipy.special": "Special functions.",
    "functrax.scipy.stats": "Statistics of samples; a module for each distribution.",
    "functrax.scipy.fft": "Cosine transforms.",
    "functrax.scipy.signal": "Convolutions and spectra.",
    "functrax.scipy.ndimage": "Images at fractional positions.",
    "functrax.scipy.interpolate": "Between the points of a grid.",
    "functrax.scipy.integrate": "Integrals of samples.",
    "functrax.scipy.optimize": "Minima of functions.",
    "functrax.scipy.sparse.linalg": "Linear systems that are given as functions.",
    "functrax.scipy.cluster.vq": "Nearest codes.",
    "functrax.image": "Images of other sizes.",
    "functrax.ops": "Sums and other reductions over segments.",
    "functrax.tree": "Functions of pytrees.",
    "functrax.tree_util": "Functions of pytrees, and registering containers.",
    "functrax.export": "Programs in files.",
    "functrax.errors": "The errors that functrax raises.",
    "functrax.debug": "Looking at values inside of programs.",
    "functrax.profiler": "Where the time goes.",
    "functrax.stages": "What `jit` makes on the way: traced, lowered, compiled.",
    "functrax.sharding": "Which device holds which part of an array.",
    "functrax.dtypes": "Types of elements.",
    "functrax.flatten_util": "A pytree as one vector.",
    "functrax.custom_derivatives": "Derivatives of your own.",
    "functrax.custom_batching": "Rules of your own for `vmap`.",
    "functrax.ffi": "Calls of compiled code of your own.",
    "functrax.interop": "Other libraries' arrays.",
    "functrax.monitoring": "Events for tools that watch.",
    "functrax.distributed": "Several processes.",
    "functrax.test_util": "Checks of derivatives.",
    "functrax.notebook": "Notebooks and terminals.",
    "functrax.compat": "Programs and libraries written for JAX.",
    "functrax.experimental.checkify": "Errors of programs as values.",
    "functrax.extend": "For primitives, transformations and interpreters of your own.",
}
HERE = Path(__file__).parent


def public(namespace: str, seen: dict[int, str]) -> dict[str, Any]:
    """What a namespace has by name: functions and classes, or where they are described.

    Args:
      namespace: its name.
      seen: where each object is described, by its identity.
    """
    module = importlib.import_module(namespace)
    found: dict[str, Any] = {}
    for name in sorted(dir(module), key=str.lower):
        value = getattr(module, name)
        if name.startswith("_") or inspect.ismodule(value) or not callable(value):
            continue
        own = getattr(value, "__module__", "") or ""
        if not own.startswith("functrax") or not getattr(value, "__doc__", None):
            continue
        is_error = isinstance(value, type) and issubclass(value, Exception)
        if is_error and namespace != "functrax.errors":
            continue
        found[name] = seen.get(id(value), value)
        seen.setdefault(id(value), f"{namespace}.{name}")
    return found


def distributions() -> list[str]:
    """What the modules of distributions say, and the functions of each."""
    from functrax.scipy import stats

    lines = []
    for name in filter(lambda n: inspect.ismodule(getattr(stats, n)), dir(stats)):
        module = getattr(stats, name)
        members = {n: getattr(module, n) for n in dir(module) if not n.startswith("_")}
        calls = [
            f"- `{name}.{n}{inspect.signature(f)}`: {inspect.getdoc(f)}" for n, f in members.items()
        ]
        page = f"```{{eval-rst}}\n.. automodule:: {module.__name__}\n```"
        lines += [f"## {name}", "", page, "", *calls, ""]
    return lines


def write_reference(_: Any) -> None:
    """Write a page for each namespace; unchanged ones keep their time."""
    folder = HERE / "reference"
    folder.mkdir(exist_ok=True)
    seen: dict[int, str] = {}
    for namespace, about in NAMESPACES.items():
        module = f"```{{eval-rst}}\n.. currentmodule:: {namespace}\n```"
        lines = [f"# {namespace}", "", about, "", module, ""]
        for name, value in public(namespace, seen).items():
            kind, more = ("class", "\n   :members:") if inspect.isclass(value) else ("function", "")
            text = f"```{{eval-rst}}\n.. auto{kind}:: {name}{more}\n```"
            if isinstance(value, str):
                text = f"The same as `{value}`."
            lines += [f"## {name}", "", text, ""]
        if namespace == "functrax.scipy.stats":
            lines += distributions()
        _write(folder / f"{namespace}.md", "\n".join(lines))
    names = "\n".join(NAMESPACES)
    _write(folder / "index.md", f"# Reference\n\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n")
    decisions = sorted((HERE / "decisions").glob("[0-9]*.md"))
    names = "\n".join(path.stem for path in decisions)
    about = "What was decided, why, how it was measured, and what was weighed against it."
    _write(
        HERE / "decisions" / "index.md", f"# Decisions\n\n{about}\n\n```{{toctree}}\n{names}\n```\n"
    )


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def link_sources(app: Any, doctree: Any, name: str) -> None:
    """Let links to files outside of this folder lead to the repository, if its address is known."""
    from docutils import nodes

    base = os.environ.get("FUNCTRAX_REPOSITORY", "")
    for node in list(doctree.findall(nodes.reference)):
        target = node.get("refuri", "")
        if target.startswith("../") and not node.get("internal"):
            if base:
                node["refuri"] = f"{base}/blob/main/{target.lstrip('./')}"
            else:
                node.replace_self(node.children)


def setup(app: Any) -> None:
    """Connect the above."""
    app.connect("builder-inited", write_reference)
    app.connect("doctree-resolved", link_sources)
