#!/usr/bin/env bash
# Sets a checkout up for work on functrax: a virtual environment in .venv, or $FUNCTRAX_VENV, with
# functrax from this checkout, what the tests need, the linters, and the hooks of pre-commit.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

prepare_environment test dev
if [ -e "$root/.git" ] && [ -z "$(git -C "$root" config core.hooksPath || true)" ]; then
  (cd "$root" && "$venv/bin/pre-commit" install >/dev/null)
fi
PYTHON="$venv/bin/python" bash "$root/scripts/doctor.sh"
echo
echo "next: bash scripts/run_tests.sh tests/programs   (CONTRIBUTING.md says more)"
