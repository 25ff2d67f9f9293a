/* Reads functions: nodes, their types, regions and plans. Each node's type is inferred as it is read, so that
 * a wrong one is reported where it stands. */
#include "ir/read.h"
#include <string.h>

/* Ids of one function: open addressing, at most half full. */
typedef struct {
    IrNode **nodes; /* NULL: free */
    const IrBody **bodies;
    int n, cells; /* cells: a power of 2, or 0 */
} Scope;

typedef struct {
    Reader *r;
    Scope scope;
} FuncReader;

static int scope_cell(const Scope *s, int id) {
    int c = (int)((uint32_t)id * 2654435769u) & (s->cells - 1);
    while (s->nodes[c] && s->nodes[c]->id != id) c = (c + 1) & (s->cells - 1);
    return c;
}

static const IrNode *scope_find(const Scope *s, int id) {
    return s->cells ? s->nodes[scope_cell(s, id)] : NULL;
}

static void scope_add(Arena *a, Scope *s, IrNode *n, const IrBody *body) {
    if (2 * (s->n + 1) > s->cells) {
        Scope old = *s;
        s->cells = old.cells ? 2 * old.cells : 64;
        s->nodes = ARENA_ARRAY(a, IrNode *, s->cells);
        s->bodies = ARENA_ARRAY(a, const IrBody *, s->cells);
        for (int i = 0; i < old.cells; i++) {
            if (!old.nodes[i]) continue;
            int c = scope_cell(s, old.nodes[i]->id);
            s->nodes[c] = old.nodes[i];
            s->bodies[c] = old.bodies[i];
        }
    }
    int c = scope_cell(s, n->id);
    s->nodes[c] = n;
    s->bodies[c] = body;
    s->n++;
}

/* ---- types ---- */

static bool read_type_axis(Reader *r, IrType *t) {
    int64_t index;
    if (lex_take(&r->lx, '~')) {
        t->live = LIVE_POS;
        if (!read_axis_name(r, &index)) return false;
    } else {
        t->live = LIVE_UNIQ;
        if (!lex_need(&r->lx, '@') || !read_weight_name(r, &index)) return false;
    }
    t->axis = (int)index;
    return true;
}

/* [16], [~h,16], [@shops,16]; of ids and texts only [~h]. */
static bool read_type_shape(Reader *r, IrType *t) {
    Lexer *lx = &r->lx;
    bool first = true;
    if (!lex_need(lx, '[')) return false;
    if (lx->token.kind == T_MARK && (lx->token.mark == '~' || lx->token.mark == '@')) {
        if (t->live != LIVE_ROW) return lex_expected(lx, "a size, as the value lives always or a step");
        if (!read_type_axis(r, t)) return false;
        first = false;
    }
    while (t->elem == TY_F32 ? first || lex_take(lx, ',') : false) {
        if (t->rank == IR_MAX_RANK)
            return lex_fail(lx, lx->token.span, NULL, "more than %d dimensions", IR_MAX_RANK);
        if (!lex_int(lx, 1, IR_MAX_ELEMS, &t->dim[t->rank++])) return false;
        first = false;
    }
    if (t->elem == TY_F32 && t->rank == 0) return lex_expected(lx, "','");
    return lex_need(lx, ']');
}

static bool read_type(Reader *r, IrType *t) {
    static const char *const elems[] = {"f32", "id", "str", "int", "key", "none"};
    Lexer *lx = &r->lx;
    int elem;
    *t = (IrType){.live = LIVE_ROW, .axis = -1};
    if (lex_take_word(lx, "always"))
        t->live = LIVE_ALWAYS;
    else if (lex_take_word(lx, "step"))
        t->live = LIVE_STEP;
    if (!lex_choice(lx, "a type", elems, COUNT(elems), &elem)) return false;
    t->elem = (IrElem)elem;
    if (t->elem == TY_NONE) {
        t->live = LIVE_STEP;
        return true;
    }
    if (t->elem == TY_ID &&
        (!lex_need(lx, '<') || !lex_int(lx, 1, IR_MAX_BOUND, &t->bound) || !lex_need(lx, '>')))
        return false;
    bool shaped = t->elem == TY_F32 || (lx->token.kind == T_MARK && lx->token.mark == '[');
    return !shaped || read_type_shape(r, t);
}

/* ---- attributes ---- */

