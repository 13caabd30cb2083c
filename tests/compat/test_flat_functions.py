"""``jax.extend.linear_util`` and ``jax.api_util``: functions with transformations around them."""

from __future__ import annotations

from typing import Any

import pytest


def test_transformations_of_arguments_and_results() -> None:
    import jax.extend.linear_util as lu

    @lu.transformation
    def doubled(factor: int, *args: int) -> Any:
        result = yield [factor * x for x in args], {}
        yield result + 1

    @lu.transformation2
    def negated(f: Any, *args: int) -> int:
        return -f(*args)

    wrapped = lu.wrap_init(lambda x, y: x - y)
    assert wrapped.call_wrapped(3, 1) == 2
    assert doubled(wrapped, 10).call_wrapped(3, 1) == 21
    assert negated(doubled(wrapped, 10)).call_wrapped(3, 1) == -21
    assert doubled(negated(wrapped), 10).call_wrapped(3, 1) == -19
    assert lu.wrap_init(lambda x, *, y: x - y, {"y": 2}).call_wrapped(3) == 1


def test_second_results() -> None:
    import jax.extend.linear_util as lu

    @lu.transformation_with_aux
    def counted(*args: int) -> Any:
        result = yield args, {}
        yield result, len(args)

    @lu.transformation_with_aux2
    def noted(f: Any, store: Any, *args: int) -> int:
        store.store("noted")
        return f(*args)

    function, count = counted(lu.wrap_init(lambda *xs: sum(xs)))
    with pytest.raises(lu.StoreException, match="too early"):
        count()
    assert function.call_wrapped(1, 2, 3) == 6
    assert count() == 3
    with pytest.raises(lu.StoreException, match="gave another auxiliary result"):
        function.call_wrapped(1)
    function, note = noted(lu.wrap_init(lambda x: x))
    assert function.call_wrapped(4) == 4
    assert lu.merge_linear_aux(count, note) == (True, 3)
    _, never = noted(lu.wrap_init(lambda x: x))
    assert lu.merge_linear_aux(never, note) == (False, "noted")


def test_flat_functions() -> None:
    import jax
    import jax.extend.linear_util as lu
    from jax.api_util import argnums_partial, debug_info, flatten_fun, flatten_fun_nokwargs

    def f(a: Any, *, b: Any) -> Any:
        return {"sum": a[0] + b, "first": a[1]}

    leaves, tree = jax.tree.flatten((((1, 2),), {"b": 3}))
    info = debug_info("test", f, ((1, 2),), {"b": 3})
    flat, out_tree = flatten_fun(lu.wrap_init(f, debug_info=info), tree)
    assert flat.call_wrapped(*leaves) == [2, 4]
    assert out_tree() == jax.tree.structure({"sum": 0, "first": 0})
    assert info.func_name == "f"
    assert info.arg_names == ("a", "b")
    leaves, tree = jax.tree.flatten((1, (2, 3)))
    flat, out_tree = flatten_fun_nokwargs(lu.wrap_init(lambda x, y: (y, x)), tree)
    assert flat.call_wrapped(*leaves) == [2, 3, 1]
    part, dynamic = argnums_partial(lu.wrap_init(lambda x, y, z: (x, y, z)), (0, -1), (1, 2, 3))
    assert dynamic == [1, 3]
    assert part.call_wrapped(7, 9) == (7, 2, 9)
    with pytest.raises(ValueError, match="Non-hashable"):
        argnums_partial(lu.wrap_init(f), 0, (1, [2]))


def test_numbers_of_donated_arguments() -> None:
    from jax.api_util import rebase_donate_argnums, safe_map, shaped_abstractify

    assert rebase_donate_argnums((3, 1), (0, 2)) == (0, 1)
    with pytest.raises(ValueError, match="cannot intersect"):
        rebase_donate_argnums((0,), (0,))
    assert safe_map(lambda x, y: x + y, [1, 2], (3, 4)) == [4, 6]
    with pytest.raises(AssertionError, match="length mismatch"):
        safe_map(lambda x, y: x, [1], [2, 3])
    assert shaped_abstractify(1.0).shape == ()
