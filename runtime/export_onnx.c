/* `export --format onnx`: the graph that the program carries (JSON, its form is told in backend/onnx.c) with
 * the checkpoint's weights, as ONNX's protobuf. Field numbers are those of the ONNX format. The weights are
 * written straight from the tables; one after another they may be larger than memory. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/export.h"
#include "runtime/message.h"
#include "runtime/program.h"
#include "runtime/protobuf.h"

enum { IR_VERSION = 9, OPSET = 18 };
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    MODEL_METADATA = 14
};
enum { OPSET_VERSION = 2, ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_S = 4, ATTR_G = 6, ATTR_INTS = 8, ATTR_TYPE = 20 };
enum { ATTR_IS_FLOAT = 1, ATTR_IS_INT = 2, ATTR_IS_STRING = 3, ATTR_IS_GRAPH = 5, ATTR_IS_INTS = 7 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, VALUE_DOC = 3, TYPE_TENSOR = 1, TYPE_ELEM = 1, TYPE_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_PARAM = 2 };
enum { ELEM_F32 = 1, ELEM_I64 = 7 };

static const char *text_at(const json_t *array, size_t i) {
    return json_string_value(json_array_get(array, i));
}
static const char *text_of(const json_t *o, const char *key) {
    return json_string_value(json_object_get(o, key));
}
static bool is_i64(const json_t *o) { return !strcmp(text_of(o, "type"), "i64"); }

/* ---- nodes ---- */

static void put_value(RtProto *w, uint32_t field, const char *name, int elem, const char *dim,
                      const char *doc) {
    RtProto value = {0}, type = {0}, tensor = {0}, shape = {0}, one = {0};
    rt_proto_int(&tensor, TYPE_ELEM, elem);
    if (dim) {
        rt_proto_text(&one, DIM_PARAM, dim);
        rt_proto_message(&shape, SHAPE_DIM, &one);
        rt_proto_message(&tensor, TYPE_SHAPE, &shape);
    }
    rt_proto_message(&type, TYPE_TENSOR, &tensor);
    rt_proto_text(&value, VALUE_NAME, name);
    rt_proto_message(&value, VALUE_TYPE, &type);
    if (doc) rt_proto_text(&value, VALUE_DOC, doc);
    rt_proto_message(w, field, &value);
}

static void put_nodes(RtProto *w, const json_t *nodes);

/* A loop's body. Types of its inputs and outputs: all that a layer's state is made of are numbers. */
static void put_body(RtProto *w, const char *name, const json_t *body) {
    RtProto g = {0};
    size_t i;
    json_t *x;
    put_nodes(&g, json_object_get(body, "nodes"));
    rt_proto_text(&g, GRAPH_NAME, name);
    json_array_foreach(json_object_get(body, "inputs"), i, x)
        put_value(&g, GRAPH_INPUT, json_string_value(x), ELEM_F32, NULL, NULL);
    json_array_foreach(json_object_get(body, "outputs"), i, x)
        put_value(&g, GRAPH_OUTPUT, json_string_value(x), ELEM_F32, NULL, NULL);
    rt_proto_message(w, ATTR_G, &g);
}

static void put_attribute(RtProto *w, const char *name, const json_t *v) {
    RtProto a = {0};
    size_t i;
    json_t *x;
    int type = ATTR_IS_STRING;
    rt_proto_text(&a, ATTR_NAME, name);
    if (json_is_integer(v)) {
        rt_proto_int(&a, ATTR_I, json_integer_value(v));
        type = ATTR_IS_INT;
    } else if (json_is_real(v)) {
        rt_proto_float(&a, ATTR_F, (float)json_real_value(v));
        type = ATTR_IS_FLOAT;
    } else if (json_is_array(v)) {
        json_array_foreach(v, i, x) rt_proto_int(&a, ATTR_INTS, json_integer_value(x));
        type = ATTR_IS_INTS;
    } else if (json_is_object(v)) {
        put_body(&a, name, v);
        type = ATTR_IS_GRAPH;
    } else
        rt_proto_text(&a, ATTR_S, json_string_value(v));
    rt_proto_int(&a, ATTR_TYPE, type);
    rt_proto_message(w, NODE_ATTRIBUTE, &a);
}

static void put_node(RtProto *w, const json_t *node) {
    RtProto n = {0};
    size_t i;
    const char *key;
    json_t *x;
    json_array_foreach(json_array_get(node, 1), i, x) rt_proto_text(&n, NODE_INPUT, json_string_value(x));
    json_array_foreach(json_array_get(node, 2), i, x) rt_proto_text(&n, NODE_OUTPUT, json_string_value(x));
    rt_proto_text(&n, NODE_NAME, text_at(json_array_get(node, 2), 0));
    rt_proto_text(&n, NODE_OP, text_at(node, 0));
    json_object_foreach(json_array_get(node, 3), key, x) put_attribute(&n, key, x);
    rt_proto_message(w, GRAPH_NODE, &n);
}

static void put_nodes(RtProto *w, const json_t *nodes) {
    size_t i;
    json_t *x;
    json_array_foreach(nodes, i, x) put_node(w, x);
}