static bool read_int_list(Reader *r, IrAttr *a) {
    int cap = 0;
    if (!lex_need(&r->lx, '[')) return false;
    while (!lex_take(&r->lx, ']')) {
        int64_t v;
        if ((a->ilist.n && !lex_need(&r->lx, ',')) || !lex_int(&r->lx, INT64_MIN, INT64_MAX, &v))
            return false;
        ARENA_PUSH(r->lx.arena, a->ilist.v, a->ilist.n, cap, v);
    }
    return true;
}

static bool read_double_list(Reader *r, IrAttr *a) {
    int cap = 0;
    if (!lex_need(&r->lx, '[')) return false;
    while (!lex_take(&r->lx, ']')) {
        double v;
        if ((a->flist.n && !lex_need(&r->lx, ',')) || !lex_double(&r->lx, &v)) return false;
        ARENA_PUSH(r->lx.arena, a->flist.v, a->flist.n, cap, v);
    }
    return true;
}

static bool read_attr_value(Reader *r, IrAttr *a) {
    Lexer *lx = &r->lx;
    switch (a->kind) {
    case 'b': return lex_int(lx, 0, 1, &a->i);
    case 'f': return lex_double(lx, &a->f);
    case 's': return lex_string(lx, &a->s);
    case 'I': return read_int_list(r, a);
    case 'F': return read_double_list(r, a);
    case 'w': return read_weight_name(r, &a->i);
    case 'c': return read_column_name(r, &a->i);
    case 'x': return read_axis_name(r, &a->i);
    case 'v': return lex_int(lx, 0, r->p->n_vocabs - 1, &a->i);
    case 'o': return lex_int(lx, 0, r->p->n_opts - 1, &a->i);
    default: return lex_int(lx, INT64_MIN, INT64_MAX, &a->i);
    }
}

/* {key=value, …}: keys and kinds are the op table's. */
static bool read_attrs(Reader *r, IrNode *n) {
    IrAttrSpec specs[IR_MAX_ATTRS];
    const char *names[IR_MAX_ATTRS];
    int n_specs = ir_attr_specs(n->op, specs), cap = 0;
    if (!lex_take(&r->lx, '{')) return !r->lx.failed;
    for (int i = 0; i < n_specs; i++)
        names[i] = arena_strndup(r->lx.arena, specs[i].name, (size_t)specs[i].len);
    do {
        int which;
        Span at = r->lx.token.span;
        const char *what = n_specs ? arena_printf(r->lx.arena, "an attribute of %s", ir_ops[n->op].text)
                                   : arena_printf(r->lx.arena, "no attributes of %s", ir_ops[n->op].text);
        if (!lex_choice(&r->lx, what, names, n_specs, &which)) return false;
        if (ir_attr(n, names[which]))
            return lex_fail(&r->lx, at, NULL, "attribute '%s' is given twice", names[which]);
        IrAttr a = {.key = names[which], .kind = specs[which].kind};
        if (!lex_need(&r->lx, '=') || !read_attr_value(r, &a)) return false;
        ARENA_PUSH(r->lx.arena, n->attrs, n->n_attrs, cap, a);
    } while (lex_take(&r->lx, ','));
    return lex_need(&r->lx, '}');
}

/* ---- plan ---- */

static bool read_at(Lexer *lx, IrPlan *plan) {
    int region;
    if (!lex_choice(lx, "fixed, axis, uniq, input or local", ir_region_names, N_REGIONS, &region))
        return false;
    plan->region = (IrRegionKind)region;
    return lex_need(lx, '+') && lex_int(lx, 0, INT64_MAX, &plan->offset);
}

/* phase=3 domain=rows block=64 kernel=tile at=fixed+4096 */
static bool read_plan(Lexer *lx, IrPlan *plan) {
    enum { PHASE, DOMAIN, BLOCK, KERNEL, AT, COL, LD, PER_BLOCK };
    static const char *const words[] = {"phase", "domain", "block", "kernel", "at", "col", "ld", "per_block"};
    while (!lx->failed && lx->token.kind == T_WORD) {
        int k, choice = 0;
        bool ok = false;
        if (!lex_choice(lx, "phase, domain, block, kernel, at, col, ld or per_block", words, COUNT(words),
                        &k) ||
            !lex_need(lx, '='))
            return false;
        switch (k) {
        case PHASE: ok = lex_int32(lx, 0, INT32_MAX, &plan->phase); break;
        case DOMAIN:
            ok = lex_choice(lx, "rows, uniq, tiles or one", ir_domain_names, 5, &choice);
            plan->domain = (IrDomain)choice;
            break;
        case BLOCK: ok = lex_int32(lx, 0, INT32_MAX, &plan->block); break;
        case KERNEL:
            ok = lex_choice(lx, "loop, tile, library or amx", ir_kernel_names, 5, &choice);
            plan->kernel = (IrKernel)choice;
            break;
        case AT: ok = read_at(lx, plan); break;
        case COL: ok = lex_int(lx, 0, INT64_MAX, &plan->col); break;
        case LD: ok = lex_int(lx, 0, INT64_MAX, &plan->ld); break;
        case PER_BLOCK:
            ok = lex_int32(lx, 0, 1, &choice);
            plan->per_block = choice;
            break;
        }
        if (!ok) return false;
    }
    return !lx->failed;
}

