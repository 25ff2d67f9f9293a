/* Part of fuse: chains that read the same value, or of which one reads the other, become one region with
 * several results, so that what they share is read once, and is computed nowhere else if nothing else reads
 * it. So a loss and its gradient are one visit of the prediction:
 *
 * before:
 *   %6 = sub %5, %1 : f32[1]
 *   %7 = square %6 : f32[1]
 *   %11 = add %6, %6 : f32[1]
 *   %12 = mul %2, %11 : f32[1]
 * after:
 *   %6 = fused %5, %1, %2 {kind="chain"} : f32[1] {
 *     %7 = arg {index=0} : f32[1]
 *     %8 = arg {index=1} : f32[1]
 *     %9 = arg {index=2} : step f32[1]
 *     %10 = sub %7, %8 : f32[1]
 *     %11 = square %10 : f32[1]
 *     %12 = out %11 {index=1} : none
 *     %13 = add %10, %10 : f32[1]
 *     %14 = mul %9, %13 : f32[1]
 *   }
 *   %15 = result %6 {index=1} : f32[1]
 * (tests/golden/passes/fuse/siblings.*)
 *
 * Joined are chains of exactly one type, of which neither needs what something outside makes of the other,
 * and that stand between the same barriers: a chain that waited for the other's statistics would make the
 * step longer. In func train, where forward and backward work meet. */
#include "passes/fuse_parts.h"
#include <string.h>

enum { MOST_OPS = 24, MOST_OPERANDS = 16, MOST_RESULTS = 8 };

typedef struct {
    IrProgram *p;
    IrBody *body;
    int *group, *next;  /* by node: the first of its group; the next of its group, -1: none */
    int *level;         /* by node: how many barriers are before it, as far as types tell */
    int *seen, visit;   /* by group: the search that has been there */
    IrNode **outcome;   /* by node: what stands for it in the end */
    bool *read_outside; /* by node: by another group */
} Siblings;

/* ---- what may be joined ---- */

static bool chain(const IrNode *n) {
    if (n->type.live != LIVE_ROW && n->type.live != LIVE_POS) return false;
    return ir_ops[n->op].cls == CLASS_EW || (n->op == OP_FUSED && strcmp(ir_attr_s(n, "kind"), "chain") == 0);
}

/* What is made a row is handed to what is made a step, or to unique rows, across a barrier, and back. */
static bool barrier_between(const IrNode *from, const IrNode *to) {
    if (ir_is_reader(from) || ir_ops[from->op].cls == CLASS_SRC) return false;
    if (to->type.elem == TY_NONE) return true;
    bool unique = from->type.live == LIVE_UNIQ || to->type.live == LIVE_UNIQ;
    return (from->type.live <= LIVE_STEP) != (to->type.live <= LIVE_STEP) ||
           (unique && from->type.live != to->type.live);
}

static void find_levels(Siblings *s) {
    for (int i = 0; i < s->body->n; i++) {
        const IrNode *n = s->body->nodes[i];
        for (int k = 0; k < n->n_in; k++) {
            int level = s->level[n->in[k]->id] + barrier_between(n->in[k], n);
            if (s->level[i] < level) s->level[i] = level;
        }
    }
}

/* Whether group `of` needs something of group `other` by way of a third one. */
static bool needs(Siblings *s, int of, int other, int at) {
    for (int i = at; i >= 0; i = s->next[i]) {
        const IrNode *n = s->body->nodes[i];
        for (int k = 0; k < n->n_in; k++) {
            int g = s->group[n->in[k]->id];
            if (g == other && at != of) return true;
            if (g == other || g == of || s->seen[g] == s->visit) continue;
            s->seen[g] = s->visit;
            if (needs(s, of, other, g)) return true;
        }
    }
    return false;
}

static bool independent(Siblings *s, int a, int b) {
    s->visit++;
    if (needs(s, a, b, a)) return false;
    s->visit++;
    return !needs(s, b, a, b);
}

