/* latency ROWS CALLS CHECKPOINT < LOG: how long MODEL_predict of a library of `ctrc --emit=lib` takes for
 * ROWS rows of the log, one call after another over the whole log. Prints median, 99th percentile and
 * largest, in µs by the clock, then the median of the thread's CPU time. latency.sh compiles it with
 * -DMODEL=name -include name.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(x) JOIN(MODEL, x)

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static char *read_stdin(size_t *n) {
    size_t room = 1 << 20, got;
    char *text = malloc(room);
    for (*n = 0; text && (got = fread(text + *n, 1, room - *n, stdin)) > 0;)
        if ((*n += got) == room) text = realloc(text, room *= 2);
    return text;
}

/* One past the end of `rows` lines from p on, or NULL. */
static const char *lines(const char *p, const char *end, size_t rows) {
    for (; p && rows; rows--)
        p = memchr(p, '\n', (size_t)(end - p)) ? (char *)memchr(p, '\n', (size_t)(end - p)) + 1 : NULL;
    return p;
}

int main(int argc, char **argv) {
    enum { WARM = 100 };
    char message[1024];
    NAME(_model) * model;
    if (argc != 4) return fprintf(stderr, "usage: latency ROWS CALLS CHECKPOINT < LOG\n"), 2;
    size_t rows = (size_t)atol(argv[1]), calls = (size_t)atol(argv[2]), bytes;
    if (NAME(_open)(argv[3], &model, message, sizeof message)) return fprintf(stderr, "%s\n", message), 1;
    char *text = read_stdin(&bytes);
    double *wall = malloc(calls * sizeof *wall), *cpu = malloc(calls * sizeof *cpu);
    float *out = malloc(rows * NAME(_predictions)(model) * sizeof *out);
    if (!text || !wall || !cpu || !out || !rows || !calls) return fprintf(stderr, "out of memory\n"), 1;
    const char *p = text, *end = text + bytes;
    for (size_t i = 0; i < WARM + calls; i++) {
        const char *to = lines(p, end, rows);
        if (!to) to = lines(p = text, end, rows);
        if (!to) return fprintf(stderr, "the log has fewer than %zu rows\n", rows), 1;
        size_t room = rows;
        double w = now(CLOCK_MONOTONIC), c = now(CLOCK_THREAD_CPUTIME_ID);
        int code = NAME(_predict)(model, p, (size_t)(to - p), out, &room, message, sizeof message);
        c = now(CLOCK_THREAD_CPUTIME_ID) - c, w = now(CLOCK_MONOTONIC) - w;
        if (code || room != rows) return fprintf(stderr, "%s\n", code ? message : "fewer rows than lines: are some blank?"), 1;
        if (i >= WARM) wall[i - WARM] = w, cpu[i - WARM] = c;
        p = to;
    }
    qsort(wall, calls, sizeof *wall, by_size);
    qsort(cpu, calls, sizeof *cpu, by_size);
    printf("%.0f %.0f %.0f %.0f\n", wall[calls / 2], wall[calls * 99 / 100], cpu[calls / 2],
           cpu[calls * 99 / 100]);
    NAME(_close)(model);
    free(out), free(cpu), free(wall), free(text);
    return 0;
}
