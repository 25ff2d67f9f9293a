/* Part of fuse: the gradient of a weight and the update by it become one region, so that a finished tile of
 * the gradient goes from registers into the optimizer's formula, and is never written to memory or read from
 * it again. For matmul_grad_w and sum_rows, with what stands elementwise between them and the update: l2, or
 * another part of the gradient that is finished by then.
 *
 * Not where more of the gradient than a tile is needed before the first element may move: clip_norm's scale
 * is of its norm, micro-batches add to it block by block, another reader wants it whole. Nor where the
 * gradient isn't such a sum. Nor, unless asked for, where a sum over rows takes in what it adds up (fuse.c),
 * which saves a value a row. When the region runs is for schedule to say, which puts it, as all updates,
 * behind the loss and behind all that reads the weight. */
#include "passes/fuse_parts.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_BODY = 16, MAX_OPERANDS = 12 };

/* Wider weights gain no time by it: on a Zen 3 core WDL's of 1024 and 512 columns and DLRM's of 512 took as
 * long in one visit as apart. And as the sums of register tiles stand in scratch as a whole matrix, each
 * thread would have room for all of a large weight. */
enum { MOST_COLUMNS = 256, MOST_SUMS = 1 << 18 /* elements in each thread's scratch */ };

typedef enum { JOINED, CLIPPED, BY_BLOCKS, READ_ELSEWHERE, TAKING, WIDE, LARGE, NO_SUM, VERDICTS } Verdict;

typedef struct {
    IrNode *update, *sum;
    IrNode *member[MAX_BODY]; /* the sum, and what stands between it and the update; the last first */
    int n;
} Region;

static bool member(const Region *r, const IrNode *n) {
    for (int i = 0; i < r->n; i++)
        if (r->member[i] == n) return true;
    return false;
}

static int uses_inside(const Region *r, const IrNode *n) {
    int uses = r->update->in[0] == n;
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < r->member[i]->n_in; k++) uses += r->member[i]->in[k] == n;
    return uses;
}

/* Whether an operand may be read element by element beside the weight's own. */
static bool fits(const Region *r, const IrNode *x) {
    IrType t = x->type;
    if (pass_is_weight(x, -1) && !pass_is_weight(x, (int)ir_attr_i(r->update, "w"))) return false;
    return t.elem == TY_F32 && t.live <= LIVE_STEP &&
           (ir_same_dims(t, r->update->in[0]->type) || ir_type_size(t) == 1);
}

static bool elementwise_here(const Region *r, const IrNode *n) {
    bool ok = ir_ops[n->op].cls == CLASS_EW && n->type.live <= LIVE_STEP &&
              ir_same_dims(n->type, r->update->in[0]->type);
    for (int k = 0; ok && k < n->n_in; k++) ok = fits(r, n->in[k]);
    return ok;
}

/* Takes in what leads to the update, as far as nothing else reads it. mark: uses in the whole body. A sum is
 * taken as it is found, so of two it is the one nearer to the update. */
static void grow(Region *r) {
    IrNode *g = r->update->in[0];
    r->member[r->n++] = g;
    if (ir_sums_gradient(g)) r->sum = g;
    for (int i = 0; i < r->n; i++)
        for (int k = 0; !ir_sums_gradient(r->member[i]) && k < r->member[i]->n_in && r->n < MAX_BODY; k++) {
            IrNode *x = r->member[i]->in[k];
            bool sum = ir_sums_gradient(x) && !r->sum && ir_same_dims(x->type, g->type);
            if (member(r, x) || (!sum && !elementwise_here(r, x)) || x->mark != uses_inside(r, x)) continue;
            r->member[r->n++] = x;
            if (sum) r->sum = x;
        }
}

static bool reads_weight(const IrNode *n) {
    for (int i = 0; i < n->n_in; i++)
        if (pass_is_weight(n->in[i], -1)) return true;
    return false;
}

/* What is elementwise may read the gradient more than once, but outside of the region nothing may. */
static bool leads_to_a_sum(const IrNode *n, int depth) {
    if (ir_sums_gradient(n)) return true;
    for (int k = 0; depth > 0 && ir_ops[n->op].cls == CLASS_EW && k < n->n_in; k++)
        if (leads_to_a_sum(n->in[k], depth - 1)) return true;
    return false;
}

/* What gains nothing by being joined, or loses. */
static Verdict worth(const IrNode *sum, const bool *taking) {
    if (sum->op == OP_SUMROWS) return taking[sum->id] ? TAKING : JOINED;
    if (ir_type_width(sum->type) > MOST_COLUMNS) return WIDE;
    return ir_type_size(sum->type) > MOST_SUMS ? LARGE : JOINED;
}

