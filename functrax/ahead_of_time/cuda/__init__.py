"""Programs for GPUs without Python: C source that has a program's PTX and drives it.

Start at :func:`functrax.ahead_of_time.cuda.module.cuda_module`.
"""
