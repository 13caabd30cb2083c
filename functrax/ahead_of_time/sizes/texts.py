"""What headers say of named sizes, in C and in C++.

Start at :func:`declarations`.
"""

from __future__ import annotations

from typing import Final

from functrax.ahead_of_time.sizes.interface import SizedProgram

_DECLARATIONS: Final = """\

/* The sizes, in their order.  `sizes` are as many numbers: they must satisfy
 *
@CONSTRAINTS@
 */
#define {upper}_SIZES {count}

/* 0, or the code of a constraint that sizes do not satisfy. */
int {name}_check_sizes(const int64_t *sizes);

/* The shape of an array, which has as many axes as the tables say.  Results are counted on from
 * arguments.  Returns the number of axes, or -1 if there is no such array or code of sizes. */
int {name}_shape(const int64_t *sizes, int array, int64_t *shape);
"""


def declarations(sized: SizedProgram) -> str:
    """What the header of C declares besides."""
    text = _DECLARATIONS.format(name=sized.name, upper=sized.name.upper(), count=len(sized.names))
    lines = [f" *   {x.text}" for x in sized.constraints]
    return text.replace("@CONSTRAINTS@", "\n".join(lines))


def parameters(sized: SizedProgram) -> list[str]:
    """The parameters of a call that sizes are."""
    return [f"int64_t {name}" for name in sized.names]


def call_of_wrapper(sized: SizedProgram, given: str) -> str:
    """What a call of C++ does: it looks at the sizes, and has a workspace for them.

    Args:
      sized: the program.
      given: what the function of C takes besides sizes.
    """
    name, names = sized.name, ", ".join(sized.names)
    return f"""\
    const std::int64_t sizes_[] = {{{names}}};
    int code_ = ::{name}_check_sizes(sizes_);
    if (code_ != 0) throw std::invalid_argument(::{name}_error_text(code_));
    workspace_.reserve(::{name}_workspace_bytes({names}));
    code_ = ::{name}({names}, {given});
    if (code_ != 0) throw std::invalid_argument(::{name}_error_text(code_));"""


def shape_of_wrapper(sized: SizedProgram, array: int, rank: int) -> str:
    """The shape of an array for the sizes of a call."""
    return f"functrax::shape_of<{rank}>(::{sized.name}_shape, sizes_, {array})"
