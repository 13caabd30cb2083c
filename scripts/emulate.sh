#!/usr/bin/env bash
# Runs tests on an emulated processor, with QEMU's user mode: `scripts/emulate.sh x86_64` or
# `scripts/emulate.sh aarch64`, by default the fifty small programs of tests/programs/test_smoke.py;
# further arguments go to pytest.
#
# x86_64 runs in the usual environment, with all that QEMU emulates: no AVX-512. An emulator shows
# the /proc/cpuinfo of the machine below it, so FUNCTRAX_CPU, by default x86-64-v2, says which
# kernels to write. With FUNCTRAX_CPU= that file is believed: kernels then call the C library, from
# farther away than 2 GB, for what LLVM knows to be missing. QEMU_CPU chooses another processor.
#
# aarch64 builds a wheel of this checkout for Debian's Python 3.11, or for 3.13, 3.14 or 3.15 as in
# `scripts/emulate.sh aarch64-3.15`, installs it with what it depends on, and runs the tests on what
# is installed; `--core` in place of arguments is all that scripts/test_installed.sh runs. The first
# time it needs root and debootstrap, which make a Debian in build/aarch64, or $FUNCTRAX_EMULATED;
# the extension needs aarch64-linux-gnu-g++, and FUNCTRAX_NATIVE=0 does without.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

processor="${1:-}"
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- tests/programs/test_smoke.py
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1
unset PYTHONDONTWRITEBYTECODE # an emulated Python takes a minute to compile what it imports

emulate_x86_64() {
  prepare_environment test
  cd "$root"
  export QEMU_CPU="${QEMU_CPU:-max}" FUNCTRAX_CPU="${FUNCTRAX_CPU-x86-64-v2}"
  export FUNCTRAX_CACHE_DIR="${FUNCTRAX_CACHE_DIR:-$scratch}" # kernels are for no other machine
  qemu-x86_64 "$venv/bin/python" -m pytest -q -p no:cacheprovider "$@"
}

# A Debian with Python, unpacked but not set up, which takes no emulation. The last argument is as in
# scripts/run_tests_on.sh.
make_system() {
  local package
  rm -rf "$place"
  mkdir -p "$place"
  debootstrap --arch=arm64 --foreign --variant=minbase \
    --include="python$version,libpython$version-dev,libstdc++6" \
    "${debian_of[$version]}" "$system" http://deb.debian.org/debian sid >"$place/debootstrap.log"
  for package in "$system"/var/cache/apt/archives/*.deb; do
    dpkg-deb -x "$package" "$system"
  done
}

# What builds and installs, on this machine; the backend, which is Python alone, is emulated.
make_tools() {
  "$tools/bin/python" -c '' 2>/dev/null || venv="$tools" make_venv
  "$tools/bin/python" -m pip install cmake ninja
  [ -d "$place/backend" ] ||
    "$tools/bin/python" -m pip install --target "$place/backend" scikit-build-core pybind11
}

# An environment whose Python is emulated, as are the processes that it starts by sys.executable.
make_environment() {
  rm -rf "$environment"
  mkdir -p "$environment/bin" "$site"
  echo "home = $system/usr/bin" >"$environment/pyvenv.cfg"
  printf '%s\n' '#!/bin/sh' \
    "exec qemu-aarch64 -0 \"\$0\" -L '$system' '$system/usr/bin/python$version' \"\$@\"" >"$emulated"
  chmod +x "$emulated"
}

# The wheel of a copy of the checkout, which the backend builds as pip would, with the compiler and
# the CMake of this machine. Of the system's headers Python's are taken; the compiler has the others.
make_wheel() {
  local compiler=aarch64-linux-gnu-g++
  [ "${FUNCTRAX_NATIVE:-1}" != 0 ] || compiler=/bin/false
  rm -rf "$place/copy" "$place/wheel"
  mkdir -p "$place/copy" "$place/include"
  ln -sfn "$system/usr/include/aarch64-linux-gnu" "$place/include"
  (cd "$root" && cp -r CMakeLists.txt LICENSE README.md functrax pyproject.toml "$place/copy")
  rm -f "$place/copy"/functrax/_native.*.so
  (cd "$place/copy" && PATH="$tools/bin:$PATH" PYTHONPATH="$place/backend" CXX="$compiler" \
    CXXFLAGS="-isystem $place/include" "$emulated" -c '
import sys, scikit_build_core.build as backend
backend.build_wheel(sys.argv[1], {"build-dir": sys.argv[2]})' "$place/wheel" "$place/build") \
    >"$place/build.log" 2>&1 || { cat "$place/build.log" >&2 && return 1; }
  [ "$compiler" = /bin/false ] || compgen -G "$place/wheel/*-linux_aarch64.whl" ||
    { cat "$place/build.log" >&2 && echo "FAILED: the wheel has no extension" >&2 && return 1; }
}

# The wheel, what it depends on, and what its tests need, made for that processor and Python. Their
# tags say which Python; pip compares what they require with the Python that runs it.
install_wheel() {
  local platform platforms=()
  for platform in linux manylinux2014 manylinux_2_{26,27,28}; do
    platforms+=(--platform "${platform}_aarch64")
  done
  "$tools/bin/python" -m pip install --target "$site" "${platforms[@]}" --python-version "$version" \
    --no-compile --ignore-requires-python --only-binary=:all: "$place"/wheel/*.whl pytest hypothesis
}

emulate_aarch64() { # PYTHON TESTS...
  version="$1"
  shift
  [ "$1" != --core ] || shift
  place="${FUNCTRAX_EMULATED:-$root/build/aarch64}/$version"
  system="$place/system" tools="$place/tools" environment="$place/environment"
  site="$environment/lib/python$version/site-packages" emulated="$environment/bin/python"
  [ -x "$system/usr/bin/python$version" ] || make_system
  make_tools
  make_environment
  make_wheel
  install_wheel
  # QEMU 7 computes OpenBLAS's kernels for SVE wrong, with which NumPy multiplies what is expected.
  OPENBLAS_CORETYPE=ARMV8 PYTHON="$emulated" bash "$root/scripts/test_installed.sh" "$@"
}

case "$processor" in
  x86_64) emulate_x86_64 "$@" ;;
  aarch64) emulate_aarch64 3.11 "$@" ;;
  aarch64-3.*) emulate_aarch64 "${processor#aarch64-}" "$@" ;;
  *)
    echo "usage: scripts/emulate.sh x86_64|aarch64[-PYTHON] [arguments of pytest]" >&2
    exit 2
    ;;
esac
