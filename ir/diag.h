/* Diagnostics: errors for the person who wrote the file.
 *
 *   model.ctr:12:8: error: unknown name 'user_idd'
 *      12 | deep = f(user_idd)
 *         |          ^~~~~~~~
 *   hint: did you mean 'user_id'?
 *
 * A Diag collects messages and prints each at once to its FILE. After 20 errors it prints
 * "too many errors" once and swallows the rest. Wording: short, lower case, no full stop; what was
 * expected and what was found. */
#ifndef CTRC_IR_DIAG_H
#define CTRC_IR_DIAG_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "ir/arena.h"

/* A span of source text: lines and columns count from 1, columns in bytes, end exclusive.
 * line 0 means "no place". file is an index into Diag.files. */
typedef struct {
    uint16_t file;
    uint32_t line, col, end_line, end_col;
} Span;

typedef struct {
    const char *path; /* as the user wrote it */
    const char *text; /* whole file; not NUL-free, use size */
    size_t size;
    bool library; /* the built-in layer library: its names never count as unused */
} DiagFile;

typedef struct Diag {
    Arena *arena;
    FILE *out; /* stderr, or a memory stream in tests */
    DiagFile *files;
    int n_files, cap_files;
    int errors, warnings;
    int max_errors; /* 20 */
    bool muted;     /* the last error was swallowed: so are its notes */
    Span asked_at;  /* of what is at work, if anything: the place of errors and warnings that have none */
} Diag;

Diag *diag_new(Arena *a, FILE *out);
/* Registers a file whose text was already read; text is kept by reference. */
int diag_add_file(Diag *d, const char *path, const char *text, size_t size, bool library);
void diag_error(Diag *d, Span at, const char *hint, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void diag_warn(Diag *d, Span at, const char *hint, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* A further line that belongs to the last error, with a place of its own ("called from here"). */
void diag_note(Diag *d, Span at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool diag_full(const Diag *d); /* as many errors as will be shown */
/* The candidate nearest to name by edit distance, or NULL if none is near. */
const char *diag_nearest(const char *name, const char *const *candidates, int n);
/* "did you mean 'x'?" in the arena, or NULL. */
const char *diag_did_you_mean(Diag *d, const char *name, const char *const *candidates, int n);

#endif
