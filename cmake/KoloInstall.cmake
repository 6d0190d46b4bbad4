# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` installs: the library, its headers, the programs, the man pages, bash
# completion, and the files by which other builds find the library (kolo.pc for pkg-config,
# kolo-config.cmake for find_package(kolo)).
include(CMakePackageConfigHelpers)

# Makes the folders that are missing, open to all, whatever the umask of who installs or makes a package:
# cmake itself would make them by the umask (CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS adds nothing to it).
set(folders "")
foreach(folder ${CMAKE_INSTALL_LIBDIR}/cmake/kolo ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_BINDIR}
    ${CMAKE_INSTALL_INCLUDEDIR}/kolo ${CMAKE_INSTALL_MANDIR}/man1 ${CMAKE_INSTALL_MANDIR}/man3
    ${CMAKE_INSTALL_MANDIR}/man7 ${CMAKE_INSTALL_DOCDIR} ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    list(APPEND folders "${folder}")
endforeach()
install(CODE "set(folders \"${folders}\")")
install(CODE [[
foreach(folder ${folders})
    cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE)
    set(folder "$ENV{DESTDIR}${folder}")
    set(missing "")
    while(NOT folder STREQUAL "" AND NOT EXISTS "${folder}")
        list(PREPEND missing "${folder}")
        cmake_path(GET folder PARENT_PATH folder)
    endwhile()
    foreach(folder ${missing})
        file(MAKE_DIRECTORY "${folder}")
        file(CHMOD "${folder}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
            WORLD_READ WORLD_EXECUTE)
    endforeach()
endforeach()
]])

install(TARGETS kolo EXPORT kolo LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(KOLO_STATIC)
    install(TARGETS kolo_static EXPORT kolo ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(TARGETS kolorun kolobench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET kolo-coco)
    install(TARGETS kolo-coco RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY include/kolo DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_BINARY_DIR}/generated/kolo/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kolo)

# kolo_man_aliases(PAGE): installs a page of one line (.so) for each function that PAGE describes
# under another name, so that `man kolo_broadcast` finds kolo_allreduce(3) even before man's index
# is rebuilt.
function(kolo_man_aliases page)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
    get_filename_component(own ${page} NAME_WE)
    file(READ ${page} text)
    string(REGEX REPLACE ".*\n\\.SH NAME\n([^\\]*) \\\\-.*" "\\1" names "${text}")
    string(REGEX MATCHALL "[a-z0-9_]+" names "${names}")
    list(REMOVE_ITEM names ${own})
    foreach(name ${names})
        set(alias ${PROJECT_BINARY_DIR}/generated/man/${name}.3)
        file(CONFIGURE OUTPUT ${alias} CONTENT ".so man3/${own}.3\n" @ONLY)
        install(FILES ${alias} DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
    endforeach()
endfunction()

file(GLOB man_pages CONFIGURE_DEPENDS docs/man/*.[1-8])
foreach(page ${man_pages})
    string(REGEX MATCH "[1-8]$" section ${page})
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
    if(section EQUAL 3)
        kolo_man_aliases(${page})
    endif()
endforeach()

install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES docs/completion/kolorun.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME kolorun)

# The exported file has a name of its own, since it includes all files NAME-*.cmake beside it, of which the
# one with the version is not for the project that finds kolo.
install(EXPORT kolo NAMESPACE kolo:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kolo FILE kolo-targets.cmake)
install(FILES cmake/kolo-config.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kolo)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/kolo-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/kolo-config-version.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kolo)
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    set(KOLO_PC_INCLUDEDIR ${CMAKE_INSTALL_FULL_INCLUDEDIR}) # not moved together with kolo.pc
else()
    file(RELATIVE_PATH KOLO_PC_INCLUDEDIR /${CMAKE_INSTALL_LIBDIR}/pkgconfig /${CMAKE_INSTALL_INCLUDEDIR})
    set(KOLO_PC_INCLUDEDIR "\${pcfiledir}/${KOLO_PC_INCLUDEDIR}")
endif()
list(TRANSFORM CMAKE_DL_LIBS PREPEND -l OUTPUT_VARIABLE KOLO_PC_DL)
configure_file(cmake/kolo.pc.in ${PROJECT_BINARY_DIR}/generated/kolo.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/kolo.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
