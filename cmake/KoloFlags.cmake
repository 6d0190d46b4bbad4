# SPDX-License-Identifier: Apache-2.0
# Compiler flags. kolo_flags: of all code of the project. kolo_strict: more warnings, for everything
# but the tests.
add_library(kolo_flags INTERFACE)
# Results have the same bits on every processor only by IEEE 754's arithmetic, with NaN, infinities and
# subnormals, whatever the flags of the builder or of a project that includes this one say. clang sets
# -ffp-contract by -fno-fast-math; gcc keeps what was given by a name of its own. The linker gets these
# flags too: else gcc adds crtfastmath.o, which makes subnormals zeros, as it does for each -Ofast that no
# other -O follows.
set(KOLO_IEEE_754 -fno-fast-math -ffp-contract=off)
foreach(option -fno-finite-math-only -fno-unsafe-math-optimizations -fsigned-zeros -fno-reciprocal-math
    -fno-associative-math)
    list(APPEND KOLO_IEEE_754 $<$<C_COMPILER_ID:GNU>:${option}>)
endforeach()
target_link_options(kolo_flags INTERFACE ${KOLO_IEEE_754})
set(given "${CMAKE_C_FLAGS}")
foreach(config ${CMAKE_BUILD_TYPE} ${CMAKE_CONFIGURATION_TYPES})
    string(TOUPPER ${config} config)
    string(APPEND given " ${CMAKE_C_FLAGS_${config}}")
endforeach()
if(given MATCHES "-Ofast")
    target_link_options(kolo_flags INTERFACE -O3)
endif()
target_compile_options(kolo_flags INTERFACE
    ${KOLO_IEEE_754} -fno-strict-aliasing
    -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wcast-qual
    -Wcast-align -Wwrite-strings -Wundef -Wformat=2 -Wvla -Wnull-dereference -Wswitch-enum
    -Wimplicit-fallthrough
    # Output parameters are written only on success, about which gcc -O3 gives false warnings of
    # uninitialised or dangling use. Messages are truncated on purpose.
    $<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<C_COMPILER_ID:GNU>:-Wno-dangling-pointer>
    $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>)
target_compile_definitions(kolo_flags INTERFACE _GNU_SOURCE)
target_include_directories(kolo_flags INTERFACE
    ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/generated)

# Criterion's assertion macros cause these warnings, so tests are compiled without them.
add_library(kolo_strict INTERFACE)
target_compile_options(kolo_strict INTERFACE -Wconversion -Wsign-conversion)

if(KOLO_WERROR)
    target_compile_options(kolo_flags INTERFACE -Werror)
endif()
if(KOLO_SANITIZE STREQUAL "delays")
    target_compile_options(kolo_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer -Wno-null-dereference
        $<$<C_COMPILER_ID:GNU>:-Wno-tsan>)
    target_link_libraries(kolo_flags INTERFACE kolo_delays) # tests/delays
elseif(KOLO_SANITIZE)
    # The branches that sanitizers insert make gcc warn of null pointers that cannot occur.
    target_compile_options(kolo_flags INTERFACE -fsanitize=${KOLO_SANITIZE} -fno-omit-frame-pointer
        -fno-sanitize-recover=all -Wno-null-dereference)
    target_link_options(kolo_flags INTERFACE -fsanitize=${KOLO_SANITIZE})
    if(KOLO_FUZZ)
        target_compile_options(kolo_flags INTERFACE -fsanitize=fuzzer-no-link)
    endif()
else()
    # Some compilers define _FORTIFY_SOURCE themselves (those of Ubuntu and Gentoo), some builders
    # do so by CMAKE_C_FLAGS (Fedora); their value is kept.
    include(CheckCSourceCompiles)
    set(CMAKE_REQUIRED_FLAGS -O2)
    check_c_source_compiles("#ifndef _FORTIFY_SOURCE\n#error none\n#endif\nint main(void) { return 0; }" KOLO_IS_FORTIFIED)
    unset(CMAKE_REQUIRED_FLAGS)
    if(NOT KOLO_IS_FORTIFIED)
        target_compile_definitions(kolo_flags INTERFACE $<$<CONFIG:Release>:_FORTIFY_SOURCE=2>)
    endif()
    target_compile_options(kolo_flags INTERFACE -fstack-protector-strong)
endif()
