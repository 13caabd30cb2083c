"""Write docs/jax_compatibility.md: which of JAX's names functrax has.

``jax_names.json``, beside this file, lists the names: entries of a module, a tier and names.  A
name counts as present when its module can be imported under ``functrax`` and has the attribute.
The tiers: 1 is in nearly every program, 2 is what people do use, 3 is given where it comes for
free, and "removed" is what older programs use and JAX itself no longer has.

The last part goes through all public names of JAX (``functrax/compat/jax_names.txt``) as a program
under ``functrax.compat`` finds them; ``jax_names_missing.json`` has the reasons for those that are
missing: pairs of an expression for ``module.name`` and a reason; the first that fits counts.

Usage: python scripts/jax_compatibility.py          # writes the page
       python scripts/jax_compatibility.py --check  # says whether it is up to date
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "jax_compatibility.md"
NAMES = Path(__file__).resolve().with_name("jax_names.json")
REASONS = Path(__file__).resolve().with_name("jax_names_missing.json")
COMMAND = "python scripts/jax_compatibility.py"
TITLES = {"1": "Tier 1", "2": "Tier 2", "3": "Tier 3", "removed": "Removed from JAX"}
STORY = f"""# Which of JAX's names functrax has

Written by `{COMMAND}`; do not edit.

The module `jax.x` is `functrax.x`. Tier 1 is in nearly every program, tier 2 is what people do
use, tier 3 is given where it comes for free; names that JAX removed are aliases for older programs.
"""


class Entry(NamedTuple):
    """The names of one tier of one module, and those of them that functrax lacks."""

    module: str
    tier: str
    names: list[str]
    missing: list[str]

    @property
    def present(self) -> int:
        return len(self.names) - len(self.missing)


def entries() -> Iterator[Entry]:
    """Look every name up."""
    for listed in json.loads(NAMES.read_text(encoding="utf-8")):
        missing = [n for n in listed["names"] if not exists(listed["module"], n)]
        yield Entry(listed["module"], str(listed["tier"]), listed["names"], missing)


def exists(module: str, name: str) -> bool:
    """Whether functrax has ``module``'s ``name``, which may itself be dotted."""
    parts = ["functrax", *module.split(".")[1:], *name.split(".")]
    found: Any = importlib.import_module(parts[0])
    if module == "jax.Array":  # what arrays have, not only what all kinds of them have in common
        return hasattr(type(found.numpy.zeros(())), name)
    path = parts[0]
    for part in parts[1:]:
        path += "." + part
        if not hasattr(found, part) and not imported(path):
            return False
        if hasattr(found, part):
            found = getattr(found, part)
        else:
            found = sys.modules[path]
    return True


def imported(path: str) -> bool:
    """Import a module of functrax that may not exist; an error inside it is not hidden."""
    try:
        importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name is None or not path.startswith(error.name):
            raise
        return False
    return True


def page() -> str:
    """The text that docs/jax_compatibility.md should have."""
    found = list(entries())
    return "\n".join([STORY, *summary(found), "", *details(found), *everything()])


def summary(found: list[Entry]) -> Iterator[str]:
    """A row for each module, a column for each tier."""
    yield "| module | " + " | ".join(TITLES.values()) + " |"
    yield "|---" * (len(TITLES) + 1) + "|"
    for module in dict.fromkeys(e.module for e in found):
        yield row(f"`{module}`", (e for e in found if e.module == module))
    yield row("**all**", found)


def row(title: str, found: Iterable[Entry]) -> str:
    """One row of the summary: ``present / listed`` in each tier."""
    chosen = list(found)
    cells = []
    for tier in TITLES:
        here = [e for e in chosen if e.tier == tier]
        listed = sum(len(e.names) for e in here)
        cells.append(f"{sum(e.present for e in here)} / {listed}" if listed else "")
    return f"| {title} | " + " | ".join(cells) + " |"


def details(found: list[Entry]) -> Iterator[str]:
    """For every entry the names that functrax has, and those that it lacks."""
    for entry in found:
        yield f"## `{entry.module}`, {TITLES[entry.tier].lower()}\n"
        for heading, lacking in (("functrax has", False), ("functrax lacks", True)):
            names = [n for n in entry.names if (n in entry.missing) is lacking]
            if names:
                yield f"{heading}: {', '.join(f'`{n}`' for n in names)}.\n"


#: Run in a process of its own, for installing compat is for good.
LOOK = """
import importlib, json
import functrax.compat
from functrax.compat.missing import Missing
from functrax.compat.names import public_names
functrax.compat.install()

def has(module, name):
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, NotImplementedError):
        return False
    return type(found) is not Missing

found = {m: [sorted(n), [x for x in sorted(n) if not has(m, x)]] for m, n in public_names().items()}
print(json.dumps(found))
"""


def everything() -> Iterator[str]:
    """All public names of JAX under compat: counts by module, and by reason what is missing."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    looked = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOOK],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, tuple[list[str], list[str]]] = json.loads(looked.stdout)
    listed = sum(len(names) for names, _ in found.values())
    lacking = sum(len(missing) for _, missing in found.values())
    yield "## All public names of JAX 0.10.2\n"
    yield (
        "What `dir` shows of every public module of JAX, accidents of its imports included, and "
        f"what a program under `functrax.compat` finds: {listed - lacking} of {listed}. A name "
        "that is missing can be imported, and raises when it is used "
        "([Programs and libraries written for JAX](compat.md)).\n"
    )
    reasons = [(re.compile(pattern), why) for pattern, why in json.loads(REASONS.read_text())]
    by_reason: dict[str, dict[str, list[str]]] = {why: {} for _, why in reasons}
    for module, (_, missing) in found.items():
        for name in missing:
            why = next(why for pattern, why in reasons if pattern.fullmatch(f"{module}.{name}"))
            by_reason[why].setdefault(module, []).append(name)
    for why, modules in by_reason.items():
        if not modules:
            continue
        yield f"**{why[0].upper()}{why[1:]}:**\n"
        for module, names in modules.items():
            yield f"- `{module}`: {', '.join(f'`{n}`' for n in names)}"
        yield ""
    yield "| module | names | missing |\n|---|---|---|"
    for module, (names, missing) in found.items():
        yield f"| `{module}` | {len(names)} | {len(missing) or ''} |"
    yield ""


def main(arguments: list[str]) -> int:
    """Write the page, or compare it; the result is the exit status."""
    text = page()
    if "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE.relative_to(ROOT)} is stale; refresh it with: {COMMAND}")
    return 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
