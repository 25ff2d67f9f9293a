/* Lists in the ONNX graph. Values along a list come as in the program, all rows' positions one after another;
 * ONNX has no sums by segment, so what goes along a list is padded to the batch's longest row and taken back
 * afterwards. Recurrent layers are a Scan over places. */
#include "backend/onnx.h"

static json_t *axis_is(int axis) { return json_pack("{s:i}", "axis", axis); }
static Name unsqueezed(Onnx *o, Name x, int64_t axis) {
    return onnx_2(o, "Unsqueeze", x, onnx_ints(o, &axis, 1));
}
static Name transposed(Onnx *o, Name x, json_t *perm) {
    return onnx_node(o, "Transpose", json_pack("{s:o}", "perm", perm), 1, &x);
}

OnnxAxis *onnx_axis(Onnx *o, int axis) {
    OnnxAxis *a = &o->axis[axis];
    if (a->where) return a;
    Name zero = onnx_int(o, 0), one = onnx_int(o, 1), first = onnx_ints(o, &(int64_t){0}, 1);
    onnx_lengths(o, axis);
    Name ends = onnx_2(o, "CumSum", a->lengths, zero);
    a->starts = onnx_2(o, "Sub", ends, a->lengths);
    a->count = onnx_node(o, "ReduceSum", json_pack("{s:i}", "keepdims", 1), 2, (Name[]){a->lengths, first});
    Name some = onnx_node(o, "Concat", axis_is(0), 2, (Name[]){a->lengths, onnx_ints(o, &(int64_t){1}, 1)});
    a->longest = onnx_node(o, "ReduceMax", json_pack("{s:i}", "keepdims", 0), 2, (Name[]){some, first});
    Name places = onnx_node(o, "Range", NULL, 3, (Name[]){zero, a->longest, one});
    a->mask = onnx_2(o, "Less", places, unsqueezed(o, a->lengths, 1));
    Name at = onnx_2(o, "Add", unsqueezed(o, a->starts, 1), places);
    a->index = onnx_node(o, "Where", NULL, 3, (Name[]){a->mask, at, a->count});
    Name both = onnx_1(o, "NonZero", a->mask); /* row by row, so in the order of the positions */
    a->row = onnx_node(o, "Gather", axis_is(0), 2, (Name[]){both, zero});
    a->place = onnx_node(o, "Gather", axis_is(0), 2, (Name[]){both, one});
    a->where = transposed(o, both, json_pack("[i,i]", 1, 0));
    return a;
}

/* ---- between positions and padded places ---- */

Name onnx_with_zero(Onnx *o, Name x, IrType t) {
    int64_t dims[IR_MAX_RANK + 1] = {1};
    for (int i = 0; i < t.rank; i++) dims[i + 1] = t.dim[i];
    Name zero = onnx_2(o, "Expand", onnx_real(o, 0), onnx_ints(o, dims, t.rank + 1));
    return onnx_node(o, "Concat", axis_is(0), 2, (Name[]){x, zero});
}

Name onnx_padded(Onnx *o, Name x, IrType t) {
    return onnx_2(o, "Gather", onnx_with_zero(o, x, t), onnx_axis(o, t.axis)->index);
}

Name onnx_from_padded(Onnx *o, Name x, int axis) {
    return onnx_2(o, "GatherND", x, onnx_axis(o, axis)->where);
}

/* x where a position is, else far below everything; x is [n, longest, …] with `behind` further dimensions. */
static Name masked(Onnx *o, Name x, int axis, int behind) {
    Name mask = onnx_axis(o, axis)->mask;
    for (int i = 0; i < behind; i++) mask = unsqueezed(o, mask, 2 + i);
    return onnx_node(o, "Where", NULL, 3, (Name[]){mask, x, onnx_real(o, -3e38)});
}

/* ---- from positions to a row ---- */

static Name sum_of(Onnx *o, Name x, IrType t) {
    return onnx_node(o, "ReduceSum", json_pack("{s:i}", "keepdims", 0), 2,
                     (Name[]){onnx_padded(o, x, t), onnx_ints(o, &(int64_t){1}, 1)});
}

/* [n, 1, …]: lengths to be broadcast with values of the type. */
static Name lengths_like(Onnx *o, IrType t) {
    Name n = onnx_axis(o, t.axis)->lengths;
    for (int i = 0; i < t.rank; i++) n = unsqueezed(o, n, 1 + i);
    return n;
}

static Name mean_of(Onnx *o, Name x, IrType t) {
    Name n = onnx_2(o, "Max", lengths_like(o, t), onnx_int(o, 1));
    return onnx_2(o, "Div", sum_of(o, x, t), onnx_cast(o, n, ONNX_F32));
}

