/* Regions of kind update: the gradient of a weight, a sum over the rows of the step, and the update by it,
 * for one tile of the weight after the other:
 *
 *   %9 = fused %2, %8, %3 {kind="update"} : none {
 *     %10 = arg {index=0} : f32[4]
 *     %11 = arg {index=1} : f32[2]
 *     %12 = arg {index=2} : always f32[4,2]
 *     %13 = const {value=[0.02], shape=[1]} : always f32[1]
 *     %14 = matmul_grad_w %10, %11 : step f32[4,2]
 *     %15 = mul %12, %13 : always f32[4,2]
 *     %16 = add %14, %15 : step f32[4,2]
 *     %17 = update %16 {w=w} : none
 *   }
 *
 * A tile of the weight is written while others are still to come, so nothing in it may depend on more of the
 * weight, or of the gradient, than the tile's own elements. */
#include "ir/internal.h"
#include <string.h>

static const IrNode *outer(const IrNode *region, const IrNode *x) {
    if (x->op != OP_ARG) return x;
    int64_t index = ir_attr_i(x, "index");
    return index >= 0 && index < region->n_in ? region->in[index] : x;
}

/* The weights that the region reads: its own alone, by elementwise ops alone. */
static bool own_weight(IrProgram *p, const IrNode *region, const IrNode *sum, int64_t w, const char **why) {
    for (int i = 0; i < region->n_in; i++) {
        const IrNode *x = region->in[i];
        if (x->op == OP_WEIGHT && ir_attr_i(x, "w") != w)
            return ir_wrong(p, why, "expected no weight but '%s', which it writes, found '%s'",
                            p->weights[w].name, p->weights[ir_attr_i(x, "w")].name);
    }
    for (int i = 0; i < sum->n_in; i++)
        if (outer(region, sum->in[i])->op == OP_WEIGHT)
            return ir_wrong(p, why, "its %s reads the weight that it writes", ir_ops[sum->op].text);
    return true;
}

/* An elementwise op: one element of each operand for one of the result. */
static bool in_step(IrProgram *p, const IrNode *n, IrType sum, const char **why) {
    for (int i = 0; i < n->n_in; i++) {
        IrType t = n->in[i]->type;
        if (t.live <= LIVE_STEP && (ir_same_dims(t, sum) || ir_type_size(t) == 1)) continue;
        return ir_wrong(p, why, "%s in it: expected %s or one number, found %s", ir_ops[n->op].text,
                        ir_type_text(p, sum), ir_type_text(p, t));
    }
    return true;
}

bool ir_check_update_region(IrProgram *p, const IrNode *n, const char **why) {
    const IrNode *last = n->body->nodes[n->body->n - 1], *sum = NULL;
    if (strcmp(ir_attr_s(n, "kind"), "update") != 0)
        return !ir_writer(n) ||
               ir_wrong(p, why, "expected kind update, as it ends in %s", ir_ops[last->op].text);
    if (last->op != OP_UPDATE)
        return ir_wrong(p, why, "expected an update as its last op, found %s", ir_ops[last->op].text);
    if (last->n_in > 1)
        return ir_wrong(p, why, "expected no scale, which is known when the whole gradient is");
    int sums = 0;
    for (int i = 0; i + 1 < n->body->n; i++) {
        const IrNode *x = n->body->nodes[i];
        if (ir_sums_gradient(x)) sum = x, sums++;
        if (!ir_sums_gradient(x) && x->op != OP_ARG && x->op != OP_CONST && ir_ops[x->op].cls != CLASS_EW)
            return ir_wrong(p, why, "expected elementwise ops around a sum over rows, found %s",
                            ir_ops[x->op].text);
    }
    if (sums != 1)
        return ir_wrong(p, why, "expected one matmul_grad_w, sum_rows or sum_blocks, found %d", sums);
    for (int i = 0; i + 1 < n->body->n; i++)
        if (ir_ops[n->body->nodes[i]->op].cls == CLASS_EW && !in_step(p, n->body->nodes[i], sum->type, why))
            return false;
    if (!ir_same_dims(sum->type, last->in[0]->type))
        return ir_wrong(p, why, "expected a gradient of the shape of its sum, %s, found %s",
                        ir_type_text(p, sum->type), ir_type_text(p, last->in[0]->type));
    return own_weight(p, n, sum, ir_attr_i(last, "w"), why);
}

/* Results beside the first: numbered from 1 on, made by the one loop that makes the first. */
bool ir_check_results(IrProgram *p, const IrNode *n, const char **why) {
    int count = 0;
    for (int i = 0; i < n->body->n; i++) {
        const IrNode *x = n->body->nodes[i];
        if (x->op != OP_OUT) continue;
        if (strcmp(ir_attr_s(n, "kind"), "chain") != 0)
            return ir_wrong(p, why, "expected one result, as it is of kind %s", ir_attr_s(n, "kind"));
        if (ir_attr_i(x, "index") != ++count)
            return ir_wrong(p, why, "expected out number %d, found %lld", count,
                            (long long)ir_attr_i(x, "index"));
        if (ir_ops[x->in[0]->op].cls != CLASS_EW || !ir_type_eq(x->in[0]->type, n->type))
            return ir_wrong(p, why, "out %d: expected an elementwise op of %s, found %s of %s", count,
                            ir_type_text(p, n->type), ir_ops[x->in[0]->op].text,
                            ir_type_text(p, x->in[0]->type));
    }
    if (count && n->body->nodes[n->body->n - 1]->op == OP_OUT)
        return ir_wrong(p, why, "expected its first result as last op, found out");
    return true;
}
