/* The parts of split-concat, and of onehot-to-embedding, which opens concats that have one-hots among their
 * parts.
 *
 * The left side x of a product x @ W is opened into atoms: x is made of concats along its last axis, sums and
 * differences, and what these are made of in the end are the atoms. Each stands in one or more places of x's
 * last axis, with a sign, and so meets as many slices of W. */
#ifndef CTRC_PASSES_SPLIT_CONCAT_H
#define CTRC_PASSES_SPLIT_CONCAT_H
#include "passes/rewrite.h"

enum { SPLIT_INNER = 48, SPLIT_ATOMS = 192, SPLIT_PLACES = 8, SPLIT_DEPTH = 32 };

typedef struct {
    int64_t begin; /* in x's last axis */
    bool minus;
} SplitPlace;

typedef struct {
    IrNode *value;
    SplitPlace at[SPLIT_PLACES];
    int n;
    int group; /* atoms of one group are one product: an IrLive, or SPLIT_LOOKUPS */
} SplitAtom;
enum {
    SPLIT_LOOKUPS = LIVE_POS + 1, /* group of an atom that is linear in one-hots (marked so): looked up in W */
    SPLIT_HAS_ONEHOTS = -1        /* mark of what must be opened, so that they become atoms */
};

typedef struct {
    IrNode *product;            /* x @ W, or x @ W^T */
    IrNode *inner[SPLIT_INNER]; /* what x is made of that can be opened, operands first, x last */
    bool open[SPLIT_INNER];     /* else it is an atom, or not met at all */
    bool kept[SPLIT_INNER];     /* something other than this product needs it */
    int n;
    bool onehots;                /* only what has one-hots is opened */
    SplitAtom atom[SPLIT_ATOMS]; /* as `open` says: set by pass_split_atoms */
    int n_atoms;
    const IrBody *around; /* what stands before the product, while it is built */
} Split;

/* Whether the product is one that can be split, with x's insides. All of them are open then. Either only those
 * marked SPLIT_HAS_ONEHOTS are, or marks are uses in the whole body, and one of the insides is a concat. */
bool pass_split_open(Split *s, IrNode *product, bool onehots);
/* Sets the atoms, grouped by how often they live. False if there are too many. */
bool pass_split_atoms(Split *s);
/* Whether x is linear in its operands and can be opened. */
bool pass_split_can_open(const IrNode *x);
/* The product by its atoms, appended to b's body: one product for each group of atoms, the finest last, and
 * then the lookups. */
IrNode *pass_split_build(Split *s, IrBuilder *b);

#endif