static Name max_of(Onnx *o, Name x, IrType t) {
    Name most =
        onnx_node(o, "ReduceMax", json_pack("{s:i}", "keepdims", 0), 2,
                  (Name[]){masked(o, onnx_padded(o, x, t), t.axis, t.rank), onnx_ints(o, &(int64_t){1}, 1)});
    Name some = onnx_2(o, "Greater", lengths_like(o, t), onnx_int(o, 0));
    return onnx_node(o, "Where", NULL, 3, (Name[]){some, most, onnx_real(o, 0)});
}

static Name last_of(Onnx *o, Name x, IrType t) {
    OnnxAxis *a = onnx_axis(o, t.axis);
    Name last = onnx_2(o, "Sub", onnx_2(o, "Add", a->starts, a->lengths), onnx_int(o, 1));
    Name some = onnx_2(o, "Greater", a->lengths, onnx_int(o, 0));
    Name at = onnx_node(o, "Where", NULL, 3, (Name[]){some, last, a->count});
    return onnx_2(o, "Gather", onnx_with_zero(o, x, t), at);
}

static Name pooled(Onnx *o, const IrNode *n) {
    IrType t = n->type;
    t.live = LIVE_POS;
    t.axis = onnx_operand(o, n, 0)->type.axis;
    Name x = onnx_op(o, n); /* looked up as by embed */
    return ir_attr_s(n, "kind")[0] == 'm' ? mean_of(o, x, t) : sum_of(o, x, t);
}

/* ---- from position to position ---- */

static Name softmax_of(Onnx *o, Name x, IrType t) {
    Name padded = masked(o, onnx_padded(o, x, t), t.axis, t.rank);
    return onnx_from_padded(o, onnx_node(o, "Softmax", axis_is(1), 1, &padded), t.axis);
}

static Name shifted(Onnx *o, Name x, IrType t, int64_t k) {
    OnnxAxis *a = onnx_axis(o, t.axis);
    Name to = onnx_2(o, "Add", a->place, onnx_int(o, k));
    Name there = onnx_2(o, "And", onnx_2(o, "GreaterOrEqual", to, onnx_int(o, 0)),
                        onnx_2(o, "Less", to, onnx_2(o, "Gather", a->lengths, a->row)));
    Name at = onnx_2(o, "Add", onnx_2(o, "Gather", a->starts, a->row), to);
    at = onnx_node(o, "Where", NULL, 3, (Name[]){there, at, a->count});
    return onnx_2(o, "Gather", onnx_with_zero(o, x, t), at);
}

/* Positions, then the rows' values behind them, brought into order. */
static Name appended(Onnx *o, const IrNode *n) {
    const IrNode *x = onnx_operand(o, n, 0), *last = onnx_operand(o, n, 1);
    IrType row = x->type;
    row.live = LIVE_ROW, row.axis = -1;
    OnnxAxis *from = onnx_axis(o, x->type.axis), *a = onnx_axis(o, n->type.axis);
    Name all = onnx_node(o, "Concat", axis_is(0), 2, (Name[]){onnx_value(o, x), onnx_full(o, last, row)});
    Name kept = onnx_2(o, "Less", a->place, onnx_2(o, "Gather", from->lengths, a->row));
    Name at = onnx_2(o, "Add", onnx_2(o, "Gather", from->starts, a->row), a->place);
    at = onnx_node(o, "Where", NULL, 3, (Name[]){kept, at, onnx_2(o, "Add", from->count, a->row)});
    return onnx_2(o, "Gather", all, at);
}

static Name attended(Onnx *o, const IrNode *n) {
    int axis = n->type.axis;
    Name x[3];
    for (int i = 0; i < 3; i++) x[i] = onnx_padded(o, onnx_in(o, n, i), onnx_operand(o, n, i)->type);
    Name scores = onnx_2(o, "MatMul", x[0], transposed(o, x[1], json_pack("[i,i,i]", 0, 2, 1)));
    scores = onnx_2(o, "Mul", scores, onnx_real(o, ir_attr_f(n, "scale")));
    Name mask = unsqueezed(o, onnx_axis(o, axis)->mask, 1);
    scores = onnx_node(o, "Where", NULL, 3, (Name[]){mask, scores, onnx_real(o, -3e38)});
    Name weights = onnx_node(o, "Softmax", axis_is(-1), 1, &scores);
    return onnx_from_padded(o, onnx_2(o, "MatMul", weights, x[2]), axis);
}

/* ---- recurrent layers ---- */

static Name part(Onnx *o, Name x, int64_t begin, int64_t end) {
    return onnx_node(
        o, "Slice", NULL, 4,
        (Name[]){x, onnx_ints(o, &begin, 1), onnx_ints(o, &end, 1), onnx_ints(o, &(int64_t){1}, 1)});
}

