/* Writes the model description, the JSON that the runtime reads at start (runtime/README.md). Every number
 * that indexes an array comes from the program's own order or from backend_inputs, as in the emitter. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "backend/backend.h"
#include "backend/plan_facts.h"
#include "runtime/abi.def"

typedef struct {
    IrProgram *p;
    const char *march;
    BackendInputs in;
    bool failed;
} Describe;

/* ---- small values ---- */

static void set(json_t *o, const char *key, json_t *v) { json_object_set_new(o, key, v); }
static void set_int(json_t *o, const char *key, int64_t v) { set(o, key, json_integer(v)); }
static void set_num(json_t *o, const char *key, double v) { set(o, key, json_real(v)); }
static void set_bool(json_t *o, const char *key, bool v) { set(o, key, json_boolean(v)); }

/* JSON has no bytes that are not UTF-8: such a text can't be handed on. */
static json_t *text_n(Describe *d, const char *s, size_t n, Span at) {
    json_t *v = s ? json_stringn(s, n) : json_null();
    if (v) return v;
    d->failed = true;
    diag_error(d->p->diag, at, NULL, "expected text in UTF-8, found other bytes");
    return json_null();
}

static json_t *text(Describe *d, const char *s, Span at) { return text_n(d, s, s ? strlen(s) : 0, at); }

/* A text that is only shown to people, such as a path: bytes that are not UTF-8 become question marks. */
static json_t *shown(const char *s) {
    json_t *v = s ? json_string(s) : json_null();
    if (v) return v;
    char *copy = strdup(s);
    for (char *c = copy; c && *c; c++)
        if (*c & 0x80) *c = '?';
    v = json_string(copy ? copy : "");
    free(copy);
    return v;
}

/* One byte as a string of one character below U+0100; 0: none. */
static json_t *byte(char c) {
    unsigned char u = (unsigned char)c;
    char s[3] = {c, 0, 0};
    if (u >= 0x80) {
        s[0] = (char)(0xc0 | u >> 6);
        s[1] = (char)(0x80 | (u & 0x3f));
    }
    return json_string(s);
}

static json_t *digest(uint64_t v) { return json_sprintf("%016" PRIx64, v); }

static json_t *numbers(const double *v, int n) {
    json_t *a = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(a, json_real(v[i]));
    return a;
}

/* ---- what is read ---- */

static json_t *input_of(Describe *d) {
    static const char *const kinds[] = {"csv", "tsv", "libsvm", "libffm"};
    const IrInput *in = &d->p->input;
    json_t *o = json_object(), *missing = json_array();
    set(o, "format", json_string(kinds[in->kind]));
    set(o, "separator", byte(in->separator));
    set(o, "quote", byte(in->quote));
    set_bool(o, "header", in->header);
    set_bool(o, "trim", in->trim);
    for (int i = 0; i < in->n_missing; i++)
        json_array_append_new(missing, text(d, in->missing[i], (Span){0}));
    set(o, "missing", missing);
    set(o, "beside", text(d, in->beside, (Span){0}));
    return o;
}

static json_t *default_of(Describe *d, const IrColumn *c) {
    if (!c->has_default) return json_null();
    if (c->default_str) return text_n(d, c->default_str, (size_t)c->default_len, c->span);
    return json_real(c->default_num);
}

static json_t *columns_of(Describe *d) {
    static const char *const kinds[] = {"label", "string", "int", "float", "skip"};
    json_t *all = json_array();
    for (int i = 0; i < d->p->input.n_columns; i++) {
        const IrColumn *c = &d->p->input.columns[i];
        json_t *o = json_object();
        set(o, "name", text(d, c->name, c->span));
        set(o, "kind", json_string(kinds[c->kind]));
        set_int(o, "skip", c->skip);
        set(o, "list", c->is_list ? byte(c->list_sep) : json_null());
        set_int(o, "axis", c->is_list ? c->axis : -1);
        set(o, "default", default_of(d, c));
        set(o, "positive", text(d, c->positive, c->span));
        set(o, "negative", text(d, c->negative, c->span));
        set(o, "from", text(d, c->from, c->span));
        set_int(o, "side", c->side);
        set_bool(o, "used", c->used);
        set_bool(o, "used_predict", c->used_predict);
        set_bool(o, "unit_label", c->unit_label);
        json_array_append_new(all, o);
    }
    return all;
}

