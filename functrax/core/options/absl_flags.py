"""Options from the command line, by absl's flags: ``program.py --jax_enable_x64``.

absl is what programs written for JAX read their command line with; it is imported when they ask.
"""

from __future__ import annotations

import functools
import itertools
import sys
from typing import Any

from functrax.core.options.table import OPTIONS, Option


def flag_name(option: Option) -> str:
    """The name of an option's flag: JAX's, with ``jax`` in front."""
    return option.name if option.name.startswith("jax") else f"jax_{option.name}"


@functools.cache  # absl refuses a flag that is defined twice
def define_flags(config: Any) -> None:
    """Define a flag for each option; what is given is set when ``absl.app`` runs the program.

    Args:
      config: the :class:`~functrax.core.options.config.Config`.

    Raises:
      ModuleNotFoundError: without absl.
    """
    from absl import app, flags

    for option in OPTIONS.values():
        value, name = getattr(config, option.name), flag_name(option)
        if option.kind == "switch" or isinstance(option.default, bool):
            flags.DEFINE_bool(name, value, option.doc)
        elif option.kind == "integer":
            flags.DEFINE_integer(name, value, option.doc)
        elif option.kind == "choice":
            flags.DEFINE_enum(name, value, option.choices, option.doc)
        else:
            flags.DEFINE_string(name, None if value is None else str(value), option.doc)
    app.call_after_init(lambda: set_from_flags(config))


def set_from_flags(config: Any) -> None:
    """Set the options whose flags were given."""
    from absl import flags

    for option in OPTIONS.values():
        flag = flags.FLAGS[flag_name(option)]
        if flag.present:
            config.update(option.name, flag.value)


def parse_command_line(config: Any) -> None:
    """Set options from those arguments of the command line that start with ``--jax``."""
    from absl import flags

    define_flags(config)
    before = itertools.takewhile(lambda argument: argument != "--", sys.argv)
    flags.FLAGS(["", *(a for a in before if a.startswith("--jax"))], known_only=True)
    set_from_flags(config)
