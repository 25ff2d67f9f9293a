/* Helpers over a whole program: look-ups by name, numbering, use of columns, facts about optimizers. */
#include "ir/internal.h"
#include <string.h>

IrProgram *ir_program_new(Arena *a, Diag *d) {
    IrProgram *p = ARENA_NEW(a, IrProgram);
    p->arena = a;
    p->diag = d;
    return p;
}

IrFunc *ir_func_new(IrProgram *p, const char *name) {
    IrFunc *f = ARENA_NEW(p->arena, IrFunc);
    f->name = arena_strdup(p->arena, name);
    ARENA_PUSH(p->arena, p->funcs, p->n_funcs, p->cap_funcs, f);
    return f;
}

IrFunc *ir_func(const IrProgram *p, const char *name) {
    for (int i = 0; i < p->n_funcs; i++)
        if (strcmp(p->funcs[i]->name, name) == 0) return p->funcs[i];
    return NULL;
}

int ir_weight_by_name(const IrProgram *p, const char *name) {
    for (int i = 0; i < p->n_weights; i++)
        if (strcmp(p->weights[i].name, name) == 0) return i;
    return -1;
}

int ir_column_by_name(const IrProgram *p, const char *name) {
    for (int i = 0; i < p->input.n_columns; i++) {
        const IrColumn *c = &p->input.columns[i];
        if (c->kind != COL_SKIP && strcmp(c->name, name) == 0) return i;
    }
    return -1;
}

bool ir_path_matches(const char *path, const char *pattern) {
    for (; *pattern != '*'; path++, pattern++) {
        if (!*pattern) return !*path || *path == '.';
        if (*path != *pattern) return false;
    }
    for (;; path++) {
        if (ir_path_matches(path, pattern + 1)) return true;
        if (!*path) return false;
    }
}

/* ---- weights that are named ---- */

/* What names weights: marks them in `named`, or, if that is NULL, writes their numbers anew. */
static void weight_names(const IrBody *b, bool *named, const int *to) {
    for (int i = 0; i < b->n; i++) {
        IrNode *n = b->nodes[i];
        for (int k = 0; k < n->n_attrs; k++) {
            IrAttr *a = &n->attrs[k];
            if (a->kind != 'w') continue;
            if (named)
                named[a->i] = true;
            else
                a->i = to[a->i];
        }
        if (n->type.live == LIVE_UNIQ && !named) n->type.axis = to[n->type.axis];
        if (n->body) weight_names(n->body, named, to);
    }
}

bool *ir_named_weights(const IrProgram *p) {
    bool *named = ARENA_ARRAY(p->arena, bool, p->n_weights + 1);
    for (int i = 0; i < p->n_funcs; i++) weight_names(&p->funcs[i]->body, named, NULL);
    return named;
}

int *ir_drop_weights(IrProgram *p, const bool *drop) {
    int *to = ARENA_ARRAY(p->arena, int, p->n_weights + 1), kept = 0;
    for (int i = 0; i < p->n_weights; i++) {
        to[i] = drop[i] ? -1 : kept;
        if (!drop[i]) p->weights[kept++] = p->weights[i];
    }
    p->n_weights = kept;
    for (int i = 0; i < p->n_funcs; i++) weight_names(&p->funcs[i]->body, NULL, to);
    return to;
}

/* ---- optimizers and initialisers ---- */

static const char *const opt_names[] = {
    [OPT_SGD] = "sgd",
    [OPT_MOMENTUM] = "momentum",
    [OPT_ADAGRAD] = "adagrad",
    [OPT_ADAGRAD_DECAY] = "adagrad_decay",
    [OPT_RMSPROP] = "rmsprop",
    [OPT_ADAM] = "adam",
    [OPT_ADAM_ASYNC] = "adam_async",
    [OPT_FTRL] = "ftrl",
};

static const char *const init_names[] = {
    [INIT_ZEROS] = "zeros",
    [INIT_ONES] = "ones",
    [INIT_CONSTANT] = "constant",
    [INIT_NORMAL] = "normal",
    [INIT_TRUNCATED_NORMAL] = "truncated_normal",
    [INIT_UNIFORM] = "uniform",
    [INIT_GLOROT_UNIFORM] = "glorot_uniform",
    [INIT_GLOROT_NORMAL] = "glorot_normal",
    [INIT_HE_NORMAL] = "he_normal",
};

const char *ir_opt_name(IrOptKind k) { return opt_names[k]; }
const char *ir_init_name(IrInit i) { return init_names[i]; }

/* Slots of one value an element. What is kept a weight or a row (adam_async's powers of beta, the steps of
 * adagrad_decay's decays and of exact adam) is no slot. */
