#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# link_time.sh COMPILER...: builds a library of a few small files with cmake/, as kolo's is built, with optimisation
# at link time, which a builder asks for by -flto or by CMake's own switch: by COMPILER, and by clang if it is here.
# Then runs a program that is linked with libkolo.so, one with libkolo.a, and one with kolo_core, as kolorun is.
set -eu
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/base" "$work/memory"
cp "$source/kolo.map" "$work"
cp "$source/memory/cuda_image.h" "$work/memory"
# The kernels are a stand-in for nvcc's.
touch "$work"/memory/cuda_{kernels.cu,kernels.h,job.h}
printf '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\nprintf kernels >"$2"\n' >"$work/nvcc"
chmod +x "$work/nvcc"
cat >"$work/base/half.c" <<'C'
int base_half(int value);
int base_half(int value)
{
    return value / 2;
}
C
cat >"$work/memory/answer.c" <<'C'
#include "memory/cuda_image.h"
int base_half(int value);
__attribute__((visibility("default"))) int kolo_answer(void);
int kolo_answer(void)
{
    return base_half(70) + (int)kolo_cuda_image_bytes + (kolo_cuda_image[0] == 'k' ? 0 : 1);
}
C
cat >"$work/main.c" <<'C'
int kolo_answer(void);
int main(void)
{
    return kolo_answer();
}
C
cat >"$work/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(small VERSION 0.1 LANGUAGES C)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(KOLO_STATIC ON)
if(NOT CMAKE_C_COMPILER_AR) # clang's is in a package of its own; without it CMake's switch makes no archives
    set(CMAKE_INTERPROCEDURAL_OPTIMIZATION OFF)
endif()
include(GNUInstallDirs)
find_package(Threads REQUIRED)
list(APPEND CMAKE_MODULE_PATH $source/cmake)
include(KoloFlags)
include(KoloCuda)
include(KoloLayers)
kolo_layer(base)
kolo_layer(memory)
kolo_library()
foreach(library kolo kolo_static kolo_core)
    add_executable(with_\${library} main.c)
    target_link_libraries(with_\${library} PRIVATE \${library})
endforeach()
CMAKE
# The names that nm prints, except those of versions.
names() { awk 'NF == 3 && $3 !~ /^KOLO_/ {sub(/@.*/, "", $3); print $3}' | LC_ALL=C sort; }
# built COMPILER OPTION...: with these options of cmake; COMPILER is a command, with ; between its words
built() {
    local build=$work/build status program
    rm -rf "$build"
    cmake -S "$work" -B "$build" -DCMAKE_C_COMPILER="$1" -DCMAKE_BUILD_TYPE=Release -DKOLO_NVCC="$work/nvcc" "${@:2}" \
        >"$work/log" 2>&1 && cmake --build "$build" -j2 >>"$work/log" 2>&1 ||
        { cat "$work/log"; echo "FAIL: a build by $*"; exit 1; }
    for program in "$build"/with_*; do
        "$program" && status=0 || status=$?
        [[ $status == 42 ]] || { echo "FAIL: ${program##*/} by $*: exit status $status, not 42"; exit 1; }
    done
    diff <(nm -g --defined-only "$build/libkolo.a" | names) <(nm -D --defined-only "$build/libkolo.so" | names) ||
        { echo "FAIL: by $*, libkolo.a defines other names (<) than libkolo.so (>)"; exit 1; }
}
# With env before it, the compiler is a command of more than one word, as "ccache gcc" is.
compilers=("env;$(IFS=';' && echo "$*")")
[[ $("$@" --version) == *clang* ]] || ! clang=$(command -v clang) || compilers+=("$clang")
: >"$work/empty.c"
tried=''
for compiler in "${compilers[@]}"; do
    IFS=';' read -ra words <<<"$compiler"
    "${words[@]}" -flto -shared -fPIC "$work/empty.c" -o "$work/empty.so" 2>/dev/null || continue # without its linker plugin
    built "$compiler" -DCMAKE_C_FLAGS=-flto
    built "$compiler" -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON
    tried+=" '${words[*]}'"
done
[[ -n $tried ]] || { echo "skipped: -flto links nothing here"; exit 77; }
echo "built with optimisation at link time by$tried"
