#!/usr/bin/env bash
# Runs the default test suite on the compiler, then the part that runs programs on the interpreter,
# on all cores; arguments go to pytest, and run the suite once, on FUNCTRAX_BACKEND. Does its own
# set-up. Of tests with twelve cases or more one case in four is run, the same ones each time; all
# of them by `bash scripts/run_tests.sh tests`.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

# What says what programs mean; the rest is about the compiler, or about what both share. Of the
# examples' scripts one: `FUNCTRAX_BACKEND=interp pytest tests/examples` runs all of them.
on_both=(
  tests/examples/test_{derivative,learning,science}_examples.py tests/examples/test_wgan_gp.py
  tests/examples/test_examples.py::test_digits_reaches_its_accuracy
  tests/lax tests/linalg tests/nn tests/numpy tests/primitives tests/programs tests/random/test_samples.py
  tests/transforms
)

prepare_environment test
cd "$root"
if [ $# -gt 0 ]; then
  exec "$venv/bin/python" -m pytest "$@"
fi
pytest=("$venv/bin/python" -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder)
export FUNCTRAX_FAMILIES=4
"${pytest[@]}"
FUNCTRAX_BACKEND=interp "${pytest[@]}" "${on_both[@]}"