int ir_opt_slots(const IrOptimizer *o, const char *names[3]) {
    int n = 0;
    switch (o->kind) {
    case OPT_SGD: break;
    case OPT_MOMENTUM: names[n++] = "v"; break;
    case OPT_ADAGRAD:
    case OPT_ADAGRAD_DECAY: names[n++] = "a"; break;
    case OPT_RMSPROP: names[n++] = "s"; break;
    case OPT_ADAM:
    case OPT_ADAM_ASYNC: names[n++] = "m", names[n++] = "v"; break;
    case OPT_FTRL: names[n++] = "n", names[n++] = "z"; break;
    }
    return n;
}

/* ---- numbering ---- */

static void renumber(IrBody *b, int *next) {
    for (int i = 0; i < b->n; i++) {
        b->nodes[i]->id = (*next)++;
        if (b->nodes[i]->body) renumber(b->nodes[i]->body, next);
    }
}

void ir_renumber(IrProgram *p) {
    p->next_id = 0;
    for (int i = 0; i < p->n_funcs; i++) {
        int next = 0;
        renumber(&p->funcs[i]->body, &next);
        if (next > p->next_id)
            p->next_id = next; /* a new node's id collides with none, in whichever function */
    }
}

bool ir_is_reader(const IrNode *n) { return n->op == OP_COLUMN || ir_ops[n->op].cls == CLASS_READ; }

const IrNode *ir_product_of(const IrNode *n) {
    if (ir_ops[n->op].cls == CLASS_PROD) return n;
    for (int i = 0; n->op == OP_FUSED && i < n->body->n; i++)
        if (ir_ops[n->body->nodes[i]->op].cls == CLASS_PROD) return n->body->nodes[i];
    return NULL;
}

const IrNode *ir_result(const IrNode *region, int index) {
    for (int i = 0; region->body && i < region->body->n; i++) {
        const IrNode *n = region->body->nodes[i];
        if (n->op == OP_OUT && ir_attr_i(n, "index") == index) return n->in[0];
    }
    return NULL;
}

static bool is_number(const IrNode *n) {
    return n->type.elem == TY_F32 && n->type.rank == 1 && ir_type_size(n->type) == 1;
}

int ir_scaled_operand(const IrNode *n) {
    if ((n->op == OP_MUL || n->op == OP_DIV) && is_number(n->in[1])) return 0;
    return n->op == OP_MUL && is_number(n->in[0]) ? 1 : -1;
}

const IrNode *ir_writer(const IrNode *n) {
    if (n->op == OP_FUSED && n->body && n->body->n) n = n->body->nodes[n->body->n - 1];
    return n && (unsigned)n->op < OP_COUNT && ir_ops[n->op].effect == EFFECT_WRITES ? n : NULL;
}

bool ir_sums_gradient(const IrNode *n) {
    return n->op == OP_MATMULGRADW || n->op == OP_SUMROWS || n->op == OP_SUMBLOCKS;
}

int64_t ir_block_rows(const IrNode *n) {
    return ir_attr_i(n->op == OP_FUSED ? n->body->nodes[n->body->n - 1] : n, "rows");
}

bool ir_of_row_block(const IrNode *n) {
    IrOp op = ir_runs_as(n);
    return op == OP_BLOCKSUMS || op == OP_BNBLOCKSTATS || op == OP_BNBLOCKGSUMS;
}

bool ir_is_update_region(const IrNode *n) { return n->op == OP_FUSED && ir_writer(n); }

bool ir_is_recurrent(const IrNode *n) {
    return n->op == OP_GRU || n->op == OP_AUGRU || n->op == OP_GRUGRAD || n->op == OP_AUGRUGRAD;
}

void ir_last_reads(const IrBody *b) {
    int last = 0;
    for (int i = 0; i < b->n; i++) {
        IrNode *n = b->nodes[i];
        n->mark = n->plan.phase;
        if (n->plan.phase > last) last = n->plan.phase;
    }
    for (int i = 0; i < b->n; i++) {
        const IrNode *n = b->nodes[i];
        int until = ir_ops[n->op].effect == EFFECT_ROOT ? last : n->plan.phase;
        for (int k = 0; k < n->n_in; k++) {
            IrNode *read = (IrNode *)ir_viewed(n->in[k]);
            if (read->mark < until) read->mark = until;
        }
    }
    for (int i = 0; i < b->n; i++) /* a place lives as long as what stands within it; parts stand before */
        for (int k = 0; b->nodes[i]->op == OP_CONCAT && k < b->nodes[i]->n_in; k++)
            if (ir_in_place(b->nodes[i], k) && b->nodes[i]->mark < ir_part(b->nodes[i], k)->mark)
                b->nodes[i]->mark = ir_part(b->nodes[i], k)->mark;
}

bool ir_is_kept(const IrFunc *f, const IrNode *n) {
    return strcmp(f->name, "train") && n->type.live == LIVE_ALWAYS && ir_runs(n);
}

