// SPDX-License-Identifier: Apache-2.0
// A hash table with open addressing and linear probing, at most half full.
#include "transport/map.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"

enum { MAP_SLOTS_FIRST = 8 };

/* Keys are usually small consecutive numbers; Fibonacci hashing spreads those and all others. */
static uint32_t map_start(const struct kolo_map *map, uint32_t key)
{
    return (key * 2654435769U) >> 7 & (map->slot_count - 1);
}

static struct kolo_map_slot *map_slot(const struct kolo_map *map, uint32_t key)
{
    uint32_t at = map_start(map, key);
    while (map->slots[at].value && map->slots[at].key != key)
        at = (at + 1) & (map->slot_count - 1);
    return &map->slots[at];
}

void *kolo_map_get(const struct kolo_map *map, uint32_t key)
{
    return map->slot_count == 0 ? NULL : map_slot(map, key)->value;
}

static kolo_status map_rehash(struct kolo_map *map)
{
    struct kolo_map bigger = {.count = map->count};
    bigger.slot_count = map->slot_count == 0 ? MAP_SLOTS_FIRST : map->slot_count * 2;
    bigger.slots = kolo_calloc(bigger.slot_count, sizeof *bigger.slots);
    if (!bigger.slots)
        return KOLO_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < map->slot_count; i++)
        if (map->slots[i].value)
            *map_slot(&bigger, map->slots[i].key) = map->slots[i];
    kolo_free_memory(map->slots);
    *map = bigger;
    return KOLO_OK;
}

kolo_status kolo_map_put(struct kolo_map *map, uint32_t key, void *value)
{
    const bool is_new = kolo_map_get(map, key) == NULL;
    if (is_new && map->count * 2 >= map->slot_count) {
        kolo_status status = map_rehash(map);
        if (status != KOLO_OK)
            return status;
    }
    *map_slot(map, key) = (struct kolo_map_slot){.key = key, .value = value};
    map->count += is_new;
    return KOLO_OK;
}

/* Entries that follow the gap move up if a search would otherwise not find them. */
void kolo_map_remove(struct kolo_map *map, uint32_t key)
{
    uint32_t mask = map->slot_count - 1;
    if (!kolo_map_get(map, key))
        return;
    uint32_t gap = (uint32_t)(map_slot(map, key) - map->slots);
    for (uint32_t at = (gap + 1) & mask; map->slots[at].value; at = (at + 1) & mask) {
        uint32_t start = map_start(map, map->slots[at].key);
        if (((at - start) & mask) < ((at - gap) & mask))
            continue;
        map->slots[gap] = map->slots[at];
        gap = at;
    }
    map->slots[gap] = (struct kolo_map_slot){0};
    map->count--;
}

void *kolo_map_next(const struct kolo_map *map, uint32_t *cursor)
{
    while (*cursor < map->slot_count) {
        void *value = map->slots[(*cursor)++].value;
        if (value)
            return value;
    }
    return NULL;
}

void kolo_map_fini(struct kolo_map *map)
{
    kolo_free_memory(map->slots);
    *map = (struct kolo_map){0};
}
