/* Shape rules of table rows, updates, roots and regions. */
#include "ir/internal.h"
#include <string.h>

static const IrType none_type = {.elem = TY_NONE, .live = LIVE_STEP, .axis = -1};

static bool want_id(IrProgram *p, const IrNode *n, int i, const char **why) {
    IrType t = n->in[i]->type;
    if (t.elem != TY_ID)
        return ir_wrong(p, why, "operand %d: expected an id, found %s", i + 1, ir_type_text(p, t));
    return ir_want_rows(p, n, i, why);
}

static bool id_fits(IrProgram *p, IrType id, int64_t rows, const char **why) {
    if (id.bound <= rows) return true;
    return ir_wrong(p, why, "expected ids below the table's %lld rows, found %s", (long long)rows,
                    ir_type_text(p, id));
}

/* The table that an attribute names: at least two dimensions, the first counts rows. */
static bool want_table(IrProgram *p, const IrNode *n, const IrWeight **out, const char **why) {
    const IrWeight *w = &p->weights[ir_attr_i(n, "w")];
    *out = w;
    if (w->rank >= 2) return ir_check_dims(p, w->rank, w->dim, why);
    return ir_wrong(p, why, "expected a table of at least 2 dimensions, found '%s' of %d", w->name, w->rank);
}

bool ir_shape_onehot(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    if (!want_id(p, n, 0, why)) return false;
    *out = ir_f32(n->in[0]->type.live, n->in[0]->type.axis, 1, &n->in[0]->type.bound);
    return ir_check_dims(p, 1, out->dim, why);
}

/* A row of embed's second operand: a whole weight's or a fetched unique row's dimensions. */
static bool row_of(IrProgram *p, const IrNode *n, IrType *row, const char **why) {
    if (!want_id(p, n, 0, why) || !ir_want_f32(p, n, 1, why)) return false;
    IrType id = n->in[0]->type, rows = n->in[1]->type;
    if (rows.live == LIVE_UNIQ) {
        if (rows.axis < 0 || rows.axis >= p->n_weights)
            return ir_wrong(p, why, "operand 2: rows of an unknown table");
        *row = ir_f32(LIVE_ROW, -1, rows.rank, rows.dim);
        return id_fits(p, id, p->weights[rows.axis].dim[0], why);
    }
    if (rows.live != LIVE_ALWAYS || rows.rank < 2)
        return ir_wrong(p, why, "operand 2: expected a table of at least 2 dimensions, found %s",
                        ir_type_text(p, rows));
    *row = ir_f32(LIVE_ROW, -1, rows.rank - 1, rows.dim + 1);
    return id_fits(p, id, rows.dim[0], why);
}

bool ir_shape_embed(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    if (!row_of(p, n, out, why)) return false;
    out->live = n->in[0]->type.live;
    out->axis = n->in[0]->type.axis;
    return true;
}

bool ir_shape_embedpool(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    const char *kind = ir_attr_s(n, "kind");
    if (strcmp(kind, "sum") != 0 && strcmp(kind, "mean") != 0)
        return ir_wrong(p, why, "expected kind sum or mean, found '%s'", kind);
    if (!row_of(p, n, out, why)) return false;
    if (n->in[0]->type.live == LIVE_POS) return true;
    return ir_wrong(p, why, "operand 1: expected ids of a list, found %s", ir_type_text(p, n->in[0]->type));
}

bool ir_shape_fetch(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    const IrWeight *w;
    if (!want_table(p, n, &w, why)) return false;
    for (int i = 0; i < n->n_in; i++)
        if (!want_id(p, n, i, why) || !id_fits(p, n->in[i]->type, w->dim[0], why)) return false;
    *out = ir_f32(LIVE_UNIQ, (int)ir_attr_i(n, "w"), w->rank - 1, w->dim + 1);
    return true;
}

