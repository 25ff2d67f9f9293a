/* Reference meaning of reductions, matrix products and batch normalisation. */
#include <math.h>
#include "backend/interp_core.h"

/* ---- inside a row ---- */

bool interp_SUM(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    InterpAxis a = interp_axis(n->in[0]->type, ir_attr_i(n, "axis"));
    double *out = interp_out(it, n);
    for (int64_t o = 0; o < x.count * a.outer; o++)
        for (int64_t k = 0; k < a.size; k++)
            for (int64_t e = 0; e < a.inner; e++) out[o * a.inner + e] += x.v[(o * a.size + k) * a.inner + e];
    return true;
}

bool interp_MAXR(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    InterpAxis a = interp_axis(n->in[0]->type, ir_attr_i(n, "axis"));
    double *out = interp_out(it, n);
    for (int64_t o = 0; o < x.count * a.outer; o++)
        for (int64_t e = 0; e < a.inner; e++) {
            double best = x.v[o * a.size * a.inner + e];
            for (int64_t k = 1; k < a.size; k++) best = fmax(best, x.v[(o * a.size + k) * a.inner + e]);
            out[o * a.inner + e] = best;
        }
    return true;
}

bool interp_SOFTMAX(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    InterpAxis a = interp_axis(n->type, ir_attr_i(n, "axis"));
    double *out = interp_out(it, n);
    for (int64_t o = 0; o < x.count * a.outer; o++)
        for (int64_t e = 0; e < a.inner; e++) {
            const double *row = x.v + o * a.size * a.inner + e;
            double *res = out + o * a.size * a.inner + e;
            double most = row[0], sum = 0;
            for (int64_t k = 1; k < a.size; k++) most = fmax(most, row[k * a.inner]);
            for (int64_t k = 0; k < a.size; k++) sum += res[k * a.inner] = exp(row[k * a.inner] - most);
            for (int64_t k = 0; k < a.size; k++) res[k * a.inner] /= sum;
        }
    return true;
}

/* ---- along a list ---- */

bool interp_SEGSUM(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    const int64_t *off = it->batch->offsets[n->in[0]->type.axis];
    double *out = interp_out(it, n);
    for (int64_t r = 0; r < it->batch->rows; r++)
        for (int64_t i = off[r]; i < off[r + 1]; i++)
            for (int64_t e = 0; e < x.size; e++) out[r * x.size + e] += x.v[i * x.size + e];
    return true;
}

bool interp_SEGMEAN(Interp *it, const IrNode *n) {
    if (!interp_SEGSUM(it, n)) return false;
    const InterpValue *sum = interp_value(it, n);
    const int64_t *off = it->batch->offsets[n->in[0]->type.axis];
    for (int64_t r = 0; r < it->batch->rows; r++)
        for (int64_t e = 0; off[r + 1] > off[r] && e < sum->size; e++)
            sum->v[r * sum->size + e] /= (double)(off[r + 1] - off[r]);
    return true;
}

bool interp_SEGMAX(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    const int64_t *off = it->batch->offsets[n->in[0]->type.axis];
    double *out = interp_out(it, n);
    for (int64_t r = 0; r < it->batch->rows; r++)
        for (int64_t i = off[r]; i < off[r + 1]; i++)
            for (int64_t e = 0; e < x.size; e++) {
                double v = x.v[i * x.size + e], *best = &out[r * x.size + e];
                *best = i == off[r] ? v : fmax(*best, v);
            }
    return true;
}

/* ---- over the step ---- */

bool interp_SUMROWS(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    double *out = interp_out(it, n);
    for (int64_t i = 0; i < x.count; i++)
        for (int64_t e = 0; e < x.size; e++) out[e] += x.v[i * x.size + e];
    return true;
}

/* What a block of the step's rows has of a value: its units. */
typedef struct {
    int64_t begin, end;
} Block;

/* Rows `begin` to `end`-1, as far as the step has them, in units of a value of type t. */
static Block units_of(Interp *it, IrType t, int64_t begin, int64_t end) {
    int64_t rows = it->batch->rows;
    Block b = {begin < rows ? begin : rows, end < rows ? end : rows};
    if (t.live != LIVE_POS) return b;
    const int64_t *off = it->batch->offsets[t.axis];
    return (Block){off[b.begin], off[b.end]};
}

