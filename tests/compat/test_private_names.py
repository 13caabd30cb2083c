"""What libraries take from JAX's private modules, and from its modules for their authors."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import functrax
from functrax.compat.missing import MissingNameError


@pytest.mark.parametrize(
    ("private", "name", "public"),
    [
        ("jax._src.checkify", "checkify", "jax.experimental.checkify"),
        ("jax._src.flatten_util", "ravel_pytree", "jax.flatten_util"),
        ("jax._src.tree_util", "tree_map", "jax.tree_util"),
        ("jax._src.dtypes", "canonicalize_dtype", "jax.dtypes"),
        ("jax._src.state.types", "AbstractRef", "jax.ref"),
    ],
)
def test_a_private_module_has_the_names_of_the_public_one(private, name, public):
    got = getattr(importlib.import_module(private), name)
    assert got is getattr(importlib.import_module(public), name)


def test_types_that_are_nodes_of_pytrees():
    from jax._src.tree_util import _registry

    class Point:
        def __init__(self, x):
            self.x = x

    assert Point not in _registry and float not in _registry
    functrax.tree_util.register_pytree_node(Point, lambda p: ((p.x,), None), lambda _, x: Point(*x))
    assert Point in _registry and dict in _registry and tuple in _registry


def test_a_library_gives_the_identity_without_derivative_a_transpose():
    from jax._src.ad_util import stop_gradient_p
    from jax.interpreters import ad

    ad.primitive_transposes[stop_gradient_p] = lambda ct, x: (ct,)
    try:
        assert float(stop_gradient_p.bind(2.0)) == 2.0
    finally:
        del ad.primitive_transposes[stop_gradient_p]


def test_types_with_array_are_taken_for_arrays():
    import jax
    from jax.interpreters import xla

    class Variable:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3.0, dtype=dtype)

    for table in (xla.canonicalize_dtype_handlers, jax.core.pytype_aval_mappings):
        table[Variable] = table[np.ndarray]
        with pytest.raises(ValueError, match="the type cannot be taken for an array"):
            table[object] = table[np.ndarray]
        del table[Variable]
    np.testing.assert_array_equal(functrax.jit(lambda x: x + 1)(Variable()), [1, 2, 3])


def test_arrays_that_are_close_and_arrays_that_are_not():
    from jax._src.public_test_util import check_close

    check_close({"a": np.float32(1)}, {"a": np.float32(1 + 1e-7)})
    check_close(np.float32(1), np.float32(1.05), rtol=0.1)
    check_close(np.float32(1), np.float32(1.05), atol={"float32": 0.1, "float64": 0.0})
    with pytest.raises(AssertionError, match="here"):
        check_close(np.float32(1), np.float32(1.01), err_msg="here")
    check_close(np.float64(1), np.float32(1))
    with functrax.enable_x64(), pytest.raises(AssertionError, match="float64 and float32"):
        check_close(np.float64(1), np.float32(1))


def test_which_traced_values_belong_to_a_derivative():
    import jax
    from jax.interpreters import ad

    found = []

    def f(x):
        main = jax.extend.core.find_top_trace([x]).main
        constant = jax.numpy.ones(3)
        found.extend(isinstance(v, ad.JVPTracer) and v._trace.main is main for v in (x, constant))
        return x * 2

    jax.jvp(f, (1.0,), (1.0,))
    assert found == [True, False]


def test_types_of_values_besides_arrays_are_declared_and_not_used():
    from jax.experimental import hijax

    class New(hijax.HiPrimitive):
        def impl(self, x):
            return x

    hijax.register_hitype(dict, lambda d: hijax.HiType())
    with pytest.raises(MissingNameError, match="new cannot be applied"):
        New("new").bind(1.0)


def test_a_dtype_of_a_library_s_own_is_refused_where_an_array_would_have_it():
    import jax.numpy as jnp
    from jax._src.dtypes import ExtendedDType

    class Meta(ExtendedDType):
        pass

    with pytest.raises(TypeError):
        jnp.zeros(3, Meta())


def test_numpy_dtype_is_a_class():
    import jax.numpy as jnp

    assert jnp.dtype is np.dtype
    assert np.ndarray | jnp.dtype


def test_the_scopes_of_an_equation():
    import jax

    def f(x):
        with jax.named_scope("outer"), jax.named_scope("inner"):
            y = x * 2
        return y + 1

    first, second = jax.make_jaxpr(f)(1.0).eqns
    assert str(first.source_info.name_stack) == "outer/inner"
    assert str(second.source_info.name_stack) == ""


def test_the_sharding_of_a_type():
    import jax

    sharding = jax.typeof(np.ones((2, 3))).sharding
    assert sharding.is_fully_replicated
    assert not sharding.mesh.are_all_axes_explicit
    assert sharding.spec == jax.P(None, None)
    assert jax.jit(lambda x: x * jax.typeof(x).sharding.mesh.empty)(2.0) == 2.0


def test_what_libraries_take_for_errors_and_backends():
    import jax
    import jax._src.xla_bridge
    from jax._src.interpreters.ad import CustomVJPException

    assert dict(jax._src.xla_bridge._backends) == {}
    assert issubclass(functrax.errors.DifferentiationError, CustomVJPException)


def test_names_of_jax_core_that_are_to_go_are_there_with_a_warning() -> None:
    import jax
    from jax.extend import core

    vars(jax.core).pop("valid_jaxtype", None)
    with pytest.warns(DeprecationWarning, match="Use jax.extend.core.valid_jaxtype"):
        assert jax.core.valid_jaxtype is core.valid_jaxtype
    with pytest.raises(AttributeError, match="has no such name"):
        jax.core.get_aval  # noqa: B018 - removed in 0.10
    gensym = jax.core.gensym
    with pytest.raises(NotImplementedError, match=r"jax\.core\.gensym"):
        gensym()
