"""The instructions of PTX, a file per family; importing ``families`` declares them all.

The meaning of each stands once, beside the section of NVIDIA's manual ("Parallel Thread Execution
ISA", version 8.8) that defines it.
"""
