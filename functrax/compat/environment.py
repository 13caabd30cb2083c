"""Options from JAX's environment variables, such as ``JAX_ENABLE_X64``.

Only programs under compat read them; functrax's own variables win over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from functrax.core.options.config import config
from functrax.core.options.jax_options import ALIASES, is_foreign
from functrax.core.options.table import OPTIONS

_BACKEND: Final = OPTIONS["backend"].variable


def set_options(environment: Mapping[str, str]) -> None:
    """Set the options that JAX's variables name.

    Raises:
      ArgumentError: if the text of a variable is no value of its option.
    """
    names = {name: name for name in OPTIONS if not is_foreign(name)} | ALIASES
    for jax_name, name in names.items():
        text = environment.get(f"JAX_{jax_name.upper()}")
        option = OPTIONS[name]
        own = option.variable in environment or (option.sets_backend and _BACKEND in environment)
        if text is not None and not own:
            # Of platforms joined by commas the first is the one that programs run on.
            config.update(name, option.read(text.split(",")[0] if option.sets_backend else text))
