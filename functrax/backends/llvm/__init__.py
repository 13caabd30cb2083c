"""LLVM: kernels as LLVM IR text and as machine code.

``emit`` writes a kernel, with ``writer`` for lines and names, ``loops``, ``memory``, ``tiles``,
``loads``, ``nodes``, ``stores`` and ``stages``; ``instructions`` writes one operation, whatever the
dtype and the number of lanes.  ``jit`` makes machine code of the text.
"""
