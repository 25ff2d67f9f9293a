/* Shape rules of matrix products and of batch normalisation. */
#include "ir/internal.h"

/* One operand of a product: its last two dimensions after the swap, the others are leading. */
typedef struct {
    int64_t rows, cols;
    int n_lead;
    const int64_t *lead;
    bool shared; /* rank 2 and not of a row: serves every row and every leading index */
} Factor;

static Factor factor(const IrType *t, bool swapped) {
    Factor f = {.n_lead = t->rank > 2 ? t->rank - 2 : 0};
    f.lead = t->dim;
    f.shared = t->rank == 2 && (t->live == LIVE_ALWAYS || t->live == LIVE_STEP);
    int64_t rows = t->rank >= 2 ? t->dim[t->rank - 2] : 1, cols = ir_type_width(*t);
    f.rows = swapped ? cols : rows;
    f.cols = swapped ? rows : cols;
    return f;
}

static bool same_lead(const Factor *a, const Factor *b) {
    if (a->n_lead != b->n_lead) return false;
    for (int i = 0; i < a->n_lead; i++)
        if (a->lead[i] != b->lead[i]) return false;
    return true;
}

bool ir_shape_matmul(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    if (!ir_want_f32(p, n, 0, why) || !ir_want_f32(p, n, 1, why)) return false;
    IrType x = n->in[0]->type, y = n->in[1]->type;
    bool ta = ir_attr_i(n, "ta"), tb = ir_attr_i(n, "tb");
    Factor a = factor(&x, ta), b = factor(&y, tb);
    if (y.rank < 2)
        return ir_wrong(p, why, "operand 2: expected at least 2 dimensions, found %s", ir_type_text(p, y));
    if (x.rank < 2 && !b.shared)
        return ir_wrong(
            p, why,
            "operand 1: expected at least 2 dimensions, as the matrix isn't shared by all rows, found %s",
            ir_type_text(p, x));
    if (x.rank < 2 && ta)
        return ir_wrong(p, why, "operand 1: expected 2 dimensions to swap, found %s", ir_type_text(p, x));
    if (!a.shared && !b.shared && !same_lead(&a, &b))
        return ir_wrong(p, why, "expected equal leading sizes, found %s and %s", ir_type_text(p, x),
                        ir_type_text(p, y));
    if (a.cols != b.rows)
        return ir_wrong(p, why, "expected equal inner sizes, found %lld and %lld in %s and %s",
                        (long long)a.cols, (long long)b.rows, ir_type_text(p, x), ir_type_text(p, y));
    const Factor *lead = a.shared ? &b : &a;
    IrType t = ir_f32(x.live, x.axis, 0, NULL);
    for (int i = 0; i < lead->n_lead; i++) t.dim[t.rank++] = lead->lead[i];
    if (x.rank >= 2) t.dim[t.rank++] = a.rows;
    t.dim[t.rank++] = b.cols;
    *out = t;
    return ir_join_live(p, out, y, why) && ir_check_dims(p, t.rank, t.dim, why);
}

bool ir_shape_pack(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    if (!ir_want_f32(p, n, 0, why) || !ir_want_coarse(p, n, 0, why)) return false;
    *out = n->in[0]->type;
    return out->rank == 2 || ir_wrong(p, why, "expected 2 dimensions, found %s", ir_type_text(p, *out));
}

bool ir_shape_matmulgradw(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    if (!ir_want_f32(p, n, 0, why) || !ir_want_f32(p, n, 1, why)) return false;
    IrType x = n->in[0]->type, g = n->in[1]->type, joined = x;
    bool same = x.rank == g.rank;
    for (int i = 0; same && i + 1 < x.rank; i++) same = x.dim[i] == g.dim[i];
    if (!same)
        return ir_wrong(p, why, "expected equal sizes but for the last, found %s and %s", ir_type_text(p, x),
                        ir_type_text(p, g));
    if (!ir_join_live(p, &joined, g, why)) return false;
    if (joined.live != LIVE_ROW && joined.live != LIVE_POS)
        return ir_wrong(p, why, "expected a value a row or position, found %s and %s", ir_type_text(p, x),
                        ir_type_text(p, g));
    if (ir_takes_bf16(n) && (x.live != g.live || x.axis != g.axis))
        return ir_wrong(p, why, "bf16: expected operands that live equally often, found %s and %s",
                        ir_type_text(p, x), ir_type_text(p, g));
    *out = ir_f32(LIVE_STEP, -1, 2, (int64_t[]){ir_type_width(x), ir_type_width(g)});
    return ir_check_dims(p, 2, out->dim, why);
}

/* x of the batch, whose last dimension counts the channels. */
static bool want_channels(IrProgram *p, const IrNode *n, int64_t *channels, const char **why) {
    *channels = ir_type_width(n->in[0]->type);
    return ir_want_f32(p, n, 0, why) && ir_want_rows(p, n, 0, why);
}

