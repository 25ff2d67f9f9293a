/* ctrc synth: rows of a model's own columns, and labels drawn from a hidden world.
 *
 * The world: each value of some columns has an effect, two columns meet in a product of hidden factors, some
 * numbers count as they are; the sum, scaled, is the log-odds of a label. All of it comes from hashes of
 * column names and values, nothing from the seed, so logs of two seeds tell of the same world and one may be
 * used to evaluate what was learnt from the other. */
#include "frontend/synth.h"
#include "frontend/compile.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORLD 0x63747263776f726cULL
enum { SAMPLE = 4096 };
static const double spread = 1.8, base_rate_logit = -0.6;

/* ---- numbers from hashes ---- */

uint64_t synth_mix(uint64_t a, uint64_t b) { /* splitmix64's finisher over both words */
    uint64_t x = a * 0x9e3779b97f4a7c15ULL + b + 0x632be59bd9b4e019ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

static double unit(uint64_t h) { return (double)(h >> 11) * 0x1p-53; }

double synth_uniform(uint64_t *state) {
    *state += 0x9e3779b97f4a7c15ULL;
    return unit(synth_mix(*state, 0));
}

static double normal_from(double u1, double u2) {
    return sqrt(-2 * log(1 - u1)) * cos(6.283185307179586 * u2);
}
static double normal_of(uint64_t h) { return normal_from(unit(synth_mix(h, 1)), unit(synth_mix(h, 2))); }
static double normal(uint64_t *state) {
    double u = synth_uniform(state);
    return normal_from(u, synth_uniform(state));
}

/* ---- values ---- */

static int draw_rank(const SynthDomain *d, double u) {
    int lo = 0, hi = d->n - 1;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (d->cdf[mid] > u)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* What stands in the file is what counts. */
static double as_written(const SynthColumn *c, double x) {
    char text[64];
    snprintf(text, sizeof text, "%.4g", x);
    return c->whole ? floor(x) : strtod(text, NULL);
}

/* Between the model's cut points each range is equally likely; else around the mean. */
static double draw_number(const SynthColumn *c, uint64_t *state) {
    double x;
    if (c->n_bounds) {
        int n = c->n_bounds, k = (int)(synth_uniform(state) * (n + 1));
        double width = n > 1 ? (c->bounds[n - 1] - c->bounds[0]) / (n - 1) : fmax(1, fabs(c->bounds[0]));
        double lo = k ? c->bounds[k - 1] : c->bounds[0] - width,
               hi = k < n ? c->bounds[k] : c->bounds[n - 1] + width;
        if (c->bounds[0] >= 0) lo = fmax(lo, 0);
        x = lo + (hi - lo) * synth_uniform(state);
    } else if (c->std == 0.29) {
        x = synth_uniform(state);
    } else {
        x = c->mean + c->std * fmin(fmax(normal(state), -2.5), 2.5);
        if (c->mean > 0) x = fmax(x, 0);
    }
    return as_written(c, x);
}

static bool may_be_empty(const SynthColumn *c) {
    if (c->never_empty) return false;
    if (c->kind == SYNTH_WORDS) return true;
    /* a default that stands for "unknown" far from all values would only be noise */
    return c->col->has_default && c->kind == SYNTH_NUMBER && fabs(c->col->default_num - c->mean) < 5 * c->std;
}

static SynthValue draw(const SynthColumn *c, uint64_t *state) {
    SynthValue v = {0};
    if (c->kind == SYNTH_NUMBER)
        v.number = draw_number(c, state);
    else
        v.rank = draw_rank(c->domain, synth_uniform(state));
    return v;
}

static int list_length(const IrAxis *axis, uint64_t *state) {
    double u = synth_uniform(state);
    int n = u < 0.08 ? 0 : 1 + (int)(-log(1 - synth_uniform(state)) * 4);
    int most = axis->max > 0 && axis->max < SYNTH_MAX_LIST - 2 ? (int)axis->max + 2 : SYNTH_MAX_LIST;
    return n < most ? n : most;
}

/* A line of which nothing would be left is no row: a side's only field is never empty. Nor are sparse rows.
 */
static void find_never_empty(Synth *s) {
    const IrInput *in = &s->p->input;
    int fields[2] = {0, 0};
    for (int i = 0; i < s->n; i++) fields[s->columns[i].col->side]++;
    for (int i = 0; i < s->n; i++) {
        const IrColumn *c = s->columns[i].col;
        s->columns[i].never_empty = fields[c->side] == 1;
        bool sparse = in->kind == IN_LIBSVM || in->kind == IN_LIBFFM;
        if (c->is_list && (sparse || fields[c->side] == 1)) s->never_empty[c->axis] = true;
    }
}

static void make_row(Synth *s, SynthRow *row, uint64_t seed, int64_t index) {
    IrProgram *p = s->p;
    uint64_t state = synth_mix(seed, (uint64_t)index);
    for (int a = 0; a < p->n_axes; a++) {
        s->axis_length[a] = p->axes[a].kind == AXIS_LIST ? list_length(&p->axes[a], &state) : 0;
        if (s->axis_length[a] == 0 && s->never_empty[a]) s->axis_length[a] = 1;
    }
    for (int i = 0; i < s->n; i++) {
        const SynthColumn *c = &s->columns[i];
        if (c->kind == SYNTH_SKIP || c->kind == SYNTH_LABEL) continue;
        row->count[i] = c->col->is_list ? s->axis_length[c->col->axis] : 1;
        for (int k = 0; k < row->count[i]; k++) row->v[i][k] = draw(c, &state);
        bool empty = synth_uniform(&state) < 0.02;
        if (!c->col->is_list && may_be_empty(c)) row->v[i][0].empty = empty;
    }
}

/* ---- the world ---- */

static double effect_of(const SynthColumn *c, SynthValue v, uint64_t label) {
    if (c->kind == SYNTH_NUMBER) {
        double x = v.empty ? c->col->default_num : v.number,
               sign = normal_of(synth_mix(c->name, label)) < 0 ? -1 : 1;
        return sign * fmin(fmax((x - c->mean) / c->std, -2), 2);
    }
    return v.empty ? 0 : normal_of(synth_mix(synth_mix(WORLD ^ label, c->name), (uint64_t)v.rank));
}

static double share_of(const Synth *s, const SynthColumn *c, const SynthRow *row, int i, uint64_t label) {
    const IrColumn *col = c->col;
    int n = row->count[i];
    if (!col->is_list) return effect_of(c, row->v[i][0], label);
    int64_t most = s->p->axes[col->axis].max;
    if (most > 0 && n > most) n = (int)most; /* the rest isn't read */
    double sum = 0;
    for (int k = 0; k < n; k++) sum += effect_of(c, row->v[i][k], label);
    return n ? sum / sqrt(n) : 0;
}

/* Two hidden factors a value; their product is what no sum of effects can tell. */
static double meeting(const Synth *s, const SynthRow *row, uint64_t label) {
    double sum = 0;
    for (uint64_t f = 0; f < 2; f++) {
        double product = 1;
        for (int k = 0; k < 2; k++) {
            const SynthColumn *c = &s->columns[s->pair[k]];
            SynthValue v = row->v[s->pair[k]][0];
            product *= v.empty ? 0
                               : normal_of(synth_mix(synth_mix(WORLD + 1 + f + (label << 8), c->name),
                                                     (uint64_t)v.rank));
        }
        sum += product;
    }
    return sum / sqrt(2);
}

static double raw_score(const Synth *s, const SynthRow *row, uint64_t label) {
    double sum = 0;
    for (int i = 0; i < s->n; i++)
        if (s->columns[i].strength > 0)
            sum += s->columns[i].strength * share_of(s, &s->columns[i], row, i, label);
    if (s->pair[0] >= 0) sum += 0.6 * meeting(s, row, label);
    return sum;
}

/* Log-odds of a label. The first label's score is part of the others', as a click is of a purchase. */
static double probability(const Synth *s, const SynthRow *row, int label) {
    double score = (raw_score(s, row, 0) - s->centre) / s->spread;
    if (label > 0) score = 0.7 * score + 0.7 * (raw_score(s, row, (uint64_t)label) - s->centre) / s->spread;
    return 1 / (1 + exp(-(base_rate_logit + spread * score)));
}

/* The k-th best of a kind, by hash of the name so that no place in the file is favoured. */
static int choose(const Synth *s, SynthKind kind, bool list, int most_values) {
    int best = -1;
    for (int i = 0; i < s->n; i++) {
        const SynthColumn *c = &s->columns[i];
        bool fits = c->kind == kind && c->col->is_list == list && c->col->used_predict && c->strength == 0;
        if (!fits || (c->domain && (c->domain->n < 2 || c->domain->n > most_values))) continue;
        if (best < 0 || c->name < s->columns[best].name) best = i;
    }
    return best;
}

static int choose_values(const Synth *s, bool list, int most_values) {
    int w = choose(s, SYNTH_WORDS, list, most_values), i = choose(s, SYNTH_IDS, list, most_values);
    if (w < 0 || i < 0) return w < 0 ? i : w;
    return s->columns[w].name < s->columns[i].name ? w : i;
}

/* Most of the signal stands in columns of few values, where some ten thousand rows find it; some of it in
 * rarer ones, which only a longer log tells. */
static void choose_columns(Synth *s) {
    static const double single[] = {1, 0.9, 0.7, 0.5, 0.3}, listed[] = {0.5, 0.3}, number[] = {0.8, 0.6, 0.4};
    static const int most[] = {60, 60, 200, 700, 1 << 30};
    s->pair[0] = s->pair[1] = -1;
    for (int k = 0; k < 5; k++) {
        int i = -1;
        for (int limit = most[k]; i < 0 && limit <= 1 << 29; limit *= 4) i = choose_values(s, false, limit);
        if (i < 0) i = choose_values(s, false, 1 << 30);
        if (i < 0) break;
        s->columns[i].strength = single[k];
        if (k < 2) s->pair[k] = i;
    }
    if (s->pair[1] < 0) s->pair[0] = -1;
    for (int k = 0; k < 2; k++) {
        int i = choose_values(s, true, k ? 1 << 30 : 700);
        if (i < 0) i = choose_values(s, true, 1 << 30);
        if (i >= 0) s->columns[i].strength = listed[k];
    }
    for (int k = 0; k < 3; k++) {
        int i = choose(s, SYNTH_NUMBER, false, 1 << 30);
        if (i < 0) i = choose(s, SYNTH_NUMBER, true, 1 << 30);
        if (i >= 0) s->columns[i].strength = number[k];
    }
}

/* Mean and spread of the score over rows that depend on no seed. */
static void measure(Synth *s, SynthRow *row) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < SAMPLE; i++) {
        make_row(s, row, WORLD, i);
        double x = raw_score(s, row, 0);
        sum += x;
        squares += x * x;
    }
    s->centre = sum / SAMPLE;
    s->spread = sqrt(fmax(squares / SAMPLE - s->centre * s->centre, 0));
    if (s->spread < 1e-6) s->spread = 1;
}

