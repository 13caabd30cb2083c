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
  for n in {1..64}; do places+=("every=$n"); done
  for n in {1..200}; do places+=("seed=$n"); done
fi
failed=()
for place in "${places[@]}"; do
  printf '%-14s ' "$place"
  FUNCTRAX_EAGER_STRESS="$place" "$venv/bin/python" -m pytest -q --no-header -p no:cacheprovider \
    --numprocesses auto --dist loadfile tests/eager 2>&1 | grep -E '^(FAILED|ERROR)|passed|failed|error' ||
    echo "nothing ran"
  [ "${PIPESTATUS[0]}" = 0 ] || failed+=("$place")
done
if [ "${#failed[@]}" -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo "${#places[@]} runs, all passed"