/* ---- constants ---- */

static void put_constant(RtProto *w, const json_t *c) {
    RtProto t = {0};
    const json_t *shape = json_object_get(c, "shape"), *values = json_object_get(c, "values");
    size_t i, n = json_array_size(values), size = is_i64(c) ? sizeof(int64_t) : sizeof(float);
    json_t *x;
    char *raw = malloc(n * size + 1);
    if (!raw) rt_out_of_memory();
    json_array_foreach(shape, i, x) rt_proto_int(&t, TENSOR_DIMS, json_integer_value(x));
    json_array_foreach(values, i, x) {
        int64_t whole = json_integer_value(x);
        float real = (float)json_number_value(x);
        memcpy(raw + i * size, is_i64(c) ? (const void *)&whole : (const void *)&real, size);
    }
    rt_proto_int(&t, TENSOR_TYPE, is_i64(c) ? ELEM_I64 : ELEM_F32);
    rt_proto_text(&t, TENSOR_NAME, text_of(c, "name"));
    rt_proto_bytes(&t, TENSOR_RAW, raw, n * size);
    free(raw);
    rt_proto_message(w, GRAPH_INITIALIZER, &t);
}

static void put_scalar(RtProto *w, const char *name, double v) {
    json_t *c = json_pack("{s:s,s:s,s:[],s:[f]}", "name", name, "type", "f32", "shape", "values", v);
    put_constant(w, c);
    json_decref(c);
}

/* ---- predictions ---- */

static void put_op(RtProto *w, const char *op, const char *a, const char *b, const char *c, const char *to) {
    json_t *in = json_array(), *node;
    const char *const names[] = {a, b, c};
    for (int i = 0; i < 3 && names[i]; i++) json_array_append_new(in, json_string(names[i]));
    node = json_pack("[s,o,[s],{}]", op, in, to);
    put_node(w, node);
    json_decref(node);
}

/* What rt_corrected does, for weights that were trained on a share of the negatives: p / (p + (1 - p) /
 * share) where p is a probability. Names begin with the prediction's, so they are nobody else's. */
static void put_correction(RtProto *w, const char *p, const char *to) {
    static const char *const steps[][4] = {
        {"Sub", "ctrc:1", "P", "T:rest"},          {"Div", "T:rest", "ctrc:share", "T:negatives"},
        {"Add", "P", "T:negatives", "T:all"},      {"Div", "P", "T:all", "T:corrected"},
        {"GreaterOrEqual", "P", "ctrc:0", "T:lo"}, {"LessOrEqual", "P", "ctrc:1", "T:hi"},
        {"And", "T:lo", "T:hi", "T:probability"}};
    char name[3][300];
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        for (int k = 0; k < 3; k++) {
            const char *s = steps[i][k + 1];
            if (*s == 'P')
                snprintf(name[k], sizeof name[k], "%s", p);
            else
                snprintf(name[k], sizeof name[k], "%s%s", *s == 'T' ? to : "", *s == 'T' ? s + 1 : s);
        }
        put_op(w, steps[i][0], name[0], name[1], NULL, name[2]);
    }
    snprintf(name[0], sizeof name[0], "%s:probability", to);
    snprintf(name[1], sizeof name[1], "%s:corrected", to);
    put_op(w, "Where", name[0], name[1], p, to);
}

static void put_predictions(RtProto *w, const json_t *outputs, double keep) {
    size_t i;
    json_t *x;
    if (keep < 1) {
        put_scalar(w, "ctrc:0", 0);
        put_scalar(w, "ctrc:1", 1);
        put_scalar(w, "ctrc:share", keep);
    }
    json_array_foreach(outputs, i, x) {
        if (keep < 1)
            put_correction(w, text_of(x, "value"), text_of(x, "name"));
        else
            put_op(w, "Identity", text_of(x, "value"), NULL, NULL, text_of(x, "name"));
        put_value(w, GRAPH_OUTPUT, text_of(x, "name"), ELEM_F32, "rows", NULL);
    }
}

/* ---- the model ---- */

static void put_metadata(RtProto *w, const char *key, const char *value) {
    RtProto e = {0};
    rt_proto_text(&e, ENTRY_KEY, key);
    rt_proto_text(&e, ENTRY_VALUE, value);
    rt_proto_message(w, MODEL_METADATA, &e);
}

/* All but the graph. */
static RtProto model_head(const RtModel *m, double keep) {
    RtProto w = {0}, opset = {0};
    char share[40];
    json_t *missing = json_array();
    for (int i = 0; i < m->n_missing; i++) json_array_append_new(missing, json_string(m->missing[i]));
    char *texts = json_dumps(missing, JSON_COMPACT);
    rt_proto_int(&w, MODEL_IR_VERSION, IR_VERSION);
    rt_proto_text(&w, MODEL_PRODUCER, "ctrc");
    rt_proto_text(&w, MODEL_PRODUCER_VERSION, m->ctrc);
    rt_proto_int(&opset, OPSET_VERSION, OPSET);
    rt_proto_message(&w, MODEL_OPSET, &opset);
    put_metadata(&w, "model", m->name);
    put_metadata(&w, "digest", m->digest);
    snprintf(share, sizeof share, "%.17g", keep);
    put_metadata(&w, "keep_negatives", share);
    put_metadata(&w, "separator", (char[]){m->separator, 0});
    put_metadata(&w, "quote", (char[]){m->quote, 0});
    put_metadata(&w, "header", m->header ? "true" : "false");
    put_metadata(&w, "trim", m->trim ? "true" : "false");
    put_metadata(&w, "missing", texts);
    free(texts);
    json_decref(missing);
    return w;
}

