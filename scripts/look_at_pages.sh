#!/usr/bin/env bash
# Looks at the site, and at the pages of explanations and recordings, in headless Chromium (Debian's
# package chromium, or FUNCTRAX_CHROMIUM): width, contrast, errors, the keyboard. Takes five minutes;
# the pictures are left in build/screenshots. Arguments go to pytest.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

bash "$root/scripts/build_docs.sh" --pages
prepare_environment test
prepare_environment browser
cd "$root"
FUNCTRAX_SITE=docs/site "$venv/bin/python" -m pytest -m slow tests/browser "$@"
