// SPDX-License-Identifier: Apache-2.0
// Owns this process's tables of ranks: a list, with a count of the ranks that use each. A table is
// kept with the bytes from which it was made, and found by them: equal bytes are the same table,
// whoever sent them. Must never return a table that was not checked completely.
//
// A process with one rank has one table, which is never looked up. A thousand threads share one
// table, instead of having a thousand of 4 MB.
#include "runtime/peers.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"

struct table {
    struct table *next;
    size_t uses, bytes;
    uint8_t *text; /* the bytes from which it was made */
    int size;
    struct kolo_peer peers[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct table *tables; /* protected by lock */

static kolo_status read_peer(struct kolo_reader *body, int rank, struct kolo_peer *peer_out)
{
    size_t bytes = 0;
    const uint8_t *blob = kolo_read_blob(body, &bytes);
    struct kolo_reader reader = kolo_reader_over(blob, blob ? bytes : 0);
    kolo_status status = kolo_peer_read(&reader, peer_out);
    if (status == KOLO_OK)
        status = kolo_reader_finish(&reader, "a rank of the table");
    if (status == KOLO_OK && peer_out->identity.rank != rank)
        status = kolo_fail(KOLO_ERR_PROTOCOL, "the store's table has rank %d in place %d",
                           (int)peer_out->identity.rank, rank);
    return status;
}

static void free_table(struct table *table)
{
    if (!table)
        return;
    kolo_free_memory(table->text);
    kolo_free_memory(table);
}

static kolo_status make_table(const uint8_t *text, size_t bytes, int size, struct table **table_out)
{
    struct kolo_reader body = kolo_reader_over(text, bytes);
    kolo_status status = KOLO_ERR_NO_MEMORY;
    struct table *table = kolo_calloc(1, sizeof *table + (size_t)size * sizeof(struct kolo_peer));
    if (!table)
        return KOLO_ERR_NO_MEMORY;
    table->text = kolo_calloc(bytes, 1);
    if (!table->text)
        goto out;
    memcpy(table->text, text, bytes);
    table->bytes = bytes;
    table->size = size;
    for (int rank = 0; rank < size; rank++)
        KOLO_TRY(read_peer(&body, rank, &table->peers[rank]));
    KOLO_TRY(kolo_reader_finish(&body, "WORLD"));
    *table_out = table;
    return KOLO_OK;
out:
    free_table(table);
    return status;
}

static struct table *find(const uint8_t *text, size_t bytes, int size)
{
    struct table *table = tables;
    while (table &&
           (table->size != size || table->bytes != bytes || memcmp(table->text, text, bytes) != 0))
        table = table->next;
    return table;
}

kolo_status kolo_peers_read(const uint8_t *text, size_t bytes, int size,
                            const struct kolo_peer **peers_out)
{
    kolo_status status = KOLO_OK;
    pthread_mutex_lock(&lock); /* held while the table is made, so that other threads find it */
    struct table *table = find(text, bytes, size);
    if (!table) {
        status = make_table(text, bytes, size, &table);
        if (status == KOLO_OK) {
            table->next = tables;
            tables = table;
        }
    }
    if (status == KOLO_OK) {
        table->uses++;
        *peers_out = table->peers;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

void kolo_peers_drop(const struct kolo_peer *peers)
{
    if (!peers)
        return;
    pthread_mutex_lock(&lock);
    struct table **at = &tables;
    while ((*at)->peers != peers)
        at = &(*at)->next;
    struct table *table = *at;
    if (--table->uses == 0)
        *at = table->next;
    else
        table = NULL;
    pthread_mutex_unlock(&lock);
    free_table(table);
}