static json_t *axes_of(Describe *d) {
    json_t *all = json_array();
    for (int i = 0; i < d->p->n_axes; i++) {
        const IrAxis *a = &d->p->axes[i];
        json_t *o = json_object();
        set(o, "name", text(d, a->name, a->span));
        set(o, "kind", json_string(ir_axis_kinds[a->kind]));
        set_int(o, "parent", a->kind == AXIS_LIST ? -1 : a->parent);
        set_int(o, "max", a->max);
        set_bool(o, "shared", a->shared);
        json_array_append_new(all, o);
    }
    return all;
}

static json_t *vocabs_of(Describe *d) {
    json_t *all = json_array();
    for (int i = 0; i < d->p->n_vocabs; i++) {
        const IrVocab *v = &d->p->vocabs[i];
        json_t *o = json_object();
        set(o, "path", text(d, v->path, v->span));
        set_int(o, "n", v->n);
        set(o, "digest", digest(v->digest));
        json_array_append_new(all, o);
    }
    return all;
}

/* ---- features, inputs, lookups ---- */

/* Marks the feature of a reader-stage node and those that it is computed from. */
static void mark_feature(const Describe *d, const IrNode *n, bool *marks) {
    int f = backend_feature(&d->in, n);
    if (f >= 0) marks[f] = true;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->op != OP_COLUMN) mark_feature(d, n->in[i], marks);
}

/* What the steps of a function read. */
static void mark_features(const Describe *d, const IrBody *b, bool *marks) {
    for (int i = 0; i < b->n; i++) {
        const IrNode *n = b->nodes[i];
        if (n->body) mark_features(d, n->body, marks);
        for (int k = 0; k < n->n_in && !ir_is_reader(n); k++)
            if (ir_is_reader(n->in[k])) mark_feature(d, n->in[k], marks);
    }
}

static json_t *parts_of(Describe *d, const IrNode *n) {
    json_t *all = json_array();
    if (n->op == OP_COLUMN)
        json_array_append_new(all, json_pack("[s,I]", "c", (json_int_t)ir_attr_i(n, "col")));
    for (int i = 0; i < n->n_in; i++) {
        const IrNode *x = n->in[i];
        bool column = x->op == OP_COLUMN;
        json_int_t number = column ? ir_attr_i(x, "col") : backend_feature(&d->in, x);
        json_array_append_new(all, json_pack("[s,I]", column ? "c" : "f", number));
    }
    return all;
}

static void feature_attributes(Describe *d, const IrNode *n, json_t *o) {
    switch (n->op) {
    case OP_HASH:
        set_int(o, "buckets", ir_attr_i(n, "buckets"));
        set(o, "fn", json_string(ir_attr_s(n, "fn")));
        break;
    case OP_CROSS: set_int(o, "buckets", ir_attr_i(n, "buckets")); break;
    case OP_VOCAB:
        set_int(o, "vocab", ir_attr_i(n, "vocab"));
        set_int(o, "unknown", ir_attr_i(n, "unknown"));
        break;
    case OP_BUCKETIZE: {
        const IrAttr *b = ir_attr(n, "bounds");
        set(o, "bounds", numbers(b->flist.v, b->flist.n));
        break;
    }
    case OP_IDENTITY: set_int(o, "n", ir_attr_i(n, "n")); break;
    case OP_OFFSET: set_int(o, "by", ir_attr_i(n, "by")); break;
    case OP_TRUNCATE: set_int(o, "n", d->p->axes[n->type.axis].max); break;
    default: break;
    }
}

static json_t *features_of(Describe *d) {
    static const char *const types[] = {"f32", "id", "str", "int", "key"};
    _Static_assert(TY_F32 == 0 && TY_ID == 1 && TY_STR == 2 && TY_INT == 3 && TY_KEY == 4,
                   "order of types[]");
    bool *in_predict = arena_alloc(d->p->arena, (size_t)d->in.n_features + 1);
    const IrFunc *predict = ir_func(d->p, "predict");
    if (predict) mark_features(d, &predict->body, in_predict);
    json_t *all = json_array();
    for (int i = 0; i < d->in.n_features; i++) {
        const IrNode *n = d->in.features[i];
        json_t *o = json_object();
        set(o, "op", json_string(n->op == OP_COLUMN ? "value" : ir_ops[n->op].text));
        set(o, "in", parts_of(d, n));
        set(o, "type", json_string(types[n->type.elem]));
        set_int(o, "axis", n->type.live == LIVE_POS ? n->type.axis : -1);
        if (n->type.elem == TY_ID) set_int(o, "bound", n->type.bound);
        set_bool(o, "predict", in_predict[i]);
        feature_attributes(d, n, o);
        json_array_append_new(all, o);
    }
    return all;
}

