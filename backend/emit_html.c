/* --emit=html: one page that needs nothing else. html/page.html is its frame, with three marks where the
 * style, the data and the script go:
 *
 *   { "states":  [{"pass": "fuse", "text": the printer's own, "effect": what the pass did,
 *                  "funcs": [[name, ops, FLOPs, bytes], …]}, …],
 *     "files":   [{"path", "text"}, …]                       what places in the text point into
 *     "funcs":   [{"kernels": [[node, …], …], "arenas": [{"buffers": [[node, …], …]}, …],
 *                  "blocks": how often a step runs phases "loop": [first, last]}, …],
 *                                   an arena's "of": "step", its buffers live from phase to phase; "block",
 * it is each thread's own, and they live from kernel to kernel of a block of rows "weights": [[name, …], …] …
 * }
 *
 * Nodes are named by their number in the last state: everything else about them (place, layer, operands) the
 * page reads from the text. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "backend/html.h"
#include "backend/plan_facts.h"

typedef struct {
    const PassInfo *pass; /* NULL: before the first */
    const char *name;     /* with its arguments */
    const char *text;
    size_t size;
    const char *effect; /* what the pass did, NULL before the first */
    const char **funcs;
    IrWork *work; /* of each function */
    int n_funcs;
} State;
struct BackendPage {
    Arena *a;
    State *states;
    int n, cap;
};

/* ---- while the passes run ---- */

BackendPage *backend_page_new(Arena *a) {
    BackendPage *page = ARENA_NEW(a, BackendPage);
    page->a = a;
    return page;
}

void backend_page_keep(void *context, IrProgram *p, const PassInfo *pass) {
    BackendPage *page = context;
    State s = {.pass = pass, .n_funcs = p->n_funcs};
    char *text = NULL;
    FILE *f = open_memstream(&text, &s.size);
    if (!f) abort();
    ir_print(p, f);
    fclose(f);
    s.text = arena_strndup(page->a, text, s.size);
    free(text);
    s.name = pass ? arena_strdup(page->a, p->applied[p->n_applied - 1]) : NULL;
    if (pass && p->n_effects) {
        const char *effect = p->effects[p->n_effects - 1], *colon = strstr(effect, ": ");
        s.effect = arena_strdup(page->a, colon ? colon + 2 : effect);
    }
    s.funcs = ARENA_ARRAY(page->a, const char *, p->n_funcs + 1);
    s.work = ARENA_ARRAY(page->a, IrWork, p->n_funcs + 1);
    for (int i = 0; i < p->n_funcs; i++) {
        s.funcs[i] = p->funcs[i]->name;
        s.work[i] = ir_func_work(p, p->funcs[i]);
    }
    ARENA_PUSH(page->a, page->states, page->n, page->cap, s);
}

/* ---- the data ---- */

/* Text as it is. A path may hold bytes that aren't UTF-8: then all that aren't ASCII become '?'. */
static json_t *text_of(const char *s, size_t n) {
    json_t *j = json_stringn(s, n);
    if (j) return j;
    char *t = malloc(n + 1);
    if (!t) abort();
    for (size_t i = 0; i < n; i++) t[i] = (unsigned char)s[i] < 0x80 ? s[i] : '?';
    j = json_stringn(t, n);
    free(t);
    return j;
}

static json_t *string(const char *s) { return text_of(s, strlen(s)); }

static json_t *states(const BackendPage *page) {
    static const char *const kinds[] = {"required", "exact", "changes the model"};
    json_t *list = json_array();
    for (int i = 0; i < page->n; i++) {
        const State *s = &page->states[i];
        json_t *funcs = json_array();
        for (int k = 0; k < s->n_funcs; k++)
            json_array_append_new(funcs, json_pack("[s, i, f, f]", s->funcs[k], s->work[k].ops,
                                                   s->work[k].flops, s->work[k].bytes));
        json_t *j = json_pack("{s:o, s:o}", "funcs", funcs, "text", text_of(s->text, s->size));
        if (s->pass) {
            json_object_set_new(j, "pass", string(s->name));
            json_object_set_new(j, "kind", json_string(kinds[s->pass->kind]));
            json_object_set_new(j, "meaning", json_string(s->pass->meaning));
            json_object_set_new(j, "effect", string(s->effect ? s->effect : ""));
        }
        json_array_append_new(list, j);
    }
    return list;
}