/* ---- nodes ---- */

static bool read_body(FuncReader *fr, IrBody *body, int depth);

static bool read_op(Lexer *lx, IrOp *out) {
    static const char *texts[OP_COUNT];
    int op;
    for (int i = 0; i < OP_COUNT; i++) texts[i] = ir_ops[i].text;
    if (!lex_choice(lx, "an op", texts, OP_COUNT, &op)) return false;
    *out = (IrOp)op;
    return true;
}

static bool read_operands(FuncReader *fr, IrNode *n, const IrBody *body) {
    Lexer *lx = &fr->r->lx;
    int cap = 0;
    if (lx->token.kind != T_VALUE) return !lx->failed;
    do {
        if (lx->token.kind != T_VALUE) return lex_expected(lx, "an operand");
        IrNode *in = (IrNode *)scope_find(&fr->scope, (int)lx->token.id);
        if (!in)
            return lex_fail(lx, lx->token.span, NULL, "expected a value defined above, found %%%lld",
                            (long long)lx->token.id);
        if (fr->scope.bodies[scope_cell(&fr->scope, in->id)] != body)
            return lex_fail(lx, lx->token.span, "operands come into a region as arguments",
                            "expected a value of the same body, found %%%lld", (long long)lx->token.id);
        ARENA_PUSH(lx->arena, n->in, n->n_in, cap, in);
        lex_next(lx);
    } while (lex_take(lx, ','));
    return !lx->failed;
}

static bool check_type(FuncReader *fr, IrNode *n, Span op_at, Span type_at) {
    IrType inferred;
    const char *why = NULL, *text = ir_ops[n->op].text;
    if (!ir_infer(fr->r->p, n, &inferred, &why))
        return lex_fail(&fr->r->lx, op_at, NULL, "%s: %s", text, why);
    if (ir_type_eq(inferred, n->type)) return true;
    return lex_fail(&fr->r->lx, type_at, NULL, "expected type %s of %s, found %s",
                    ir_type_text(fr->r->p, inferred), text, ir_type_text(fr->r->p, n->type));
}

/* After the type: place, layer, plan, body. */
static bool read_annotations(FuncReader *fr, IrNode *n, int depth) {
    Lexer *lx = &fr->r->lx;
    if (lx->token.kind == T_PLACE && !read_place(fr->r, &n->span)) return false;
    if (lx->token.kind == T_STRING && !lex_string(lx, &n->name)) return false;
    if (lex_take(lx, '#') && !read_plan(lx, &n->plan)) return false;
    if (!lx->failed && lex_take(lx, '{')) {
        if (depth == READ_MAX_DEPTH)
            return lex_fail(lx, lx->token.span, NULL, "regions nested more than %d deep", READ_MAX_DEPTH);
        n->body = ARENA_NEW(lx->arena, IrBody);
        if (!read_body(fr, n->body, depth + 1)) return false;
    }
    return !lx->failed;
}

/* %12 = matmul %11, %10 {…} : f32[512] … */
static bool read_node(FuncReader *fr, IrBody *body, int depth) {
    Lexer *lx = &fr->r->lx;
    IrNode *n = ARENA_NEW(lx->arena, IrNode);
    Span *place = ARENA_NEW(lx->arena, Span);
    n->aux = place;
    *place = lx->token.span;
    n->id = (int)lx->token.id;
    n->plan.phase = -1;
    if (n->id >= INT32_MAX) return lex_fail(lx, *place, NULL, "expected a smaller number");
    if (scope_find(&fr->scope, n->id)) return lex_fail(lx, *place, NULL, "%%%d is defined twice", n->id);
    lex_next(lx);
    Span op_at = {0}, type_at = {0};
    bool ok = lex_need(lx, '=');
    op_at = lx->token.span;
    ok = ok && read_op(lx, &n->op) && read_operands(fr, n, body) && read_attrs(fr->r, n) && lex_need(lx, ':');
    type_at = lx->token.span;
    ok = ok && read_type(fr->r, &n->type) && read_annotations(fr, n, depth);
    if (!ok || !check_type(fr, n, op_at, type_at)) return false;
    scope_add(lx->arena, &fr->scope, n, body);
    ARENA_PUSH(lx->arena, body->nodes, body->n, body->cap, n);
    return lex_line_end(lx);
}