/* Block m of those that n, one of block_sums' kind, is made of. */
static Block nth_block(Interp *it, const IrNode *n, int64_t m) {
    int64_t rows = ir_attr_i(n, "rows");
    return units_of(it, n->in[0]->type, m * rows, (m + 1) * rows);
}

bool interp_BLOCKSUMS(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    double *out = interp_out(it, n);
    for (int64_t m = 0; m < n->type.dim[0]; m++, out += x.size) {
        Block b = nth_block(it, n, m);
        for (int64_t i = b.begin; i < b.end; i++)
            for (int64_t e = 0; e < x.size; e++) out[e] += x.v[i * x.size + e];
    }
    return true;
}

bool interp_SUMBLOCKS(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    double *out = interp_out(it, n);
    int64_t size = ir_type_size(n->type), rows = ir_attr_i(n, "rows");
    for (int64_t i = 0; i < x.size && i / size * rows < it->batch->rows; i++) out[i % size] += x.v[i];
    return true;
}

bool interp_MEANROWS(Interp *it, const IrNode *n) {
    if (!interp_SUMROWS(it, n)) return false;
    const InterpValue *sum = interp_value(it, n);
    for (int64_t e = 0; e < sum->size; e++) sum->v[e] /= (double)it->batch->rows;
    return true;
}

bool interp_SUMSQ(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    double sum = 0;
    for (int64_t i = 0; i < x.count * x.size; i++) sum += x.v[i] * x.v[i];
    interp_out(it, n)[0] = sum;
    return true;
}

/* ---- products ---- */

/* A matrix operand: `many` matrices of m rows and n columns in one row's value, read with the given strides.
 * A rank of 1 is a matrix of one row. */
typedef struct {
    int64_t many, m, n, by_row, by_col;
} Matrix;

static Matrix matrix(IrType t, bool swapped) {
    Matrix x = {1, t.rank > 1 ? t.dim[t.rank - 2] : 1, t.dim[t.rank - 1], t.dim[t.rank - 1], 1};
    for (int d = 0; d < t.rank - 2; d++) x.many *= t.dim[d];
    if (swapped && t.rank > 1) x = (Matrix){x.many, x.n, x.m, x.by_col, x.by_row};
    return x;
}

/* What a product multiplies with; numbers below the smallest normal one, which its kernel takes as zero, are
 * far below what is compared. */
static double factor(double x, bool bf16) { return bf16 ? interp_round_bf16(x) : x; }

bool interp_MATMUL(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0), y = interp_in(it, n, 1);
    IrType tx = n->in[0]->type, ty = n->in[1]->type;
    Matrix a = matrix(tx, ir_attr_i(n, "ta")), b = matrix(ty, ir_attr_i(n, "tb"));
    if (a.n != b.m)
        return interp_error(it, n, "inner sizes %lld and %lld differ", (long long)a.n, (long long)b.m);
    int64_t many = a.many > b.many ? a.many : b.many; /* one matrix serves all of the other side's */
    int64_t count = interp_count(it, n->type);
    double *out = interp_out(it, n);
    bool bf16 = ir_takes_bf16(n);
    for (int64_t i = 0; i < count * many; i++) {
        const double *xm = x.v + interp_row(it, tx, n->type, i / many) * x.size;
        const double *ym = y.v + interp_row(it, ty, n->type, i / many) * y.size;
        if (a.many > 1) xm += i % many * a.m * a.n;
        if (b.many > 1) ym += i % many * b.m * b.n;
        double *zm = out + i * a.m * b.n;
        for (int64_t r = 0; r < a.m; r++)
            for (int64_t k = 0; k < a.n; k++) {
                double v = factor(xm[r * a.by_row + k * a.by_col], bf16);
                for (int64_t c = 0; c < b.n; c++)
                    zm[r * b.n + c] += v * factor(ym[k * b.by_row + c * b.by_col], bf16);
            }
    }
    return true;
}

