"""Functions in LLVM IR which kernels call: exact arithmetic, and whole tiles."""
