/* What products by register tiles (emit_tile.c) and weight gradients made of them (emit_grad_w.c) share. */
#ifndef CTRC_BACKEND_EMIT_TILE_H
#define CTRC_BACKEND_EMIT_TILE_H
#include "backend/emit.h"

static inline int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t at_least(int64_t a, int64_t least) { return a < least ? least : a; }
static inline int64_t at_most(int64_t a, int64_t most) { return a > most ? most : a; }

/* Rows of a tile of so many vectors; terms that a block has at most. */
int emit_tile_rows(const PassTarget *t, int vectors);
int64_t emit_tile_terms(const PassTarget *t);

/* What is fetched into the second-level cache while panels' sums are made: `floats` of each of two runs, the
 * second behind the first. */
typedef struct {
    Val from[2], floats[2];
    Val done; /* variable: floats of both */
} TileAhead;

/* Rows of A, in place or in packed strips, that meet all panels. */
typedef struct {
    const EmitGemm *g; /* with bf16: terms, here and below, are pairs */
    Val a, a_tile, c;  /* of the first row */
    Val b, b_terms;    /* the packed panels; the terms that each holds, of which these are from `from` on */
    Val from, terms, rows, row0, flags;
    Val col0;               /* of the result that the first panel begins with; NULL: 0 */
    const TileAhead *ahead; /* with packed strips; NULL: nothing */
} TileBlock;

/* Terms from..to-1 of `all`: EMIT_FIRST, EMIT_LAST */
Val emit_tile_flags(Emit *e, Val from, Val to, Val all, bool accumulate);
/* The panel of so many vectors that begins with column col, of which `cols` exist. */
void emit_tile_panel(Emit *e, const TileBlock *k, Val col, int vectors, int cols);
#endif
