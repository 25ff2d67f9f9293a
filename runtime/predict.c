/* Predictions: one line a row, in file order. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/checkpoint.h"
#include "runtime/message.h"
#include "runtime/program.h"
#include "runtime/progress.h"

/* Where the lines go: stdout, or a file beside the wanted one that takes its place at the end. A device or a
 * pipe is written to directly. */
typedef struct {
    FILE *f;
    const char *path;
    char temp[PATH_MAX];
} Out;

static int out_failed(const Out *o) {
    char reason[RT_SHOWN];
    return rt_fail(RT_EXIT_FAILED, "cannot write %s%s: %s", o->path ? "" : "to ",
                   o->path ? o->path : "stdout", rt_reason(errno, reason));
}

/* A file of our own beside path: whatever has its name already, a link of somebody else's among it, is left
 * alone. Permissions are those of any new file, mkstemp's is its owner's only. */
static FILE *temporary(Out *o) {
    int fd = mkstemp(o->temp);
    if (fd < 0) {
        o->temp[0] = 0; /* nothing to remove */
        return NULL;
    }
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, 0666 & ~mask);
    return fdopen(fd, "w");
}

static int out_open(Out *o, const char *path) {
    struct stat st;
    *o = (Out){.f = stdout, .path = path};
    if (!path) return RT_EXIT_OK;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        if (S_ISDIR(st.st_mode))
            errno = EISDIR;
        else
            o->f = fopen(path, "w");
        return S_ISDIR(st.st_mode) || !o->f ? out_failed(o) : RT_EXIT_OK;
    }
    if ((size_t)snprintf(o->temp, sizeof o->temp, "%s.XXXXXX", path) >= sizeof o->temp) {
        errno = ENAMETOOLONG;
        return out_failed(o);
    }
    o->f = temporary(o);
    return o->f ? RT_EXIT_OK : out_failed(o);
}

static int out_close(Out *o, int code) {
    errno = 0;
    bool ok = o->f && !ferror(o->f) && !fflush(o->f);
    if (o->temp[0] && ok) ok = !fsync(fileno(o->f));
    if (o->f && o->f != stdout) ok &= !fclose(o->f);
    if (!ok && code == RT_EXIT_OK) code = out_failed(o);
    if (!o->temp[0]) return code;
    if (code == RT_EXIT_OK && rename(o->temp, o->path)) code = out_failed(o);
    if (code != RT_EXIT_OK) unlink(o->temp);
    return code;
}

/* ---- lines ---- */

static void print_header(FILE *f, const RtModel *m) {
    for (int k = 0; k < m->n_predictions; k++) fprintf(f, "%s%s", k ? "," : "", m->predictions[k].name);
    fputc('\n', f);
}

static void print_value(FILE *f, float v, bool json) {
    if (json && !isfinite(v))
        fputs("null", f);
    else
        fprintf(f, "%.9g", (double)v);
}

/* A bad row has a line, too: nan, or null in JSON. */
static bool print_rows(FILE *f, const RtExec *x, const bool *bad, bool json) {
    const RtModel *m = x->m;
    double keep = *rt_tables_keep_negatives(x->tables);
    for (uint32_t i = 0; i < x->step.rows; i++) {
        if (json) fputc('{', f);
        for (int k = 0; k < m->n_predictions; k++) {
            const float *v = rt_exec_output(x, RT_PREDICT, m->predictions[k].output[RT_PREDICT]);
            if (k) fputc(',', f);
            if (json) fprintf(f, "\"%s\":", m->predictions[k].name); /* an identifier: nothing to escape */
            print_value(f, bad[i] ? NAN : rt_corrected(v[i], keep), json);
        }
        fputs(json ? "}\n" : "\n", f);
    }
    return !ferror(f);
}

static int predict_batches(RtExec *x, RtReader *r, const RtArgs *a, Out *out) {
    char err[RT_MESSAGE] = "";
    RtProgress progress;
    RtBatch *b;
    uint64_t rows = 0;
    int got = 0, code = RT_EXIT_OK;
    rt_progress_init(&progress, a->progress);
    rt_progress_begin(&progress, "prediction", rt_now());
    if (a->header && !a->format) print_header(out->f, x->m);
    while (code == RT_EXIT_OK && !ferror(out->f) && (got = rt_reader_next(r, &b, err, sizeof err)) > 0) {
        rt_exec_batch(x, b);
        rt_exec_run(x, RT_PREDICT, x->m->program->predict);
        rows += b->rows;
        bool ok = print_rows(out->f, x, b->row_bad, a->format);
        rt_reader_release(r, b);
        if (!ok) return out_failed(out);
        rt_progress_show(&progress, rt_now(), rows, NAN, rt_reader_progress(r), 0);
        code = rt_too_many_bad_rows(r, a);
    }
    rt_progress_clear();
    if (got < 0) return rt_fail(RT_EXIT_FAILED, "%s", err);
    if (code == RT_EXIT_OK) rt_warn_bad_rows(r, a->bad_rows);
    return code;
}

static int predict_with(RtExec *x, const RtArgs *a, RtTables *t) {
    char err[RT_MESSAGE] = "";
    RtReaderOptions o = rt_reader_options(x->m, a, &a->data, RT_PREDICT, t);
    RtReader *r = rt_reader_open(x->m, &o, err, sizeof err);
    if (!r) return rt_fail(RT_EXIT_FAILED, "%s", err);
    Out out;
    int code = out_open(&out, a->out);
    if (code == RT_EXIT_OK) code = out_close(&out, predict_batches(x, r, a, &out));
    rt_reader_close(r);
    return code;
}

int rt_predict(const RtModel *m, const RtArgs *a) {
    char err[RT_MESSAGE] = "";
    if (!m->n_predictions) return rt_fail(RT_EXIT_FAILED, "the model '%s' declares no prediction", m->name);
    RtTables *t = rt_checkpoint_open(m, a->load, err, sizeof err);
    if (!t) return rt_fail(RT_EXIT_FAILED, "%s", err);
    RtExec *x = rt_exec_new(m, t, rt_args_threads(a), err, sizeof err);
    int code = x ? predict_with(x, a, t) : rt_fail(RT_EXIT_FAILED, "%s", err);
    rt_exec_free(x);
    rt_tables_free(t);
    return code;
}
