/* Memory by lifetime. One Arena holds everything that a compilation makes; it is freed in one call.
 * arena_alloc never returns NULL: when memory runs out it prints one line and exits with status 1. */
#ifndef CTRC_IR_ARENA_H
#define CTRC_IR_ARENA_H
#include <stdarg.h>
#include <stddef.h>

typedef struct Arena Arena;

Arena *arena_new(void);
void arena_free(Arena *a);
void *arena_alloc(Arena *a, size_t bytes); /* zeroed, aligned to 16 */
void *arena_grow(Arena *a, void *old, size_t old_bytes, size_t new_bytes); /* copies; new part zeroed */
char *arena_strdup(Arena *a, const char *s);
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *a, const char *fmt, va_list ap);
size_t arena_used(const Arena *a); /* bytes handed out so far: the evaluator's memory limit reads it */

#define ARENA_NEW(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_alloc((a), sizeof(T) * (size_t)(n)))
/* Push onto a growing array (ptr, n, cap are lvalues). */
#define ARENA_PUSH(a, ptr, n, cap, value)                                                              \
    do {                                                                                               \
        if ((n) == (cap)) {                                                                            \
            size_t old_cap_ = (size_t)(cap);                                                           \
            (cap) = (cap) ? (cap)*2 : 8;                                                               \
            (ptr) = arena_grow((a), (ptr), old_cap_ * sizeof *(ptr), (size_t)(cap) * sizeof *(ptr));   \
        }                                                                                              \
        (ptr)[(n)++] = (value);                                                                        \
    } while (0)

#endif