static json_t *inputs_of(Describe *d, json_t *lookups) {
    static const char *const kinds[] = {
        [BE_F32] = "f32", [BE_ID] = "id", [BE_KEY] = "key", [BE_LOOKUP] = "lookup"};
    json_t *all = json_array();
    for (int i = 0; i < d->in.n; i++) {
        const BackendInput *b = &d->in.inputs[i];
        json_t *o = json_object();
        set(o, "as", json_string(kinds[b->kind]));
        if (b->kind == BE_LOOKUP) {
            json_t *l = json_object();
            set_int(l, "feature", b->feature);
            set_int(l, "table", b->table);
            set_bool(l, "pooled", b->pooled);
            json_array_append_new(lookups, l); /* inputs stand in the order of their lookup numbers */
            set_int(o, "lookup", b->lookup);
        } else
            set_int(o, "feature", b->feature);
        json_array_append_new(all, o);
    }
    return all;
}

/* ---- weights and optimizers ---- */

static json_t *weights_of(Describe *d) {
    json_t *all = json_array();
    for (int i = 0; i < d->p->n_weights; i++) {
        const IrWeight *w = &d->p->weights[i];
        json_t *o = json_object(), *shape = json_array(), *slots = json_array();
        const char *names[3];
        int n_slots = w->optimizer >= 0 ? ir_opt_slots(&d->p->opts[w->optimizer], names) : 0;
        for (int k = 0; k < w->rank; k++) json_array_append_new(shape, json_integer(w->dim[k]));
        for (int k = 0; k < n_slots; k++) json_array_append_new(slots, json_string(names[k]));
        set(o, "name", text(d, w->name, w->span));
        set(o, "shape", shape);
        set(o, "init", json_string(ir_init_name(w->init)));
        set_num(o, "arg", w->init_arg);
        set_bool(o, "table", w->table);
        set_bool(o, "lazy", w->lazy);
        set_bool(o, "sparse", w->sparse);
        set_bool(o, "running", w->running);
        set_bool(o, "trainable", w->trainable);
        set_int(o, "optimizer", w->optimizer);
        set(o, "slots", slots);
        json_array_append_new(all, o);
    }
    return all;
}

static json_t *schedule_of(const IrSched *s) {
    json_t *o = json_object();
    switch (s->kind) {
    case SCHED_CONST:
        set(o, "kind", json_string("const"));
        set_num(o, "lr", s->lr);
        break;
    case SCHED_EXPONENTIAL:
        set(o, "kind", json_string("exponential"));
        set_num(o, "lr", s->lr);
        set_num(o, "rate", s->rate);
        set_num(o, "every", s->every);
        break;
    case SCHED_COSINE:
        set(o, "kind", json_string("cosine"));
        set_num(o, "lr", s->lr);
        set_num(o, "steps", s->steps);
        set_num(o, "end", s->end);
        break;
    case SCHED_PIECEWISE:
        set(o, "kind", json_string("piecewise"));
        set(o, "at", numbers(s->at, s->n));
        set(o, "values", numbers(s->values, s->n + 1));
        break;
    case SCHED_WARMUP:
        set(o, "kind", json_string("warmup"));
        set_num(o, "steps", s->steps);
        set(o, "then", schedule_of(s->then));
        break;
    }
    return o;
}

static json_t *optimizers_of(Describe *d) {
    json_t *all = json_array();
    for (int i = 0; i < d->p->n_opts; i++) {
        const IrOptimizer *a = &d->p->opts[i];
        json_t *o = json_object();
        set(o, "kind", json_string(ir_opt_name(a->kind)));
        set(o, "lr", schedule_of(&a->lr));
        set_num(o, "clip_norm", a->clip_norm);
        set_num(o, "l2", a->l2);
        set_num(o, "momentum", a->momentum);
        set_num(o, "init", a->init);
        set_num(o, "rate", a->rate);
        set_num(o, "every", a->every);
        set_num(o, "beta1", a->beta1);
        set_num(o, "beta2", a->beta2);
        set_num(o, "eps", a->eps);
        set_num(o, "rho", a->rho);
        set_num(o, "l1", a->l1_ftrl);
        set_num(o, "l2_ftrl", a->l2_ftrl);
        set_bool(o, "exact", a->exact);
        json_array_append_new(all, o);
    }
    return all;
}

/* ---- functions and what they leave behind ---- */

