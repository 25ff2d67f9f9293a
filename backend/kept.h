/* JSON files that ctrc keeps for a CPU in the user's cache folder, $XDG_CACHE_HOME/ctrc, else ~/.cache/ctrc.
 */
#ifndef CTRC_BACKEND_KEPT_H
#define CTRC_BACKEND_KEPT_H
#include <jansson.h>
#include "ir/ir.h"

/* The path of such a file; NULL if there is no place for it. make: its folder is made if need be. */
const char *kept_path(Arena *a, const char *name, bool make);
/* Writes it whole or not at all: another ctrc may read it at this moment. False: errno says why. Takes j. */
bool kept_write(Arena *a, const char *path, json_t *j);

#endif
