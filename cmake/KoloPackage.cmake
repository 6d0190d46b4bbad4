# SPDX-License-Identifier: Apache-2.0
# What `cpack` in a build directory makes: one package with all that `cmake --install` installs, to copy to
# the hosts of a cluster: DEB where there is dpkg, else RPM where there is rpmbuild, else an archive. The RPM
# was made and read on Debian only. The maintainer's name, for all of them:
#   cpack -D CPACK_PACKAGE_CONTACT="NAME <ADDRESS>"
if(NOT PROJECT_IS_TOP_LEVEL)
    return()
endif()
set(CPACK_PACKAGE_CONTACT "The kolo authors <kolo@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/KoloPackageOpen.cmake)
set(CPACK_STRIP_FILES ON)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_VERBATIM_VARIABLES ON)

# What is linked is found by the packager's own tools. What kolo loads only where a host has it (the verbs library)
# or runs (ssh) is recommended: without it kolo works, and says what it cannot use.
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openssh-client, libibverbs1, ibverbs-providers")
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE "Apache-2.0 AND BSD-2-Clause")
set(CPACK_RPM_PACKAGE_SUGGESTS "openssh-clients, libibverbs")
# These belong to the distribution.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/share/man /usr/share/bash-completion
    /usr/share/bash-completion/completions /usr/${CMAKE_INSTALL_LIBDIR}/pkgconfig /usr/${CMAKE_INSTALL_LIBDIR}/cmake)

find_program(KOLO_DPKG dpkg-deb)
find_program(KOLO_RPMBUILD rpmbuild)
mark_as_advanced(KOLO_DPKG KOLO_RPMBUILD)
if(KOLO_DPKG)
    set(CPACK_GENERATOR DEB)
elseif(KOLO_RPMBUILD)
    set(CPACK_GENERATOR RPM)
else()
    set(CPACK_GENERATOR TGZ)
endif()
include(CPack)
