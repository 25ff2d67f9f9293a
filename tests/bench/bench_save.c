/* How long training waits for a checkpoint: of a table of which so many bytes are touched, saved before
 * training goes on, and from a snapshot; and what the snapshot costs the steps behind it, by a pass over
 * rows. bench_save [MB, default 1024] [saves, default 5] [whole|met] [percent, default 10] in the working
 * directory, which needs twice the bytes. whole: a table of 2^20 rows, which is saved whole; else a larger
 * one, of which the rows that were met are. percent: of the rows, which the pass writes to. Times are of the
 * clock; in brackets of the CPU, which others may use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "runtime/checkpoint.h"
#include "runtime/message.h"
#include "runtime/program.h"
#include "tests/unit/runtime_fixture.h"

enum { WIDTH = 128, ROW_BYTES = 2 * WIDTH * sizeof(float) /* with the accumulator */ };

static void failed(const char *what, const char *err) {
    fprintf(stderr, "%s: %s\n", what, err);
    exit(1);
}

static void touch_all(RtTables *t, uint32_t rows, float value) {
    float row[WIDTH];
    for (int i = 0; i < WIDTH; i++) row[i] = value;
    for (uint32_t id = 0; id < rows; id++)
        for (int part = 0; part < 2; part++) rt_tables_put_row(t, FIX_USERS, id, part, row);
}

static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_size);
    return v[n / 2];
}

int main(int argc, char **argv) {
    uint32_t rows = (uint32_t)((argc > 1 ? strtoull(argv[1], NULL, 10) : 1024) * (1 << 20) / ROW_BYTES);
    int n = argc > 2 ? atoi(argv[2]) : 5;
    bool whole_table = argc > 3 && !strcmp(argv[3], "whole");
    uint32_t share = argc > 4 ? (uint32_t)atoi(argv[4]) : 10,
             written = (uint32_t)((uint64_t)rows * share / 100);
    char err[RT_MESSAGE] = "";
    if (n < 1 || n > 100) failed("bench_save", "expected 1 to 100 saves");
    if (share < 1 || share > 100) failed("bench_save", "expected 1 to 100 percent");
    if (whole_table && rows > 1u << 20) failed("bench_save", "expected at most 1024 MB");
    RtModel *m = whole_table
                     ? fix_parse(fix_replace(fix_description("1048576"), "[1048576,2]", "[1048576,128]"))
                     : fix_parse(fix_replace(fix_description("50000000"), "[50000000,2]", "[50000000,128]"));
    RtTables *t = rt_tables_new(m, 1, err, sizeof err);
    RtSaver *s = t ? rt_saver_open("bench_save.ckpt", 1, err, sizeof err) : NULL;
    if (!s) failed("bench_save", err);
    touch_all(t, rows, 1);
    double whole[100], wait[100], busy[100], all[100], pass[100], plain[100];
    for (int i = 0; i < n; i++) {
        RtState state = {.step = (uint64_t)i + 1};
        double start = rt_now();
        if (!rt_saver_save(s, m, t, &state, err, sizeof err)) failed("save", err);
        whole[i] = rt_now() - start;
        start = rt_now();
        touch_all(t, written, 2);
        plain[i] = rt_now() - start;
        double spent = cpu();
        start = rt_now();
        rt_saver_start(s, m, t, &state);
        wait[i] = rt_now() - start;
        busy[i] = cpu() - spent;
        touch_all(t, written, 3);
        pass[i] = rt_now() - start - wait[i];
        if (rt_saver_ask(s, true, err, sizeof err) != RT_SAVE_DONE) failed("snapshot", err);
        all[i] = rt_now() - start;
    }
    double usual = median(wait, n); /* sorted by it */
    printf("%u rows, %.2f GB touched, medians of %d: saved before training goes on %.3f s; snapshot: "
           "training waits "
           "%.1f ms (%.1f), at most %.1f, done after %.3f s; a pass over %u %% of the rows %.3f s, during "
           "a snapshot "
           "%.3f s\n",
           rows, (double)rows * ROW_BYTES / 1e9, n, median(whole, n), 1e3 * usual, 1e3 * median(busy, n),
           1e3 * wait[n - 1], median(all, n), share, median(plain, n), median(pass, n));
    rt_saver_close(s);
    rt_tables_free(t);
    rt_model_free(m);
    return system("rm -rf bench_save.ckpt") ? 1 : 0;
}
