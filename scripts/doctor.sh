#!/usr/bin/env bash
# Says what is wrong with an installation of functrax: that of $PYTHON, else of this checkout's
# .venv, else of python3. Ends with 1 if something is wrong.
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

python="${PYTHON:-}"
if [ -z "$python" ]; then
  python="${FUNCTRAX_VENV:-$root/.venv}/bin/python"
  [ -x "$python" ] || python=python3
fi
if ! "$python" -c '' 2>/dev/null; then
  echo "WRONG Python: '$python' does not run; set PYTHON to one" >&2
  exit 1
fi
cd / # so that what is installed is looked at, not this checkout
if ! message="$("$python" -c 'import functrax' 2>&1)"; then
  echo "WRONG functrax: $python cannot import it"
  printf '      %s\n' "$(tail -n 1 <<<"$message")"
  echo "      $python -m pip install $root"
  exit 1
fi
exec "$python" -m functrax doctor
