"""Resizing and shifting images of any rank."""

from functrax.core.lazy import listing as _listing
from functrax.image.resizing import (
    ResizeMethod as ResizeMethod,
    resize as resize,
    scale_and_translate as scale_and_translate,
)

__dir__ = _listing(globals())
