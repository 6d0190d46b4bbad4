# SPDX-License-Identifier: Apache-2.0
# kolo_flags: what all of the project's own code is compiled with.
add_library(kolo_flags INTERFACE)
target_compile_options(kolo_flags INTERFACE
    -ffp-contract=off -fno-strict-aliasing
    -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wcast-qual
    -Wcast-align -Wwrite-strings -Wundef -Wformat=2 -Wvla -Wnull-dereference -Wswitch-enum
    -Wimplicit-fallthrough
    # Outputs are written only on success, which gcc -O3 takes for uninitialised or dangling use; and
    # messages are cut on purpose.
    $<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<C_COMPILER_ID:GNU>:-Wno-dangling-pointer>
    $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>)
target_compile_definitions(kolo_flags INTERFACE _GNU_SOURCE)
target_include_directories(kolo_flags INTERFACE
    ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/generated)

# Criterion's assertion macros do not survive the conversion warnings, so tests go without these two.
add_library(kolo_strict INTERFACE)
target_compile_options(kolo_strict INTERFACE -Wconversion -Wsign-conversion)

if(KOLO_WERROR)
    target_compile_options(kolo_flags INTERFACE -Werror)
endif()
if(KOLO_SANITIZE)
    # The sanitizers' own branches make gcc see null pointers where there are none.
    target_compile_options(kolo_flags INTERFACE -fsanitize=${KOLO_SANITIZE} -fno-omit-frame-pointer
        -fno-sanitize-recover=all -Wno-null-dereference)
    target_link_options(kolo_flags INTERFACE -fsanitize=${KOLO_SANITIZE})
    if(KOLO_FUZZ)
        target_compile_options(kolo_flags INTERFACE -fsanitize=fuzzer-no-link)
    endif()
else()
    # Some compilers define it by themselves (Ubuntu's, Gentoo's), some builders by CMAKE_C_FLAGS (Fedora's): then theirs stands.
    include(CheckCSourceCompiles)
    set(CMAKE_REQUIRED_FLAGS -O2)
    check_c_source_compiles("#ifndef _FORTIFY_SOURCE\n#error none\n#endif\nint main(void) { return 0; }" KOLO_IS_FORTIFIED)
    unset(CMAKE_REQUIRED_FLAGS)
    if(NOT KOLO_IS_FORTIFIED)
        target_compile_definitions(kolo_flags INTERFACE $<$<CONFIG:Release>:_FORTIFY_SOURCE=2>)
    endif()
    target_compile_options(kolo_flags INTERFACE -fstack-protector-strong)
endif()
