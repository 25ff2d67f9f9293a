/* Movement: copies with strides. Axes are split into what lies before (outer) and after (inner) the one
 * named. */
#include "backend/emit.h"

static bool coarse(IrType t) { return t.live == LIVE_ALWAYS || t.live == LIVE_STEP; }
static int64_t unit_stride(const Emit *e, const IrNode *n, IrType to) {
    return n->type.live == to.live || (coarse(n->type) && coarse(to)) ? emit_unit(e, n) : 0;
}

/* A nest [unit, outer, chunk] of `to`, with nothing in it yet. */
static EmitNest blocks(int64_t outer, int64_t chunk) { return (EmitNest){.n = 3, .dim = {1, outer, chunk}}; }

static NestRef block_ref(Emit *e, const IrNode *n, IrType to, int64_t outer_stride, int64_t start) {
    NestRef r = {.base = emit_at_const(e, emit_base(e, n), start)};
    r.stride[0] = unit_stride(e, n, to);
    r.stride[1] = outer_stride;
    r.stride[2] = 1;
    if (to.live == LIVE_POS && n->type.live == LIVE_ROW) r.row_size = emit_unit(e, n);
    return r;
}

static EmitNest part_of_concat(Emit *e, const IrNode *n, int i, const EmitAxis *all, int64_t before) {
    EmitAxis part = emit_axis(n->in[i]->type, ir_attr_i(n, "axis"));
    EmitNest nest = blocks(all->outer, part.size * part.inner);
    nest.n_ref = 2;
    nest.ref[0] = block_ref(e, n, n->type, all->size * all->inner, before * all->inner);
    nest.ref[1] = block_ref(e, n->in[i], n->type, part.size * part.inner, 0);
    return nest;
}

/* All parts of a unit one after another, so that the result is written in order. */
void emit_CONCAT(Emit *e, const IrNode *n) {
    EmitAxis all = emit_axis(n->type, ir_attr_i(n, "axis"));
    EmitNest *part = ARENA_ARRAY(e->arena, EmitNest, n->n_in);
    bool by_row = false;
    int64_t before = 0;
    int copied = 0; /* the others are made where they belong */
    for (int i = 0; i < n->n_in; i++) {
        if (!ir_in_place(n, i)) part[copied++] = part_of_concat(e, n, i, &all, before);
        before += emit_axis(n->in[i]->type, ir_attr_i(n, "axis")).size;
    }
    for (int i = 0; i < copied; i++) by_row |= part[i].ref[1].row_size != 0;
    if (by_row) {
        for (int i = 0; i < copied; i++) emit_copy_units(e, &part[i], n->type);
        return;
    }
    Val lo, hi;
    emit_units(e, n->type, &lo, &hi);
    EmitLoop unit = emit_for(e, lo, hi, 1);
    for (int i = 0; i < copied; i++) {
        for (int k = 0; k < 2; k++) part[i].ref[k].start = emit_scale(e, unit.i, part[i].ref[k].stride[0]);
        emit_copy(e, &part[i]); /* dimension 0 has size 1 */
    }
    emit_end(e, &unit);
}

/* void copy(step, to, from, to stride, from stride, lo, hi): a chunk of each unit, shared by all of one size
 */
static Val copy_function(Emit *e, int64_t chunk) {
    LLVMTypeRef types[] = {e->ptr, e->ptr, e->ptr, e->i64, e->i64, e->i64, e->i64};
    Val f;
    EmitFn outer;
    if (!emit_shared_open(e, arena_printf(e->arena, "copy_%lld", (long long)chunk), types, 7, &f, &outer))
        return f;
    EmitLoop u = emit_for(e, LLVMGetParam(f, 5), LLVMGetParam(f, 6), 1);
    EmitNest nest = {.n = 1, .dim = {chunk}, .n_ref = 2};
    for (unsigned k = 0; k < 2; k++) {
        Val base = emit_at(e, LLVMGetParam(f, 1 + k), emit_mul(e, u.i, LLVMGetParam(f, 3 + k)));
        nest.ref[k] = (NestRef){.base = base, .stride = {1}};
    }
    emit_copy(e, &nest);
    emit_end(e, &u);
    emit_fn_close(e, &outer);
    return f;
}

void emit_SLICE(Emit *e, const IrNode *n) {
    EmitAxis from = emit_axis(n->in[0]->type, ir_attr_i(n, "axis")),
             to = emit_axis(n->type, ir_attr_i(n, "axis"));
    int64_t chunk = to.size * to.inner, all = from.size * from.inner,
            begin = ir_attr_i(n, "begin") * from.inner;
    Val x = emit_at_const(e, emit_base(e, n->in[0]), begin), out = emit_base(e, n),
        f = copy_function(e, chunk), lo, hi;
    emit_units(e, n->type, &lo, &hi); /* x lives as its slice does */
    Val args[] = {e->step,
                  out,
                  x,
                  emit_i64(e, to.outer > 1 ? chunk : emit_unit(e, n)),
                  emit_i64(e, to.outer > 1 ? all : emit_unit(e, n->in[0])),
                  emit_scale(e, lo, to.outer),
                  emit_scale(e, hi, to.outer)};
    emit_shared_call(e, f, args, 7);
}

static void zero_body(Emit *e, EmitNest *n, int w, void *user) {
    (void)user;
    emit_ref_store(e, n, 0, emit_const(e, w, 0));
}

static void zeros(Emit *e, const IrNode *n, int64_t outer, int64_t outer_stride, int64_t start,
                  int64_t chunk) {
    if (!chunk) return;
    EmitNest nest = blocks(outer, chunk);
    nest.n_ref = 1;
    nest.body = zero_body;
    nest.ref[0] = block_ref(e, n, n->type, outer_stride, start);
    emit_nest_units(e, &nest, n->type);
}

