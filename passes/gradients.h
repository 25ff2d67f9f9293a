/* What gradient rules see: one rule for each name in the op table's grad column.
 *
 * A rule gets a node y = op(x…) of func train and the gradient g of the loss by y, and calls
 * pass_gradient_to… for each operand. Invariant: a gradient has exactly its value's dimensions, and lives as
 * often as the value or less: a step's gradient of a row's value means "the same for every row", so that a
 * mean's 1/rows never becomes an array. Gradients of what lives always live a step.
 * Rules need not ask whether an operand wants a gradient, only when making it would cost nodes of its own
 * (dead code is removed anyway). All of it may be handed NULL after an error, and then does nothing. */
#ifndef CTRC_PASSES_GRADIENTS_H
#define CTRC_PASSES_GRADIENTS_H
#include "passes/rewrite.h"

/* A lookup's gradient: g of each id of the list or row. kind as in dense_grad. */
typedef struct {
    IrNode *id, *g;
    int kind;
} PassGradPair;
typedef struct {
    IrNode *whole;       /* sum of the gradients of all whole uses, or NULL */
    PassGradPair *pairs; /* of its lookups, one for each id and kind */
    int n_pairs, cap_pairs;
    IrNode **ids; /* of all its lookups and products with one-hots, with a gradient or without */
    int n_ids, cap_ids;
} PassGradWeight;

typedef struct {
    IrProgram *p;
    IrBuilder b; /* appends to func train */
    PassGradWeight *weights;
    IrNode **updates; /* bn_update …: put at the end */
    int n_updates, cap_updates;
    bool failed;
} PassGrad;

#define OP(id, text, min_in, max_in, attrs, shape, grad, ...)                                                \
    void pass_grad_##grad(PassGrad *c, IrNode *y, IrNode *g);
#include "ir/ops.def"
#undef OP

bool pass_gradient_wants(const IrNode *x);
/* g counts towards x. It has y's dimensions, or x's. Dimensions that x stretched along are summed, and so are
 * the rows or positions of y, where x lives less often. */
void pass_gradient_to(PassGrad *c, const IrNode *y, IrNode *x, IrNode *g);
/* The same, where g has x's own dimensions and is already summed over what x doesn't have. */
void pass_gradient_to_own(PassGrad *c, IrNode *x, IrNode *g);
/* g for every row or position of `like`, whose dimensions it has: for ops that number elements or pair them.
 */
IrNode *pass_gradient_repeat(PassGrad *c, IrNode *g, IrNode *like);
/* x^T g over the last dimension of each, summed over rows, positions and leading dimensions: [k], [n] ->
 * [k,n]. x and g live equally often. */
IrNode *pass_gradient_product(PassGrad *c, IrNode *x, IrNode *g);

#endif
