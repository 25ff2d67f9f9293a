/* The parts of split-concat.
 *
 * The left side x of a product x @ W is opened into atoms: x is made of concats along its last axis, sums and
 * differences, and what these are made of in the end are the atoms. Each stands in one or more places of x's
 * last axis, with a sign, and so meets as many slices of W. */
#ifndef CTRC_PASSES_SPLIT_CONCAT_H
#define CTRC_PASSES_SPLIT_CONCAT_H
#include "passes/rewrite.h"

enum { SPLIT_INNER = 48, SPLIT_ATOMS = 48, SPLIT_PLACES = 8, SPLIT_DEPTH = 32 };

typedef struct {
    int64_t begin; /* in x's last axis */
    bool minus;
} SplitPlace;

typedef struct {
    IrNode *value;
    SplitPlace at[SPLIT_PLACES];
    int n;
} SplitAtom;

typedef struct {
    IrNode *product;            /* x @ W, or x @ W^T */
    IrNode *inner[SPLIT_INNER]; /* what x is made of that can be opened, operands first, x last */
    bool open[SPLIT_INNER];     /* else it is an atom, or not met at all */
    bool kept[SPLIT_INNER];     /* something other than this product needs it */
    int n;
    SplitAtom atom[SPLIT_ATOMS]; /* as `open` says: set by pass_split_atoms */
    int n_atoms;
} Split;

/* Whether the product is one that can be split, with x's insides. All of them are open then. mark: uses in
 * the whole body. */
bool pass_split_open(Split *s, IrNode *product);
/* Sets the atoms. False if there are too many. */
bool pass_split_atoms(Split *s);
/* The product by its atoms, appended to b's body: one product for each of how often atoms live, the finest
 * last. */
IrNode *pass_split_build(Split *s, IrBuilder *b);

#endif
