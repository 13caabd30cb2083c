#!/usr/bin/env bash
# Runs the default test suite on other Pythons: `scripts/run_tests_on.sh 3.13 3.15`.
#
#   scripts/run_tests_on.sh [--thinned] [--no-extension] [--lowest] PYTHON... [-- PYTEST-ARGUMENTS]
#   scripts/run_tests_on.sh --wheel PYTHON...
#
# As root, where debootstrap can be had, Python 3.11, 3.13, 3.14 and 3.15 run in a small root of
# Debian's bookworm, trixie and forky, with Debian's own build of Python; what else is asked for, and
# without root, is `python3.N` on PATH. A root is made once, and kept in FUNCTRAX_ROOTS (by default
# ~/.cache/functrax/roots). Nothing outside of that folder is written: a root has its own copy of
# the files that git knows, and mounts that end with the run.
#
#   --wheel         no suite: builds a wheel, and one without the extension, and tries both
#                   (scripts/build_wheels.sh)
#   --thinned       the tests that depend on the interpreter, and every tenth of the others
#   --no-extension  with FUNCTRAX_NATIVE=0
#   --lowest        with the lowest versions of what functrax depends on (pyproject.toml)
#
# What could not run, because there is no such Python or its root cannot be made, is said in the
# last lines, and is no failure; a test that fails is.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
source "$here/scripts/environment.sh"
PATH="$PATH:/usr/sbin:/sbin" # where debootstrap and chroot are
roots="${FUNCTRAX_ROOTS:-$HOME/.cache/functrax/roots}"
mirror="${FUNCTRAX_DEBIAN_MIRROR:-http://deb.debian.org/debian}"

pythons=() arguments=() wheel=0 thinned=0 native=1 lowest=0
while [ $# -gt 0 ]; do
  case "$1" in
    --wheel) wheel=1 ;;
    --thinned) thinned=10 ;;
    --no-extension) native=0 ;;
    --lowest) lowest=1 ;;
    --) shift && arguments=("$@") && break ;;
    3.*) pythons+=("$1") ;;
    *) sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
  esac
  shift
done
[ "${#pythons[@]}" -gt 0 ] || pythons=(3.13 3.15)

# The lowest versions that pyproject.toml declares, as pip takes them.
lowest_versions() {
  sed -n '/^dependencies/,/\]/p' "$here/pyproject.toml" | grep -oE '[A-Za-z_]+>=[0-9.]+' | sed 's/>=/==/'
}

# What runs the suite, in a folder that holds the sources; the environment is in $2.
suite() { # PYTHON FOLDER
  local tests=scripts/run_tests.sh
  if [ "$wheel" = 1 ]; then
    echo "SOURCE_DATE_EPOCH=$(git -C "$here" log -1 --format=%ct) bash scripts/build_wheels.sh --reproducible --pure $1"
    return
  fi
  echo "export PYTHON=$1 FUNCTRAX_VENV=$2 FUNCTRAX_NATIVE=$native FUNCTRAX_THINNED=$thinned"
  echo "source scripts/environment.sh && prepare_environment test || exit 75"
  if [ "$native" = 1 ]; then
    echo "(cd / && \"\$venv/bin/python\" -c 'from functrax import _native') || exit 1"
  fi
  if [ "$lowest" = 1 ]; then
    echo "\"\$venv/bin/python\" -m pip install --quiet $(lowest_versions | tr '\n' ' ') || exit 75"
  fi
  if [ "${#arguments[@]}" -gt 0 ]; then
    printf 'bash %s' "$tests" && printf ' %q' "${arguments[@]}" && echo
  elif [ "$thinned" != 0 ]; then
    echo "bash $tests --numprocesses auto --dist loadfile -q"
  else
    echo "bash $tests"
  fi
}

# A root of Debian with a Python and a compiler; false where it cannot be made. The last argument is
# the script that debootstrap has for all of these suites; it knows newer ones by no name.
make_root() { # PYTHON ROOT
  local python="python$1" suite="${debian_of[$1]}" root="$2"
  [ -e "$root/.complete" ] && return
  command -v debootstrap >/dev/null || apt-get install -y -qq debootstrap >/dev/null 2>&1 ||
    { apt-get update -qq && apt-get install -y -qq debootstrap; } >/dev/null 2>&1 || return 1
  rm -rf "$root" && mkdir -p "$roots" || return 1
  echo "making a root of Debian's $suite in $root"
  debootstrap --variant=minbase --include="$python,$python-venv,$python-dev,g++,ca-certificates" \
    "$suite" "$root" "$mirror" sid >"$root.log" 2>&1 && touch "$root/.complete"
}

# Runs a command in a root, with the files that git knows in /functrax; mounts are the command's own.
in_root() {
  local root="$1" command="$2"
  rm -rf "$root/functrax" && mkdir -p "$root/functrax" "$root/etc/xdg"
  (cd "$here" && git ls-files -z --cached --others --exclude-standard |
    xargs -0 tar -c --ignore-failed-read) | tar -x -C "$root/functrax" || return 75
  ROOT="$root" unshare --mount bash -c '
    set -e
    for folder in proc dev sys; do mount --rbind "/$folder" "$ROOT/$folder"; done
    for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt /etc/pip.conf; do
      [ -e "$file" ] || continue
      [ -e "$ROOT$file" ] || touch "$ROOT$file"
      mount --bind "$file" "$ROOT$file"
    done
    exec chroot "$ROOT" env -u PIP_FIND_LINKS HOME=/root TMPDIR=/tmp LC_ALL=C.UTF-8 bash -c "cd /functrax; $0"
  ' "$command"
}

# Whether a Python runs in a root of Debian.
uses_root() { [ "$(id -u)" = 0 ] && [ -n "${debian_of[$1]:-}" ] && command -v apt-get >/dev/null; }

run_on() {
  local python="$1" kind="" name
  [ "$lowest" = 1 ] && kind="-lowest"
  if uses_root "$python" && make_root "$python" "$roots/python$python"; then
    in_root "$roots/python$python" "$(suite "/usr/bin/python$python" "/environment$kind")"
    return
  fi
  name="$(command -v "python$python")" && "$name" -c '' 2>/dev/null || return 75
  mkdir -p "$roots" && cd "$here" && bash -c "$(suite "$name" "$roots/environment-$python$kind")"
}

untested=() failed=()
for python in "${pythons[@]}"; do
  printf '\n==== Python %s\n' "$python"
  run_on "$python"
  case $? in
    0) ;;
    75) untested+=("$python") ;;
    *) failed+=("$python") ;;
  esac
done

printf '\n'
with=""
[ "$lowest" = 0 ] || with=" with the lowest versions"
[ "$native" = 1 ] || with="$with without the extension"
for python in "${pythons[@]}"; do
  case " ${untested[*]-} " in
    *" $python "*) result="not tested, for it or what it needs could not be had" ;;
    *) case " ${failed[*]-} " in
      *" $python "*) result=FAILED ;;
      *) result=passed ;;
    esac ;;
  esac
  echo "Python $python$with: $result"
done
[ "${#failed[@]}" -eq 0 ]
