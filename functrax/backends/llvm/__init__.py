"""LLVM: kernels as LLVM IR text and as machine code.

``instructions`` writes one operation, whatever the dtype and the number of lanes.
"""