static json_t *node_of(Describe *d, const IrNode *n) {
    const Diag *g = d->p->diag;
    json_t *o = json_object();
    set_int(o, "id", n->id);
    set(o, "op", json_string(ir_writer(n) ? plan_op(d->p, n) : ir_ops[n->op].text)); /* of a region its ops */
    if (n->op == OP_FUSED) set(o, "ops", json_string(plan_op(d->p, n)));
    set(o, "name", text(d, n->name, n->span));
    if (n->span.line && n->span.file < g->n_files)
        set(o, "at",
            shown(arena_printf(d->p->arena, "%s:%u:%u", g->files[n->span.file].path, n->span.line,
                               n->span.col)));
    else
        set(o, "at", json_null());
    set(o, "type", json_string(ir_type_text(d->p, n->type)));
    return o;
}

/* Where the runtime finds a value after the step. The place is added to outputs; its number is returned. */
static int output(Describe *d, json_t *outputs, const IrNode *x) {
    static const char *const regions[] = {
        [REGION_FIXED] = "fixed", [REGION_AXIS] = "axis", [REGION_UNIQ] = "uniq", [REGION_INPUT] = "input"};
    json_t *o = json_object();
    if (ir_is_reader(x)) {
        set(o, "region", json_string("input"));
        set_int(o, "input", backend_input_raw(&d->in, x));
    } else if (x->plan.region == REGION_NONE || x->plan.region == REGION_INPUT) {
        d->failed = true;
        diag_error(d->p->diag, x->span, NULL, "value %%%d of op '%s' has no place in memory", x->id,
                   ir_ops[x->op].text);
    } else {
        set(o, "region", json_string(regions[x->plan.region]));
        set_int(o, "offset", x->plan.offset);
        if (x->plan.region != REGION_FIXED) set_int(o, "axis", x->type.axis);
    }
    for (size_t i = 0; i < json_array_size(outputs); i++)
        if (json_equal(json_array_get(outputs, i), o)) return json_decref(o), (int)i;
    json_array_append_new(outputs, o);
    return (int)json_array_size(outputs) - 1;
}

static json_t *elems(const int64_t *v, int n) {
    json_t *a = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(a, json_integer(v ? v[i] : 0));
    return a;
}

static json_t *function_of(Describe *d, const IrFunc *f, json_t *outputs) {
    json_t *o = json_object(), *nodes = json_array();
    for (int i = 0; i < f->body.n; i++) json_array_append_new(nodes, node_of(d, f->body.nodes[i]));
    set_int(o, "fixed_bytes", f->fixed_bytes);
    set_int(o, "scratch_bytes", backend_scratch_bytes(d->p, f, d->march));
    set_int(o, "row_block", ir_row_block(f));
    set(o, "axis_elems", elems(f->axis_elems, d->p->n_axes));
    set(o, "local_elems", elems(f->local_elems, d->p->n_axes));
    set(o, "uniq_elems", elems(f->uniq_elems, d->p->n_weights));
    set_num(o, "flops", ir_func_work(d->p, f).flops);
    set(o, "nodes", nodes);
    set(o, "outputs", outputs);
    return o;
}

/* The k-th root of one kind in a function, or NULL. */
static const IrNode *root(const IrFunc *f, IrOp op, int k) {
    for (int i = 0; i < f->body.n; i++)
        if (f->body.nodes[i]->op == op && k-- == 0) return f->body.nodes[i];
    return NULL;
}

static const IrNode *prediction(const IrFunc *f, const char *name) {
    const IrNode *n;
    for (int k = 0; (n = root(f, OP_PREDICT, k)); k++)
        if (strcmp(ir_attr_s(n, "name"), name) == 0) return n;
    return NULL;
}

enum { TRAIN, EVAL, PREDICT, N_FUNCS };
static const char *const func_names[N_FUNCS] = {"train", "eval", "predict"};

/* Predictions in order of declaration, each with its place in all three functions. */
static json_t *predictions_of(Describe *d, IrFunc *const *f, json_t *const *outputs) {
    json_t *all = json_array();
    const IrNode *n;
    for (int k = 0; (n = root(f[PREDICT], OP_PREDICT, k)); k++) {
        const char *name = ir_attr_s(n, "name");
        json_t *o = json_object(), *places = json_object();
        for (int i = 0; i < N_FUNCS; i++) {
            const IrNode *r = prediction(f[i], name);
            if (r) set_int(places, func_names[i], output(d, outputs[i], r->in[0]));
        }
        set(o, "name", text(d, name, n->span));
        set(o, "output", places);
        json_array_append_new(all, o);
    }
    return all;
}

