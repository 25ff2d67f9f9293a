/* Parses the model description (README.md). Every index is checked here, once, so that the rest of the
 * runtime may follow them blindly. */
#include "runtime/model.h"
#include "runtime/jsonread.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/message.h"

#define MANY (1 << 20) /* more of anything than a model has */
#define WORDS(...)                                                                                           \
    (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

typedef struct {
    RtModel m;
    RtJsonBlock *blocks;
} Owned; /* m first: rt_model_free gets back to it */
typedef struct {
    RtJson j;
    RtModel *m;
    const json_t *root;
} Parse;

/* Opens a list of objects; returns its length. */
static int open_list(Parse *p, const char *key, const json_t **list) {
    rt_json_at(&p->j, NULL, 0, NULL);
    *list = rt_json_get(&p->j, p->root, key, JSON_ARRAY);
    size_t n = json_array_size(*list);
    if (n > MANY) rt_json_fail(&p->j, "key '%s': more than %d entries", key, MANY);
    return p->j.failed ? 0 : (int)n;
}

static const json_t *item(Parse *p, const json_t *list, const char *key, int i) {
    const json_t *o = json_array_get(list, i);
    rt_json_at(&p->j, key, i, NULL);
    if (!json_is_object(o)) rt_json_fail(&p->j, "expected an object");
    return p->j.failed ? NULL : o;
}

#define LIST(p, key, field, count)                                                                           \
    const json_t *list;                                                                                      \
    RtModel *m = (p)->m;                                                                                     \
    int n_list = open_list(p, key, &list);                                                                   \
    m->field = rt_json_alloc(&(p)->j, n_list, sizeof *m->field);                                             \
    m->count = n_list;

static void parse_head(Parse *p) {
    RtJson *j = &p->j;
    RtModel *m = p->m;
    const json_t *o = p->root;
    m->ctrc = rt_json_str(j, o, "ctrc");
    m->name = rt_json_str(j, o, "model");
    m->source = rt_json_str(j, o, "source");
    m->digest = rt_json_str(j, o, "digest");
    m->march = rt_json_str(j, o, "march");
    m->batch = rt_json_int(j, o, "batch", 1, INT32_MAX);
    m->epochs = rt_json_int(j, o, "epochs", 0, INT64_MAX);
    m->steps = rt_json_int(j, o, "steps", 0, INT64_MAX);
    m->shuffle = rt_json_int(j, o, "shuffle", 0, INT64_MAX);
    m->seed = rt_json_int(j, o, "seed", INT64_MIN, INT64_MAX);
    m->passes = rt_json_strs(j, o, "passes", &m->n_passes);
    m->changes = rt_json_strs(j, o, "changes", &m->n_changes);
}

static void parse_params(Parse *p) {
    json_t *o = rt_json_get(&p->j, p->root, "params", JSON_OBJECT);
    RtModel *m = p->m;
    m->n_params = (int)json_object_size(o);
    m->params = rt_json_alloc(&p->j, m->n_params, sizeof *m->params);
    int i = 0;
    const char *key;
    json_t *v;
    json_object_foreach(o, key, v) {
        RtParam *a = &m->params[i++];
        char *name = rt_json_alloc(&p->j, strlen(key) + 1, 1);
        a->name = strcpy(name, key);
        if (json_is_string(v)) {
            a->is_string = true;
            a->str = rt_json_str(&p->j, o, key);
        } else if (json_is_boolean(v))
            a->num = json_is_true(v);
        else
            a->num = rt_json_num(&p->j, o, key);
    }
}

static void parse_input(Parse *p) {
    RtJson *j = &p->j;
    RtModel *m = p->m;
    const json_t *o = rt_json_get(j, p->root, "input", JSON_OBJECT);
    if (!o) return;
    snprintf(j->where, sizeof j->where, "input");
    m->format = rt_json_word(j, o, "format", WORDS("csv", "tsv", "libsvm", "libffm"));
    m->separator = rt_json_byte(j, o, "separator");
    m->quote = rt_json_byte(j, o, "quote");
    m->header = rt_json_bool(j, o, "header");
    m->trim = rt_json_bool(j, o, "trim");
    m->missing = rt_json_strs(j, o, "missing", &m->n_missing);
    m->beside = rt_json_str_or_null(j, o, "beside");
}

static void parse_columns(Parse *p) {
    RtJson *j = &p->j;
    LIST(p, "columns", columns, n_columns)
    for (int i = 0; i < n_list; i++) {
        const json_t *o = item(p, list, "columns", i);
        RtColumn *c = &m->columns[i];
        c->name = rt_json_str(j, o, "name");
        c->kind = rt_json_word(j, o, "kind", WORDS("label", "string", "int", "float", "skip"));
        c->skip = (int)rt_json_int(j, o, "skip", 0, INT32_MAX);
        json_t *sep = j->failed ? NULL : json_object_get(o, "list");
        c->is_list = json_is_string(sep);
        if (!json_is_null(sep)) c->list_sep = rt_json_byte(j, o, "list"); /* missing: an error */
        c->axis = (int)rt_json_int(j, o, "axis", -1, m->n_axes - 1);
        if (c->is_list && c->axis < 0) rt_json_fail(j, "a list without an axis");
        json_t *d = j->failed ? NULL : json_object_get(o, "default");
        c->has_default = d && !json_is_null(d);
        if (json_is_string(d)) {
            c->default_str = rt_json_str(j, o, "default");
            c->default_len = json_string_length(d);
        } else if (!json_is_null(d))
            c->default_num = rt_json_num(j, o, "default");
        c->positive = rt_json_str_or_null(j, o, "positive");
        c->negative = rt_json_str_or_null(j, o, "negative");
        c->from = rt_json_str_or_null(j, o, "from");
        c->side = (int)rt_json_int(j, o, "side", 0, 1);
        c->used = rt_json_bool(j, o, "used");
        c->used_predict = rt_json_bool(j, o, "used_predict");
        c->unit_label = rt_json_bool(j, o, "unit_label");
    }
}

static void parse_axes(Parse *p) {
    RtJson *j = &p->j;
    LIST(p, "axes", axes, n_axes)
    for (int i = 0; i < n_list; i++) {
        const json_t *o = item(p, list, "axes", i);
        RtAxis *a = &m->axes[i];
        a->name = rt_json_str(j, o, "name");
        a->kind = rt_json_word(j, o, "kind", WORDS("list", "first", "last", "filter", "append"));
        a->parent = (int)rt_json_int(j, o, "parent", -1, i - 1); /* above it */
        if ((a->kind == RT_AXIS_LIST) != (a->parent < 0)) rt_json_fail(j, "only a derived axis has a parent");
        a->max = rt_json_int(j, o, "max", 0, INT64_MAX);
        a->shared = rt_json_bool(j, o, "shared");
    }
}

static void parse_parts(Parse *p, const json_t *o, RtFeature *f, int before) {
    RtJson *j = &p->j;
    const json_t *in = rt_json_get(j, o, "in", JSON_ARRAY);
    f->n_in = (int)json_array_size(in);
    f->in = rt_json_alloc(j, f->n_in, sizeof *f->in);
    if (in && !f->n_in) rt_json_fail(j, "key 'in': expected at least one part");
    for (int k = 0; k < f->n_in && !j->failed; k++) {
        const json_t *v = json_array_get(in, k);
        const char *kind = json_string_value(json_array_get(v, 0));
        const json_t *num = json_array_get(v, 1);
        if (!kind || (strcmp(kind, "c") && strcmp(kind, "f")) || !json_is_integer(num)) {
            rt_json_fail(j, "key 'in': expected pairs [\"c\" or \"f\", number]");
            return;
        }
        f->in[k].is_column = kind[0] == 'c';
        int64_t index = json_integer_value(num), limit = f->in[k].is_column ? p->m->n_columns : before;
        if (index < 0 || index >= limit)
            rt_json_fail(j, "key 'in': %s %lld is not an earlier one", kind[0] == 'c' ? "column" : "feature",
                         (long long)index);
        f->in[k].index = (int)index;
    }
}

static void parse_features(Parse *p) {
    RtJson *j = &p->j;
    LIST(p, "features", features, n_features)
    for (int i = 0; i < n_list; i++) {
        const json_t *o = item(p, list, "features", i);
        RtFeature *f = &m->features[i];
        f->op = rt_json_word(j, o, "op",
                             WORDS("value", "number", "hash", "vocab", "bucketize", "identity", "cross",
                                   "truncate", "positions", "key", "offset"));
        parse_parts(p, o, f, i);
        f->type = rt_json_word(j, o, "type", WORDS("f32", "id", "key", "str", "int"));
        f->axis = (int)rt_json_int(j, o, "axis", -1, m->n_axes - 1);
        f->predict = rt_json_bool(j, o, "predict");
        if (f->type == RT_T_ID) f->bound = rt_json_int(j, o, "bound", 0, (int64_t)UINT32_MAX);
        f->vocab = -1;
        f->unknown = -1;
        switch (f->op) { /* only what the op needs must be there */
        case RT_F_HASH:
            f->farm64 = rt_json_word(j, o, "fn", WORDS("xxh3", "farm64")) == 1;
            f->buckets = rt_json_int(j, o, "buckets", 1, (int64_t)UINT32_MAX);
            break;
        case RT_F_OFFSET:
            f->by = rt_json_int(j, o, "by", 1 - (int64_t)UINT32_MAX, (int64_t)UINT32_MAX - 1);
            break;
        case RT_F_CROSS: f->buckets = rt_json_int(j, o, "buckets", 1, (int64_t)UINT32_MAX); break;
        case RT_F_VOCAB:
            f->vocab = (int)rt_json_int(j, o, "vocab", 0, m->n_vocabs - 1);
            f->unknown = rt_json_int(j, o, "unknown", -1, (int64_t)UINT32_MAX - 1);
            break;
        case RT_F_BUCKETIZE: f->bounds = rt_json_nums(j, o, "bounds", &f->n_bounds); break;
        default: break;
        }
    }
}

static void parse_inputs(Parse *p) {
    RtJson *j = &p->j;
    LIST(p, "inputs", inputs, n_inputs)
    for (int i = 0; i < n_list; i++) {
        const json_t *o = item(p, list, "inputs", i);
        RtInput *in = &m->inputs[i];
        in->kind = rt_json_word(j, o, "as", WORDS("f32", "id", "key", "lookup"));
        bool lookup = in->kind == RT_IN_LOOKUP;
        in->index = (int)rt_json_int(j, o, lookup ? "lookup" : "feature", 0,
                                     (lookup ? m->n_lookups : m->n_features) - 1);
    }
}

static void parse_lookups(Parse *p) {
    RtJson *j = &p->j;
    LIST(p, "lookups", lookups, n_lookups)
    for (int i = 0; i < n_list; i++) {
        const json_t *o = item(p, list, "lookups", i);
        RtLookup *l = &m->lookups[i];
        l->feature = (int)rt_json_int(j, o, "feature", 0, m->n_features - 1);
        l->table = (int)rt_json_int(j, o, "table", 0, m->n_weights - 1);
        l->pooled = rt_json_bool(j, o, "pooled");
        for (int k = 0; k < i; k++) l->ordinal += m->lookups[k].table == l->table;
        if (l->ordinal > 255) rt_json_fail(j, "more than 256 lookups of one table");
    }
}

static void parse_vocabs(Parse *p, const RtBlob *blobs) {
    RtJson *j = &p->j;
    LIST(p, "vocabs", vocabs, n_vocabs)
    for (int i = 0; i < n_list; i++) {
        const json_t *o = item(p, list, "vocabs", i);
        RtVocab *v = &m->vocabs[i];
        v->path = rt_json_str_or_null(j, o, "path");
        v->n = rt_json_int(j, o, "n", 0, (int64_t)UINT32_MAX);
        v->digest = strtoull(rt_json_str(j, o, "digest"), NULL, 16);
        if (blobs) {
            v->text = blobs[i].data;
            v->bytes = blobs[i].bytes;
        }
    }
}

static void parse_weights(Parse *p) {
    RtJson *j = &p->j;
    LIST(p, "weights", weights, n_weights)
    for (int i = 0; i < n_list; i++) {
        const json_t *o = item(p, list, "weights", i);
        RtWeight *w = &m->weights[i];
        w->name = rt_json_str(j, o, "name");
        const json_t *shape = rt_json_get(j, o, "shape", JSON_ARRAY);
        w->rank = (int)json_array_size(shape);
        if (w->rank > 6) rt_json_fail(j, "key 'shape': more than 6 dimensions");
        w->size = 1;
        for (int k = 0; k < w->rank && !j->failed; k++) {
            w->dim[k] = json_integer_value(json_array_get(shape, k));
            if (w->dim[k] < 1)
                rt_json_fail(j, "key 'shape': expected sizes from 1");
            else if (__builtin_mul_overflow(w->size, (uint64_t)w->dim[k], &w->size) || w->size >> 46)
                rt_json_fail(j, "key 'shape': too large");
        }
        const char *const kinds[] = {
            "zeros",   "ones",           "constant",      "normal",   "truncated_normal",
            "uniform", "glorot_uniform", "glorot_normal", "he_normal"};
        w->init = rt_json_str(j, o, "init");
        rt_json_word(j, o, "init", kinds, 9);
        w->init_arg = rt_json_num(j, o, "arg");
        w->table = rt_json_bool(j, o, "table");
        w->lazy = rt_json_bool(j, o, "lazy");
        w->sparse = rt_json_bool(j, o, "sparse");
        w->running = rt_json_bool(j, o, "running");
        w->trainable = rt_json_bool(j, o, "trainable");
        if (w->sparse && w->rank < 1) rt_json_fail(j, "a sparse weight without rows");
        if (w->sparse && w->dim[0] >= (int64_t)RT_NO_ID) rt_json_fail(j, "a table of 2^32-1 rows or more");
        w->optimizer = (int)rt_json_int(j, o, "optimizer", -1, m->n_opts - 1);
        int n;
        const char **slots = rt_json_strs(j, o, "slots", &n);
        if (n > 3) rt_json_fail(j, "key 'slots': more than 3");
        for (int k = 0; k < n && k < 3; k++) w->slots[k] = slots[k];
        w->n_slots = n < 3 ? n : 3;
    }
}

static void parse_sched(Parse *p, const json_t *o, RtSched *s, int depth) {
    RtJson *j = &p->j;
    s->kind = rt_json_word(j, o, "kind", WORDS("const", "exponential", "cosine", "piecewise", "warmup"));
    switch (s->kind) {
    case RT_LR_CONST: s->lr = rt_json_num(j, o, "lr"); break;
    case RT_LR_EXPONENTIAL:
        s->lr = rt_json_num(j, o, "lr");
        s->rate = rt_json_num(j, o, "rate");
        s->every = rt_json_num(j, o, "every");
        break;
    case RT_LR_COSINE:
        s->lr = rt_json_num(j, o, "lr");
        s->steps = rt_json_num(j, o, "steps");
        s->end = rt_json_num(j, o, "end");
        break;
    case RT_LR_PIECEWISE: {
        int values;
        s->at = rt_json_nums(j, o, "at", &s->n);
        s->values = rt_json_nums(j, o, "values", &values);
        if (values != s->n + 1)
            rt_json_fail(j, "piecewise: expected %d values for %d bounds, found %d", s->n + 1, s->n, values);
        break;
    }
    case RT_LR_WARMUP: {
        s->steps = rt_json_num(j, o, "steps");
        s->then = rt_json_alloc(j, 1, sizeof *s->then);
        const json_t *then = rt_json_get(j, o, "then", JSON_OBJECT);
        if (depth > 8) rt_json_fail(j, "schedules nested too deep");
        if (then && !j->failed) parse_sched(p, then, s->then, depth + 1);
        break;
    }
    }
}

static void parse_opts(Parse *p) {
    RtJson *j = &p->j;
    LIST(p, "optimizers", opts, n_opts)
    const char *const kinds[] = {"sgd",     "momentum", "adagrad",    "adagrad_decay",
                                 "rmsprop", "adam",     "adam_async", "ftrl"};
    for (int i = 0; i < n_list; i++) {
        const json_t *o = item(p, list, "optimizers", i);
        RtOptimizer *t = &m->opts[i];
        t->kind_name = rt_json_str(j, o, "kind");
        t->kind = rt_json_word(j, o, "kind", kinds, 8);
        t->clip_norm = rt_json_num(j, o, "clip_norm");
        t->l2 = rt_json_num(j, o, "l2");
        t->momentum = rt_json_num(j, o, "momentum");
        t->init = rt_json_num(j, o, "init");
        t->rate = rt_json_num(j, o, "rate");
        t->every = rt_json_num(j, o, "every");
        t->beta1 = rt_json_num(j, o, "beta1");
        t->beta2 = rt_json_num(j, o, "beta2");
        t->eps = rt_json_num(j, o, "eps");
        t->rho = rt_json_num(j, o, "rho");
        t->l1_ftrl = rt_json_num(j, o, "l1");
        t->l2_ftrl = rt_json_num(j, o, "l2_ftrl");
        t->exact = rt_json_bool(j, o, "exact");
        const json_t *lr = rt_json_get(j, o, "lr", JSON_OBJECT);
        rt_json_at(j, "optimizers", i, "lr");
        if (lr) parse_sched(p, lr, &t->lr, 0);
    }
}

static void parse_nodes(Parse *p, const json_t *fn, RtFunction *f, const char *fn_name) {
    RtJson *j = &p->j;
    const json_t *list = rt_json_get(j, fn, "nodes", JSON_ARRAY);
    f->n_nodes = (int)json_array_size(list);
    f->nodes = rt_json_alloc(j, f->n_nodes, sizeof *f->nodes);
    for (int i = 0; i < f->n_nodes && !j->failed; i++) {
        const json_t *o = json_array_get(list, i);
        snprintf(j->where, sizeof j->where, "functions.%s.nodes[%d]", fn_name, i);
        f->nodes[i].id = (int)rt_json_int(j, o, "id", 0, INT32_MAX);
        f->nodes[i].op = rt_json_str(j, o, "op");
        f->nodes[i].ops = json_object_get(o, "ops") ? rt_json_str(j, o, "ops") : f->nodes[i].op;
        f->nodes[i].name = rt_json_str_or_null(j, o, "name");
        f->nodes[i].at = rt_json_str_or_null(j, o, "at");
        f->nodes[i].type = rt_json_str(j, o, "type");
    }
}

static void parse_outputs(Parse *p, const json_t *fn, RtFunction *f, const char *fn_name) {
    RtJson *j = &p->j;
    const json_t *list = rt_json_get(j, fn, "outputs", JSON_ARRAY);
    f->n_outputs = (int)json_array_size(list);
    f->outputs = rt_json_alloc(j, f->n_outputs, sizeof *f->outputs);
    for (int i = 0; i < f->n_outputs && !j->failed; i++) {
        const json_t *o = json_array_get(list, i);
        snprintf(j->where, sizeof j->where, "functions.%s.outputs[%d]", fn_name, i);
        RtPlace *q = &f->outputs[i];
        q->region = rt_json_word(j, o, "region", WORDS("fixed", "axis", "uniq", "input"));
        q->axis = q->input = -1;
        if (q->region == RT_AT_INPUT)
            q->input = (int)rt_json_int(j, o, "input", 0, p->m->n_inputs - 1);
        else
            q->offset = rt_json_int(j, o, "offset", 0, INT64_MAX);
        if (q->region == RT_AT_AXIS) q->axis = (int)rt_json_int(j, o, "axis", 0, p->m->n_axes - 1);
        if (q->region == RT_AT_UNIQ) q->axis = (int)rt_json_int(j, o, "axis", 0, p->m->n_weights - 1);
    }
}

static const char *const fn_names[RT_FUNCTIONS_N] = {"train", "eval", "predict"};

static void parse_functions(Parse *p) {
    RtJson *j = &p->j;
    rt_json_at(j, NULL, 0, NULL);
    const json_t *all = rt_json_get(j, p->root, "functions", JSON_OBJECT);
    for (int i = 0; i < RT_FUNCTIONS_N && !j->failed; i++) {
        RtFunction *f = &p->m->fn[i];
        snprintf(j->where, sizeof j->where, "functions");
        const json_t *o = rt_json_get(j, all, fn_names[i], JSON_OBJECT);
        snprintf(j->where, sizeof j->where, "functions.%s", fn_names[i]);
        f->fixed_bytes = rt_json_int(j, o, "fixed_bytes", 0, INT64_MAX >> 8);
        f->scratch_bytes = rt_json_int(j, o, "scratch_bytes", 0, INT64_MAX >> 8);
        f->row_block = rt_json_int(j, o, "row_block", 1, INT64_MAX >> 8);
        f->local_elems = rt_json_u64s(j, o, "local_elems", p->m->n_axes);
        f->axis_elems = rt_json_u64s(j, o, "axis_elems", p->m->n_axes);
        f->uniq_elems = rt_json_u64s(j, o, "uniq_elems", p->m->n_weights);
        f->flops = rt_json_num(j, o, "flops");
        parse_nodes(p, o, f, fn_names[i]);
        if (!j->failed) parse_outputs(p, o, f, fn_names[i]);
    }
}

/* One output number for each of the first n functions. */
static void parse_per_fn(Parse *p, const json_t *o, const char *key, int *out, int n) {
    const json_t *v = rt_json_get(&p->j, o, key, JSON_OBJECT);
    for (int i = 0; i < n; i++)
        out[i] = v ? (int)rt_json_int(&p->j, v, fn_names[i], 0, p->m->fn[i].n_outputs - 1) : -1;
}
static void parse_per_fn_or_null(Parse *p, const json_t *o, const char *key, int *out, int n) {
    if (!p->j.failed && json_is_null(json_object_get(o, key))) {
        for (int i = 0; i < n; i++) out[i] = -1;
    } else
        parse_per_fn(p, o, key, out, n);
}

static void parse_predictions(Parse *p) {
    LIST(p, "predictions", predictions, n_predictions)
    for (int i = 0; i < n_list; i++) {
        const json_t *o = item(p, list, "predictions", i);
        m->predictions[i].name = rt_json_str(&p->j, o, "name");
        parse_per_fn(p, o, "output", m->predictions[i].output, RT_FUNCTIONS_N);
    }
}

static bool predicts(const RtModel *m, const char *name) {
    for (int i = 0; i < m->n_predictions; i++)
        if (!strcmp(m->predictions[i].name, name)) return true;
    return false;
}

/* The prediction's name; of a second metric of its kind (another label, other rows) name_1, and so on. */
static const char *metric_key(RtJson *j, const RtModel *m, int metric) {
    const RtMetric *t = &m->metrics[metric];
    const char *name = m->predictions[t->prediction].name;
    int same = 0;
    for (int i = 0; i < metric; i++)
        same += m->metrics[i].kind == t->kind && m->metrics[i].prediction == t->prediction;
    if (same == 0) return name;
    size_t bytes = strlen(name) + 16;
    char *key = rt_json_alloc(j, (int)bytes, 1);
    for (int k = 1; same > 0; k++) {
        snprintf(key, bytes, "%s_%d", name, k);
        if (!predicts(m, key)) same--;
    }
    return key;
}

static void parse_metrics(Parse *p) {
    RtJson *j = &p->j;
    LIST(p, "metrics", metrics, n_metrics)
    for (int i = 0; i < n_list; i++) {
        const json_t *o = item(p, list, "metrics", i);
        RtMetric *t = &m->metrics[i];
        t->kind = rt_json_word(j, o, "kind", WORDS("auc", "gauc", "logloss", "pcoc", "accuracy"));
        const char *name = rt_json_str(j, o, "prediction");
        t->prediction = -1;
        for (int k = 0; k < m->n_predictions; k++)
            if (!strcmp(m->predictions[k].name, name)) t->prediction = k;
        if (t->prediction < 0) {
            rt_json_fail(j, "there is no prediction '%s'", name);
            return;
        }
        t->key = metric_key(j, m, i);
        parse_per_fn(p, o, "p", t->p, 2);
        parse_per_fn(p, o, "y", t->y, 2);
        parse_per_fn_or_null(p, o, "where", t->where, 2);
        parse_per_fn_or_null(p, o, "by", t->by, 2);
        if (t->kind == RT_GAUC && t->by[0] < 0) rt_json_fail(j, "gauc without groups");
    }
}

static void parse_all(Parse *p, const RtBlob *blobs) {
    rt_json_at(&p->j, NULL, 0, NULL);
    int64_t abi = rt_json_int(&p->j, p->root, "abi", INT64_MIN, INT64_MAX);
    if (!p->j.failed && abi != RT_ABI_VERSION)
        rt_json_fail(&p->j, "made for runtime interface %lld, this runtime has %d", (long long)abi,
                     RT_ABI_VERSION);
    if (p->j.failed) return;
    /* in order of what refers to what; the first error makes the rest return at once */
    parse_head(p);
    parse_params(p);
    parse_input(p);
    parse_axes(p);
    parse_columns(p);
    parse_vocabs(p, blobs);
    parse_features(p);
    parse_opts(p);
    parse_weights(p);
    parse_lookups(p);
    parse_inputs(p);
    parse_functions(p);
    parse_predictions(p);
    parse_metrics(p);
}

RtModel *rt_model_parse(const char *json, size_t bytes, const RtBlob *blobs, char *err, size_t err_bytes) {
    json_error_t e;
    json_t *root = json_loadb(json, bytes, JSON_ALLOW_NUL, &e);
    if (!root) {
        snprintf(err, err_bytes, "model description:%d:%d: %s", e.line, e.column, e.text);
        return NULL;
    }
    char detail[400] = "";
    Owned *own = calloc(1, sizeof *own);
    if (!own) rt_out_of_memory();
    Parse p = {.j = {.err = detail, .err_bytes = sizeof detail}, .m = &own->m, .root = root};
    if (json_is_object(root))
        parse_all(&p, blobs);
    else
        rt_json_fail(&p.j, "expected an object");
    json_decref(root);
    own->blocks = p.j.blocks;
    if (!p.j.failed) return &own->m;
    rt_model_free(&own->m);
    snprintf(err, err_bytes, "model description: %s", detail);
    return NULL;
}

void rt_model_free(RtModel *m) {
    if (!m) return;
    for (int i = 0; i < m->n_vocabs; i++) rt_vocab_table_free(m->vocabs[i].table);
    rt_json_free_blocks(((Owned *)m)->blocks);
    free(m);
}
