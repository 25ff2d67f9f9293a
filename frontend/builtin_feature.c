/* Features: what the reader stage makes of columns, and lookups by id. */
#include "frontend/value.h"
#include <string.h>

#define MAX_IDS 4294967294LL /* ids are 32 bits wide, one value means "no id" and none is a table's size */

static bool of_reader(const IrNode *n) { return n->op == OP_COLUMN || ir_ops[n->op].cls == CLASS_READ; }

static Value *expected(Ev *ev, const Call *c, int i, const char *hint, const char *what) {
    ev_error(ev, c->args[i].span, hint, "%s: expected %s, found %s", c->of->name, what,
             ev_describe(ev, c->args[i].v));
    return NULL;
}

/* A string or int column, as it is or truncated. */
static IrNode *words_of(Ev *ev, const Call *c, int i) {
    const Value *v = c->args[i].v;
    IrNode *n;
    if (!ev_node(ev, v, c->args[i].span, &n)) return NULL;
    if (n && (n->type.elem == TY_STR || n->type.elem == TY_INT)) return n;
    const char *hint = NULL;
    if (v->kind == V_COLUMN && ev->p->input.columns[v->column].kind == COL_FLOAT)
        hint = "bucketize(column, [bounds]) makes an id of a float";
    if (v->kind == V_TENSOR && v->tensor.node->type.elem == TY_ID) hint = "it is an id already";
    expected(ev, c, i, hint, "a string or int column");
    return NULL;
}

static IrNode *id_of(Ev *ev, const Call *c, int i) {
    const Value *v = c->args[i].v;
    if (v->kind == V_TENSOR && v->tensor.node->type.elem == TY_ID) return v->tensor.node;
    expected(ev, c, i, v->kind == V_COLUMN ? "hash, vocab, bucketize and identity make ids of columns" : NULL,
             "an id");
    return NULL;
}

/* ---- ids ---- */

static Value *hash(Ev *ev, Call *c) {
    static const char *const fns[] = {"xxh3", "farm64"};
    int64_t buckets = 0;
    IrNode *n = words_of(ev, c, 0);
    const char *fn = c->args[2].v ? arg_word(ev, c, 2, fns, 2) : fns[0];
    if (!arg_whole(ev, c, 1, 1, MAX_IDS, &buckets) || !n || !fn) return NULL;
    IrAttr attrs[] = {ir_ai("buckets", buckets), ir_as("fn", fn)};
    return ev_tensor(ev, ev_op_attrs(ev, OP_HASH, n, 2, attrs));
}

static bool listed_values(Ev *ev, const Call *c, IrVocab *v) {
    const Value *list = c->args[1].v;
    if (list->kind != V_LIST || list->list.n == 0)
        return expected(ev, c, 1, "a file's values: file = \"path\"", "a list of values");
    if (!ev_step(ev, c->args[1].span, list->list.n)) return false;
    v->n = list->list.n;
    v->values = ARENA_ARRAY(ev->a, const char *, v->n);
    v->lens = ARENA_ARRAY(ev->a, int, v->n);
    StrMap seen = {0};
    for (int i = 0; i < list->list.n; i++) {
        const Value *x = list->list.items[i];
        int64_t whole;
        if (x->kind == V_STRING) {
            v->values[i] = x->string.s;
            v->lens[i] = (int)x->string.n;
        } else if (x->kind == V_NUMBER && ev_whole(x->number, &whole)) {
            v->values[i] = arena_printf(ev->a, "%lld", (long long)whole);
            v->lens[i] = (int)strlen(v->values[i]);
        } else {
            ev_error(ev, c->args[1].span, NULL,
                     "vocab: expected strings or whole numbers as values, found %s", ev_describe(ev, x));
            return false;
        }
        if ((size_t)v->lens[i] != strlen(v->values[i]) || strchr(v->values[i], '\n')) {
            ev_error(ev, c->args[1].span, NULL, "vocab: a value with a NUL byte or a newline in it");
            return false;
        }
        if (strmap_get(&seen, v->values[i])) {
            ev_error(ev, c->args[1].span, NULL, "vocab: the value \"%s\" stands there twice", v->values[i]);
            return false;
        }
        strmap_put(ev->a, &seen, v->values[i], (void *)v->values[i]);
    }
    v->digest = ir_vocab_digest(v);
    return true;
}

