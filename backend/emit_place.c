/* Where values stand: addresses by the plan, ranges of positions, and the ops that are only an address. */
#include <stdlib.h>
#include "backend/emit.h"

static const IrNode *through_arg(const Emit *e, const IrNode *n) {
    return n->op == OP_ARG && e->region ? e->region->in[ir_attr_i(n, "index")] : n;
}

const IrNode *emit_operand(const Emit *e, const IrNode *n, int i) { return through_arg(e, n->in[i]); }

static LLVMBasicBlockRef to_entry(Emit *e) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    LLVMPositionBuilderBefore(e->b, LLVMGetBasicBlockTerminator(e->entry));
    return here;
}

/* base + 4 * offset * cap[index]: a value's place in an arena that grows with the batch; base is known in the
 * entry. */
static Val grown(Emit *e, Val base, int caps, int index, int64_t offset) {
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

/* The same in the thread's own arenas, where the first of the rows (positions) of this kernel's block stands.
 */
static Val local(Emit *e, const IrNode *n) {
    Val scratch = LLVMGetParam(e->fn, 3);
    bool by_row = n->type.live == LIVE_ROW;
    LLVMBasicBlockRef here = to_entry(e);
    Val at = by_row ? emit_at_bytes(e, scratch, emit_i64(e, e->local_at + n->plan.offset))
                    : emit_load_elem(e, e->ptr, scratch, emit_i64(e, -1 - n->type.axis));
    LLVMPositionBuilderAtEnd(e->b, here);
    return by_row ? at : grown(e, at, STEP_local_cap, n->type.axis, n->plan.offset);
}

/* The plan's place, where the first of the rows (positions) stands that it has room for. */
static Val planned(Emit *e, const IrNode *n) {
    switch (n->plan.region) {
    case REGION_FIXED: {
        Val base = emit_step(e, STEP_fixed);
        LLVMBasicBlockRef here = to_entry(e);
        Val at = emit_at_bytes(e, base, emit_i64(e, n->plan.offset));
        LLVMPositionBuilderAtEnd(e->b, here);
        return at;
    }
    case REGION_AXIS:
        return grown(e, emit_step_elem(e, STEP_axis_arena, n->type.axis), STEP_axis_cap, n->type.axis,
                     n->plan.offset);
    case REGION_UNIQ:
        return grown(e, emit_step_elem(e, STEP_uniq_arena, n->type.axis), STEP_uniq_cap, n->type.axis,
                     n->plan.offset);
    case REGION_LOCAL: return local(e, n);
    default:
        diag_error(e->p->diag, n->span, NULL, "internal: %s has no place in memory", ir_ops[n->op].text);
        return LLVMConstNull(e->ptr);
    }
}

/* Kernels count rows within the step. A place for one block of rows at a time, this kernel's or a
 * micro-batch's, begins with that block's first row (position), so number 0 would stand before it. */
static Val as_of_zero(Emit *e, Val at, const IrNode *n) {
    Val first;
    if (n->plan.region != REGION_LOCAL) {
        if (!n->plan.per_block) return at;
        first = emit_first_unit(e, n->type);
    } else {
        first = LLVMGetParam(e->fn, 1);
        if (n->type.live == LIVE_POS) first = emit_offset(e, n->type.axis, first);
    }
    Val back = LLVMBuildNeg(e->b, emit_scale(e, first, 4 * ir_unit_stride(n)), "");
    return LLVMBuildGEP2(e->b, e->i8, at, &back, 1, ""); /* not `inbounds`: it may lie before the arena */
}

Val emit_base(Emit *e, const IrNode *n) {
    n = through_arg(e, n);
    if (ir_is_reader(n)) return input(e, n);
    switch (n->op) {
    case OP_CONST: return emit_CONST(e, n);
    case OP_WEIGHT: return emit_WEIGHT(e, n);
    case OP_INVROWS: return emit_INVROWS(e, n);
    default: break;
    }
    const IrNode *viewed = ir_viewed(n);
    Val at = viewed->op == OP_WEIGHT ? emit_WEIGHT(e, viewed) : planned(e, n);
    return emit_at_const(e, as_of_zero(e, at, n), n->plan.col);
}

int64_t emit_unit(const Emit *e, const IrNode *n) { return ir_unit_stride(through_arg(e, n)); }

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

static bool by_blocks(const Emit *e) { return e->f && e->f->blocks; }

Val emit_first_unit(Emit *e, IrType t) {
    if (!by_blocks(e) || (t.live != LIVE_ROW && t.live != LIVE_POS)) return emit_i64(e, 0);
    Val row = emit_to_i64(e, emit_step(e, STEP_row_lo));
    return t.live == LIVE_ROW ? row : emit_offset(e, t.axis, row);
}

Val emit_unit_count(Emit *e, IrType t) {
    Val rows = emit_to_i64(e, emit_step(e, by_blocks(e) ? STEP_row_hi : STEP_rows));
    switch (t.live) {
    case LIVE_ROW: return emit_sub(e, rows, emit_first_unit(e, t));
    case LIVE_UNIQ: return emit_to_i64(e, emit_table(e, t.axis, TABLE_n));
    case LIVE_POS: return emit_sub(e, emit_offset(e, t.axis, rows), emit_first_unit(e, t));
    default: return emit_i64(e, 1);
    }
}

Val emit_first_of(Emit *e, const IrNode *n) {
    Val base = emit_base(e, n);
    IrType t = n->type;
    return by_blocks(e) ? emit_at(e, base, emit_scale(e, emit_first_unit(e, t), emit_unit(e, n))) : base;
}

Val emit_more(Emit *e) {
    if (!by_blocks(e)) return NULL;
    return emit_icmp(e, LLVMIntNE, emit_step(e, STEP_row_lo), emit_i32(e, 0));
}

Val emit_grown(Emit *e, Val v, Val at) {
    Val more = emit_more(e);
    if (!more) return v;
    int w = emit_lanes(v);
    return emit_fadd(e, emit_select(e, more, emit_load_vec(e, at, w), emit_const(e, w, 0)), v);
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
Val emit_RESULT(Emit *e, const IrNode *n) { return emit_base(e, n); }

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

int64_t emit_outer(const Emit *e, const IrNode *n, const EmitAxis *a) {
    return a->outer == 1 ? emit_unit(e, n) : a->size * a->inner;
}
