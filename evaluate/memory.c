// SPDX-License-Identifier: Apache-2.0
// See memory.h. yajl has no way to fail for want of memory, so it is left by longjmp(), and what it
// has taken is freed without it: all blocks are in a list.
#include "evaluate/memory.h"

#include <stdalign.h>
#include <stddef.h>

#include "base/alloc.h"

struct eval_memory_block {
    struct eval_memory_block *next, **link; /* link: what points to this block */
    size_t bytes;                           /* with this head */
    alignas(max_align_t) char data[];
};

static struct eval_memory_block *block_of(void *data)
{
    return (void *)((char *)data - offsetof(struct eval_memory_block, data));
}

static void *resize(void *context, void *data, size_t bytes)
{
    struct eval_memory *memory = context;
    struct eval_memory_block *block = data ? block_of(data) : NULL;
    size_t room = block ? block->bytes : 0, head = sizeof *block;
    if (bytes > SIZE_MAX - head || kolo_grow((void **)&block, &room, head + bytes, 1) != KOLO_OK)
        longjmp(memory->missing, 1);
    if (!data) {
        block->next = memory->first;
        block->link = &memory->first;
    }
    block->bytes = room;
    *block->link = block;
    if (block->next)
        block->next->link = &block->next;
    return block->data;
}

static void *take(void *context, size_t bytes)
{
    return resize(context, NULL, bytes);
}

static void give_back(void *context, void *data)
{
    (void)context;
    if (!data)
        return;
    struct eval_memory_block *block = block_of(data);
    *block->link = block->next;
    if (block->next)
        block->next->link = block->link;
    kolo_free_memory(block);
}

yajl_alloc_funcs eval_memory_functions(struct eval_memory *memory)
{
    return (yajl_alloc_funcs){.malloc = take, .realloc = resize, .free = give_back, .ctx = memory};
}

void eval_memory_free(struct eval_memory *memory)
{
    while (memory->first)
        give_back(memory, memory->first->data);
}
