/* Names, sizes and measured costs of products that can be made in two ways. */
#include "passes/product_cost.h"
#include <inttypes.h>
#include <string.h>

/* ---- sizes ---- */

static const IrNode *operand(const IrNode *n, const IrNode *product, int i) {
    const IrNode *x = product->in[i];
    return x->op == OP_ARG && n->op == OP_FUSED ? n->in[ir_attr_i(x, "index")] : x;
}

static bool each_row(IrType t) { return t.live == LIVE_ROW || t.live == LIVE_POS; }

static bool equally_often(IrType a, IrType b) {
    return a.live == b.live && (a.live != LIVE_POS || a.axis == b.axis);
}

/* Fewer columns are dot products in the backend, whatever was chosen. */
enum { LEAST_COLUMNS = 5 };

bool pass_product_shape(const IrNode *n, PassProduct *out) {
    const IrNode *product = ir_product_of(n);
    if (!product || ir_is_recurrent(n) || ir_takes_bf16(product)) return false;
    if (product->op != OP_MATMUL && product->op != OP_MATMULGRADW) return false;
    IrType x = operand(n, product, 0)->type, y = operand(n, product, 1)->type;
    *out = (PassProduct){.grad = product->op == OP_MATMULGRADW, .k = ir_type_width(x), .n = ir_type_width(y)};
    out->ended = n->op == OP_FUSED && n->body->nodes[n->body->n - 1] != product;
    if (out->grad) {
        out->unit_rows = ir_type_size(x) / out->k;
        out->ended = false; /* an update takes its own time, however the gradient is made */
        return each_row(x) && equally_often(x, y) && out->n >= LEAST_COLUMNS;
    }
    if (ir_attr_i(product, "ta") || y.rank != 2 || y.live > LIVE_STEP || !each_row(x)) return false;
    out->swapped = ir_attr_i(product, "tb");
    if (out->swapped) out->n = y.dim[0];
    out->unit_rows = ir_type_size(product->type) / out->n;
    return out->n >= LEAST_COLUMNS;
}

/* More rows take longer to measure and change no figure. */
enum { MOST_CALL_ROWS = 2048, MOST_STEP_ROWS = 4096, MOST_GRADIENT_ROWS = 16384 };
static int64_t at_most(int64_t a, int64_t most) { return a > most ? most : a; }

bool pass_product(const IrProgram *p, const IrFunc *f, const IrNode *n, int64_t block, PassProduct *out) {
    if (!pass_product_shape(n, out)) return false;
    IrType x = operand(n, ir_product_of(n), 0)->type;
    bool known;
    int64_t rows = out->unit_rows * (x.live == LIVE_POS ? ir_positions(p, x.axis, &known) : 1);
    out->step_rows = at_most(p->batch * rows, MOST_STEP_ROWS);
    out->call_rows = at_most(at_most(block, p->batch) * rows, MOST_CALL_ROWS);
    if (out->grad) {
        int64_t once = f->blocks ? (p->batch + f->blocks - 1) / f->blocks : p->batch;
        out->step_rows = out->call_rows = at_most(once * rows, MOST_GRADIENT_ROWS);
    }
    return true;
}

bool pass_same_product(const PassProduct *a, const PassProduct *b) {
    return a->grad == b->grad && a->swapped == b->swapped && a->k == b->k && a->n == b->n;
}

const char *pass_product_name(Arena *a, const PassProduct *s) {
    return arena_printf(a, "%s%" PRId64 "x%" PRId64 "%s", s->grad ? "dW " : "", s->k, s->n,
                        s->swapped ? "t" : "");
}

const char *pass_product_key(Arena *a, const PassProduct *s) {
    const char *name = pass_product_name(a, s);
    if (s->grad) return arena_printf(a, "%s, %" PRId64 " rows", name, s->step_rows);
    return arena_printf(a, "%s, %" PRId64 " of %" PRId64 " rows%s", name, s->call_rows, s->step_rows,
                        s->ended ? ", epilogue" : "");
}

double pass_product_flops(const PassProduct *s) {
    return 2 * (double)s->k * (double)s->n * (double)s->step_rows;
}

/* ---- costs ---- */

const PassCost *pass_cost(const PassCosts *c, const char *key) {
    for (int i = 0; c && i < c->n; i++)
        if (!strcmp(c->item[i].key, key)) return &c->item[i];
    return NULL;
}

void pass_cost_put(Arena *a, PassCosts *c, PassCost cost) {
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->item[i].key, cost.key)) {
            c->item[i] = cost;
            return;
        }
    ARENA_PUSH(a, c->item, c->n, c->cap, cost);
}

bool pass_library_wins(const PassProduct *s, double tile_seconds, double library_seconds) {
    return library_seconds * (s->grad ? 1.2 : 1.1) < tile_seconds;
}