static int ops_of(const IrNode *n) {
    int ops = n->op != OP_FUSED;
    for (int i = 0; n->body && i < n->body->n; i++) ops += ir_ops[n->body->nodes[i]->op].cls == CLASS_EW;
    return ops;
}

typedef struct {
    IrNode *operand[MOST_OPERANDS];
    int operands, ops, results;
    bool fits;
} Size;

static void add_member(const Siblings *s, Size *z, int at, int a, int b) {
    const IrNode *n = s->body->nodes[at];
    z->ops += ops_of(n), z->results++;
    for (int k = 0; k < n->n_in; k++) {
        int g = s->group[n->in[k]->id], i = 0;
        if (g == a || g == b) continue;
        while (i < z->operands && z->operand[i] != n->in[k]) i++;
        if (i < z->operands) continue;
        if (i == MOST_OPERANDS)
            z->fits = false;
        else
            z->operand[z->operands++] = n->in[k];
    }
}

static bool fit_together(const Siblings *s, int a, int b) {
    Size z = {.fits = true};
    for (int i = a; i >= 0; i = s->next[i]) add_member(s, &z, i, a, b);
    for (int i = b; i >= 0; i = s->next[i]) add_member(s, &z, i, a, b);
    return z.fits && z.ops <= MOST_OPS && z.results <= MOST_RESULTS;
}

static void try_to_join(Siblings *s, int x, int y) {
    int a = s->group[x], b = s->group[y];
    if (a == b || !ir_type_eq(s->body->nodes[x]->type, s->body->nodes[y]->type)) return;
    if (s->level[a] != s->level[b] || !fit_together(s, a, b) || !independent(s, a, b)) return;
    int last = a;
    while (s->next[last] >= 0) last = s->next[last];
    s->next[last] = b;
    for (int i = b; i >= 0; i = s->next[i]) s->group[i] = a;
}

/* Chains that read x whole are joined with the first of them, and with x if that is a chain. */
static void join_readers(Siblings *s, int x) {
    const IrNode *shared = s->body->nodes[x];
    int with = chain(shared) ? x : -1;
    for (int i = x + 1; i < s->body->n; i++) {
        const IrNode *n = s->body->nodes[i];
        bool reads = false;
        for (int k = 0; k < n->n_in; k++) reads |= n->in[k] == shared;
        if (!reads || !chain(n) || !ir_type_eq(n->type, shared->type)) continue;
        if (with >= 0)
            try_to_join(s, with, i);
        else
            with = i;
    }
}

/* ---- the region ---- */

/* n among the copies that stand in the body already, so that what several chains compute is computed once. */
static IrNode *copied(IrProgram *p, IrBody *body, IrNode *n, bool first_result) {
    IrNode *copy = ir_clone_node(p, n);
    for (int k = 0; k < n->n_in; k++) copy->in[k] = n->in[k]->aux;
    for (int i = 0; i < body->n && !first_result; i++)
        if (pass_equal(body->nodes[i], copy)) return n->aux = body->nodes[i];
    pass_push(p, body, copy);
    return n->aux = copy;
}

/* A member's ops. is_first: its value is the region's first result, which must come last. */
static void inline_member(IrProgram *p, IrBody *body, IrNode *n, bool is_first) {
    if (n->op != OP_FUSED) {
        copied(p, body, n, is_first);
        return;
    }
    for (int i = 0; i < n->body->n; i++) {
        IrNode *b = n->body->nodes[i];
        if (b->op == OP_ARG)
            b->aux = n->in[ir_attr_i(b, "index")]->aux;
        else
            n->aux = copied(p, body, b, is_first && i == n->body->n - 1);
    }
}

/* The group's member that stands last, whose value is the region's first result. */
static int last_of(const Siblings *s, int first) {
    int last = first;
    for (int i = first; i >= 0; i = s->next[i])
        if (i > last) last = i;
    return last;
}

