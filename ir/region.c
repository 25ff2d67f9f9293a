/* Regions that end in a reduction: what they may hold, and how each of their operands is walked.
 *
 * The reduced value has one type, `of`, and so has every elementwise op of the body. Its elements are walked
 * by up to four steps: unit (row, position, unique row), outer (what lies before the reduced axis), along
 * (what is reduced) and inner (what lies behind it). An operand must stretch along each of these as a whole,
 * so that it has one stride for each; [4,1] in a sum of [4,64] along either axis does, [4,1] in a sum of
 * [~h,4,64] along the list doesn't. */
#include "ir/internal.h"
#include <string.h>

static bool is_kind(const IrNode *n, const char *kind) {
    return n->op == OP_FUSED && strcmp(ir_attr_s(n, "kind"), kind) == 0;
}

bool ir_ends_in_reduction(const IrNode *n) { return is_kind(n, "reduce") || is_kind(n, "attention"); }

IrOp ir_runs_as(const IrNode *n) {
    return ir_ends_in_reduction(n) ? n->body->nodes[n->body->n - 1]->op : n->op;
}

bool ir_reducible(IrOp op) {
    return op == OP_SUM || op == OP_MAXR || op == OP_SEGSUM || op == OP_SEGMEAN || op == OP_SEGMAX ||
           op == OP_SUMROWS || op == OP_BLOCKSUMS;
}

static bool list_weight(const IrNode *n) {
    return n->op == OP_SEGSOFTMAX && n->type.rank == 1 && n->type.dim[0] == 1;
}

IrReduction ir_reduction(const IrNode *last) {
    IrReduction r = {.last = last, .value = last->in[0], .of = last->in[0]->type, .outer = 1, .inner = 1};
    int axis = last->op == OP_SUM || last->op == OP_MAXR ? (int)ir_attr_i(last, "axis") : -1;
    for (int i = 0; i < r.of.rank; i++) {
        if (i < axis) r.outer *= r.of.dim[i];
        if (i == axis) r.size = r.of.dim[i];
        if (i > axis) r.inner *= r.of.dim[i];
    }
    r.axis = axis;
    for (int k = 0; k < 2 && r.value->op == OP_MUL && axis < 0; k++) {
        if (!list_weight(r.value->in[k])) continue;
        r.weight = r.value->in[k];
        r.value = r.value->in[1 - k];
    }
    return r;
}

/* The one stride of dimensions from..to-1, whose own strides are `stride`; -1 if there is none. */
static int64_t joined(const IrReduction *r, const int64_t *stride, int from, int to) {
    int64_t step = 0, size = 1;
    bool first = true;
    for (int i = to - 1; i >= from; i--) {
        if (r->of.dim[i] == 1) continue;
        if (!first && stride[i] != step * size) return -1;
        if (first) step = stride[i];
        size *= r->of.dim[i];
        first = false;
    }
    return step;
}

bool ir_walk(const IrReduction *r, IrType t, int64_t step[IR_WALK_STEPS]) {
    int64_t stride[IR_MAX_RANK], size = 1;
    if (t.elem != TY_F32 || t.rank > r->of.rank) return false;
    for (int i = r->of.rank - 1, at = t.rank - 1; i >= 0; i--, at--) {
        int64_t d = at >= 0 ? t.dim[at] : 1;
        stride[i] = d == 1 ? 0 : size;
        size *= d;
    }
    bool each = t.live == r->of.live, along = r->axis < 0;
    bool over_rows = r->last->op == OP_SUMROWS || r->last->op == OP_BLOCKSUMS;
    if (!each && t.live > LIVE_STEP && (over_rows || t.live != LIVE_ROW)) return false;
    step[WALK_UNIT] = each && !along ? size : 0;
    step[WALK_OUTER] = joined(r, stride, 0, along ? 0 : r->axis);
    step[WALK_ALONG] = along ? each ? size : 0 : stride[r->axis];
    step[WALK_INNER] = joined(r, stride, r->axis + 1, r->of.rank);
    return step[WALK_OUTER] >= 0 && step[WALK_INNER] >= 0;
}

/* ---- the rule that a region's body must keep ---- */

static bool sound_member(IrProgram *p, const IrReduction *r, const IrNode *n, const char *kind,
                         const char **why) {
    if (n == r->last || (r->weight && (n == r->weight || n == r->last->in[0]))) return true;
    int64_t step[IR_WALK_STEPS];
    if (n->op == OP_ARG) {
        if (ir_walk(r, n->type, step)) return true;
        return ir_wrong(
            p, why,
            "kind %s: expected operands that stretch along %s, what is reduced, as a whole, found "
            "operand %lld of %s",
            kind, ir_type_text(p, r->of), (long long)ir_attr_i(n, "index") + 1, ir_type_text(p, n->type));
    }
    bool plain = ir_ops[n->op].cls == CLASS_EW && n->op != OP_DROPOUT;
    if (plain && ir_type_eq(n->type, r->of)) return true;
    return ir_wrong(p, why,
                    "kind %s: expected elementwise ops of %s, dropout not among them, found '%s' of %s", kind,
                    ir_type_text(p, r->of), ir_ops[n->op].text, ir_type_text(p, n->type));
}

/* The weight is applied last, once. */
static bool weighed_once(const IrReduction *r, const IrBody *b) {
    int uses = 0;
    for (int i = 0; i < b->n; i++)
        for (int k = 0; k < b->nodes[i]->n_in; k++) uses += b->nodes[i]->in[k] == r->weight;
    return uses == 1;
}

bool ir_sound_reduction(IrProgram *p, const IrNode *n, const char **why) {
    const char *kind = ir_attr_s(n, "kind");
    const IrNode *last = n->body->nodes[n->body->n - 1];
    if (!ir_reducible(last->op))
        return ir_wrong(p, why,
                        "kind %s: expected sum, max, seg_sum, seg_mean, seg_max, sum_rows or block_sums as "
                        "last op, found "
                        "'%s'",
                        kind, ir_ops[last->op].text);
    IrReduction r = ir_reduction(last);
    bool attention = strcmp(kind, "attention") == 0;
    if (attention &&
        (!r.weight || r.last->op != OP_SEGSUM || r.weight->in[0]->op != OP_ARG || !weighed_once(&r, n->body)))
        return ir_wrong(
            p, why,
            "kind attention: expected seg_sum of a product with seg_softmax of a number a position, "
            "an operand");
    if (!attention) r.weight = NULL;
    for (int i = 0; i < n->body->n; i++)
        if (!sound_member(p, &r, n->body->nodes[i], kind, why)) return false;
    return true;
}
