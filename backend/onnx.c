/* The prediction as an ONNX graph, for `MODEL export --format onnx`. It is made from the finished function
 * `predict`, regions taken apart again, so it says what the program computes, whatever passes have rewritten,
 * and an .ir file that was read at any stage has it, too. The program carries it as JSON; the runtime puts a
 * checkpoint's weights to it and writes protobuf (runtime/export_onnx.c):
 *
 *   {"inputs":    [{"name","type":"f32|i64","shape":["rows"],"doc":{…}}],
 *    "constants": [{"name","type","shape":[],"values":[…]}],
 *    "nodes":     [["MatMul", ["x","deep.dense.kernel"], ["v3"], {"axis":1}]],
 *    "outputs":   [{"name":"ctr","value":"v9"}],
 *    "weights":   [0, 4],
 *    "lacks":     null}
 *
 * Weights have their own names. A real attribute is an ONNX float, an integer an int, an array ints, a text a
 * string, an object a body {"inputs":[names],"outputs":[names],"nodes":[…]}. "lacks" names an op that has no
 * ONNX form: then the program can't be exported, and says so. */
#include "backend/onnx.h"
#include <stdlib.h>
#include <string.h>

/* ---- nodes and constants ---- */

Name onnx_new(Onnx *o) { return arena_printf(o->arena, "v:%d", o->n_values++); }

Name onnx_node(Onnx *o, const char *op, json_t *attrs, int n_in, const Name *in) {
    json_t *inputs = json_array();
    Name out = onnx_new(o);
    for (int i = 0; i < n_in; i++) json_array_append_new(inputs, json_string(in[i] ? in[i] : ""));
    json_array_append_new(o->nodes, json_pack("[s,o,[s],o]", op, inputs, out, attrs ? attrs : json_object()));
    return out;
}

Name onnx_1(Onnx *o, const char *op, Name x) { return onnx_node(o, op, NULL, 1, &x); }
Name onnx_2(Onnx *o, const char *op, Name x, Name y) { return onnx_node(o, op, NULL, 2, (Name[]){x, y}); }
Name onnx_cast(Onnx *o, Name x, int to) { return onnx_node(o, "Cast", json_pack("{s:i}", "to", to), 1, &x); }

static Name known(const Onnx *o, const char *key) {
    return json_string_value(json_object_get(o->known, key));
}
static Name remember(Onnx *o, const char *key, Name name) {
    json_object_set_new(o->known, key, json_string(name));
    return name;
}

/* values is taken over. The key of a constant is its whole text. */
static Name constant(Onnx *o, const char *type, json_t *shape, json_t *values) {
    json_t *c = json_pack("{s:s,s:o,s:o}", "type", type, "shape", shape, "values", values);
    char *text = json_dumps(c, JSON_COMPACT);
    const char *key = arena_strdup(o->arena, text);
    free(text);
    Name name = known(o, key);
    if (!name) {
        name = arena_printf(o->arena, "const:%zu", json_array_size(o->constants));
        json_object_set_new(c, "name", json_string(name));
        json_array_append(o->constants, c);
        remember(o, key, name);
    }
    json_decref(c);
    return name;
}

static json_t *int_array(const int64_t *v, int n) {
    json_t *a = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(a, json_integer(v[i]));
    return a;
}

Name onnx_int(Onnx *o, int64_t v) { return constant(o, "i64", json_array(), int_array(&v, 1)); }
Name onnx_ints(Onnx *o, const int64_t *v, int n) {
    return constant(o, "i64", int_array(&(int64_t){n}, 1), int_array(v, n));
}
Name onnx_real(Onnx *o, double v) { return constant(o, "f32", json_array(), json_pack("[f]", v)); }

/* A constant of the program: its value filled, or listed. */
static Name constant_of(Onnx *o, const IrNode *n) {
    const IrAttr *v = ir_attr(n, "value");
    json_t *values = json_array();
    int64_t size = ir_type_size(n->type);
    if (v->flist.n != size && v->flist.n != 1) return NULL;
    for (int64_t i = 0; i < size; i++)
        json_array_append_new(values, json_real(v->flist.v[v->flist.n == 1 ? 0 : i]));
    return constant(o, "f32", int_array(n->type.dim, n->type.rank), values);
}

/* ---- operands ---- */

const IrNode *onnx_operand(const Onnx *o, const IrNode *n, int i) {
    const IrNode *x = n->in[i];
    return x->op == OP_ARG && o->region ? o->region->in[ir_attr_i(x, "index")] : x;
}

Name onnx_value(Onnx *o, const IrNode *x) {
    if (ir_is_reader(x)) return onnx_reader_value(o, x);
    return o->value[x->id];
}

Name onnx_in(Onnx *o, const IrNode *n, int i) { return onnx_value(o, onnx_operand(o, n, i)); }

Name onnx_shape(Onnx *o, IrType t) {
    Name dims = onnx_ints(o, t.dim, t.rank);
    if (!onnx_lead(t)) return dims;
    Name count = t.live == LIVE_POS ? onnx_axis(o, t.axis)->count : onnx_rows(o);
    return onnx_node(o, "Concat", json_pack("{s:i}", "axis", 0), 2, (Name[]){count, dims});
}

