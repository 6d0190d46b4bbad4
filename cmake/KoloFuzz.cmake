# SPDX-License-Identifier: Apache-2.0
# kolo_fuzz(NAME FOLDER LIBRARIES...): builds fuzz-NAME from tests/fuzz/fuzz_NAME.c, a libFuzzer
# target. With KOLO_FUZZ (clang; preset fuzz, script/fuzz) libFuzzer runs it. Otherwise
# tests/fuzz/fuzz_main.c does, as a test: it replays the corpus in FOLDER, and mutations of it.
if(KOLO_FUZZ AND NOT CMAKE_C_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "KOLO_FUZZ needs clang, which has libFuzzer: use the preset fuzz, or script/fuzz")
endif()
set(KOLO_FUZZ_SOURCES ${PROJECT_SOURCE_DIR}/tests/fuzz)

function(kolo_fuzz name folder)
    add_executable(fuzz-${name} ${KOLO_FUZZ_SOURCES}/fuzz_${name}.c)
    target_link_libraries(fuzz-${name} PRIVATE ${ARGN})
    if(KOLO_FUZZ)
        target_link_options(fuzz-${name} PRIVATE -fsanitize=fuzzer)
        return()
    endif()
    target_sources(fuzz-${name} PRIVATE ${KOLO_FUZZ_SOURCES}/fuzz_main.c)
    target_link_libraries(fuzz-${name} PRIVATE ZLIB::ZLIB)
    # 1000 mutations take seconds, not minutes, under a sanitizer; for longer runs: script/fuzz
    # --seconds N.
    add_test(NAME fuzz/${name} COMMAND fuzz-${name} ${folder} 1000)
    set_tests_properties(fuzz/${name} PROPERTIES LABELS unit TIMEOUT 240 ENVIRONMENT "ASAN_OPTIONS=abort_on_error=1"
        FAIL_REGULAR_EXPRESSION "ERROR: (Leak|Address)Sanitizer;runtime error: ")
endfunction()
