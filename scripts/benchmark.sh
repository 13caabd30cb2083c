#!/usr/bin/env bash
# Runs the benchmark suite (benchmarks/README.md); arguments go to it. Does its own set-up, in a
# virtual environment of its own, .venv-bench or $FUNCTRAX_BENCH_VENV, which the next run uses again.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

venv="${FUNCTRAX_BENCH_VENV:-$root/.venv-bench}"

# PyTorch's builds for CPUs are a tenth of its default ones; pip prefers them where it sees them.
cpu_wheels="https://download.pytorch.org/whl/cpu"
if curl --silent --fail --head --max-time 10 "$cpu_wheels/" >/dev/null 2>&1; then
  export PIP_EXTRA_INDEX_URL="${PIP_EXTRA_INDEX_URL:-} $cpu_wheels"
fi

prepare_environment bench
if [ ! -e "$venv/.functrax-bench-optional" ]; then
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check drjit ||
    echo "note: no Dr.Jit; its column stays empty" >&2
  touch "$venv/.functrax-bench-optional"
fi
cd "$root"
exec "$venv/bin/python" -m benchmarks "$@"
