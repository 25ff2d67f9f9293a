/* What every part of the evaluator uses: messages, limits, and making, describing and comparing values. */
#include "frontend/value.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STEPS 1000000
#define MAX_MEMORY ((size_t)1 << 30)

/* ---- messages ---- */

Span ev_user_span(const Ev *ev, Span s) {
    bool library = s.line && s.file < ev->d->n_files && ev->d->files[s.file].library;
    return library && ev->here.user_call.line ? ev->here.user_call : s;
}

static bool in_library(const Ev *ev, Span s) {
    return s.line && s.file < ev->d->n_files && ev->d->files[s.file].library;
}

void ev_at(Ev *ev, Span s) {
    ev->b.span = ev_user_span(ev, s);
    ev->b.name = ev->part ? ev->part->path : NULL;
}

/* A layer's body runs at each call, so its mistake would be found again and again: once is enough. */
static bool said_before(Ev *ev, Span at, const char *text) {
    const char *key = arena_printf(ev->a, "%u:%u:%u:%s", at.file, at.line, at.col, text);
    if (strmap_get(&ev->reported, key)) return true;
    strmap_put(ev->a, &ev->reported, key, (void *)key);
    return false;
}

void ev_error(Ev *ev, Span at, const char *hint, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(ev->a, fmt, ap);
    va_end(ap);
    if (in_library(ev, at) && ev->here.library_layer)
        text = arena_printf(ev->a, "%s: %s", ev->here.library_layer, text);
    Span user = ev_user_span(ev, at);
    if (!said_before(ev, user, text)) {
        diag_error(ev->d, user, hint, "%s", text);
        if (ev->here.has_caller) diag_note(ev->d, ev->here.caller, "called from here");
    }
    if (diag_full(ev->d)) ev->stop = true;
}

void ev_warn(Ev *ev, Span at, const char *hint, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(ev->a, fmt, ap);
    va_end(ap);
    Span user = ev_user_span(ev, at);
    if (!said_before(ev, user, text)) diag_warn(ev->d, user, hint, "%s", text);
}

/* "WHAT a, b and c", for hints; of many words the first twelve. */
const char *ev_among(Ev *ev, const char *what, const char *const *words, int n) {
    enum { SHOWN = 12 };
    const char *s = what;
    int shown = n > SHOWN ? SHOWN : n;
    for (int i = 0; i < shown; i++)
        s = arena_printf(ev->a, "%s%s%s", s, i == 0 ? " " : i + 1 < n ? ", " : " and ", words[i]);
    return n > SHOWN ? arena_printf(ev->a, "%s and %d more", s, n - SHOWN) : s;
}

/* ---- limits ---- */

/* The parser bounds how high one expression is and call_layer how many calls run at once; together they may
 * still ask for more stack than there is. */
static bool stack_left(const Ev *ev) {
    ptrdiff_t used = ev->stack_base - (char *)__builtin_frame_address(0);
    return used < 5 << 20;
}

bool ev_step(Ev *ev, Span at, int64_t n) {
    if (ev->stop) return false;
    ev->steps += n;
    if (ev->steps > MAX_STEPS) {
        ev_error(ev, at, "is there a recursion or a range that is longer than meant?",
                 "the program runs for more than %d evaluation steps", MAX_STEPS);
        ev->stop = true;
    } else if (!stack_left(ev)) {
        ev_error(ev, at, NULL, "expressions and calls nest too deeply");
        ev->stop = true;
    } else if ((ev->steps & 255) == 0) {
        return ev_room(ev, at, 0);
    }
    return !ev->stop;
}

bool ev_room(Ev *ev, Span at, size_t bytes) {
    if (ev->stop) return false;
    size_t used = arena_used(ev->a);
    if (used < MAX_MEMORY && bytes < MAX_MEMORY - used) return true;
    ev_error(ev, at, NULL, "the program needs more than 1 GB of memory to compile");
    ev->stop = true;
    return false;
}

/* ---- values ---- */

static Value *new_value(Ev *ev, ValueKind kind) {
    Value *v = ARENA_NEW(ev->a, Value);
    v->kind = kind;
    return v;
}

Value *ev_none(Ev *ev) { return new_value(ev, V_NONE); }

Value *ev_bool(Ev *ev, bool b) {
    Value *v = new_value(ev, V_BOOL);
    v->boolean = b;
    return v;
}

Value *ev_number(Ev *ev, double x) {
    Value *v = new_value(ev, V_NUMBER);
    v->number = x;
    return v;
}

