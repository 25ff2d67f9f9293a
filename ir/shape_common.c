/* What shape rules have in common: wanted operands, joins of liveness, axis attributes; and the rules of
 * elementwise ops, which broadcast. */
#include "ir/internal.h"

bool ir_check_dims(IrProgram *p, int rank, const int64_t *dim, const char **why) {
    if (rank < 1 || rank > IR_MAX_RANK)
        return ir_wrong(p, why, "expected 1 to %d dimensions, found %d", IR_MAX_RANK, rank);
    int64_t size = 1;
    for (int i = 0; i < rank; i++) {
        if (dim[i] < 1)
            return ir_wrong(p, why, "expected sizes of at least 1, found %lld", (long long)dim[i]);
        if (dim[i] > IR_MAX_ELEMS / size) return ir_wrong(p, why, "a value of more than 2^40 elements");
        size *= dim[i];
    }
    return true;
}

const char *ir_operand(IrProgram *p, const IrNode *n, int i) {
    return n->n_in == 1 ? "" : arena_printf(p->arena, "operand %d: ", i + 1);
}

bool ir_want_f32(IrProgram *p, const IrNode *n, int i, const char **why) {
    IrType t = n->in[i]->type;
    if (t.elem == TY_F32) return true;
    return ir_wrong(p, why, "%sexpected f32, found %s", ir_operand(p, n, i), ir_type_text(p, t));
}

bool ir_want_dims(IrProgram *p, const IrNode *n, int i, int rank, const int64_t *dim, const char **why) {
    IrType t = n->in[i]->type;
    bool same = t.elem == TY_F32 && t.rank == rank;
    for (int k = 0; same && k < rank; k++) same = t.dim[k] == dim[k];
    if (same) return true;
    return ir_wrong(p, why, "%sexpected %s, found %s", ir_operand(p, n, i),
                    ir_type_text(p, ir_f32(t.elem == TY_F32 ? t.live : LIVE_ROW, t.axis, rank, dim)),
                    ir_type_text(p, t));
}

bool ir_want_coarse(IrProgram *p, const IrNode *n, int i, const char **why) {
    IrType t = n->in[i]->type;
    if (t.live == LIVE_ALWAYS || t.live == LIVE_STEP) return true;
    return ir_wrong(p, why, "%sexpected a value that lives always or a step, found %s", ir_operand(p, n, i),
                    ir_type_text(p, t));
}

bool ir_want_rows(IrProgram *p, const IrNode *n, int i, const char **why) {
    IrType t = n->in[i]->type;
    if (t.live == LIVE_ROW || t.live == LIVE_POS) return true;
    return ir_wrong(p, why, "%sexpected a value a row or position, found %s", ir_operand(p, n, i),
                    ir_type_text(p, t));
}

/* A program without a batch has as many blocks as `written` says; passes refuse to go on with it. */
static bool want_block_rows(IrProgram *p, const IrNode *n, IrType written, int64_t *blocks,
                            const char **why) {
    int64_t rows = ir_attr_i(n, "rows"), some = written.rank ? written.dim[0] : 1;
    if (rows < 1) return ir_wrong(p, why, "expected at least 1 row a block, found %lld", (long long)rows);
    *blocks = p->batch > 0 ? (p->batch - 1) / rows + 1 : some;
    return true;
}

bool ir_by_blocks(IrProgram *p, const IrNode *n, int rank, const int64_t *dim, IrType *out,
                  const char **why) {
    int64_t size[IR_MAX_RANK];
    if (!want_block_rows(p, n, n->type, &size[0], why)) return false;
    if (rank >= IR_MAX_RANK)
        return ir_wrong(p, why, "expected at most %d dimensions, found %d", IR_MAX_RANK - 1, rank);
    for (int i = 0; i < rank; i++) size[i + 1] = dim[i];
    *out = ir_f32(LIVE_STEP, -1, rank + 1, size);
    return ir_check_dims(p, rank + 1, size, why);
}

