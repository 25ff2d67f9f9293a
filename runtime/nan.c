/* What can be said about a loss that is not finite: the step, the first op in order of execution whose result
 * isn't, a weight that isn't, and where the batch's rows stand. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/program.h"
#include "runtime/message.h"

/* The sign of a NaN means nothing. */
static const char *shown(float v) { return isnan(v) ? "nan" : v > 0 ? "inf" : "-inf"; }

static RtStepFn function_of(const RtModel *m, int function) {
    return function == RT_TRAIN ? m->program->train : m->program->eval;
}

static const RtNodeInfo *node_of(const RtFunction *f, uint32_t id) {
    for (int i = 0; i < f->n_nodes; i++)
        if (f->nodes[i].id == (int)id) return &f->nodes[i];
    return NULL;
}

static void say_op(const RtExec *x, int function) {
    if (!x->check.found) return;
    const RtNodeInfo *n = node_of(&x->m->fn[function], x->check.op);
    fprintf(stderr, "  the first value that is not finite (%s) comes from op %%%u", shown(x->check.value),
            x->check.op);
    if (n)
        fprintf(stderr, " %s%s%s, %s%s%s", n->op, n->name ? " of " : "", n->name ? n->name : "", n->type,
                n->at ? ", at " : "", n->at ? n->at : "");
    fputc('\n', stderr);
}

/* ---- weights ---- */

static bool say_element(const RtWeight *w, uint64_t first, const float *v, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        if (isfinite(v[i])) continue;
        uint64_t at = first + i, left = w->size;
        fprintf(stderr, "  weight '%s' holds %s at [", w->name, shown(v[i]));
        for (int k = 0; k < w->rank; k++) {
            left /= (uint64_t)w->dim[k];
            fprintf(stderr, "%s%" PRIu64, k ? "," : "", at / left);
            at %= left;
        }
        fputs("]\n", stderr);
        return true;
    }
    return false;
}

/* Dense weights whole, of tables the rows that the batch names. */
static void say_weights(const RtExec *x) {
    for (int i = 0; i < x->m->n_weights; i++) {
        const RtWeight *w = &x->m->weights[i];
        float *dense = rt_tables_dense(x->tables, i, 0);
        const RtTableBatch *b = (const RtTableBatch *)x->step.tables + i;
        uint64_t width = rt_tables_width(x->tables, i);
        float *row = malloc(width * sizeof *row);
        if (!row) rt_out_of_memory();
        if (dense)
            say_element(w, 0, dense, w->size);
        else
            for (uint32_t u = 0; u < b->n; u++) {
                RtTableBatch one = *b;
                rt_tables_fetch(x->tables, &one, i, u, u + 1, row - u * width, false, 0);
                if (say_element(w, ((const uint32_t *)b->id)[u] * width, row, width)) break;
            }
        free(row);
    }
}

/* ---- rows ---- */

typedef struct {
    uint32_t file;
    uint64_t line;
} Place;
static int by_place(const void *a, const void *b) {
    const Place *x = a, *y = b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

/* "f.csv:2-65, 99, g.csv:7": ranges of neighbouring lines, the first few. */
static void say_rows(const RtReader *r, const RtBatch *b) {
    enum { RANGES = 40 };
    Place *p = malloc((b->rows + 1) * sizeof *p);
    if (!p) rt_out_of_memory();
    for (uint32_t i = 0; i < b->rows; i++) p[i] = (Place){b->row_file[i], b->row_line[i]};
    qsort(p, b->rows, sizeof *p, by_place);
    fprintf(stderr, "  the batch's %u rows are", b->rows);
    uint32_t i = 0;
    for (int ranges = 0; i < b->rows && ranges < RANGES; ranges++) {
        uint32_t j = i + 1;
        while (j < b->rows && p[j].file == p[i].file && p[j].line <= p[j - 1].line + 1) j++;
        bool same = i > 0 && p[i].file == p[i - 1].file;
        fprintf(stderr, "%s %s%s%" PRIu64, ranges ? "," : "", same ? "" : rt_reader_file(r, p[i].file),
                same ? "" : ":", p[i].line);
        if (p[j - 1].line > p[i].line) fprintf(stderr, "-%" PRIu64, p[j - 1].line);
        i = j;
    }
    if (i < b->rows) fprintf(stderr, " and %u more", b->rows - i);
    fputc('\n', stderr);
    free(p);
}

int rt_report_nan(RtExec *x, int function, const RtReader *r, const RtBatch *b) {
    float loss = x->loss;
    if (function == RT_TRAIN)
        rt_fail(1, "the loss of step %" PRIu64 " is %s", x->step.step, shown(loss));
    else
        rt_fail(1, "the loss of an evaluation batch is %s", shown(loss));
    say_weights(x); /* before the step runs again */
    rt_exec_find_nan(x, function_of(x->m, function));
    say_op(x, function);
    say_rows(r, b);
    if (function == RT_TRAIN) fputs("hint: a smaller learning rate, or clip_norm on the optimizer\n", stderr);
    return RT_EXIT_FAILED;
}