static Verdict find(Region *r, const IrFunc *f, IrNode *update, const bool *taking) {
    IrNode *g = update->in[0];
    *r = (Region){.update = update};
    if (!leads_to_a_sum(g, MAX_BODY)) return NO_SUM;
    if (update->n_in > 1) return CLIPPED;
    if (f->blocks) return BY_BLOCKS;
    if (g->mark != 1) return READ_ELSEWHERE;
    if (!ir_sums_gradient(g) && !elementwise_here(r, g)) return NO_SUM;
    grow(r);
    if (!r->sum) return READ_ELSEWHERE;
    if (reads_weight(r->sum)) return NO_SUM;
    return taking ? worth(r->sum, taking) : JOINED;
}

/* ---- the region ---- */

/* Distinct operands from outside, the sum's first; -1 if there are too many. */
static int operands(const Region *r, IrNode **out) {
    int n = 0;
    for (int i = -1; i < r->n; i++) {
        const IrNode *user = i < 0 ? r->sum : r->member[i];
        for (int k = 0; k < user->n_in; k++) {
            bool known = member(r, user->in[k]);
            for (int j = 0; j < n; j++) known |= out[j] == user->in[k];
            if (known) continue;
            if (n == MAX_OPERANDS) return -1;
            out[n++] = user->in[k];
        }
    }
    return n;
}

/* The body: operands, sum and elementwise ops as they stood, the update. */
static IrNode *region_node(IrProgram *p, Region *r, IrNode **outside, int n_in) {
    IrNode *order[MAX_BODY + 1];
    qsort(r->member, (size_t)r->n, sizeof *r->member, pass_by_id);
    memcpy(order, r->member, (size_t)r->n * sizeof *order);
    order[r->n] = r->update;
    IrBody *body = pass_region_body(p, outside, n_in, order, r->n + 1), aside = {0};
    IrBuilder b = {p, &aside, r->sum->span, r->sum->name};
    return ir_fused(&b, "update", n_in, outside, body);
}

/* ---- the function ---- */

static void tell(IrProgram *p, const int count[VERDICTS]) {
    static const char *const why[VERDICTS] = {
        [CLIPPED] = "clip_norm needs the norm of the whole gradient first",
        [BY_BLOCKS] = "micro-batches add to the gradient block by block",
        [READ_ELSEWHERE] = "something else reads the gradient",
        [TAKING] = "the sum takes in what it adds up",
        [WIDE] = "the weight has more than 256 columns",
        [LARGE] = "the weight has more than 262144 elements",
        [NO_SUM] = "the gradient isn't one sum over rows",
    };
    int all = 0;
    const char *others = "";
    for (int v = 0; v < VERDICTS; v++) {
        all += count[v];
        if (v != JOINED && count[v])
            others = arena_printf(p->arena, "%s; %d not, as %s", others, count[v], why[v]);
    }
    if (all)
        pass_effect(p, "fuse", "%d of %d update%s of whole weights in one visit with the gradient%s",
                    count[JOINED], all, all == 1 ? "" : "s", others);
}

/* An update is rebuilt at its own place, which all that it reads stands above. mark: uses, or TAKEN. */
bool pass_fuse_updates(IrProgram *p, IrFunc *f, const bool *taking) {
    enum { TAKEN = -1 };
    IrBody old = f->body;
    int count[VERDICTS] = {0};
    pass_count_uses(&f->body);
    for (int i = 0; i < old.n; i++) old.nodes[i]->id = i;
    IrNode **made = ARENA_ARRAY(p->arena, IrNode *, old.n + 1);
    for (int i = 0; i < old.n; i++) {
        Region r;
        IrNode *outside[MAX_OPERANDS];
        if (old.nodes[i]->op != OP_UPDATE) continue;
        Verdict v = find(&r, f, old.nodes[i], taking);
        int n_in = v == JOINED ? operands(&r, outside) : -1;
        if (v == JOINED && n_in < 0) v = NO_SUM;
        count[v]++;
        if (v != JOINED) continue;
        made[i] = region_node(p, &r, outside, n_in);
        if (!made[i]) return false;
        for (int k = 0; k < r.n; k++) r.member[k]->mark = TAKEN;
    }
    tell(p, count);
    f->body = (IrBody){0};
    for (int i = 0; i < old.n; i++)
        if (made[i] || old.nodes[i]->mark != TAKEN) pass_push(p, &f->body, made[i] ? made[i] : old.nodes[i]);
    return true;
}
