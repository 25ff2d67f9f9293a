/* What a specialist would say about the counts. Each warning names a column and says what to do or to look
 * at. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/check.h"
#include "runtime/message.h"

#define LEAK 0.98    /* AUC of one column alone */
#define SPAN 1e6     /* of a number that nothing scales */
#define UNIQUE 0.9   /* distinct values a row */
#define COLLIDE 0.2  /* share of values that share a bucket */
#define UNKNOWN 0.05 /* share of values that are not in the vocabulary */
#define RARE 0.01    /* share of rows that have a value; of positive ones */
#define COPIES 0.05  /* share of rows that are copies of another */
#define CUT 0.2      /* share of lists that are longer than is kept */
#define DRIFT 2.0    /* times that the share of positives changes from the first tenth to the last */
enum { FEW = 1000 /* rows, below which shares mean little */, ENOUGH = 20 /* rows of either label */ };

static void warn(RtDataCheck *k, const char *kind, const char *column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void warn(RtDataCheck *k, const char *kind, const char *column, const char *format, ...) {
    char text[RT_MESSAGE];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    json_array_append_new(k->warnings,
                          json_pack("{s:s,s:s?,s:s}", "kind", kind, "column", column, "text", text));
}

/* ---- labels ---- */

static void warn_label(RtDataCheck *k, int label) {
    const RtCheckColumn *c = &k->column[k->label[label]];
    double positives = (double)rt_check_positives(k, label), share = positives / (double)k->rows, first, last,
           n;
    const char *name = c->c->name;
    if (positives == 0 || positives == (double)k->rows) {
        warn(k, "constant label", name, "label '%s' is %d in all rows: nothing can be learnt from it%s", name,
             positives > 0,
             c->c->positive && positives == 0 ? "; is the text that means 1 written like this?" : "");
        return;
    }
    if (share < RARE && k->rows >= FEW)
        warn(k, "imbalance", name,
             "label '%s' is 1 in %.2g %% of the rows: train --keep-negatives %.1g has a tenth "
             "of the rows positive, in a fraction of the time",
             name, 100 * share, 9 * share);
    if (!rt_check_course(c, &first, &last, &n)) return;
    double low = first < last ? first : last, high = first < last ? last : first;
    double noise = 4 * sqrt(share * (1 - share) / n);
    if (high > DRIFT * low && high - low > noise && k->rows >= FEW)
        warn(k, "drift", name,
             "label '%s' is 1 in %.3g %% of the first tenth of the rows, in %.3g %% of the last: "
             "they are in an order, and rows held out by hash are easier than those to come",
             name, 100 * first, 100 * last);
}

/* ---- columns ---- */

/* "column 'age'", "the length of 'tags'", "'x' in 'tags'" */
static void name_leak(const RtCheckColumn *c, int label, char *out, size_t bytes) {
    RtTallyValue element;
    char shown[RT_SHOWN];
    if (!c->c->is_list)
        snprintf(out, bytes, "column '%s'", c->c->name);
    else if (rt_check_element_auc(c, label, &element) > fmax(rt_tally_auc(&c->lengths, label), 0.5))
        snprintf(out, bytes, "%s in '%s'", rt_check_show(c, &c->tally, &element, shown), c->c->name);
    else
        snprintf(out, bytes, "the length of '%s'", c->c->name);
}

static void warn_leak(RtDataCheck *k, const RtCheckColumn *c) {
    char what[RT_MESSAGE / 4];
    for (int l = 0; l < k->n_labels; l++) {
        double positives = (double)rt_check_positives(k, l), auc = rt_check_auc(c, l);
        if (positives < ENOUGH || (double)k->rows - positives < ENOUGH || !(auc > LEAK)) continue;
        name_leak(c, l, what, sizeof what);
        warn(k, "leak", c->c->name,
             "%s alone tells '%s' with an AUC of %.4f: is it known before the outcome is?", what,
             k->column[k->label[l]].c->name, auc);
    }
}

static void warn_constant(RtDataCheck *k, const RtCheckColumn *c) {
    char shown[RT_SHOWN];
    RtTallyValue top;
    const char *name = c->c->name;
    if (!c->filled)
        warn(k, "empty", name, "column '%s' is empty in all rows", name);
    else if (rt_tally_distinct(&c->tally) == 1 && c->filled == c->rows && !c->c->is_list) {
        rt_tally_top(&c->tally, &top, 1);
        warn(k, "constant", name, "column '%s' is %s in all rows: it tells nothing", name,
             rt_check_show(c, &c->tally, &top, shown));
    } else if (c->c->is_list && !c->differ && c->filled == c->rows)
        warn(k, "constant", name, "column '%s' is the same list in all rows: it tells nothing", name);
    else if ((double)c->filled < RARE * (double)c->rows && c->rows >= FEW)
        warn(k, "mostly empty", name, "column '%s' has a value in %.2g %% of the rows only", name,
             100 * (double)c->filled / (double)c->rows);
}

static void warn_column(RtDataCheck *k, const RtCheckColumn *c) {
    const char *name = c->c->name;
    warn_constant(k, c);
    if (c->raw && rt_check_is_number(c->c) && c->max - c->min >= SPAN)
        warn(k, "unscaled", name,
             "column '%s' goes from %.6g to %.6g: unless the model does so already, take log1p, "
             "normalize or bucketize it",
             name, c->min, c->max);
    double distinct = rt_tally_distinct(&c->tally);
    uint64_t places = c->c->is_list ? c->values : c->filled;
    const char *place = c->c->is_list ? "element" : "row";
    if (c->hashed && c->filled >= FEW && distinct > UNIQUE * (double)places)
        warn(k, "unique", name,
             "column '%s' has %.0f values in %llu %ss: nearly every %s has its own, from which "
             "nothing is learnt for the next",
             name, distinct, (unsigned long long)places, place, place);
    if ((double)c->cut > CUT * (double)c->rows)
        warn(k, "cut", name,
             "column '%s': %.0f %% of the lists are longer than the %llu values that are kept", name,
             100 * (double)c->cut / (double)c->rows, (unsigned long long)c->most);
    warn_leak(k, c);
}

/* To so many digits; 0: as it is. */
static double digits(double x, int n) {
    double unit = n && x >= 1 ? pow(10, floor(log10(x)) - n + 1) : 1;
    return ceil(x / (unit < 1 ? 1 : unit)) * (unit < 1 ? 1 : unit);
}

/* Values in ten times as many buckets collide with 1 - exp(-0.1). Chance may have been against few values in
 * enough of them: then twice as many. */
static double enough_buckets(double distinct, double buckets) {
    double want = 10 * distinct;
    return digits(want > 1.5 * buckets ? want : 2 * buckets, 2);
}

static void warn_feature(RtDataCheck *k, const RtCheckFeature *f) {
    char name[200];
    double distinct;
    bool exact;
    rt_check_feature_name(k, f, name);
    if (f->f->op == RT_F_VOCAB) {
        double share = (double)f->unknown / (double)f->looked_up;
        if (share > UNKNOWN)
            warn(k, "unknown values", name, "%s: %.3g %% of the values are not in the vocabulary", name,
                 100 * share);
        return;
    }
    double share = rt_check_collisions(k, f, &distinct, &exact);
    if (isnan(share) && f->occupied)
        warn(k, "collisions", name, "%s: all %llu buckets are taken, more of them would tell values apart",
             name, (unsigned long long)f->f->buckets);
    else if (share > COLLIDE)
        warn(k, "collisions", name,
             "%s: %.0f %% of %s%.0f values share a bucket with another in %llu buckets; %.0f "
             "would leave below 10 %%",
             name, 100 * share, exact ? "" : "about ", digits(distinct, exact ? 0 : 3),
             (unsigned long long)f->f->buckets, enough_buckets(distinct, (double)f->f->buckets));
}

/* The worst first: in a wide model there may be many. */
typedef struct {
    double share;
    int feature;
} Shared;

static int by_share(const void *a, const void *b) {
    const Shared *x = a, *y = b;
    return x->share > y->share ? -1 : x->share < y->share ? 1 : x->feature - y->feature;
}

static void warn_features(RtDataCheck *k) {
    Shared *s = rt_reader_alloc((size_t)k->n_features, sizeof *s);
    for (int i = 0; i < k->n_features; i++) {
        const RtCheckFeature *f = &k->feature[i];
        double distinct, shared = 0;
        bool exact;
        if (f->f->op != RT_F_VOCAB) shared = rt_check_collisions(k, f, &distinct, &exact);
        s[i] = (Shared){isnan(shared) ? 2 : shared, i};
    }
    qsort(s, (size_t)k->n_features, sizeof *s, by_share);
    for (int i = 0; i < k->n_features; i++) warn_feature(k, &k->feature[s[i].feature]);
    free(s);
}

/* ---- the whole ---- */

static void warn_rows(RtDataCheck *k) {
    double copies = 1 - rt_hll_count(k->rows_hll) / (double)k->rows;
    if (k->rows >= FEW && copies > COPIES)
        warn(k, "copies", NULL, "about %.0f %% of the rows are copies of another", 100 * copies);
    if (!k->bad_rows) return;
    warn(k, "bad rows", NULL, "%llu row%s cannot be read: training %s", (unsigned long long)k->bad_rows,
         k->bad_rows == 1 ? "" : "s",
         k->a->on_bad_row ? "skips them" : "stops at the first, --on-bad-row skip passes over them");
}

void rt_check_warn(RtDataCheck *k) {
    if (k->no_label.text[0]) {
        const char *what = strstr(k->no_label.text, "error: ");
        warn(k, "label missing", NULL, "%.*s: these rows can be predicted on, not trained with",
             (int)strcspn(what ? what + 7 : k->no_label.text, "\n"), what ? what + 7 : k->no_label.text);
    } else if (!k->n_labels)
        warn(k, "label missing", NULL,
             "the model reads no label between 0 and 1: how well a column tells it isn't "
             "looked at");
    warn_rows(k);
    if (!k->rows) return;
    for (int l = 0; l < k->n_labels; l++) warn_label(k, l);
    for (int i = 0; i < k->n_columns; i++)
        if (k->column[i].c->kind != RT_LABEL) warn_column(k, &k->column[i]);
    warn_features(k);
}