/* After "{" up to and with "}". */
static bool read_body(FuncReader *fr, IrBody *body, int depth) {
    Lexer *lx = &fr->r->lx;
    if (!lex_line_end(lx)) return false;
    while (!lex_take(lx, '}')) {
        if (lx->failed) return false;
        if (lx->token.kind == T_NEWLINE)
            lex_next(lx);
        else if (lx->token.kind == T_VALUE) {
            if (!read_node(fr, body, depth)) return false;
        } else
            return lex_expected(lx, "a value or '}'");
    }
    return true;
}

/* ---- functions ---- */

/* No arena is as large, and sums and multiples of such sizes are still numbers. */
static const int64_t most_bytes = (int64_t)1 << 50;

/* [h: 36, …]: for each named axis or table its elements, the others 0. */
static bool read_elems(Reader *r, int64_t **out, int n, bool (*read_ref)(Reader *, int64_t *)) {
    Lexer *lx = &r->lx;
    bool first = true;
    *out = ARENA_ARRAY(lx->arena, int64_t, n);
    if (!lex_need(lx, '[')) return false;
    while (!lex_take(lx, ']')) {
        int64_t index;
        if ((!first && !lex_need(lx, ',')) || !read_ref(r, &index) || !lex_need(lx, ':')) return false;
        if (!lex_int(lx, 1, most_bytes / 4, &(*out)[index])) return false;
        first = false;
    }
    return true;
}

static bool read_loop(Lexer *lx, IrFunc *f) {
    int64_t first, last;
    if (!lex_need(lx, '[') || !lex_int(lx, 0, INT32_MAX, &first) || !lex_need(lx, ',') ||
        !lex_int(lx, first, INT32_MAX, &last) || !lex_need(lx, ']'))
        return false;
    f->loop_first = (int)first, f->loop_last = (int)last;
    return true;
}

bool read_func(Reader *r) {
    enum { FIXED, LOWER, LOCAL, BLOCKS, LOOP, AXES, LOCAL_AXES, UNIQ };
    static const char *const words[] = {"fixed", "lower", "local",      "blocks",
                                        "loop",  "axes",  "local_axes", "uniq"};
    Lexer *lx = &r->lx;
    const char *name;
    Span at = lx->token.span, loop = {0}, lower = {0};
    if (!lex_name(lx, "a function's name", &name)) return false;
    if (ir_func(r->p, name)) return lex_fail(lx, at, NULL, "a second function '%.60s'", name);
    IrFunc *f = ir_func_new(r->p, name);
    while (!lex_take(lx, '{')) {
        int k;
        bool ok = false;
        if (lx->token.kind != T_WORD) return lex_expected(lx, "'{'");
        if (!lex_choice(lx, "fixed, lower, local, blocks, loop, axes, local_axes or uniq", words,
                        COUNT(words), &k) ||
            !lex_need(lx, '='))
            return false;
        switch (k) {
        case FIXED: ok = lex_int(lx, 0, most_bytes, &f->fixed_bytes); break;
        case LOWER:
            lower = lx->token.span;
            ok = lex_int(lx, 0, most_bytes, &f->lower_bytes);
            break;
        case LOCAL: ok = lex_int(lx, 0, most_bytes, &f->local_bytes); break;
        case BLOCKS: ok = lex_int(lx, 2, 1 << 20, &f->blocks); break;
        case LOOP:
            loop = lx->token.span;
            ok = read_loop(lx, f);
            break;
        case AXES: ok = read_elems(r, &f->axis_elems, r->p->n_axes, read_axis_name); break;
        case LOCAL_AXES: ok = read_elems(r, &f->local_elems, r->p->n_axes, read_axis_name); break;
        case UNIQ: ok = read_elems(r, &f->uniq_elems, r->p->n_weights, read_weight_name); break;
        }
        if (!ok) return false;
    }
    if (loop.line && !f->blocks)
        return lex_fail(lx, loop, NULL, "expected a loop in a function that has blocks, found no blocks");
    if (f->lower_bytes > f->fixed_bytes)
        return lex_fail(lx, lower, NULL, "expected at most the %lld bytes of the arena, found %lld",
                        (long long)f->fixed_bytes, (long long)f->lower_bytes);
    FuncReader fr = {.r = r};
    return read_body(&fr, &f->body, 0) && lex_line_end(lx);
}
