"""LLVM: kernels as LLVM IR text and as machine code.

``emit`` writes a kernel, with ``writer`` for lines and names, ``memory``, ``tiles``, ``loads``,
``nodes``, ``lanes``, ``stores`` and ``statements``; ``instructions`` writes one operation, whatever
the dtype and the number of lanes.  ``jit`` makes machine code of the text.
"""
