// SPDX-License-Identifier: Apache-2.0
// A hash table from 32-bit keys to pointers: the links of an endpoint by rank, the channels of a
// link by number.
#ifndef KOLO_TRANSPORT_MAP_H
#define KOLO_TRANSPORT_MAP_H

#include <stdint.h>

#include "base/status.h"

struct kolo_map_slot {
    uint32_t key;
    void *value; /* NULL: free */
};
/** A zeroed one is empty. */
struct kolo_map {
    struct kolo_map_slot *slots;
    uint32_t slot_count; /* a power of two, or 0 */
    uint32_t count;
};

/** The value of @p key; NULL: it is not there. */
void *kolo_map_get(const struct kolo_map *map, uint32_t key);
/** If @p key is there, its value is replaced. @p value must not be NULL. */
kolo_status kolo_map_put(struct kolo_map *map, uint32_t key, void *value) KOLO_NODISCARD;
/** Removes @p key; does nothing if it is not there. */
void kolo_map_remove(struct kolo_map *map, uint32_t key);
/** Iterates over the values, in no order: start with *cursor 0; NULL is the end. No put or remove
 *  may happen meanwhile. */
void *kolo_map_next(const struct kolo_map *map, uint32_t *cursor);
void kolo_map_fini(struct kolo_map *map);

#endif