/* Pairs (id, g): g has a row's dimensions and lives no finer than the lookup's result did. */
static bool gradient_pairs(IrProgram *p, const IrNode *n, const IrWeight *w, const char **why) {
    const IrAttr *kinds = ir_attr(n, "kinds");
    if (n->n_in % 2) return ir_wrong(p, why, "expected pairs of id and gradient, found %d operands", n->n_in);
    if (kinds->ilist.n != n->n_in / 2)
        return ir_wrong(p, why, "expected %d kinds, one a pair, found %d", n->n_in / 2, kinds->ilist.n);
    for (int i = 0; i < n->n_in; i += 2) {
        int64_t kind = kinds->ilist.v[i / 2];
        IrType id = n->in[i]->type, g = n->in[i + 1]->type;
        if (kind < 0 || kind > 2)
            return ir_wrong(p, why, "expected kind 0, 1 or 2, found %lld", (long long)kind);
        if (!want_id(p, n, i, why) || !id_fits(p, id, w->dim[0], why)) return false;
        if (!ir_want_dims(p, n, i + 1, w->rank - 1, w->dim + 1, why)) return false;
        if (kind > 0 && id.live != LIVE_POS)
            return ir_wrong(p, why, "operand %d: expected ids of a list for a pooled gradient, found %s",
                            i + 1, ir_type_text(p, id));
        IrType result = {.live = kind > 0 ? LIVE_ROW : id.live, .axis = kind > 0 ? -1 : id.axis},
               joined = result;
        if (!ir_join_live(p, &joined, g, why)) return false;
        if (joined.live != result.live)
            return ir_wrong(p, why, "operand %d: expected a gradient a row, found %s", i + 2,
                            ir_type_text(p, g));
    }
    return true;
}

bool ir_shape_densegrad(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    const IrWeight *w;
    if (!want_table(p, n, &w, why) || !gradient_pairs(p, n, w, why)) return false;
    *out = ir_f32(LIVE_STEP, -1, w->rank, w->dim);
    return true;
}

bool ir_shape_rowgrad(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    const IrWeight *w;
    if (!want_table(p, n, &w, why) || !gradient_pairs(p, n, w, why)) return false;
    *out = ir_f32(LIVE_UNIQ, (int)ir_attr_i(n, "w"), w->rank - 1, w->dim + 1);
    return true;
}

static bool want_scale(IrProgram *p, const IrNode *n, int i, const char **why) {
    return ir_want_f32(p, n, i, why) && ir_want_coarse(p, n, i, why) &&
           ir_want_dims(p, n, i, 1, (int64_t[]){1}, why);
}

static bool want_whole_gradient(IrProgram *p, const IrNode *n, const IrWeight *w, const char **why) {
    return ir_check_dims(p, w->rank, w->dim, why) && ir_want_f32(p, n, 0, why) &&
           ir_want_coarse(p, n, 0, why) && ir_want_dims(p, n, 0, w->rank, w->dim, why);
}

static bool want_trained(IrProgram *p, const IrNode *n, const IrWeight **out, const char **why) {
    *out = &p->weights[ir_attr_i(n, "w")];
    if ((*out)->optimizer >= 0 && (*out)->optimizer < p->n_opts) return true;
    return ir_wrong(p, why, "weight '%s' has no optimizer", (*out)->name);
}

bool ir_shape_update(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    const IrWeight *w;
    *out = none_type;
    return want_trained(p, n, &w, why) && want_whole_gradient(p, n, w, why) &&
           (n->n_in < 2 || want_scale(p, n, 1, why));
}

bool ir_shape_updatetouched(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    const IrWeight *w;
    *out = none_type;
    if (!want_trained(p, n, &w, why) || !want_whole_gradient(p, n, w, why)) return false;
    int first = 1;
    if (ir_attr_i(n, "scaled")) {
        if (!want_scale(p, n, 1, why)) return false;
        first = 2;
    }
    if (n->n_in <= first) return ir_wrong(p, why, "expected ids of the touched rows, found none");
    for (int i = first; i < n->n_in; i++)
        if (!want_id(p, n, i, why) || !id_fits(p, n->in[i]->type, w->dim[0], why)) return false;
    return true;
}

bool ir_shape_updaterows(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    const IrWeight *w, *table;
    *out = none_type;
    if (!want_trained(p, n, &w, why) || !want_table(p, n, &table, why)) return false;
    IrType t = n->in[0]->type;
    IrType expected = ir_f32(LIVE_UNIQ, (int)ir_attr_i(n, "w"), table->rank - 1, table->dim + 1);
    if (!ir_type_eq(t, expected))
        return ir_wrong(p, why, "operand 1: expected %s, found %s", ir_type_text(p, expected),
                        ir_type_text(p, t));
    return n->n_in < 2 || want_scale(p, n, 1, why);
}