static RtProto graph_body(const RtModel *m, const json_t *graph, double keep) {
    RtProto g = {0};
    size_t i;
    json_t *x;
    put_nodes(&g, json_object_get(graph, "nodes"));
    rt_proto_text(&g, GRAPH_NAME, m->name);
    json_array_foreach(json_object_get(graph, "constants"), i, x) put_constant(&g, x);
    json_array_foreach(json_object_get(graph, "inputs"), i, x) {
        char *doc = json_dumps(json_object_get(x, "doc"), JSON_COMPACT);
        put_value(&g, GRAPH_INPUT, text_of(x, "name"), is_i64(x) ? ELEM_I64 : ELEM_F32,
                  text_at(json_object_get(x, "shape"), 0), doc);
        free(doc);
    }
    put_predictions(&g, json_object_get(graph, "outputs"), keep);
    return g;
}

/* A weight's field of the graph up to its values, whose bytes follow. */
static RtProto weight_head(const RtWeight *w) {
    RtProto t = {0}, all = {0};
    for (int k = 0; k < w->rank; k++) rt_proto_int(&t, TENSOR_DIMS, w->dim[k]);
    rt_proto_int(&t, TENSOR_TYPE, ELEM_F32);
    rt_proto_text(&t, TENSOR_NAME, w->name);
    rt_proto_head(&t, TENSOR_RAW, w->size * sizeof(float));
    rt_proto_head(&all, GRAPH_INITIALIZER, t.n + w->size * sizeof(float));
    rt_proto_raw(&all, t.data, t.n);
    rt_proto_free(&t);
    return all;
}

static bool put_file(void *f, const void *data, uint64_t bytes) { return fwrite(data, 1, bytes, f) == bytes; }

static const RtWeight *weight_at(const RtModel *m, const json_t *weights, size_t i, int *number) {
    *number = (int)json_integer_value(json_array_get(weights, i));
    return *number >= 0 && *number < m->n_weights ? &m->weights[*number] : NULL;
}

/* Head, graph with its length, weights. What goes wrong is seen when the file is closed. */
static void write_model(FILE *f, const RtModel *m, RtTables *t, const json_t *weights, const RtProto *head,
                        const RtProto *body) {
    int number;
    bool ok = put_file(f, head->data, head->n) && put_file(f, body->data, body->n);
    for (size_t i = 0; i < json_array_size(weights) && ok; i++) {
        const RtWeight *x = weight_at(m, weights, i, &number);
        RtProto w = weight_head(x);
        ok = put_file(f, w.data, w.n) && rt_weight_values(t, number, put_file, f);
        rt_proto_free(&w);
    }
}

static bool write_graph(FILE *f, const RtModel *m, RtTables *t, const json_t *graph, char *err,
                        size_t err_bytes) {
    const json_t *weights = json_object_get(graph, "weights");
    double keep = *rt_tables_keep_negatives(t);
    RtProto head = model_head(m, keep), body = graph_body(m, graph, keep);
    uint64_t bytes = body.n;
    int number;
    for (size_t i = 0; i < json_array_size(weights); i++) {
        const RtWeight *x = weight_at(m, weights, i, &number);
        RtProto w = weight_head(x);
        bytes += w.n + x->size * sizeof(float);
        rt_proto_free(&w);
    }
    rt_proto_head(&head, MODEL_GRAPH, bytes);
    bytes += head.n;
    bool fits = bytes <= INT32_MAX; /* protobuf's limit for a message */
    if (fits) write_model(f, m, t, weights, &head, &body);
    if (!fits)
        snprintf(err, err_bytes,
                 "the model '%s' takes %.1f GB, an ONNX file holds less than 2 GB\n"
                 "hint: --format safetensors has no such limit",
                 m->name, (double)bytes / 1e9);
    rt_proto_free(&head);
    rt_proto_free(&body);
    return fits;
}

bool rt_onnx_write(FILE *f, const RtModel *m, RtTables *t, char *err, size_t err_bytes) {
    const RtProgram *p = m->program;
    json_t *graph = p->graph ? json_loadb(p->graph, p->graph_bytes, 0, NULL) : NULL;
    const char *lacks = text_of(graph, "lacks");
    bool ok = graph && !lacks && write_graph(f, m, t, graph, err, err_bytes);
    if (!graph)
        snprintf(err, err_bytes, "the program has no ONNX graph");
    else if (lacks)
        snprintf(err, err_bytes, "the model '%s' cannot be written as ONNX: there is no form for %s", m->name,
                 lacks);
    json_decref(graph);
    return ok;
}
