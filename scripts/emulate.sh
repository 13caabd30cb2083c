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
# aarch64 needs root and debootstrap the first time, which make a Debian with Python in
# build/aarch64, or $FUNCTRAX_EMULATED. The extension is built if aarch64-linux-gnu-g++ is there;
# FUNCTRAX_NATIVE=0 does without.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

processor="${1:-}"
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- -q -p no:cacheprovider tests/programs/test_smoke.py
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
export FUNCTRAX_CACHE_DIR="${FUNCTRAX_CACHE_DIR:-$scratch}" # what is compiled is for no other machine

emulate_x86_64() {
  prepare_environment test
  cd "$root"
  export QEMU_CPU="${QEMU_CPU:-max}" FUNCTRAX_CPU="${FUNCTRAX_CPU-x86-64-v2}"
  qemu-x86_64 "$venv/bin/python" -m pytest "$@"
}

# A Debian with Python, unpacked but not set up, which takes no emulation.
make_system() {
  local package
  rm -rf "$system"
  mkdir -p "$place"
  debootstrap --arch=arm64 --foreign --variant=minbase --include=python3,libpython3-dev,libstdc++6 \
    "${FUNCTRAX_DEBIAN:-bookworm}" "$system" >"$place/debootstrap.log"
  for package in "$system"/var/cache/apt/archives/*.deb; do
    dpkg-deb -x "$package" "$system"
  done
}

# The packages that the tests need, made for that processor.
make_packages() {
  rm -rf "$packages"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --target "$packages" \
    --platform manylinux2014_aarch64 --platform manylinux_2_27_aarch64 \
    --platform manylinux_2_28_aarch64 --python-version "$version" --only-binary=:all: \
    numpy llvmlite ml_dtypes pytest
}

# The extension, in a copy of the checkout.
make_extension() {
  local built="$place/extension"
  "$venv/bin/python" -c 'import cmake, pybind11' 2>/dev/null ||
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check cmake pybind11
  cmake -S "$root" -B "$built" -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux \
    -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
    -DPYBIND11_USE_CROSSCOMPILING=ON -DPython_INCLUDE_DIR="$system/usr/include/python$version" \
    -DCMAKE_CXX_FLAGS="-isystem $system/usr/include" \
    -DPYTHON_MODULE_EXTENSION=".cpython-${version/./}-aarch64-linux-gnu.so" \
    -Dpybind11_DIR="$("$venv/bin/python" -m pybind11 --cmakedir)" >"$place/build.log" 2>&1
  cmake --build "$built" -j2 >>"$place/build.log"
  cp "$built"/functrax/backends/native/_native.*.so "$place/copy/functrax"
}

emulate_aarch64() {
  place="${FUNCTRAX_EMULATED:-$root/build/aarch64}"
  system="$place/system" packages="$place/packages"
  prepare_environment test
  export PATH="$venv/bin:$PATH"
  compgen -G "$system/usr/bin/python3.*" >/dev/null || make_system
  version="$(basename "$(readlink "$system/usr/bin/python3")")"
  version="${version#python}"
  [ -d "$packages/llvmlite" ] || make_packages
  rm -rf "$place/copy"
  mkdir "$place/copy"
  cp -r "$root/functrax" "$root/tests" "$root/pyproject.toml" "$place/copy"
  rm -f "$place/copy"/functrax/_native.*.so
  if [ "${FUNCTRAX_NATIVE:-1}" != 0 ] && command -v aarch64-linux-gnu-g++ >/dev/null; then
    make_extension
  fi
  cd "$place/copy"
  export PYTHONPATH="$place/copy:$packages"
  qemu-aarch64 -L "$system" "$system/usr/bin/python$version" -m pytest "$@"
}

case "$processor" in
  x86_64 | aarch64) "emulate_$processor" "$@" ;;
  *)
    echo "usage: scripts/emulate.sh x86_64|aarch64 [arguments of pytest]" >&2
    exit 2
    ;;
esac
