/* eval --calibration: what predictions promise against what came. By tenths of the rows in order of
 * prediction, and as numbers over all of them: pcoc                predicted over observed positives
 *   normalized_entropy  log loss over that of always predicting the observed rate: He et al., "Practical
 * Lessons from Predicting Clicks on Ads at Facebook", ADKDD 2014, equation 1; 1 is of no use ece expected
 * calibration error: the mean over rows of |predicted - observed| of their tenth. Naeini et al., "Obtaining
 * Well Calibrated Probabilities Using Bayesian Binning", AAAI 2015 */
#include <math.h>
#include <stdio.h>
#include "runtime/program.h"

enum { TENTHS = 10 };
typedef struct {
    uint64_t rows;
    double p, y, loss; /* sums */
    float from, to;    /* predictions */
} Bin;

static void add(Bin *b, float p, float y) {
    if (!b->rows) b->from = p;
    b->to = p;
    b->rows++;
    b->p += p;
    b->y += y;
    b->loss += rt_logloss(p, y);
}

/* Rows with one prediction stay in one tenth, that of the first of them. */
static Bin split(const uint64_t *row, uint64_t n, Bin bin[TENTHS]) {
    Bin all = {0};
    uint64_t tie = 0;
    for (uint64_t i = 0; i < n; i++) {
        float p = rt_row_prediction(row[i]), y = rt_row_label(row[i]);
        if (row[i] >> 32 != row[tie] >> 32) tie = i;
        add(&bin[tie * TENTHS / n], p, y);
        add(&all, p, y);
    }
    return all;
}

static double mean(double sum, const Bin *b) { return sum / (double)b->rows; }

static json_t *bin_json(const Bin *b) {
    json_t *o = json_object();
    json_object_set_new(o, "rows", json_integer((json_int_t)b->rows));
    json_object_set_new(o, "from", rt_real(b->from));
    json_object_set_new(o, "to", rt_real(b->to));
    json_object_set_new(o, "predicted", rt_real(mean(b->p, b)));
    json_object_set_new(o, "observed", rt_real(mean(b->y, b)));
    json_object_set_new(o, "pcoc", rt_real(b->p / b->y));
    return o;
}

static json_t *calibration_of(const uint64_t *row, uint64_t n) {
    Bin bin[TENTHS] = {{0}}, all = split(row, n, bin);
    json_t *o = bin_json(&all), *bins = json_array();
    double ece = 0;
    for (int i = 0; i < TENTHS; i++) {
        if (!bin[i].rows) continue;
        ece += fabs(bin[i].p - bin[i].y) / (double)all.rows;
        json_array_append_new(bins, bin_json(&bin[i]));
    }
    double loss = mean(all.loss, &all);
    json_object_set_new(o, "logloss", rt_real(loss));
    json_object_set_new(o, "normalized_entropy", rt_real(loss / rt_entropy(mean(all.y, &all))));
    json_object_set_new(o, "ece", rt_real(ece));
    json_object_set_new(o, "bins", bins);
    return o;
}

json_t *rt_calibration(const RtModel *m, RtMetrics *s) {
    json_t *o = json_object();
    for (int i = 0; i < m->n_metrics; i++) {
        uint64_t n;
        const uint64_t *row = rt_metrics_rows(s, i, &n);
        if (row && n) json_object_set_new(o, m->metrics[i].key, calibration_of(row, n));
    }
    return o;
}

/* ---- text ---- */

static void print_number(const json_t *o, const char *key, int width, int digits) {
    const json_t *v = json_object_get(o, key);
    if (json_is_real(v))
        printf("%*.*f", width, digits, json_real_value(v));
    else
        printf("%*s", width, "-");
}

void rt_print_calibration(const json_t *o) {
    const char *name;
    json_t *c;
    json_object_foreach((json_t *)o, name, c) {
        static const char *const keys[] = {"predicted", "observed",           "pcoc",
                                           "logloss",   "normalized_entropy", "ece"};
        printf("\ncalibration of %s\n", name);
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            printf("%-20s ", keys[i]);
            print_number(c, keys[i], 0, 6);
            putchar('\n');
        }
        printf("%10s %10s %10s %10s %10s %8s\n", "from", "to", "rows", "predicted", "observed", "pcoc");
        const json_t *bins = json_object_get(c, "bins");
        for (size_t i = 0; i < json_array_size(bins); i++) {
            const json_t *b = json_array_get(bins, i);
            print_number(b, "from", 10, 6);
            print_number(b, "to", 11, 6);
            printf(" %10lld", (long long)json_integer_value(json_object_get(b, "rows")));
            print_number(b, "predicted", 11, 6);
            print_number(b, "observed", 11, 6);
            print_number(b, "pcoc", 9, 3);
            putchar('\n');
        }
    }
}
