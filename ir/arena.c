/* Bump allocation in chunks. Chunks come zeroed from calloc and are handed out once, so every allocation is
 * zeroed without a memset, and growing the newest allocation in place is free. */
#include "ir/arena.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGN 16
#define FIRST_CHUNK ((size_t)64 << 10)
#define LARGEST_CHUNK ((size_t)4 << 20) /* larger requests get a chunk of their own */
#define HUGE_PAGE ((size_t)2 << 20)

typedef struct Chunk {
    struct Chunk *prev;
    size_t size, used; /* bytes of data */
    _Alignas(ALIGN) unsigned char data[];
} Chunk;

struct Arena {
    Chunk *top;
    size_t next_size; /* of the next ordinary chunk: doubles up to LARGEST_CHUNK */
    size_t handed_out;
};

static _Noreturn void out_of_memory(size_t bytes) {
    fprintf(stderr, "ctrc: error: out of memory (%zu bytes asked for)\n", bytes);
    exit(1);
}

static void *zeroed(size_t bytes) {
    void *p = calloc(1, bytes);
    if (!p) out_of_memory(bytes);
    return p;
}

/* Large chunks, such as the values of a vocabulary, are mapped in huge pages: of small ones each costs a
 * fault. */
static size_t mapped_bytes(size_t size) {
    size_t bytes = sizeof(Chunk) + size;
    return bytes >= HUGE_PAGE ? (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1) : 0;
}

static void *mapped(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) out_of_memory(bytes);
    madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

static void release(Chunk *c) {
    size_t bytes = mapped_bytes(c->size);
    if (bytes)
        munmap(c, bytes);
    else
        free(c);
}

Arena *arena_new(void) {
    Arena *a = zeroed(sizeof *a);
    a->next_size = FIRST_CHUNK;
    return a;
}

void arena_free(Arena *a) {
    if (!a) return;
    for (Chunk *c = a->top; c;) {
        Chunk *prev = c->prev;
        release(c);
        c = prev;
    }
    free(a);
}

static Chunk *chunk_new(size_t size) {
    size_t bytes = mapped_bytes(size);
    Chunk *c = bytes ? mapped(bytes) : zeroed(sizeof *c + size);
    c->size = size;
    return c;
}

static size_t rounded(size_t bytes) {
    if (bytes > SIZE_MAX / 2) out_of_memory(bytes);
    return bytes ? (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN;
}

void *arena_alloc(Arena *a, size_t bytes) {
    size_t need = rounded(bytes);
    a->handed_out += need;
    if (a->top && a->top->size - a->top->used >= need) {
        void *p = a->top->data + a->top->used;
        a->top->used += need;
        return p;
    }
    if (need > a->next_size / 2 && a->top) { /* big: below the top, whose free room stays in use */
        Chunk *c = chunk_new(need);
        c->used = need;
        c->prev = a->top->prev;
        a->top->prev = c;
        return c->data;
    }
    Chunk *c = chunk_new(need > a->next_size ? need : a->next_size);
    if (a->next_size < LARGEST_CHUNK) a->next_size *= 2;
    c->used = need;
    c->prev = a->top;
    a->top = c;
    return c->data;
}

void *arena_grow(Arena *a, void *old, size_t old_bytes, size_t new_bytes) {
    if (new_bytes <= old_bytes && old) return old;
    size_t had = rounded(old_bytes), need = rounded(new_bytes);
    Chunk *c = a->top;
    /* the newest allocation of the top chunk grows where it stands */
    if (old && c && c->used >= had && (unsigned char *)old == c->data + c->used - had &&
        c->size - c->used >= need - had) {
        c->used += need - had;
        a->handed_out += need - had;
        return old;
    }
    void *p = arena_alloc(a, new_bytes);
    if (old && old_bytes) memcpy(p, old, old_bytes);
    return p;
}

char *arena_strndup(Arena *a, const char *s, size_t n) {
    char *p = arena_alloc(a, n + 1);
    if (n) memcpy(p, s, n);
    return p;
}

char *arena_strdup(Arena *a, const char *s) { return arena_strndup(a, s, strlen(s)); }

char *arena_vprintf(Arena *a, const char *fmt, va_list ap) {
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0) n = 0; /* only an unencodable wide string: nothing here prints one */
    char *p = arena_alloc(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

char *arena_printf(Arena *a, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *p = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return p;
}

size_t arena_used(const Arena *a) { return a->handed_out; }
