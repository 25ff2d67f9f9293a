/* What the columns of a synthetic log hold, as far as the model's own text tells: the words of its
 * vocabularies, ids within its ranges and hash buckets, numbers around its bounds and means. Columns that are
 * looked up in one table share their values. */
#include "frontend/synth.h"
#include <math.h>
#include <string.h>
#include <xxhash.h>

enum { MOST_VALUES = 3000 };

/* The column that a reader-stage value comes from, -1 if from several. */
static int column_of(const IrNode *n) {
    for (;; n = n->in[0]) {
        if (n->op == OP_COLUMN) return (int)ir_attr_i(n, "col");
        if (n->op != OP_NUMBER && n->op != OP_HASH && n->op != OP_VOCAB && n->op != OP_BUCKETIZE &&
            n->op != OP_IDENTITY && n->op != OP_OFFSET && n->op != OP_TRUNCATE && n->op != OP_KEY)
            return -1;
    }
}

static const IrNode *constant(const IrNode *n) {
    return n->op == OP_CONST && ir_attr(n, "value")->flist.n == 1 ? n : NULL;
}
static double value_of(const IrNode *n) { return ir_attr(n, "value")->flist.v[0]; }

/* ---- reading the graph ---- */

typedef struct {
    int *domain_of; /* [columns] first column of the same table */
    int *first;     /* [weights] */
} Sharing;

static void join(Sharing *sh, int n, int a, int b) {
    int from = sh->domain_of[b], to = sh->domain_of[a];
    for (int i = 0; i < n; i++)
        if (sh->domain_of[i] == from) sh->domain_of[i] = to;
}

static void read_lookup(Synth *s, Sharing *sh, const IrNode *n) {
    int c = column_of(n->in[0]);
    if (c < 0 || n->in[0]->op == OP_BUCKETIZE || n->in[0]->op == OP_OFFSET) return;
    const IrNode *rows = n->in[1];
    if (rows->op != OP_WEIGHT && rows->op != OP_FETCH) return;
    int w = (int)ir_attr_i(rows, "w");
    if (sh->first[w] >= 0)
        join(sh, s->n, sh->first[w], c);
    else
        sh->first[w] = c;
}

static void read_comparison(Synth *s, const IrNode *n) {
    bool flipped = n->in[1]->op == OP_COLUMN;
    const IrNode *col = n->in[flipped], *bound = constant(n->in[!flipped]);
    if (col->op != OP_COLUMN || !bound) return;
    SynthColumn *c = &s->columns[ir_attr_i(col, "col")];
    if (c->kind != SYNTH_LABEL) return;
    bool strict = (n->op == OP_GT && !flipped) || (n->op == OP_LT && flipped) ||
                  (n->op == OP_LE && !flipped) || (n->op == OP_GE && flipped);
    double above = value_of(bound) + (strict ? 1 : 0);
    c->above = c->compared ? fmax(c->above, above) : above;
    c->below = c->compared ? fmin(c->below, above - 1) : above - 1;
    c->compared = true;
}

/* x - mean, and later / std. */
static void read_scale(Synth *s, const IrBody *b, const IrNode *n) {
    const IrNode *x = n->in[0], *mean = constant(n->in[1]);
    if (!mean || x->type.elem != TY_F32 || column_of(x) < 0) return;
    SynthColumn *c = &s->columns[column_of(x)];
    if (c->kind != SYNTH_NUMBER) return;
    c->mean = value_of(mean);
    for (int i = 0; i < b->n; i++) {
        const IrNode *use = b->nodes[i];
        if (use->op == OP_DIV && use->in[0] == n && constant(use->in[1]) && value_of(use->in[1]) > 0)
            c->std = value_of(use->in[1]);
    }
}

static void limit(SynthColumn *c, double most) {
    if (most < c->limit) c->limit = most;
}

static void read_node(Synth *s, Sharing *sh, const IrBody *b, const IrNode *n) {
    int c = n->n_in ? column_of(n->in[0]) : -1;
    switch (n->op) {
    case OP_HASH:
        if (c >= 0) limit(&s->columns[c], fmax(2, ceil((double)ir_attr_i(n, "buckets") / 4)));
        break;
    case OP_IDENTITY:
        if (c >= 0) {
            s->columns[c].kind = SYNTH_IDS;
            limit(&s->columns[c], (double)ir_attr_i(n, "n"));
        }
        break;
    case OP_VOCAB:
        if (c >= 0 && s->columns[c].domain == NULL) {
            s->columns[c].domain = ARENA_NEW(s->p->arena, SynthDomain);
            s->columns[c].domain->vocab = &s->p->vocabs[ir_attr_i(n, "vocab")];
        }
        break;
    case OP_BUCKETIZE:
        if (c >= 0 && ir_attr(n, "bounds")->flist.n) {
            s->columns[c].bounds = ir_attr(n, "bounds")->flist.v;
            s->columns[c].n_bounds = ir_attr(n, "bounds")->flist.n;
        }
        break;
    case OP_EMBED:
    case OP_EMBEDPOOL: read_lookup(s, sh, n); break;
    case OP_SUB: read_scale(s, b, n); break;
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
    case OP_EQ: read_comparison(s, n); break;
    default: break;
    }
}

/* ---- domains ---- */