/* Each file is read once, also one that isn't right, and equal lists are one vocabulary. -1 after an error. */
static int vocabulary(Ev *ev, const Call *c) {
    IrProgram *p = ev->p;
    if (!ev_step(ev, c->span, p->n_vocabs / 8)) return -1;
    IrVocab v = {.span = ev_user_span(ev, c->span)};
    if (c->args[2].v) {
        size_t n;
        if (!arg_string(ev, c, 2, &v.path, &n)) return -1;
        v.span = ev_user_span(ev, c->args[2].span);
        for (int i = 0; i < p->n_vocabs; i++)
            if (p->vocabs[i].path && strcmp(p->vocabs[i].path, v.path) == 0) return i;
        if (strmap_get(&ev->bad_vocabs, v.path)) return -1; /* it was told */
        if (!ir_vocab_load(p, &v)) {
            strmap_put(ev->a, &ev->bad_vocabs, v.path, (void *)v.path);
            return -1;
        }
    } else {
        if (!listed_values(ev, c, &v)) return -1;
        for (int i = 0; i < p->n_vocabs; i++)
            if (!p->vocabs[i].path && p->vocabs[i].n == v.n && p->vocabs[i].digest == v.digest) return i;
    }
    ARENA_PUSH(ev->a, p->vocabs, p->n_vocabs, p->cap_vocabs, v);
    return p->n_vocabs - 1;
}

static bool unknown_index(Ev *ev, const Call *c, int64_t n, int64_t *out) {
    const Value *v = c->args[3].v;
    *out = -1;
    if (!v || (v->kind == V_WORD && strcmp(v->word.text, "drop") == 0)) return true;
    if (v->kind == V_WORD && strcmp(v->word.text, "last") == 0) {
        *out = n; /* an index of its own behind the values' */
        return true;
    }
    if (v->kind == V_NUMBER && ev_whole(v->number, out) && *out >= 0 && *out < n) return true;
    expected(ev, c, 3, NULL,
             arena_printf(ev->a, "drop, last or an index from 0 to %lld as 'unknown'", (long long)n - 1));
    return false;
}

int ev_new_axis(Ev *ev, IrAxisKind kind, int parent, int64_t max, const char *suffix, Span span) {
    IrProgram *p = ev->p;
    if (!ev_step(ev, span, 1 + p->n_axes / 8)) return -1;
    const char *base = arena_printf(ev->a, "%s_%s", p->axes[parent].name, suffix), *name = base;
    for (int i = 0, n = 2; i < p->n_axes; i++)
        if (strcmp(p->axes[i].name, name) == 0) name = arena_printf(ev->a, "%s_%d", base, n++), i = -1;
    IrAxis x = {.name = name,
                .kind = kind,
                .parent = parent,
                .max = max,
                .shared = p->axes[parent].shared,
                .span = ev_user_span(ev, span)};
    ARENA_PUSH(ev->a, p->axes, p->n_axes, p->cap_axes, x);
    return p->n_axes - 1;
}

/* A list without its unknown values is a shorter list, with an axis of its own; the same list looked up twice
 * in one vocabulary has one. */
static IrNode *filtered(Ev *ev, Call *c, IrNode *n, int vocab) {
    for (int i = 0; i < ev->n_filters; i++)
        if (ev->filters[i].in == n && ev->filters[i].vocab == vocab) return ev->filters[i].out;
    const IrAxis *axis = &ev->p->axes[n->type.axis];
    if (axis->shared) {
        ev_error(ev, c->span, "unknown = last or unknown = NUMBER keeps them",
                 "a vocabulary would drop values of '%s', whose lists must stay aligned", axis->name);
        return NULL;
    }
    int known = ev_new_axis(ev, AXIS_FILTER, n->type.axis, 0, "known", c->span);
    if (known < 0) return NULL;
    IrAttr attrs[] = {ir_ai("vocab", vocab), ir_ai("unknown", -1), ir_ai("axis", known)};
    IrNode *out = ev_op_attrs(ev, OP_VOCAB, n, 3, attrs);
    ARENA_PUSH(ev->a, ev->filters, ev->n_filters, ev->cap_filters,
               ((__typeof__(*ev->filters)){n, vocab, out}));
    return out;
}

