#!/usr/bin/env bash
# Runs the tests of eager mode while what is recorded is cut at other places than usual (docs/eager.md):
# after every n-th operation for each n of 1 to 64, and at random by 200 seeds; or where the
# arguments say: `scripts/stress_eager.sh every=3 seed=7,collect`. Does its own set-up.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

prepare_environment test
cd "$root"
places=("$@")
if [ $# -eq 0 ]; then
  places=(every={1..64} seed={1..200})
fi
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
# Runs the tests at some places, and says what came of it; what one place has compiled is there for
# the next.
run_at() {
  printf '%s\n%s\n' "$*" "$("$venv/bin/python" -m pytest -q --no-header -p no:cacheprovider \
    tests/eager --places="$*" 2>&1 | grep -E '^(FAILED|ERROR|INTERNALERROR|E |[a-z_/]+\.py:[0-9]+:)|passed|failed|error' ||
    echo "FAILED: nothing ran")"
}
export -f run_at
export venv
printf '%s\n' "${places[@]}" | xargs -P "$(nproc)" -n 6 bash -c 'run_at "$@"' _ | tee "$log"
if grep -qE '^(FAILED|ERROR|INTERNALERROR)| failed| error' "$log"; then
  echo "FAILED at some of ${#places[@]} places"
  exit 1
fi
echo "${#places[@]} places, all passed"
