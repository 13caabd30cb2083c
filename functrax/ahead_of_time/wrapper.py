"""The header of C++: a class whose calls take spans, and check shapes.

Start at :func:`wrapper_text`.
"""

from __future__ import annotations

from typing import Final

from functrax.ahead_of_time.arguments import CArgument
from functrax.ahead_of_time.header import common_file
from functrax.ahead_of_time.module import ObjectModule
from functrax.ahead_of_time.sizes.interface import SizedProgram
from functrax.ahead_of_time.sizes.texts import (
    call_of_wrapper,
    parameters as parameters_of_sizes,
    shape_of_wrapper,
)

_WRAPPER: Final = """\
// {name} for C++17: see {name}.h for what it computes of.
//
//   functrax::program::{name} f;    // has a workspace: one for each thread that makes calls
//   f({names});
//
// An array is given as a std::vector, std::array or functrax::span of its elements, or as an
// address and a shape: {{data, {{8, 16}}}}.  What does not fit throws std::invalid_argument.
#ifndef FUNCTRAX_PROGRAM_{name}_HPP
#define FUNCTRAX_PROGRAM_{name}_HPP

#include "{name}.h"

{common}
namespace functrax {{
namespace program {{

class {name} {{
 public:
  explicit {name}(const functrax_threads* threads = nullptr)
      : workspace_({workspace}), threads_(threads) {{}}

  void operator()({parameters}) {{
{call}
  }}

 private:
  functrax::workspace workspace_;
  const functrax_threads* threads_;
}};

}}  // namespace program
}}  // namespace functrax

#endif  // FUNCTRAX_PROGRAM_{name}_HPP
"""
_CALL: Final = """\
    const int code_ = ::{0}({1});
    if (code_ != 0) throw std::invalid_argument(::{0}_error_text(code_));"""


def wrapper_text(name: str, module: ObjectModule) -> str:
    """The wrapper of a program.

    Args:
      name: of its functions.
      module: its code.
    """
    arguments, results, sized = module.arguments, module.results, module.sized
    sizes = [] if sized is None else [f"std::{x}" for x in parameters_of_sizes(sized)]
    parameters = [*sizes] + [_parameter(x, "const ") for x in arguments]
    parameters += [_parameter(x, "") for x in results]
    given = [_checked(n, x, sized) for n, x in enumerate((*arguments, *results))]
    given += ["workspace_.data()", "threads_"]
    listed = ",\n        ".join(given)
    return _WRAPPER.format(
        name=name,
        workspace=f"{name.upper()}_WORKSPACE_BYTES" if sized is None else "0",
        names=", ".join(
            [*(() if sized is None else sized.names), *[x.name for x in (*arguments, *results)]]
        ),
        common=common_file("functrax_view.hpp"),
        parameters=", ".join(parameters),
        call=call_of_wrapper(sized, listed) if sized is not None else _CALL.format(name, listed),
    )


def _parameter(x: CArgument, const: str) -> str:
    return f"functrax::view<{const}{x.c_type}, {len(x.shape)}> {x.name}"


def _checked(n: int, x: CArgument, sized: SizedProgram | None) -> str:
    shape = f"{{{', '.join(map(str, x.shape))}}}"
    if x.is_sized and sized is not None:
        shape = shape_of_wrapper(sized, n, len(x.shape))
    return f'{x.name}.checked("{x.name}", {shape})'