static Value *vocab(Ev *ev, Call *c) {
    if ((c->args[1].v != NULL) == (c->args[2].v != NULL)) {
        ev_error(ev, c->span, NULL, "vocab: expected either a list of values or file = \"path\"");
        return NULL;
    }
    IrNode *n = words_of(ev, c, 0);
    int vocab = n ? vocabulary(ev, c) : -1;
    int64_t unknown;
    if (vocab < 0 || !unknown_index(ev, c, ev->p->vocabs[vocab].n, &unknown)) return NULL;
    if (unknown < 0 && ev_is_list(n)) return ev_tensor(ev, filtered(ev, c, n, vocab));
    IrAttr attrs[] = {ir_ai("vocab", vocab), ir_ai("unknown", unknown)};
    return ev_tensor(ev, ev_op_attrs(ev, OP_VOCAB, n, 2, attrs));
}

static Value *bucketize(Ev *ev, Call *c) {
    double *bounds;
    int n;
    const Value *v = c->args[0].v;
    IrNode *x;
    if (!ev_node(ev, v, c->args[0].span, &x)) return NULL;
    bool fits = x && of_reader(x) && (x->type.elem == TY_INT || x->type.elem == TY_F32) &&
                !(x->op == OP_COLUMN && ev_is_label(ev, x));
    if (!fits)
        return expected(ev, c, 0,
                        v->kind == V_TENSOR
                            ? "it cuts what stands in the file; the bounds can be computed instead"
                            : NULL,
                        "a float or int column");
    if (!arg_numbers(ev, c, 1, &bounds, &n)) return NULL;
    for (int i = 1; i < n; i++) {
        if (bounds[i] > bounds[i - 1]) continue;
        ev_error(ev, c->args[1].span, NULL, "bucketize: expected rising bounds, found %s after %s",
                 ev_number_text(ev, bounds[i]), ev_number_text(ev, bounds[i - 1]));
        return NULL;
    }
    IrAttr attr = ir_afl(ev->a, "bounds", bounds, n);
    return ev_tensor(ev, ev_op_attrs(ev, OP_BUCKETIZE, x, 1, &attr));
}

static Value *identity(Ev *ev, Call *c) {
    int64_t n = 0;
    const Value *v = c->args[0].v;
    IrNode *x;
    if (!ev_node(ev, v, c->args[0].span, &x)) return NULL;
    if (!x || x->type.elem != TY_INT) return expected(ev, c, 0, NULL, "an int column");
    if (!arg_whole(ev, c, 1, 1, MAX_IDS, &n)) return NULL;
    IrAttr attr = ir_ai("n", n);
    return ev_tensor(ev, ev_op_attrs(ev, OP_IDENTITY, x, 1, &attr));
}

static Value *cross(Ev *ev, Call *c) {
    const Value *list = c->args[0].v;
    int64_t buckets = 0;
    if (list->kind != V_LIST || list->list.n < 2)
        return expected(ev, c, 0, NULL, "a list of at least two columns or ids");
    if (!arg_whole(ev, c, 1, 1, MAX_IDS, &buckets)) return NULL;
    IrNode **parts = ARENA_ARRAY(ev->a, IrNode *, list->list.n);
    IrNode *ragged = NULL;
    for (int i = 0; i < list->list.n; i++) {
        const Value *v = list->list.items[i];
        IrNode *n;
        if (!ev_node(ev, v, c->args[0].span, &n)) return NULL;
        if (!n || n->type.elem == TY_F32) {
            ev_error(ev, c->args[0].span, n ? "bucketize(column, [bounds]) makes an id of a float" : NULL,
                     "cross: expected string or int columns or ids, found %s", ev_describe(ev, v));
            return NULL;
        }
        if (ragged && ev_is_list(n)) {
            ev_error(ev, c->args[0].span, NULL, "cross: at most one part may be a list, found %s and %s",
                     ev_shape(ev, ragged), ev_shape(ev, n));
            return NULL;
        }
        if (ev_is_list(n)) ragged = n;
        parts[i] = n;
    }
    IrAttr attr = ir_ai("buckets", buckets);
    return ev_tensor(ev, ir_build(&ev->b, OP_CROSS, list->list.n, parts, 1, &attr));
}

/* ---- lookups ---- */

