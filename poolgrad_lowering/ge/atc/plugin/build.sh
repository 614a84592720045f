#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

# Compiles the parser plugin for ATC against an installed CANN toolkit, opens it with the toolkit's libraries, and puts
# it where ATC finds it:
#
#     sh build.sh [TOOLKIT]
#
# TOOLKIT is the toolkit's folder, by default $ASCEND_HOME_PATH, which the toolkit's set_env.sh sets. CXX is the compiler,
# by default g++; CXXFLAGS are further flags, such as -D_GLIBCXX_USE_CXX11_ABI=0.
set -eu

fail() {
  echo "build.sh: $1" >&2
  exit 1
}

source=$(cd "$(dirname "$0")" && pwd)
toolkit=${1:-${ASCEND_HOME_PATH:-}}
compiler=${CXX:-g++}
libraries=$toolkit/lib64
target=$(dirname "$source")/framework/onnx

[ -n "$toolkit" ] ||
  fail "ASCEND_HOME_PATH is not set; run '. set_env.sh' of the CANN toolkit, or name its folder: sh build.sh TOOLKIT"
for name in libgraph.so libregister.so; do
  [ -f "$libraries/$name" ] || fail "there is no $libraries/$name; '$toolkit' is not the folder of a CANN toolkit"
done
command -v "$compiler" > /dev/null ||
  fail "there is no compiler '$compiler'; install g++, or name another one by the variable CXX"

headers=
if [ -f "$toolkit/include/register/register.h" ] && [ -f "$toolkit/include/graph/operator.h" ]; then
  headers=toolkit
else
  echo "build.sh: the toolkit has no headers of GE; the plugin's own declarations are used" >&2
fi

mkdir -p "$target" || fail "cannot make the folder '$target'"
# No name of a file in this folder ends in .so before the library was opened: ATC takes all that do.
built=$(mktemp -d "$target/.build-XXXXXX") || fail "cannot write to '$target'"
trap 'rm -rf "$built"' EXIT

# shellcheck disable=SC2086 # CXXFLAGS are several words
"$compiler" -std=c++14 -O2 -Wall -Wextra -fPIC -fvisibility=hidden -fvisibility-inlines-hidden \
  -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 ${CXXFLAGS:-} \
  ${headers:+-DPOOLGRAD_TOOLKIT_HEADERS -isystem "$toolkit/include"} \
  -shared -Wl,-z,relro,-z,now,-z,noexecstack,-z,nodelete "-Wl,--version-script=$source/exports.map" \
  -o "$built/plugin" "$source/attributes.cpp" "$source/json.cpp" "$source/older_glibc.cpp" "$source/operators.cpp" \
  "$source/plugin.cpp" \
  -L"$libraries" -Wl,--no-as-needed -lgraph -lregister || fail "the plugin does not compile"
"$compiler" -o "$built/opens" "$source/opens.cpp" -ldl || fail "the program that opens the plugin does not compile"
LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$built/opens" "$built/plugin" ||
  fail "the plugin does not open with the libraries of '$libraries'; nothing is installed"

mv -f "$built/plugin" "$target/libpoolgrad_atc_plugin.so"
echo "$target/libpoolgrad_atc_plugin.so"
