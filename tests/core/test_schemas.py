"""The schema of each primitive: it says what its class says, and reads back."""

from __future__ import annotations

import pytest

import functrax
from functrax.core.syntax.schemas import parse_schema, schemas
from functrax.core.tracing.primitive import registry
from functrax.errors import ParseError


def test_every_primitive_has_one_that_reads_back() -> None:
    found = functrax.schemas()
    assert set(found) == set(registry) and len(found) >= 150
    for name, schema in found.items():
        assert schema.name == name
        assert parse_schema(str(schema)) == schema
        assert str(parse_schema(str(schema))) == str(schema)
    assert str(found).splitlines() == [str(x) for x in found.values()] == repr(found).splitlines()


@pytest.mark.parametrize(
    "text",
    [
        "cumsum(x: int | uint | float | complex; axis: int, reverse: bool) -> result : opaque",
        "threefry2x32(k0: u32, k1: u32, x0: u32, x1: u32) -> results : elementwise",
        "iota(; shape: tuple[int, ...], dtype: dtype, axis: int) -> result : reindex",
        "erf(x: float) -> result : elementwise",
        "transpose(x: bool | int | uint | float | complex | stored; perm: tuple[int, ...]) "
        "-> result : reindex",
        "jit(*values: bool | int | uint | float | complex; jaxpr: program, ...) "
        "-> results : opaque",
    ],
)
def test_texts(text: str) -> None:
    assert str(schemas()[text.partition("(")[0]]) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "add",
        "add(x)",
        "add(x: int) -> result",
        "add(x: int) -> result : family",
        "f(x:int) -> ",
    ],
)
def test_what_is_no_schema(text: str) -> None:
    with pytest.raises(ParseError, match="not a schema"):
        parse_schema(text)


def test_the_page_lists_them_all() -> None:
    from tests.test_docs import ROOT

    page = (ROOT / "docs" / "primitives.md").read_text(encoding="utf-8")
    listed = page.partition("```text\n")[2].partition("```")[0].splitlines()
    # Those of the compiler stand in compiled programs alone, and are there once it was loaded.
    own = [
        str(schema)
        for name, schema in schemas().items()
        if type(registry[name]).__module__.startswith(("functrax.core.", "functrax.transforms."))
    ]
    assert listed == own