void ir_whole_life(const IrFunc *f, const IrNode *n, int *first, int *last) {
    if (ir_is_kept(f, n)) *first = 0, *last = f->body.nodes[f->body.n - 1]->plan.phase;
    if (!f->blocks) return;
    bool inside = *first >= f->loop_first && *first <= f->loop_last;
    if (*first < f->loop_first && *last >= f->loop_first && *last < f->loop_last) *last = f->loop_last;
    if (inside && *last > f->loop_last) *first = f->loop_first;
}

int64_t ir_row_block(const IrFunc *f) {
    int64_t block = 1;
    for (int i = 0; i < f->body.n; i++) {
        const IrPlan *p = &f->body.nodes[i]->plan;
        if (p->domain == DOM_ROWS && p->block > block) block = p->block;
    }
    return block;
}

bool ir_takes_bf16(const IrNode *n) {
    const IrAttr *bf16 = ir_attr(n, "bf16");
    return bf16 && bf16->i;
}

int64_t ir_place_elements(const IrNode *n) {
    int64_t size = ir_type_size(n->type);
    if (n->op != OP_PACK) return size;
    int64_t columns = n->type.dim[!ir_attr_i(n, "t")], terms = size / columns;
    if (ir_takes_bf16(n)) terms = (terms + 1) / 2;
    return terms * ((columns + PACK_LANES - 1) / PACK_LANES * PACK_LANES);
}

int ir_count_uses(IrBody *b, const IrNode *n) {
    int uses = 0;
    for (int i = 0; i < b->n; i++)
        for (int k = 0; k < b->nodes[i]->n_in; k++) uses += b->nodes[i]->in[k] == n;
    return uses;
}

/* ---- which columns are read ---- */

enum { NEEDED = 1, NEEDED_BY_PREDICT = 2 };

/* Backwards over the list: operands stand before their uses, so one sweep reaches everything. Updates count
 * as roots: what trains a weight is needed. */
static void mark_needed(IrBody *b, bool predicts_only) {
    for (int i = 0; i < b->n; i++) b->nodes[i]->mark = 0;
    for (int i = b->n - 1; i >= 0; i--) {
        IrNode *n = b->nodes[i];
        if (n->op == OP_PREDICT)
            n->mark |= NEEDED | NEEDED_BY_PREDICT;
        else if (!predicts_only && (ir_ops[n->op].effect == EFFECT_ROOT || ir_writer(n)))
            n->mark |= NEEDED;
        for (int k = 0; k < n->n_in; k++) n->in[k]->mark |= n->mark;
    }
}

/* The rows' lengths along a list come with any of its columns: a node that asks for an axis needs one. */
static void use_axis(IrProgram *p, int axis, int mark) {
    while (axis >= 0 && axis < p->n_axes && p->axes[axis].parent >= 0) axis = p->axes[axis].parent;
    IrColumn *first = NULL;
    for (int i = 0; i < p->input.n_columns; i++) {
        IrColumn *c = &p->input.columns[i];
        if (!c->is_list || c->axis != axis) continue;
        if (!first) first = c;
        if (mark & NEEDED_BY_PREDICT ? c->used_predict : c->used)
            return; /* already read for another reason */
    }
    if (!first) return;
    if (mark & NEEDED) first->used = true;
    if (mark & NEEDED_BY_PREDICT) first->used_predict = true;
}

static void collect_columns(IrProgram *p, const IrBody *b) {
    for (int i = 0; i < b->n; i++) {
        IrNode *n = b->nodes[i];
        if (n->op != OP_COLUMN || !n->mark) continue;
        IrColumn *c = &p->input.columns[ir_attr_i(n, "col")];
        c->used = true;
        if (n->mark & NEEDED_BY_PREDICT) c->used_predict = true;
    }
    for (int i = 0; i < b->n; i++) {
        IrNode *n = b->nodes[i];
        bool asks = n->op == OP_SEGLEN || n->op == OP_LONGEST || n->op == OP_BROADCAST;
        const IrAttr *axis = asks ? ir_attr(n, "axis") : NULL;
        if (axis && n->mark) use_axis(p, (int)axis->i, n->mark);
    }
}

void ir_mark_used(IrProgram *p) {
    for (int i = 0; i < p->input.n_columns; i++)
        p->input.columns[i].used = p->input.columns[i].used_predict = false;
    for (int i = 0; i < p->n_funcs; i++) {
        IrFunc *f = p->funcs[i];
        /* training and evaluation keep their predictions; all functions agree on what a prediction depends on
         */
        mark_needed(&f->body, strcmp(f->name, "predict") == 0);
        collect_columns(p, &f->body);
    }
}

void ir_fans(const IrWeight *w, double *fan_in, double *fan_out) {
    int64_t in = w->rank >= 2 ? w->dim[w->rank - 2] : w->dim[0], out = w->dim[w->rank - 1];
    *fan_in = (double)in;
    *fan_out = (double)out;
}
