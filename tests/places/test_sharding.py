"""Meshes, specs and shardings of one device."""

import copy
import pickle

import numpy as np
import pytest

import functrax
import functrax.numpy as jnp
from functrax import P, lax
from functrax.errors import ArgumentError, PyTreeError, ShapeError, ShardingError
from functrax.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    get_abstract_mesh,
    get_mesh,
    make_single_device_sharding,
    use_abstract_mesh,
)

DEVICE = functrax.devices()[0]
AUTO = (AxisType.Auto,)


@pytest.fixture
def mesh():
    return functrax.make_mesh((1,), ("x",), AUTO)


@pytest.fixture
def sharding(mesh):
    return NamedSharding(mesh, P("x"))


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (P("a", None, ("a", "b")), "P('a', None, ('a', 'b'))"),
        (P(("a",)), "P('a',)"),
        (P(()), "P(None,)"),
        (P(["a"]), "P('a',)"),
        (P(), "P()"),
        (P(P.UNCONSTRAINED), "P(UNCONSTRAINED,)"),
        (P("a", unreduced={"b"}), "P('a', unreduced={'b'})"),
        (P("a") + P("b"), "P('a', 'b')"),
        (P("b").__radd__(("a",)), "P('a', 'b')"),
        (P("b").__add__(("a",)), "P('b', 'a')"),
        (P("b").update(partitions=("a", None)), "P('a', None)"),
    ],
)
def test_specs_are_shown_as_they_are_written(spec, text):
    assert repr(spec) == text
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_specs_are_compared_by_their_entries():
    assert P("a") == P(("a",)) and hash(P("a")) == hash(P(["a"]))
    assert P("a") != P("a", None) and P("a") != ("a",) and P is PartitionSpec
    spec = P("a", None, ("b", "c"))
    assert (len(spec), list(spec), spec[2]) == (3, ["a", None, ("b", "c")], ("b", "c"))
    assert spec.index(None) == 1 and spec.count("a") == 1 and spec.names() == ["a", "b", "c"]
    assert functrax.tree.leaves({"w": spec, "b": None}) == [spec]
    assert pickle.loads(pickle.dumps(P.UNCONSTRAINED)) is P.UNCONSTRAINED


def test_specs_refuse_names_in_two_roles():
    with pytest.raises(ShardingError, match="in two ways"):
        P("a", unreduced={"a"})
    with pytest.raises(ValueError, match="None"):
        P(unreduced={None})
    with pytest.raises(TypeError, match="set"):
        P(unreduced=["a"])
    with pytest.raises(ValueError, match="forget"):
        list(P("a", unreduced={"b"}))
    with pytest.raises(TypeError, match="Subclassing"):
        type("Sub", (PartitionSpec,), {})


def test_meshes_are_one_object_if_equal():
    mesh = functrax.make_mesh((1, 1), ("a", "b"))
    text = "Mesh(axis_sizes=(1, 1), axis_names=('a', 'b'), axis_types=(Explicit, Explicit))"
    assert repr(mesh) == text
    assert str(mesh) == "Mesh('a': 1, 'b': 1, axis_types=(Explicit, Explicit))"
    same = Mesh(np.array([[DEVICE]]), ("a", "b"), (AxisType.Explicit,) * 2)
    assert mesh is same is copy.deepcopy(mesh) is pickle.loads(pickle.dumps(mesh))
    assert dict(mesh.shape) == {"a": 1, "b": 1} and mesh.size == 1 and not mesh.empty
    assert mesh.device_ids.tolist() == [[0]] and mesh.local_devices == [DEVICE]
    assert mesh.explicit_axes == ("a", "b") and mesh.are_all_axes_explicit and not mesh.auto_axes
    assert mesh.update(axis_names=("c", "d")).axis_names == ("c", "d")
    assert mesh.local_mesh is mesh and not mesh.is_multi_process
    assert Mesh([DEVICE], "x").axis_types == AUTO
    with pytest.raises(AttributeError):
        mesh.size = 2