bool ir_want_blocks(IrProgram *p, const IrNode *n, const char **why) {
    IrType t = n->in[0]->type;
    int64_t blocks = 0;
    if (!want_block_rows(p, n, t, &blocks, why)) return false;
    if (t.elem == TY_F32 && t.live == LIVE_STEP && t.rank >= 2 && t.dim[0] == blocks) return true;
    return ir_wrong(p, why, "expected step f32[%lld,…], a value of each block of %lld rows, found %s",
                    (long long)blocks, (long long)ir_attr_i(n, "rows"), ir_type_text(p, t));
}

bool ir_join_live(IrProgram *p, IrType *t, IrType with, const char **why) {
    if (with.live < LIVE_POS && t->live < LIVE_POS) {
        if (with.live > t->live) t->live = with.live;
        return true;
    }
    IrType fine = t->live >= with.live ? *t : with, other = t->live >= with.live ? with : *t;
    if (fine.live == LIVE_UNIQ) { /* unique rows know nothing of the batch's rows */
        if (other.live == LIVE_ROW || other.live == LIVE_POS)
            return ir_wrong(p, why,
                            "a value a unique row of a table (%s) doesn't meet one a row or position (%s)",
                            ir_type_text(p, fine), ir_type_text(p, other));
        if (other.live == LIVE_UNIQ && other.axis != fine.axis)
            return ir_wrong(p, why, "expected unique rows of one table, found %s and %s", ir_type_text(p, *t),
                            ir_type_text(p, with));
    } else if (other.live == LIVE_POS && other.axis != fine.axis) {
        return ir_wrong(p, why, "expected values along one list, found one along %s and one along %s",
                        ir_axis_described(p, t->axis), ir_axis_described(p, with.axis));
    }
    t->live = fine.live;
    t->axis = fine.axis;
    return true;
}

bool ir_axis_attr(IrProgram *p, const IrNode *n, const char *key, int rank, int *out, const char **why) {
    int64_t axis = ir_attr_i(n, key);
    if (axis < 0 || axis >= rank)
        return ir_wrong(p, why, "expected an axis from 0 to %d, found %lld", rank - 1, (long long)axis);
    *out = (int)axis;
    return true;
}

/* numpy's rule: ranks align from the right, sizes of 1 stretch. */
static bool broadcast_dims(IrProgram *p, IrType *t, IrType with, const char **why) {
    int rank = t->rank > with.rank ? t->rank : with.rank;
    int64_t dim[IR_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        int a = t->rank - 1 - i, b = with.rank - 1 - i;
        int64_t da = a >= 0 ? t->dim[a] : 1, db = b >= 0 ? with.dim[b] : 1;
        if (da != db && da != 1 && db != 1)
            return ir_wrong(
                p, why, "shapes don't match: expected equal sizes (or 1), found %lld and %lld in %s and %s",
                (long long)da, (long long)db, ir_type_text(p, *t), ir_type_text(p, with));
        dim[rank - 1 - i] = da == 1 ? db : da;
    }
    t->rank = rank;
    for (int i = 0; i < rank; i++) t->dim[i] = dim[i];
    return true;
}

bool ir_shape_ew(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    for (int i = 0; i < n->n_in; i++)
        if (!ir_want_f32(p, n, i, why)) return false;
    IrType t = n->in[0]->type;
    for (int i = 1; i < n->n_in; i++)
        if (!broadcast_dims(p, &t, n->in[i]->type, why) || !ir_join_live(p, &t, n->in[i]->type, why))
            return false;
    if (n->op == OP_DROPOUT) {
        double rate = ir_attr_f(n, "rate");
        if (!(rate >= 0 && rate < 1))
            return ir_wrong(p, why, "expected a rate of at least 0 and below 1, found %g", rate);
    }
    if (n->op == OP_CLIP && !(ir_attr_f(n, "lo") <= ir_attr_f(n, "hi")))
        return ir_wrong(p, why, "expected lo <= hi, found %g and %g", ir_attr_f(n, "lo"), ir_attr_f(n, "hi"));
    *out = t;
    return ir_check_dims(p, t.rank, t.dim, why);
}
