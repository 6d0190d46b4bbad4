// SPDX-License-Identifier: Apache-2.0
// What a pointer that a program brings leads to: asks every backend of the build. Owns nothing; never
// touches the memory itself.
#include <string.h>

#include "memory/memory.h"

bool kolo_pointer_may_be_foreign(void)
{
    for (size_t i = 0; kolo_memory_kinds[i]; i++)
        if (kolo_memory_kinds[i]->is_present && kolo_memory_kinds[i]->is_present())
            return true;
    return false;
}

kolo_status kolo_pointer_look(const void *memory, struct kolo_pointer *pointer_out)
{
    struct kolo_pointer pointer = {.memory = memory, .kind = KOLO_MEMORY_HOST, .device = -1};
    kolo_status status = KOLO_OK;
    for (size_t i = 0; status == KOLO_OK && !pointer.ops && kolo_memory_kinds[i]; i++)
        if (kolo_memory_kinds[i]->is_present && kolo_memory_kinds[i]->is_present())
            status = kolo_memory_kinds[i]->look(memory, &pointer);
    if (status == KOLO_OK)
        *pointer_out = pointer;
    return status;
}

kolo_status kolo_pointer_fetch(const struct kolo_pointer *pointer, size_t bytes, void *copy_out)
{
    if (bytes == 0)
        return KOLO_OK;
    if (pointer->ops)
        return pointer->ops->fetch(pointer, bytes, copy_out);
    memcpy(copy_out, pointer->memory, bytes);
    return KOLO_OK;
}
