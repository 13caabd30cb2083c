"""How code for the toy is loaded: as that of the machine below it."""

from __future__ import annotations

import sysconfig
from typing import Final

from functrax.backends.targets.aarch64.dialect import DIALECT as AARCH64
from functrax.backends.targets.x86_64.dialect import DIALECT as X86_64

_BELOW: Final = str(sysconfig.get_config_var("HOST_GNU_TYPE"))

DIALECT: Final = AARCH64 if _BELOW.startswith("aarch64") else X86_64
