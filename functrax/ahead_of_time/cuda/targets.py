"""GPUs that code is made for, by name.

Start at :func:`gpu_named`.
"""

from __future__ import annotations

import re

from functrax.backends.targets import Target
from functrax.backends.targets.nvptx import CAPABILITIES, target_of
from functrax.core.errors.typed import ArgumentError
from functrax.core.options.config import state as options


def is_gpu(name: str | None) -> bool:
    """Whether the name of a target is that of a family of GPUs."""
    return name is not None and name.startswith("sm_")


def gpu_named(name: str) -> Target:
    """The target of a family of GPUs, as NVIDIA names it: ``sm_80``.

    Raises:
      ArgumentError: no code is made for it.
    """
    found = re.fullmatch(r"sm_(\d{2,3})", name)
    if found is None or int(found[1]) not in CAPABILITIES:
        raise ArgumentError(
            "target: code is not made ahead of time for these GPUs",
            got=repr(name),
            fix=f"the newest that is not newer, of {', '.join(f'sm_{x}' for x in CAPABILITIES)}",
        )
    return target_of(int(found[1]), options.strict)
