/* What stands within another value's place: see ir/view.c. */
#include "passes/place_views.h"

static bool one_unit(IrType t) { return t.live == LIVE_ALWAYS || t.live == LIVE_STEP; }

/* Readers stand behind what they read, so a reshape, which may become a view, is known before its operand. */
void pass_mark_strided(IrBody *body) {
    for (int i = 0; i < body->n; i++) body->nodes[i]->mark = true;
    for (int i = body->n - 1; i >= 0; i--) {
        const IrNode *n = body->nodes[i];
        for (int k = 0; k < n->n_in; k++)
            if (!ir_reads_strided(n, k) || (n->op == OP_RESHAPE && !n->mark)) n->in[k]->mark = false;
    }
}

bool pass_views(const IrNode *slice) {
    if (!ir_one_run(slice->in[0]->type, ir_attr_i(slice, "axis"))) return false;
    return one_unit(slice->type) || (slice->mark && ir_type_size(slice->type) >= LEAST_STRIDED);
}
