/* Paths: the names of weights. A path is what the top-level statement binds, then a part for each running
 * layer call and loop from outside in, then the name that the weight is bound to; equal neighbours are
 * written once.
 *
 *   wide = sum([dense(onehot(hash(c, buckets)), 1) for c in [user_id, shop_id]])   →
 * wide.user_id.dense.kernel
 *
 * Two calls that would give equal paths are told apart by _1, _2 … behind the layer's part, and all weights
 * of one call get the same suffix. */
#include "frontend/value.h"
#include <string.h>
#include <xxhash.h>

/* "a.b" and "c" → "a.b.c"; "a.b" and "b" → "a.b" */
static const char *join(Ev *ev, const char *path, const char *text) {
    if (!text || !*text) return path;
    if (!path || !*path) return text;
    const char *dot = strrchr(path, '.');
    if (strcmp(dot ? dot + 1 : path, text) == 0) return path;
    return arena_printf(ev->a, "%s.%s", path, text);
}

/* The top-level statement stands first even if loops run around it. */
static int collect(Part *p, const char **texts, Part **parts, int cap) {
    Part *list[512];
    int n = 0, m = 0;
    Part *top = NULL;
    for (; p && n < 512; p = p->up) {
        if (p->kind == PART_TOP || p->kind == PART_SHARED)
            top = p;
        else
            list[n++] = p;
        if (p->kind == PART_SHARED) break;
    }
    if (top) texts[m] = top->text, parts[m++] = top;
    while (n-- > 0 && m < cap) texts[m] = list[n]->text, parts[m++] = list[n];
    return m;
}

enum { MAX_PARTS = 513 };
typedef struct {
    const char *before; /* up to and with the last layer's part */
    const char *after;
    Part *layer;
} Path;

static Path current(Ev *ev) {
    const char *texts[MAX_PARTS];
    Part *parts[MAX_PARTS];
    int n = collect(ev->part, texts, parts, MAX_PARTS), last = -1;
    Path r = {"", "", NULL};
    for (int i = 0; i < n; i++)
        if (parts[i]->kind == PART_CALL) last = i;
    const char *whole = "", *after = "";
    for (int i = 0; i <= last; i++) whole = join(ev, whole, texts[i]);
    r.before = whole;
    if (last >= 0) r.layer = parts[last];
    for (int i = last + 1; i < n; i++) after = join(ev, after, texts[i]);
    after = join(ev, after, ev->here.bound);
    r.after = after;
    return r;
}

static const char *with_suffix(Ev *ev, Path p, int suffix) {
    if (!p.layer) return suffix ? arena_printf(ev->a, "%s_%d", p.after, suffix) : p.after;
    const char *before = suffix ? arena_printf(ev->a, "%s_%d", p.before, suffix) : p.before;
    return join(ev, before, p.after);
}

/* The first suffix that nobody has at a path; kept, so that a thousand equal paths aren't tried one by one.
 */
static int *free_suffix(Ev *ev, const char *path) {
    int *next = strmap_get(&ev->suffixes, path);
    if (!next) strmap_put(ev->a, &ev->suffixes, path, next = ARENA_NEW(ev->a, int));
    return next;
}

const char *names_weight(Ev *ev) {
    Path p = current(ev);
    Part *layer = p.layer;
    int *next = free_suffix(ev, layer ? p.before : p.after);
    int suffix = layer && layer->suffix >= 0 ? layer->suffix : *next;
    for (;; suffix = suffix + 1 > *next ? suffix + 1 : *next) {
        const char *path = with_suffix(ev, p, suffix);
        const char *prefix = suffix ? arena_printf(ev->a, "%s_%d", p.before, suffix) : p.before;
        const Part *owner = layer ? strmap_get(&ev->claims, prefix) : NULL;
        if ((owner && owner != layer) || strmap_get(&ev->paths, path)) continue;
        if (layer && layer->suffix < 0) {
            layer->suffix = suffix;
            layer->path = prefix; /* nodes of this call are called by the same name */
            strmap_put(ev->a, &ev->claims, prefix, layer);
        }
        if (suffix >= *next) *next = suffix + 1;
        strmap_put(ev->a, &ev->paths, path, (void *)path);
        return path;
    }
}

/* A weight of an earlier call serves this one too, so its nodes are called as that call's were. */
void names_reuse(Ev *ev, const char *weight) {
    Path p = current(ev);
    size_t n = strlen(weight), after = strlen(p.after);
    if (!p.layer || after + 1 >= n || strcmp(weight + n - after, p.after) != 0 ||
        weight[n - after - 1] != '.')
        return;
    p.layer->path = arena_strndup(ev->a, weight, n - after - 1);
}

const char *names_base(Ev *ev) { return with_suffix(ev, current(ev), 0); }

int64_t names_key(Ev *ev, const char *what) {
    const char *first = join(ev, with_suffix(ev, current(ev), 0), what);
    int suffix = (*free_suffix(ev, first))++;
    const char *path = suffix ? arena_printf(ev->a, "%s_%d", first, suffix) : first;
    return (int64_t)(XXH3_64bits(path, strlen(path)) & 0x7fffffff);
}

Part *names_push(Ev *ev, PartKind kind, const char *text, const void *site, int turn) {
    Part *p = ARENA_NEW(ev->a, Part);
    *p = (Part){.kind = kind, .up = ev->part, .text = text, .site = site, .turn = turn, .suffix = -1};
    bool starts = kind == PART_TOP || kind == PART_SHARED;
    p->path = starts ? text : join(ev, ev->part ? ev->part->path : NULL, text);
    if (kind == PART_TOP && ev->part) p->path = join(ev, text, ev->part->path);
    ev->part = p;
    return p;
}

void names_pop(Ev *ev, Part *part) { ev->part = part->up; }

/* Columns and strings name their turn of a loop; bytes that a path can't hold become '_'. */
const char *names_loop_text(Ev *ev, const Value *v, int turn) {
    if (v && v->kind == V_COLUMN) return ev->p->input.columns[v->column].name;
    if (!v || v->kind != V_STRING || v->string.n == 0) return arena_printf(ev->a, "%d", turn);
    char *text = arena_strndup(ev->a, v->string.s, v->string.n < 64 ? v->string.n : 64);
    for (char *c = text; *c; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
                     *c == '_' || *c == '-';
        if (!plain) *c = '_';
    }
    return *text ? text : arena_printf(ev->a, "%d", turn);
}

/* The way from a call of a shared layer down to a place in it, in terms of the syntax tree: the same in every
 * call, whatever columns it is given. */
const char *names_shared_key(Ev *ev, const Part *from, const void *site) {
    const char *key = arena_printf(ev->a, "%p", site);
    for (const Part *p = ev->part; p && p != from; p = p->up)
        key = arena_printf(ev->a, "%p:%d/%s", p->site, p->turn, key);
    return key;
}
