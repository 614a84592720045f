# SPDX-License-Identifier: Apache-2.0

# Functions for the commands of noxfile.py, run in the root of the repository.

# debian COMMAND PACKAGE...: installs packages of Debian if a command is missing.
debian() {
  command -v "$1" > /dev/null || { apt-get update -qq; apt-get install --yes -qq --no-install-recommends "${@:2}"; }
}

# assemble FOLDER [TREE]: lays the package of this tree or another one out in a folder as an installation has it.
assemble() {
  rm -rf "$1"; mkdir -p "$1"; cp -r "${2:-.}"/{poolgrad_lowering,patterns} "$1"
  mv "$1/patterns" "$1/poolgrad_lowering"; cp -r "${2:-.}/runtime" "$1/poolgrad_lowering"
}

# wheel MACHINE: builds the wheel for a processor, or for any system, in build/wheels if its sources have changed.
wheel() {
  [[ "$1" != aarch64 || "$(uname -m)" == aarch64 ]] ||
    debian aarch64-linux-gnu-g++ g++-aarch64-linux-gnu libc6-dev-arm64-cross
  nox -s wheels -- python tools/wheels.py "$1"
}
