/* What a plan says of each kernel. */
#include "backend/plan_facts.h"
#include <inttypes.h>
#include <string.h>

/* ---- texts ---- */

const char *plan_from(const IrProgram *p, const IrNode *n) {
    const Diag *d = p->diag;
    if (!n->span.line || n->span.file >= d->n_files) return "-";
    const char *path = d->files[n->span.file].path, *slash = strrchr(path, '/');
    return arena_printf(p->arena, "%s:%u", slash ? slash + 1 : path, n->span.line);
}

/* "fixed+4096", "~h+36 36:72 of 144": which elements of each unit of another's place */
const char *plan_place(const IrProgram *p, const IrNode *n) {
    int64_t at = n->plan.offset, col = n->plan.col;
    const char *part = n->plan.ld ? arena_printf(p->arena, " %" PRId64 ":%" PRId64 " of %" PRId64, col,
                                                 col + ir_type_size(n->type), n->plan.ld)
                                  : "";
    switch (n->plan.region) {
    case REGION_FIXED: return arena_printf(p->arena, "fixed+%" PRId64 "%s", at, part);
    case REGION_AXIS:
        return arena_printf(p->arena, "~%s+%" PRId64 "%s", p->axes[n->type.axis].name, at, part);
    case REGION_UNIQ:
        return arena_printf(p->arena, "@%s+%" PRId64 "%s", p->weights[n->type.axis].name, at, part);
    case REGION_LOCAL:
        return n->type.live == LIVE_POS
                   ? arena_printf(p->arena, "local~%s+%" PRId64 "%s", p->axes[n->type.axis].name, at, part)
                   : arena_printf(p->arena, "local+%" PRId64 "%s", at, part);
    default: return "-";
    }
}

/* Operands, constants and names of results in a region are no ops of their own; the same op several times in
 * a row is told once, with a number: "add*15". */
const char *plan_op(const IrProgram *p, const IrNode *n) {
    if (n->op == OP_PACK && ir_takes_bf16(n)) return "pack bf16";
    if (n->op != OP_FUSED) return ir_ops[n->op].text;
    const char *text = "";
    for (int i = 0; i < n->body->n;) {
        IrOp op = n->body->nodes[i++]->op;
        int count = 1;
        if (op == OP_ARG || op == OP_CONST || op == OP_OUT) continue;
        for (; i < n->body->n && n->body->nodes[i]->op == op; i++) count++;
        const char *times_ = count > 1 ? arena_printf(p->arena, "*%d", count) : "";
        text = arena_printf(p->arena, "%s%s%s%s", text, *text ? "+" : "", ir_ops[op].text, times_);
    }
    return text;
}

/* "396x1024" of a product: inner size by columns; of several rows each: "25x16x25 a row" */
const char *plan_size(const IrProgram *p, const IrNode *n) {
    const IrNode *m = ir_product_of(n);
    if (!m) return n->type.elem == TY_F32 ? ir_type_text(p, n->type) : "-";
    EmitProduct s = emit_product(n, m);
    if (s.grad) return arena_printf(p->arena, "dW %" PRId64 "x%" PRId64, s.k, s.n);
    if (s.m * s.many == 1) return arena_printf(p->arena, "%" PRId64 "x%" PRId64, s.k, s.n);
    return arena_printf(p->arena, "%" PRId64 "x%" PRId64 "x%" PRId64 " a row", s.m * s.many, s.k, s.n);
}

const char *plan_kernel(const PassTarget *t, const IrNode *n) {
    static const char *const names[] = {[PRODUCT_TILE] = "tile",
                                        [PRODUCT_LIBRARY] = "library",
                                        [PRODUCT_NARROW] = "narrow",
                                        [PRODUCT_PLAIN] = "plain"};
    if (ir_is_recurrent(n)) return "recurrent";
    const IrNode *product = ir_product_of(n);
    if (product && emit_by_amx(t, n)) return "tdpbf16ps";
    if (product && ir_takes_bf16(product)) return t->bf16 ? "vdpbf16ps" : "bf16 pairs";
    return product ? names[emit_choice(t, n)] : "loop";
}

const char *plan_why(Arena *a, const PassTarget *t, const IrNode *n) {
    if (ir_is_recurrent(n)) return emit_gru_why(t, n, a);
    return ir_product_of(n) ? emit_choice_why(t, n) : "";
}

const char *plan_domain(const IrNode *n) {
    static const char *const names[] = {"", "rows", "uniq", "tiles", "one"};
    return names[n->plan.domain];
}

/* ---- memory ---- */

double plan_weight_bytes(const IrWeight *w) {
    double size = 4;
    for (int i = 0; i < w->rank; i++) size *= (double)w->dim[i];
    return size;
}

double plan_slot_bytes(const IrProgram *p, const IrWeight *w) {
    const char *names[3];
    return w->optimizer < 0 ? 0 : plan_weight_bytes(w) * ir_opt_slots(&p->opts[w->optimizer], names);
}
