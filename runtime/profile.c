#include "runtime/profile.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <jansson.h>
#include "runtime/exec.h"
#include "runtime/message.h"

typedef struct {
    const char *name; /* NULL: the kernel of node `op` of function `function` */
    uint32_t op;
    int function;
    uint64_t step, from, to; /* ns */
} Event;

typedef struct Lane {
    struct Lane *next;
    char name[32];
    int number;
    Event *event;
    size_t n, cap;
    uint64_t marked; /* when the thread's last mark was */
} Lane;

static struct {
    const RtModel *m;
    const char *path;
    FILE *f;
    uint64_t first, last, step, steps, start;
    Lane *lanes;
    int n_lanes;
    pthread_mutex_t lock; /* of lanes */
} profile = {.lock = PTHREAD_MUTEX_INITIALIZER};
static atomic_bool on;
static _Thread_local Lane *mine;
static _Thread_local const char *my_name;

/* ---- events ---- */

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static Lane *lane(void) {
    if (mine) return mine;
    if (!(mine = calloc(1, sizeof *mine))) rt_out_of_memory();
    pthread_mutex_lock(&profile.lock);
    mine->number = profile.n_lanes++;
    mine->next = profile.lanes;
    profile.lanes = mine;
    pthread_mutex_unlock(&profile.lock);
    snprintf(mine->name, sizeof mine->name, "%s", my_name ? my_name : "thread");
    return mine;
}

static void add(Lane *l, Event e) {
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 4096;
        if (!(l->event = realloc(l->event, l->cap * sizeof *l->event))) rt_out_of_memory();
    }
    l->event[l->n++] = e;
}

void rt_profile_thread(const char *name) { my_name = name; }
void rt_profile_step_thread(uint32_t thread) {
    if (mine) return;
    lane();
    snprintf(mine->name, sizeof mine->name, "step %u", thread);
}
bool rt_profile_is_on(void) { return atomic_load_explicit(&on, memory_order_relaxed); }
uint64_t rt_span(void) { return rt_profile_is_on() ? now() : 0; }

void rt_span_end(uint64_t begun, const char *name) {
    if (begun) add(lane(), (Event){.name = name, .step = profile.step, .from = begun, .to = now()});
}

/* Called by generated code. A thread's time is told without a gap: each mark ends what began at the one
 * before. */
void rt_mark(void *step, uint32_t thread, uint32_t what) {
    const RtExec *x = ((RtStep *)step)->runtime;
    rt_profile_step_thread(thread);
    uint64_t t = now();
    if (what != RT_MARK_START)
        add(mine, (Event){.name = what == RT_MARK_BARRIER ? "barrier" : NULL,
                          .op = what,
                          .function = x->function,
                          .step = profile.step,
                          .from = mine->marked,
                          .to = t});
    mine->marked = t;
}

/* ---- which steps ---- */

bool rt_profile_open(const RtModel *m, const char *path, uint64_t first, uint64_t last, char *err,
                     size_t err_bytes) {
    char reason[RT_SHOWN];
    profile.m = m;
    profile.path = path;
    profile.first = first;
    profile.last = last;
    profile.start = now();
    if (!(profile.f = fopen(path, "w"))) {
        snprintf(err, err_bytes, "cannot write %s: %s", path, rt_reason(errno, reason));
        return false;
    }
    rt_profile_thread("step 0");
    return true;
}

void rt_profile_step(uint64_t step) {
    if (!profile.f) return;
    bool is_one = step >= profile.first && step <= profile.last;
    profile.steps += is_one && profile.step != step;
    profile.step = step;
    atomic_store(&on, is_one);
}

/* ---- writing ---- */

/* "models/wdl.ctr:12:9" and "matmul+add+relu": "wdl.ctr:12 matmul+add+relu" */
static void kernel_name(const Event *e, char *out, size_t bytes, const char **of) {
    const RtFunction *f = &profile.m->fn[e->function];
    const RtNodeInfo *n = NULL;
    for (int i = 0; i < f->n_nodes && !n; i++)
        if (f->nodes[i].id == (int)e->op) n = &f->nodes[i];
    *of = n ? n->name : NULL;
    const char *at = n && n->at ? n->at : "", *slash = strrchr(at, '/'), *column = strrchr(at, ':');
    if (slash) at = slash + 1;
    snprintf(out, bytes, "%.*s%s%s", column ? (int)(column - at) : 0, at, column ? " " : "",
             n ? n->ops : "?");
}

static void put_text(const char *s) {
    json_t *text = json_string(s);
    char *quoted = json_dumps(text, JSON_ENCODE_ANY);
    json_decref(text);
    if (!quoted) rt_out_of_memory();
    fputs(quoted, profile.f);
    free(quoted);
}

static void put_time(const char *key, uint64_t ns) {
    fprintf(profile.f, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

static void put_event(const Lane *l, const Event *e) {
    char name[600];
    const char *of = NULL, *kinds[] = {"train", "eval", "predict"};
    if (!e->name) kernel_name(e, name, sizeof name, &of);
    fputs(",\n{\"name\":", profile.f);
    put_text(e->name ? e->name : name);
    fprintf(profile.f, ",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%d",
            e->name ? "runtime" : kinds[e->function], l->number);
    put_time("ts", e->from - profile.start);
    put_time("dur", e->to - e->from);
    fprintf(profile.f, ",\"args\":{\"step\":%" PRIu64, e->step);
    if (of) {
        fputs(",\"of\":", profile.f);
        put_text(of);
    }
    fputs("}}", profile.f);
}

static void put_lane(const Lane *l, bool first) {
    fprintf(profile.f, "%s\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"args\":{\"name\":",
            first ? "" : ",", l->number);
    put_text(l->name);
    fputs("}}", profile.f);
    for (size_t i = 0; i < l->n; i++) put_event(l, &l->event[i]);
}

bool rt_profile_close(uint64_t *steps, char *err, size_t err_bytes) {
    char reason[RT_SHOWN];
    *steps = profile.steps;
    if (!profile.f) return true;
    atomic_store(&on, false);
    errno = 0;
    fputc('[', profile.f);
    for (const Lane *l = profile.lanes; l; l = l->next) put_lane(l, l == profile.lanes);
    fputs("\n]\n", profile.f);
    bool ok = !ferror(profile.f);
    int e = errno;
    if (fclose(profile.f) && ok) ok = false, e = errno;
    profile.f = NULL;
    while (profile.lanes) {
        Lane *l = profile.lanes;
        profile.lanes = l->next;
        free(l->event);
        free(l);
    }
    if (!ok) snprintf(err, err_bytes, "cannot write %s: %s", profile.path, rt_reason(e ? e : EIO, reason));
    return ok;
}
