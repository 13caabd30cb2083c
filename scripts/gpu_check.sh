#!/usr/bin/env bash
# Checks functrax on the GPU of this machine in ten minutes, and writes a report: what passed there,
# and how fast its rows are beside JAX and PyTorch, if these are there.
#
#     bash scripts/gpu_check.sh [report.md]
#     FUNCTRAX_CUDA_DRIVER=simulated bash scripts/gpu_check.sh --quick   # its logic, without a GPU
#
# It makes a virtual environment, .venv-gpu or $FUNCTRAX_VENV, which sees the packages of $PYTHON
# (JAX and PyTorch among them); what is missing is installed if there is a network. With --as-is it
# makes none and takes $PYTHON, which has pytest, and the extension in this checkout (built on
# another machine, say). The seconds of each step are bounded, and a step that fails leaves the next
# ones in: the report says so, and the exit status is that of the worst.
set -uo pipefail
export FUNCTRAX_VENV="${FUNCTRAX_VENV:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.venv-gpu}"
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

quick=false as_is=false
while [[ "${1:-}" == --* ]]; do
  case "$1" in
    --quick) quick=true ;;
    --as-is) as_is=true ;;
    *) echo "usage: scripts/gpu_check.sh [--quick] [--as-is] [report.md]" >&2 && exit 2 ;;
  esac
  shift
done
report="$(realpath -m "${1:-$root/gpu_report.md}")"
parent="$(command -v "$(find_python)")"
python="$venv/bin/python"
status=0

# Seconds of the tests of programs, those of all else, and of the benchmarks; 60 are left for the set-up.
suite_limit=240 more_limit=60 library_limit=60 benchmark_limit=240
suite=(tests/programs tests/nn tests/linalg tests/lax)
more=(tests/random tests/transforms)
if $quick; then
  suite=(tests/programs/test_smoke.py) more=() benchmark_limit=120
fi

set_up() {
  if $as_is; then
    python="$parent"
    export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
    "$python" -c 'from functrax import _native; import pytest'
    return
  fi
  "$python" -c '' 2>/dev/null || make_venv || return
  local packages
  packages="$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" || return
  # What the parent has is seen, behind what is installed here.
  "$parent" -c 'import sys; print(*[p for p in sys.path if p.endswith("-packages")], sep="\n")' \
    >"$packages/parent.pth" || return
  [ "$(cat "$venv/.functrax-gpu" 2>/dev/null)" != "$(install_stamp)" ] || return 0
  "$python" -m pip install --quiet --disable-pip-version-check -e "$root[test]" ||
    "$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps \
      --no-build-isolation -e "$root" || return
  (cd / && "$python" -c 'from functrax import _native; import pytest') || return
  install_stamp >"$venv/.functrax-gpu"
}

# A step of the report: a title, a limit in seconds, a command.
step() {
  local title="$1" limit="$2" begin=$SECONDS log code
  shift 2
  log="$(mktemp)"
  echo "$title ..." >&2
  timeout --kill-after=10 "$limit" "$@" >"$log" 2>&1
  code=$?
  {
    echo
    echo "## $title"
    echo
    case $code in
      0) echo "Passed in $((SECONDS - begin)) s." ;;
      124 | 137) echo "**Not done after $limit s.**" ;;
      *) echo "**Failed** with status $code after $((SECONDS - begin)) s." ;;
    esac
    echo
  } >>"$report"
  case "$title" in
    Benchmarks*) cat "$log" >>"$report" ;;
    *) { echo '```'; grep -v '^[.sxF]* *\[' "$log" | tail -n 60; echo '```'; } >>"$report" ;;
  esac
  rm -f "$log"
  [ $code -eq 0 ] || status=1
}

look() {
  local driver="${FUNCTRAX_CUDA_DRIVER:-libcuda}"
  "$python" - <<'PY' || return
import functrax
with functrax.backend("cuda"):
    x = functrax.jit(lambda x: x * 2 + 1)(20.5)
    assert float(x) == 42.0 and x.device.platform == "gpu", (x, x.device)
print("functrax", functrax.__version__, "runs a kernel")
PY
  for name in jax torch; do
    "$python" -c "import $name; print('$name', $name.__version__)" 2>/dev/null || echo "$name is not there"
  done
  echo "driver: $driver"
  if [ "$driver" = libcuda ]; then
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv || return
  fi
}

tests() {
  FUNCTRAX_BACKEND=cuda "$python" -m pytest -q -p no:cacheprovider -p no:benchmark --maxfail=40 \
    --numprocesses "$($quick && echo 1 || nproc)" "$@"
}

# What cuFFT, cuSOLVER and cuBLAS compute, where they are: who does, and the tests of it.
libraries() {
  export FUNCTRAX_CUDA_LIBRARIES=on
  "$python" - <<'PY' && tests tests/fft tests/linalg
import functrax, functrax.numpy as jnp

def f(x):
    return jnp.fft.fft(x), jnp.linalg.cholesky(x), jnp.linalg.solve(x, x), jnp.linalg.qr(x)

with functrax.backend("cuda"):
    text = str(functrax.explain(f)(jnp.eye(4)))
print(*[x for x in text.splitlines() if " by cu" in x or " on the host, " in x], sep="\n")
PY
}

export -f look tests libraries
export python quick

cd "$root"
{
  echo "# functrax on a GPU"
  echo
  echo "$(date -u +'%Y-%m-%d %H:%M') UTC, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)" \
    "$($quick && echo ', a quick run')"
} >"$report"
set_up || { echo "The set-up failed." | tee -a "$report" >&2; exit 1; }
step "The machine" 60 bash -c look
if [ $status -eq 0 ]; then
  step "Tests on the device: ${suite[*]}" $suite_limit bash -c 'tests "$@"' tests "${suite[@]}"
  [ ${#more[@]} -eq 0 ] ||
    step "More tests: ${more[*]}" $more_limit bash -c 'tests "$@"' tests "${more[@]}"
  $quick || step "Tests of NVIDIA's libraries" $library_limit bash -c libraries
  [ "${FUNCTRAX_CUDA_DRIVER:-libcuda}" != libcuda ] ||
    step "Programs in C" 60 "$python" -m tests.aot.gpu_check
  step "Loops and branches that the GPU decides" 60 "$python" -m tests.backends.cuda.graphs.on_gpu
  step "Benchmarks" $benchmark_limit "$python" -m benchmarks.gpu $($quick && echo --quick)
fi
echo "written: $report" >&2
exit $status
