/* Inputs of the ONNX graph: what the reader stage makes of a row stays outside, so each id, number and length
 * is an input, whose doc says how it is made. */
#include "backend/onnx.h"
#include <inttypes.h>
#include <string.h>

/* ---- what an input is, as JSON ---- */

static void set(json_t *o, const char *key, json_t *v) { json_object_set_new(o, key, v); }

/* Where it stands in a file without a header, from 0. */
static int64_t field_of(const IrInput *in, const IrColumn *c) {
    int64_t field = 0;
    for (const IrColumn *x = in->columns; x < c; x++)
        if (x->side == c->side) field += x->kind == COL_SKIP ? x->skip : 1;
    return field;
}

static json_t *column_doc(const IrProgram *p, const IrNode *n) {
    static const char *const kinds[] = {"label", "string", "int", "float", "skip"};
    const IrColumn *c = &p->input.columns[ir_attr_i(n, "col")];
    json_t *o = json_pack("{s:s,s:s,s:s}", "op", "column", "name", c->name, "kind", kinds[c->kind]);
    if (p->input.header)
        set(o, "header", json_string(c->from ? c->from : c->name));
    else
        set(o, "field", json_integer(field_of(&p->input, c)));
    if (c->side) set(o, "beside", json_string(p->input.beside));
    if (c->is_list) {
        set(o, "list", json_sprintf("%c", (unsigned char)c->list_sep < 0x80 ? c->list_sep : '?'));
        if (p->axes[c->axis].max) set(o, "max", json_integer(p->axes[c->axis].max));
        if (p->axes[c->axis].shared) set(o, "aligned", json_true());
    }
    if (c->has_default)
        set(o, "default",
            c->default_str ? json_stringn(c->default_str, (size_t)c->default_len)
                           : json_real(c->default_num));
    return o;
}

static void vocab_doc(const IrProgram *p, const IrNode *n, json_t *o) {
    const IrVocab *v = &p->vocabs[ir_attr_i(n, "vocab")];
    set(o, "unknown", json_integer(ir_attr_i(n, "unknown")));
    set(o, "values", json_integer(v->n));
    set(o, "digest", json_sprintf("%016" PRIx64, v->digest));
    if (v->path) {
        set(o, "path", json_string(v->path));
        return;
    }
    json_t *listed = json_array();
    for (int64_t i = 0; i < v->n; i++)
        json_array_append_new(listed, json_stringn(v->values[i], (size_t)v->lens[i]));
    set(o, "listed", listed);
}

static json_t *doc_of(const IrProgram *p, const IrNode *n) {
    if (n->op == OP_COLUMN) return column_doc(p, n);
    json_t *o = json_pack("{s:s}", "op", ir_ops[n->op].text), *of = json_array();
    for (int i = 0; i < n->n_in; i++) json_array_append_new(of, doc_of(p, n->in[i]));
    if (n->op == OP_HASH) set(o, "fn", json_string(ir_attr_s(n, "fn")));
    if (n->op == OP_HASH || n->op == OP_CROSS) set(o, "buckets", json_integer(ir_attr_i(n, "buckets")));
    if (n->op == OP_VOCAB) vocab_doc(p, n, o);
    if (n->op == OP_IDENTITY) set(o, "n", json_integer(ir_attr_i(n, "n")));
    if (n->op == OP_TRUNCATE) {
        set(o, "n", json_integer(p->axes[n->type.axis].max));
        set(o, "keep", json_string(p->axes[n->type.axis].kind == AXIS_LAST ? "last" : "first"));
    }
    if (n->op == OP_BUCKETIZE) {
        const IrAttr *b = ir_attr(n, "bounds");
        json_t *bounds = json_array();
        for (int i = 0; i < b->flist.n; i++) json_array_append_new(bounds, json_real(b->flist.v[i]));
        set(o, "bounds", bounds);
    }
    set(o, "of", of);
    return o;
}

/* ---- names ---- */

static bool taken(const Onnx *o, const char *name) {
    for (size_t i = 0; i < json_array_size(o->inputs); i++)
        if (!strcmp(json_string_value(json_object_get(json_array_get(o->inputs, i), "name")), name))
            return true;
    if (ir_weight_by_name(o->p, name) >= 0) return true;
    const IrBody *b = &ir_func(o->p, "predict")->body;
    for (int i = 0; i < b->n; i++)
        if (b->nodes[i]->op == OP_PREDICT && !strcmp(ir_attr_s(b->nodes[i], "name"), name)) return true;
    return false;
}

