"""``ad_checkpoint.print_saved_residuals``: what a derivative keeps, and where it comes from."""

from typing import Any

import pytest

import functrax
import functrax.numpy as jnp
from functrax.ad_checkpoint import checkpoint_name, print_saved_residuals


def model(x: Any, y: Any) -> Any:
    z = checkpoint_name(jnp.sin(x["a"]), "z")
    return (z * y).sum()


def lines(capsys: pytest.CaptureFixture[str], *args: Any, **kwargs: Any) -> list[str]:
    print_saved_residuals(*args, **kwargs)
    return capsys.readouterr().out.splitlines()


def test_names_arguments_and_operations(capsys: pytest.CaptureFixture[str]) -> None:
    found = lines(capsys, model, {"a": jnp.ones(3)}, jnp.ones(3))
    assert [line.partition(" from ")[0] for line in found] == [
        "f32[3] output of cos",
        "f32[3]",
        "f32[3] named 'z'",
    ]
    assert found[1] == "f32[3] from the argument y"
    assert "test_saved_residuals.py:" in found[0]


def test_checkpoint_keeps_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    found = lines(capsys, functrax.checkpoint(model), {"a": jnp.ones(3)}, y=jnp.ones(3))
    assert found == ["f32[3] from the argument x['a']", "f32[3] from the argument y"]


def test_what_is_repeated_is_kept_once(capsys: pytest.CaptureFixture[str]) -> None:
    found = lines(capsys, lambda x, w: (x * w).sum(), jnp.ones((4, 3)), jnp.ones(3))
    assert found == ["f32[3] from the argument w", "f32[4,3] from the argument x"]


def test_a_linear_function_keeps_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, lambda x: x + x, 1.0) == []


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="saved_residuals"):
        print_saved_residuals(3, 1.0)
