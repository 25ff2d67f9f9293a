/* Where values stand: addresses by the plan, ranges of positions, and the ops that are only an address. */
#include <stdlib.h>
#include "backend/emit.h"

const IrNode *emit_operand(const Emit *e, const IrNode *n, int i) {
    const IrNode *x = n->in[i];
    return x->op == OP_ARG && e->region ? e->region->in[ir_attr_i(x, "index")] : x;
}

static LLVMBasicBlockRef to_entry(Emit *e) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    LLVMPositionBuilderBefore(e->b, LLVMGetBasicBlockTerminator(e->entry));
    return here;
}

/* base[index] + 4 * offset * cap[index]: a value's place in an arena that grows with the batch */
static Val grown(Emit *e, int bases, int caps, int index, int64_t offset) {
    Val base = emit_step_elem(e, bases, index);
    if (!offset) return base;
    Val cap = emit_step(e, caps);
    LLVMBasicBlockRef here = to_entry(e);
    cap = emit_load_elem(e, e->i64, cap, emit_i64(e, index));
    Val at = emit_at_bytes(e, base, emit_mul(e, cap, emit_i64(e, 4 * offset)));
    LLVMPositionBuilderAtEnd(e->b, here);
    return at;
}

/* What the reader delivers: f32, ids and keys are raw inputs. */
static Val input(Emit *e, const IrNode *n) {
    int k = backend_input_raw(&e->in, n);
    if (k < 0) abort(); /* backend_inputs collects every operand: a mistake of ours */
    return emit_step_elem(e, STEP_inputs, k);
}

Val emit_base(Emit *e, const IrNode *n) {
    if (n->op == OP_ARG && e->region) n = e->region->in[ir_attr_i(n, "index")];
    if (backend_is_reader(n)) return input(e, n);
    switch (n->op) {
    case OP_CONST: return emit_CONST(e, n);
    case OP_WEIGHT: return emit_WEIGHT(e, n);
    case OP_INVROWS: return emit_INVROWS(e, n);
    default: break;
    }
    switch (n->plan.region) {
    case REGION_FIXED: {
        Val base = emit_step(e, STEP_fixed);
        LLVMBasicBlockRef here = to_entry(e);
        Val at = emit_at_bytes(e, base, emit_i64(e, n->plan.offset));
        LLVMPositionBuilderAtEnd(e->b, here);
        return at;
    }
    case REGION_AXIS: return grown(e, STEP_axis_arena, STEP_axis_cap, n->type.axis, n->plan.offset);
    case REGION_UNIQ: return grown(e, STEP_uniq_arena, STEP_uniq_cap, n->type.axis, n->plan.offset);
    default:
        diag_error(e->p->diag, n->span, NULL, "internal: %s has no place in memory", ir_ops[n->op].text);
        return LLVMConstNull(e->ptr);
    }
}

Val emit_offsets(Emit *e, int axis) { return emit_step_elem(e, STEP_offsets, axis); }

Val emit_offset(Emit *e, int axis, Val row) {
    return emit_to_i64(e, emit_load_elem(e, e->i32, emit_offsets(e, axis), row));
}

void emit_units(Emit *e, IrType t, Val *lo, Val *hi) {
    switch (t.live) {
    case LIVE_ROW:
    case LIVE_UNIQ: *lo = e->lo, *hi = e->hi; return;
    case LIVE_POS:
        *lo = emit_offset(e, t.axis, e->lo);
        *hi = emit_offset(e, t.axis, e->hi);
        return;
    default: *lo = emit_i64(e, 0), *hi = emit_i64(e, 1);
    }
}

Val emit_unit_count(Emit *e, IrType t) {
    switch (t.live) {
    case LIVE_ROW: return emit_to_i64(e, emit_step(e, STEP_rows));
    case LIVE_UNIQ: return emit_to_i64(e, emit_table(e, t.axis, TABLE_n));
    case LIVE_POS: return emit_offset(e, t.axis, emit_to_i64(e, emit_step(e, STEP_rows)));
    default: return emit_i64(e, 1);
    }
}

/* ---- sources ---- */

Val emit_CONST(Emit *e, const IrNode *n) {
    const IrAttr *v = ir_attr(n, "value");
    int64_t size = ir_type_size(n->type);
    bool filled = v->flist.n == 1;
    LLVMTypeRef type = LLVMArrayType2(e->f32, (uint64_t)size);
    Val init;
    if (filled && v->flist.v[0] == 0) {
        init = LLVMConstNull(type);
    } else {
        Val *items = ARENA_ARRAY(e->arena, Val, size);
        for (int64_t i = 0; i < size; i++) items[i] = emit_const(e, 1, v->flist.v[filled ? 0 : i]);
        init = LLVMConstArray2(e->f32, items, (uint64_t)size);
    }
    Val g = LLVMAddGlobal(e->mod, type, "const");
    LLVMSetInitializer(g, init);
    LLVMSetGlobalConstant(g, 1);
    LLVMSetLinkage(g, LLVMPrivateLinkage);
    LLVMSetAlignment(g, 64);
    return g;
}

Val emit_WEIGHT(Emit *e, const IrNode *n) { return emit_step_elem(e, STEP_weights, (int)ir_attr_i(n, "w")); }
Val emit_INVROWS(Emit *e, const IrNode *n) {
    (void)n;
    return emit_step_ptr(e, STEP_inv_rows);
}
/* These have places by the plan, or are their region's operand. */
Val emit_SEGLEN(Emit *e, const IrNode *n) { return emit_base(e, n); }
Val emit_COLUMN(Emit *e, const IrNode *n) { return emit_base(e, n); }
Val emit_ARG(Emit *e, const IrNode *n) { return emit_base(e, n); }

void emit_seg_len_kernel(Emit *e, const IrNode *n) {
    int axis = (int)ir_attr_i(n, "axis");
    Val out = emit_base(e, n);
    EmitLoop l = emit_for(e, e->lo, e->hi, 1);
    Val len = emit_sub(e, emit_offset(e, axis, emit_add(e, l.i, emit_i64(e, 1))), emit_offset(e, axis, l.i));
    emit_store(e, LLVMBuildSIToFP(e->b, len, e->f32, ""), emit_at(e, out, l.i));
    emit_end(e, &l);
}

EmitAxis emit_axis(IrType t, int64_t axis) {
    EmitAxis a = {1, t.dim[axis], 1};
    for (int i = 0; i < t.rank; i++) {
        if (i < axis) a.outer *= t.dim[i];
        if (i > axis) a.inner *= t.dim[i];
    }
    return a;
}
