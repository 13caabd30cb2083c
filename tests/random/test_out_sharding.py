"""``out_sharding`` of the samplers."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import random
from functrax.errors import ArgumentError, ShardingError

KEY = random.key(7)
OTHERS = {
    "ball": (3, 2), "bernoulli": (0.4,), "beta": (1.0, 2.0), "categorical": (np.zeros((4, 3)),),
    "chisquare": (2.0,), "dirichlet": (np.ones(4),), "f": (2.0, 3.0), "gamma": (2.0,),
    "generalized_normal": (2.0,), "geometric": (0.5,), "loggamma": (2.0,), "lognormal": (1.0,),
    "multivariate_normal": (np.zeros(4), np.eye(4)), "orthogonal": (4,), "pareto": (2.0,),
    "permutation": (np.arange(4),), "poisson": (2.0,), "rayleigh": (2.0,), "t": (2.0,),
    "triangular": (0.0, 0.5, 1.0), "truncated_normal": (-1.0, 1.0), "wald": (2.0,),
}  # fmt: skip
SHAPED = (
    *("bits", "cauchy", "exponential", "gumbel", "laplace", "logistic"),
    *("maxwell", "normal", "rademacher", "uniform"),
)


def sample(name, **more):
    function = getattr(random, name)
    if name == "randint":
        return function(KEY, (4,), 0, 9, **more)
    return function(KEY, *OTHERS.get(name, ((4,),)), **more)


@pytest.mark.parametrize("name", [*OTHERS, *SHAPED, "randint"])
def test_the_sample_is_the_same(name):
    wanted = sample(name)
    of_type = functrax.typeof(wanted).sharding
    for _ in range(3):  # the second call of some is recorded by a recipe
        np.testing.assert_array_equal(sample(name, out_sharding=of_type), wanted)
    single = functrax.sharding.SingleDeviceSharding(functrax.devices()[0])
    for _ in range(2):
        found = sample(name, out_sharding=single)
        assert found.committed
        np.testing.assert_array_equal(found, wanted)
    jitted = functrax.jit(lambda: sample(name, out_sharding=single))()
    np.testing.assert_allclose(jitted, wanted, rtol=2e-6, atol=1e-6)
    assert "out_sharding" in inspect.signature(getattr(random, name)).parameters


def test_a_spec_is_for_the_mesh_that_is_set():
    with functrax.set_mesh(functrax.make_mesh((1,), ("x",))):
        for _ in range(3):
            assert random.normal(KEY, (4,), out_sharding=functrax.P("x")).sharding.spec[0] == "x"
    with pytest.raises(ShardingError, match="normal: there is no mesh"):
        random.normal(KEY, (4,), out_sharding=functrax.P("x"))


def test_wrong_arguments_are_still_explained():
    with pytest.raises(ArgumentError, match="normal: unknown keyword 'shap'") as caught:
        random.normal(KEY, shap=(3,))
    assert "shape=" in str(caught.value)
    with pytest.raises(ArgumentError, match="randint"):
        random.randint(KEY, (3,))
    with pytest.raises(ArgumentError, match="neither a device nor a sharding"):
        random.normal(KEY, (3,), out_sharding="everywhere")
    assert isinstance(random.normal(KEY, (3,)), jnp.ndarray)
