/* How fast the reader is: bench_reader DESCRIPTION.json VOCABULARY|- THREADS EPOCHS SHUFFLE CACHE FILE...
 * Prints rows and megabytes a second, first of whole runs, then of each stage alone on one core: the best of
 * a few repetitions, so that other work on the machine counts little. */
#include "runtime/reader_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 5 };

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
static double now(void) { return seconds(CLOCK_MONOTONIC); }
static double worked(void) { return seconds(CLOCK_THREAD_CPUTIME_ID); } /* without what other programs took */

static char *slurp(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    if (!f) exit((perror(path), 1));
    fseek(f, 0, SEEK_END);
    *bytes = (size_t)ftell(f);
    rewind(f);
    char *s = calloc(*bytes + 1, 1);
    if (!s || fread(s, 1, *bytes, f) != *bytes) exit((perror(path), 1));
    fclose(f);
    return s;
}

static void whole_run(const RtModel *m, RtReaderOptions o) {
    char err[RT_MESSAGE];
    double from = now();
    RtReader *r = rt_reader_open(m, &o, err, sizeof err);
    RtBatch *b;
    uint64_t rows = 0, batches = 0, unique = 0;
    int got = -1;
    while (r && (got = rt_reader_next(r, &b, err, sizeof err)) == 1) {
        rows += b->rows;
        batches++;
        for (int w = 0; w < m->n_weights; w++) unique += b->tables[w].n;
        rt_reader_release(r, b);
    }
    if (got < 0) exit((fprintf(stderr, "%s\n", err), 1));
    double bytes = (double)r->files.bytes * (double)o.epochs, t = now() - from;
    printf("whole:    %9.0f rows/s  %7.1f MB/s  (%llu rows, %.0f unique rows a batch)\n", (double)rows / t,
           bytes / t / 1e6, (unsigned long long)rows, (double)unique / (double)batches);
    rt_reader_close(r);
}

/* Blocks of the files, parsed on this thread. */
static void stages(const RtModel *m, RtReaderOptions o) {
    RtMessage err;
    RtPlan *p = rt_plan_new(m, o.purpose, &err);
    RtFiles files;
    if (!p || !rt_files_find(&files, o.paths, o.n_paths, m->beside, p->side, &err))
        exit((fprintf(stderr, "%s\n", err.text), 1));
    RtCutter *c = rt_cutter_new(p, &files, -1);
    RtParser *parser = rt_parser_new(p, &files, RT_BAD_FAIL, NULL);
    RtAssembler *a = rt_assembler_new(p, o.tables, o.batch, false);
    RtBatch *batch = rt_batch_new(a);
    RtRef *ref = NULL;
    size_t n_ref = 0, cap_ref = 0;
    double cut = 0, parse = 0, bytes = 0;
    RtBlock *b = rt_reader_alloc(1, sizeof *b);
    for (;;) {
        uint64_t lines;
        double t0 = worked();
        int got = rt_cutter_next(c, b, &lines, &err);
        double t1 = worked();
        if (got < 0) exit((fprintf(stderr, "%s\n", err.text), 1));
        if (!got) break;
        RtRows *rows = rt_rows_new();
        double best = 1e9;
        for (int k = 0; k < REPEATS;
             k++) { /* the first time into fresh memory, then as in the steady state */
            double t2 = worked();
            rt_rows_clear(rows);
            rt_parse_block(parser, b, rows);
            double t = worked() - t2;
            if (t < best) best = t;
        }
        parse += best;
        if (rows->failed) exit((fprintf(stderr, "%s\n", rows->error.text), 1));
        cut += t1 - t0;
        bytes += (double)b->bytes[0];
        ref = rt_reader_grow(ref, &cap_ref, n_ref + rows->n, sizeof *ref);
        for (uint32_t i = 0; i < rows->n; i++) ref[n_ref++] = (RtRef){rows, i};
    }
    if (o.shuffle > 1) rt_shuffle_run(ref, n_ref, 1, 0, 0);
    double assemble = 1e9;
    size_t done = 0;
    for (int k = 0; k < REPEATS; k++) {
        double t0 = worked();
        for (done = 0; done + o.batch <= n_ref; done += o.batch) rt_batch_fill(a, batch, ref + done, o.batch, &err);
        if (worked() - t0 < assemble) assemble = worked() - t0;
    }
    printf("cutting:  %9.0f rows/s  %7.1f MB/s\n", (double)n_ref / cut, bytes / cut / 1e6);
    printf("parsing:  %9.0f rows/s  %7.1f MB/s\n", (double)n_ref / parse, bytes / parse / 1e6);
    printf("assembly: %9.0f rows/s  %7.3f ms a batch of %u\n", (double)done / assemble,
           assemble / (double)(done / o.batch) * 1e3, o.batch);
}

int main(int argc, char **argv) {
    if (argc < 8)
        return fprintf(stderr, "usage: bench_reader DESCRIPTION.json VOCABULARY|- THREADS EPOCHS SHUFFLE "
                               "CACHE FILE...\n"),
               2;
    size_t bytes, vocab_bytes = 0;
    char *json = slurp(argv[1], &bytes), err[RT_MESSAGE];
    RtBlob blob = {strcmp(argv[2], "-") ? slurp(argv[2], &vocab_bytes) : "", vocab_bytes};
    blob.bytes = vocab_bytes;
    RtModel *m = rt_model_parse(json, bytes, &blob, err, sizeof err);
    if (!m) return fprintf(stderr, "%s\n", err), 1;
    RtReaderOptions o = {.paths = (const char *const *)argv + 7,
                         .n_paths = argc - 7,
                         .purpose = RT_TRAIN,
                         .batch = (uint32_t)m->batch,
                         .threads = atoi(argv[3]),
                         .epochs = strtoull(argv[4], NULL, 10),
                         .shuffle = strtoull(argv[5], NULL, 10),
                         .cache = atoi(argv[6]) != 0,
                         .seed = 1};
    whole_run(m, o);
    stages(m, o);
    return 0;
}