Name onnx_lifted(Onnx *o, const IrNode *x, IrType like) {
    Name v = onnx_value(o, x);
    IrType t = x->type;
    const char *key = arena_printf(o->arena, "%s as %d of %d, %d", v, like.live, like.axis, like.rank);
    if (!onnx_lead(t) || (t.live == like.live && t.rank >= like.rank)) return v;
    if (known(o, key)) return known(o, key);
    if (t.live == LIVE_ROW && like.live == LIVE_POS) v = onnx_2(o, "Gather", v, onnx_axis(o, like.axis)->row);
    if (t.rank < like.rank) { /* sizes of 1 behind the first dimension */
        int64_t axes[IR_MAX_RANK];
        int n = like.rank - t.rank;
        for (int i = 0; i < n; i++) axes[i] = i + 1;
        v = onnx_2(o, "Unsqueeze", v, onnx_ints(o, axes, n));
    }
    return remember(o, key, v);
}

Name onnx_full(Onnx *o, const IrNode *x, IrType t) {
    Name v = onnx_lifted(o, x, t);
    bool here = x->type.live == t.live || (x->type.live == LIVE_ROW && t.live == LIVE_POS);
    if (here && ir_same_dims(x->type, t)) return v;
    return onnx_2(o, "Expand", v, onnx_shape(o, t));
}

/* ---- the function ---- */

static void translate(Onnx *o, const IrBody *b);

static Name translate_node(Onnx *o, const IrNode *n) {
    if (n->op == OP_CONST) return constant_of(o, n);
    if (n->op == OP_WEIGHT || n->op == OP_FETCH) return o->p->weights[ir_attr_i(n, "w")].name;
    if (n->op == OP_FUSED) {
        const IrNode *outer = o->region;
        o->region = n;
        translate(o, n->body);
        o->region = outer;
        return o->value[n->body->nodes[n->body->n - 1]->id];
    }
    Name v = onnx_list_op(o, n);
    return v ? v : onnx_op(o, n);
}

static void translate(Onnx *o, const IrBody *b) {
    for (int i = 0; i < b->n && !o->lacks; i++) {
        const IrNode *n = b->nodes[i];
        if (ir_is_reader(n) || n->op == OP_ARG || ir_ops[n->op].cls == CLASS_ROOT) continue;
        o->value[n->id] = translate_node(o, n);
        if (!o->value[n->id] && !o->lacks) o->lacks = ir_ops[n->op].text;
    }
}

/* Inputs first: how many rows there are is read off one of them. */
static void make_inputs(Onnx *o, const IrBody *b) {
    for (int i = 0; i < b->n; i++) {
        const IrNode *n = b->nodes[i];
        for (int k = 0; k < n->n_in && !ir_is_reader(n); k++)
            if (ir_is_reader(n->in[k])) onnx_reader_value(o, n->in[k]);
    }
}

static int largest_id(const IrBody *b) {
    int most = 0;
    for (int i = 0; i < b->n; i++) {
        const IrNode *n = b->nodes[i];
        int id = n->body ? largest_id(n->body) : 0;
        if (n->id > most) most = n->id;
        if (id > most) most = id;
    }
    return most;
}

/* Predictions as [rows]. */
static json_t *outputs_of(Onnx *o, const IrBody *b) {
    json_t *all = json_array();
    for (int i = 0; i < b->n && !o->lacks; i++) {
        const IrNode *n = b->nodes[i];
        if (n->op != OP_PREDICT) continue;
        IrType t = ir_f32(LIVE_ROW, -1, 1, &(int64_t){1});
        Name v = onnx_2(o, "Squeeze", onnx_full(o, n->in[0], t), onnx_ints(o, &(int64_t){1}, 1));
        json_array_append_new(all, json_pack("{s:s,s:s}", "name", ir_attr_s(n, "name"), "value", v));
    }
    return all;
}

static void named_weights(const IrBody *b, bool *named) {
    for (int i = 0; i < b->n; i++) {
        const IrNode *n = b->nodes[i];
        if (n->op == OP_WEIGHT || n->op == OP_FETCH) named[ir_attr_i(n, "w")] = true;
        if (n->body) named_weights(n->body, named);
    }
}

static json_t *weights_of(const Onnx *o, const IrBody *b) {
    bool *named = arena_alloc(o->arena, (size_t)o->p->n_weights + 1);
    json_t *all = json_array();
    named_weights(b, named);
    for (int i = 0; i < o->p->n_weights; i++)
        if (named[i]) json_array_append_new(all, json_integer(i));
    return all;
}

char *backend_onnx(IrProgram *p) {
    const IrFunc *f = ir_func(p, "predict");
    if (!f) return NULL;
    Onnx o = {.p = p,
              .arena = p->arena,
              .in = backend_inputs(p),
              .inputs = json_array(),
              .constants = json_array(),
              .nodes = json_array(),
              .known = json_object()};
    o.value = ARENA_ARRAY(p->arena, Name, largest_id(&f->body) + 1);
    o.axis = ARENA_ARRAY(p->arena, OnnxAxis, p->n_axes + 1);
    o.feature = ARENA_ARRAY(p->arena, Name, o.in.n_features + 1);
    make_inputs(&o, &f->body);
    translate(&o, &f->body);
    json_t *outputs = outputs_of(&o, &f->body), *all = json_object();
    json_object_set_new(all, "inputs", o.inputs);
    json_object_set_new(all, "constants", o.constants);
    json_object_set_new(all, "nodes", o.nodes);
    json_object_set_new(all, "outputs", outputs);
    json_object_set_new(all, "weights", weights_of(&o, &f->body));
    json_object_set_new(all, "lacks", o.lacks ? json_string(o.lacks) : json_null());
    char *text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    json_decref(o.known);
    return text;
}
