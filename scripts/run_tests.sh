#!/usr/bin/env bash
# Runs the default test suite on the compiler, then the part that runs programs on the interpreter,
# on all cores; arguments go to pytest, and run the suite once, on FUNCTRAX_BACKEND. Does its own
# set-up.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

# What says what programs mean; the rest is about the compiler, or about what both share.
on_both=(
  tests/examples tests/lax tests/linalg tests/nn tests/numpy tests/primitives tests/programs
  tests/random/test_samples.py tests/transforms
)

prepare_environment test
cd "$root"
if [ $# -gt 0 ]; then
  exec "$venv/bin/python" -m pytest "$@"
fi
pytest=("$venv/bin/python" -m pytest --numprocesses auto --dist loadfile)
"${pytest[@]}"
FUNCTRAX_BACKEND=interp "${pytest[@]}" "${on_both[@]}"
