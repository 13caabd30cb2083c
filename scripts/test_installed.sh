#!/usr/bin/env bash
# Runs the core of the tests on the functrax that a Python has installed, not on this checkout:
# `PYTHON=/some/venv/bin/python scripts/test_installed.sh`, by default `python`. It needs pytest and
# hypothesis beside functrax, and takes about a minute. Arguments take the place of the tests.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
python="${PYTHON:-python}"
core=(
  tests/programs/test_smoke.py tests/programs/test_ported.py tests/call_path
  tests/core/test_{pytree,promotion,verify,parsing}.py tests/numpy/test_indexing.py
)

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
cp -r "$root/tests" "$root/pyproject.toml" "$scratch"
cd "$scratch"
"$python" - <<'END'
import functrax

assert "site-packages" in functrax.__file__, functrax.__file__
print(functrax.__version__, functrax.__file__)
END
if ! "$python" -c 'from functrax import _native' 2>/dev/null; then
  echo "without the extension"
  export FUNCTRAX_NATIVE=0 # so that no warning, which is an error in tests, says so
fi
[ $# -gt 0 ] || set -- "${core[@]}"
FUNCTRAX_CACHE_DIR="$scratch/cache" "$python" -m pytest -q -p no:cacheprovider "$@"
