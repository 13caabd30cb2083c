#!/usr/bin/env bash
# Builds the site of docs/ in docs/site: every code block of the pages runs and says what the page
# says, Sphinx makes the pages with warnings as errors, and each link leads somewhere. Needs no
# network once the environment is there, which it makes (.venv, or $FUNCTRAX_VENV).
# `--pages` leaves the code blocks out.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

prepare_environment docs
cd "$root"
if [ "${1:-}" != --pages ]; then
  prepare_environment test
  "$venv/bin/python" -m pytest --numprocesses auto -q tests/test_docs.py
fi
"$venv/bin/python" -m sphinx -b html -W --keep-going -q docs docs/site
"$venv/bin/python" scripts/check_links.py docs/site
echo "docs/site/index.html"
