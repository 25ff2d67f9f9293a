/* Reads fields of JSON objects with errors that name the place: "weights[3]: missing key 'shape'". The first
 * error stays, later calls then give zeros, so a caller may read a whole object and look once. Strings and
 * arrays live in the reader's blocks until rt_json_free_blocks. */
#ifndef CTRC_RUNTIME_JSONREAD_H
#define CTRC_RUNTIME_JSONREAD_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct RtJsonBlock {
    struct RtJsonBlock *next;
} RtJsonBlock;
typedef struct {
    RtJsonBlock *blocks; /* everything handed out */
    char *err;
    size_t err_bytes;
    bool failed;
    char where[160]; /* place of the object being read, "" at the top */
} RtJson;

void *rt_json_alloc(RtJson *j, size_t count, size_t size); /* zeroed */
void rt_json_free_blocks(RtJsonBlock *blocks);
void rt_json_fail(RtJson *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sets `where` to "list[index]", or "list[index].inner" if inner is not NULL. */
void rt_json_at(RtJson *j, const char *list, int index, const char *inner);

json_t *rt_json_get(RtJson *j, const json_t *o, const char *key, json_type type); /* NULL after an error */
double rt_json_num(RtJson *j, const json_t *o, const char *key);
int64_t rt_json_int(RtJson *j, const json_t *o, const char *key, int64_t lo, int64_t hi);
bool rt_json_bool(RtJson *j, const json_t *o, const char *key);
const char *rt_json_str(RtJson *j, const json_t *o, const char *key);
const char *rt_json_str_or_null(RtJson *j, const json_t *o, const char *key);
/* One byte as a string of one character below U+0100; "": 0. */
char rt_json_byte(RtJson *j, const json_t *o, const char *key);
/* The word's place in words[n]; an unknown one is an error that lists them. */
int rt_json_word(RtJson *j, const json_t *o, const char *key, const char *const *words, int n);
double *rt_json_nums(RtJson *j, const json_t *o, const char *key, int *n);
uint64_t *rt_json_u64s(RtJson *j, const json_t *o, const char *key, int n); /* exactly n of them */
const char **rt_json_strs(RtJson *j, const json_t *o, const char *key, int *n);

#endif
