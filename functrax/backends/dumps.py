"""Dumps: what a stage of the compiler made, printed or written to files.

``FUNCTRAX_DUMP=passes,llvm`` (the option ``dump``) says which stages; without ``FUNCTRAX_DUMP_DIR``
they go to stderr.  With it each becomes a file whose name begins with a number that counts up, so
that files sort in the order in which they were made.

Start at :func:`dump`.
"""

from __future__ import annotations

import itertools
import os
import re
import sys

from functrax.core.options.config import state as options
from functrax.core.options.option_text import stages

_numbers = itertools.count()


def dumped(stage: str) -> bool:
    """Whether a stage is to be dumped: ask before making the text."""
    return bool(options.dump) and stage in stages(options.dump)


def dump(stage: str, program: str, title: str, text: str) -> None:
    """Print or write a text, if its stage is dumped.

    Args:
      stage: one of ``functrax.core.options.option_text.STAGES``.
      program: the name of the program that it belongs to.
      title: which text of this stage it is: a pass, a kernel.
      text: what the stage made.
    """
    if not dumped(stage):
        return
    if options.dump_dir is None:
        show(f"{program}: {stage}: {title}", text)
        return
    parts = (re.sub(r"\W+", "_", part) for part in (program, stage, title))
    os.makedirs(options.dump_dir, exist_ok=True)
    name = f"{os.getpid()}-{next(_numbers):05d}-{'-'.join(parts)}.txt"
    with open(os.path.join(options.dump_dir, name), "w", encoding="utf-8") as file:
        file.write(text + "\n")


def show(title: str, text: str) -> None:
    """Print a text with a title to stderr, in one write."""
    sys.stderr.write(f"==== {title} ====\n{text}\n")
