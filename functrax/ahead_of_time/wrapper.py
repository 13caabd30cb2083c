"""The header of C++: a class whose calls take spans, and check shapes.

Start at :func:`wrapper_text`.
"""

from __future__ import annotations

from typing import Final

from functrax.ahead_of_time.arguments import CArgument
from functrax.ahead_of_time.header import common_file
from functrax.ahead_of_time.module import ObjectModule

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
      : workspace_({upper}_WORKSPACE_BYTES), threads_(threads) {{}}

  void operator()({parameters}) {{
    const int code_ = ::{name}({given});
    if (code_ != 0) throw std::invalid_argument(::{name}_error_text(code_));
  }}

 private:
  functrax::workspace workspace_;
  const functrax_threads* threads_;
}};

}}  // namespace program
}}  // namespace functrax

#endif  // FUNCTRAX_PROGRAM_{name}_HPP
"""


def wrapper_text(name: str, module: ObjectModule) -> str:
    """The wrapper of a program.

    Args:
      name: of its functions.
      module: its code.
    """
    arguments, results = module.arguments, module.results
    parameters = [_parameter(x, "const ") for x in arguments]
    parameters += [_parameter(x, "") for x in results]
    given = [_checked(x) for x in (*arguments, *results)]
    given += ["workspace_.data()", "threads_"]
    return _WRAPPER.format(
        name=name,
        upper=name.upper(),
        names=", ".join(x.name for x in (*arguments, *results)),
        common=common_file("functrax_view.hpp"),
        parameters=", ".join(parameters),
        given=",\n        ".join(given),
    )


def _parameter(x: CArgument, const: str) -> str:
    return f"functrax::view<{const}{x.c_type}, {len(x.shape)}> {x.name}"


def _checked(x: CArgument) -> str:
    return f'{x.name}.checked("{x.name}", {{{", ".join(map(str, x.shape))}}})'