void emit_PAD(Emit *e, const IrNode *n) {
    EmitAxis from = emit_axis(n->in[0]->type, ir_attr_i(n, "axis")),
             to = emit_axis(n->type, ir_attr_i(n, "axis"));
    int64_t before = ir_attr_i(n, "before") * to.inner, chunk = from.size * from.inner,
            all = to.size * to.inner;
    EmitNest nest = blocks(to.outer, chunk);
    nest.n_ref = 2;
    nest.ref[0] = block_ref(e, n, n->type, all, before);
    nest.ref[1] = block_ref(e, n->in[0], n->type, chunk, 0);
    zeros(e, n, to.outer, all, 0, before);
    emit_copy_units(e, &nest, n->type);
    zeros(e, n, to.outer, all, before + chunk, all - before - chunk);
}

void emit_RESHAPE(Emit *e, const IrNode *n) {
    const IrNode *x = emit_operand(e, n, 0);
    if (x->plan.region == n->plan.region && x->plan.offset == n->plan.offset && x->plan.col == n->plan.col &&
        n->plan.region != REGION_NONE && n->plan.region != REGION_INPUT)
        return; /* planned onto its operand */
    EmitNest nest = blocks(1, ir_type_size(n->type));
    nest.n_ref = 2;
    nest.ref[0] = block_ref(e, n, n->type, 0, 0);
    nest.ref[1] = block_ref(e, n->in[0], n->type, 0, 0);
    emit_copy_units(e, &nest, n->type);
}

void emit_TRANSPOSE(Emit *e, const IrNode *n) {
    const int64_t *order = ir_attr(n, "order")->ilist.v;
    IrType from = n->in[0]->type;
    int64_t stride[IR_MAX_RANK], size = 1;
    for (int i = from.rank - 1; i >= 0; size *= from.dim[i--]) stride[i] = size;
    EmitNest nest = {.n = from.rank + 1, .dim = {1}, .n_ref = 2};
    nest.ref[0] = emit_ref(e, n, n->type);
    nest.ref[1] = (NestRef){.base = emit_base(e, n->in[0])};
    nest.ref[1].stride[0] = emit_unit(e, n->in[0]);
    for (int i = 0; i < from.rank; i++) {
        nest.dim[i + 1] = n->type.dim[i];
        nest.ref[1].stride[i + 1] = stride[order[i]];
    }
    emit_copy_units(e, &nest, n->type);
}

void emit_BROADCAST(Emit *e, const IrNode *n) {
    EmitNest nest = {.n = n->type.rank + 1, .dim = {1}, .n_ref = 2};
    for (int i = 0; i < n->type.rank; i++) nest.dim[i + 1] = n->type.dim[i];
    nest.ref[0] = emit_ref(e, n, n->type);
    nest.ref[1] = emit_ref(e, n->in[0], n->type);
    emit_copy_units(e, &nest, n->type);
}

/* ---- by a table of indices ---- */

static void add_body(Emit *e, EmitNest *n, int w, void *user) {
    (void)user;
    emit_ref_store(e, n, 0, emit_fadd(e, emit_ref_load(e, n, 0, w), emit_ref_load(e, n, 1, w)));
}

/* For each unit, outer index and j: `inner` elements between index list[j] of one side and j of the other. */
static void by_index(Emit *e, const IrNode *n, const EmitAxis *from, const EmitAxis *to, bool scatter) {
    const IrAttr *list = ir_attr(n, "indices");
    Val table = emit_i32_table(e, list->ilist.v, list->ilist.n), lo, hi;
    Val x = emit_base(e, n->in[0]), out = emit_base(e, n);
    emit_units(e, n->type, &lo, &hi);
    EmitLoop o = emit_for(e, emit_scale(e, lo, to->outer), emit_scale(e, hi, to->outer), 1);
    Val src = emit_at(e, x, emit_scale(e, o.i, emit_outer(e, n->in[0], from)));
    Val dst = emit_at(e, out, emit_scale(e, o.i, emit_outer(e, n, to)));
    EmitLoop j = emit_for(e, emit_i64(e, 0), emit_i64(e, list->ilist.n), 1);
    Val at = emit_scale(e, emit_to_i64(e, emit_load_elem(e, e->i32, table, j.i)), from->inner);
    Val along = emit_scale(e, j.i, from->inner);
    EmitNest nest = {.n = 1, .dim = {from->inner}, .n_ref = 2, .body = add_body};
    nest.ref[0] = (NestRef){.base = emit_at(e, dst, scatter ? at : along), .stride = {1}};
    nest.ref[1] = (NestRef){.base = emit_at(e, src, scatter ? along : at), .stride = {1}};
    if (scatter)
        emit_nest(e, &nest);
    else
        emit_copy(e, &nest);
    emit_end(e, &j);
    emit_end(e, &o);
}

void emit_GATHER(Emit *e, const IrNode *n) {
    EmitAxis from = emit_axis(n->in[0]->type, ir_attr_i(n, "axis")),
             to = emit_axis(n->type, ir_attr_i(n, "axis"));
    by_index(e, n, &from, &to, false);
}

void emit_SCATTERADD(Emit *e, const IrNode *n) {
    EmitAxis from = emit_axis(n->in[0]->type, ir_attr_i(n, "axis")),
             to = emit_axis(n->type, ir_attr_i(n, "axis"));
    zeros(e, n, 1, 0, 0, ir_type_size(n->type));
    by_index(e, n, &from, &to, true);
}
