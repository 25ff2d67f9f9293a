/* What stands within another value's place: see ir/view.c. */
#include "passes/place_views.h"

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
    return slice->type.live <= LIVE_STEP || (slice->mark && ir_type_size(slice->type) >= LEAST_STRIDED);
}

static bool lives_alike(IrType a, IrType b) { return a.live == b.live && a.axis == b.axis; }

/* A concat of rows or positions, whose parts are each one run of a unit. */
static bool has_room(const IrNode *n) {
    return n->op == OP_CONCAT && n->plan.domain == DOM_ROWS && ir_one_run(n->type, ir_attr_i(n, "axis"));
}

static bool fits(const IrNode *part, const IrNode *concat) {
    return part->plan.domain == DOM_ROWS && !part->aux && part->mark &&
           lives_alike(part->type, concat->type) && ir_writes_strided(part) &&
           ir_type_size(part->type) >= LEAST_STRIDED;
}

void pass_place_parts(IrBody *body) {
    pass_mark_strided(body);
    for (int i = 0; i < body->n; i++) body->nodes[i]->aux = NULL;
    for (int i = 0; i < body->n; i++) {
        IrNode *n = body->nodes[i];
        if (!has_room(n)) continue;
        for (int k = 0; k < n->n_in; k++)
            if (fits(ir_part(n, k), n)) ir_part(n, k)->aux = n;
    }
}

int pass_part_number(const IrNode *concat, const IrNode *part) {
    int k = 0;
    while (ir_part(concat, k) != part) k++;
    return k;
}