bool ir_shape_bnupdate(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    const IrWeight *mean = &p->weights[ir_attr_i(n, "mean")], *var = &p->weights[ir_attr_i(n, "var")];
    *out = none_type;
    if (mean->rank != 1 || var->rank != 1 || mean->dim[0] != var->dim[0])
        return ir_wrong(p, why, "expected running mean and variance of one size, found '%s' and '%s'",
                        mean->name, var->name);
    return ir_want_f32(p, n, 0, why) && ir_want_coarse(p, n, 0, why) &&
           ir_want_dims(p, n, 0, 2, (int64_t[]){2, mean->dim[0]}, why);
}

static bool want_number_a_row(IrProgram *p, const IrNode *n, int i, const char *what, const char **why) {
    IrType t = n->in[i]->type;
    if (t.elem == TY_F32 && t.live == LIVE_ROW && t.rank == 1 && t.dim[0] == 1) return true;
    return ir_wrong(p, why, "expected f32[1] a row as %s, found %s", what, ir_type_text(p, t));
}

static bool metric_root(IrProgram *p, const IrNode *n, const char **why) {
    static const char *const kinds[] = {"auc", "gauc", "logloss", "pcoc", "accuracy"};
    const char *kind = ir_attr_s(n, "kind");
    bool known = false, where = ir_attr_i(n, "where"), by = ir_attr_i(n, "by");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) known |= strcmp(kind, kinds[i]) == 0;
    if (!known)
        return ir_wrong(p, why, "expected kind auc, gauc, logloss, pcoc or accuracy, found '%s'", kind);
    if (n->n_in != 2 + where + by)
        return ir_wrong(p, why, "expected %d operands, found %d", 2 + where + by, n->n_in);
    if (by != (strcmp(kind, "gauc") == 0)) return ir_wrong(p, why, "expected `by` with gauc and only there");
    if (!want_number_a_row(p, n, 0, "prediction", why) || !want_number_a_row(p, n, 1, "label", why))
        return false;
    if (where && !want_number_a_row(p, n, 2, "`where`", why)) return false;
    if (!by || n->in[2 + where]->type.elem == TY_KEY) return true;
    return ir_wrong(p, why, "expected a key as `by`, found %s", ir_type_text(p, n->in[2 + where]->type));
}

bool ir_shape_root(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    *out = none_type;
    if (n->op == OP_METRIC) return metric_root(p, n, why);
    if (n->op == OP_PREDICT) return want_number_a_row(p, n, 0, "prediction", why);
    IrType t = n->in[0]->type; /* a loss of weights alone lives always and adds to the total as it is */
    if (t.elem == TY_F32 && t.live <= LIVE_ROW && t.rank == 1 && t.dim[0] == 1) return true;
    return ir_wrong(p, why, "expected f32[1] a row or a step as loss, found %s", ir_type_text(p, t));
}

bool ir_shape_fused(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    const char *kind = ir_attr_s(n, "kind");
    bool plain = strcmp(kind, "chain") == 0 || strcmp(kind, "product") == 0 || strcmp(kind, "update") == 0;
    if (!plain && strcmp(kind, "reduce") != 0 && strcmp(kind, "attention") != 0)
        return ir_wrong(p, why, "expected kind chain, product, update, reduce or attention, found '%s'",
                        kind);
    if (!n->body || n->body->n == 0) return ir_wrong(p, why, "expected a body, found none");
    if (!plain && !ir_sound_reduction(p, n, why)) return false;
    *out = n->body->nodes[n->body->n - 1]->type;
    return true;
}

bool ir_shape_out(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    if (!ir_want_f32(p, n, 0, why)) return false;
    *out = none_type;
    return true;
}

bool ir_shape_result(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    const IrNode *x = n->in[0]->op == OP_FUSED ? ir_result(n->in[0], (int)ir_attr_i(n, "index")) : NULL;
    if (!x)
        return ir_wrong(p, why, "expected a region with a result %lld beside its first, found %s",
                        (long long)ir_attr_i(n, "index"), ir_ops[n->in[0]->op].text);
    *out = x->type;
    return true;
}

/* An argument's type is its operand's, which only the enclosing region knows: whoever builds it sets the
 * type, and the verifier compares. */
bool ir_shape_arg(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    if (ir_attr_i(n, "index") < 0)
        return ir_wrong(p, why, "expected an operand number, found %lld", (long long)ir_attr_i(n, "index"));
    *out = n->type;
    return true;
}