Value *ev_string(Ev *ev, const char *s, size_t n) {
    Value *v = new_value(ev, V_STRING);
    v->string.s = arena_strndup(ev->a, s, n);
    v->string.n = n;
    return v;
}

Value *ev_list(Ev *ev, Value **items, int n) {
    Value *v = new_value(ev, V_LIST);
    v->list.items = items;
    v->list.n = n;
    return v;
}

Value *ev_tensor(Ev *ev, IrNode *n) {
    if (!n) return NULL;
    Value *v = new_value(ev, V_TENSOR);
    v->tensor.node = n;
    return v;
}

bool ev_whole(double x, int64_t *out) {
    if (!(fabs(x) <= 9007199254740992.0) || x != floor(x)) return false;
    *out = (int64_t)x;
    return true;
}

/* ---- describing ---- */

const char *ev_number_text(Ev *ev, double x) {
    for (int digits = 6; digits < 17; digits++) {
        const char *text = arena_printf(ev->a, "%.*g", digits, x);
        if (strtod(text, NULL) == x) return text;
    }
    return arena_printf(ev->a, "%.17g", x);
}

static const char *describe_string(Ev *ev, const Value *v) {
    bool plain = v->string.n <= 24;
    for (size_t i = 0; plain && i < v->string.n; i++) plain = v->string.s[i] >= 32 && v->string.s[i] < 127;
    return plain ? arena_printf(ev->a, "the string \"%s\"", v->string.s) : "a string";
}

static const char *describe_column(Ev *ev, const Value *v) {
    static const char *const kinds[] = {"label", "string", "int", "float", "skip"};
    const IrColumn *c = &ev->p->input.columns[v->column];
    return arena_printf(ev->a, "%s %s '%s'", kinds[c->kind], c->is_list ? "list" : "column", c->name);
}

const char *ev_describe(Ev *ev, const Value *v) {
    if (!v) return "nothing";
    switch (v->kind) {
    case V_NONE: return "none";
    case V_BOOL: return v->boolean ? "true" : "false";
    case V_NUMBER: return ev_number_text(ev, v->number);
    case V_STRING: return describe_string(ev, v);
    case V_LIST: return v->list.n ? arena_printf(ev->a, "a list of %d", v->list.n) : "an empty list";
    case V_COLUMN: return describe_column(ev, v);
    case V_AXIS: return arena_printf(ev->a, "axis '%s'", ev_axis_name(ev, v->axis));
    case V_TENSOR: return ir_type_text(ev->p, v->tensor.node->type);
    case V_TABLE: return arena_printf(ev->a, "table '%s'", ev->p->weights[v->table.weight].name);
    case V_LAYER: return arena_printf(ev->a, "layer '%s'", v->layer.decl->name);
    case V_BUILTIN: return arena_printf(ev->a, "layer '%s'", v->builtin->name);
    case V_SHARED: return "a shared layer";
    case V_WORD: return arena_printf(ev->a, "'%s'", v->word.text);
    case V_SCHEDULE: return "a schedule";
    case V_OPTIMIZER: return "an optimizer";
    }
    return "a value";
}

/* ---- comparing ---- */

static bool lists_equal(Ev *ev, const Value *a, const Value *b, Span at) {
    if (a->list.n != b->list.n) return false;
    for (int i = 0; i < a->list.n; i++)
        if (!ev_step(ev, at, 1) || !ev_equal(ev, a->list.items[i], b->list.items[i], at)) return false;
    return true;
}

static bool strings_equal(Ev *ev, const Value *a, const Value *b, Span at) {
    if (a->string.n != b->string.n || !ev_step(ev, at, (int64_t)(a->string.n >> 12))) return false;
    return memcmp(a->string.s, b->string.s, a->string.n) == 0;
}

bool ev_equal(Ev *ev, const Value *a, const Value *b, Span at) {
    if (a == b) return true;
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case V_NONE: return true;
    case V_BOOL: return a->boolean == b->boolean;
    case V_NUMBER: return a->number == b->number;
    case V_STRING: return strings_equal(ev, a, b, at);
    case V_LIST: return lists_equal(ev, a, b, at);
    case V_COLUMN: return a->column == b->column;
    case V_AXIS: return a->axis == b->axis;
    case V_TENSOR: return a->tensor.node == b->tensor.node;
    case V_TABLE: return a->table.weight == b->table.weight;
    case V_LAYER: return a->layer.decl == b->layer.decl && a->layer.scope == b->layer.scope;
    case V_BUILTIN: return a->builtin == b->builtin;
    case V_SHARED: return a->shared == b->shared;
    case V_WORD: return strcmp(a->word.text, b->word.text) == 0;
    default: return false;
    }
}
