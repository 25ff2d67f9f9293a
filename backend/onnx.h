/* The prediction as an ONNX graph: what the files onnx*.c share. See onnx.c for the form of the result. */
#ifndef CTRC_BACKEND_ONNX_H
#define CTRC_BACKEND_ONNX_H
#include <jansson.h>
#include "backend/backend.h"

/* Names of values in the graph are strings in the arena. */
typedef const char *Name;

/* A list axis in the graph; each name is made when it is first asked for. [n]: rows, [p]: all positions. */
typedef struct {
    Name lengths; /* i64 [n] */
    Name starts;  /* i64 [n] of each row's first position */
    Name count;   /* i64 [1]: p */
    Name longest; /* i64: positions of the longest row, at least 1 */
    Name mask;    /* bool [n, longest]: which places of a padded list hold a position */
    Name index;   /* i64 [n, longest]: the position there, p where there is none */
    Name row;     /* i64 [p]: the row that a position belongs to */
    Name place;   /* i64 [p]: its place in the row, from 0 */
    Name where;   /* i64 [p, 2]: both */
} OnnxAxis;

typedef struct Onnx {
    IrProgram *p;
    Arena *arena;
    BackendInputs in;
    json_t *inputs, *constants, *nodes; /* nodes: of the graph, or of the body that is being made */
    json_t *known;                      /* key → name, of what is made once: constants, lifted values */
    Name *value;                        /* by number of an IR node; NULL: none yet */
    const IrNode *region;               /* whose body is being translated */
    OnnxAxis *axis;                     /* by number of an axis */
    Name *feature;                      /* by number of a feature */
    Name rows;                          /* i64 [1]: n */
    int n_values;
    const char *lacks; /* the text of an op that has no ONNX form here; NULL */
} Onnx;

/* ---- the graph (onnx.c) ---- */

/* Appends a node with one result, whose name is returned. attrs: an object that is taken over, or NULL:
 * integers, reals, arrays of integers, strings, and bodies are told apart by their JSON type. */
Name onnx_node(Onnx *o, const char *op, json_t *attrs, int n_in, const Name *in);
Name onnx_1(Onnx *o, const char *op, Name x);
Name onnx_2(Onnx *o, const char *op, Name x, Name y);
Name onnx_new(Onnx *o); /* a name that no value has */
/* Constants; equal ones once. */
Name onnx_int(Onnx *o, int64_t v);                /* a scalar */
Name onnx_ints(Onnx *o, const int64_t *v, int n); /* [n] */
Name onnx_real(Onnx *o, double v);                /* a scalar */
Name onnx_cast(Onnx *o, Name x, int to);
enum { ONNX_F32 = 1, ONNX_I64 = 7, ONNX_BF16 = 16 }; /* TensorProto.DataType */

/* The value of a node's operand i, through the region's arguments. */
const IrNode *onnx_operand(const Onnx *o, const IrNode *n, int i);
Name onnx_in(Onnx *o, const IrNode *n, int i);
Name onnx_value(Onnx *o, const IrNode *x);
/* Values that are rows, positions or rows of a table have those as a first dimension, before the type's own.
 */
static inline int onnx_lead(IrType t) {
    return t.live == LIVE_ROW || t.live == LIVE_POS || t.live == LIVE_UNIQ;
}
/* x as an operand that is to be broadcast with values that live as `like` and have its rank. */
Name onnx_lifted(Onnx *o, const IrNode *x, IrType like);
/* x stretched to just the type t. */
Name onnx_full(Onnx *o, const IrNode *x, IrType t);
/* [count of rows or positions, dim…]: a shape, as a value. */
Name onnx_shape(Onnx *o, IrType t);

/* ---- inputs (onnx_input.c) ---- */
Name onnx_reader_value(Onnx *o, const IrNode *n);
Name onnx_rows(Onnx *o);
Name onnx_lengths(Onnx *o, int axis);

/* ---- lists (onnx_list.c) ---- */
OnnxAxis *onnx_axis(Onnx *o, int axis);
Name onnx_with_zero(Onnx *o, Name x, IrType t);   /* [p+1, …]: a zero value more, at index p */
Name onnx_padded(Onnx *o, Name x, IrType t);      /* [n, longest, …]: zeros where there is no position */
Name onnx_from_padded(Onnx *o, Name x, int axis); /* back: [p, …] */
Name onnx_list_op(Onnx *o, const IrNode *n);      /* an op along a list; NULL: it is none of these */

/* ---- everything else (onnx_op.c) ---- */
Name onnx_op(Onnx *o, const IrNode *n);

#endif