static Value *onehot(Ev *ev, Call *c) {
    IrNode *id = id_of(ev, c, 0);
    return id ? ev_tensor(ev, ir_build1(&ev->b, OP_ONEHOT, id)) : NULL;
}

static Value *embed(Ev *ev, Call *c) {
    IrNode *id = id_of(ev, c, 0);
    if (!id) return NULL;
    const Value *t = c->args[1].v;
    IrNode *rows = t->kind == V_TABLE                                       ? t->table.node
                   : t->kind == V_TENSOR && t->tensor.node->op == OP_WEIGHT ? t->tensor.node
                                                                            : NULL;
    if (!rows || rows->type.rank < 2) return expected(ev, c, 1, NULL, "a table or a matrix of weights");
    if (id->type.bound > rows->type.dim[0]) {
        ev_error(ev, c->args[0].span, "table(size(id), dim) has as many rows as there are ids",
                 "ids go up to %lld, but the table has %lld rows", (long long)id->type.bound - 1,
                 (long long)rows->type.dim[0]);
        return NULL;
    }
    return ev_tensor(ev, ir_build2(&ev->b, OP_EMBED, id, rows));
}

static Value *pool(Ev *ev, Call *c) {
    static const char *const kinds[] = {"mean", "sum", "max"};
    static const IrOp ops[] = {OP_SEGMEAN, OP_SEGSUM, OP_SEGMAX};
    const char *kind = arg_word(ev, c, 1, kinds, 3);
    IrNode *x = arg_f32(ev, c, 0);
    if (!x || !kind) return NULL;
    if (!ev_is_list(x)) return ev_tensor(ev, x);
    for (int i = 0; i < 3; i++)
        if (kind == kinds[i]) return ev_tensor(ev, ir_build1(&ev->b, ops[i], x));
    return NULL;
}

/* ---- lists ---- */

static IrNode *list_of(Ev *ev, const Call *c, int i) {
    const Value *v = c->args[i].v;
    IrNode *n;
    if (!ev_node(ev, v, c->args[i].span, &n)) return NULL;
    if (n && ev_is_list(n)) return n;
    expected(ev, c, i, v->kind == V_LIST ? "len(a) counts a list of the program" : NULL,
             "a list column or what is made of one");
    return NULL;
}

static Value *truncate_list(Ev *ev, Call *c) {
    static const char *const ends[] = {"first", "last"};
    IrNode *n = list_of(ev, c, 0);
    int64_t keep = 0;
    const char *end = c->args[2].v ? arg_word(ev, c, 2, ends, 2) : ends[0];
    if (!n || !end || !arg_whole(ev, c, 1, 1, 1 << 24, &keep)) return NULL;
    if (!of_reader(n)) return expected(ev, c, 0, "truncate the column or its ids first", "a column or an id");
    IrAxisKind kind = end == ends[0] ? AXIS_FIRST : AXIS_LAST;
    int axis = -1;
    for (int i = 0; i < ev->p->n_axes; i++) { /* lists truncated alike share the new axis */
        const IrAxis *x = &ev->p->axes[i];
        if (x->kind == kind && x->parent == n->type.axis && x->max == keep) axis = i;
    }
    if (axis < 0)
        axis = ev_new_axis(ev, kind, n->type.axis, keep, arena_printf(ev->a, "%s%lld", end, (long long)keep),
                           c->span);
    if (axis < 0) return NULL;
    IrAttr attr = ir_ai("axis", axis);
    return ev_tensor(ev, ev_op_attrs(ev, OP_TRUNCATE, n, 1, &attr));
}

static Value *length(Ev *ev, Call *c) {
    IrNode *n = list_of(ev, c, 0);
    if (!n) return NULL;
    IrAttr attr = ir_ai("axis", n->type.axis);
    return ev_tensor(ev, ir_build(&ev->b, OP_SEGLEN, 0, NULL, 1, &attr));
}

const Builtin builtins_feature[] = {
    {"hash", "c buckets fn?", hash},
    {"vocab", "c values? file? unknown?", vocab},
    {"bucketize", "c bounds", bucketize},
    {"identity", "c n", identity},
    {"cross", "parts buckets", cross},
    {"onehot", "id", onehot},
    {"embed", "id table", embed},
    {"pool", "x kind", pool},
    {"truncate", "list n keep?", truncate_list},
    {"length", "list", length},
    {0},
};
