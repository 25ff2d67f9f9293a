/* What recurrent layers share (emit_recurrent.c): rows in order of length, the state's products, vectors of
 * units. Used by emit_gru.c.
 *
 * A kernel takes REC_BLOCK of its rows at a time, the longest first, and groups of REC_GROUP of them through
 * all their time steps: the group's state, the gates of one step and the packed weights stay in the first
 * level cache, and the rows that are still running at a step are the group's first. */
#ifndef CTRC_BACKEND_EMIT_RECURRENT_H
#define CTRC_BACKEND_EMIT_RECURRENT_H
#include "backend/emit.h"

enum { REC_GROUP = 24, REC_BLOCK = 288 };

/* ---- scratch: parts one after another ---- */
typedef struct {
    int64_t floats; /* taken so far */
} RecScratch;
/* So many floats, 64-byte aligned; returns where they begin. */
int64_t emit_rec_take(RecScratch *s, int64_t floats);

/* ---- order ---- */
int64_t emit_rec_order_floats(void);
typedef struct {
    Val first, length; /* i64 *: of each row in order, its first position and how many it has */
    Val rows;          /* how many rows there are with those that only fill the last group, which are empty */
} RecOrder;
/* Rows lo..hi-1, at most REC_BLOCK of them, in order of length (equal ones as they stand), at `to`. */
RecOrder emit_rec_order(Emit *e, int axis, Val lo, Val hi, Val to);
/* How many of the REC_GROUP rows from `group` on have a position t: they come first. */
Val emit_rec_live(Emit *e, const RecOrder *o, Val group, Val t);

/* ---- products: C[rows,n] = A[rows,terms] B, or C += ---- */
typedef struct {
    int64_t terms, n; /* B's rows and columns */
    int64_t a_row;    /* floats from row to row of A, */
    int64_t c_row;    /* and of C, whose rows take n rounded up to whole vectors */
    bool add;         /* C is what the sums begin with, else zeros */
    Val packed;       /* B in panels */
} RecProduct;
/* The first `rows` rows, rounded up: A and C must have REC_GROUP of them. */
void emit_rec_product(Emit *e, const RecProduct *p, Val a, Val c, Val rows);

/* ---- vectors of units ---- */
int64_t emit_rec_padded(int W, int64_t n); /* n in whole vectors */
/* body for each vector of n elements: its first element, and how many of its lanes count: all but in the last
 */
typedef void (*RecVector)(Emit *e, Val col, int lanes, void *user);
void emit_rec_vectors(Emit *e, int64_t n, RecVector body, void *user);
/* A whole vector of which so many lanes are read (zeros behind them) or written. */
Val emit_rec_load(Emit *e, Val p, int lanes);
void emit_rec_store(Emit *e, Val v, Val p, int lanes);

#endif
