"""Options from JAX's environment variables, such as ``JAX_ENABLE_X64``.

Only programs under compat read them; functrax's own variables win over them.
"""

from __future__ import annotations

from collections.abc import Mapping

from functrax.core.options.config import config
from functrax.core.options.jax_options import ALIASES, is_foreign
from functrax.core.options.table import OPTIONS


def set_options(environment: Mapping[str, str]) -> None:
    """Set the options that JAX's variables name.

    Raises:
      ArgumentError: if the text of a variable is no value of its option.
    """
    names = {name: name for name in OPTIONS if not is_foreign(name)} | ALIASES
    for jax_name, name in names.items():
        text = environment.get(f"JAX_{jax_name.upper()}")
        option = OPTIONS[name]
        if text is not None and option.variable not in environment:
            config.update(name, option.read(text))