static bool make_region(Siblings *s, int first) {
    Size z = {.fits = true};
    int last = last_of(s, first), number = 0;
    for (int i = first; i >= 0; i = s->next[i]) add_member(s, &z, i, first, first);
    IrNode *end = s->body->nodes[last];
    IrBody *body = ARENA_NEW(s->p->arena, IrBody), aside = {0};
    IrBuilder in = {.p = s->p, .body = body}, b = {s->p, &aside, end->span, end->name};
    for (int i = 0; i < z.operands; i++) {
        in.span = z.operand[i]->span;
        z.operand[i]->aux = ir_arg(&in, i, z.operand[i]->type);
    }
    IrNode **also = ARENA_ARRAY(s->p->arena, IrNode *, z.results);
    for (int i = 0; i < s->body->n; i++) { /* in their order */
        IrNode *n = s->body->nodes[i];
        if (s->group[i] != first) continue;
        inline_member(s->p, body, n, i == last);
        if (i == last || !s->read_outside[i]) continue;
        IrAttr index = ir_ai("index", number + 1);
        in.span = n->span;
        if (!ir_build(&in, OP_OUT, 1, (IrNode *[]){n->aux}, 1, &index)) return false;
        also[number++] = n;
    }
    IrNode *region = s->outcome[last] = ir_fused(&b, "chain", z.operands, z.operand, body);
    for (int i = 0; region && i < number; i++) {
        IrAttr index = ir_ai("index", i + 1);
        b.span = also[i]->span, b.name = also[i]->name;
        s->outcome[also[i]->id] = ir_build(&b, OP_RESULT, 1, &region, 1, &index);
    }
    return region != NULL;
}

/* ---- the body, in an order in which operands stand above ---- */

static void place(Siblings *s, IrBody *out, int at);

static void place_operands(Siblings *s, IrBody *out, IrNode *n) {
    for (int k = 0; k < n->n_in; k++) {
        place(s, out, n->in[k]->id);
        n->in[k] = s->outcome[n->in[k]->id];
    }
}

/* mark: whether the group is placed already. */
static void place(Siblings *s, IrBody *out, int at) {
    int first = s->group[at];
    if (s->body->nodes[first]->mark) return;
    s->body->nodes[first]->mark = 1;
    int last = last_of(s, first);
    IrNode *n = s->outcome[last];
    place_operands(s, out, n);
    pass_push(s->p, out, n);
    for (int i = 0; i < s->body->n && s->next[first] >= 0; i++)
        if (s->group[i] == first && i != last && s->outcome[i] != s->body->nodes[i])
            pass_push(s->p, out, s->outcome[i]);
}

int pass_fuse_siblings(IrProgram *p, IrFunc *f) {
    int n = f->body.n, made = 0;
    IrBody old = f->body;
    Siblings s = {.p = p, .body = &old};
    s.group = ARENA_ARRAY(p->arena, int, n + 1), s.next = ARENA_ARRAY(p->arena, int, n + 1);
    s.level = ARENA_ARRAY(p->arena, int, n + 1), s.seen = ARENA_ARRAY(p->arena, int, n + 1);
    s.outcome = ARENA_ARRAY(p->arena, IrNode *, n + 1), s.read_outside = ARENA_ARRAY(p->arena, bool, n + 1);
    for (int i = 0; i < n; i++) {
        old.nodes[i]->id = i, old.nodes[i]->mark = 0;
        s.group[i] = i, s.next[i] = -1, s.outcome[i] = old.nodes[i];
    }
    find_levels(&s);
    for (int i = 0; i < n; i++)
        if (old.nodes[i]->type.live == LIVE_ROW || old.nodes[i]->type.live == LIVE_POS) join_readers(&s, i);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < old.nodes[i]->n_in; k++)
            s.read_outside[old.nodes[i]->in[k]->id] |= s.group[old.nodes[i]->in[k]->id] != s.group[i];
    for (int i = 0; i < n; i++) {
        if (s.group[i] != i || s.next[i] < 0) continue;
        if (!make_region(&s, i)) return -1;
        made++;
    }
    if (!made) return 0;
    f->body = (IrBody){0};
    for (int i = 0; i < n; i++) place(&s, &f->body, i);
    return made;
}
