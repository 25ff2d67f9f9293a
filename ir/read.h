/* The reader's state, shared by read.c (the head of the text) and read_func.c (functions). */
#ifndef CTRC_IR_READ_H
#define CTRC_IR_READ_H
#include "ir/lex.h"

#define READ_MAX_DEPTH 16 /* regions in regions, warmups in warmups */

typedef struct {
    Lexer lx;
    IrProgram *p;
    uint16_t *files; /* number in the text → index in the Diag */
    int n_files, cap_files;
    IrPlaces places;
} Reader;

#define COUNT(words) ((int)(sizeof(words) / sizeof *(words)))

/* "func NAME … {" up to its "}", at the word `func`. */
bool read_func(Reader *r);
/* The present place: its file by the text's own list. */
bool read_place(Reader *r, Span *out);
/* References by name; an unknown one gets the nearest as a hint. */
bool read_axis_name(Reader *r, int64_t *out);
bool read_weight_name(Reader *r, int64_t *out);
bool read_column_name(Reader *r, int64_t *out);

#endif