/* Texts that would end a field or an element, or mean an empty one. */
static bool writable(const Synth *s, const IrColumn *c, const char *text, int len) {
    const IrInput *in = &s->p->input;
    if (len == 0 || memchr(text, 0, (size_t)len) || text[0] == ' ' || text[len - 1] == ' ') return false;
    if (c->is_list && memchr(text, c->list_sep, (size_t)len)) return false;
    if (memchr(text, '\n', (size_t)len) || memchr(text, '\r', (size_t)len)) return false;
    if (!in->quote && memchr(text, in->separator, (size_t)len)) return false;
    for (int i = 0; i < in->n_missing; i++)
        if ((int)strlen(in->missing[i]) == len && memcmp(in->missing[i], text, (size_t)len) == 0)
            return false;
    return true;
}

static void listed_words(Synth *s, const IrColumn *c, SynthDomain *d) {
    d->word = ARENA_ARRAY(s->p->arena, int, MOST_VALUES);
    for (int64_t i = 0; i < d->vocab->n && d->n < MOST_VALUES; i++)
        if (writable(s, c, d->vocab->values[i], d->vocab->lens[i])) d->word[d->n++] = (int)i;
    if (d->n == 0) d->vocab = NULL;
}

static char prefix_of(const Synth *s, const IrColumn *c) {
    for (const char *p = c->name; *p; p++)
        if (((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z')) && *p != s->p->input.separator &&
            *p != c->list_sep)
            return *p;
    return 'v';
}

static void fill_domain(Synth *s, const SynthColumn *c, SynthDomain *d, double most) {
    if (d->vocab) listed_words(s, c->col, d);
    if (!d->vocab) {
        /* few, some or many values, by the column's name */
        static const int sizes[] = {40, 150, 600, MOST_VALUES};
        d->n = (int)fmin(most, c->kind == SYNTH_IDS ? MOST_VALUES : sizes[c->name & 3]);
        d->prefix = prefix_of(s, c->col);
    }
    d->cdf = ARENA_ARRAY(s->p->arena, double, d->n);
    double sum = 0;
    for (int i = 0; i < d->n; i++) d->cdf[i] = sum += 1.0 / (i + 1);
    for (int i = 0; i < d->n; i++) d->cdf[i] /= sum;
}

static void share_domains(Synth *s, const Sharing *sh) {
    double *most = ARENA_ARRAY(s->p->arena, double, s->n + 1);
    for (int i = 0; i < s->n; i++) most[i] = 1e300;
    for (int i = 0; i < s->n; i++) most[sh->domain_of[i]] = fmin(most[sh->domain_of[i]], s->columns[i].limit);
    for (int i = 0; i < s->n; i++) {
        SynthColumn *c = &s->columns[i], *first = &s->columns[sh->domain_of[i]];
        if (c->kind != SYNTH_WORDS && c->kind != SYNTH_IDS) continue;
        bool own =
            c == first || c->domain || first->kind != c->kind || !first->domain || first->domain->vocab;
        if (!own) {
            c->domain = first->domain;
            continue;
        }
        if (!c->domain) c->domain = ARENA_NEW(s->p->arena, SynthDomain);
        fill_domain(s, c, c->domain, most[sh->domain_of[i]]);
    }
}

void synth_columns(Synth *s) {
    IrProgram *p = s->p;
    s->n = p->input.n_columns;
    s->columns = ARENA_ARRAY(p->arena, SynthColumn, s->n + 1);
    Sharing sh = {ARENA_ARRAY(p->arena, int, s->n + 1), ARENA_ARRAY(p->arena, int, p->n_weights + 1)};
    for (int w = 0; w < p->n_weights; w++) sh.first[w] = -1;
    for (int i = 0; i < s->n; i++) {
        const IrColumn *col = &p->input.columns[i];
        static const SynthKind kinds[] = {SYNTH_LABEL, SYNTH_WORDS, SYNTH_IDS, SYNTH_NUMBER, SYNTH_SKIP};
        s->columns[i] = (SynthColumn){.col = col,
                                      .kind = kinds[col->kind],
                                      .limit = MOST_VALUES,
                                      .mean = 0.5,
                                      .std = 0.29,
                                      .whole = col->kind == COL_INT,
                                      .name = XXH3_64bits(col->name, strlen(col->name))};
        sh.domain_of[i] = i;
    }
    for (int f = 0; f < p->n_funcs; f++)
        for (int i = 0; i < p->funcs[f]->body.n; i++)
            read_node(s, &sh, &p->funcs[f]->body, p->funcs[f]->body.nodes[i]);
    share_domains(s, &sh);
}

const char *synth_text(const SynthColumn *c, SynthValue v, char buffer[64], int *len) {
    const char *text = buffer;
    if (c->kind == SYNTH_NUMBER)
        *len = snprintf(buffer, 64, c->whole ? "%.0f" : "%.4g", v.number);
    else if (c->domain->vocab) {
        int word = c->domain->word[v.rank];
        text = c->domain->vocab->values[word];
        *len = c->domain->vocab->lens[word];
    } else if (c->kind == SYNTH_IDS)
        *len = snprintf(buffer, 64, "%d", v.rank);
    else
        *len = snprintf(buffer, 64, "%c%d", c->domain->prefix, v.rank);
    return text;
}
