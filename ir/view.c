/* Values that stand within other values' places, and which kernels can work on them.
 *
 * A slice whose part is one run of elements in each unit (row, position, unique row) is the same memory as
 * its operand, from another element on and with the operand's elements between its units:
 *
 *     %2 = gru …                               : f32[~h,144]  at=axis+0
 *     %3 = slice %2 {axis=0, begin=36, end=72} : f32[~h,36]   at=axis+0 col=36 ld=144
 *
 * A concat's part can be made where the concat has it, if its kernel can write so:
 *
 *     %4 = embed …                    : f32[16] domain=rows at=fixed+0 col=8 ld=24
 *     %5 = concat %3, %4 {axis=0}     : f32[24] domain=rows at=fixed+0
 *
 * The concat copies the parts that stand elsewhere, and has no kernel if there is none.
 *
 * Everything else about a value is as if it stood alone: its elements within a unit are contiguous. */
#include "ir/internal.h"

bool ir_is_view(const IrNode *n) {
    return (n->op == OP_RESHAPE || n->op == OP_SLICE) && n->plan.phase >= 0 && n->plan.domain == DOM_NONE;
}

const IrNode *ir_viewed(const IrNode *n) {
    while (ir_is_view(n)) n = n->in[0];
    return n;
}

bool ir_one_run(IrType t, int64_t axis) {
    for (int64_t i = 0; i < axis; i++)
        if (t.dim[i] != 1) return false;
    return true;
}

int64_t ir_unit_stride(const IrNode *n) { return n->plan.ld ? n->plan.ld : ir_type_size(n->type); }

static bool one_unit(IrType t) { return t.live == LIVE_ALWAYS || t.live == LIVE_STEP; }

IrPlan ir_view_place(const IrNode *view) {
    const IrNode *x = view->in[0];
    IrPlan place = x->plan;
    if (view->op == OP_RESHAPE) return place;
    int64_t inner = 1, axis = ir_attr_i(view, "axis");
    for (int64_t i = axis + 1; i < x->type.rank; i++) inner *= x->type.dim[i];
    place.col += ir_attr_i(view, "begin") * inner;
    place.ld = one_unit(x->type) ? 0 : ir_unit_stride(x);
    return place;
}

/* ---- which kernels can ---- */

static bool is_one_row(IrType t) { return ir_type_size(t) == ir_type_width(t); }

/* A product of all rows of all units by one matrix: then rows of a unit must stand as units do. */
static bool is_merged(const IrNode *product) {
    IrType y = product->in[1]->type;
    return product->op == OP_MATMUL && one_unit(y) && y.rank == 2 && !ir_attr_i(product, "ta");
}

static bool product_reads(const IrNode *product, int k) {
    bool rows = product->op == OP_MATMULGRADW || (k == 0 && is_merged(product));
    return !rows || is_one_row(product->in[k]->type);
}

static bool region_reads(const IrNode *fused, int k) {
    if (ir_ends_in_reduction(fused)) return false;
    for (int i = 0; i < fused->body->n; i++) {
        const IrNode *n = fused->body->nodes[i];
        if (ir_ops[n->op].cls != CLASS_PROD) continue;
        for (int j = 0; j < n->n_in; j++)
            if (n->in[j]->op == OP_ARG && ir_attr_i(n->in[j], "index") == k && !product_reads(n, j))
                return false;
    }
    return true;
}