static bool ends_in(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

/* The user's files; of a program that came as IR text there are none. */
static json_t *files(const Diag *d) {
    json_t *list = json_array();
    for (int i = 0; i < d->n_files; i++) {
        const DiagFile *f = &d->files[i];
        if (f->text && !f->library && !ends_in(f->path, ".ir"))
            json_array_append_new(
                list, json_pack("{s:o, s:o}", "path", string(f->path), "text", text_of(f->text, f->size)));
    }
    return list;
}

static json_t *kernels(const IrProgram *p, const PassTarget *t, const PlanRates *rates, const IrBody *b,
                       json_t *reasons) {
    json_t *list = json_array();
    for (int i = 0; i < b->n; i++) {
        const IrNode *n = b->nodes[i];
        if (!ir_runs(n)) continue;
        IrCost c = ir_step_cost(p, n);
        const char *made = plan_kernel(t, n), *why = plan_why(p->arena, t, n);
        if (*why) json_object_set_new(reasons, made, json_string(why));
        json_array_append_new(list, json_pack("[i, i, s, s, f, f, f, o, o, o]", n->id, n->plan.phase,
                                              arena_printf(p->arena, "%s/%d", plan_domain(n), n->plan.block),
                                              made, c.flops, c.bytes, 1e6 * plan_seconds(rates, t, n, c),
                                              string(plan_op(p, n)), string(plan_size(p, n)),
                                              string(plan_place(p, n))));
    }
    return list;
}

static const char *arena_name(const IrProgram *p, const PlanArena *a) {
    switch (a->region) {
    case REGION_AXIS: return arena_printf(p->arena, "~%s", p->axes[a->index].name);
    case REGION_UNIQ: return arena_printf(p->arena, "@%s", p->weights[a->index].name);
    case REGION_LOCAL:
        return a->index < 0 ? "local" : arena_printf(p->arena, "local ~%s", p->axes[a->index].name);
    default: return "fixed";
    }
}

static json_t *arenas(const IrProgram *p, const IrFunc *f) {
    json_t *list = json_array();
    int n;
    const PlanArena *all = plan_arenas(p, f, &n);
    for (int i = 0; i < n; i++) {
        json_t *buffers = json_array();
        for (int k = 0; k < all[i].n; k++) {
            const PlanBuffer *b = &all[i].buffers[k];
            json_array_append_new(buffers,
                                  json_pack("[i, i, i, I, I, b]", b->node->id, b->first, b->last,
                                            (json_int_t)b->offset, (json_int_t)b->bytes, b->per_block));
        }
        json_array_append_new(list, json_pack("{s:o, s:s, s:I, s:o}", "name", string(arena_name(p, &all[i])),
                                              "of", all[i].region == REGION_LOCAL ? "block" : "step", "size",
                                              (json_int_t)all[i].size, "buffers", buffers));
    }
    return list;
}

static json_t *funcs(const IrProgram *p, const PassTarget *t, const PlanRates *rates, json_t *reasons) {
    json_t *list = json_array();
    for (int i = 0; i < p->n_funcs; i++) {
        const IrFunc *f = p->funcs[i];
        json_t *j =
            json_pack("{s:o, s:I, s:o, s:o}", "name", string(f->name), "lower", (json_int_t)f->lower_bytes,
                      "kernels", kernels(p, t, rates, &f->body, reasons), "arenas", arenas(p, f));
        if (f->blocks) {
            json_object_set_new(j, "blocks", json_integer(f->blocks));
            json_object_set_new(j, "loop", json_pack("[i, i]", f->loop_first, f->loop_last));
        }
        json_array_append_new(list, j);
    }
    return list;
}

static json_t *weights(const IrProgram *p) {
    json_t *list = json_array();
    for (int i = 0; i < p->n_weights; i++) {
        const IrWeight *w = &p->weights[i];
        const char *kind = w->sparse ? "sparse table" : w->running ? "running" : w->table ? "table" : "dense";
        const char *shape = "";
        for (int k = 0; k < w->rank; k++)
            shape = arena_printf(p->arena, "%s%s%lld", shape, k ? "×" : "", (long long)w->dim[k]);
        const char *init = ir_init_name(w->init);
        if (w->init_arg != 0) init = arena_printf(p->arena, "%s(%.4g)", init, w->init_arg);
        const char *trained = w->optimizer >= 0 ? ir_opt_name(p->opts[w->optimizer].kind) : "not trained";
        json_array_append_new(list, json_pack("[o, s, s, s, s, f, f]", string(w->name), shape, kind, init,
                                              trained, plan_weight_bytes(w), plan_slot_bytes(p, w)));
    }
    return list;
}

static json_t *lists(const IrProgram *p) {
    json_t *list = json_array();
    for (int i = 0; i < p->n_axes; i++) {
        bool known;
        int64_t n = ir_positions(p, i, &known);
        json_array_append_new(list, json_pack("[o, I, b]", string(p->axes[i].name), (json_int_t)n, known));
    }
    return list;
}

static json_t *data(const BackendPage *page, const IrProgram *p, const EmitTarget *t, const char *march) {
    PlanRates r = plan_rates(p->arena, t, march);
    json_t *reasons = json_object(), *of_funcs = funcs(p, &t->pass, &r, reasons);
    return json_pack("{s:s, s:o, s:o, s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "ctrc", CTRC_VERSION, //
                     "model", string(p->name ? p->name : ""), "source", string(p->source ? p->source : ""),
                     "batch", (json_int_t)p->batch, "cpu", t->cpu, "rates",
                     json_pack("{s:f, s:f, s:f, s:o}", "flops", r.flops, "cache", r.cache_bytes, "memory",
                               r.memory_bytes, "source", string(r.source)),
                     "lists", lists(p), "files", files(p->diag), "states", states(page), "funcs", of_funcs,
                     "reasons", reasons, "weights", weights(p));
}

/* ---- the page ---- */

/* '<' stands in JSON only inside strings; written as an escape, no text can end the script element. */
static void put_json(const char *s, FILE *out) {
    for (size_t n; *s; s += n + (s[n] == '<')) {
        n = strcspn(s, "<");
        fwrite(s, 1, n, out);
        if (s[n] == '<') fputs("\\u003c", out);
    }
}

/* The frame up to a mark; returns what stands behind it. */
static const char *put_until(const char *frame, const char *mark, FILE *out) {
    const char *at = strstr(frame, mark);
    if (!at) abort();
    fwrite(frame, 1, (size_t)(at - frame), out);
    return at + strlen(mark);
}

bool backend_page_write(BackendPage *page, IrProgram *p, const char *march, FILE *out) {
    EmitTarget t;
    if (!emit_target(p->diag, p->arena, march, &t)) return false;
    json_t *j = data(page, p, &t, march);
    char *text = j ? json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(j);
    if (!text) {
        diag_error(p->diag, (Span){0}, NULL, "out of memory while writing the page");
        return false;
    }
    const char *rest = put_until(backend_html_page, "/*style*/", out);
    fputs(backend_html_style, out);
    rest = put_until(rest, "/*data*/", out);
    put_json(text, out);
    rest = put_until(rest, "/*script*/", out);
    fputs(backend_html_script, out);
    fputs(rest, out);
    free(text);
    return true;
}
