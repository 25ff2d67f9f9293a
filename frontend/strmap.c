/* Open addressing with linear probing; the capacity is a power of two, at most half full. */
#include "frontend/strmap.h"
#include <string.h>
#include <xxhash.h>

static int slot(const StrMap *m, const char *key) {
    int i = (int)(XXH3_64bits(key, strlen(key)) & (unsigned)(m->cap - 1));
    while (m->keys[i] && strcmp(m->keys[i], key) != 0) i = (i + 1) & (m->cap - 1);
    return i;
}

void *strmap_get(const StrMap *m, const char *key) { return m->cap ? m->values[slot(m, key)] : NULL; }

static void grow(Arena *a, StrMap *m) {
    StrMap old = *m;
    m->cap = old.cap ? old.cap * 2 : 32;
    m->keys = ARENA_ARRAY(a, const char *, m->cap);
    m->values = ARENA_ARRAY(a, void *, m->cap);
    for (int i = 0; i < old.cap; i++) {
        if (!old.keys[i]) continue;
        int at = slot(m, old.keys[i]);
        m->keys[at] = old.keys[i];
        m->values[at] = old.values[i];
    }
}

void strmap_put(Arena *a, StrMap *m, const char *key, void *value) {
    if (2 * (m->n + 1) > m->cap) grow(a, m);
    int i = slot(m, key);
    if (!m->keys[i]) m->n++;
    m->keys[i] = key;
    m->values[i] = value;
}
