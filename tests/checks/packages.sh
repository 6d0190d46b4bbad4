#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# packages.sh SOURCE: checks that cmake names all missing packages in one error, and builds Release
# if nobody gave a type.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=$(PKG_CONFIG_LIBDIR=$work timeout 300 cmake -S "$1" -B "$work/build" -G Ninja -DKOLO_TESTS=OFF -DKOLO_CUDA=OFF 2>&1) &&
    { echo "FAIL: cmake succeeded without the libraries"; exit 1; }
[[ $(tr -s ' \n' ' ' <<<"$out") == *'packages that kolo needs are missing: libhwloc-dev libuv1-dev libjansson-dev libxxhash-dev. script/bootstrap'* ]] ||
    { echo "FAIL: $out"; exit 1; }
grep -q '^CMAKE_BUILD_TYPE:STRING=Release$' "$work/build/CMakeCache.txt" ||
    { echo "FAIL: without CMAKE_BUILD_TYPE: $(grep CMAKE_BUILD_TYPE "$work/build/CMakeCache.txt")"; exit 1; }
echo "the build names all missing packages"