/* ---- AUC of the true probabilities ---- */

typedef struct {
    double p;
    int y;
} Scored;

static int by_probability(const void *a, const void *b) {
    double x = ((const Scored *)a)->p, y = ((const Scored *)b)->p;
    return (x > y) - (x < y);
}

static double auc(Scored *v, int64_t n) {
    qsort(v, (size_t)n, sizeof *v, by_probability);
    double wins = 0, positives = 0, negatives = 0;
    for (int64_t i = 0, j; i < n; i = j) {
        double pos = 0, neg = 0;
        for (j = i; j < n && v[j].p == v[i].p; j++) v[j].y ? pos++ : neg++;
        wins += pos * (negatives + neg / 2);
        positives += pos;
        negatives += neg;
    }
    return positives > 0 && negatives > 0 ? wins / (positives * negatives) : NAN;
}

/* ---- all rows ---- */

static SynthRow *new_row(const Synth *s) {
    Arena *a = s->p->arena;
    SynthRow *row = ARENA_NEW(a, SynthRow);
    row->count = ARENA_ARRAY(a, int, s->n);
    row->label = ARENA_ARRAY(a, int, s->n);
    row->v = ARENA_ARRAY(a, SynthValue *, s->n);
    for (int i = 0; i < s->n; i++)
        row->v[i] = ARENA_ARRAY(a, SynthValue, s->columns[i].col->is_list ? SYNTH_MAX_LIST : 1);
    return row;
}

