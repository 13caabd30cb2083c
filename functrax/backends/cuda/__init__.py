"""NVIDIA's GPUs: their drivers, arrays in their memory, and what runs programs there.

Nothing here is imported before the option ``backend`` is ``"cuda"``.

Start at :mod:`functrax.backends.cuda.device`.
"""
