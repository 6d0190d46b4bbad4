#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# consumer.sh BUILD COMPILER...: installs kolo into an empty folder and moves that. Then builds and
# runs a program outside the tree that finds it by pkg-config and by find_package, one of a project
# that includes kolo's, and the README's program with the README's commands.
set -eu
build=$1 cc=("${@:2}") source=$(cd "$(dirname "$0")/../.." && pwd)
cmake_cc=$(IFS=';' && echo "${cc[*]}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(umask 077 && DESTDIR=$work/stage cmake --install "$build" --prefix /usr >/dev/null)
closed=$(find "$work/stage/usr" -type d ! -perm 755 | head -3)
[[ -z $closed ]] || { echo "FAIL: installed under umask 077, closed to others: $closed"; exit 1; }
mv "$work/stage/usr" "$work/kolo"
cat >"$work/one.c" <<'C'
#include <kolo/kolo.h>
#include <stdio.h>
#include <string.h>
static kolo_status rank_main(struct kolo_comm *comm, void *arg)
{
    int sum = kolo_rank(comm);
    (void)arg;
    kolo_status status = kolo_allreduce(comm, &sum, &sum, 1, KOLO_INT32, KOLO_SUM, NULL, NULL);
    if (status == KOLO_OK && kolo_rank(comm) == 0)
        printf("%d\n", sum);
    return status;
}
int main(void)
{
    return strcmp(kolo_version(), KOLO_VERSION) != 0 || kolo_run_threads(3, NULL, rank_main, NULL) != KOLO_OK;
}
C
# `man` finds each function by its name, without an index.
man=$work/kolo/share/man
for function in $(sed -n '/^\.SH NAME/,/^\.SH SYNOPSIS/p' "$source"/docs/man/*.3 | grep -oE 'kolo_[a-z0-9_]+'); do
    page=$man/man3/$function.3
    [[ -e $page ]] || { echo "FAIL: man $function: there is no $page"; exit 1; }
    to=$(sed -n 's/^\.so //p' "$page")
    grep -q "^\.SH NAME" "$man/${to:-man3/$function.3}" || { echo "FAIL: man $function leads to no page: $to"; exit 1; }
done
[[ $(cat "$man/man3/kolo_recv.3") == ".so man3/kolo_allreduce.3" ]] || { echo "FAIL: man kolo_recv"; exit 1; }

flags=() ; grep -q 'KOLO_SANITIZE:STRING=..*' "$build/CMakeCache.txt" &&
    flags=("-fsanitize=$(sed -n 's/^KOLO_SANITIZE:STRING=//p' "$build/CMakeCache.txt")")
lib=$(dirname "$(find "$work/kolo" -name libkolo.so)")
read -ra found <<<"$(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --libs kolo)"
"${cc[@]}" "${flags[@]}" -Wall -Wextra -Werror -pedantic "$work/one.c" -o "$work/one" "${found[@]}" -Wl,-rpath,"$lib"
[[ $("$work/one") == 3 ]] || { echo "FAIL: the program found by pkg-config"; exit 1; }

# The names that nm prints, except those of versions.
names() { awk 'NF == 3 && $3 !~ /^KOLO_/ {sub(/@.*/, "", $3); print $3}' | LC_ALL=C sort; }
# The same with libkolo.a, found by pkg-config: the program does not need libkolo.so, and may use any name that
# is not of the API.
if grep -q 'KOLO_STATIC:BOOL=ON' "$build/CMakeCache.txt"; then
    diff <(nm -g --defined-only "$lib/libkolo.a" | names) <(nm -D --defined-only "$lib/libkolo.so" | names) ||
        { echo "FAIL: libkolo.a defines (<) what libkolo.so does not export, or does not define (>) what it exports"; exit 1; }
    read -ra needed <<<"$(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --static --cflags --libs kolo | sed 's/-lkolo /-l:libkolo.a /')"
    "${cc[@]}" "${flags[@]}" -Wall -Wextra -Werror "$work/one.c" -o "$work/alone" "${needed[@]}"
    [[ $("$work/alone") == 3 ]] || { echo "FAIL: the program with libkolo.a"; exit 1; }
    ! ldd "$work/alone" | grep libkolo || { echo "FAIL: the program with libkolo.a needs libkolo.so"; exit 1; }
fi