bool ir_reads_strided(const IrNode *n, int k) {
    switch (n->op) {
    case OP_FUSED: return region_reads(n, k);
    case OP_RESULT: return true; /* it doesn't look at the region's first */
    case OP_MATMUL:
    case OP_MATMULGRADW: return product_reads(n, k);
    case OP_SLICE:
    case OP_SUM:
    case OP_MAXR:
    case OP_SOFTMAX:
    case OP_GATHER:
    case OP_SCATTERADD: return ir_one_run(n->in[k]->type, ir_attr_i(n, "axis"));
    case OP_BNSTATS:
    case OP_BNBLOCKSTATS:
    case OP_BNBLOCKGSUMS:
    case OP_BNGSUMS: return is_one_row(n->in[k]->type);
    case OP_CONCAT:
    case OP_PAD:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_BROADCAST:
    case OP_SHIFT:
    case OP_APPEND:
    case OP_APPENDGRAD:
    case OP_SEGSUM:
    case OP_SEGMEAN:
    case OP_SEGMAX:
    case OP_SEGLAST:
    case OP_SEGSOFTMAX:
    case OP_SUMROWS:
    case OP_BLOCKSUMS:
    case OP_MEANROWS:
    case OP_SRU:
    case OP_SRUGRAD:
    case OP_BNNORM:
    case OP_BNGRAD:
    case OP_ROWGRAD:
    case OP_DENSEGRAD: return true;
    default: return ir_ops[n->op].cls == CLASS_EW;
    }
}

static bool product_writes(const IrNode *product) { return !is_merged(product) || is_one_row(product->type); }

bool ir_writes_strided(const IrNode *n) {
    if (n->type.elem != TY_F32 || (n->type.live != LIVE_ROW && n->type.live != LIVE_POS)) return false;
    switch (n->op) {
    case OP_FUSED: return !ir_ends_in_reduction(n) && (!ir_product_of(n) || product_writes(ir_product_of(n)));
    case OP_MATMUL: return product_writes(n);
    case OP_EMBED:
    case OP_RESULT:
    case OP_EMBEDPOOL: return true;
    case OP_SUMROWS:
    case OP_MEANROWS:
    case OP_BNSTATS:
    case OP_BNGSUMS: return false;
    default: return n->n_in > 0 && ir_reads_strided(n, 0); /* what walks both sides alike */
    }
}

/* ---- parts of a concat ---- */

IrNode *ir_part(const IrNode *concat, int k) {
    IrNode *part = concat->in[k];
    while (part->op == OP_RESHAPE && ir_is_view(part)) part = part->in[0];
    return part;
}

IrPlan ir_part_place(const IrNode *concat, int k) {
    IrPlan place = concat->plan;
    for (int i = 0; i < k; i++) place.col += ir_type_size(concat->in[i]->type);
    place.ld = ir_unit_stride(concat);
    return place;
}

bool ir_in_place(const IrNode *concat, int k) {
    const IrNode *part = ir_part(concat, k);
    const IrPlan *here = &part->plan;
    if (!here->ld || ir_is_view(part) || here->region == REGION_NONE || here->region == REGION_INPUT)
        return false;
    if (part->type.live != concat->type.live || part->type.axis != concat->type.axis) return false;
    if (!ir_one_run(concat->type, ir_attr_i(concat, "axis"))) return false;
    IrPlan place = ir_part_place(concat, k);
    return here->region == place.region && here->offset == place.offset && here->col == place.col &&
           here->ld == place.ld && here->per_block == place.per_block;
}

bool ir_all_in_place(const IrNode *n) {
    if (n->op != OP_CONCAT) return false;
    for (int k = 0; k < n->n_in; k++)
        if (!ir_in_place(n, k)) return false;
    return true;
}

bool ir_stands_in(const IrNode *x, const IrNode *n) {
    x = ir_viewed(x);
    if (x == n) return true;
    for (int k = 0; x->plan.ld && n->op == OP_CONCAT && k < n->n_in; k++)
        if (ir_in_place(n, k) && ir_stands_in(x, ir_part(n, k))) return true;
    return false;
}

bool ir_writes_within(const IrBody *b, const IrNode *x, const IrNode *n) {
    if (ir_stands_in(x, n)) return true;
    for (int i = 0; x->op == OP_FUSED && ir_result(x, 1) && i < b->n; i++) {
        const IrNode *r = b->nodes[i];
        if (r->op == OP_RESULT && r->in[0] == x && ir_stands_in(r, n)) return true;
    }
    return false;
}

int ir_first_write(const IrNode *n) {
    int first = n->plan.phase;
    for (int k = 0; n->op == OP_CONCAT && k < n->n_in; k++) {
        if (!ir_in_place(n, k)) continue;
        int part = ir_first_write(ir_part(n, k));
        if (part < first) first = part;
    }
    return first;
}