static void column_names(const Onnx *o, const IrNode *n, const char **name) {
    if (n->op == OP_COLUMN) {
        const char *c = o->p->input.columns[ir_attr_i(n, "col")].name;
        *name = *name ? arena_printf(o->arena, "%s_%s", *name, c) : c;
    }
    for (int i = 0; i < n->n_in; i++) column_names(o, n->in[i], name);
}

/* The columns' names; if something is called so, with the op's, and with a number. */
static Name name_of(const Onnx *o, const IrNode *n) {
    const char *columns = NULL;
    column_names(o, n, &columns);
    Name name = columns;
    for (int i = 0; taken(o, name); i++)
        name = i ? arena_printf(o->arena, "%s.%s_%d", columns, ir_ops[n->op].text, i)
                 : arena_printf(o->arena, "%s.%s", columns, ir_ops[n->op].text);
    return name;
}

static void add_input(Onnx *o, Name name, const char *type, const char *dim, json_t *doc) {
    json_array_append_new(
        o->inputs, json_pack("{s:s,s:s,s:[s],s:o}", "name", name, "type", type, "shape", dim, "doc", doc));
}

/* ---- values ---- */

/* Of a list: as many as all its rows have positions, one row's after the other. */
static const char *dim_of(const Onnx *o, IrType t) {
    return t.live == LIVE_POS ? arena_printf(o->arena, "positions of %s", o->p->axes[t.axis].name) : "rows";
}

static Name input_of(Onnx *o, const IrNode *n) {
    int f = backend_feature(&o->in, n);
    if (f >= 0 && o->feature[f]) return o->feature[f];
    bool id = n->type.elem == TY_ID;
    Name name = name_of(o, n), v = name;
    add_input(o, name, id ? "i64" : "f32", dim_of(o, n->type), doc_of(o->p, n));
    if (n->type.live == LIVE_POS) onnx_lengths(o, n->type.axis);
    if (!id) v = onnx_2(o, "Unsqueeze", name, onnx_ints(o, &(int64_t){1}, 1)); /* f32[1] a row */
    if (f >= 0) o->feature[f] = v;
    return v;
}

/* Rows of a weight that stand behind those of an earlier part, or ids counted from another one on; no id
 * stays none. */
static Name offset_of(Onnx *o, const IrNode *n) {
    int64_t by = ir_attr_i(n, "by"), below = ir_attr_i(n, "n");
    Name id = onnx_reader_value(o, n->in[0]), none = onnx_2(o, "Less", id, onnx_int(o, by < 0 ? -by : 0));
    Name moved = onnx_2(o, "Add", id, onnx_int(o, by));
    if (by + n->in[0]->type.bound > below)
        none = onnx_2(o, "Or", none, onnx_2(o, "Less", onnx_int(o, below - 1), moved));
    return onnx_node(o, "Where", NULL, 3, (Name[]){none, onnx_int(o, -1), moved});
}

/* Features are numbered, and equal ones are one: so is their value. */
Name onnx_reader_value(Onnx *o, const IrNode *n) {
    if (n->op != OP_OFFSET && n->op != OP_POSITIONS) return input_of(o, n);
    int f = backend_feature(&o->in, n);
    if (f >= 0 && o->feature[f]) return o->feature[f];
    Name v = n->op == OP_OFFSET ? offset_of(o, n) : onnx_axis(o, n->type.axis)->place;
    if (f >= 0) o->feature[f] = v;
    return v;
}

/* ---- how many ---- */

Name onnx_lengths(Onnx *o, int axis) {
    OnnxAxis *a = &o->axis[axis];
    const IrAxis *x = &o->p->axes[axis];
    if (a->lengths) return a->lengths;
    if (x->kind == AXIS_APPEND)
        return a->lengths = onnx_2(o, "Add", onnx_lengths(o, x->parent), onnx_int(o, 1));
    json_t *doc = json_pack("{s:s,s:s}", "op", "lengths", "axis", x->name);
    if (x->max) set(doc, "max", json_integer(x->max));
    a->lengths = arena_printf(o->arena, "%s.lengths", x->name);
    while (taken(o, a->lengths)) a->lengths = arena_printf(o->arena, "%s_", a->lengths);
    add_input(o, a->lengths, "i64", "rows", doc);
    return a->lengths;
}

/* From any input that has a value a row. */
Name onnx_rows(Onnx *o) {
    for (size_t i = 0; i < json_array_size(o->inputs) && !o->rows; i++) {
        const json_t *x = json_array_get(o->inputs, i);
        const char *name = json_string_value(json_object_get(x, "name"));
        if (strcmp(json_string_value(json_array_get(json_object_get(x, "shape"), 0)), "rows")) continue;
        o->rows = onnx_node(o, "Shape", NULL, 1, &name);
    }
    if (!o->rows) o->lacks = "a prediction without an input";
    return o->rows;
}
