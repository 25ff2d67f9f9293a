/* Ops of the ONNX graph that stay within a value: elementwise, movement, reductions inside a row, products,
 * lookups. */
#include "backend/onnx.h"

static Name ints(Onnx *o, int64_t v) { return onnx_ints(o, &v, 1); }

/* ---- elementwise ---- */

static const char *unary(IrOp op) {
    switch (op) {
    case OP_NEG: return "Neg";
    case OP_EXP: return "Exp";
    case OP_LOG: return "Log";
    case OP_SQRT: return "Sqrt";
    case OP_ABS: return "Abs";
    case OP_RELU: return "Relu";
    case OP_SIGMOID: return "Sigmoid";
    case OP_TANH: return "Tanh";
    case OP_SOFTPLUS: return "Softplus";
    case OP_ERF: return "Erf";
    case OP_STOPGRAD: return "Identity";
    case OP_DROPOUT: return "Identity"; /* nothing is dropped when predicting */
    default: return NULL;
    }
}

static const char *binary(IrOp op) {
    switch (op) {
    case OP_ADD: return "Add";
    case OP_SUB: return "Sub";
    case OP_MUL: return "Mul";
    case OP_DIV: return "Div";
    case OP_MAX2: return "Max";
    case OP_MIN2: return "Min";
    default: return NULL;
    }
}

static const char *comparison(IrOp op) {
    switch (op) {
    case OP_LT: return "Less";
    case OP_LE: return "LessOrEqual";
    case OP_GT: return "Greater";
    case OP_GE: return "GreaterOrEqual";
    case OP_EQ:
    case OP_NE: return "Equal";
    default: return NULL;
    }
}

/* max(z,0) - z*y + softplus(-|z|) */
static Name bce_logits(Onnx *o, Name z, Name y) {
    Name loss = onnx_2(o, "Sub", onnx_1(o, "Relu", z), onnx_2(o, "Mul", z, y));
    return onnx_2(o, "Add", loss, onnx_1(o, "Softplus", onnx_1(o, "Neg", onnx_1(o, "Abs", z))));
}

static Name round_bf16(Onnx *o, Name x) { return onnx_cast(o, onnx_cast(o, x, ONNX_BF16), ONNX_F32); }

static Name elementwise(Onnx *o, const IrNode *n) {
    Name x[2] = {0};
    for (int i = 0; i < n->n_in && i < 2; i++) x[i] = onnx_lifted(o, onnx_operand(o, n, i), n->type);
    if (unary(n->op)) return onnx_1(o, unary(n->op), x[0]);
    if (binary(n->op)) return onnx_2(o, binary(n->op), x[0], x[1]);
    if (comparison(n->op)) {
        Name c = onnx_2(o, comparison(n->op), x[0], x[1]);
        return onnx_cast(o, n->op == OP_NE ? onnx_1(o, "Not", c) : c, ONNX_F32);
    }
    switch (n->op) {
    case OP_SQUARE: return onnx_2(o, "Mul", x[0], x[0]);
    case OP_LOG1P: return onnx_1(o, "Log", onnx_2(o, "Add", x[0], onnx_real(o, 1)));
    case OP_LEAKYRELU:
        return onnx_node(o, "LeakyRelu", json_pack("{s:f}", "alpha", ir_attr_f(n, "slope")), 1, x);
    case OP_CLIP:
        return onnx_node(o, "Clip", NULL, 3,
                         (Name[]){x[0], onnx_real(o, ir_attr_f(n, "lo")), onnx_real(o, ir_attr_f(n, "hi"))});
    case OP_BCELOGITS: return bce_logits(o, x[0], x[1]);
    case OP_BF16: return round_bf16(o, x[0]);
    default: return NULL;
    }
}

/* ---- movement ---- */

static Name concat(Onnx *o, const IrNode *n) {
    Name *x = ARENA_ARRAY(o->arena, Name, n->n_in);
    for (int i = 0; i < n->n_in; i++) {
        const IrNode *from = onnx_operand(o, n, i);
        IrType t = from->type;
        t.live = n->type.live, t.axis = n->type.axis;
        x[i] = onnx_full(o, from, t);
    }
    int64_t axis = ir_attr_i(n, "axis") + onnx_lead(n->type);
    return onnx_node(o, "Concat", json_pack("{s:I}", "axis", (json_int_t)axis), n->n_in, x);
}

static Name slice(Onnx *o, const IrNode *n) {
    return onnx_node(o, "Slice", NULL, 4,
                     (Name[]){onnx_in(o, n, 0), ints(o, ir_attr_i(n, "begin")), ints(o, ir_attr_i(n, "end")),
                              ints(o, ir_attr_i(n, "axis") + onnx_lead(n->type))});
}

static Name pad(Onnx *o, const IrNode *n) {
    int64_t pads[2 * (IR_MAX_RANK + 1)] = {0}, axis = ir_attr_i(n, "axis") + onnx_lead(n->type);
    int rank = n->type.rank + onnx_lead(n->type);
    pads[axis] = ir_attr_i(n, "before"), pads[rank + axis] = ir_attr_i(n, "after");
    return onnx_node(o, "Pad", NULL, 3,
                     (Name[]){onnx_in(o, n, 0), onnx_ints(o, pads, 2 * rank), onnx_real(o, 0)});
}

/* x in the shape of the type; 0 takes the first dimension as it is. */
static Name reshaped(Onnx *o, Name x, IrType t) {
    int64_t dims[IR_MAX_RANK + 1] = {0};
    int lead = onnx_lead(t);
    for (int i = 0; i < t.rank; i++) dims[i + lead] = t.dim[i];
    return onnx_2(o, "Reshape", x, onnx_ints(o, dims, t.rank + lead));
}

