"""Groups: equations of a kernel, held in one equation that any stage can run and print."""

from __future__ import annotations

import numpy as np
import pytest

from functrax.backends.passes.groups import contraction, fused, grouped
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
