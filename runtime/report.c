/* Results for people and for scripts. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "runtime/message.h"
#include "runtime/program.h"
#include "runtime/progress.h"

static int say(int code, const char *word, const char *format, va_list ap) {
    char text[RT_MESSAGE * 2];
    vsnprintf(text, sizeof text, format, ap);
    rt_progress_clear();
    fprintf(stderr, "%s%s\n", strstr(text, ": error: ") ? "" : word, text);
    return code;
}
int rt_fail(int code, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    say(code, "error: ", format, ap);
    va_end(ap);
    return code;
}
void rt_warn(const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    say(0, "warning: ", format, ap);
    va_end(ap);
}

void rt_warn_bad_rows(const RtReader *r, const char *written_to) {
    uint64_t n = rt_reader_bad_rows(r);
    const char *first = n ? rt_reader_first_bad(r) : NULL;
    if (n)
        rt_warn("%llu bad row%s skipped%s%s", (unsigned long long)n, n == 1 ? "" : "s",
                written_to ? ", written to " : "", written_to ? written_to : "");
    if (first) fprintf(stderr, "  the first: %s\n", first);
}

int rt_too_many_bad_rows(const RtReader *r, const RtArgs *a) {
    int64_t most = a->max_bad_rows;
    if (most < 0 || rt_reader_bad_rows(r) <= (uint64_t)most) return RT_EXIT_OK;
    return rt_fail(RT_EXIT_FAILED, "more than %lld bad row%s (--max-bad-rows)", (long long)most,
                   most == 1 ? "" : "s");
}

double rt_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

json_t *rt_real(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static void put_metric(json_t *o, const char *name, const char *key, double v) {
    json_t *by_name = json_object_get(o, name);
    if (!by_name) json_object_set_new(o, name, by_name = json_object());
    json_object_set_new(by_name, key, rt_real(v));
}

void rt_report_metrics(const RtModel *m, RtMetrics *s, json_t *o, bool note) {
    for (int i = 0; i < m->n_metrics; i++) {
        const char *name = rt_metric_name(m->metrics[i].kind), *key = m->metrics[i].key, *why;
        double v;
        if (!rt_metrics_value(s, i, &v, &why) && note) rt_warn("%s of %s is undefined: %s", name, key, why);
        put_metric(o, name, key, v);
        if (m->metrics[i].kind == RT_LOGLOSS)
            put_metric(o, "normalized_entropy", key, rt_metrics_normalized_entropy(s, i));
    }
}

static void print_metric(const json_t *o, const char *name, const char *shown, const char *key, bool lines,
                         FILE *f) {
    const json_t *v = json_object_get(json_object_get(o, name), key);
    char text[32] = "undefined", title[128];
    if (json_is_real(v)) snprintf(text, sizeof text, "%.6f", json_real_value(v));
    snprintf(title, sizeof title, "%s %s", shown, key);
    fprintf(f, lines ? "%-20s %s\n" : ", %s %s", title, text);
}

/* The normalized entropy stands where there is room for it. */
void rt_print_metrics(const RtModel *m, const json_t *o, bool lines, FILE *f) {
    for (int i = 0; i < m->n_metrics; i++) {
        const char *name = rt_metric_name(m->metrics[i].kind), *key = m->metrics[i].key;
        print_metric(o, name, name, key, lines, f);
        if (lines && m->metrics[i].kind == RT_LOGLOSS)
            print_metric(o, "normalized_entropy", "norm. entropy", key, lines, f);
    }
}

int rt_flush_stdout(void) {
    errno = 0;
    char reason[RT_SHOWN];
    if (fflush(stdout) == 0 && !ferror(stdout)) return RT_EXIT_OK;
    return rt_fail(RT_EXIT_FAILED, "cannot write to stdout: %s", rt_reason(errno, reason));
}

int rt_print_json(json_t *o) {
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(o);
    if (!text) rt_out_of_memory();
    puts(text);
    free(text);
    return rt_flush_stdout();
}