# Each header by itself, in C and in C++; then all headers in a C++ program that is linked.
cxx=$(command -v "$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")" c++ g++ clang++ | head -1) || true
: >"$work/all.cc"
for header in "$work"/kolo/include/kolo/*.h; do
    line="#include <kolo/${header##*/}>"
    echo "$line" >>"$work/all.cc"
    echo "$line" | "${cc[@]}" -std=c11 -Wall -Wextra -Werror -pedantic -fsyntax-only -x c - "${found[@]}" ||
        { echo "FAIL: ${header##*/} alone, in C"; exit 1; }
    [[ -z $cxx ]] || echo "$line" | "$cxx" -std=c++11 -Wall -Wextra -Wshadow -Werror -pedantic -fsyntax-only -x c++ - "${found[@]}" ||
        { echo "FAIL: ${header##*/} alone, in C++"; exit 1; }
done
cat >>"$work/all.cc" <<'CC'
#include <cstdio>
static kolo_status rank_main(struct kolo_comm *comm, void *)
{
    struct kolo_mean_config mean = kolo_mean_config();
    struct kolo_detection_config config = kolo_detection_config();
    const int64_t category = 1;
    struct kolo_detection *detection = NULL;
    struct kolo_metric *metrics[2] = {NULL, NULL};
    if (kolo_dtype_bytes(KOLO_OPAQUE(sizeof mean)) != sizeof mean)
        return KOLO_ERR_INTERNAL;
    mean.size = sizeof mean;
    config.size = sizeof config;
    config.categories = &category;
    config.category_count = 1;
    kolo_status status = kolo_mean_create(&mean, &metrics[0]);
    if (status == KOLO_OK)
        status = kolo_detection_create(&config, &detection);
    metrics[1] = kolo_detection_metric(detection);
    if (status == KOLO_OK)
        status = kolo_metrics_compute(comm, metrics, 2, NULL);
    struct kolo_mean_result result{}; // as metrics.h says
    result.size = sizeof result;
    if (status == KOLO_OK)
        status = kolo_mean_result(metrics[0], &result);
    kolo_metric_destroy(metrics[0]);
    kolo_detection_destroy(detection);
    return status;
}
int main()
{
    return kolo_run_threads(2, NULL, rank_main, NULL) == KOLO_OK ? 0 : 1;
}
CC
if [[ -n $cxx ]]; then
    "$cxx" "${flags[@]}" -Wall -Wextra -Wold-style-cast -Werror -pedantic "$work/all.cc" -o "$work/all" "${found[@]}" -Wl,-rpath,"$lib"
    "$work/all" || { echo "FAIL: the C++ program"; exit 1; }
else
    echo "no C++ compiler here: headers seen in C alone"
fi

