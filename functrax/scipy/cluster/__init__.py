"""Clustering, as in ``jax.scipy.cluster``."""

from __future__ import annotations

from functrax.scipy.cluster import vq as vq
