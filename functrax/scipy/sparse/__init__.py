"""What ``jax.scipy.sparse`` has: solvers of linear systems that need products only."""

from __future__ import annotations

from functrax.scipy.sparse import linalg as linalg