def test_abstract_meshes_have_no_devices(mesh):
    abstract = AbstractMesh((2, 3), ("a", "b"))
    assert abstract is AbstractMesh((2, 3), ("a", "b")) is pickle.loads(pickle.dumps(abstract))
    assert repr(abstract) == "AbstractMesh('a': 2, 'b': 3, axis_types=(Auto, Auto))"
    assert (abstract.size, abstract.axis_sizes) == (6, (2, 3))
    for name in ("devices", "device_ids", "local_devices", "local_mesh", "is_multi_process"):
        with pytest.raises(ValueError, match=name):
            getattr(abstract, name)
    with pytest.raises(ValueError, match="no devices"), abstract:
        pass
    assert "device_kind=cpu" in repr(mesh.abstract_mesh)
    manual = mesh.abstract_mesh.update_axis_types({"x": AxisType.Manual})
    assert manual.manual_axes == ("x",) and manual.are_all_axes_manual


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: functrax.make_mesh((2,), ("a",)), ValueError, "fewer devices"),
        (lambda: functrax.make_mesh((1,), ("a", "b")), ValueError, "one name for each axis"),
        (lambda: Mesh([DEVICE], (None,)), ValueError, "None"),
        (lambda: Mesh([DEVICE], ("a",), 3), TypeError, "axis_types"),
        (lambda: Mesh([DEVICE], ("a",), AUTO * 2), ValueError, "one type for each axis"),
        (lambda: AbstractMesh((1, 2), ("a",)), ValueError, "one name for each axis"),
        (lambda: NamedSharding(Mesh([DEVICE], "a"), P("c")), ValueError, "no axis of this name"),
        (lambda: NamedSharding(Mesh([DEVICE], "a"), P("a", "a")), ValueError, "more than one axis"),
        (lambda: NamedSharding(Mesh([DEVICE], "a"), "a"), TypeError, "not a PartitionSpec"),
        (lambda: NamedSharding(3, P()), TypeError, "not a mesh"),
        (lambda: SingleDeviceSharding(3), TypeError, "not a device"),
        (lambda: SingleDeviceSharding(DEVICE, memory_kind="x"), ValueError, "no such memory"),
        (lambda: functrax.set_mesh(3), TypeError, "not a mesh"),
        (lambda: use_abstract_mesh(Mesh([DEVICE], "a")), ValueError, "not an abstract mesh"),
    ],
)
def test_wrong_meshes_and_shardings_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_shardings_say_what_lies_where(mesh, sharding):
    assert repr(sharding) == (
        "NamedSharding(mesh=Mesh('x': 1, axis_types=(Auto,)), spec=P('x',), memory_kind=device)"
    )
    assert sharding.device_set == sharding.addressable_devices == {DEVICE}
    assert sharding.num_devices == 1 and sharding.is_fully_replicated
    assert sharding.is_fully_addressable and sharding.has_addressable_devices
    assert sharding.shard_shape((4, 5)) == (4, 5)
    assert sharding.devices_indices_map((4, 5)) == {DEVICE: (slice(None), slice(None))}
    assert sharding == pickle.loads(pickle.dumps(sharding)) and hash(sharding)
    assert sharding.is_equivalent_to(NamedSharding(mesh, P()), 1)
    assert sharding.is_equivalent_to(SingleDeviceSharding(DEVICE), 1)
    assert sharding != NamedSharding(mesh, P()) and sharding.update(spec=P()).spec == P()
    assert sharding.with_memory_kind("unpinned_host").memory_kind == "unpinned_host"
    assert sharding.replicated_axes == frozenset()
    single = make_single_device_sharding(DEVICE)
    assert single == SingleDeviceSharding(DEVICE) and single.shard_shape((2,)) == (2,)
    assert single.with_memory_kind("pinned_host") != single
    with pytest.raises(NotImplementedError):
        _ = Sharding().device_set


def test_shardings_of_abstract_meshes_divide():
    mesh = AbstractMesh((2, 3), ("a", "b"))
    assert NamedSharding(mesh, P("a")).shard_shape((4, 5)) == (2, 5)
    assert NamedSharding(mesh, P(("a", "b"))).shard_shape((12, 5)) == (2, 5)
    with pytest.raises(ValueError, match="evenly"):
        NamedSharding(mesh, P("b")).shard_shape((4, 5))
    assert not NamedSharding(mesh, P("a")).is_equivalent_to(NamedSharding(mesh, P()), 1)
    assert not NamedSharding(mesh, P("a")).is_fully_replicated
    with pytest.raises(ValueError, match="abstract"):
        _ = NamedSharding(mesh, P("a")).device_set


def test_a_mesh_of_several_places_says_which_part_each_has():
    others = [
        type("Other", (), {"id": i, "platform": "cpu", "device_kind": "cpu"})() for i in "123"
    ]
    grid = Mesh(np.array([[DEVICE, others[0]], others[1:]], dtype=object), ("a", "b"))
    parts = NamedSharding(grid, P("a", "b")).devices_indices_map((4, 2))
    assert parts[DEVICE] == (slice(0, 2), slice(0, 1))
    assert parts[others[1]] == (slice(2, 4), slice(0, 1))
    both = NamedSharding(grid, P(None, ("b", "a"))).devices_indices_map((4, 8))
    assert both[others[0]] == (slice(None), slice(4, 6))
    with pytest.raises(ValueError, match="more devices"):
        functrax.device_put(np.ones((4, 2)), NamedSharding(grid, P("a")))