/* Operand `at` of the k-th metric in train and eval. */
static json_t *metric_operand(Describe *d, IrFunc *const *f, json_t *const *outputs, int k, int at) {
    json_t *places = json_object();
    for (int i = TRAIN; i <= EVAL; i++) {
        const IrNode *m = root(f[i], OP_METRIC, k);
        if (m && at < m->n_in) set_int(places, func_names[i], output(d, outputs[i], m->in[at]));
    }
    return places;
}

static json_t *metrics_of(Describe *d, IrFunc *const *f, json_t *const *outputs) {
    json_t *all = json_array();
    const IrNode *n;
    for (int k = 0; (n = root(f[EVAL], OP_METRIC, k)); k++) {
        bool where = ir_attr_i(n, "where"), by = ir_attr_i(n, "by");
        json_t *o = json_object();
        set(o, "kind", json_string(ir_attr_s(n, "kind")));
        set(o, "prediction", text(d, ir_attr_s(n, "name"), n->span));
        set(o, "p", metric_operand(d, f, outputs, k, 0));
        set(o, "y", metric_operand(d, f, outputs, k, 1));
        set(o, "where", where ? metric_operand(d, f, outputs, k, 2) : json_null());
        set(o, "by", by ? metric_operand(d, f, outputs, k, where ? 3 : 2) : json_null());
        json_array_append_new(all, o);
    }
    return all;
}

bool backend_has_functions(IrProgram *p) {
    for (int i = 0; i < N_FUNCS; i++) {
        if (ir_func(p, func_names[i])) continue;
        diag_error(p->diag, p->text_end, NULL, "the program has no function '%s'", func_names[i]);
        return false;
    }
    return true;
}

static bool functions(Describe *d, json_t *o) {
    IrFunc *f[N_FUNCS];
    if (!backend_has_functions(d->p)) return false;
    json_t *outputs[N_FUNCS], *all = json_object();
    for (int i = 0; i < N_FUNCS; i++) f[i] = ir_func(d->p, func_names[i]);
    for (int i = 0; i < N_FUNCS; i++) outputs[i] = json_array();
    set(o, "predictions", predictions_of(d, f, outputs));
    set(o, "metrics", metrics_of(d, f, outputs));
    for (int i = 0; i < N_FUNCS; i++) set(all, func_names[i], function_of(d, f[i], outputs[i]));
    set(o, "functions", all);
    return true;
}

/* ---- the whole ---- */

static void head(Describe *d, json_t *o) {
    const IrProgram *p = d->p;
    json_t *params = json_object(), *passes = json_array(), *changes = json_array();
    set_int(o, "abi", RT_ABI_VERSION);
    set(o, "ctrc", json_string(CTRC_VERSION));
    set(o, "model", text(d, p->name, (Span){0}));
    set(o, "source", shown(p->source));
    set(o, "digest", digest(p->digest));
    set(o, "march", json_string(d->march));
    set_int(o, "batch", p->batch);
    set_int(o, "epochs", p->epochs);
    set_int(o, "steps", p->steps);
    set_int(o, "shuffle", p->shuffle);
    set_int(o, "seed", p->seed);
    for (int i = 0; i < p->n_params; i++) {
        const IrParam *a = &p->params[i];
        set(params, a->name, a->is_string ? shown(a->str) : json_real(a->num));
    }
    for (int i = 0; i < p->n_applied; i++) {
        json_array_append_new(passes, text(d, p->applied[i], (Span){0}));
        if (pass_changed_model(p, p->applied[i]))
            json_array_append_new(changes, text(d, p->applied[i], (Span){0}));
    }
    set(o, "params", params);
    set(o, "passes", passes);
    set(o, "changes", changes);
}

char *backend_describe(IrProgram *p, const char *march) {
    Describe d = {.p = p, .march = march, .in = backend_inputs(p)};
    json_t *o = json_object(), *lookups = json_array();
    head(&d, o);
    set(o, "input", input_of(&d));
    set(o, "columns", columns_of(&d));
    set(o, "axes", axes_of(&d));
    set(o, "features", features_of(&d));
    set(o, "inputs", inputs_of(&d, lookups));
    set(o, "lookups", lookups);
    set(o, "vocabs", vocabs_of(&d));
    set(o, "weights", weights_of(&d));
    set(o, "optimizers", optimizers_of(&d));
    char *out = functions(&d, o) && !d.failed ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return out;
}