static bool want_by_channel(IrProgram *p, const IrNode *n, int i, int64_t channels, const char **why) {
    return ir_want_f32(p, n, i, why) && ir_want_coarse(p, n, i, why) &&
           ir_want_dims(p, n, i, 1, &channels, why);
}

/* Two numbers a channel, or of each of several blocks of the step's rows. */
static bool want_two_by_channel(IrProgram *p, const IrNode *n, int i, int64_t channels, const char **why) {
    IrType t = n->in[i]->type;
    bool blocks = t.rank == 3;
    return ir_want_f32(p, n, i, why) && ir_want_coarse(p, n, i, why) &&
           ir_want_dims(p, n, i, blocks ? 3 : 2,
                        blocks ? (int64_t[]){t.dim[0], 2, channels} : (int64_t[]){2, channels}, why);
}

/* A gradient towards x: of x's size, living no finer than x. */
static bool want_gradient(IrProgram *p, const IrNode *n, int i, const char **why) {
    IrType x = n->in[0]->type, joined = x;
    if (!ir_want_dims(p, n, i, x.rank, x.dim, why) || !ir_join_live(p, &joined, n->in[i]->type, why))
        return false;
    return joined.live == x.live || ir_wrong(p, why, "operand %d: expected %s, found %s", i + 1,
                                             ir_type_text(p, x), ir_type_text(p, n->in[i]->type));
}

bool ir_shape_batchnorm(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    int64_t channels;
    if (!want_channels(p, n, &channels, why)) return false;
    for (int i = 1; i < 5; i++)
        if (!want_by_channel(p, n, i, channels, why)) return false;
    *out = n->in[0]->type;
    return true;
}

bool ir_shape_bnstats(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    int64_t channels;
    if (!want_channels(p, n, &channels, why)) return false;
    *out = ir_f32(LIVE_STEP, -1, 2, (int64_t[]){2, channels});
    const IrAttr *blocks = ir_attr(n, "blocks");
    if (!blocks) return true;
    if (blocks->i < 2)
        return ir_wrong(p, why, "expected at least 2 blocks, found %lld", (long long)blocks->i);
    *out = ir_f32(LIVE_STEP, -1, 3, (int64_t[]){blocks->i, 2, channels});
    return ir_check_dims(p, 3, out->dim, why);
}

/* One row a unit: each of a block's rows counts once. */
static bool want_rows_of_channels(IrProgram *p, const IrNode *n, const char **why) {
    IrType t = n->in[0]->type;
    if (!ir_want_f32(p, n, 0, why)) return false;
    if (t.live == LIVE_ROW && t.rank == 1) return true;
    return ir_wrong(p, why, "%sexpected f32[k] a row, found %s", ir_operand(p, n, 0), ir_type_text(p, t));
}

bool ir_shape_bnblockstats(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    if (!want_rows_of_channels(p, n, why)) return false;
    return ir_by_blocks(p, n, 2, (int64_t[]){2, ir_type_width(n->in[0]->type)}, out, why);
}

bool ir_shape_bnjoinstats(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    IrType t = n->in[0]->type;
    if (!ir_want_blocks(p, n, why)) return false;
    if (t.rank != 3 || t.dim[1] != 2)
        return ir_wrong(p, why, "expected two numbers a channel of each block, found %s", ir_type_text(p, t));
    *out = ir_f32(LIVE_STEP, -1, 2, t.dim + 1);
    return true;
}

bool ir_shape_bnnorm(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    int64_t channels;
    if (!want_channels(p, n, &channels, why)) return false;
    *out = n->in[0]->type;
    return want_two_by_channel(p, n, 1, channels, why) && want_by_channel(p, n, 2, channels, why) &&
           want_by_channel(p, n, 3, channels, why);
}

bool ir_shape_bngsums(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    int64_t channels;
    if (!want_channels(p, n, &channels, why)) return false;
    if (!want_two_by_channel(p, n, 1, channels, why) || !want_gradient(p, n, 2, why)) return false;
    *out = n->in[1]->type;
    out->live = LIVE_STEP;
    return true;
}

bool ir_shape_bnblockgsums(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    if (!want_rows_of_channels(p, n, why)) return false;
    int64_t two[] = {2, ir_type_width(n->in[0]->type)};
    return ir_want_coarse(p, n, 1, why) && ir_want_dims(p, n, 1, 2, two, why) &&
           want_gradient(p, n, 2, why) && ir_by_blocks(p, n, 2, two, out, why);
}

bool ir_shape_bngrad(IrProgram *p, const IrNode *n, IrType *out, const char **why) {
    int64_t channels;
    if (!want_channels(p, n, &channels, why)) return false;
    *out = n->in[0]->type;
    return want_two_by_channel(p, n, 1, channels, why) && want_by_channel(p, n, 2, channels, why) &&
           want_gradient(p, n, 4, why) && ir_want_dims(p, n, 3, n->in[1]->type.rank, n->in[1]->type.dim, why);
}
