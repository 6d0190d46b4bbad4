# SPDX-License-Identifier: Apache-2.0
# kolo_layer(NAME [LIBRARIES ...]): makes the object library kolo_NAME of all .c files in folder
# NAME, except those that KoloBackends excluded.
# kolo_library(): makes libkolo.so and libkolo.a of all layers, and the static library kolo_core for
# the tests and the programs. Of kolo_core the linker takes only the objects that a program uses; in the launcher
# none of them is the engine.
set(KOLO_LAYERS "")
set(KOLO_LAYER_LIBRARIES "")

# The compiler as a command: a builder's CC may have more words than the program, as "ccache gcc" has.
separate_arguments(KOLO_C_COMPILER UNIX_COMMAND "${CMAKE_C_COMPILER_ARG1}")
list(PREPEND KOLO_C_COMPILER ${CMAKE_C_COMPILER})

macro(kolo_layer name)
    cmake_parse_arguments(LAYER "" "" "LIBRARIES" ${ARGN})
    file(GLOB layer_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.c)
    foreach(excluded ${KOLO_EXCLUDED_SOURCES})
        list(REMOVE_ITEM layer_sources ${PROJECT_SOURCE_DIR}/${excluded})
    endforeach()
    list(APPEND layer_sources ${KOLO_GENERATED_${name}})
    add_library(kolo_${name} OBJECT ${layer_sources})
    target_link_libraries(kolo_${name} PRIVATE kolo_flags kolo_strict Threads::Threads ${LAYER_LIBRARIES})
    list(APPEND KOLO_LAYERS kolo_${name})
    list(APPEND KOLO_LAYER_LIBRARIES ${LAYER_LIBRARIES})
endmacro()

macro(kolo_library)
    set(objects "")
    foreach(layer ${KOLO_LAYERS})
        list(APPEND objects $<TARGET_OBJECTS:${layer}>)
    endforeach()
    add_library(kolo SHARED ${objects})
    add_library(kolo::kolo ALIAS kolo) # as find_package(kolo) names it, for projects that include this one
    target_link_libraries(kolo PRIVATE kolo_flags Threads::Threads m ${KOLO_LAYER_LIBRARIES})
    # nodelete: a thread that waits for a name server (transport/lookup.c) may outlive dlclose
    if(NOT KOLO_SANITIZE) # clang's runtime of sanitizers is part of the program
        target_link_options(kolo PRIVATE -Wl,--no-undefined)
    endif()
    target_link_options(kolo PRIVATE -Wl,-z,nodelete -Wl,--version-script=${PROJECT_SOURCE_DIR}/kolo.map)
    set_target_properties(kolo PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
        LINK_DEPENDS ${PROJECT_SOURCE_DIR}/kolo.map)
    set(headers $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_include_directories(kolo INTERFACE ${headers})

    if(KOLO_STATIC)
        # One object, in which all names are local except those of the API: a program that links it may
        # use any other name itself.
        # If the builder asks for optimisation at link time, it takes place here: what remains for a
        # program's link would still have the names. gcc must be told so; clang needs the linker and the
        # flags that it was given, or that CMake's own switch stands for.
        set(whole ${PROJECT_BINARY_DIR}/generated/kolo.o)
        string(TOUPPER "${CMAKE_BUILD_TYPE}" config)
        separate_arguments(given UNIX_COMMAND "${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${config}} ${CMAKE_SHARED_LINKER_FLAGS}")
        list(FILTER given INCLUDE REGEX "^(-O|-m|-B|-f(no-)?(lto|use-ld|use-linker)|--(target|sysroot|ld-path)=)")
        get_target_property(switched kolo INTERPROCEDURAL_OPTIMIZATION_${config})
        if(switched STREQUAL "switched-NOTFOUND")
            get_target_property(switched kolo INTERPROCEDURAL_OPTIMIZATION)
        endif()
        if(switched)
            list(APPEND given ${CMAKE_C_COMPILE_OPTIONS_IPO})
        endif()
        if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
            list(APPEND given -flinker-output=nolto-rel)
        endif()
        add_custom_command(OUTPUT ${whole} DEPENDS ${objects} COMMAND_EXPAND_LISTS VERBATIM
            COMMAND ${KOLO_C_COMPILER} ${given} -r -nostdlib -o ${whole} ${objects}
            COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${whole})
        add_library(kolo_static STATIC ${whole})
        add_library(kolo::kolo_static ALIAS kolo_static)
        add_dependencies(kolo_static ${KOLO_LAYERS}) # DEPENDS above names files, which make knows no rule for
        set_source_files_properties(${whole} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
        set_target_properties(kolo_static PROPERTIES OUTPUT_NAME kolo LINKER_LANGUAGE C)
        # By their names alone, so that who finds kolo need not find them first.
        target_link_libraries(kolo_static INTERFACE crypto hwloc pthread m ${CMAKE_DL_LIBS})
        target_include_directories(kolo_static INTERFACE ${headers})
    endif()

    add_library(kolo_core STATIC ${objects})
    target_link_libraries(kolo_core PUBLIC kolo_flags Threads::Threads m ${KOLO_LAYER_LIBRARIES})
endmacro()