bool frontend_synth(IrProgram *p, int64_t rows, uint64_t seed, const char *out, double *best_auc) {
    Synth s = {.p = p};
    synth_columns(&s);
    s.axis_length = ARENA_ARRAY(p->arena, int, p->n_axes + 1);
    s.never_empty = ARENA_ARRAY(p->arena, bool, p->n_axes + 1);
    find_never_empty(&s);
    choose_columns(&s);
    SynthRow *row = new_row(&s);
    measure(&s, row);
    Scored *scored = malloc(sizeof *scored * (size_t)(rows + 1));
    if (!scored) {
        diag_error(p->diag, (Span){0}, NULL, "out of memory for %lld rows", (long long)rows);
        return false;
    }
    SynthFiles *files = synth_open(&s, out);
    for (int64_t r = 0; files && r < rows; r++) {
        make_row(&s, row, synth_mix(seed, 7), r);
        uint64_t state = synth_mix(synth_mix(seed, 8), (uint64_t)r);
        int label = 0;
        for (int i = 0; i < s.n; i++) {
            if (s.columns[i].kind != SYNTH_LABEL) continue;
            double probable = probability(&s, row, label);
            row->label[i] = synth_uniform(&state) < probable;
            if (label++ == 0) scored[r] = (Scored){probable, row->label[i]};
        }
        if (label == 0) scored[r] = (Scored){0};
        synth_write(files, &s, row);
    }
    bool written = files && synth_close(files, true);
    if (written) *best_auc = auc(scored, rows);
    free(scored);
    return written;
}