def test_pictures_have_a_box_for_each_part(capsys):
    others = [type("Other", (), {"id": i, "platform": "cpu"})() for i in range(4)]
    grid = Mesh(np.array(others, dtype=object).reshape(2, 2), ("a", "b"))
    functrax.debug.visualize_sharding((4, 4), NamedSharding(grid, P("a", "b")), scale=0.4)
    functrax.debug.visualize_sharding((4,), NamedSharding(grid, P("b")), scale=0.4)
    want = """
┌───────┬───────┐
│ CPU 0 │ CPU 1 │
├───────┼───────┤
│ CPU 2 │ CPU 3 │
└───────┴───────┘
┌───────┬───────┐
│CPU 0,2│CPU 1,3│
└───────┴───────┘
"""
    assert capsys.readouterr().out == want[1:]


def test_device_put_gives_arrays_a_sharding(mesh, sharding):
    x = jnp.arange(4.0)
    y = functrax.device_put(x, sharding)
    assert y.sharding == sharding and y.committed and y.devices() == {DEVICE}
    assert not x.committed and x.sharding == SingleDeviceSharding(DEVICE)
    assert y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    assert functrax.device_put(y, sharding) is y is functrax.device_put(y)
    (shard,) = y.addressable_shards
    assert isinstance(shard, functrax.Shard) and shard.index == (slice(None),)
    assert shard.device is DEVICE and shard.replica_id == 0 and shard.data is y
    assert len(y.global_shards) == 1 and y.is_fully_replicated
    assert y.to_device(DEVICE).sharding == SingleDeviceSharding(DEVICE)
    assert functrax.device_put(x, DEVICE).committed
    copied = functrax.device_put(x, may_alias=False)
    assert copied.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()


def test_device_put_takes_prefixes(sharding):
    tree = {"a": np.ones(2), "b": (np.ones(3), 1.0)}
    put = functrax.device_put(
        tree, {"a": sharding, "b": (None, DEVICE)}, donate={"a": True, "b": False}
    )
    assert put["a"].sharding == sharding and not put["b"][0].committed and put["b"][1].committed
    with functrax.set_mesh(sharding.mesh):
        assert functrax.device_put(np.ones(2), P("x")).sharding == sharding


def test_the_table_of_shardings_forgets_arrays_that_are_gone(sharding):
    from functrax.backends.sharding.placed import _table

    before = len(_table)
    arrays = [functrax.device_put(np.ones(2), sharding) for _ in range(10)]
    assert len(_table) == before + 10
    del arrays
    assert len(_table) == before


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (P("x"), "no mesh for a PartitionSpec"),
        ("cpu", "neither a device nor a sharding"),
        (NamedSharding(functrax.make_mesh((1,), ("x",)), P("x")), "more entries"),
        (NamedSharding(AbstractMesh((1,), ("x",)), P()), "abstract mesh"),
    ],
)
def test_device_put_refuses_what_does_not_fit(where, words):
    with pytest.raises(ValueError, match=words):
        functrax.device_put(1.0, where)


def test_device_put_checks_its_flags(sharding):
    with pytest.raises(ValueError, match="cannot be True at the same time"):
        functrax.device_put(1.0, donate=True, may_alias=True)
    with pytest.raises(TypeError, match="donate"):
        functrax.device_put(1.0, donate=3)
    with pytest.raises(PyTreeError, match="prefix"):
        functrax.device_put([1.0, 2.0], [sharding])


def test_device_put_is_the_identity_under_transformations(sharding):
    def f(x):
        return functrax.device_put(x, sharding) ** 2

    assert functrax.grad(lambda x: f(x).sum())(jnp.arange(3.0)).tolist() == [0.0, 2.0, 4.0]
    assert functrax.jit(f)(jnp.arange(3.0)).tolist() == [0.0, 1.0, 4.0]
    assert functrax.vmap(f)(jnp.ones((2, 3))).shape == (2, 3)


def test_traced_values_have_no_sharding():
    with pytest.raises(AttributeError, match="traced value"):
        functrax.jit(lambda x: x.sharding and x)(1.0)
    assert functrax.jit(lambda x: x + (0 if hasattr(x, "sharding") else 1))(1.0) == 2


