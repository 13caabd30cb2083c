#!/usr/bin/env bash
# Runs the default test suite; arguments go to pytest. Does its own set-up.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

prepare_environment test
cd "$root"
exec "$venv/bin/python" -m pytest "$@"
