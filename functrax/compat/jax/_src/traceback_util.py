"""``jax._src.traceback_util``: which frames tracebacks leave out.

functrax leaves out its own; libraries may name files of theirs, whose frames stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_exclude_paths: list[str] = []


def register_exclusion(path: str) -> None:
    """Name a file of a library."""
    _exclude_paths.append(path)


def include_frame(frame: Any) -> bool:
    """Whether tracebacks show a frame."""
    return frame.f_code.co_filename not in _exclude_paths


def api_boundary(fun: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The function as it is: what functrax gives has boundaries of its own."""
    return fun