def test_set_mesh_is_a_context_and_a_function(mesh):
    assert get_mesh().empty and get_abstract_mesh().empty
    assert repr(get_mesh()) == "Mesh(axis_sizes=(), axis_names=())"
    with functrax.set_mesh(mesh) as entered:
        assert entered is mesh is get_mesh() and get_abstract_mesh() is mesh.abstract_mesh
        with functrax.set_mesh(None):
            assert get_mesh().empty
    assert get_mesh().empty
    setting = functrax.set_mesh(mesh)
    try:
        assert get_mesh() is mesh
    finally:
        setting.__exit__()
    assert get_mesh().empty


def test_with_mesh_still_works(mesh):
    with pytest.warns(DeprecationWarning, match="set_mesh"), mesh:
        assert get_mesh() is mesh
        assert lax.with_sharding_constraint(jnp.ones(2), P("x")).sharding.spec == P("x")
    assert get_mesh().empty


def test_programs_are_traced_again_under_another_mesh(mesh):
    seen = []
    f = functrax.jit(lambda x: (seen.append(get_abstract_mesh().axis_names), x)[1])
    f(1.0)
    with functrax.set_mesh(mesh):
        f(1.0)
    f(1.0)
    with use_abstract_mesh(AbstractMesh((7,), ("y",))):
        f(1.0)
        with pytest.raises(ValueError, match="another size"), use_abstract_mesh(mesh.abstract_mesh):
            pass
    assert seen == [(), ("x",), ("y",)]


def test_devices_are_not_known_while_tracing(mesh):
    with pytest.raises(ValueError, match="being traced"):
        functrax.jit(lambda: get_mesh().size)()
    with pytest.raises(ValueError, match="being traced"):
        functrax.jit(lambda: functrax.set_mesh(mesh) and 1)()


def test_reshard(mesh, sharding):
    x = functrax.reshard({"a": jnp.ones(2)}, sharding)["a"]
    assert x.sharding == sharding
    with functrax.set_mesh(mesh):
        assert functrax.sharding.reshard(jnp.ones(2), P("x")).sharding == sharding
        assert functrax.jit(lambda x: functrax.reshard(x, P("x")) + 1)(jnp.ones(2)).tolist() == [
            2,
            2,
        ]
    with pytest.raises(ValueError, match="no mesh"):
        functrax.reshard(jnp.ones(2), P("x"))
    with pytest.raises(ValueError, match="more entries"):
        functrax.jit(lambda x: functrax.reshard(x, sharding))(1.0)


def test_with_sharding_constraint(mesh, sharding):
    assert lax.with_sharding_constraint(jnp.ones(2), sharding).sharding == sharding
    grad = functrax.grad(lambda x: lax.with_sharding_constraint(x**2, sharding).sum())
    assert functrax.jit(grad)(jnp.arange(2.0)).tolist() == [0.0, 2.0]
    assert lax.with_sharding_constraint((jnp.ones(2), 1.0), (sharding, None))[1].shape == ()
    with pytest.raises(RuntimeError, match="no mesh"):
        lax.with_sharding_constraint(jnp.ones(2), P("x"))
    with pytest.raises(ValueError, match="more entries"):
        lax.with_sharding_constraint(jnp.ones(()), sharding)
    with pytest.raises(TypeError, match="neither a device"):
        lax.with_sharding_constraint(jnp.ones(2), 3)
    explicit = NamedSharding(functrax.make_mesh((1,), ("x",)), P("x"))
    with pytest.raises(ValueError, match="Auto"):
        lax.with_sharding_constraint(jnp.ones(2), explicit)


def test_arrays_from_their_parts(sharding):
    x = functrax.make_array_from_callback((4,), sharding, lambda i: np.arange(4.0)[i])
    assert x.tolist() == [0, 1, 2, 3] and x.sharding == sharding
    y = functrax.make_array_from_single_device_arrays((4,), sharding, [x])
    z = functrax.make_array_from_process_local_data(sharding, {"a": np.arange(4.0)})["a"]
    assert (x == y).all() and (x == z).all() and y.sharding == z.sharding == sharding
    with pytest.raises(ShapeError, match="another shape"):
        functrax.make_array_from_callback((4,), sharding, lambda i: np.arange(3.0))
    with pytest.raises(ValueError, match="must match the dtype"):
        functrax.make_array_from_callback((4,), sharding, lambda i: np.ones(4), "float16")
    with pytest.raises(ValueError, match="one array for each device"):
        functrax.make_array_from_single_device_arrays((4,), sharding, [x, x])
    with pytest.raises(TypeError, match="list or tuple"):
        functrax.make_array_from_single_device_arrays((4,), sharding, x)
    with pytest.raises(ValueError, match="shape of the data"):
        functrax.make_array_from_process_local_data(sharding, np.ones(4), (8,))
    with pytest.raises(ValueError, match="traced"):
        functrax.jit(lambda x: functrax.make_array_from_single_device_arrays((4,), sharding, [x]))(
            x
        )
    with pytest.raises(ArgumentError):
        functrax.make_array_from_callback((4,), None, lambda i: np.ones(4))


