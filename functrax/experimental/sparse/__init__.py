"""Sparse arrays: some elements are stored, the others are zero.

``BCOO`` is the one that can do most; ``sparsify`` makes a function of arrays one of sparse arrays;
``grad`` and its kin give derivatives by sparse arrays as sparse arrays.  All of it is made of
gathers and scatters, so it goes with ``jit``, ``vmap`` (along axes of the batch) and derivatives.

>>> import functrax.numpy as jnp
>>> from functrax.experimental import sparse
>>> m = sparse.BCOO.fromdense(jnp.array([[0.0, 1.0, 0.0], [3.0, 0.0, 2.0]]))
>>> m.T @ jnp.array([1.0, 2.0])
Array([6., 1., 4.], dtype=float32)
"""

from __future__ import annotations

from functrax.experimental.sparse import linalg as linalg
from functrax.experimental.sparse.base import (
    CuSparseEfficiencyWarning as CuSparseEfficiencyWarning,
    JAXSparse as JAXSparse,
    SparseEfficiencyError as SparseEfficiencyError,
    SparseEfficiencyWarning as SparseEfficiencyWarning,
)
from functrax.experimental.sparse.bcoo import BCOO as BCOO
from functrax.experimental.sparse.bcsr import (
    BCSR as BCSR,
    bcsr_broadcast_in_dim as bcsr_broadcast_in_dim,
    bcsr_concatenate as bcsr_concatenate,
    bcsr_dot_general as bcsr_dot_general,
    bcsr_extract as bcsr_extract,
    bcsr_fromdense as bcsr_fromdense,
    bcsr_sum_duplicates as bcsr_sum_duplicates,
    bcsr_todense as bcsr_todense,
)
from functrax.experimental.sparse.convert import (
    bcoo_extract as bcoo_extract,
    bcoo_fromdense as bcoo_fromdense,
    bcoo_sort_indices as bcoo_sort_indices,
    bcoo_sum_duplicates as bcoo_sum_duplicates,
    bcoo_todense as bcoo_todense,
    bcoo_update_layout as bcoo_update_layout,
)
from functrax.experimental.sparse.derivatives import (
    grad as grad,
    jacfwd as jacfwd,
    jacobian as jacobian,
    jacrev as jacrev,
    value_and_grad as value_and_grad,
)
from functrax.experimental.sparse.making import (
    empty as empty,
    eye as eye,
    random_bcoo as random_bcoo,
    todense as todense,
)
from functrax.experimental.sparse.matrices import (
    COO as COO,
    CSC as CSC,
    CSR as CSR,
    coo_fromdense as coo_fromdense,
    coo_matmat as coo_matmat,
    coo_matvec as coo_matvec,
    coo_todense as coo_todense,
    csr_fromdense as csr_fromdense,
    csr_matmat as csr_matmat,
    csr_matvec as csr_matvec,
    csr_todense as csr_todense,
)
from functrax.experimental.sparse.products import (
    bcoo_dot_general as bcoo_dot_general,
    bcoo_dot_general_sampled as bcoo_dot_general_sampled,
    bcoo_multiply_dense as bcoo_multiply_dense,
    bcoo_multiply_sparse as bcoo_multiply_sparse,
)
from functrax.experimental.sparse.shapes import (
    bcoo_broadcast_in_dim as bcoo_broadcast_in_dim,
    bcoo_concatenate as bcoo_concatenate,
    bcoo_dynamic_slice as bcoo_dynamic_slice,
    bcoo_reduce_sum as bcoo_reduce_sum,
    bcoo_reshape as bcoo_reshape,
    bcoo_rev as bcoo_rev,
    bcoo_slice as bcoo_slice,
    bcoo_squeeze as bcoo_squeeze,
    bcoo_transpose as bcoo_transpose,
)
from functrax.experimental.sparse.sparsify import sparsify as sparsify
