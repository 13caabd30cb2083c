"""``sort`` and ``top_k`` as kernels, for threads that work in groups; start at ``lowering``."""
