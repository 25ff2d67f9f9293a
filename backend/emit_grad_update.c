/* Regions of kind update: a weight's gradient, and the update by it, a few tiles at a time. Their sums stand
 * in scratch, and the formula goes over them while they are in cache.
 *
 * Register tiles (PRODUCT_TILE) are finished by lots of strips, whose rows of weight and slots are then read
 * as they stand. The formula isn't applied tile by tile: where a row of the weight is a page long or a
 * divisor of one, a tile's rows of weight and slots fall on the same few lines of the first-level cache. What
 * the other kernels make is a run of elements of the weight.
 *
 * An element is updated once, by the operations that emit_UPDATE would do on it, so the bits are those of
 * gradient and update apart. */
#include "backend/emit_update.h"

/* ---- a run of elements ---- */

enum { REF_W, REF_G, REF_SLOT };
enum { LEAVES = 16 };

typedef struct {
    EmitUpdate u;
    EmitBody body;
    EmitNest *nest;
    const IrNode *sum, *leaf[LEAVES];
    int n_leaf;
} Run;

static Val leaf_value(Emit *e, const IrNode *n, int w, void *user) {
    Run *r = user;
    int i = 0;
    if (n == r->sum) return emit_ref_load(e, r->nest, REF_G, w);
    while (i + 1 < r->n_leaf && r->leaf[i] != n) i++;
    return emit_ref_load(e, r->nest, REF_SLOT + r->u.n_slots + i, w);
}

static void run_body(Emit *e, EmitNest *n, int w, void *user) {
    Run *r = user;
    Val slot[3];
    r->nest = n;
    Val g = emit_body_value(e, &r->body, w);
    for (int s = 0; s < r->u.n_slots; s++) slot[s] = emit_ref_load(e, n, REF_SLOT + s, w);
    emit_ref_store(e, n, REF_W, emit_apply_update(e, &r->u, emit_ref_load(e, n, REF_W, w), g, slot));
    for (int s = 0; s < r->u.n_slots; s++) emit_ref_store(e, n, REF_SLOT + s, slot[s]);
}

static const IrNode *sum_of(const IrNode *region) {
    const IrBody *b = region->body;
    int i = 0;
    while (i + 1 < b->n && !ir_sums_gradient(b->nodes[i])) i++;
    return b->nodes[i];
}

/* Whether an elementwise op of the region reads x. */
static bool is_leaf(const IrNode *region, const IrNode *x) {
    for (int i = 0; i < region->body->n; i++) {
        const IrNode *n = region->body->nodes[i];
        for (int k = 0; emit_is_ew(n) && k < n->n_in; k++)
            if (n->in[k] == x) return !emit_is_ew(x) && !ir_sums_gradient(x);
    }
    return false;
}

/* Elements lo..hi-1 of the weight, whose sums stand at sums[lo … hi-1]. */
static void update_run(Emit *e, const IrNode *region, Val sums, Val lo, Val hi) {
    const IrNode *update = ir_writer(region);
    Run r = {.u = emit_update_of(e, update, NULL), .sum = sum_of(region)};
    EmitNest n = {.n = 1, .lo = lo, .hi = hi, .n_ref = REF_SLOT + r.u.n_slots, .body = run_body, .user = &r};
    r.body = (EmitBody){.root = update->in[0], .whole = true, .leaf = leaf_value, .user = &r};
    n.ref[REF_W].base = emit_step_elem(e, STEP_weights, r.u.weight);
    n.ref[REF_G].base = sums;
    for (int s = 0; s < r.u.n_slots; s++)
        n.ref[REF_SLOT + s].base = emit_step_elem(e, STEP_slots, 3 * r.u.weight + s);
    for (int k = 0; k < n.n_ref; k++) n.ref[k].stride[0] = 1;
    for (int i = 0; i < region->body->n; i++) {
        const IrNode *x = region->body->nodes[i];
        if (!is_leaf(region, x)) continue;
        if (r.n_leaf == LEAVES) {
            diag_error(e->p->diag, region->span, NULL, "internal: an update with more than %d operands",
                       LEAVES);
            return;
        }
        r.leaf[r.n_leaf++] = x;
        n.ref[n.n_ref++] = (NestRef){.base = emit_base(e, x), .stride = {ir_type_size(x->type) > 1}};
    }
    emit_nest(e, &n);
}

/* ---- the region ---- */

static bool in_strips(const PassTarget *t, const IrNode *region) {
    return ir_product_of(region) && emit_choice(t, region) == PRODUCT_TILE;
}

static int64_t tile_elements(const PassTarget *t, const IrNode *region) {
    return ir_product_of(region) ? emit_grad_tile_elements(t, region) : TILE_COLUMNS;
}

enum { AT_A_TIME = 2048 }; /* elements, if that is not less than a tile */
static int64_t tiles_at_a_time(const PassTarget *t, const IrNode *region) {
    int64_t tile = tile_elements(t, region);
    return tile < AT_A_TIME ? AT_A_TIME / tile : 1;
}

int64_t emit_update_region_tiles(const PassTarget *t, const IrNode *region) {
    if (ir_product_of(region)) return emit_product_tiles(t, region);
    return emit_column_tiles(ir_type_size(sum_of(region)->type));
}

int64_t emit_update_region_scratch(const PassTarget *t, const IrNode *region) {
    if (in_strips(t, region)) return emit_product_scratch(t, region);
    return 4 * tile_elements(t, region) * tiles_at_a_time(t, region);
}

/* Sums of the elements from `first` on, as if those before it stood there too. */
static Val as_of_element_zero(Emit *e, Val sums, Val first) {
    Val back = LLVMBuildNeg(e->b, emit_scale(e, first, 4), "");
    return LLVMBuildGEP2(e->b, e->i8, sums, &back, 1, ""); /* not `inbounds`: it may lie before scratch */
}

static void finish_run(Emit *e, Val sums, Val lo, Val hi, void *user) { update_run(e, user, sums, lo, hi); }

void emit_update_region(Emit *e, const IrNode *region) {
    if (in_strips(&e->target, region)) {
        emit_grad_tiles(e, region, (EmitGradW){.finish = finish_run, .user = (void *)region});
        return;
    }
    int64_t tile = tile_elements(&e->target, region), some = tiles_at_a_time(&e->target, region);
    const IrNode *sum = sum_of(region);
    Val lo = e->lo, hi = e->hi, size = emit_i64(e, ir_type_size(sum->type));
    EmitLoop t = emit_for(e, lo, hi, some);
    e->lo = t.i, e->hi = emit_min_i64(e, emit_add(e, t.i, emit_i64(e, some)), hi);
    Val first = emit_scale(e, e->lo, tile), sums = as_of_element_zero(e, e->scratch, first);
    Val end = emit_min_i64(e, emit_scale(e, e->hi, tile), size);
    if (sum->op == OP_MATMULGRADW)
        emit_grad_tiles(e, region, (EmitGradW){.c = sums});
    else
        emit_sum_tiles(e, sum, sums);
    update_run(e, region, sums, first, end);
    e->lo = lo, e->hi = hi;
    emit_end(e, &t);
}