static Name transposed(Onnx *o, Name x, IrType t, const int64_t *order) {
    json_t *perm = json_array();
    int lead = onnx_lead(t);
    if (lead) json_array_append_new(perm, json_integer(0));
    for (int i = 0; i < t.rank; i++) json_array_append_new(perm, json_integer(order[i] + lead));
    return onnx_node(o, "Transpose", json_pack("{s:o}", "perm", perm), 1, &x);
}

static Name gather(Onnx *o, const IrNode *n) {
    const IrAttr *at = ir_attr(n, "indices");
    int64_t axis = ir_attr_i(n, "axis") + onnx_lead(n->type);
    return onnx_node(o, "Gather", json_pack("{s:I}", "axis", (json_int_t)axis), 2,
                     (Name[]){onnx_in(o, n, 0), onnx_ints(o, at->ilist.v, at->ilist.n)});
}

/* ---- reductions and products ---- */

static Name reduced(Onnx *o, const IrNode *n, const char *op) {
    int64_t axis = ir_attr_i(n, "axis") + onnx_lead(n->type);
    Name x =
        onnx_node(o, op, json_pack("{s:i}", "keepdims", 1), 2, (Name[]){onnx_in(o, n, 0), ints(o, axis)});
    return reshaped(o, x, n->type);
}

/* An operand of a product, its last two dimensions swapped if asked for. */
static Name factor(Onnx *o, const IrNode *n, int i, bool swap) {
    const IrNode *from = onnx_operand(o, n, i);
    IrType t = from->type;
    int64_t order[IR_MAX_RANK];
    Name x = onnx_value(o, from);
    if (t.live == LIVE_ROW && n->type.live == LIVE_POS) {
        IrType like = t;
        like.live = LIVE_POS, like.axis = n->type.axis;
        x = onnx_lifted(o, from, like);
        t = like;
    }
    for (int k = 0; k < t.rank; k++) order[k] = k;
    if (!swap) return x;
    order[t.rank - 1] = t.rank - 2, order[t.rank - 2] = t.rank - 1;
    return transposed(o, x, t, order);
}

static Name product(Onnx *o, const IrNode *n) {
    Name x = factor(o, n, 0, ir_attr_i(n, "ta")), y = factor(o, n, 1, ir_attr_i(n, "tb"));
    if (ir_takes_bf16(n)) x = round_bf16(o, x), y = round_bf16(o, y);
    return onnx_2(o, "MatMul", x, y);
}

/* ---- lookups ---- */

static Name is_none(Onnx *o, Name id) { return onnx_2(o, "Less", id, onnx_int(o, 0)); }

/* Rows of a table, or of a weight, zeros without an id. */
static Name embed(Onnx *o, const IrNode *n) {
    Name id = onnx_in(o, n, 0), rows = onnx_in(o, n, 1), none = is_none(o, id);
    Name found = onnx_2(o, "Gather", rows, onnx_2(o, "Max", id, onnx_int(o, 0)));
    for (int i = 0; i < n->type.rank; i++) none = onnx_2(o, "Unsqueeze", none, ints(o, i + 1));
    return onnx_node(o, "Where", NULL, 3, (Name[]){none, onnx_real(o, 0), found});
}

/* Compared with 0, 1, 2 …: no id is like none of them. */
static Name onehot(Onnx *o, const IrNode *n) {
    Name all = onnx_node(o, "Range", NULL, 3,
                         (Name[]){onnx_int(o, 0), onnx_int(o, ir_type_size(n->type)), onnx_int(o, 1)});
    Name id = onnx_2(o, "Unsqueeze", onnx_in(o, n, 0), ints(o, 1));
    return onnx_cast(o, onnx_2(o, "Equal", id, all), ONNX_F32);
}

/* ---- by op ---- */

static Name softmax(Onnx *o, const IrNode *n) {
    int64_t axis = ir_attr_i(n, "axis") + onnx_lead(n->type);
    Name x = onnx_in(o, n, 0);
    return onnx_node(o, "Softmax", json_pack("{s:I}", "axis", (json_int_t)axis), 1, &x);
}

static Name inverse_of_rows(Onnx *o) {
    return onnx_2(o, "Div", onnx_real(o, 1), onnx_cast(o, onnx_rows(o), ONNX_F32));
}

Name onnx_op(Onnx *o, const IrNode *n) {
    switch (n->op) {
    case OP_INVROWS: return inverse_of_rows(o);
    case OP_CONCAT: return concat(o, n);
    case OP_SLICE: return slice(o, n);
    case OP_PAD: return pad(o, n);
    case OP_PACK: return onnx_in(o, n, 0); /* the same matrix, as a kernel likes to read it */
    case OP_RESHAPE: return reshaped(o, onnx_in(o, n, 0), n->type);
    case OP_TRANSPOSE: return transposed(o, onnx_in(o, n, 0), n->type, ir_attr(n, "order")->ilist.v);
    case OP_GATHER: return gather(o, n);
    case OP_BROADCAST: return onnx_full(o, onnx_operand(o, n, 0), n->type);
    case OP_SUM: return reduced(o, n, "ReduceSum");
    case OP_MAXR: return reduced(o, n, "ReduceMax");
    case OP_SOFTMAX: return softmax(o, n);
    case OP_MATMUL: return product(o, n);
    case OP_EMBED:
    case OP_EMBEDPOOL: return embed(o, n);
    case OP_ONEHOT: return onehot(o, n);
    default: return ir_ops[n->op].cls == CLASS_EW ? elementwise(o, n) : NULL;
    }
}