def test_types_have_shardings(mesh, sharding):
    struct = functrax.ShapeDtypeStruct((2,), "float32", sharding=sharding)
    assert repr(struct) == f"ShapeDtypeStruct(shape=(2,), dtype=float32, sharding={sharding!r})"
    assert struct.sharding == sharding and struct != functrax.ShapeDtypeStruct((2,), "float32")
    assert struct.update(shape=(3,)).sharding == sharding
    like = functrax.ShapeDtypeStruct.like
    assert like(functrax.device_put(np.ones(2, np.float32), sharding)) == struct == like(struct)
    assert like(jnp.ones(2)).sharding is None
    manual = functrax.sharding.ManualAxisType(varying=frozenset({"x"}))
    varying = functrax.ShapeDtypeStruct((2,), "float32", manual_axis_type=manual)
    assert varying == functrax.ShapeDtypeStruct((2,), "float32", vma=frozenset({"x"}))
    assert varying.vma == {"x"} and "manual_axis_type=" in repr(varying) and not varying.is_ref
    by_spec = functrax.ShapeDtypeStruct((2,), "float32", sharding=P("x"))
    with functrax.set_mesh(mesh):
        assert by_spec.sharding == sharding
    with pytest.raises(TypeError, match="no mesh"):
        _ = by_spec.sharding


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sharding": 3}, "not a sharding"),
        ({"vma": 3}, "vma"),
        ({"manual_axis_type": 3}, "manual_axis_type"),
        ({"is_ref": True}, "mutable"),
        ({"sharding": NamedSharding(functrax.make_mesh((1,), ("x",)), P("x"))}, "more entries"),
    ],
)
def test_types_refuse_what_does_not_fit(arguments, words):
    with pytest.raises(ValueError, match=words):
        functrax.ShapeDtypeStruct((), "float32", **arguments)


def test_auto_axes_and_explicit_axes(mesh, sharding):
    types = []

    def f(x):
        types.append(get_abstract_mesh().axis_types)
        return x + 1

    explicit = functrax.make_mesh((1,), ("x",))
    with functrax.set_mesh(explicit):
        y = functrax.sharding.auto_axes(f, out_sharding=P("x"))(jnp.ones(2))
        assert y.tolist() == [2, 2] and y.sharding.spec == P("x")
        with pytest.raises(TypeError, match="out_sharding"):
            functrax.sharding.auto_axes(f)(jnp.ones(2))
    with functrax.set_mesh(mesh):
        assert (
            functrax.sharding.explicit_axes(axes="x")(f)(jnp.ones(2), in_sharding=P("x")).sum() == 4
        )
    assert types == [(AxisType.Auto,), (AxisType.Explicit,)]
    with pytest.raises(ValueError, match="no mesh"):
        functrax.sharding.explicit_axes(f, in_sharding=P())(jnp.ones(2))


def test_a_mesh_without_devices_has_those_of_the_mesh_that_is_set(mesh):
    abstract = NamedSharding(mesh.abstract_mesh, P("x"))
    x = jnp.arange(4.0)
    with functrax.set_mesh(mesh):
        for place in (functrax.lax.with_sharding_constraint, functrax.device_put):
            assert place(x, abstract).sharding == NamedSharding(mesh, P("x"))
        np.testing.assert_array_equal(
            functrax.jit(lambda x: functrax.lax.with_sharding_constraint(x, abstract))(x), x
        )
    other = NamedSharding(functrax.sharding.AbstractMesh((1,), ("y",)), P("y"))
    with functrax.set_mesh(mesh), pytest.raises(ShardingError, match="has no devices"):
        functrax.lax.with_sharding_constraint(x, other)


def test_in_shardings_none_says_nothing_and_takes_arguments_by_name():
    f = functrax.jit(lambda x, y: x + y, in_shardings=None)
    assert float(f(1.0, y=2.0)) == 3.0