/* h and the present p (and a) to h' and the record of the position: see ir/ops.def. */
static void gru_step(Onnx *o, const IrNode *n, Name h, const Name *x, Name *next, Name *record) {
    int64_t u = ir_type_width(n->in[2]->type);
    Name one = onnx_real(o, 1);
    Name gates = onnx_2(o, "Add", part(o, x[0], 0, 2 * u), onnx_2(o, "MatMul", h, onnx_in(o, n, 1)));
    gates = onnx_1(o, "Sigmoid", gates);
    Name r = part(o, gates, 0, u), keep = part(o, gates, u, 2 * u), used = keep;
    Name c = onnx_2(o, "MatMul", onnx_2(o, "Mul", r, h), onnx_in(o, n, 2));
    c = onnx_1(o, "Tanh", onnx_2(o, "Add", part(o, x[0], 2 * u, 3 * u), c));
    if (n->op == OP_AUGRU) used = onnx_2(o, "Mul", keep, onnx_2(o, "Sub", one, x[1]));
    *next = onnx_2(o, "Add", onnx_2(o, "Mul", used, h), onnx_2(o, "Mul", onnx_2(o, "Sub", one, used), c));
    *record = onnx_node(o, "Concat", axis_is(1), 4, (Name[]){*next, r, keep, c});
}

static void sru_step(Onnx *o, Name c, const Name *x, Name *next, Name *record) {
    Name kept = onnx_2(o, "Mul", x[0], c), rest = onnx_2(o, "Sub", onnx_real(o, 1), x[0]);
    *next = onnx_2(o, "Add", kept, onnx_2(o, "Mul", rest, x[1]));
    *record = onnx_1(o, "Identity", *next);
}

/* What goes in at each place: operands `first` and (augru's score, sru's value) another one. */
static Name scanned(Onnx *o, const IrNode *n, int operands, const int *operand, int64_t units) {
    int64_t state[] = {units};
    Name in[3] = {onnx_2(o, "Expand", onnx_real(o, 0), onnx_shape(o, ir_f32(LIVE_ROW, -1, 1, state)))};
    Name h = onnx_new(o), x[2], next, record;
    json_t *outer = o->nodes, *body = json_object(), *inputs = json_pack("[s]", h);
    for (int i = 0; i < operands; i++) { /* place by place: [longest, n, …] */
        const IrNode *from = onnx_operand(o, n, operand[i]);
        in[i + 1] =
            transposed(o, onnx_padded(o, onnx_value(o, from), from->type), json_pack("[i,i,i]", 1, 0, 2));
        x[i] = onnx_new(o);
        json_array_append_new(inputs, json_string(x[i]));
    }
    o->nodes = json_array();
    if (n->op == OP_SRU)
        sru_step(o, h, x, &next, &record);
    else
        gru_step(o, n, h, x, &next, &record);
    json_object_set_new(body, "inputs", inputs);
    json_object_set_new(body, "outputs", json_pack("[s,s]", next, record));
    json_object_set_new(body, "nodes", o->nodes);
    o->nodes = outer;
    Name states = onnx_new(o), records = onnx_new(o);
    json_t *names = json_array();
    for (int i = 0; i <= operands; i++) json_array_append_new(names, json_string(in[i]));
    json_array_append_new(o->nodes, json_pack("[s,o,[s,s],{s:i,s:o}]", "Scan", names, states, records,
                                              "num_scan_inputs", operands, "body", body));
    return onnx_from_padded(o, transposed(o, records, json_pack("[i,i,i]", 1, 0, 2)), n->type.axis);
}

static Name recurrent(Onnx *o, const IrNode *n) {
    if (n->op == OP_SRU) return scanned(o, n, 2, (int[]){0, 1}, ir_type_width(n->type));
    return scanned(o, n, n->op == OP_AUGRU ? 2 : 1, (int[]){0, 3}, ir_type_width(n->in[2]->type));
}

/* ---- by op ---- */

Name onnx_list_op(Onnx *o, const IrNode *n) {
    if (!n->n_in) {
        Name length =
            n->op == OP_SEGLEN ? unsqueezed(o, onnx_axis(o, (int)ir_attr_i(n, "axis"))->lengths, 1) : NULL;
        return length ? onnx_cast(o, length, ONNX_F32) : NULL;
    }
    IrType t = onnx_operand(o, n, 0)->type;
    switch (n->op) {
    case OP_SEGSUM: return sum_of(o, onnx_in(o, n, 0), t);
    case OP_SEGMEAN: return mean_of(o, onnx_in(o, n, 0), t);
    case OP_SEGMAX: return max_of(o, onnx_in(o, n, 0), t);
    case OP_SEGLAST: return last_of(o, onnx_in(o, n, 0), t);
    case OP_EMBEDPOOL: return pooled(o, n);
    case OP_SEGSOFTMAX: return softmax_of(o, onnx_in(o, n, 0), t);
    case OP_SHIFT: return shifted(o, onnx_in(o, n, 0), t, ir_attr_i(n, "k"));
    case OP_APPEND: return appended(o, n);
    case OP_ATTEND: return attended(o, n);
    case OP_GRU:
    case OP_AUGRU:
    case OP_SRU: return recurrent(o, n);
    default: return NULL;
    }
}
