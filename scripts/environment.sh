# Sourced by the other scripts: prepare_environment EXTRA... makes a virtual environment that has
# functrax, installed from this checkout, and the dependencies of some extras.
#
# The environment is .venv in the checkout, or $FUNCTRAX_VENV. The install is an editable one, so
# Python sources are always current; it is repeated only when something that it depends on (the
# dependencies, the C++ sources, the place of the checkout) has changed since the last time.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="${FUNCTRAX_VENV:-$root/.venv}"
# The release of Debian that has a Python.
declare -A debian_of=([3.11]=bookworm [3.13]=trixie [3.14]=forky [3.15]=forky)

find_python() {
  local candidate candidates=(python3 python3.{15,14,13,12,11,10})
  [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
  for candidate in "${candidates[@]}"; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "functrax needs Python 3.10 or newer${PYTHON:+, which $PYTHON is not}; set PYTHON to one" >&2
  return 1
}

make_venv() {
  local python
  python="$(find_python)"
  echo "making a virtual environment in $venv"
  if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv --clear "$venv"
    return
  fi
  # Debian splits ensurepip off into python3-venv: the system's pip can stand in for it.
  "$python" -m venv --clear --without-pip "$venv"
  "$python" -m pip --python "$venv/bin/python" install --quiet pip
}

# What the install depends on, as one short text.
install_stamp() {
  echo "$root"
  (cd "$root" && cat pyproject.toml CMakeLists.txt functrax/backends/native/* | cksum)
}

prepare_environment() {
  local extra missing=()
  if ! "$venv/bin/python" -c '' 2>/dev/null; then
    make_venv
  fi
  for extra in "$@"; do
    [ "$(cat "$venv/.functrax-$extra" 2>/dev/null)" = "$(install_stamp)" ] || missing+=("$extra")
  done
  [ "${#missing[@]}" -gt 0 ] || return 0
  echo "installing functrax with the dependencies for: ${missing[*]}"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    -e "$root[$(IFS=, && echo "${missing[*]}")]"
  for extra in "${missing[@]}"; do
    install_stamp >"$venv/.functrax-$extra"
  done
  if ! (cd / && "$venv/bin/python" -c 'from functrax import _native') 2>/dev/null; then
    echo "note: no C++ extension (is there a C++ compiler?); functrax runs without it, slowly" >&2
  fi
}
