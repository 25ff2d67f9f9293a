/* trace_check FILE.json: is it a trace as --profile writes it? An array of complete events ("ph":"X", with
 * name, category, process, thread, time and duration) and of threads' names ("ph":"M"); on each thread, of
 * two events one lies within the other or they don't meet. Prints "thread<TAB>event<TAB>how many", sorted.
 * Exit status 0: yes; 1: no, and why on stderr. */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int tid;
    long long from, to; /* ns */
    const char *name;
} Event;

static int no(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int no(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}

static const json_t *need(const json_t *o, const char *key, json_type type, size_t i) {
    const json_t *v = json_object_get(o, key);
    if (!v || (json_typeof(v) != type && !(type == JSON_REAL && json_is_integer(v))))
        no("event %zu: '%s' is missing or of another kind", i, key);
    return v;
}

static Event event_of(const json_t *o, size_t i) {
    double ts = json_number_value(need(o, "ts", JSON_REAL, i)),
           dur = json_number_value(need(o, "dur", JSON_REAL, i));
    if (!(ts >= 0) || !(dur >= 0)) no("event %zu: time %g, duration %g", i, ts, dur);
    need(o, "cat", JSON_STRING, i);
    need(need(o, "args", JSON_OBJECT, i), "step", JSON_INTEGER, i);
    long long from = llround(ts * 1000);
    return (Event){.tid = (int)json_integer_value(need(o, "tid", JSON_INTEGER, i)),
                   .from = from,
                   .to = from + llround(dur * 1000),
                   .name = json_string_value(need(o, "name", JSON_STRING, i))};
}

static int by_time(const void *a, const void *b) { /* the outer one first */
    const Event *x = a, *y = b;
    if (x->tid != y->tid) return (x->tid > y->tid) - (x->tid < y->tid);
    if (x->from != y->from) return (x->from > y->from) - (x->from < y->from);
    return (x->to < y->to) - (x->to > y->to);
}

static void check_nesting(const Event *e, size_t n) {
    const Event **open = malloc((n + 1) * sizeof(Event *));
    size_t depth = 0;
    if (!open) abort();
    for (size_t i = 0; i < n; i++) {
        while (depth && (open[depth - 1]->tid != e[i].tid || open[depth - 1]->to <= e[i].from)) depth--;
        if (depth && e[i].to > open[depth - 1]->to)
            no("thread %d: '%s' from %lld to %lld and '%s' from %lld to %lld cross", e[i].tid,
               open[depth - 1]->name, open[depth - 1]->from, open[depth - 1]->to, e[i].name, e[i].from,
               e[i].to);
        open[depth++] = &e[i];
    }
    free(open);
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void print_counts(const Event *e, size_t n, const char *const *thread) {
    char **line = malloc((n + 1) * sizeof *line);
    if (!line) abort();
    for (size_t i = 0; i < n; i++) {
        if (!thread[e[i].tid]) no("thread %d has no name", e[i].tid);
        if (asprintf(&line[i], "%s\t%s", thread[e[i].tid], e[i].name) < 0) abort();
    }
    qsort(line, n, sizeof *line, by_text);
    for (size_t i = 0, same; i < n; i += same) {
        for (same = 1; i + same < n && !strcmp(line[i], line[i + same]);) same++;
        printf("%s\t%zu\n", line[i], same);
    }
    for (size_t i = 0; i < n; i++) free(line[i]);
    free(line);
}

int main(int argc, char **argv) {
    enum { THREADS = 1000 };
    const char *thread[THREADS] = {0};
    json_error_t error;
    json_t *all = argc == 2 ? json_load_file(argv[1], 0, &error) : NULL;
    if (!json_is_array(all)) no("expected a file with an array: %s", argc == 2 ? error.text : "no file");
    Event *e = malloc((json_array_size(all) + 1) * sizeof *e);
    if (!e) abort();
    size_t n = 0, i;
    json_t *o;
    json_array_foreach(all, i, o) {
        const char *ph = json_string_value(need(o, "ph", JSON_STRING, i));
        json_int_t tid = json_integer_value(need(o, "tid", JSON_INTEGER, i));
        need(o, "pid", JSON_INTEGER, i);
        if (tid < 0 || tid >= THREADS) no("event %zu: thread %lld", i, (long long)tid);
        if (!strcmp(ph, "M"))
            thread[tid] = json_string_value(need(need(o, "args", JSON_OBJECT, i), "name", JSON_STRING, i));
        else if (!strcmp(ph, "X"))
            e[n++] = event_of(o, i);
        else
            no("event %zu: ph is '%s'", i, ph);
    }
    qsort(e, n, sizeof *e, by_time);
    check_nesting(e, n);
    print_counts(e, n, thread);
    free(e);
    json_decref(all);
    return 0;
}
