"""GEMM: contractions as kernels over tiles.

``lower_contraction`` makes kernels of a group that is a contraction: ``sides`` says what its two
operands depend on, ``blocking`` chooses tiles by a cost model, and ``packing`` writes the kernels.
``packed_dtypes`` has the forms for narrow numbers, ``sliding_windows`` those for convolutions,
``complex_parts`` those for complex numbers.
"""
