# SPDX-License-Identifier: Apache-2.0
# cmake --install: the library, its headers, the programs, the man pages, and what other builds find it by (kolo.pc for
# pkg-config, kolo-config.cmake for find_package(kolo)).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS kolo EXPORT kolo LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS kolorun kolobench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET kolo-coco)
    install(TARGETS kolo-coco RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY include/kolo DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES ${CMAKE_BINARY_DIR}/generated/kolo/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kolo)
file(GLOB man_pages CONFIGURE_DEPENDS docs/man/*.[1-8])
foreach(page ${man_pages})
    string(REGEX MATCH "[1-8]$" section ${page})
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()

install(FILES docs/completion/kolorun.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME kolorun)

install(EXPORT kolo NAMESPACE kolo:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kolo FILE kolo-config.cmake)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/kolo-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/kolo-config-version.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kolo)
file(RELATIVE_PATH KOLO_PC_INCLUDEDIR /${CMAKE_INSTALL_LIBDIR}/pkgconfig /${CMAKE_INSTALL_INCLUDEDIR})
set(KOLO_PC_INCLUDEDIR "\${pcfiledir}/${KOLO_PC_INCLUDEDIR}")
configure_file(cmake/kolo.pc.in ${CMAKE_BINARY_DIR}/generated/kolo.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/generated/kolo.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
