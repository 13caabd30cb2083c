"""Programs without Python: a function compiled to an object file with functions of C.

:func:`aot` traces a function and compiles it for a target; what it gives writes ``name.o`` or a
library, with a header, a wrapper for C++, and files for CMake.

Start at :func:`aot`.
"""

from __future__ import annotations

from functrax.ahead_of_time.program import AheadOfTime as AheadOfTime, aot as aot