bool interp_MATMULGRADW(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0), g = interp_in(it, n, 1);
    IrType tx = n->in[0]->type, tg = n->in[1]->type;
    IrType fine = tx.live > tg.live ? tx : tg; /* the finer of the two says how many rows there are */
    int64_t k = ir_type_width(tx), m = ir_type_width(tg);
    int64_t leading = x.size / k;
    double *out = interp_out(it, n);
    bool bf16 = ir_takes_bf16(n);
    for (int64_t i = 0, count = interp_count(it, fine); i < count; i++)
        for (int64_t l = 0; l < leading; l++) {
            const double *xr = x.v + interp_row(it, tx, fine, i) * x.size + l * k;
            const double *gr = g.v + interp_row(it, tg, fine, i) * g.size + l * m;
            for (int64_t a = 0; a < k; a++)
                for (int64_t c = 0; c < m; c++) out[a * m + c] += factor(xr[a], bf16) * factor(gr[c], bf16);
        }
    return true;
}

/* ---- batch normalisation: channels are the last dimension, statistics over everything else ---- */

static void statistics(InterpValue x, int64_t k, double *mean, double *var) {
    int64_t n = x.count * x.size / k;
    for (int64_t c = 0; c < k; c++) mean[c] = var[c] = 0;
    if (!n) return;
    for (int64_t i = 0; i < n * k; i++) mean[i % k] += x.v[i];
    for (int64_t c = 0; c < k; c++) mean[c] /= (double)n;
    for (int64_t i = 0; i < n * k; i++) var[i % k] += (x.v[i] - mean[i % k]) * (x.v[i] - mean[i % k]);
    for (int64_t c = 0; c < k; c++) var[c] /= (double)n;
}

static void normalise(InterpValue x, int64_t k, const double *mean, const double *var, double eps,
                      const double *gamma, const double *beta, double *out) {
    for (int64_t i = 0; i < x.count * x.size; i++) {
        int64_t c = i % k;
        out[i] = (x.v[i] - mean[c]) / sqrt(var[c] + eps) * gamma[c] + beta[c];
    }
}

bool interp_BATCHNORM(Interp *it, const IrNode *n) {
    InterpValue x = interp_in(it, n, 0);
    int64_t k = ir_type_width(n->type);
    double *out = interp_out(it, n), batch[2 * k];
    if (it->training) statistics(x, k, batch, batch + k);
    const double *mean = it->training ? batch : interp_in(it, n, 3).v;
    const double *var = it->training ? batch + k : interp_in(it, n, 4).v;
    normalise(x, k, mean, var, ir_attr_f(n, "eps"), interp_in(it, n, 1).v, interp_in(it, n, 2).v, out);
    return true;
}

/* Micro-batch m of as many as there are statistics of, one for the whole step. */
static Block block_of(Interp *it, IrType t, IrType stats, int64_t m) {
    int64_t n = stats.rank == 3 ? stats.dim[0] : 1, rows = it->batch->rows;
    return units_of(it, t, m * rows / n, (m + 1) * rows / n);
}
/* Where its two numbers a channel begin. */
static int64_t numbers_of(IrType stats, int64_t m) { return m * 2 * ir_type_width(stats); }

static int64_t blocks_of(IrType stats) { return stats.rank == 3 ? stats.dim[0] : 1; }

static InterpValue part_of(InterpValue x, Block b) {
    return (InterpValue){x.v + b.begin * x.size, b.end - b.begin, x.size};
}

bool interp_BNSTATS(Interp *it, const IrNode *n) {
    int64_t k = ir_type_width(n->in[0]->type);
    double *out = interp_out(it, n);
    for (int64_t m = 0; m < blocks_of(n->type); m++) {
        double *at = out + numbers_of(n->type, m);
        statistics(part_of(interp_in(it, n, 0), block_of(it, n->in[0]->type, n->type, m)), k, at, at + k);
    }
    return true;
}

bool interp_BNBLOCKSTATS(Interp *it, const IrNode *n) {
    int64_t k = ir_type_width(n->in[0]->type);
    double *out = interp_out(it, n);
    for (int64_t m = 0; m < n->type.dim[0]; m++, out += 2 * k)
        statistics(part_of(interp_in(it, n, 0), nth_block(it, n, m)), k, out, out + k);
    return true;
}

