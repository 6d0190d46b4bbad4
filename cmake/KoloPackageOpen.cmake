# SPDX-License-Identifier: Apache-2.0
# cpack runs this before it packs what was installed: opens the folders to all, also that of the prefix, which
# cpack makes itself, by the umask.
file(CHMOD_RECURSE "${CPACK_TEMPORARY_INSTALL_DIRECTORY}" DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
