# SPDX-License-Identifier: Apache-2.0
# kolo_fuzz(NAME FOLDER LIBRARIES...): fuzz-NAME from tests/fuzz/fuzz_NAME.c, which has the form of libFuzzer's targets.
# With KOLO_FUZZ (clang; preset fuzz, script/fuzz) libFuzzer drives it, else tests/fuzz/fuzz_main.c does: ctest replays
# the corpus in FOLDER and changes it.
if(KOLO_FUZZ AND NOT CMAKE_C_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "KOLO_FUZZ needs clang, which has libFuzzer: use the preset fuzz, or script/fuzz")
endif()
set(KOLO_FUZZ_SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz)

function(kolo_fuzz name folder)
    add_executable(fuzz-${name} ${KOLO_FUZZ_SOURCES}/fuzz_${name}.c)
    target_link_libraries(fuzz-${name} PRIVATE ${ARGN})
    if(KOLO_FUZZ)
        target_link_options(fuzz-${name} PRIVATE -fsanitize=fuzzer)
        return()
    endif()
    target_sources(fuzz-${name} PRIVATE ${KOLO_FUZZ_SOURCES}/fuzz_main.c)
    target_link_libraries(fuzz-${name} PRIVATE ZLIB::ZLIB)
    # As many as take seconds, not minutes, under a sanitizer; script/fuzz --seconds N goes on for as long as it is let.
    add_test(NAME fuzz/${name} COMMAND fuzz-${name} ${folder} 1000)
    set_tests_properties(fuzz/${name} PROPERTIES LABELS unit TIMEOUT 240 ENVIRONMENT "ASAN_OPTIONS=abort_on_error=1"
        FAIL_REGULAR_EXPRESSION "ERROR: (Leak|Address)Sanitizer;runtime error: ")
endfunction()
