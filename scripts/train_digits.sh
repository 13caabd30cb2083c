#!/usr/bin/env bash
# Runs the main job, examples/digits.py; arguments go to it. Does its own set-up.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

prepare_environment examples
cd "$root"
exec "$venv/bin/python" examples/digits.py "$@"
