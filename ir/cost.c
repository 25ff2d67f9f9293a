/* Cost rules: floating-point operations and bytes moved for one of the values that a node makes (a row, a
 * position, a unique row, or a step, as its result lives). Bytes count each operand read once and the result
 * written once; weights and other coarser operands are read from cache and count as operands all the same. */
#include "ir/internal.h"

typedef IrCost CostRule(const IrProgram *p, const IrNode *n);
static CostRule ir_cost_zero, ir_cost_bytes, ir_cost_ew1, ir_cost_ew4, ir_cost_ew16, ir_cost_matmul,
    ir_cost_attend, ir_cost_gru, ir_cost_fused, ir_cost_block1, ir_cost_block4;

static CostRule *const cost_rules[OP_COUNT] = {
#define OP(id, text, min, max, attrs, shape, grad, cost, ...) [OP_##id] = ir_cost_##cost,
#include "ir/ops.def"
#undef OP
};

static double size_of(IrType t) { return t.elem == TY_NONE ? 0 : (double)ir_type_size(t); }
static double bytes_of(IrType t) { return 4 * size_of(t); }

static IrCost ir_cost_zero(const IrProgram *p, const IrNode *n) {
    (void)p, (void)n;
    return (IrCost){0, 0};
}

/* Table ops read rows, not tables: a row for each id, and write what they make. */
static IrCost table_cost(const IrNode *n) {
    IrCost c = {0, 2 * bytes_of(n->type)};
    if (n->op == OP_ONEHOT) c.bytes = 4 + bytes_of(n->type);
    for (int i = 1; i < n->n_in && (n->op == OP_DENSEGRAD || n->op == OP_ROWGRAD); i += 2) {
        c.bytes += bytes_of(n->in[i]->type);
        c.flops += size_of(n->in[i]->type);
    }
    return c;
}

static IrCost ir_cost_bytes(const IrProgram *p, const IrNode *n) {
    (void)p;
    if (ir_ops[n->op].cls == CLASS_TAB) return table_cost(n);
    IrCost c = {0, bytes_of(n->type)};
    for (int i = 0; i < n->n_in; i++) c.bytes += bytes_of(n->in[i]->type);
    return c;
}

/* What a row meets of a value: of statistics in blocks, those of its own block. */
static double size_met(const IrNode *n, const IrNode *by) {
    bool blocks = (n->op == OP_BNSTATS || n->op == OP_BNGSUMS) && n->type.rank == 3;
    return size_of(n->type) / (blocks && ir_ops[by->op].cls == CLASS_NORM ? (double)n->type.dim[0] : 1);
}

/* `each` operations for every element that is read or made, whichever are more: a reduction reads more than
 * it makes, an elementwise op may stretch its operands. */
static IrCost elementwise(const IrNode *n, double each) {
    double size = size_met(n, n);
    IrCost c = {0, bytes_of(n->type)};
    for (int i = 0; i < n->n_in; i++) {
        double operand = size_met(n->in[i], n);
        if (operand > size) size = operand;
        c.bytes += 4 * operand;
    }
    c.flops = each * size;
    return c;
}

static IrCost ir_cost_ew1(const IrProgram *p, const IrNode *n) { return (void)p, elementwise(n, 1); }
static IrCost ir_cost_ew4(const IrProgram *p, const IrNode *n) { return (void)p, elementwise(n, 4); }
static IrCost ir_cost_ew16(const IrProgram *p, const IrNode *n) { return (void)p, elementwise(n, 16); }

/* Sums over a block of rows: `each` operations for every element that is added up. */
static IrCost block(const IrProgram *p, const IrNode *n, double each) {
    IrCost c = ir_cost_bytes(p, n);
    c.flops = each * size_of(n->in[0]->type);
    return c;
}

static IrCost ir_cost_block1(const IrProgram *p, const IrNode *n) { return block(p, n, 1); }
static IrCost ir_cost_block4(const IrProgram *p, const IrNode *n) { return block(p, n, 4); }

/* A multiply and an add for each inner index of each result; matmul_grad_w: for each row that it sums over.
 */
static IrCost ir_cost_matmul(const IrProgram *p, const IrNode *n) {
    IrCost c = ir_cost_bytes(p, n);
    IrType x = n->in[0]->type;
    bool swapped = n->op == OP_MATMUL && ir_attr_i(n, "ta");
    double inner = (double)(swapped ? x.dim[x.rank - 2] : ir_type_width(x));
    if (n->op == OP_MATMULGRADW) inner = size_of(x) / (double)ir_type_width(x);
    c.flops = 2 * size_of(n->type) * inner;
    return c;
}

/* For each pair of positions two products (five for the gradient) and an exponential; a row counts as long as
 * its list can be, one position if nothing limits it. */
static IrCost ir_cost_attend(const IrProgram *p, const IrNode *n) {
    IrCost c = ir_cost_bytes(p, n);
    int64_t most = ir_axis_max(p, n->type.axis);
    double length = most ? (double)most : 1, d = size_of(n->in[0]->type), e = size_of(n->in[2]->type);
    c.flops = length * (16 + (n->op == OP_ATTEND ? 2 * d + 2 * e : 6 * d + 4 * e));
    return c;
}

/* The state times Ug and Uc, 3 u^2 multiplies and adds, either way along the list; and a sigmoid or tanh for
 * each of the record's values, forward. */
static IrCost ir_cost_gru(const IrProgram *p, const IrNode *n) {
    IrCost c = ir_cost_bytes(p, n);
    double units = (double)ir_type_width(n->in[2]->type);
    bool forward = n->op == OP_GRU || n->op == OP_AUGRU;
    c.flops = 6 * units * units + (forward ? 16 : 4) * size_of(n->type);
    return c;
}

