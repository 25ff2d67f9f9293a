/* Arguments of built-ins: each function takes one out of a call, or reports what was expected and found. */
#include "frontend/value.h"
#include <math.h>
#include <string.h>

/* The name of parameter i, from the built-in's "c buckets fn?". */
const char *arg_name(Ev *ev, const Call *c, int i) {
    const char *s = c->of->params;
    while (i-- > 0) s += strcspn(s, " ") + 1;
    size_t len = strcspn(s, " ?");
    if (*s == '*') s++, len--;
    return arena_strndup(ev->a, s, len);
}

/* Built-ins of the layer library alone go unnamed: the user called the layer, which ev_error names. */
bool arg_wrong(Ev *ev, const Call *c, int i, const char *hint, const char *expected) {
    const char *found = ev_describe(ev, c->args[i].v);
    if (c->of->name[0] == '_')
        ev_error(ev, c->args[i].span, hint, "expected %s, found %s", expected, found);
    else
        ev_error(ev, c->args[i].span, hint, "%s: expected %s as '%s', found %s", c->of->name, expected,
                 arg_name(ev, c, i), found);
    return false;
}

static bool wrong(Ev *ev, const Call *c, int i, const char *expected) {
    return arg_wrong(ev, c, i, NULL, expected);
}

bool arg_number(Ev *ev, const Call *c, int i, double *out) {
    const Value *v = c->args[i].v;
    if (!v) return true; /* left out: *out keeps the default */
    if (v->kind != V_NUMBER) return wrong(ev, c, i, "a number");
    *out = v->number;
    return true;
}

bool arg_range(Ev *ev, const Call *c, int i, double lo, double hi, double *out) {
    const Value *v = c->args[i].v;
    if (!v) return true;
    if (!arg_number(ev, c, i, out)) return false;
    if (*out >= lo && *out <= hi) return true;
    const char *from = ev_number_text(ev, lo), *to = ev_number_text(ev, hi);
    return wrong(ev, c, i,
                 isinf(hi) ? arena_printf(ev->a, "a number of at least %s", from)
                           : arena_printf(ev->a, "a number from %s to %s", from, to));
}

bool arg_whole(Ev *ev, const Call *c, int i, int64_t lo, int64_t hi, int64_t *out) {
    const Value *v = c->args[i].v;
    if (!v) return true;
    if (v->kind == V_NUMBER && ev_whole(v->number, out) && *out >= lo && *out <= hi) return true;
    if (hi == INT64_MAX)
        return wrong(ev, c, i, arena_printf(ev->a, "a whole number of at least %lld", (long long)lo));
    return wrong(ev, c, i,
                 arena_printf(ev->a, "a whole number from %lld to %lld", (long long)lo, (long long)hi));
}

bool arg_bool(Ev *ev, const Call *c, int i, bool *out) {
    const Value *v = c->args[i].v;
    if (!v) return true;
    if (v->kind != V_BOOL) return wrong(ev, c, i, "true or false");
    *out = v->boolean;
    return true;
}

bool arg_numbers(Ev *ev, const Call *c, int i, double **out, int *n) {
    const Value *v = c->args[i].v;
    if (v->kind != V_LIST) return wrong(ev, c, i, "a list of numbers");
    if (!ev_step(ev, c->args[i].span, v->list.n / 16)) return false;
    double *xs = ARENA_ARRAY(ev->a, double, v->list.n + 1);
    for (int k = 0; k < v->list.n; k++) {
        const Value *x = v->list.items[k];
        if (x->kind != V_NUMBER) {
            ev_error(ev, c->args[i].span, NULL, "%s: expected a list of numbers as '%s', found %s in it",
                     c->of->name, arg_name(ev, c, i), ev_describe(ev, x));
            return false;
        }
        xs[k] = x->number;
    }
    *out = xs;
    *n = v->list.n;
    return true;
}

bool arg_string(Ev *ev, const Call *c, int i, const char **s, size_t *n) {
    const Value *v = c->args[i].v;
    if (!v) return true;
    if (v->kind != V_STRING) return wrong(ev, c, i, "a string");
    *s = v->string.s;
    if (n) *n = v->string.n;
    return true;
}

/* A word, or a layer of that name (pool's kind given by a variable: `how = mean`). */
const char *arg_word(Ev *ev, const Call *c, int i, const char *const *words, int n) {
    const Value *v = c->args[i].v;
    const char *text = v->kind == V_WORD ? v->word.text : v->kind == V_BUILTIN ? v->builtin->name : NULL;
    for (int k = 0; text && k < n; k++)
        if (strcmp(words[k], text) == 0) return words[k];
    const char *all = words[0];
    for (int k = 1; k < n; k++) all = arena_printf(ev->a, k + 1 < n ? "%s, %s" : "%s or %s", all, words[k]);
    wrong(ev, c, i, all);
    return NULL;
}

IrNode *arg_f32(Ev *ev, const Call *c, int i) {
    IrNode *n = ev_f32(ev, c->args[i].v, c->args[i].span, c->of->name[0] == '_' ? NULL : c->of->name);
    ev_at(ev, c->span);
    return n;
}

IrNode *arg_scalar(Ev *ev, const Call *c, int i) {
    IrNode *n = arg_f32(ev, c, i);
    if (!n || (n->type.live <= LIVE_ROW && n->type.rank == 1 && n->type.dim[0] == 1)) return n;
    arg_wrong(ev, c, i, ev_list_hint(n), "f32[1] a row");
    return NULL;
}
