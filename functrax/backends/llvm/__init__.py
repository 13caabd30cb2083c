"""LLVM IR: kernels as text.

``emit`` writes a kernel, with ``writer`` for lines and names, ``addresses``, ``tile_rows``,
``loads``, ``nodes``, ``lane_reductions``, ``stores`` and ``statements``; ``instructions`` writes
one operation, whatever the dtype and the number of lanes.  ``machine_code/`` compiles the text.
"""
