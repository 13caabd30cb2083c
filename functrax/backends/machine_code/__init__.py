"""Machine code: LLVM IR compiled, and loaded without a linker.

``kernel_jit`` looks for a kernel's code in memory and on disk before it asks LLVM, by way of
``code_generator`` and ``llvm_bindings``.  ``compile_workers`` are the threads that compile,
``joined_modules`` several kernels at once; ``object_loader`` loads what comes out.
"""