/* Chan, Golub, LeVeque 1983: sums of squares about the blocks' means and about the mean of all. */
bool interp_BNJOINSTATS(Interp *it, const IrNode *n) {
    int64_t k = ir_type_width(n->type), rows = ir_attr_i(n, "rows"), all = it->batch->rows;
    const double *x = interp_in(it, n, 0).v;
    double *mean = interp_out(it, n), *var = mean + k;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t m = 0; m * rows < all; m++) {
            double share = (double)((m + 1) * rows < all ? rows : all - m * rows) / (double)all;
            for (int64_t c = 0; c < k; c++) {
                double mean_m = x[m * 2 * k + c], var_m = x[m * 2 * k + k + c];
                if (!pass)
                    mean[c] += share * mean_m;
                else
                    var[c] += share * (var_m + (mean_m - mean[c]) * (mean_m - mean[c]));
            }
        }
    return true;
}

bool interp_BNNORM(Interp *it, const IrNode *n) {
    int64_t k = ir_type_width(n->type);
    InterpValue x = interp_in(it, n, 0);
    double *out = interp_out(it, n);
    IrType stats = n->in[1]->type;
    for (int64_t m = 0; m < blocks_of(stats); m++) {
        Block b = block_of(it, n->type, stats, m);
        const double *s = interp_in(it, n, 1).v + numbers_of(stats, m);
        normalise(part_of(x, b), k, s, s + k, ir_attr_f(n, "eps"), interp_in(it, n, 2).v,
                  interp_in(it, n, 3).v, out + b.begin * x.size);
    }
    return true;
}

/* Element i of x's gradient g, which may live coarser than x. */
static double gradient_at(Interp *it, const IrNode *x, const IrNode *g, int64_t i) {
    int64_t size = ir_type_size(x->type);
    return interp_value(it, g)->v[interp_row(it, g->type, x->type, i / size) * size + i % size];
}

/* To out, from stats: two numbers a channel. */
static void gradient_sums(Interp *it, const IrNode *n, Block b, const double *stats, double *out) {
    InterpValue x = interp_in(it, n, 0);
    int64_t k = ir_type_width(n->in[0]->type);
    const double *mean = stats, *var = stats + k;
    double eps = ir_attr_f(n, "eps");
    for (int64_t i = b.begin * x.size; i < b.end * x.size; i++) {
        int64_t c = i % k;
        double g = gradient_at(it, n->in[0], n->in[2], i);
        out[c] += g;
        out[k + c] += g * (x.v[i] - mean[c]) / sqrt(var[c] + eps);
    }
}

bool interp_BNGSUMS(Interp *it, const IrNode *n) {
    double *out = interp_out(it, n);
    for (int64_t m = 0; m < blocks_of(n->type); m++) {
        int64_t at = numbers_of(n->type, m);
        Block b = block_of(it, n->in[0]->type, n->type, m);
        gradient_sums(it, n, b, interp_in(it, n, 1).v + at, out + at);
    }
    return true;
}

bool interp_BNBLOCKGSUMS(Interp *it, const IrNode *n) {
    double *out = interp_out(it, n);
    for (int64_t m = 0; m < n->type.dim[0]; m++)
        gradient_sums(it, n, nth_block(it, n, m), interp_in(it, n, 1).v, out + numbers_of(n->type, m));
    return true;
}

static void gradient_of_block(Interp *it, const IrNode *n, Block b, int64_t at, double *out) {
    InterpValue x = interp_in(it, n, 0);
    int64_t k = ir_type_width(n->type);
    const double *mean = interp_in(it, n, 1).v + at, *var = mean + k;
    const double *gamma = interp_in(it, n, 2).v, *sums = interp_in(it, n, 3).v + at;
    double eps = ir_attr_f(n, "eps");
    double values = (double)((b.end - b.begin) * x.size / k); /* of one channel */
    for (int64_t i = b.begin * x.size; i < b.end * x.size; i++) {
        int64_t c = i % k;
        double spread = sqrt(var[c] + eps), xhat = (x.v[i] - mean[c]) / spread;
        double g = gradient_at(it, n->in[0], n->in[4], i);
        out[i] = gamma[c] / spread * (g - (sums[c] + xhat * sums[k + c]) / values);
    }
}

bool interp_BNGRAD(Interp *it, const IrNode *n) {
    double *out = interp_out(it, n);
    IrType stats = n->in[1]->type;
    for (int64_t m = 0; m < blocks_of(stats); m++)
        gradient_of_block(it, n, block_of(it, n->type, stats, m), numbers_of(stats, m), out);
    return true;
}
