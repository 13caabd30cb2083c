"""Groups: equations of a kernel, held in one equation that any stage can run and print."""

from __future__ import annotations

import numpy as np
import pytest

from functrax.backends.passes.groups import contraction, fused, grouped, parts_of
from functrax.core.errors.typed import VerificationError
from functrax.core.ir.jaxpr import Jaxpr
from functrax.core.syntax.parsing import parse_jaxpr
from functrax.core.syntax.verify import verify
from tests.backends.passes import pass_checks as check

TEXT = """{ lambda ; x:f32[3] y:f32[3]. let
    a:f32[3] = sin x
    b:f32[3] = mul a y
    c:f32[3] = exp b
  in (c, a) }"""


def with_group(jaxpr: Jaxpr) -> Jaxpr:
    first, second, third = jaxpr.eqns
    group = grouped(fused, [first, second], [*first.outvars, *second.outvars], "sin_mul")
    return Jaxpr((), jaxpr.invars, jaxpr.outvars, [group, third])


def test_a_group_prints_and_parses():
    jaxpr = with_group(parse_jaxpr(TEXT))
    verify(jaxpr)
    assert parse_jaxpr(str(jaxpr)) == jaxpr
    assert jaxpr.as_text(source=False) == (
        """{ lambda ; a:f32[3] b:f32[3]. let
    c:f32[3] d:f32[3] = fused[
      jaxpr={ lambda ; a:f32[3] b:f32[3]. let
          c:f32[3] = sin a
          d:f32[3] = mul c b
        in (c, d) },
      name="sin_mul",
    ] a b
    e:f32[3] = exp d
  in (e, c) }"""
    )


def test_a_group_runs_as_its_equations():
    jaxpr = parse_jaxpr(TEXT)
    values = check.draw(jaxpr)
    found = check.run_reference(with_group(jaxpr), values)
    assert check.same_bits(found, check.run_reference(jaxpr, values))


def test_a_group_of_other_operands_is_refused():
    jaxpr = with_group(parse_jaxpr(TEXT))
    group = jaxpr.eqns[0]
    wrong = parse_jaxpr("{ lambda ; x:f32[4] y:f32[3]. let in (y, y) }")
    group.params["jaxpr"] = wrong
    with pytest.raises(VerificationError, match="do not fit the group"):
        verify(jaxpr)


def test_groups_are_never_transformed():
    with pytest.raises(AssertionError, match="differentiated"):
        fused.jvp((np.float32(1),), (None,))
    with pytest.raises(AssertionError, match="batched"):
        contraction.batch(3, (), ())


def whole_and_parts(text: str) -> tuple[Jaxpr, Jaxpr]:
    jaxpr = parse_jaxpr(text)
    parts = parts_of(jaxpr)
    return jaxpr, Jaxpr((), jaxpr.invars, jaxpr.outvars, parts)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (TEXT, 2),
        # the view is in both parts, so that only y is stored between them
        (
            """{ lambda ; x:f32[2,3]. let
                y:f32[2,3] = sin x
                z:f32[3,2] = transpose[perm=(1, 0)] y
                a:f32[3,2] = exp z
                b:f32[3,2] = mul a z
              in (b,) }""",
            2,
        ),
        (
            """{ lambda ; x:f32[2,3]. let
                y:f32[3,2] = transpose[perm=(1, 0)] x
                z:f32[6] = reshape[shape=(6,)] y
              in (z, y) }""",
            2,
        ),
        (
            """{ lambda ; x:f32[2,3]. let
                y:f32[3,2] = transpose[perm=(1, 0)] x
                z:f32[3,2] = exp y
              in (z,) }""",
            2,
        ),
    ],
)
def test_parts_of_a_group_do_what_it_does(text: str, count: int) -> None:
    jaxpr, parts = whole_and_parts(text)
    verify(parts)
    assert len(parts.eqns) == count
    values = check.draw(jaxpr)
    assert check.same_bits(check.run_reference(parts, values), check.run_reference(jaxpr, values))


def test_views_are_in_the_part_that_needs_them() -> None:
    _, parts = whole_and_parts(
        """{ lambda ; x:f32[2,3]. let
            y:f32[2,3] = sin x
            z:f32[3,2] = transpose[perm=(1, 0)] y
            a:f32[3,2] = exp z
            b:f32[3,2] = mul a z
          in (b,) }"""
    )
    inside = [[e.primitive.name for e in part.params["jaxpr"].eqns] for part in parts.eqns]
    assert inside == [["sin"], ["transpose", "exp", "mul"]]
