"""Compilations that are used again: for other sizes, and in other processes."""

from typing import Final

#: The third program that differs from others in sizes alone is compiled for all sizes.
MEMBERS: Final = 3