# The examples, copied to another folder and built by the commands in their heads.
mkdir "$work/examples"
cp "$source"/examples/*.[ch] "$work/examples"
: | "${cc[@]}" "${flags[@]}" -shared -x c - -o "$work/libz.so" -lz 2>/dev/null || echo "no zlib for ${cc[*]} here: fashion-* are not built"
for example in bandwidth uneven detect-eval fashion-train fashion-eval; do
    read -ra line <<<"$(sed -n "s,^//   cc \\(.* -o $example .*\\),\\1,p" "$work/examples/$example.c")"
    [[ " ${line[*]} " != *" -lz "* || -e $work/libz.so ]] || continue
    (cd "$work/examples" && "${cc[@]}" "${flags[@]}" -Wall -Wextra -Werror "${found[@]}" -Wl,-rpath,"$lib" "${line[@]}") && [[ -x $work/examples/$example ]] ||
        { echo "FAIL: $example is not built by its head's command"; exit 1; }
done
cmp <("$work/examples/detect-eval" --images 9) <("$work/kolo/bin/kolorun" -np 3 "$work/examples/detect-eval" --images 9 | sed 's/^\[0\] //') ||
    { echo "FAIL: detect-eval outside the tree"; exit 1; }

cat >"$work/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(outside C)
set(PACKAGE_VERSION 9.8.7)
find_package(kolo 0.1 QUIET COMPONENTS none)
if(kolo_FOUND)
    message(FATAL_ERROR "kolo has a component 'none'")
endif()
find_package(kolo 0.1 REQUIRED)
if(NOT PACKAGE_VERSION STREQUAL "9.8.7")
    message(FATAL_ERROR "find_package(kolo) sets PACKAGE_VERSION to ${PACKAGE_VERSION}")
endif()
add_executable(two one.c)
target_link_libraries(two kolo::kolo)
if(TARGET kolo::kolo_static)
    add_executable(alone one.c)
    target_link_libraries(alone kolo::kolo_static)
endif()
CMAKE
cmake -S "$work" -B "$work/build" -DCMAKE_C_COMPILER="$cmake_cc" -DCMAKE_PREFIX_PATH="$work/kolo" \
    -DCMAKE_C_FLAGS="${flags[*]}" >"$work/log" 2>&1 && cmake --build "$work/build" >>"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
[[ $("$work/build/two") == 3 ]] || { echo "FAIL: the program found by find_package"; exit 1; }
if [[ -e $work/build/alone ]]; then
    [[ $("$work/build/alone") == 3 ]] || { echo "FAIL: the program of find_package with libkolo.a"; exit 1; }
    ! ldd "$work/build/alone" | grep libkolo || { echo "FAIL: it needs libkolo.so"; exit 1; }
fi

# A project that includes kolo's, as FetchContent does too: kolo's sources and generated files are then not
# in the top folders. With make, if there is one, as cmake chooses by itself: the static library is built first,
# of which make must know the objects. Without optimisation and backends, since only the build itself is tried; so one
# preset is enough (TEST_SHORT). Its fast arithmetic is not for kolo, which refuses to be compiled with it.
including() {
    local headers generator=Ninja flags="-O0 -ffast-math -ffinite-math-only -funsafe-math-optimizations"
    mkdir "$work/including"
    cat >"$work/including/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(including C)
add_subdirectory($source kolo EXCLUDE_FROM_ALL)
if(KOLO_TESTS)
    message(FATAL_ERROR "kolo's tests are part of another project")
endif()
add_executable(three ../one.c)
target_link_libraries(three kolo::kolo)
CMAKE
    # clang would need lld for this.
    [[ $("${cc[@]}" --version) == *clang* ]] || flags+=" -flto=auto -ffat-lto-objects"
    command -v make >/dev/null && generator="Unix Makefiles"
    cmake -S "$work/including" -B "$work/including/build" -G "$generator" -DCMAKE_C_COMPILER="$cmake_cc" -DCMAKE_C_FLAGS="$flags" \
        -DCMAKE_INSTALL_LIBDIR=/opt/lib -DCMAKE_INSTALL_INCLUDEDIR=include/kolo-0.1 -DCMAKE_INSTALL_PREFIX=/opt/base \
        -DKOLO_VECTORS=OFF -DKOLO_CUDA=OFF -DKOLO_RDMA=OFF -DKOLO_COCO=OFF >"$work/log" 2>&1 &&
        cmake --build "$work/including/build" -j2 --target kolo_static >>"$work/log" 2>&1 &&
        cmake --build "$work/including/build" -j2 --target three >>"$work/log" 2>&1 ||
        { tail -40 "$work/log"; echo "FAIL: a project that includes kolo's"; exit 1; }
    [[ $("$work/including/build/three") == 3 ]] || { echo "FAIL: the program of a project that includes kolo's"; exit 1; }
    # What would be installed where the folders are not the usual ones.
    headers=$(PKG_CONFIG_PATH=$work/including/build/kolo/generated pkg-config --cflags kolo)
    [[ $headers == "-I/opt/base/include/kolo-0.1 " || $headers == "-I/opt/base/include/kolo-0.1" ]] ||
        { echo "FAIL: the headers by kolo.pc, with an absolute folder of libraries: $headers"; exit 1; }
    grep -rqF '/include/kolo-0.1"' "$work"/including/build/kolo/CMakeFiles/Export/ ||
        { echo "FAIL: the headers by find_package, in a folder of their own"; exit 1; }
    diff <(nm -g --defined-only "$(find "$work/including/build" -name libkolo.a)" | names) \
        <(nm -D --defined-only "$(find "$work/including/build" -name 'libkolo.so.*.*')" | names) ||
        { echo "FAIL: libkolo.a with optimisation at link time defines other names (<) than libkolo.so (>)"; exit 1; }
    ! nm "$(find "$work/including/build" -name 'libkolo.so.*.*')" | grep set_fast_math ||
        { echo "FAIL: libkolo.so makes subnormals zeros when it is loaded"; exit 1; }
}
[[ ${TEST_SHORT-0} == 1 ]] || including

# The README's program and commands, taken from the README.
sed -n '/^```c$/,/^```$/{/^```/d;p}' "$source/README.md" >"$work/program.c"
"${cc[@]}" "${flags[@]}" -Wall -Wextra -Werror "$work/program.c" -o "$work/program" "${found[@]}" -Wl,-rpath,"$lib"
[[ $("$work/program") == "rank 0 of 1: 1" ]] || { echo "FAIL: the README's program alone"; exit 1; }
ranks=$("$work/kolo/bin/kolorun" -np 3 "$work/program" | sort)
[[ $ranks == "$(printf '[%d] rank %d of 3: 3\n' 0 0 1 1 2 2)" ]] || { echo "FAIL: the README's program on 3 ranks: $ranks"; exit 1; }
echo "installed, moved, found twice$([[ ${TEST_SHORT-0} == 1 ]] || echo ", included"); the README's program runs"
