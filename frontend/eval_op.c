/* Operators: on numbers, strings and lists while the model is built, on tensors as nodes of the graph. */
#include "frontend/value.h"
#include <math.h>
#include <string.h>

static bool tensor_like(const Value *v) {
    return v->kind == V_TENSOR || v->kind == V_COLUMN || v->kind == V_TABLE;
}

static const char *sign(AstOperator op) {
    static const char *const signs[] = {
        [B_OR] = "or", [B_AND] = "and", [B_LT] = "<",      [B_LE] = "<=", [B_GT] = ">",   [B_GE] = ">=",
        [B_EQ] = "==", [B_NE] = "!=",   [B_CONCAT] = "++", [B_ADD] = "+", [B_SUB] = "-",  [B_MUL] = "*",
        [B_DIV] = "/", [B_MOD] = "%",   [B_MATMUL] = "@",  [U_NEG] = "-", [U_NOT] = "not"};
    return signs[op];
}

/* ---- numbers ---- */

static Value *number_op(Ev *ev, const AstExpr *e, double a, double b) {
    AstOperator op = e->op.op;
    switch (op) {
    case B_LT: return ev_bool(ev, a < b);
    case B_LE: return ev_bool(ev, a <= b);
    case B_GT: return ev_bool(ev, a > b);
    case B_GE: return ev_bool(ev, a >= b);
    default: break;
    }
    if ((op == B_DIV || op == B_MOD) && b == 0) {
        ev_error(ev, e->op.b->span, NULL, "division by zero");
        return NULL;
    }
    double r = op == B_ADD   ? a + b
               : op == B_SUB ? a - b
               : op == B_MUL ? a * b
               : op == B_DIV ? a / b
                             : a - b * floor(a / b);
    if (isfinite(r)) return ev_number(ev, r);
    ev_error(ev, e->span, NULL, "the result of '%s' is not a finite number", sign(op));
    return NULL;
}

/* ---- joining ---- */

static Value *join(Ev *ev, const AstExpr *e, Value *a, Value *b) {
    if (a->kind == V_STRING && b->kind == V_STRING) {
        size_t n = a->string.n + b->string.n;
        if (!ev_room(ev, e->span, n)) return NULL;
        char *s = arena_alloc(ev->a, n + 1);
        memcpy(s, a->string.s, a->string.n);
        memcpy(s + a->string.n, b->string.s, b->string.n);
        Value *v = ARENA_NEW(ev->a, Value);
        v->kind = V_STRING;
        v->string.s = s;
        v->string.n = n;
        return v;
    }
    if (a->kind == V_LIST && b->kind == V_LIST) {
        int n = a->list.n + b->list.n;
        if (!ev_step(ev, e->span, n / 16)) return NULL;
        Value **items = ARENA_ARRAY(ev->a, Value *, n + 1);
        if (a->list.n) memcpy(items, a->list.items, sizeof *items * (size_t)a->list.n);
        if (b->list.n) memcpy(items + a->list.n, b->list.items, sizeof *items * (size_t)b->list.n);
        return ev_list(ev, items, n);
    }
    const char *hint = tensor_like(a) && tensor_like(b) ? "concat(a, b) joins tensors" : NULL;
    ev_error(ev, e->span, hint, "'++' joins two lists or two strings, found %s and %s", ev_describe(ev, a),
             ev_describe(ev, b));
    return NULL;
}

/* ---- tensors ---- */

static IrOp tensor_op(AstOperator op) {
    switch (op) {
    case B_LT: return OP_LT;
    case B_LE: return OP_LE;
    case B_GT: return OP_GT;
    case B_GE: return OP_GE;
    case B_EQ: return OP_EQ;
    case B_NE: return OP_NE;
    case B_ADD: return OP_ADD;
    case B_SUB: return OP_SUB;
    case B_MUL: return OP_MUL;
    case B_DIV: return OP_DIV;
    default: return OP_COUNT;
    }
}

static Value *tensor_binary(Ev *ev, const AstExpr *e, Value *a, Value *b) {
    AstOperator op = e->op.op;
    if (op == B_DIV && b->kind == V_NUMBER && b->number == 0) {
        ev_error(ev, e->op.b->span, NULL, "division by zero");
        return NULL;
    }
    if (op == B_MATMUL && (a->kind == V_NUMBER || b->kind == V_NUMBER)) {
        ev_error(ev, e->span, "a number scales with *", "'@' multiplies two tensors, found %s and %s",
                 ev_describe(ev, a), ev_describe(ev, b));
        return NULL;
    }
    if (op != B_MATMUL && tensor_op(op) == OP_COUNT) {
        ev_error(ev, e->span, NULL, "'%s' takes two numbers, found %s and %s", sign(op), ev_describe(ev, a),
                 ev_describe(ev, b));
        return NULL;
    }
    IrNode *x = ev_f32(ev, a, e->op.a->span, NULL), *y = ev_f32(ev, b, e->op.b->span, NULL);
    if (!x || !y) return NULL;
    return ev_tensor(ev, op == B_MATMUL ? ev_matmul(ev, x, y, e->span)
                                        : ev_elementwise(ev, tensor_op(op), x, y, e->span));
}

/* == asks of two columns whether they are the same, of tensors (a column against a number) element by
 * element. */
static bool compares_tensors(const Value *a, const Value *b) {
    if (a->kind == V_COLUMN && b->kind == V_COLUMN) return false;
    if (a->kind == V_TABLE || b->kind == V_TABLE) return false;
    return (tensor_like(a) && (tensor_like(b) || b->kind == V_NUMBER)) ||
           (tensor_like(b) && a->kind == V_NUMBER);
}

Value *ev_binary(Ev *ev, const AstExpr *e, Value *a, Value *b) {
    AstOperator op = e->op.op;
    if (op == B_CONCAT) return join(ev, e, a, b);
    if ((op == B_EQ || op == B_NE) && !compares_tensors(a, b))
        return ev_bool(ev, ev_equal(ev, a, b, e->span) == (op == B_EQ));
    if (a->kind == V_NUMBER && b->kind == V_NUMBER && op != B_MATMUL)
        return number_op(ev, e, a->number, b->number);
    if ((tensor_like(a) || a->kind == V_NUMBER) && (tensor_like(b) || b->kind == V_NUMBER))
        return tensor_binary(ev, e, a, b);
    const char *hint = NULL;
    if (a->kind == V_LIST && b->kind == V_LIST && op == B_ADD)
        hint = "'++' joins lists";
    else if (a->kind == V_STRING && b->kind == V_STRING && op == B_ADD)
        hint = "'++' joins strings";
    else if (a->kind == V_LIST || b->kind == V_LIST)
        hint = "sum, concat or stack make one tensor of a list";
    ev_error(ev, e->span, hint, "'%s' takes numbers and tensors, found %s and %s", sign(op),
             ev_describe(ev, a), ev_describe(ev, b));
    return NULL;
}

Value *ev_unary(Ev *ev, const AstExpr *e, Value *a) {
    if (a->kind == V_NUMBER) return ev_number(ev, -a->number);
    if (!tensor_like(a)) {
        ev_error(ev, e->span, NULL, "'-' takes a number or a tensor, found %s", ev_describe(ev, a));
        return NULL;
    }
    IrNode *x = ev_f32(ev, a, e->op.a->span, NULL);
    if (!x) return NULL;
    ev_at(ev, e->span);
    return ev_tensor(ev, ev_unary_op(ev, OP_NEG, x));
}
