# SPDX-License-Identifier: Apache-2.0
# What find_package(kolo) reads: the targets kolo::kolo and kolo::kolo_static. There are no components.
include(${CMAKE_CURRENT_LIST_DIR}/kolo-targets.cmake)
foreach(component ${kolo_FIND_COMPONENTS})
    if(kolo_FIND_REQUIRED_${component})
        set(kolo_FOUND FALSE)
        set(kolo_NOT_FOUND_MESSAGE "kolo has no component ${component}")
    endif()
endforeach()
