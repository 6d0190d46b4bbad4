// SPDX-License-Identifier: Apache-2.0
// Which transport is which class of path. Must never use what only this rank knows, since all ranks
// choose plans by the answers.
#include "transport/path.h"

#include <string.h>

static const char *const texts[KOLO_PATHS] = {
#define KOLO_PATH_TEXT(name, text) [KOLO_PATH_##name] = (text),
    KOLO_PATH_MAP(KOLO_PATH_TEXT)
#undef KOLO_PATH_TEXT
};

const char *kolo_path_text(enum kolo_path path)
{
    return (unsigned)path < KOLO_PATHS ? texts[path] : "?";
}

enum kolo_path kolo_path_inside(const char *setting, bool is_one_process)
{
    if (strcmp(setting, "tcp") == 0)
        return KOLO_PATH_LOOPBACK;
    if (strcmp(setting, "rdma") == 0)
        return KOLO_PATH_RDMA;
    return is_one_process && strcmp(setting, "shm") != 0 ? KOLO_PATH_INPROC : KOLO_PATH_SHM;
}

bool kolo_path_can_be_rdma(const char *setting, const struct kolo_peer *peer)
{
    if (strcmp(setting, "auto") != 0)
        return strcmp(setting, "rdma") == 0;
    return kolo_transport_is_offered("rdma", peer);
}

struct kolo_line kolo_path_line(enum kolo_path path, const struct kolo_peer *peer)
{
    return kolo_transport_line(path == KOLO_PATH_RDMA ? "rdma" : "tcp", peer);
}
