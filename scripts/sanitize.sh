#!/usr/bin/env bash
# Runs the native tests with the sanitizers of GCC or Clang: `scripts/sanitize.sh` for all of them,
# or `scripts/sanitize.sh address` or `thread` for one build; further arguments go to pytest.
#
# The extension is built into a copy of the checkout in a temporary folder, and the sanitizers'
# runtime is preloaded into Python, which is not built with it. FUNCTRAX_VENV chooses the
# environment as for the other scripts.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

kinds=(address thread)
case "${1:-}" in
  address | thread)
    kinds=("$1")
    shift
    ;;
esac

if [ -z "${FUNCTRAX_VENV:-}" ]; then
  prepare_environment test
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check cmake pybind11 llvmlite
fi
export PATH="$venv/bin:$PATH"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

library() { "${CXX:-c++}" -print-file-name="lib$1.so"; }

run_tests() {
  local kind="$1" sanitize preload
  shift
  if [ "$kind" = address ]; then
    sanitize=address,undefined
    preload="$(library asan) $(library ubsan) $(library stdc++)"
  else
    sanitize=thread
    preload="$(library tsan) $(library stdc++)"
  fi
  local copy="$scratch/$kind"
  mkdir "$copy"
  cp -r "$root/functrax" "$root/tests" "$root/pyproject.toml" "$copy"
  rm -f "$copy"/functrax/_native.*.so
  cmake -S "$root" -B "$copy/build" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DFUNCTRAX_SANITIZE="$sanitize" -DPython_EXECUTABLE="$venv/bin/python" \
    -Dpybind11_DIR="$("$venv/bin/python" -m pybind11 --cmakedir)" >"$copy/build.log"
  cmake --build "$copy/build" -j2 >>"$copy/build.log"
  cp "$copy"/build/functrax/backends/native/_native.*.so "$copy/functrax"
  # What an editable install imports is the checkout, whatever the path says: here it is the copy.
  printf '%s\n' 'import sys' \
    'sys.meta_path[:] = [x for x in sys.meta_path if "ScikitBuild" not in type(x).__name__]' \
    >"$copy/sitecustomize.py"
  # The C library frees the thread-local memory of a thread that ended under locks that TSan cannot
  # see; LLVM and libgcc, which are not built with it, make their static objects without it.
  printf '%s\n' race:dl_deallocate_tls race:libllvmlite.so called_from_lib:libllvmlite.so \
    mutex:_Unwind_Find_FDE >"$copy/suppressions"
  # pytest captures what a test writes, so the sanitizers write into files.
  local log="log_path=$copy/report:halt_on_error=1:allocator_may_return_null=1"
  # Python keeps memory until it ends, so leaks are looked for by the tests, with the pool's counts.
  # NumPy's threads for products are seen by TSan, and their locks are not: it has one.
  # A process that has threads may start others after a fork here, though TSan cannot follow them.
  (cd "$copy" &&
    export LD_PRELOAD="$preload" OPENBLAS_NUM_THREADS=1 PYTHONMALLOC=malloc PYTHONPATH="$copy" &&
    export ASAN_OPTIONS="$log:detect_leaks=0" UBSAN_OPTIONS="$log:print_stacktrace=1" &&
    export TSAN_OPTIONS="$log:suppressions=$copy/suppressions:die_after_fork=0" &&
    "$venv/bin/python" -c 'import os; from functrax import _native as built
assert built.__file__.startswith(os.environ["PYTHONPATH"]), built.__file__' &&
    "$venv/bin/python" -m pytest -q -p no:cacheprovider -k "not python" \
      tests/backends/runtime tests/core/test_pytree.py tests/call_path tests/asynchronous \
      tests/eager tests/backends/test_library_calls.py "$@") ||
    { cat "$copy"/report.* 2>/dev/null || true; return 1; }
}

for kind in "${kinds[@]}"; do
  printf '\n==== %s\n' "$kind"
  run_tests "$kind" "$@"
done
