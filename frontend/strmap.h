/* A map from strings to pointers, for paths and names. Keys are kept by reference; everything lives in the
 * arena. */
#ifndef CTRC_FRONTEND_STRMAP_H
#define CTRC_FRONTEND_STRMAP_H
#include "ir/arena.h"

typedef struct {
    const char **keys;
    void **values;
    int n, cap;
} StrMap;

void *strmap_get(const StrMap *m, const char *key);                 /* NULL if absent */
void strmap_put(Arena *a, StrMap *m, const char *key, void *value); /* replaces; value isn't NULL */

#endif