/* The body's operations, but only the region's own operands and result touch memory. */
static IrCost ir_cost_fused(const IrProgram *p, const IrNode *n) {
    IrCost c = ir_cost_bytes(p, n);
    for (int i = 0; n->body && i < n->body->n; i++) {
        const IrNode *b = n->body->nodes[i];
        c.flops += ir_cost(p, b).flops;
        if (b->op == OP_OUT) c.bytes += bytes_of(b->in[0]->type);
    }
    return c;
}

IrCost ir_cost(const IrProgram *p, const IrNode *n) { return cost_rules[n->op](p, n); }

/* ---- a step ---- */

/* Of derived axes: what is taken of the parent's positions. */
int64_t ir_positions(const IrProgram *p, int axis, bool *known) {
    int64_t most = 0;
    for (; axis >= 0; axis = p->axes[axis].kind == AXIS_LIST ? -1 : p->axes[axis].parent) {
        int64_t max = p->axes[axis].max;
        if (max > 0 && (!most || max < most)) most = max;
    }
    if (known) *known = most > 0;
    return most ? most : IR_GUESSED_POSITIONS;
}

/* How many values of the type a step makes. */
static double values(const IrProgram *p, IrType t) {
    double rows = (double)p->batch;
    switch (t.live) {
    case LIVE_ROW: return rows;
    case LIVE_POS: return rows * (double)ir_positions(p, t.axis, NULL);
    case LIVE_UNIQ: return p->weights[t.axis].dim[0] < p->batch ? (double)p->weights[t.axis].dim[0] : rows;
    default: return 1;
    }
}

double ir_step_elements(const IrProgram *p, IrType t) {
    return size_of(t) * (t.elem == TY_NONE ? 0 : values(p, t));
}

/* How often the node's work is done: as often as there are values of the finest of its result and operands.
 */
static double times(const IrProgram *p, const IrNode *n) {
    double most = n->type.elem == TY_NONE ? 1 : values(p, n->type);
    for (int i = 0; i < n->n_in; i++) {
        double v = n->in[i]->type.elem == TY_F32 ? values(p, n->in[i]->type) : 0;
        if (v > most) most = v;
    }
    return most;
}

/* The gradient of looked-up rows: each lookup adds its row; the result is cleared and written once, however
 * many lookups there are. */
static IrCost step_of_lookups(const IrProgram *p, const IrNode *n) {
    IrCost c = {0, 8 * ir_step_elements(p, n->type)};
    for (int i = 1; i < n->n_in; i += 2) {
        c.flops += size_of(n->in[i]->type) * values(p, n->in[i - 1]->type);
        c.bytes += 4 * ir_step_elements(p, n->in[i]->type);
    }
    return c;
}

/* A sum over rows, and behind it what is done once a step: each body op as often as it would be alone. */
static IrCost step_of_update_region(const IrProgram *p, const IrNode *n) {
    IrCost c = {0, 0};
    for (int i = 0; i < n->body->n; i++) c.flops += ir_step_cost(p, n->body->nodes[i]).flops;
    for (int i = 0; i < n->n_in; i++) c.bytes += 4 * ir_step_elements(p, n->in[i]->type);
    return c;
}

/* Floats that all of n's values take; two numbers are one in panels of bfloat16. */
static double floats_of(const IrProgram *p, const IrNode *n) {
    return ir_step_elements(p, n->type) * (n->op == OP_PACK && ir_takes_bf16(n) ? 0.5 : 1);
}

IrCost ir_step_cost(const IrProgram *p, const IrNode *n) {
    if (n->op == OP_DENSEGRAD || n->op == OP_ROWGRAD) return step_of_lookups(p, n);
    IrCost c = ir_cost(p, n);
    if (ir_is_update_region(n)) return step_of_update_region(p, n);
    double often = times(p, n), elements = floats_of(p, n);
    for (int i = 0; i < n->n_in; i++) {
        double part = floats_of(p, n->in[i]);
        elements +=
            n->op == OP_CONCAT && ir_in_place(n, i) ? -part : part; /* neither read nor written by it */
    }
    for (int i = 0; n->body && i < n->body->n; i++)
        if (n->body->nodes[i]->op == OP_OUT) elements += ir_step_elements(p, n->body->nodes[i]->in[0]->type);
    return (IrCost){c.flops * often, ir_ops[n->op].cls == CLASS_TAB ? c.bytes * often : 4 * elements};
}

/* ---- a function ---- */

bool ir_runs(const IrNode *n) {
    IrClass c = ir_ops[n->op].cls;
    if (n->op == OP_RESULT) return false; /* its region's kernel makes it */
    if (n->plan.phase >= 0) return n->plan.domain != DOM_NONE && c != CLASS_ROOT && !ir_all_in_place(n);
    return c != CLASS_ROOT && c != CLASS_SRC && !ir_is_reader(n);
}

IrWork ir_func_work(const IrProgram *p, const IrFunc *f) {
    IrWork sum = {0};
    for (int i = 0; i < f->body.n; i++) {
        const IrNode *n = f->body.nodes[i];
        if (!ir_runs(n)) continue;
        IrCost c = ir_step_cost(p, n);
        sum.ops++;
        sum.flops += c.flops;
        sum.bytes += c.bytes;
        if (n->plan.phase >= sum.phases) sum.phases = n->plan.phase + 1;
    }
    int again = f->blocks > 1 ? (int)(f->blocks - 1) * (f->loop_last - f->loop_first + 1) : 0;
    sum.barriers = sum.phases ? sum.phases - 1 + again : 0;
    return sum;
}
