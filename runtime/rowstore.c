/* Memory of parsed rows. See RtRows in reader_internal.h for the form of a row. */
#include "runtime/reader_internal.h"
#include <stdlib.h>
#include <string.h>

enum { SLACK = 16 }; /* words after the last row that a gather may copy along */

RtRows *rt_rows_new(void) {
    RtRows *r = rt_reader_alloc(1, sizeof *r);
    rt_rows_reserve(r, 0);
    return r;
}

void rt_rows_free(RtRows *r) {
    if (!r) return;
    free(r->at);
    free(r->line);
    free(r->word);
    free(r->echo);
    free(r->echo_end);
    for (int side = 0; side < RT_SIDES; side++) free(r->bad[side]);
    free(r);
}

void rt_rows_clear(RtRows *r) {
    r->next = NULL;
    r->kind = RT_ROWS;
    r->done = r->failed = false;
    r->n = r->unused = 0;
    r->words = r->echo_bytes = 0;
    r->n_bad = r->n_held = r->n_negatives = r->lines = 0;
    r->bad_bytes[0] = r->bad_bytes[1] = 0;
    rt_rows_reserve(r, 0);
    r->at[0] = 0;
}

void rt_rows_reserve(RtRows *r, size_t words) {
    r->word = rt_reader_grow(r->word, &r->cap_words, r->words + words + SLACK, sizeof *r->word);
    if (r->at && r->n < r->cap) return;
    size_t cap = r->cap, cap_at = r->at ? cap + 1 : 0;
    r->line = rt_reader_grow(r->line, &cap, (size_t)r->n + 1, sizeof *r->line);
    r->at = rt_reader_grow(r->at, &cap_at, cap + 1, sizeof *r->at);
    r->cap = (uint32_t)cap;
    r->at[0] = 0;
}

static void *shrunk(void *p, size_t bytes) {
    void *q = realloc(p, bytes);
    return q ? q : p;
}

void rt_rows_shrink(RtRows *r) {
    r->cap_words = r->words + SLACK;
    r->word = shrunk(r->word, r->cap_words * sizeof *r->word);
    r->cap = r->n ? r->n : 1;
    r->line = shrunk(r->line, r->cap * sizeof *r->line);
    r->at = shrunk(r->at, ((size_t)r->cap + 1) * sizeof *r->at);
    for (int side = 0; side < RT_SIDES; side++) {
        free(r->bad[side]);
        r->bad[side] = NULL;
        r->bad_cap[side] = r->bad_bytes[side] = 0;
    }
}

uint64_t rt_rows_bytes(const RtRows *r) {
    return sizeof *r + r->cap_words * sizeof *r->word + r->cap * (sizeof *r->line + sizeof *r->at);
}

void rt_rows_add_bad(RtRows *r, int side, const char *text, size_t bytes) {
    r->bad[side] = rt_reader_grow(r->bad[side], &r->bad_cap[side], r->bad_bytes[side] + bytes + 1, 1);
    memcpy(r->bad[side] + r->bad_bytes[side], text, bytes);
    r->bad_bytes[side] += bytes;
}
